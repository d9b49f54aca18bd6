"""Texts that are safe to show and without private parts; tables of results; the form of errors."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
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


# ---- folders, names of users and machines, and tokens --------------------------------------------


# Settings that name a place, a user or a machine.
PRIVATE_KEYS = {
    "token",
    "hub_token",
    "hub_model_id",
    "run_name",
    "output_dir",
    "logging_dir",
    "cache_dir",
}
# Names of columns and labels, which may look like a path, such as /r/news.
PUBLIC_KEYS = {"text_column_names", "label_column_name", "label_names", "id2label", "label2id"}
# Tokens of the Hugging Face Hub, with those of OAuth and of organisations.
TOKEN = re.compile(r"hf_jwt_[\w.-]{20,}|(?:hf_(?:oauth_)?|api_org_)[A-Za-z0-9]{20,}")
# A folder below that of a user.
HOME = re.compile(r"(?<![\w.])(?:/home|/Users|[A-Za-z]:[\\/]+Users)[\\/]+[\w.-]+[\\/]")

# The start of an absolute or dotted path: POSIX, Windows or file:, but not https://.
_START = r"(?!(?<=:)//)(?:file:(?=//))?(?:~\w*|\.{1,2}|[A-Za-z]:)?[/\\]+"
_PATH = re.compile(rf"{_START}[^\s:;,='\"][^:;,='\"\n]*")  # may hold spaces
_PATH_IN_TEXT = re.compile(rf"(?<![\w/\\.~-]){_START}[^\s:;,='\"<>|]+")


def redact(value: object, *, is_public: bool = False) -> Any:
    """Return dictionaries, lists, texts and numbers as plain JSON without private parts.

    Keys in `PRIVATE_KEYS` are left out, absolute and dotted paths are cut to their last part,
    "[token]" replaces tokens, and None replaces numbers that are not finite. Texts are left whole
    under `PUBLIC_KEYS`, and where all of the value `is_public`.
    """
    if isinstance(value, Mapping):
        return {
            str(key): redact(item, is_public=is_public or key in PUBLIC_KEYS)
            for key, item in value.items()
            if is_public or key not in PRIVATE_KEYS
        }
    if isinstance(value, list | tuple):
        return [redact(item, is_public=is_public) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | PurePath):
        text = str(value)
        if is_public:
            return text
        paths = _PATH if _PATH.fullmatch(text) else _PATH_IN_TEXT
        return TOKEN.sub(
            "[token]",
            paths.sub(lambda path: re.split(r"[/\\]", path[0].rstrip("/\\"))[-1], text),
        )
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ---- how this package words an error -------------------------------------------------------------


def refusal(what: str, way_out: str, error_class: type[Exception] = ValueError) -> Exception:
    """Return the error to raise for a value that is refused.

    `what` names the thing and what came; `way_out` says what is allowed, or what to do.
    """
    return error_class(f"{what}; {way_out}")
