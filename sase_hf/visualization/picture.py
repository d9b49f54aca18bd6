"""A heatmap as a small SVG file for a model card; it needs no matplotlib."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

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
    lines = [wrapped(text, math.inf, "")[0] for text in parse_result(result)]
    grids = [_grid(line.words, line.names, [*zip(*line.strengths, strict=True)]) for line in lines]
    return render("heatmap.svg", grids=grids, letter=LETTER)


def _grid(
    words: Sequence[str], names: Sequence[str], strengths: Sequence[Sequence[float]]
) -> dict[str, Any]:
    """Return columns of words with their start and width in letters, and rows with their names."""
    words, names = ([plain(name, MAX_WORD_LENGTH) for name in side] for side in (words, names))
    widths = [num_cells(word) + 1 for word in words]
    columns = list(zip(accumulate(widths, initial=0), widths, words, strict=False))
    rows = list(zip(names, strengths, strict=bool(words)))
    name_width = max(map(num_cells, names), default=0)
    return {"columns": columns, "rows": rows, "width": sum(widths), "name_width": name_width}
