"""The alignment of a translation: what is shown of it, and its text for the terminal."""

from collections.abc import Sequence

from ..utils.text import visible
from .attended_text import Result

MAX_TOKENS = 200  # of a text
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # stands for a space before a piece of a text


def alignment_text(result: Result, top: int = 3) -> str:
    """Name the `top` strongest source words of each word of a translation, for a terminal."""
    weights, words, source = parse_alignment(result)
    width = max(map(len, words), default=0)
    lines = []
    for word, row in zip(words, weights, strict=True):
        weighed = sorted(zip(source, row, strict=True), key=lambda pair: -pair[1])
        strongest = [f"{source_word} {weight:.0%}" for source_word, weight in weighed[:top]]
        lines.append(f"{word:{width}}  {', '.join(strongest)}")
    return "\n".join([visible(result["translation_text"]), *lines])


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
