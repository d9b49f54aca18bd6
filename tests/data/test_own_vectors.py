"""Word vectors of one's own texts: what is counted, which rows are learnt, what the others get."""

import random
from collections.abc import Sequence

import pytest
import reference
import torch
from transformers import TokenizersBackend

from sase_hf import build_tokenizer, own_word_vectors
from sase_hf.data import own_vectors
from sase_hf.data.own_vectors import WINDOW, has_tokens

WORDS = [f"w{number:02}" for number in range(40)]


def random_texts(count: int, seed: int = 0) -> list[str]:
    """Return texts of some 12 words, frequent ones among the first."""
    generator = random.Random(seed)
    weights = [1 / (1 + rank) for rank in range(len(WORDS))]
    texts = []
    for _ in range(count):
        texts.append(" ".join(generator.choices(WORDS, weights, k=generator.randint(1, 24))))
    return texts


TEXTS = random_texts(60)


@pytest.fixture(scope="module")
def tokenizer() -> TokenizersBackend:
    return build_tokenizer(TEXTS)


def ids_of(texts: Sequence[str], tokenizer: TokenizersBackend) -> list[list[int]]:
    """Return the ids of words, -1 for the unknown one."""
    return [
        [-1 if id_ == tokenizer.unk_token_id else id_ for id_ in tokenizer(text)["input_ids"]]
        for text in texts
    ]


def products(
    texts: Sequence[str], tokenizer: TokenizersBackend, width: int, words: Sequence[str] = WORDS
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Return the products of the vectors of words, those of the slow twin, and the share learnt.

    Columns are right up to their signs, so that products of rows are right.
    """
    vectors, share = own_word_vectors(texts, tokenizer, width=width)
    information = reference.positive_information(ids_of(texts, tokenizer), len(tokenizer), WINDOW)
    places = tokenizer.convert_tokens_to_ids([*words])
    found, expected = (
        rows[places].double()
        for rows in (vectors, reference.own_vectors(information, width, std=0.1))
    )
    return found @ found.T, expected @ expected.T, share


def test_vectors_are_those_of_counts_in_loops(tokenizer: TokenizersBackend) -> None:
    width = len(tokenizer)  # all columns, so that no vector depends on where the values are cut
    found, expected, share = products(TEXTS, tokenizer, width)
    assert share == 1
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


def test_vectors_keep_the_largest_singular_values(tokenizer: TokenizersBackend) -> None:
    found, expected, _ = products(TEXTS, tokenizer, 4)
    assert torch.cosine_similarity(found, expected).min() > 0.99


def test_vectors_cross_no_text_and_skip_unknown_words() -> None:
    tokenizer = build_tokenizer(["a b c d"])
    found, expected, _ = products(["a b", "c d", "a z b", "c z z z z d"], tokenizer, 6, "abcd")
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert abs(found[0, 2]) < 1e-5  # a and c never meet


def test_vectors_have_the_length_of_random_ones(tokenizer: TokenizersBackend) -> None:
    vectors, _ = own_word_vectors(TEXTS, tokenizer, width=16, std=0.05)
    lengths = vectors.norm(dim=1)
    expected = torch.full((len(tokenizer) - 2,), 0.05 * 16**0.5)
    torch.testing.assert_close(lengths[2:], expected)
    assert lengths[tokenizer.pad_token_id] == 0
    assert 0 < lengths[tokenizer.unk_token_id] < 2 * expected[0]


def test_words_without_counts_start_at_random() -> None:
    tokenizer = build_tokenizer(["a b", "c"])
    vectors, share = own_word_vectors(["a b", "c", ""], tokenizer, width=500)
    words = tokenizer.get_vocab()
    assert share == 2 / 3
    for word in ("c", tokenizer.unk_token):
        assert vectors[words[word]].std().item() == pytest.approx(0.1, rel=0.15)


@pytest.mark.parametrize("texts", [[], [""], ["a", "a"]], ids=["none", "empty", "single"])
def test_texts_without_pairs_leave_all_words_at_random(texts: list[str]) -> None:
    tokenizer = build_tokenizer(["a b"])
    vectors, share = own_word_vectors(texts, tokenizer, width=8)
    assert share == 0
    assert vectors.shape == (len(tokenizer), 8)
    assert vectors[1:].norm(dim=1).min() > 0


@pytest.mark.parametrize("count", [3, 36, 46])
def test_one_word_beside_itself_stays_at_random(count: int) -> None:
    tokenizer = build_tokenizer(["a"])
    vectors, share = own_word_vectors([" ".join("a" * count)], tokenizer, width=8)
    assert share == 0  # it says nothing about its contexts
    assert vectors.isfinite().all()


def test_vectors_repeat_with_the_seed(tokenizer: TokenizersBackend) -> None:
    first, _ = own_word_vectors(TEXTS, tokenizer, width=8, seed=1)
    again, _ = own_word_vectors(iter(TEXTS), tokenizer, width=8, seed=1)
    other, _ = own_word_vectors(TEXTS, tokenizer, width=8, seed=2)
    assert torch.equal(first, again)
    unknown = tokenizer.unk_token_id
    assert not torch.equal(first[unknown], other[unknown])
    # Another seed draws other random rows, and finds the same vectors.
    torch.testing.assert_close(
        first[2:] @ first[2:].T, other[2:] @ other[2:].T, atol=0.01, rtol=0.1
    )


def test_rarest_pairs_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their words start at random, and not at the length of a learnt vector."""
    tokenizer = build_tokenizer(["a b c d e f"])
    monkeypatch.setattr(own_vectors, "MAX_PAIRS", 2)
    texts = ["a b"] * 9 + ["e f"] + ["c d"] * 8
    vectors, share = own_word_vectors(texts, tokenizer, width=6)
    lengths = vectors[tokenizer.convert_tokens_to_ids([*"abcdef"])].norm(dim=1)
    are_learnt = torch.isclose(lengths, torch.tensor(0.1 * 6**0.5))
    assert are_learnt.tolist() == [True] * 4 + [False] * 2
    assert share == 4 / 6


def test_texts_that_are_none_are_refused(tokenizer: TokenizersBackend) -> None:
    with pytest.raises(ValueError, match="texts is a str"):
        own_word_vectors("a b", tokenizer)


def test_tokens_are_counted_no_further_than_asked(tokenizer: TokenizersBackend) -> None:
    texts = ["w00 w01 unheard", "w02"]
    assert has_tokens(texts, tokenizer, 3)
    assert not has_tokens(texts, tokenizer, 4)
    many = iter(["w00 " * 2**20] * 8)
    assert has_tokens(many, tokenizer, 10)
    assert next(many, None) is not None
