"""Make texts of others safe to show, and print tables of results."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import regex

NAME_WIDTH, MAX_CELL_WIDTH = 34, 12  # of a table in the terminal

# The letters of scripts without blanks between words, as a part of a class of `regex`.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}ーｰ\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"

# Invisible characters. The first alternatives are those that work where they stand: tags in the
# flags of England, Scotland and Wales; joiners in emoji and between letters of some scripts; and
# selectors of the style of a symbol or of a keycap.
INVISIBLE = regex.compile(
    r"""
    \U0001F3F4\U000E0067\U000E0062
        (?:\U000E0065\U000E006E\U000E0067
          |\U000E0073\U000E0063\U000E0074
          |\U000E0077\U000E006C\U000E0073)\U000E007F
    | (?<=[[\p{L}\p{M}\p{S}]--\p{ASCII}])[\u200C\u200D](?=[[\p{L}\p{M}\p{S}]--\p{ASCII}])
    | (?<=[[\p{S}\p{P}]--\p{ASCII}])[\uFE0E\uFE0F]
    | [\uFE0E\uFE0F](?=\u20E3)
    # Controls, formats, surrogates, private, unassigned, separators, fillers and blanks; but not
    # line breaks, tabs, Arabic signs before numbers, and the block where new emoji are placed.
    | (?P<hidden>
        [[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{DI}\u2800\U0001D159]
         --[\n\t\u0600-\u0605\u06DD\u070F\u0890\u0891\u08E2\U000110BD\U000110CD
            \U0001F000-\U0001FAFF]])
    """,
    regex.VERSION1 | regex.VERBOSE,
)


def visible(text: object) -> str:
    """Return a text in which nothing is hidden and nothing turns the reading direction.

    Characters that cannot be seen appear as their code point, such as `[U+202E]`. Line breaks and
    tabs stay, and so do joiners and selectors where emoji or the letters of a script need them.
    """
    return "".join(shown_characters(str(text)))


def shown_characters(text: str) -> Sequence[str]:
    """Return the form in which `visible` shows each character of a text."""
    shown = list(text)
    for match in INVISIBLE.finditer(text):
        place = match.start()
        if match["hidden"]:
            is_line_break = text.startswith("\r\n", place)
            shown[place] = "" if is_line_break else f"[U+{ord(text[place]):04X}]"
    return shown


def one_line(text: object) -> str:
    """Return a text as `visible` shows it, on one line."""
    return " ".join(visible(text).split())


def shortened(text: str, longest: int = 60) -> str:
    """Return a text on one line of at most `longest` characters."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    return f"{line[: longest - 1]}…"


class Table(NamedTuple):
    """Rows of texts under heads; the first text of a row is its name.

    `shares`, from 0 to 1, colour the cells after the first.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    shares: Sequence[Sequence[float]] | None = None


def table_lines(table: Table) -> Iterator[str]:
    """Yield a table for the terminal, its title in the place of the first head."""
    rows = ((table.title, *table.heads[1:]), *table.rows)
    shown = [list(map(one_line, row)) for row in rows]
    longest = max(len(cell) for _, *cells in shown for cell in cells)
    width = min(longest, MAX_CELL_WIDTH)
    for name, *cells in shown:
        columns = (f"  {shortened(cell, width):>{width}}" for cell in cells)
        yield f"{shortened(name, NAME_WIDTH):<{NAME_WIDTH}}{''.join(columns)}"
