"""The weights that a relation network gives pairs of tokens, as a heatmap of tokens by tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..utils.text import visible
from .alignment import MAX_TOKENS, grid_figure
from .attended_text import Result, parse_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pair_figure(result: Result, title: str = "") -> Figure:
    """Draw the weights of pairs of tokens in one text, or in both; `save_figure` writes it.

    A row is a token, and the white cell in it is the partner with the largest weight of the figure;
    black is a weight of 0. The figure shows the first `MAX_TOKENS` tokens.

    Raises:
        ValueError: If the result is not from that pipeline, or its model weighs no pairs.
        ImportError: If matplotlib is missing.
    """
    parse_result(result)
    if "pair_attention" not in result:
        raise ValueError(
            "the result has no pair_attention; its model must have encoder='relation_network' and "
            "relation_weights='softmax' or 'sigmoid'"
        )
    fields = result["pair_attention"], result["tokens"]
    grids = []
    for weights, tokens in (
        [fields] if isinstance(result["text"], str) else zip(*fields, strict=True)
    ):
        names = [visible(token) for token in tokens[:MAX_TOKENS]]
        grids.append(([list(row[:MAX_TOKENS]) for row in weights[:MAX_TOKENS]], names, names))
    largest = max((weight for grid, _, _ in grids for row in grid for weight in row), default=1)
    return grid_figure(grids, title, largest)
