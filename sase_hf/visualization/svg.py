"""Why, and the attention, of a text, a pair or a translation as an SVG, for a card or a slide."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..utils.text import shortened, visible
from .alignment import MAX_TOKENS, parse_alignment
from .attended_text import (
    FULL_STRENGTH,
    AttendedText,
    Result,
    full_contribution,
    parse_result,
    strengths,
    totals_of,
)
from .rendering import render, signed

MAX_HOPS = 40
MAX_WORD_LENGTH = 30


class _Row(NamedTuple):
    """Cells for words: weights from 0 to 1, or shares of a full contribution, with their sign."""

    name: str
    values: Sequence[float]
    is_why: bool = False


def attention_svg(result: Result, title: str = "") -> str:
    """Draw a result of the `self-attention` or the `aligned-translation` pipeline as an SVG.

    Words stand above their cells. The first row, "why", is what each word added to the logit of the
    target, if the result has contributions. Below it stand all hops together and the hops (section
    2.3 of the paper), unless they added less than a third of the logit, which is said then. A
    `true_label` that was added to the result is named. Long texts are wrapped; a note counts the
    words beyond `MAX_TOKENS` and the hops beyond `MAX_HOPS`, which are left out. In an alignment,
    the source runs across and the translation down. Colours are light or dark, as the reader's
    system asks. Raises ValueError for other results.
    """
    grids: list[tuple[Sequence[str], list[_Row], AttendedText | None]]
    hops_behind = ""
    if "alignment" in result:
        weights, names, words = parse_alignment(result)
        grids = [(words, list(map(_Row, names, weights)), None)]
        grids.append((["0", "1"], [_Row("weight", [0, 1])], None))
    else:
        texts = parse_result(result)
        totals = totals_of(result, texts)
        full = full_contribution(texts)
        grids = []
        if totals is not None and totals.are_hops_behind:
            parts = f"{signed(totals.by_hops)} of {signed(totals.together)}"
            hops_behind = f"The hops added {parts}: their attention explains little."
        for text in texts:
            words = [text.part(*span) for span in text.words[:MAX_TOKENS]]
            grids.append((words, list(_rows(text, full, not hops_behind)), text))
        if full:
            ends = [f"against: {signed(-full)} or less", f"for: {signed(full)} or more"]
            grids.append((ends, [_Row("why", [-1, 1], True)], None))
        if not hops_behind:
            ends = ["an even share or less", f"{FULL_STRENGTH} times that or more, or all"]
            grids.append((ends, [_Row("attention", [0, 1])], None))
    return render(
        "attention.svg",
        result=result,
        title=title,
        grids=grids,
        hops_behind=hops_behind,
        max_tokens=MAX_TOKENS,
        max_hops=MAX_HOPS,
        lines_of=_lines,
        shown_of=_shown,
    )


def _rows(text: AttendedText, full: float, has_hops: bool) -> Iterator[_Row]:
    """Yield what words added as a share of `full`, all hops together and each hop."""
    if text.added and full:
        yield _Row("why", [added / full for added in text.added], True)
    views = text.views[: MAX_HOPS + 1] if has_hops else []
    for view in range(len(views)):
        name = f"hop {view}" if view else "all hops"
        yield _Row(name, strengths(text.views[view]))


def _lines(words: Iterable[str], longest: int) -> list[list[tuple[int, int, int, str]]]:
    """Return words in lines of up to `longest` letters: the place of each, its start and width."""
    lines: list[list[tuple[int, int, int, str]]] = [[]]
    end = 0
    for place, word in enumerate(words):
        shown, width = _shown(word)
        if end + width >= longest:
            lines.append([])
            end = 0
        lines[-1].append((place, end, width, shown))
        end += width + 1
    return lines


def _shown(text: str, longest: int = MAX_WORD_LENGTH) -> tuple[str, int]:
    """Return a text on one line, and its width in letters; those of Chinese, say, are double."""
    line = shortened(visible(text), longest)
    return line, sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in line)
