"""Which words a built tokenizer knows, how it cuts a text, and what it never mistakes.

And when texts are cut into pieces of words: where known words take ever new endings.
"""

import random
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer, TokenizersBackend

from sase_hf import build_tokenizer, build_translation_tokenizer
from sase_hf.data.tokenizer import (
    built_settings,
)
from sase_hf.utils.lenient_tokenizer import LenientTokenizer

TEXTS = ["The soup was good, the bread was not.", "I don't like the soup.", "Pad it [ unk ]!"]
CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
ACUTE = "\N{COMBINING ACUTE ACCENT}"
PIZZA = "\N{SLICE OF PIZZA}"


@pytest.fixture(scope="module")
def tokenizer() -> TokenizersBackend:
    return build_tokenizer(TEXTS)


def reloaded(tokenizer: TokenizersBackend, folder: Path) -> TokenizersBackend:
    tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def words_in_order(tokenizer: TokenizersBackend) -> list[str]:
    return sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)


def test_build_tokenizer_orders_words_by_frequency_then_code_point() -> None:
    """The same texts give the same ids on every machine, whatever the seed of its hashes."""
    texts = ["c c b b", "é a a z", "c Z"]
    expected = ["[PAD]", "[UNK]", *"cabZzé"]
    for ordered in (texts, texts[::-1]):
        assert words_in_order(build_tokenizer(ordered, lowercase=False)) == expected


def test_build_tokenizer_leaves_out_rare_words() -> None:
    """`vocab_size` is the number of rows of the embedding matrix, special tokens included."""
    assert words_in_order(build_tokenizer(["a a a b b c"], vocab_size=4))[2:] == ["a", "b"]
    assert words_in_order(build_tokenizer(["a a b", "b c"], min_frequency=2))[2:] == ["a", "b"]


def test_build_tokenizer_extra_words_fill_the_room_that_the_texts_leave() -> None:
    """They are cut and spelt alike, and stand after the words of the texts."""
    extra = ["a", "Zebra", "well-known", "zebra", "[PAD]", "don't", "yak", "late"]
    tokenizer = build_tokenizer(["a b"], vocab_size=6, extra_words=iter(extra))
    assert words_in_order(tokenizer) == ["[PAD]", "[UNK]", "a", "b", "zebra", "yak"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # As the Penn Treebank: negation is one token, as in GloVe's vocabulary.
        ("I don't, can't, WON'T!", "i do n't , ca n't , wo n't !"),
        ("4.5 well-known (e-mail) a_b", "4 . 5 well - known ( e - mail ) a _ b"),
        (f"{PIZZA}{PIZZA} naïve 'quote'", f"{PIZZA} {PIZZA} naïve ' quote '"),
        (f"Don{CURLY}t Cafe{ACUTE}", "do n't caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
        # Scripts without spaces: as a word, a sentence would be unknown in every other text.
        ("ผมรักเมือง ພາສາ ខ្ញុំ မြန်မာ", "ผ ม รั ก เ มื อ ง ພ າ ສ າ ខ្ ញុំ မြ န် မာ"),
    ],
)
def test_tokenizer_cuts_texts_into_words_and_signs(text: str, tokens: str) -> None:
    assert build_tokenizer([text]).tokenize(text) == tokens.split()
    stray = build_tokenizer([*9 * TEXTS, f"The soup {text}"])
    assert stray.tokenize(f"soup {text}") == ["soup", *tokens.split()], "whatever the other texts"


def test_tokenizer_offsets_show_each_token_as_the_text_has_it() -> None:
    """Attention is drawn on the text itself, before normalisation changed its length."""
    text = f"  İstanbul didn{CURLY}t\tmove: [UNK] {PIZZA}!"
    encoded = build_tokenizer(TEXTS)(text, return_offsets_mapping=True)
    shown = [text[start:end] for start, end in encoded["offset_mapping"]]
    assert shown == ["İstanbul", "did", f"n{CURLY}t", "move", *":[", "UNK", "]", PIZZA, "!"]


def test_tokenizer_of_pieces_cuts_rare_words_into_stem_and_ending(tmp_path: Path) -> None:
    """A frequent word stays whole, a new one has known pieces, a new character is unknown."""
    texts = ["The soups, he walks!", "walked walking", "don't talk", "I don't, a talking soup"]
    built = build_tokenizer(texts, min_frequency=2, level="subword")
    for tokenizer in (built, reloaded(built, tmp_path)):
        encoded = tokenizer("Soups talked, don't ask 我!")
        assert " ".join(encoded.tokens()) == "soup s talk e d , do n't a s k [UNK] !"
        assert encoded.word_ids() == [0, 0, 1, 1, 1, 2, 3, 4, 5, 5, 5, 6, 7]


def test_built_settings_are_none_for_a_changed_tokenizer() -> None:
    tokenizer = build_tokenizer(TEXTS)
    assert built_settings(tokenizer)
    tokenizer.add_tokens(["[USER]"])
    assert built_settings(tokenizer) is None


@pytest.mark.parametrize("level", ["word", "subword"])
def test_tokenizer_cuts_any_text_into_words_in_order(level: Any) -> None:
    """Whatever users type, every id is a row of the embeddings and no token leaves the text."""
    tokenizer = build_tokenizer(TEXTS, level=level)
    rng = random.Random(0)
    odd = "\0\x1b\u200b\u200d\u202e\u2066\u0301\ufe0f\u65e5\u672c\U0001f469\U0010ffff\u0130[PAD]"
    texts = ["".join(rng.choices(odd, k=40)) for _ in range(500)]
    texts += ["a" * 100_000, "n't" * 10_000]
    encoded = tokenizer(texts, return_offsets_mapping=True)
    assert tokenizer.pad_token_id not in {i for ids in encoded["input_ids"] for i in ids}
    for text, spans in zip(texts, encoded["offset_mapping"], strict=True):
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert spans == sorted(spans)


def test_tokenizer_puts_no_token_between_the_texts_of_a_pair(tokenizer: TokenizersBackend) -> None:
    pair = tokenizer("the soup", "good bread !")
    assert pair["input_ids"] == tokenizer("the soup good bread !")["input_ids"]
    assert pair["token_type_ids"] == [0, 0, 1, 1, 1]


def test_tokenizer_reads_typed_special_tokens_as_text(
    tokenizer: TokenizersBackend, tmp_path: Path
) -> None:
    """A user who types [PAD] hides no words from the model."""
    for each in (tokenizer, reloaded(tokenizer, tmp_path)):
        expected = each("[ pad ] it [ unk ] soup")["input_ids"]
        assert not {0, 1} & set(expected), "the premise: every token is a known word"
        assert each("[PAD] it [UNK] soup")["input_ids"] == expected
        words = ["[PAD]", "it", "[UNK]", "soup"]
        assert each(words, is_split_into_words=True)["input_ids"] == expected


def test_tokenizer_saved_is_a_stock_one(tokenizer: TokenizersBackend, tmp_path: Path) -> None:
    """It loads with transformers alone, and does the same.

    Here the class of this package is registered; without it the stock one takes its place.
    """
    loaded = reloaded(tokenizer, tmp_path)
    assert type(loaded) is LenientTokenizer
    for each in (loaded, TokenizersBackend.from_pretrained(tmp_path)):
        assert each("It isn't", f"good {PIZZA}") == tokenizer("It isn't", f"good {PIZZA}")


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ("one text", {}, "texts is a str; pass a list"),
        (["a", None], {}, "NoneType"),
        (TEXTS, {"vocab_size": 2}, "no word .* vocab_size=2;"),
    ],
)
def test_build_tokenizer_refuses_what_it_cannot_use(
    texts: Any, options: dict[str, Any], message: str
) -> None:
    """A silent skip would hide a broken dataset."""
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        build_tokenizer(texts, **options)


@pytest.mark.parametrize("subwords", [False, True])
def test_translation_tokenizer_restores_the_text(subwords: bool) -> None:
    """Spaces, elisions and punctuation come back, save that runs of spaces become one."""
    texts = [
        "Un homme à l'arrière d'un « bus » .",
        "The man's dog doesn't \"bark\", (really).",
    ]
    tokenizer = build_translation_tokenizer(texts, subwords=subwords)
    for text in texts:
        ids = tokenizer(f"  {text}\n ").input_ids
        assert ids[-1] == tokenizer.eos_token_id == 2
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
    elided = build_translation_tokenizer(
        ["l'homme"] * 3 + ["hommes"], vocab_size=40, min_frequency=2, subwords=subwords
    )
    rare = ["homme", "s"] if subwords else ["[UNK]"]
    assert elided.tokenize("l'homme l'hommes") == ["▁l'", "homme", "▁l'", *rare]
