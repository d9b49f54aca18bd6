"""Which vector each word of a tokenizer gets from a file, and what the others get."""

import logging
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import TokenizersBackend

from sase_hf import build_tokenizer, load_word_vectors
from sase_hf.data.word_vectors import read_words

CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
ACUTE = "\N{COMBINING ACUTE ACCENT}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a name for a vector file."""
    return tmp_path / "vectors.txt"


@pytest.fixture(scope="module")
def tokenizer() -> TokenizersBackend:
    """Return one that knows, from id 2 on: soup, the, good."""
    return build_tokenizer(["soup soup soup the the good"])


def rows(count: int, width: int = 4, seed: int = 0) -> np.ndarray:
    """Return random vectors whose dimensions differ in mean and spread."""
    noise = np.random.default_rng(seed).normal(size=(count, width))
    return (noise * np.arange(1, width + 1) + 10 * np.arange(width)).astype(np.float32)


def lines(words: list[str], vectors: np.ndarray) -> str:
    """Return words and vectors in GloVe's text form."""
    return "".join(
        f"{word} {' '.join(map(repr, row.tolist()))}\n"
        for word, row in zip(words, vectors, strict=True)
    )


def test_each_word_gets_its_row_of_the_file(path: Path, tokenizer: TokenizersBackend) -> None:
    """To the last bit: these numbers are the point of the file."""
    vectors = rows(4)
    path.write_text(lines(["good", "unrelated", "soup", "the"], vectors))
    matrix, share = load_word_vectors(path, tokenizer)
    assert matrix.shape == (len(tokenizer), 4)
    assert matrix.dtype == torch.float32
    assert torch.equal(matrix[2:], torch.from_numpy(vectors[[2, 3, 0]]))
    assert share == 1.0


def test_the_share_counts_words_and_not_special_tokens(
    path: Path, tokenizer: TokenizersBackend
) -> None:
    """A file's own row for a special token has another meaning than ours."""
    path.write_text("the 1 2\n[PAD] 3 4\n[UNK] 5 6\nsoup 9 9\n")
    matrix, share = load_word_vectors(path, tokenizer)
    assert share == pytest.approx(2 / 3)
    assert matrix[tokenizer.pad_token_id].tolist() == [0, 0]
    assert matrix[tokenizer.unk_token_id].tolist() != [5, 6]


def test_missing_words_look_like_found_ones(path: Path) -> None:
    """Drawn with each dimension's mean and spread, they neither stand out nor all agree."""
    found, missing = ([f"{kind}{i}" for i in range(2000)] for kind in "fm")
    tokenizer = build_tokenizer([*found, *missing])
    vectors = rows(2000)
    path.write_text(lines(found, vectors))
    matrix, share = load_word_vectors(path, tokenizer)
    drawn = matrix[tokenizer.convert_tokens_to_ids(missing)]
    assert share == 0.5
    expected = torch.from_numpy(vectors)
    # Two means of 2000 draws differ by 0.03 standard deviations; this allows five times that.
    assert ((drawn.mean(0) - expected.mean(0)).abs() < 0.15 * expected.std(0)).all()
    assert torch.allclose(drawn.std(0), expected.std(0), rtol=0.1)


def test_the_seed_alone_decides_what_is_drawn(path: Path, tokenizer: TokenizersBackend) -> None:
    """A run can be repeated, whatever drew random numbers before."""
    path.write_text(lines(["soup", "the"], rows(2)))
    first, _ = load_word_vectors(path, tokenizer, seed=1)
    torch.rand(3)
    again, _ = load_word_vectors(path, tokenizer, seed=1)
    other, _ = load_word_vectors(path, tokenizer, seed=2)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(first[2:4], other[2:4]), "what was found is not drawn"


def test_one_word_found_is_enough(path: Path, tokenizer: TokenizersBackend) -> None:
    """The spread of one row is zero, not undefined."""
    path.write_text("soup 1 2\n")
    matrix, _ = load_word_vectors(path, tokenizer)
    assert matrix[1:].tolist() == [[1, 2]] * 4


# Which row is a word's


def test_an_exact_row_is_preferred_to_one_alike(path: Path, tokenizer: TokenizersBackend) -> None:
    """A cased file has "The", "THE" and "the" in any order."""
    for words in (["The", "the", "THE"], ["the", "THE", "The"], ["THE", "The", "the"]):
        path.write_text("".join(f"{word} {word == 'the':d} 5\n" for word in words))
        matrix, _ = load_word_vectors(path, tokenizer)
        assert matrix[tokenizer.convert_tokens_to_ids("the")].tolist() == [1, 5]


def test_the_first_row_alike_serves_where_none_is_exact(
    path: Path, tokenizer: TokenizersBackend
) -> None:
    """Files are sorted by frequency: the usual spelling comes first."""
    path.write_text("Soup 1 1\nSOUP 2 2\nGood 3 3\n")
    matrix, share = load_word_vectors(path, tokenizer)
    assert matrix[tokenizer.convert_tokens_to_ids("soup")].tolist() == [1, 1]
    assert share == pytest.approx(2 / 3)


def test_alike_is_what_the_tokenizer_takes_for_the_same(path: Path) -> None:
    """One rule, that of its normalizer: case, composed accents, curly apostrophes."""
    path.write_text(f"N{CURLY}T 1 1\nCafe{ACUTE} 2 2\n", encoding="utf-8")
    _, lowered = load_word_vectors(path, build_tokenizer(["don't café"]))
    assert lowered == pytest.approx(2 / 3)
    cased = build_tokenizer(["DON'T cafe"], lowercase=False)
    assert load_word_vectors(path, cased)[1] == pytest.approx(1 / 3)


def test_a_tokenizer_without_a_normalizer_takes_exact_rows(path: Path) -> None:
    """Any fast tokenizer of words will do."""
    plain = Tokenizer(models.WordLevel({"a": 0, "b": 1}))
    path.write_text("A 1 1\nb 2 2\n")
    matrix, share = load_word_vectors(path, TokenizersBackend(tokenizer_object=plain))
    assert share == 0.5
    assert matrix[1].tolist() == [2, 2]


def test_of_repeated_words_the_first_row_counts_and_a_warning_says_so(
    path: Path, tokenizer: TokenizersBackend, caplog: pytest.LogCaptureFixture
) -> None:
    """Published files hold a few; many would mean that something is wrong."""
    path.write_text("x 0 0\nsoup 1 1\nsoup 2 2\nx 0 0\nthe 3 3\nsoup 4 4\n")
    with caplog.at_level(logging.WARNING):
        matrix, _ = load_word_vectors(path, tokenizer)
    assert matrix[2].tolist() == [1, 1]
    assert "repeats 2 words of the vocabulary, the first in line 3" in caplog.text


# What is refused, and what is not read


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("x", r"line 2: what follows 'soup' is not .*numbers: could not convert .*b'x'"),
        ("nan", r"line 2: 'soup' has a number that is not finite in float32"),
        ("-inf", r"line 2: 'soup' has a number that is not finite"),
        ("1e39", r"line 2: 'soup' has a number that is not finite"),
    ],
)
def test_a_word_without_proper_numbers_is_named(
    path: Path, tokenizer: TokenizersBackend, number: str, message: str
) -> None:
    """One such number makes every loss not a number."""
    path.write_text(f"the 1 2\nsoup 1 {number}\n")
    with pytest.raises(ValueError, match=message):
        load_word_vectors(path, tokenizer)


def test_a_binary_row_that_is_not_finite_is_named(path: Path, tokenizer: TokenizersBackend) -> None:
    """Binary files hold NaN as easily as any number."""
    values = np.array([1, np.nan], "<f4").tobytes()
    path.write_bytes(b"2 2\nx " + bytes(8) + b"soup " + values)
    with pytest.raises(ValueError, match="row 2: 'soup' has a number that is not finite"):
        load_word_vectors(path, tokenizer)


def test_a_file_without_any_of_the_words_is_refused(
    path: Path, tokenizer: TokenizersBackend
) -> None:
    """A matrix of random numbers would look like success."""
    path.write_text("potage 1 2\n")
    with pytest.raises(ValueError, match=r"has none of the tokenizer's 3 words; are both of the"):
        load_word_vectors(path, tokenizer)


def test_numbers_of_words_that_nobody_needs_are_not_read(
    path: Path, tokenizer: TokenizersBackend
) -> None:
    """Parsing them would take most of the time of a file of millions of words."""
    path.write_text("other x y\nsoup 1 2\n")
    assert load_word_vectors(path, tokenizer)[0][2].tolist() == [1, 2]


def test_rows_of_words_that_nobody_needs_take_no_memory(
    path: Path, tokenizer: TokenizersBackend
) -> None:
    """The file may be larger than memory; a vocabulary of some thousand words is not."""
    other = " ".join(["0.12345"] * 100)
    path.write_text("".join(f"word{i} {other}\n" for i in range(20_000)) + f"soup {other}\n")
    tracemalloc.start()
    load_word_vectors(path, tokenizer)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 4


def test_a_pickle_is_never_opened(path: Path, tokenizer: TokenizersBackend, tmp_path: Path) -> None:
    """Loading one runs its code; some tools save vectors that way."""

    class Bait:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (tmp_path / "ran").touch, ()

    path.write_bytes(pickle.dumps(Bait()))
    with pytest.raises(ValueError, match="line 1: "):
        load_word_vectors(path, tokenizer)
    np.save(tmp_path / "array.npy", np.array([Bait()], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="line 1: "):
        load_word_vectors(tmp_path / "array.npy", tokenizer)
    assert not (tmp_path / "ran").exists()


def test_words_of_a_file_extend_a_vocabulary(path: Path) -> None:
    """A word that the training texts lack then has a vector when it is met."""
    path.write_text("the 1 2\nSoup 3 4\nstew 5 6\n. . . 7 8\n")
    assert list(read_words(path)) == ["the", "Soup", "stew", ". . ."]
    tokenizer = build_tokenizer(["the dish"], extra_words=read_words(path))
    assert tokenizer.tokenize("the stew soup dish") == ["the", "stew", "soup", "dish"]
    matrix, share = load_word_vectors(path, tokenizer)
    assert matrix[tokenizer.convert_tokens_to_ids("stew")].tolist() == [5, 6]
    assert share == 0.75
