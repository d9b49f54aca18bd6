"""Attention in the terminal: colours where they are wanted, words where they are not."""

import io
import re
import sys

import pytest
from shown import pair_result, result

from sase_hf.visualization import attention_text

BACKGROUND = re.compile(r"\x1b\[0;([14;]*)38;2;31;29;26;48;2;(\d+);(\d+);(\d+)m([^\x1b]*)")
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


class Terminal(io.StringIO):
    """A standard output that somebody looks at."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


def test_without_colours_the_strongest_words_come_first() -> None:
    """One line for a text, one for each text of a pair."""
    assert attention_text(result("dull but fine"), top=2) == "fine 50%, but 33%"
    assert attention_text(pair_result("so it is", "no")) == "is 50%, it 33%, so 17%\nno 100%"
    assert attention_text(result("")) == ""


def test_a_text_that_was_cut_is_told() -> None:
    """Otherwise the reader would think that the model had read it all."""
    shown = attention_text(result("fine", truncated=1234), color=False)
    assert shown.splitlines()[1:] == ["(tokens cut off at the end and not read: 1,234)"]


def test_one_hop_can_be_shown_alone() -> None:
    """The second hop of these results reads from the other end."""
    assert attention_text(result("dull but fine"), hop=2) == "dull 50%, but 33%, fine 17%"
    with pytest.raises(ValueError, match="hop is 3; this result has the hops 1 to 2, and None for"):
        attention_text(result("fine"), hop=3)


def test_in_colour_the_text_runs_as_it_is() -> None:
    """Spacing stays, strength shows as colour, as a line and as bold type, and nothing leaks."""
    text = "  dull\tbut\n\nvery  fine! "
    shown, words = attention_text(result(text), color=True).rsplit("\n", 1)
    assert ESCAPE.sub("", shown) == text
    assert words.startswith("fine! 40%")
    assert shown.endswith("\x1b[0m")
    assert all(line.endswith("\x1b[0m") for line in shown.splitlines())
    found = {piece: (style, int(blue)) for style, _, _, blue, piece in BACKGROUND.findall(shown)}
    assert found["fine!"] == ("1;4;", 74)
    assert found["very"] == ("1;4;", 118)
    assert found["but"] == ("4;", 162)
    assert found["  "] == ("", 251)


def test_a_pair_in_colour_shows_both_texts() -> None:
    """Each above its own words."""
    shown = ESCAPE.sub("", attention_text(pair_result("so it is", "no"), color=True))
    assert shown.splitlines() == ["so it is", "is 50%, it 33%, so 17%", "no", "no 100%"]


@pytest.mark.parametrize(
    ("is_terminal", "colorterm", "no_color", "expected"),
    [
        (True, "truecolor", "", True),
        (True, "24bit", "", True),
        (True, "", "", False),
        (True, "truecolor", "1", False),
        (False, "truecolor", "", False),
    ],
)
def test_colours_are_for_terminals_that_have_and_want_them(
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,
    colorterm: str,
    no_color: str,
    expected: bool,
) -> None:
    """In a file or a pipe the sequences would be rubbish; NO_COLOR is the user's word."""
    monkeypatch.setattr(sys, "stdout", Terminal() if is_terminal else io.StringIO())
    monkeypatch.setenv("COLORTERM", colorterm)
    monkeypatch.setenv("NO_COLOR", no_color)
    assert ("\x1b[" in attention_text(result("fine"))) == expected


def test_a_text_cannot_steer_the_terminal() -> None:
    """An escape sequence in a review is shown, not sent."""
    for color in (True, False):
        shown = ESCAPE.sub("", attention_text(result("\x1b[31mred\x9b2J"), color=color))
        assert "[U+001B][31mred[U+009B]2J" in shown
        assert "\x1b" not in shown
        assert "\x9b" not in shown
