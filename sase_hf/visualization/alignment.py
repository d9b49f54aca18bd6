"""The alignment of a translation as in Figure 3 of Bahdanau et al.: page, figure, terminal text.

All functions take results of the `aligned-translation` pipeline. The source runs across and the
translation down; black is a weight of 0, white a weight of 1.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..utils.text import visible
from .attended_text import Result
from .figures import draw_literally, new_figure, plain
from .rendering import render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Grid = tuple[list[list[float]], list[str], list[str]]  # weights, words down, words across

FIELDS = ("text", "translation_text", "tokens", "source_tokens", "alignment")
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space before a piece of a text

MAX_TOKENS = 200
MAX_WORD_LENGTH = 20
CELL = 0.26  # inches
MARGIN = 1.3


def alignment_figure(result: Result, title: str = "") -> Figure:
    """Draw one alignment; `save_figure` writes it.

    Args:
        result: The result of the `aligned-translation` pipeline for one text.
        title: The heading.

    Raises:
        ValueError: If the result is not from that pipeline, or its model has no attention.
        ImportError: If matplotlib is missing.
    """
    return grid_figure([_parsed(result)], title, largest=1)


def grid_figure(grids: Sequence[Grid], title: str, largest: float) -> Figure:
    """Draw weights between words, one grid below the other; white is the weight `largest`."""
    width = max(len(across) for _, _, across in grids)
    heights = [max(CELL * len(down), CELL) + MARGIN for _, down, _ in grids]
    figure = new_figure(CELL * width + MARGIN, sum(heights))
    figure.suptitle(plain(title), x=0.01, ha="left", weight="bold", size=12)
    panels = figure.subplots(len(grids), squeeze=False, height_ratios=heights)
    for axes, (weights, down, across) in zip(panels[:, 0], grids, strict=True):
        axes.imshow(weights or [[0.0]], cmap="gray", vmin=0, vmax=largest, interpolation="nearest")
        names = [[plain(word, MAX_WORD_LENGTH) for word in side] for side in (across, down)]
        axes.set_xticks(range(len(across)), names[0], rotation=90, size=9)
        axes.set_yticks(range(len(down)), names[1], size=9)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
    draw_literally(figure)
    return figure


def alignment_html(results: Result | Sequence[Result], title: str = "Alignment") -> str:
    """Show alignments: one stand-alone HTML page, without scripts.

    Args:
        results: The results of the `aligned-translation` pipeline for one text or for several.
        title: The heading.

    Raises:
        ValueError: As for `alignment_figure`.
    """
    return _render(results, "page.html", "text", title=title)


def alignment_fragment(results: Result | Sequence[Result]) -> str:
    """Return the articles of `alignment_html` as a piece of another page; raises as it does."""
    return _render(results, "fragment.html", f"a{uuid.uuid4().hex[:12]}")


def alignment_text(result: Result, top: int = 3) -> str:
    """Name the strongest source words of each word of a translation, for a terminal.

    Raises:
        ValueError: As for `alignment_figure`.
    """
    weights, words, source = _parsed(result)
    width = max(map(len, words), default=0)
    lines = []
    for word, row in zip(words, weights, strict=True):
        best = sorted(range(len(row)), key=lambda place: -row[place])[:top]
        named = ", ".join(f"{source[place]} {row[place]:.0%}" for place in best)
        lines.append(f"{word:{width}}  {named}")
    return "\n".join([visible(result["translation_text"]), *lines])


def _parsed(result: Result) -> Grid:
    """Return the weights, shape (L, T), the L target words and the T source words, all checked."""
    if not isinstance(result, Mapping) or not all(field in result for field in FIELDS):
        raise ValueError(
            "the result is not from the aligned-translation pipeline, whose results have "
            f"{', '.join(FIELDS)}"
        )
    weights: Any = result["alignment"]
    if weights is None:
        raise ValueError("the model has no attention, so there is no alignment to show")
    words, source = (
        [visible(token.replace(SPACE, "") or SPACE) for token in result[name][:MAX_TOKENS]]
        for name in ("tokens", "source_tokens")
    )
    weights = [list(row[:MAX_TOKENS]) for row in weights[:MAX_TOKENS]]
    is_whole = len(weights) == len(words) and all(len(row) == len(source) for row in weights)
    if not is_whole or not all(map(math.isfinite, chain(*weights))):
        raise ValueError(
            f"the alignment must hold {len(words)} rows of {len(source)} finite numbers, one for "
            "each pair of tokens"
        )
    return weights, words, source


def _render(results: Result | Sequence[Result], layout: str, prefix: str, **values: Any) -> str:
    """Fill in the template with an article for each translation."""
    articles = []
    for result in [results] if isinstance(results, Mapping) else results:
        weights, words, source = _parsed(result)
        articles.append(
            {
                "text": result["text"],
                "translation": result["translation_text"],
                "source": source,
                "rows": list(zip(words, weights, strict=True)),
                "is_cut": max(len(result["tokens"]), len(result["source_tokens"])) > MAX_TOKENS,
            }
        )
    shared = {"layout": layout, "prefix": prefix, "max_tokens": MAX_TOKENS}
    return render("alignment.html", articles=articles, **shared, **values)
