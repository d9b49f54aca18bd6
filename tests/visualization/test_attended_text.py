"""Results before they are shown: cut into words, with nothing hidden in them."""

from itertools import pairwise
from typing import Any

import pytest
from shown import Page, result

from sase_hf.visualization import attention_html, attention_text, visible
from sase_hf.visualization.attended_text import parse_result, strengths

INVISIBLE = (
    "\0\x1b\x85\u202e\u2066\u200b\ufeff\u2028\ud800\u00ad\u115f\u180e\u2800\u3164\uffa0\u200d\ufe0f"
    "\U000e0041\U000e0100\ue000\uffff\U000e1000"
)


@pytest.mark.parametrize("character", INVISIBLE)
def test_visible_shows_invisible_characters_by_number(character: str) -> None:
    """They could hide words, turn them round or steer a terminal; some cannot be written."""
    shown = f"a[U+{ord(character):04X}]b"
    strange = result(f"a{character}b", label=character)
    page = Page(attention_html(strange).encode().decode())
    assert page.texts["p.words"] == [shown]
    assert shown in attention_text(strange).encode().decode()


@pytest.mark.parametrize(
    "text",
    [
        "👨\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 ❤\ufe0f 1\ufe0f\u20e3 ‼\ufe0f 👍🏽 🇫🇷🇩🇪 \U0001faea",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "می\u200cروم क्\u200dष \u0600\u0661",
        "two\nlines\tand a\u00a0space",
    ],
)
def test_visible_keeps_emoji_and_scripts_whole(text: str) -> None:
    """Taken apart, a family would become three people and a Persian word two."""
    assert visible(text) == text


def test_visible_shows_selectors_joiners_and_carriage_returns_without_use() -> None:
    """Bytes can be smuggled in a row of selectors; a lone return can overwrite a line."""
    assert visible("one\r\ntwo\rthree") == "one\ntwo[U+000D]three"
    assert visible("🙂\ufe0f\ufe0f 🙂\U000e0101") == "🙂\ufe0f[U+FE0F] 🙂[U+E0101]"
    assert visible("pay\u200dpal \u200d🙂") == "pay[U+200D]pal [U+200D]🙂"
    assert visible("🏴\U000e0061\U000e007f") == "🏴[U+E0061][U+E007F]"


@pytest.mark.parametrize(
    ("text", "offsets", "words", "weights"),
    [
        ("🇫🇷🇩🇪", pairwise(range(5)), [(0, 2), (2, 4)], [0.3, 0.7]),
        ("e\u0301", pairwise(range(3)), [(0, 2)], [0.3]),
        # A byte-level tokenizer splits one character into several tokens, and adds some without.
        ("é!", [(0, 1), (0, 1), (0, 0), (1, 2)], [(0, 1), (1, 2)], [0.3, 0.4]),
    ],
)
def test_attended_text_joins_tokens_within_one_character(
    text: str, offsets: Any, words: list[tuple[int, int]], weights: list[float]
) -> None:
    """A tokenizer cuts them apart; coloured one by one they would not be drawn as one."""
    offsets = list(offsets)
    given = [0.1 * number for number in range(1, len(offsets) + 1)]
    cut = {"tokens": [], "offsets": offsets, "overall": given, "attention": [given]}
    [reading] = parse_result(result(text) | cut)
    assert reading.words == words
    assert reading.views == [pytest.approx(weights)] * 2


def test_attended_text_joins_tokens_whose_letters_meet() -> None:
    """A reader sees words, whatever the tokenizer cuts; a pair keeps its two texts apart."""
    weights = [0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.1, 0.1]
    side = {
        "text": "won't unreadable 悪い",
        "tokens": [],
        "offsets": [(0, 0), (0, 2), (2, 5), (6, 8), (8, 12), (12, 16), (17, 18), (18, 19)],
        "overall": weights,
        "attention": [weights],
        "word_contributions": [9, -2.0, 1.0, 0.5, 3.0, 0.0, 1.0, 2.0],
    }
    of_pair = {name: [value, value] for name, value in side.items()}
    answer = {"label": "a", "score": 0.5}
    for reading in [*parse_result(side | answer), *parse_result(of_pair | answer)]:
        assert reading.words == [(0, 5), (6, 16), (17, 18), (18, 19)]
        assert reading.views == [pytest.approx([0.2, 0.5, 0.1, 0.1])] * 2
        assert reading.added == pytest.approx([-1.0, 3.5, 1.0, 2.0])


def test_attended_text_names_the_strongest_first_and_no_word_that_added_next_to_nothing() -> None:
    """Neither less than a twentieth of the strongest, nor what is shown as zero."""
    [text] = parse_result(result("dull but very fine food"))
    for added, names in (
        ([-2.0, 0.09, 0.11, 1.0, -0.5], [["fine", "very"], ["dull", "food"]]),
        ([-0.004, 0.0, 0.006, 0.0, 0.0], [["very"], []]),
    ):
        found = text.for_and_against(added, 5)
        assert [[word for word, _ in words] for words in found] == names


def test_attended_text_joins_neighbours_of_scripts_without_blanks_that_spoke_for_one_side() -> None:
    """The characters of a word, where each is a token; Hangul has blanks."""
    text = "最悪でした좋 아"
    offsets = [(place, place + 1) for place, character in enumerate(text) if character != " "]
    added = [0.5, 0.9, 0.01, -0.3, -0.2, 1.0, 1.0]
    even = [1 / 7] * 7
    of_text = {
        "offsets": offsets,
        "overall": even,
        "attention": [even],
        "word_contributions": added,
    }
    [reading] = parse_result(result(text) | of_text)
    assert reading.for_and_against(added, 5) == [
        [("最悪", pytest.approx(1.4)), ("좋", 1.0), ("아", 1.0)],
        [("した", pytest.approx(-0.5))],
    ]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([], []),
        ([0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]),  # twice an even share; all would be 4 times
        ([0.04, 0.08, 0.16, 0.72] + [0] * 46, [0.33, 0.67, 1, 1] + [0] * 46),
    ],
)
def test_strengths_are_logarithms_of_the_ratio_to_an_even_share(
    weights: list[float], expected: list[float]
) -> None:
    """Full at 8 times an even share or, in a shorter text, at all of the attention."""
    assert strengths(weights) == expected


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([1.0], [0]), ([0.32, 0.34, 0.34], []), ([0.4, 0.1, 0.1, 0.4], [0, 3])],
)
def test_words_stand_out_from_one_and_a_half_even_shares_on(
    weights: list[float], expected: list[int]
) -> None:
    words = ["dull", "but", "very", "fine"][: len(weights)]
    [text] = parse_result(result(" ".join(words), overall=weights))
    assert text.top_words(0, 5) == [(words[place], weights[place]) for place in expected]
