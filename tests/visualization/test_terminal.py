"""Attention in the terminal: colours where they are wanted, words where they are not."""

import re
import sys
from types import SimpleNamespace
from typing import Any

from shown import explained, pair_result, result, with_linear_part

from sase_hf.visualization import attention_text

BACKGROUND = re.compile(r"\x1b\[0;([14;]*)38;2;31;29;26;48;2;(\d+);(\d+);(\d+)m([^\x1b]*)")
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def test_attention_text_names_the_strongest_words_first() -> None:
    assert attention_text(result("dull but fine"), top=2) == "fine 50%, but 33%"
    assert attention_text(pair_result("so it is", "no")) == "is 50%, it 33%, so 17%\nno 100%"
    assert attention_text(result("")) == ""
    cut = attention_text(result("fine", truncated=1234))
    assert cut == "fine 100%\n(tokens cut off at the end and not read: 1,234)"


def test_attention_text_names_the_words_for_and_against_with_their_signs() -> None:
    """In colour, what speaks for the label is blue and what speaks against it red."""
    shown = explained("dull but fine", [-0.5, 0.0, 1.25], "4\x1b stars")
    assert attention_text(shown, top=1) == "fine 50%\nwhy 4[U+001B] stars +0.75: +1.25 fine"
    expected = "why 4[U+001B] stars +0.75: +1.25 fine, −0.50 dull"
    assert attention_text(shown).splitlines()[1] == expected
    coloured = attention_text(shown, color=True).splitlines()[-1]
    assert ESCAPE.sub("", coloured) == expected
    (_, *pro, spoke_for), (_, *con, spoke_against) = BACKGROUND.findall(coloured)
    assert (spoke_for, spoke_against) == ("+1.25 fine", "−0.50 dull")
    assert int(pro[2]) > int(pro[0])
    assert int(con[0]) > int(con[2])


def test_attention_text_counts_what_words_added_by_themselves_once() -> None:
    """It is part of `word_contributions` already."""
    shown = explained("dull but fine", [-0.5, 0.0, 1.25])
    assert attention_text(with_linear_part(shown, [-0.5, 0.0, 1.0])) == attention_text(shown)


def test_attention_text_names_what_no_word_added() -> None:
    shown = explained("dull but fine", [-0.5, 0.0, 1.25])
    shown["contributions"][0][0] -= 0.5
    assert attention_text(shown).endswith("\nthe rest −0.50: what no word of the text added")


def test_attention_text_of_an_evenly_read_text_is_pale_and_says_so() -> None:
    """A long text with one strong word is not, although its entropy is 0.98 of the maximum."""
    shown = attention_text(result("dull but very fine", overall=[0.25] * 4), color=True)
    assert {style for style, *_ in BACKGROUND.findall(shown)} == {""}
    assert ESCAPE.sub("", shown) == "dull but very fine\n(reads all words about equally)"
    words = [f"w{number}" for number in range(200)]
    uneven = [0.04] + [0.96 / 199] * 199
    assert attention_text(result(" ".join(words), overall=uneven)).startswith("w0 4%, ")


def test_coloured_attention_text_keeps_the_text_as_it_is() -> None:
    """Spacing stays, strength shows as colour, as a line and as bold type, and nothing leaks."""
    text = "  dull\tbut\n\nvery  fine! "
    uneven = result(text, overall=[0.0, 0.4, 0.0, 0.6])
    shown, words = attention_text(uneven, color=True).rsplit("\n", 1)
    assert ESCAPE.sub("", shown) == text
    assert words.startswith("fine! 60%")
    assert all(line.endswith("\x1b[0m") for line in shown.splitlines())
    found = {piece: (style, int(blue)) for style, _, _, blue, piece in BACKGROUND.findall(shown)}
    assert found["fine!"] == ("1;4;", 139)
    assert found["but"] == ("4;", 191)
    assert found["very  "] == ("", 251)


def test_attention_text_colours_only_terminals_that_want_it(monkeypatch: Any) -> None:
    for is_terminal, colorterm, no_color, expected in (
        (True, "truecolor", "", True),
        (True, "", "", False),
        (True, "truecolor", "1", False),
        (False, "truecolor", "", False),
    ):
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda found=is_terminal: found))
        monkeypatch.setenv("COLORTERM", colorterm)
        monkeypatch.setenv("NO_COLOR", no_color)
        assert ("\x1b[" in attention_text(result("fine"))) == expected
