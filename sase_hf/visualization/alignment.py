"""The alignment of a translation as in Figure 3 of Bahdanau et al.: page, figure, terminal text.

All take what the `aligned-translation` pipeline returns. The source runs across and the translation
down; black is a weight of 0 and white one of 1.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..utils.text import visible
from .attended_text import Result, shortened
from .figures import draw_literally, new_figure, plain
from .page import escaped, fragment, framed, percent, style_sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Grid = tuple[list[list[float]], list[str], list[str]]  # weights, words down, words across

FIELDS = ("text", "translation_text", "tokens", "source_tokens", "alignment")
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space before a piece of a text

MAX_TOKENS = 200
MAX_WORD_LENGTH = 20
CELL = 0.26  # inches
MARGIN = 1.3

_LEAD = (
    "Each row is a word of the translation; the whiter a cell, the more it weighs the word of the "
    "source above."
)
_LIMITS = "The alignment shows what was weighed, not why a word was written."


def alignment_figure(result: Result, title: str = "") -> Figure:
    """Draw one alignment; `save_figure` writes it.

    Args:
        result: What the `aligned-translation` pipeline returned for one text.
        title: The heading.

    Raises:
        ValueError: If the result is not from that pipeline, or its model has no attention.
        ImportError: If matplotlib is missing.
    """
    return grid_figure([_parsed(result)], title, largest=1)


def grid_figure(grids: Sequence[Grid], title: str, largest: float) -> Figure:
    """Draw weights between words, one grid below the other; white is the largest weight."""
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
        results: What the `aligned-translation` pipeline returned for one text or for several.
        title: The heading.

    Raises:
        ValueError: As for `alignment_figure`.
    """
    return framed(_articles(results), title, lead=_LEAD, limits=_LIMITS, style=style_sheet())


def alignment_fragment(results: Result | Sequence[Result]) -> str:
    """Show the same as `alignment_html` as a piece of another page; raises as that does."""
    body = "\n".join(_articles(results, f"a{uuid.uuid4().hex[:12]}"))
    return fragment(body, style_sheet(), f"{_LEAD} {_LIMITS}")


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
    """Return the weights, L x T, the target and the source words, each checked."""
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


def _articles(results: Result | Sequence[Result], name: str = "text") -> list[str]:
    """Return a piece of HTML for each translation."""
    several = [results] if isinstance(results, Mapping) else list(results)
    return [_article(result, f"{name}-{number}") for number, result in enumerate(several, start=1)]


def _article(result: Result, name: str) -> str:
    """Show source, translation and the grey cells of their words."""
    weights, words, source = _parsed(result)
    heads = "".join(f'<th scope="col"><bdi>{escaped(word)}</bdi></th>' for word in source)
    rows = [
        f'<tr><th scope="row"><bdi>{escaped(word)}</bdi></th>'
        + "".join(
            f'<td style="--g:{weight:.3f}" title="{escaped(word)} \N{LEFTWARDS ARROW} '
            f'{escaped(other)}: {percent(weight)}"></td>'
            for other, weight in zip(source, row, strict=True)
        )
        + "</tr>"
        for word, row in zip(words, weights, strict=True)
    ]
    cut = max(len(result["tokens"]), len(result["source_tokens"])) - MAX_TOKENS
    note = f'<p class="note">Only the first {MAX_TOKENS} tokens are shown.</p>' if cut > 0 else ""
    return "\n".join(
        [
            f'<article class="result" id="{name}">\n<header>',
            f'<p class="words" dir="auto">{escaped(shortened(result["text"], 1000))}</p>',
            f'<h2 dir="auto">{escaped(shortened(result["translation_text"], 1000))}</h2>',
            '</header>\n<div class="scroll"><table class="alignment">',
            f"<thead><tr><td></td>{heads}</tr></thead>\n<tbody>",
            *rows,
            f"</tbody>\n</table></div>{note}\n</article>",
        ]
    )
