"""What all figures share: matplotlib without pyplot, safe text, and writing to a file.

No window opens and no state is kept. Texts, labels and names are drawn as they are: never as
formulas, with what is invisible made visible, and with a box for a character that the font lacks.
"""

from __future__ import annotations

import math
import os
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .readings import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg")
DOTS_PER_INCH = 200
POINTS_PER_INCH = 72
LONGEST_LINE = 120
COLUMN_WIDTH = 0.65  # of the size of the letters, which are narrower on average
INK, FAINT_INK = "#222222", "#666666"

# Settings of every text: `$` begins no formula, whatever matplotlib is configured to do.
LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = None) -> Figure:
    """Return an empty figure of a size in inches.

    Args:
        width: Inches.
        height: Inches.
        layout: What places the axes; None if the caller does.

    Raises:
        ImportError: If matplotlib is missing.
    """
    _require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def check_figure_path(path: str | os.PathLike[str]) -> str:
    """Return the ending of a figure's file, before the work that the figure shows.

    Args:
        path: A file that ends in one of `ENDINGS`.

    Raises:
        ValueError: If the ending is another one.
        ImportError: If matplotlib is missing.
    """
    name = Path(path).name
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"a figure cannot be {name!r}; the name must end in .png or .svg")
    _require_matplotlib()
    return ending


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure; the same figure gives the same bytes.

    Args:
        figure: Any figure.
        path: A file that ends in one of `ENDINGS`; missing folders are made.

    Raises:
        ValueError: If the ending is another one.
        ImportError: If matplotlib is missing.
    """
    ending = check_figure_path(path)
    from matplotlib import rc_context

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    unsaid = ("Creator", "Date") if ending == ".svg" else ("Software",)
    with rc_context({"svg.hashsalt": "sase_hf"}):
        figure.savefig(
            target,
            format=ending[1:],
            dpi=DOTS_PER_INCH,
            facecolor="white",
            metadata=dict.fromkeys(unsaid),
        )


def add_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Add axes at a place in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def write(
    figure: Figure, left: float, top: float, text: str, room: float = math.inf, **style: Any
) -> None:
    """Write one line of text.

    Args:
        figure: The figure.
        left: Inches from its left edge.
        top: Inches from its lower edge to the top of the text, unless the style says otherwise.
        text: Any text.
        room: The inches after which it is cut.
        style: As matplotlib takes it.
    """
    across, up = figure.get_size_inches()
    style = {"color": INK, "va": "top", "size": 9, **style}
    column = COLUMN_WIDTH * style["size"] / POINTS_PER_INCH
    line = plain(text, int(min(LONGEST_LINE, room / column)))
    figure.text(left / across, top / up, line, **LITERAL, **style)


def plain(text: object, longest: int = LONGEST_LINE) -> str:
    """Return a text as one line that the font of a figure can draw.

    Args:
        text: Any text.
        longest: The columns after which it is cut.
    """
    line = " ".join(visible(str(text)[: 10 * longest]).split())
    if columns_of(line) > longest:
        while columns_of(line) >= longest:
            line = line[:-1]
        line += "…"
    known = _known_characters()
    return "".join(letter if ord(letter) in known else "\N{WHITE SQUARE}" for letter in line)


def columns_of(text: str) -> int:
    """Return how wide a text is, letters of Latin scripts counting one and wide ones two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _require_matplotlib() -> None:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as reason:
        raise ImportError("figures need matplotlib: pip install 'sase_hf[viz]'") from reason


def _known_characters() -> frozenset[int]:
    """Return what the font has in each of its styles; matplotlib warns of all other characters."""
    _require_matplotlib()
    from matplotlib.font_manager import FontProperties, findfont

    styles: tuple[dict[str, Any], ...] = ({}, {"weight": "bold"}, {"style": "italic"})
    return _in_all_fonts(tuple(findfont(FontProperties(**style)) for style in styles))


@lru_cache
def _in_all_fonts(paths: tuple[str, ...]) -> frozenset[int]:
    from matplotlib.font_manager import get_font

    return frozenset.intersection(*(frozenset(get_font(path).get_charmap()) for path in paths))


__all__ = [
    "DOTS_PER_INCH",
    "ENDINGS",
    "FAINT_INK",
    "INK",
    "LITERAL",
    "add_axes",
    "check_figure_path",
    "columns_of",
    "new_figure",
    "plain",
    "save_figure",
    "write",
]
