"""Word vectors: which files are read, which row each word takes, what the other words get.

And of one's own texts: what is counted, which rows are learnt.
"""

import gzip
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
import torch
from safetensors.torch import save
from tokenizers import Tokenizer, models, normalizers
from transformers import TokenizersBackend

from sase_hf import build_tokenizer, load_word_vectors, own_word_vectors
from sase_hf.data.vectors import WINDOW, vector_rows

VECTORS = {"the": [0.5, -1.0, 2.25], "soup": [1e-3, 0.0, -7.0], "naïve": [3.0, 1.5, -0.125]}
GLOVE = "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in VECTORS.items()).encode()
ACUTE = "\N{COMBINING ACUTE ACCENT}"


def binary(end: bytes = b"\n") -> bytes:
    rows = (word.encode() + b" " + struct.pack("<3f", *row) for word, row in VECTORS.items())
    return b"3 3\n" + b"".join(row + end for row in rows)


FORMS = {
    "glove.txt": GLOVE,
    "glove": GLOVE.rstrip(b"\n").replace(b"\n", b"\r\n"),
    "fasttext.vec": b"3 3\n" + GLOVE.replace(b"\n", b" \n"),
    "word2vec.bin": binary(),
    "no_line_feeds.bin": binary(end=b""),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors"


@pytest.fixture(scope="module")
def tokenizer() -> TokenizersBackend:
    return build_tokenizer(["soup soup soup the the good"])


def exact_tokenizer(words: list[str]) -> TokenizersBackend:
    exact = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}))
    exact.normalizer = normalizers.NFC()
    return TokenizersBackend(tokenizer_object=exact)


def words_of(name: str | Path) -> list[str]:
    return [word for word, _ in vector_rows(name)]


def read(path: Path, data: bytes) -> dict[str, list[float]]:
    path.write_bytes(data)
    words = words_of(path)
    matrix, _ = load_word_vectors(path, exact_tokenizer(words))
    return dict(zip(words, matrix.tolist(), strict=True))


@pytest.mark.parametrize("name", FORMS)
def test_word_vectors_form_is_that_of_the_name_and_the_header(tmp_path: Path, name: str) -> None:
    expected = {word: np.float32(row).tolist() for word, row in VECTORS.items()}
    words = read(tmp_path / name, FORMS[name])
    assert words == read(tmp_path / f"{name}.gz", gzip.compress(FORMS[name])) == expected
    assert list(words) == list(VECTORS)


def test_word_vectors_have_words_with_spaces_and_damaged_ones(path: Path) -> None:
    """As GloVe's and word2vec's own files do; neither is a word of a tokenizer."""
    more = b". . . 1 2 3\nat name@example.org 4 5 6\n\xc2\xa0 7 8 9\ncaf\xe9 1 1 1\n"
    words = read(path, GLOVE + more)
    assert list(words)[3:] == [". . .", "at name@example.org", "\N{NO-BREAK SPACE}", "caf\ufffd"]
    assert words[". . ."] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("v", GLOVE + b"bad 1 2\n", "cannot load .*/v: all input arrays must have the same shape"),
        ("v", GLOVE + b"bad nan 1 2\n", "v: array must not contain infs or NaNs"),
        ("v.bin", binary()[:-20], "v.bin: buffer is smaller than requested size"),
        ("v.gz", gzip.compress(GLOVE, mtime=0)[:-9], "v.gz: Compressed file ended"),
    ],
)
def test_word_vectors_malformed_row_is_named(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    """A vector read one field off would do silent harm."""
    with pytest.raises((ValueError, OSError), match=message):
        read(tmp_path / name, data)


def test_word_vectors_fill_the_rows_of_the_words_found(
    path: Path, tokenizer: TokenizersBackend
) -> None:
    """A file's own row for a special token has another meaning than ours."""
    path.write_text("the 1 2\n[PAD] 3 4\n[UNK] 5 6\nstew 7 8\nsoup 9 9\n")
    matrix, share = load_word_vectors(path, tokenizer)
    assert matrix[[0, 2, 3]].tolist() == [[0, 0], [9, 9], [1, 2]]
    assert matrix[1].tolist() != [5, 6]
    assert share == pytest.approx(2 / 3)


def test_word_vectors_of_missing_words_look_like_found_ones(path: Path) -> None:
    """Drawn with each dimension's mean and spread, they do not stand out."""
    missing = [f"m{i}" for i in range(2000)]
    tokenizer = build_tokenizer(["f0 f1", *missing])
    path.write_text("f0 -1 10\nf1 1 50\n")
    matrix, _ = load_word_vectors(path, tokenizer)
    drawn = matrix[tokenizer.convert_tokens_to_ids(missing)]
    # The mean of 2000 draws errs by 0.02 standard deviations; this allows five times that.
    assert ((drawn.mean(0) - torch.tensor([0, 30])).abs() < torch.tensor([0.1, 2])).all()
    torch.testing.assert_close(drawn.std(0), torch.tensor([1.0, 20]), rtol=0.1, atol=0)


def test_word_vectors_spellings_are_alike_by_the_tokenizers_normalizer(path: Path) -> None:
    """Of case and composed accents; an exact spelling comes first, wherever it is."""
    path.write_text(f"The 0 5\nthe 1 5\nTHE 2 5\nCafe{ACUTE} 3 5\n", encoding="utf-8")
    tokenizer = build_tokenizer(["the the café"])
    matrix, _ = load_word_vectors(path, tokenizer)
    assert matrix[2:].tolist() == [[1, 5], [3, 5]]


STATIC = torch.arange(10.0).view(5, 2)


def static_files(tokens: list[str]) -> dict[str, bytes]:
    rows = {token: row for row, token in enumerate(tokens)}
    model: Any = models.BPE(rows, [])
    if tokens[0] != "<unk>":
        model = models.WordPiece(rows, unk_token=tokens[0])
    tokenizer = Tokenizer(model).to_str().encode()
    return {"model.safetensors": save({"embeddings": STATIC.half()}), "tokenizer.json": tokenizer}


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["[UNK]", "soup", "##soup", ",", "cold"], {"soup": 1, ",": 3, "cold": 4}),
        (["<unk>", "\u2581soup", "soup", ",", "\u2581cold"], {"soup": 1, ",": 3, "cold": 4}),
        (["<unk>", "\u0120soup", "cold", "!", "\u0120cold"], {"soup": 1, "!": 3, "cold": 4}),
    ],
)
def test_word_vectors_of_a_static_embedding_are_those_of_whole_words(
    tmp_path: Path, tokens: list[str], words: dict[str, int]
) -> None:
    """A later piece of a word has the spelling of a word, and another meaning."""
    for name, content in static_files(tokens).items():
        (tmp_path / name).write_bytes(content)
    assert words_of(tmp_path) == [tokens[0], *words]
    found, _ = load_word_vectors(tmp_path, exact_tokenizer(list(words)))
    assert found.tolist() == STATIC[list(words.values())].tolist()


WORDS = [f"w{number:02}" for number in range(40)]
WEIGHTS = [1 / (1 + rank) for rank in range(len(WORDS))]
RNG = random.Random(0)
TEXTS = [" ".join(RNG.choices(WORDS, WEIGHTS, k=RNG.randint(1, 24))) for _ in range(60)]
OWN_TOKENIZER = build_tokenizer(TEXTS)


@pytest.mark.parametrize(
    ("texts", "known", "width"),
    [
        (TEXTS, TEXTS, 42),  # all columns, so that no vector depends on where the values are cut
        (TEXTS, TEXTS, 4),
        # Words of two texts never meet, and unknown ones leave a gap.
        (["a b", "c d", "a z b", "c z z z z d"], ["a b c d"], 6),
    ],
)
def test_own_vectors_are_those_of_counts_in_loops(
    texts: list[str], known: list[str], width: int
) -> None:
    """Columns are right up to their signs, so that products of rows are right."""
    tokenizer = build_tokenizer(known)
    ids = [[-1 if id_ == 1 else id_ for id_ in tokenizer(text)["input_ids"]] for text in texts]
    information = reference.positive_information(ids, len(tokenizer), WINDOW)
    expected = reference.own_vectors(information, width, std=0.1)[2:].double()
    matrix, share = own_word_vectors(texts, tokenizer, width=width)
    found = matrix[2:].double()
    assert share == 1
    if width == 4:
        assert torch.cosine_similarity(found @ found.T, expected @ expected.T).min() > 0.99
    else:
        torch.testing.assert_close(found @ found.T, expected @ expected.T, atol=1e-4, rtol=1e-3)


def test_own_vectors_have_the_length_of_random_ones() -> None:
    matrix, _ = own_word_vectors(TEXTS, OWN_TOKENIZER, width=16, std=0.05)
    padding, unknown, *lengths = matrix.norm(dim=1).tolist()
    assert lengths == pytest.approx([0.05 * 16**0.5] * len(lengths))
    assert padding == 0 < unknown < 2 * lengths[0]
