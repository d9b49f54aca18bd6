"""Attention as a figure for a paper or a slide: hops x words, drawn by matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from .canvas import FAINT_INK, add_axes, columns_of, new_figure, plain, write
from .readings import Reading, Result, read_result
from .results import label_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_WORDS = 200
MAX_HOPS = 40
WORDS_ACROSS = 32
FEWEST_WORDS_ACROSS = 16
LONGEST_WORD = 16

# One hue from light to dark: it reads the same for the colour-blind, and in print without colour.
COLOUR_MAP = "Reds"
SCALE_STEPS = 64

# Inches.
CELL_WIDTH, CELL_HEIGHT = 0.25, 0.2
WIDEST_CELL = 0.5  # of short texts
ROW_NAME_WIDTH, RIGHT_MARGIN = 0.55, 0.7
TITLE_HEIGHT, MARGIN, LINE, GAP = 0.3, 0.2, 0.22, 0.05
SCALE_WIDTH, SCALE_HEIGHT = 1.6, 0.65
NARROWEST, NARROWEST_COLUMN = 4.0, 3.0  # what the scale needs, and the headings of a model
LETTER_WIDTH = 0.075  # of the words above the cells, which lean by 45 degrees


class Block(NamedTuple):
    """Some words of a text that stand side by side in a figure.

    Attributes:
        heading: What is said above, the words aside.
        words: What is written above their cells.
        views: For all hops together, then for each hop that is shown, the weight of every word.
        notes: What has to be said below, a line each.
    """

    heading: str
    words: list[str]
    views: list[Sequence[float]]
    notes: Sequence[str]

    @property
    def label_height(self) -> float:
        """The inches that the leaning words take."""
        longest = max(map(columns_of, self.words), default=0)
        return 0.1 + longest * LETTER_WIDTH * math.sqrt(0.5)

    @property
    def height(self) -> float:
        """The inches from the heading to the end of the note."""
        cells = len(self.views) * CELL_HEIGHT + 2 * GAP
        lines = LINE * (bool(self.heading) + len(self.notes))
        return lines + self.label_height + cells + MARGIN


class Column(NamedTuple):
    """What one model read: lines above, then blocks, and the inches across."""

    headings: list[tuple[str, str]]
    blocks: list[Block]

    @property
    def most_words(self) -> int:
        """The words of the widest block."""
        return max(len(block.words) for block in self.blocks)


def attention_figure(result: Result, title: str = "") -> Figure:
    """Draw where a model looked in one text, or in both of a pair.

    The first row of cells is the overall attention, the others are the hops (section 2.3 of the
    paper). All hops share one scale of colours; the overall attention, whose weights are smaller,
    has its own. Colours go by the square root of the weights, so that hops which look at many words
    can be seen beside those which look at one. Long texts go on below; what is beyond `MAX_WORDS`
    or `MAX_HOPS` is left out, and the figure says so.

    Args:
        result: What the `self-attention` pipeline returned for one input; a `true_label` that was
            added is shown.
        title: The heading.

    Returns:
        The figure; `save_figure` writes it.

    Raises:
        ValueError: If the result is not one of that pipeline.
        ImportError: If matplotlib is missing.
    """
    return comparison_figure({"": result}, title)


def comparison_figure(results: Mapping[str, Result], title: str = "") -> Figure:
    """Draw side by side where several models looked, such as one with and one without penalty.

    As the paper's Figures 3 and 4 do. The scales of colours are shared, so a sharper look is a
    darker one.

    Args:
        results: For the name of each model what its pipeline returned for the same input.
        title: The heading.

    Returns:
        The figure; `save_figure` writes it.

    Raises:
        ValueError: If there is no result, or one is not of that pipeline.
        ImportError: If matplotlib is missing.
    """
    if not results:
        raise ValueError("there is nothing to compare; give at least one result of the pipeline")
    across = max(FEWEST_WORDS_ACROSS, WORDS_ACROSS // len(results))
    columns = []
    for name, result in results.items():
        readings = read_result(result, f"the result of {name!r}" if name else "the result")
        headings = ("First text", "Second text") if len(readings) > 1 else ("",)
        blocks = [
            block
            for heading, reading in zip(headings, readings, strict=True)
            for block in _blocks(heading, reading, across)
        ]
        columns.append(Column(_headings(name, result), blocks))
    return _draw(columns, title)


def _blocks(heading: str, reading: Reading, across: int) -> list[Block]:
    """Cut a text into blocks of nearly the same number of words."""
    words = [plain(reading.piece(*word), LONGEST_WORD) for word in reading.words[:MAX_WORDS]]
    views = reading.views[: MAX_HOPS + 1]
    notes = _notes(reading)
    if not words:
        return [Block(heading, [], [], notes)]
    count = math.ceil(len(words) / across)
    size = math.ceil(len(words) / count)
    starts = range(0, len(words), size)
    return [
        Block(
            heading if start == 0 else "",
            words[start : start + size],
            [view[start : min(start + size, MAX_WORDS)] for view in views],
            notes if start == starts[-1] else [],
        )
        for start in starts
    ]


def _notes(reading: Reading) -> list[str]:
    """Return what the figure does not show of a text."""
    notes = []
    if not reading.words:
        notes.append("The text holds no word." if reading.text else "The text is empty.")
    if len(reading.words) > MAX_WORDS:
        notes.append(f"Only the first {MAX_WORDS:,} of {len(reading.words):,} words are shown.")
    if len(reading.views) > MAX_HOPS + 1:
        notes.append(f"Only the first {MAX_HOPS} of {len(reading.views) - 1:,} hops are shown.")
    if reading.truncated:
        notes.append(f"The model did not read the last {reading.truncated:,} tokens.")
    return notes


def _headings(name: str, result: Result) -> list[tuple[str, str]]:
    """Return the lines above one model's blocks, each with the weight of its letters."""
    lines = [(name, "bold")] if name else []
    lines.append((f"predicted ({result['score']:.3f}): {result['label']}", "normal"))
    if "true_label" in result:
        lines.append((f"true label: {label_text(result['true_label'])}", "normal"))
    return lines


def _draw(columns: Sequence[Column], title: str) -> Figure:
    """Lay the columns out from the top, block beside block, and draw them."""
    heights = _row_heights(columns)
    beside = ROW_NAME_WIDTH + RIGHT_MARGIN
    narrowest = max(NARROWEST / len(columns), NARROWEST_COLUMN)
    most = max(1, *(column.most_words for column in columns))
    cell = min(WIDEST_CELL, max(CELL_WIDTH, (narrowest - beside) / most))
    widths = [max(beside + column.most_words * cell, narrowest) for column in columns]
    num_headings = max(len(column.headings) for column in columns)
    heading = LINE * num_headings + TITLE_HEIGHT * bool(title) + GAP
    height = 2 * MARGIN + heading + sum(heights) + SCALE_HEIGHT
    figure = new_figure(sum(widths) + 2 * MARGIN, height)
    strongest = _strongest(columns)
    if title:
        write(figure, MARGIN, height - MARGIN, title, sum(widths), weight="bold", size=12)
    left = MARGIN
    for column, width in zip(columns, widths, strict=True):
        top = height - MARGIN - TITLE_HEIGHT * bool(title)
        for number, (line, weight) in enumerate(column.headings):
            write(figure, left, top - number * LINE, line, width - GAP, weight=weight)
        top = height - MARGIN - heading
        for block, block_height in zip(column.blocks, heights, strict=False):
            _draw_block(figure, block, left, top, cell, strongest)
            top -= block_height
        left += width
    if any(block.words for column in columns for block in column.blocks):
        _draw_scale(figure, strongest)
    return figure


def _row_heights(columns: Sequence[Column]) -> list[float]:
    """Return the height of each row of blocks: that of its highest one."""
    rows = zip_longest(*(column.blocks for column in columns))
    return [max(block.height for block in row if block) for row in rows]


def _strongest(columns: Sequence[Column]) -> tuple[float, float]:
    """Return the largest weight in an overall view and in a hop, 1 where there is none."""
    views = [block.views for column in columns for block in column.blocks if block.views]
    overall = max((max(block[0]) for block in views), default=0.0)
    hops = max((max(hop) for block in views for hop in block[1:]), default=0.0)
    return overall or 1.0, hops or 1.0


def _draw_block(
    figure: Figure,
    block: Block,
    left: float,
    top: float,
    cell: float,
    strongest: tuple[float, float],
) -> None:
    """Draw the words, the row of all hops, the rows of each hop, and the note."""
    if block.heading:
        write(figure, left, top, block.heading, color=FAINT_INK)
        top -= LINE
    top -= block.label_height
    start = left + ROW_NAME_WIDTH
    for place, word in enumerate(block.words):
        centre = start + (place + 0.5) * cell
        write(figure, centre, top, word, size=8, rotation=45, va="bottom", rotation_mode="anchor")
    names = ["all", *(f"hop {number}" for number in range(1, len(block.views)))]
    for first, last, scale in ((0, 1, strongest[0]), (1, len(block.views), strongest[1])):
        if first >= len(block.views):
            continue
        top -= GAP
        height = (last - first) * CELL_HEIGHT
        axes = add_axes(figure, start, top - height, len(block.words) * cell, height)
        shades = [
            [math.sqrt(weight / scale) for weight in view] for view in block.views[first:last]
        ]
        axes.pcolormesh(shades, cmap=COLOUR_MAP, vmin=0, vmax=1, edgecolors="white", lw=0.6)
        axes.invert_yaxis()
        axes.set_axis_off()
        for row, name in enumerate(names[first:last]):
            middle = top - (row + 0.5) * CELL_HEIGHT
            write(figure, start - GAP, middle, name, size=7, ha="right", va="center")
        top -= height
    for number, note in enumerate(block.notes):
        write(figure, left, top - GAP - number * LINE, note, size=8, style="italic")


def _draw_scale(figure: Figure, strongest: tuple[float, float]) -> None:
    """Draw the colours below everything, with the weights that they stand for."""
    top = MARGIN + 2 * LINE
    axes = add_axes(figure, MARGIN, top, SCALE_WIDTH, CELL_HEIGHT / 2)
    axes.pcolormesh([[step / SCALE_STEPS for step in range(SCALE_STEPS)]], cmap=COLOUR_MAP)
    axes.set_axis_off()
    overall, hop = strongest
    meanings = ((hop, "of a hop's attention"), (overall, "of the attention of all hops together"))
    for row, (most, meaning) in enumerate(meanings):
        height = top - GAP - row * LINE
        for share, align in ((0, "left"), (0.5, "center"), (1, "right")):
            place, weight = MARGIN + share * SCALE_WIDTH, f"{share**2 * most:.2g}"
            write(figure, place, height, weight, size=8, ha=align)
        write(figure, MARGIN + SCALE_WIDTH + 2 * GAP, height, meaning, size=8)


__all__ = ["MAX_HOPS", "MAX_WORDS", "attention_figure", "comparison_figure"]
