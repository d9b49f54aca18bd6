"""The alignment of a translation: what is shown of it."""

from collections.abc import Sequence

from ..utils.text import visible
from .attended_text import Result

MAX_TOKENS = 200  # of a text
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space before a piece of a text


def parse_alignment(result: Result) -> tuple[list[list[float]], list[str], list[str]]:
    """Return the weights, shape (L, T), the L target words and the T source words."""
    weights = result["alignment"]
    if weights is None:
        raise ValueError("the model has no attention, so there is no alignment to show")
    shown_weights = [list(row[:MAX_TOKENS]) for row in weights[:MAX_TOKENS]]
    return shown_weights, _words(result["tokens"]), _words(result["source_tokens"])


def _words(tokens: Sequence[str]) -> list[str]:
    """Return the first tokens as they are shown, a space as `SPACE`."""
    return [visible(token.replace(SPACE, "") or SPACE) for token in tokens[:MAX_TOKENS]]
