"""A heatmap as a small SVG file for a model card; it needs no matplotlib."""

import math
from collections.abc import Sequence
from itertools import accumulate

from .alignment import parse_alignment
from .attended_text import Result, parse_result
from .figures import MAX_WORD_LENGTH, num_cells, plain, wrapped
from .rendering import render

LETTER = 8  # in pixels: the width of a letter of a font of equal widths


def heatmap_svg(result: Result) -> str:
    """Draw hops by words, for each text of a pair, or a translation by its source.

    The result is that of the `self-attention` or the `aligned-translation` pipeline for one short
    input: the lines are not wrapped.
    """
    if "alignment" in result:
        weights, names, words = parse_alignment(result)
        return render("heatmap.svg", grids=[_grid(words, names, weights)], letter=LETTER)
    grids = []
    for text in parse_result(result):
        line = wrapped(text, math.inf, "")[0]
        strengths_by_hop = list(zip(*line.strengths, strict=True))
        grids.append(_grid(line.words, line.names, strengths_by_hop))
    return render("heatmap.svg", grids=grids, letter=LETTER)


def _grid(
    words: Sequence[str], names: Sequence[str], strengths: Sequence[Sequence[float]]
) -> dict[str, object]:
    """Return columns of words with their start and width in letters, and rows with their names."""
    shown_words = [plain(word, MAX_WORD_LENGTH) for word in words]
    shown_names = [plain(name, MAX_WORD_LENGTH) for name in names]
    widths = [num_cells(word) + 1 for word in shown_words]
    starts = accumulate(widths, initial=0)
    return {
        "columns": list(zip(starts, widths, shown_words, strict=False)),
        "rows": list(zip(shown_names, strengths, strict=bool(words))),
        "width": sum(widths),
        "name_width": max(map(num_cells, shown_names), default=0),
    }
