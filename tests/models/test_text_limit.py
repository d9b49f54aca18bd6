"""The beginning of a text that a limit of tokens needs."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import TokenizersBackend

from sase_hf import build_tokenizer
from sase_hf.data.tokenizer import build_translation_tokenizer
from sase_hf.models import text_limit
from sase_hf.models.text_limit import (
    count_tokens,
    encode_alone,
    encode_apart,
    encode_within_limit,
    needed_parts,
    needed_texts,
)

# Words, white space and what joins characters across a cut.
PIECES = (
    *("a", "the", "don't", "can\u2019t", "!!!", "...\n\n", "12345", "'s", "x" * 40, "so" * 60),
    *(" ", "  ", "\n", "\t", "\x1c", "\u3000", "e\u0301", "\u0301" * 5, "\u1112\u1161\u11ab"),
    *("\u6211\u4eec", "\u0e01\u0e47", "\u0130", "\ufb01", "\U0001f642\U0001f3fd", "\ufffd"),
)


def random_text(rng: random.Random, num_pieces: int) -> str:
    return "".join(rng.choice(PIECES) + rng.choice(("", " ")) for _ in range(num_pieces))


def word_pieces(texts: list[str]) -> TokenizersBackend:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer: Any = trainers.WordPieceTrainer
    tokenizer.train_from_iterator(
        texts, trainer(vocab_size=150, special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return TokenizersBackend(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


def byte_pairs(texts: list[str]) -> TokenizersBackend:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer: Any = trainers.BpeTrainer
    tokenizer.train_from_iterator(
        texts, trainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    return TokenizersBackend(tokenizer_object=tokenizer)


TOKENIZERS: dict[str, Any] = {
    "words": lambda texts: build_tokenizer(texts, 200),
    "unspaced": lambda texts: build_tokenizer(["\u6211\u4eec" * 99, *texts], 200),
    "pieces": lambda texts: build_tokenizer(texts, 200, level="subword"),
    "characters": lambda texts: build_tokenizer(texts, 200, level="character"),
    "translation": lambda texts: build_translation_tokenizer(texts, 200, subwords=True),
    "word pieces": word_pieces,
    "byte pairs": byte_pairs,
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_needed_texts_give_the_tokens_and_offsets_of_the_whole_texts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Singles and pairs, limits even and odd, words without an end."""
    monkeypatch.setattr(text_limit, "SHORTEST", 24)
    monkeypatch.setattr(text_limit, "GROWTH", 2)
    monkeypatch.setattr(text_limit, "CHARACTERS_PER_TOKEN", 5)
    rng = random.Random(0)
    tokenizer = TOKENIZERS[name]([random_text(rng, 60) for _ in range(30)])
    num_cut = 0
    for _ in range(120):
        texts = [random_text(rng, rng.randint(0, 80)) for _ in range(rng.choice((1, 2)))]
        limit = rng.choice((16, 17))
        parts = needed_texts(tokenizer, texts, limit)
        options = {"truncation": True, "max_length": limit, "return_offsets_mapping": True}
        assert dict(tokenizer(*parts, **options)) == dict(tokenizer(*texts, **options)), texts
        num_cut += parts != tuple(texts)
    assert num_cut > 10, "the premise: some texts are cut"


def test_needed_texts_of_a_long_text_are_short_and_of_a_short_one_whole() -> None:
    tokenizer = build_tokenizer(["the soup was good"], model_max_length=512)
    text = "the soup was good " * 100_000
    [part] = needed_texts(tokenizer, [text])
    assert text.startswith(part)
    assert 2_000 < len(part) < 10_000
    assert needed_texts(tokenizer, [text[:5_000]]) == (text[:5_000],)
    tokenizer.truncation_side = "left"
    assert needed_texts(tokenizer, [text]) == (text,)
    tokenizer.truncation_side, tokenizer.model_max_length = "right", int(1e30)
    assert needed_texts(tokenizer, [text]) == (text,), "no limit"


@pytest.mark.parametrize("text", ["a" * 2**19, " " * 2**19, "good " * 9 + "\u6211" * 2**18])
def test_needed_texts_of_an_endless_word_are_bounded(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows the longest beginning is counted as cut."""
    assert text_limit.MOST == 2**20, "some 150 MB in a tokenizer"
    monkeypatch.setattr(text_limit, "MOST", 2**16)
    tokenizer = build_tokenizer(["the soup was good"], model_max_length=512)
    [part] = needed_texts(tokenizer, [text])
    assert text.startswith(part)
    assert 2**15 <= len(part) <= 2**16
    encoded, num_cut = encode_within_limit(tokenizer, [text + " good"], truncation=True)
    assert len(encoded["input_ids"]) == len(tokenizer(part)["input_ids"])
    assert num_cut[0] >= 1
    sizes: list[int] = []
    encode = partial(encode_alone, tokenizer)

    def measured(beginning: str) -> Any:
        sizes.append(len(beginning))
        return encode(beginning)

    needed_parts(measured, [text], 512, 0)
    assert max(sizes) < 2**16, "no longer beginning is tokenized"
    [part] = needed_texts(tokenizer, [text], 2**11)
    assert 2**16 <= len(part) <= 64 * 2**11


def test_needed_texts_of_two_long_texts_are_short_and_keep_which_is_longer() -> None:
    """Of an odd number of tokens the longer text keeps one more, the second of equal ones."""
    tokenizer = build_tokenizer(["the soup was good"])
    shorter, longer = "the soup was good " * 800, "good " * 3_201
    for texts in ((shorter, longer), (longer, shorter), (shorter, shorter)):
        parts = needed_texts(tokenizer, texts, 101)
        assert max(map(len, parts)) < 8_000
        options = {"truncation": True, "max_length": 101, "return_offsets_mapping": True}
        assert dict(tokenizer(*parts, **options)) == dict(tokenizer(*texts, **options))


def test_encode_within_limit_counts_what_is_cut_off_each_text() -> None:
    tokenizer = build_tokenizer(["the soup was good"])
    texts = ["good " * 7, "the soup"]
    options = {"truncation": True, "max_length": 5}
    assert encode_within_limit(tokenizer, texts, **options)[1] == [4, 0]
    assert encode_within_limit(tokenizer, texts, truncation=True, max_length=9)[1] == [0, 0]
    assert encode_within_limit(tokenizer, texts, truncation=False)[1] == [0, 0]
    tokenizer.truncation_side = "left"
    assert encode_within_limit(tokenizer, texts, **options)[1] == [4, 0]


def test_encode_within_limit_of_threads_returns_what_it_returns_to_one() -> None:
    """Of a tokenizer that they share; some texts are counted, and some are not to be cut."""
    tokenizer = build_tokenizer(["the soup was good"], model_max_length=8)
    calls = [(length, cuts) for length in (3, 9, 700) for cuts in (True, False)]

    def encode(length: int, cuts: bool) -> tuple[int, int]:
        encoded, [num_cut] = encode_within_limit(tokenizer, ["good " * length], truncation=cuts)
        return len(encoded["input_ids"]), num_cut

    expected = [(3, 0), (3, 0), (8, 1), (9, 0), (8, 692), (700, 0)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(encode, *zip(*calls * 200, strict=True)))
    assert found == expected * 200


def test_encode_within_limit_follows_a_tokenizer_that_changes() -> None:
    tokenizer = build_tokenizer(["the soup was good"], model_max_length=8)
    assert encode_within_limit(tokenizer, ["<a> " * 9], truncation=True)[1] == [19]
    tokenizer.add_tokens("<a>")
    assert encode_within_limit(tokenizer, ["<a> " * 9], truncation=True)[1] == [1]
    tokenizer.backend_tokenizer.normalizer = normalizers.Replace("<a> ", "")
    assert encode_within_limit(tokenizer, ["<a> " * 9 + "good"], truncation=True)[1] == [0]
    assert encode_within_limit(tokenizer, ["<a> good"])[0] == tokenizer("good")


def test_encode_apart_joins_what_each_text_is_alone() -> None:
    tokenizer = word_pieces(["the soup was good"] * 9)
    texts = ["the soup was good", "good soup " * 9, ""]
    options = {"truncation": True, "max_length": 8, "return_offsets_mapping": True}
    for first, second in itertools.product(texts, texts):
        encoded, num_cut = encode_apart(tokenizer, [first, second], **options)
        alone = [tokenizer(text, **options) for text in (first, second)]
        for name in ("input_ids", "attention_mask", "offset_mapping"):
            assert encoded[name] == alone[0][name] + alone[1][name]
        sizes = [len(one["input_ids"]) for one in alone]
        assert encoded["token_type_ids"] == [0] * sizes[0] + [1] * sizes[1]
        assert encoded.word_ids() == alone[0].word_ids() + alone[1].word_ids()
        assert set(encoded.sequence_ids()) <= {None, 0, 1}
        assert num_cut == [
            encode_within_limit(tokenizer, [t], **options)[1][0] for t in (first, second)
        ]
        batch, _ = encode_apart(tokenizer, [first, second], return_tensors="pt", **options)
        assert batch["input_ids"].tolist() == [encoded["input_ids"]]


def test_count_tokens_counts_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_limit, "PIECE_SIZE", 50)
    tokenizer = build_tokenizer(["the soup was not good"])
    text = "The soup   wasn't good,\n" * 40 + "\ud800"
    encode = partial(encode_alone, tokenizer)
    assert count_tokens(encode, text) == len(tokenizer(text)["input_ids"]) == 241
    assert count_tokens(encode, "") == 0
