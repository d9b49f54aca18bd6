"""Word vectors: which files are read, which row each word takes, what the other words get."""

import codecs
import gzip
import pickle
import re
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from loopback_hub import OWNER, Hub, Repository
from safetensors.torch import save
from tokenizers import Tokenizer, models
from transformers import TokenizersBackend

from sase_hf import build_tokenizer, load_word_vectors
from sase_hf.data.word_vectors import read_words

VECTORS = {"the": [0.5, -1.0, 2.25], "soup": [1e-3, 0.0, -7.0], "naïve": [3.0, 1.5, -0.125]}
GLOVE = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in VECTORS.items()).encode()
CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
ACUTE = "\N{COMBINING ACUTE ACCENT}"


def binary(end: bytes = b"\n") -> bytes:
    rows = (word.encode() + b" " + struct.pack("<3f", *row) for word, row in VECTORS.items())
    return b"3 3\n" + b"".join(row + end for row in rows)


FORMS = {
    "GloVe": GLOVE,
    "GloVe cut and with Windows line ends": GLOVE.rstrip(b"\n").replace(b"\n", b"\r\n"),
    "fastText": b"3 3\n" + GLOVE.replace(b"\n", b" \n"),
    "word2vec binary": binary(),
    "word2vec binary without line feeds": binary(end=b""),
}
PACKINGS = {"plain": bytes, "gzip": gzip.compress}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors"


@pytest.fixture(scope="module")
def tokenizer() -> TokenizersBackend:
    return build_tokenizer(["soup soup soup the the good"])


def exact_tokenizer(words: list[str]) -> TokenizersBackend:
    model = models.WordLevel({word: index for index, word in enumerate(words)})
    return TokenizersBackend(tokenizer_object=Tokenizer(model))


def read(path: Path, data: bytes) -> dict[str, list[float]]:
    path.write_bytes(data)
    words = list(read_words(path))
    matrix, _ = load_word_vectors(path, exact_tokenizer(words))
    return dict(zip(words, matrix.tolist(), strict=True))


@contextmanager
def memory_below(limit: float) -> Iterator[None]:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < limit


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("form", FORMS)
def test_word_vectors_form_is_known_by_content(path: Path, form: str, packing: str) -> None:
    """People rename files, and three tools write three forms; some words of GloVe hold spaces."""
    expected = {word: np.float32(row).tolist() for word, row in VECTORS.items()}
    assert read(path, PACKINGS[packing](FORMS[form])) == expected
    words = read(path, GLOVE + b". . . 1 2 3\nat name@example.org 4 5 6\n\xc2\xa0 7 8 9\n")
    assert list(words)[3:] == [". . .", "at name@example.org", "\N{NO-BREAK SPACE}"]
    assert words[". . ."] == [1, 2, 3]


def test_word_vectors_of_a_text_file_may_begin_with_a_byte_order_mark(path: Path) -> None:
    for start in ("", "3 3\n"):
        words = read(path, codecs.BOM_UTF8 + start.encode() + GLOVE)
        assert list(words) == list(VECTORS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"4 3\n" + GLOVE + b"bad 1 2 3 4\n", r"row 4: b'bad 1 2 3 4\\n' is not a word"),
        (GLOVE + b"caf\xe9 1 2 3\n", r"row 4: the word b'caf\\xe9' is not UTF-8"),
        (GLOVE + b"bad 1 x 3\n", r"row 4: 'bad': could not convert .* b'x'"),
        (GLOVE + b"bad 1 1e99 3\n", r"row 4: 'bad': a number is not finite"),
        (b"4 3\n" + GLOVE, r"first line promises 4 words, 3 follow; is the file complete\?"),
        (b"", r"line 1: 0 numbers per word"),
        (binary()[:-9], r"promises 3 words, 2 follow; is the file complete"),
        (b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of Git LFS"),
        (b"<html>", "it is a page of the web"),
        (b"PK\x03\x04" + bytes(99), "it is a zip archive; unzip it first"),
        (pickle.dumps({"the": [1.0]}), "line 1: "),  # loading a pickle would run its code
    ],
)
def test_word_vectors_malformed_row_is_named(path: Path, data: bytes, message: str) -> None:
    """Its number leads to it; a vector read one field off would do silent harm."""
    with pytest.raises(ValueError, match=message):
        read(path, data)


MANY = b"".join(b"w%d 1 2 3\n" % index for index in range(2_000))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"bad 1 2 3 4\n", r"row 2001: b'bad 1 2 3 4\n' is not a word"),
        (b"caf\xe9 1 2 3\n", r"row 2001: the word b'caf\xe9' is not UTF-8"),
        (b"bad 1 x 3\n", r"row 2001: 'bad': could not convert"),
        (b"bad 1 nan 3\n", r"row 2001: 'bad': a number is not finite"),
    ],
)
def test_word_vectors_pass_over_a_few_malformed_rows_and_name_the_first(
    bad: bytes, message: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One broken word in two million must not cost the others; many are no vector file."""
    data = MANY + bad + b"soup 4 5 6\nbad 7 8 9\n"
    path.write_bytes(data)
    tokenizer = build_tokenizer(["soup bad"])
    matrix, share = load_word_vectors(path, tokenizer)
    assert share == 1
    assert matrix[tokenizer.convert_tokens_to_ids("soup")].tolist() == [4, 5, 6]
    assert matrix[tokenizer.convert_tokens_to_ids("bad")].tolist() == [7, 8, 9], "the next row"
    assert f"{path}: rows passed over: 1, first {message}" in caplog.text
    path.write_bytes(MANY + 3 * bad + b"soup 4 5 6\n")
    with pytest.raises(ValueError, match=re.escape(message) + r".*\(3 of 2,004 rows cannot"):
        load_word_vectors(path, tokenizer)


def test_word_vectors_archive_that_was_cut_or_changed_is_refused(path: Path) -> None:
    """A download that broke off must not become a smaller vocabulary."""
    packed = gzip.compress(b"".join(b"w%d 1 2 3\n" % i for i in range(1000)))
    middle = len(packed) // 3
    changed = packed[:middle] + bytes([packed[middle] ^ 4]) + packed[middle + 1 :]
    for damaged in (packed[:5], packed[:-9], changed):
        with pytest.raises(ValueError, match=r"vectors: it cannot be unpacked: .*is it complete"):
            read(path, damaged)


def test_word_vectors_fill_the_rows_of_the_words_found(
    path: Path, tokenizer: TokenizersBackend
) -> None:
    """A file's own row for a special token has another meaning than ours."""
    path.write_text("the 1 2\n[PAD] 3 4\n[UNK] 5 6\nstew 7 8\nsoup 9 9\n")
    matrix, share = load_word_vectors(path, tokenizer)
    assert matrix.dtype == torch.float32
    assert matrix[[0, 2, 3]].tolist() == [[0, 0], [9, 9], [1, 2]]
    assert matrix[1].tolist() != [5, 6]
    assert share == pytest.approx(2 / 3)
    path.write_text("potage 1 2\n[PAD] 3 4\n")
    with pytest.raises(ValueError, match=r"has none of the tokenizer's 3 words; are both of the"):
        load_word_vectors(path, tokenizer)


def test_word_vectors_of_missing_words_look_like_found_ones(path: Path) -> None:
    """Drawn by the seed with each dimension's mean and spread, they do not stand out."""
    found, missing = ([f"{kind}{i}" for i in range(2000)] for kind in "fm")
    tokenizer = build_tokenizer([*found, *missing])
    vectors = torch.randn(2000, 4) * torch.arange(1, 5) + 10 * torch.arange(4)
    rows = (" ".join(map(str, row)) for row in vectors.tolist())
    path.write_text("".join(f"{word} {row}\n" for word, row in zip(found, rows, strict=True)))
    matrix, other = (load_word_vectors(path, tokenizer, seed=seed)[0] for seed in (0, 1))
    drawn = matrix[tokenizer.convert_tokens_to_ids(missing)]
    # Two means of 2000 draws differ by 0.03 standard deviations; this allows five times that.
    assert ((drawn.mean(0) - vectors.mean(0)).abs() < 0.15 * vectors.std(0)).all()
    assert torch.allclose(drawn.std(0), vectors.std(0), rtol=0.1)
    torch.rand(3)
    assert torch.equal(load_word_vectors(path, tokenizer)[0], matrix)
    assert not torch.equal(other, matrix)


@pytest.mark.parametrize(
    ("content", "words", "expected"),
    [
        # An exact spelling comes before one alike, wherever it is; without it the first one serves.
        ("The 0 5\nthe 1 5\nTHE 2 5\nthe 3 5\n", ["the"], [1, 5]),
        ("The 1 5\nTHE 0 5\n", ["the"], [1, 5]),
        # Alike is what the normalizer says: case, composed accents, curly apostrophes.
        (f"N{CURLY}T 0 0\nCafe{ACUTE} 1 5\n", ["café", "don't"], [1, 5]),
    ],
)
def test_word_vectors_spellings_are_alike_by_the_tokenizers_normalizer(
    path: Path, content: str, words: list[str], expected: list[float]
) -> None:
    path.write_text(content, encoding="utf-8")
    tokenizer = build_tokenizer(words)
    matrix, _ = load_word_vectors(path, tokenizer)
    assert matrix[tokenizer.convert_tokens_to_ids(words[0])].tolist() == expected


@pytest.mark.parametrize(
    ("beginning", "message"),
    [
        (b"", "line 1: 0 numbers per word"),
        (b"the 0.5 1 2\n", "row 2: .* is not a word and its numbers"),
        (b"1 3\nthe", "promises 1 words, 0 follow"),
    ],
)
def test_word_vectors_of_an_endless_line_are_refused_in_little_memory(
    beginning: bytes, message: str, path: Path, tokenizer: TokenizersBackend
) -> None:
    """A few bytes unpack to it."""
    size = 2**25
    path.write_bytes(gzip.compress(beginning + bytes(size), 1))
    with memory_below(size / 2), pytest.raises(ValueError, match=message):
        load_word_vectors(path, tokenizer)


def test_word_vectors_of_other_words_are_not_parsed_and_take_no_memory(
    path: Path, tokenizer: TokenizersBackend
) -> None:
    """The file may be larger than memory; a vocabulary of some thousand words is not."""
    other = " ".join(["0.12345"] * 99) + " x"
    path.write_text("".join(f"word{i} {other}\n" for i in range(8_000)) + f"soup {'1 ' * 100}\n")
    with memory_below(path.stat().st_size / 4):
        load_word_vectors(path, tokenizer)


STATIC = torch.tensor([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5], [3.0, 3.5], [4.0, 4.5]])
WHOLE = save({"embeddings": STATIC})  # its header may promise a matrix of any size
NAME = f"{OWNER}/vectors"


def static_files(
    tokens: list[str], matrix: torch.Tensor = STATIC, name: str = "embeddings"
) -> dict[str, bytes]:
    model = models.WordPiece({token: row for row, token in enumerate(tokens)}, unk_token=tokens[0])
    contents = {name: matrix} if name else {"a": matrix, "b": matrix.clone()}
    tokenizer = Tokenizer(model).to_str().encode()
    return {"model.safetensors": save(contents), "tokenizer.json": tokenizer}


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["[UNK]", "soup", "##soup", ",", "cold"], {"soup": 1, ",": 3, "cold": 4}),
        (["<unk>", "\u2581soup", "soup", ",", "\u2581cold"], {"soup": 1, ",": 3, "cold": 4}),
        (["<unk>", "\u0120soup", "cold", "!", "\u0120cold"], {"soup": 1, "!": 3, "cold": 4}),
        # One such character among words is only a character.
        (["\u2581", *(f"w{i}" for i in range(19))], {f"w{i}": i + 1 for i in range(19)}),
    ],
)
def test_word_vectors_of_a_static_embedding_are_those_of_whole_words(
    tmp_path: Path, tokens: list[str], words: dict[str, int]
) -> None:
    """A later piece of a word has the spelling of a word, and another meaning."""
    matrix = torch.arange(2.0 * len(tokens)).view(-1, 2)
    for name in ("embeddings", "embedding.weight"):
        folder = write_files(tmp_path / name, static_files(tokens, matrix.half(), name))
        assert list(read_words(folder)) == [tokens[0], *words]
        vectors, _ = load_word_vectors(folder, exact_tokenizer(list(words)))
        assert vectors.tolist() == matrix[list(words.values())].tolist()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (static_files(["a", "b"], name=""), r"holds \['a', 'b'\], not the matrix"),
        (static_files(list("abcdef")), "has 5 vectors and its tokenizer 6 tokens; both must be"),
        (static_files(["a"]) | {"tokenizer.json": b"{}"}, "cannot load .*: Model missing"),
        *(
            (static_files(["a"]) | {"model.safetensors": damaged}, "cannot load .*deserializing")
            for damaged in (WHOLE[:-4], WHOLE[:20], WHOLE.replace(b"[5,2]", b"[9,2]"))
        ),
    ],
)
def test_word_vectors_folder_is_refused_unless_it_is_a_whole_static_embedding(
    tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        list(read_words(write_files(tmp_path, files)))


def test_word_vectors_folder_without_a_static_embedding_names_the_file_that_it_lacks(
    tmp_path: Path,
) -> None:
    folder = write_files(tmp_path / "vectors", {"a.txt": b"stew 1 2\n"})
    with pytest.raises(OSError, match=r"cannot load .*vectors: .*model\.safetensors"):
        list(read_words(folder))


def test_word_vectors_of_the_hub_download_only_what_is_read(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offline too, once downloaded."""
    repository = hub.repositories[NAME] = Repository(private=False)
    files = static_files(["[UNK]", "soup"]) | {"onnx/model.onnx": b"large"}
    first = repository.add_commit("main", files, "static")
    assert list(read_words(NAME)) == ["[UNK]", "soup"]
    assert {asked for asked in hub.requests if "resolve" in asked and asked.startswith("GET")} == {
        f"GET /{NAME}/resolve/{first}/{file}" for file in ("model.safetensors", "tokenizer.json")
    }
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.requests.clear()
    assert list(read_words(f"{NAME}@{first}")) == ["[UNK]", "soup"]
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    for name in ("data/vectors.txt", "vectors.txt"):  # beside others: a path, misspelt
        with pytest.raises(FileNotFoundError, match=rf"^there is no file {name}; check"):
            list(read_words(name))
    assert hub.requests == []
    for name in (f"{OWNER}/absent", f"{NAME}@other"):
        with pytest.raises(OSError, match=rf"^cannot load {name} from the Hub \(there is no such"):
            list(read_words(name))
