"""Results before they are shown: checked, cut into words, with nothing hidden in them."""

from itertools import pairwise
from typing import Any

import pytest
from shown import Page, pair_result, result

from sase_hf.visualization import attention_html, attention_text, comparison_html, visible
from sase_hf.visualization.readings import read_result

SHOWERS = (attention_html, attention_text, lambda one: comparison_html({"a": one, "b": one}))


@pytest.mark.parametrize(
    "character",
    [
        *("\0", "\x1b", "\r", "\x85", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\ud800"),
        *("\u00ad", "\u034f", "\u115f", "\u1160", "\u17b4", "\u180e", "\u2800", "\u3164", "\uffa0"),
        *("\u200d", "\ufe0f", "\U000e0041", "\U000e0100", "\ue000", "\uffff", "\U000e1000"),
    ],
)
def test_characters_that_cannot_be_seen_are_shown_by_number(character: str) -> None:
    """They could hide words, turn them round or steer a terminal; some cannot be written."""
    shown = f"[U+{ord(character):04X}]"
    assert visible(f"a{character}b") == f"a{shown}b"
    strange = result(f"a{character}b c", label=character)
    page = Page(attention_html(strange, title=character).encode().decode())
    assert page.texts["p.words"] == [f"a{shown}b c"]
    assert page.texts["h2"] == [f"Predicted {shown} 75.0%"]
    assert f"a{shown}b" in attention_text(strange).encode().decode()


@pytest.mark.parametrize(
    "text",
    [
        "👨\u200d👩\u200d👧",
        "🏳\ufe0f\u200d🌈 ❤\ufe0f 1\ufe0f\u20e3 ‼\ufe0f",
        "👍🏽",
        "🇫🇷🇩🇪",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "می\u200cروم",
        "क्\u200dष",
        "two\nlines\tand a\u00a0space",
        "\U0001faea",
        "\u0600\u0661",
    ],
)
def test_what_a_reader_sees_stays_as_it_is(text: str) -> None:
    """Taken apart, a family would become three people and a Persian word two."""
    assert visible(text) == text


def test_a_selector_or_a_joiner_without_work_is_shown() -> None:
    """Bytes can be smuggled in a row of them behind one emoji, or between Latin letters."""
    assert visible("🙂\ufe0f\ufe0f") == "🙂\ufe0f[U+FE0F]"
    assert visible("🙂\U000e0101") == "🙂[U+E0101]"
    assert visible("pay\u200dpal \u200d🙂") == "pay[U+200D]pal [U+200D]🙂"
    assert visible("🏴\U000e0061\U000e007f") == "🏴[U+E0061][U+E007F]"


def test_line_breaks_of_another_system_are_line_breaks() -> None:
    """A carriage return alone can overwrite a line of a terminal, before a line feed it is none."""
    assert visible("one\r\ntwo\rthree") == "one\ntwo[U+000D]three"


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ("👨\u200d👩\u200d👧", [0, 1, 2, 3, 4, 5]),
        ("👍🏽", [0, 1, 2]),
        ("🇫🇷", [0, 1, 2]),
        ("1\ufe0f\u20e3", [0, 1, 2, 3]),
        ("می\u200cروم", [0, 2, 3, 6]),
    ],
)
def test_the_parts_of_what_is_drawn_as_one_are_one_word(text: str, cuts: list[int]) -> None:
    """A tokenizer cuts them apart; coloured one by one they would not be drawn as one."""
    offsets = list(pairwise(cuts))
    weights = [1 / len(offsets)] * len(offsets)
    tokens = [text[start:end] for start, end in offsets]
    cut = {"tokens": tokens, "offsets": offsets, "overall": weights, "attention": [weights]}
    [reading] = read_result(result(text) | cut)
    assert reading.words == [(0, len(text))]
    assert reading.views == [[pytest.approx(1.0)]] * 2


def test_two_flags_are_two_words() -> None:
    """Four letters in a row make two countries."""
    flags = "🇫🇷🇩🇪"
    cut = {
        "tokens": list(flags),
        "offsets": [(place, place + 1) for place in range(4)],
        "overall": [0.1, 0.2, 0.3, 0.4],
        "attention": [[0.1, 0.2, 0.3, 0.4]],
    }
    [reading] = read_result(result(flags) | cut)
    assert reading.words == [(0, 2), (2, 4)]
    assert reading.views[0] == pytest.approx([0.3, 0.7])


def test_tokens_that_share_characters_are_one_word() -> None:
    """A byte-level tokenizer splits one character into several tokens, and adds some without."""
    shared = {"tokens": ["é", "é", "", "!"], "offsets": [(0, 1), (0, 1), (0, 0), (1, 2)]}
    weights = {"overall": [0.3, 0.2, 0.1, 0.4], "attention": [[0.3, 0.2, 0.1, 0.4]]}
    [reading] = read_result(result("é!") | shared | weights)
    assert reading.words == [(0, 1), (1, 2)]
    assert reading.views == [pytest.approx([0.5, 0.4])] * 2


@pytest.mark.parametrize("show", SHOWERS)
def test_a_result_of_another_pipeline_is_refused(show: Any) -> None:
    """A plain classifier returns label and score alone; say what to call instead."""
    with pytest.raises(
        ValueError, match=r"has no text, tokens, offsets, overall, attention\. Make"
    ):
        show({"label": "4 stars", "score": 0.75})


@pytest.mark.parametrize("show", SHOWERS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overall": [float("nan"), 1.0]}, "weights in overall that are negative or not finite"),
        ({"attention": [[0.5, 0.5], [-1.0, 2.0]]}, "weights in hop 2 that are negative"),
        ({"attention": [[0.5, 0.5], [1.0]]}, "has 2 tokens and 2 offsets, but 1 weights in hop 2"),
        ({"offsets": [(0, 1)]}, "has 2 tokens and 1 offsets"),
        ({"score": float("nan")}, "gives score as nan"),
        ({"scores": {"bad": float("inf")}}, "gives bad as inf"),
        ({"score": "0.5"}, "gives score as '0.5'; it must be a number"),
        ({"scores": [0.5]}, r"has \[0.5\] as scores; it must be a dict"),
        ({"attention": [0.5, 0.5]}, "has 0.5 as weights in hop 1; they must be a list of numbers"),
        ({"attention": None}, "has None as attention; it must be a list of hops"),
        ({"overall": ["1", "0"]}, r"has \['1', '0'\] as weights in overall"),
        ({"offsets": [(0, 2), (3, 8)]}, r"offsets \(3, 8\); each .* in the text, from 0 to 7"),
        ({"offsets": [(-1, 2), (3, 7)]}, r"has the offsets \(-1, 2\); each must be"),
        ({"offsets": [1, 2]}, "has the offsets 1; each must be"),
        ({"tokens": 2}, "has 2 as tokens and .* as offsets; both must be lists"),
        ({"text": None}, "has None as text; it must be a text, or two"),
    ],
)
def test_wrong_weights_are_refused(show: Any, changes: dict[str, Any], message: str) -> None:
    """A picture of NaN would look like a text that nobody read."""
    with pytest.raises(ValueError, match=message):
        show(result("so fine") | changes)


def test_the_refused_result_is_named() -> None:
    """Among a thousand the reader must find it."""
    with pytest.raises(ValueError, match=r"^result 1 \(counted from 0\) has weights in overall"):
        attention_html([result("fine"), result("fine", overall=[float("nan")])])
    with pytest.raises(
        ValueError, match=r"result 0 \(counted from 0\) is 'fine'; it must be a dict"
    ):
        attention_html(["fine"])
    for nothing in (None, "fine"):
        with pytest.raises(ValueError, match=rf"^the results are '?{nothing}'?; they must be what"):
            attention_html(nothing)
    with pytest.raises(ValueError, match=r"is a pair, so each of text, tokens, .* must be"):
        attention_html(pair_result("a", "b") | {"overall": [[1.0]]})
