"""Attention as a figure for a paper or a slide: hops by words, or tokens by tokens.

Texts, labels and names are never drawn as formulas, and an invisible character appears as its code
point. matplotlib opens no window, and its global settings stay as they are.
"""

from __future__ import annotations

import os
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..utils.files import atomic_write
from ..utils.text import visible
from .attended_text import (
    READS_EVENLY,
    AttendedText,
    Result,
    label_text,
    parse_result,
    predicted_text,
    scale_ends,
    shortened,
)
from .rendering import signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

FIGURE_ENDINGS = (".png", ".svg")
DOTS_PER_INCH = 200

MAX_WORDS = MAX_TOKENS = 200
MAX_HOPS = 40
MAX_WORD_LENGTH = 20
WORD_SIZE, SMALL_SIZE = 10, 9  # in points

# In inches: the words of a line, an average letter, the names of the hops beside the words.
FULL_WIDTH, MIN_WIDTH = 9.0, 3.6
LETTER_WIDTH = 0.085
MARGIN = 1.0
ROW_HEIGHT, TEXT_HEIGHT = 0.24, 0.2
CELL, MARGIN_OF_GRID = 0.26, 1.3

Grid = tuple[list[list[float]], list[str], list[str]]  # weights, words down, words across

# By theme the paper, the ink, the colours of weights from an even share to the strongest, and those
# of contributions from against to for. The colour-blind and a printer see one hue gain strength as
# everyone does, and tell blue from red.
THEMES = {
    "light": (
        "#ffffff",
        "#1f2328",
        ("#f8f2ea", "#f7a44a", "#a34400"),
        ("#b3261e", "#f4f2ee", "#0b5fb0"),
    ),
    "dark": (
        "#0d1117",
        "#e6edf3",
        ("#1b2028", "#8f4a0a", "#ffb65f"),
        ("#ff8a7a", "#1b2028", "#6cb6ff"),
    ),
}


class _Line(NamedTuple):
    """Words side by side above their cells: a row for all hops together, then one for each hop."""

    heading: str
    words: list[str]
    edges: list[float]  # in inches: the start of each word, and the end of the last
    strengths: list[tuple[float, ...]]  # of each word, a number for each row
    names: list[str]  # of the rows
    added: list[float]  # by each word to the logit of the target; empty if it is not known
    note: str = ""


def attention_figure(result: Result, title: str = "", *, theme: str = "light") -> Figure:
    """Draw the attention on one text, or on both of a pair; `save_figure` writes the figure.

    The words stand above their cells. The first row of cells is the overall attention, the others
    are the hops (section 2.3 of the paper). A last row, "why", shows what each word added to the
    logit of the target, if the result has contributions. Long texts are wrapped; a note says if
    words beyond `MAX_WORDS` or hops beyond `MAX_HOPS` are left out. The figure names a `true_label`
    that was added to the result. The rest is as in `comparison_figure`.
    """
    return comparison_figure({"": result}, title, theme=theme)


def comparison_figure(
    results: Mapping[str, Result], title: str = "", *, theme: str = "light"
) -> Figure:
    """Draw the attention of several models on the same input side by side.

    All models share one scale of colours, relative to an even share, so the model with the sharper
    attention has the stronger colours, as in the paper's Figures 3 and 4. The results are by the
    name of each model; the `theme` is "light" or "dark", or ValueError is raised.
    """
    if theme not in THEMES:
        raise ValueError(f"theme is {theme!r}; allowed are {', '.join(THEMES)}")
    paper, ink, *colours = THEMES[theme]
    whose = {name: f"the result of {name!r}" if name else "the result" for name in results}
    texts = [parse_result(own, whose[name]) for name, own in results.items()]
    named = zip(results.items(), texts, strict=True)
    models = [_lines(*one, own_texts, FULL_WIDTH / len(results)) for one, own_texts in named]
    lines, num_lines = list(chain(*models)), max(map(len, models))
    width = max(MIN_WIDTH, *(line.edges[-1] for line in lines))
    num_rows = max(len(line.names) + bool(line.added) for line in lines)
    num_texts = sum(line.heading.count("\n") + 1 for line in models[0]) + 4
    height = num_lines * (num_rows * ROW_HEIGHT + TEXT_HEIGHT) + num_texts * TEXT_HEIGHT

    figure = new_figure(len(models) * (width + MARGIN), height)
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    figure.set_facecolor(paper)
    figure.suptitle(plain(title), x=0.01, ha="left", weight="bold", size=12)
    panels = figure.subplots(num_lines, len(models), squeeze=False)
    low, high, full = scale_ends([*chain(*texts)])
    ramps = [LinearSegmentedColormap.from_list("", own) for own in colours]
    scale = ScalarMappable(Normalize(0, 1), ramps[0])
    signed_scale = ScalarMappable(Normalize(-full, full), ramps[1])
    for model, column in zip(models, panels.T, strict=True):
        for axes, line in zip_longest(column, model):
            if line is None:
                axes.remove()
            else:
                _draw_line(axes, line, width, paper, (scale, signed_scale))
    if any(line.words for line in lines):
        drawn = figure.axes
        if full:
            ends = (f"against: {signed(-full)} or less", f"for: {signed(full)} or more")
            _draw_scale(figure, drawn, signed_scale, ends, "why")
        _draw_scale(figure, drawn, scale, (low, high), "attention")
    draw_literally(figure, ink)
    return figure


def _draw_scale(
    figure: Figure, panels: list[Axes], scale: ScalarMappable, ends: tuple[str, str], name: str
) -> None:
    """Draw the bar of colours below the panels, with the meaning of its ends."""
    shrink = MIN_WIDTH / (figure.get_figwidth() - MARGIN)
    place: dict[str, Any] = {"location": "bottom", "anchor": (0, 0), "aspect": 36, "pad": 0.02}
    bar = figure.colorbar(scale, ax=panels, shrink=shrink, **place)
    bar.set_ticks(scale.get_clim(), labels=ends, size=SMALL_SIZE)
    left, right = bar.ax.get_xticklabels()
    left.set_horizontalalignment("left")
    right.set_horizontalalignment("right")
    bar.set_label(name, size=SMALL_SIZE)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _lines(name: str, result: Result, texts: Sequence[AttendedText], width: float) -> list[_Line]:
    """Return the texts of a result as lines of up to a width in inches."""
    titles = [name] if name else []
    score = f" ({result['score']:.3f})" * ("labels" not in result)
    titles.append(f"predicted{score}: {predicted_text(result)}")
    if "true_label" in result:
        titles.append(f"true label: {label_text(result['true_label'])}")
    if result.get("target", result["label"]) != result["label"]:
        titles.append(f"explained: {label_text(result['target'])}")
    lines = []
    for text, ordinal in zip(texts, ("First", "Second"), strict=False):
        titles += [f"{ordinal} text"] if len(texts) > 1 else []
        heading = "\n".join(plain(title, int(width / LETTER_WIDTH)) for title in titles)
        lines += wrapped(text, width, heading)
        titles = []
    return lines


def wrapped(text: AttendedText, width: float, heading: str) -> list[_Line]:
    """Cut a text into lines of up to a width in inches; an empty text has one line."""
    views = range(len(text.views))[: MAX_HOPS + 1]
    evenly = [text.reads_evenly(view) for view in views]
    names = [f"hop {k}" if k else "all hops" for k in views]
    names = [name + " (even)" * even for name, even in zip(names, evenly, strict=True)]
    strengths = list(zip(*(text.strengths(view) for view in views), strict=True))
    lines = [_Line(heading, [], [0.0], [], names, [])]
    added = text.added or []
    for place, (span, own) in enumerate(zip(text.words[:MAX_WORDS], strengths, strict=False)):
        word = plain(text.part(*span), MAX_WORD_LENGTH)
        end = lines[-1].edges[-1] + (room := (num_cells(word) + 1.2) * LETTER_WIDTH)
        if lines[-1].words and end > width:
            lines.append(_Line("", [], [0.0], [], names, []))
        lines[-1].words.append(word)
        lines[-1].edges.append(lines[-1].edges[-1] + room)
        lines[-1].strengths.append(own)
        lines[-1].added.extend(added[place : place + 1])
    notes = [f"(even): {READS_EVENLY}."] * any(evenly) + _notes(text)
    lines[-1] = lines[-1]._replace(note="\n".join(notes))
    return lines


def _notes(text: AttendedText) -> list[str]:
    """Return a note on each part of a text that the figure leaves out."""
    notes = []
    if not text.words:
        notes.append("The text holds no words." if text.text else "The text is empty.")
    if len(text.words) > MAX_WORDS:
        notes.append(f"Only the first {MAX_WORDS} of {len(text.words):,} words are shown.")
    if len(text.views) > MAX_HOPS + 1:
        notes.append(f"Only the first {MAX_HOPS} of {len(text.views) - 1:,} hops are shown.")
    if text.truncated:
        notes.append(f"The model did not read the last {text.truncated:,} tokens.")
    return notes


def _draw_line(
    axes: Axes, line: _Line, width: float, paper: str, scales: Sequence[ScalarMappable]
) -> None:
    """Draw one line of words and its cells, on the scales of the attention and of "why"."""
    axes.set_title(line.heading, loc="left", size=SMALL_SIZE)
    axes.set_xlabel(line.note, loc="left", size=SMALL_SIZE, style="italic")
    axes.set_facecolor("none")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_xticks([])
    axes.set_yticks([])
    if not line.words:
        return
    names = line.names + ["why"] * bool(line.added)
    num_rows, num_views = len(names), len(line.names)
    parts: list[Any] = [(range(num_views + 1), list(zip(*line.strengths, strict=True)))]
    parts += [((num_views, num_rows), [line.added])] * bool(line.added)
    for (edges, rows), scale in zip(parts, scales, strict=False):
        colours: dict[str, Any] = {"cmap": scale.cmap, "norm": scale.norm, "edgecolors": paper}
        axes.pcolormesh(line.edges, edges, rows, linewidth=1.5, **colours)
    for row in (1, num_views):
        axes.axhline(row, color=paper, linewidth=4)
    axes.set_xlim(0, width)
    axes.set_ylim(num_rows, 0)
    centres = [sum(edges) / 2 for edges in pairwise(line.edges)]
    axes.set_xticks(centres, line.words, size=WORD_SIZE)
    axes.set_yticks([row + 0.5 for row in range(num_rows)], names, size=SMALL_SIZE)


def pair_figure(result: Result, title: str = "") -> Figure:
    """Draw the weights of pairs of tokens in one text, or in both; `save_figure` writes it.

    A row is a token, and the white cell in it is the partner with the largest weight of the figure;
    black is a weight of 0. The figure shows the first `MAX_TOKENS` tokens. Raises ValueError if the
    model weighs no pairs.
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


def grid_figure(grids: Sequence[Grid], title: str, largest: float) -> Figure:
    """Draw weights between words, one grid below the other; white is the weight `largest`."""
    width = max(len(across) for _, _, across in grids)
    heights = [max(CELL * len(down), CELL) + MARGIN_OF_GRID for _, down, _ in grids]
    figure = new_figure(CELL * width + MARGIN_OF_GRID, sum(heights))
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


def num_cells(text: str) -> int:
    """Return the width of a text in letters; those of Chinese, Japanese and Korean are double."""
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in text)


def plain(text: object, longest: int = 100) -> str:
    """Return a text as one line of at most `longest` characters, with nothing hidden in it."""
    return shortened(visible(str(text)[: 10 * longest]), longest)


def draw_literally(figure: Figure, ink: str | None = None) -> None:
    """Turn off formulas in all texts of a figure, and give the texts one colour."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_usetex(False)
        if ink is not None:
            text.set_color(ink)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches."""
    return _figure_class()(figsize=(width, height), layout="constrained")


def check_figure_path(path: str | os.PathLike[str]) -> None:
    """Raise ValueError or ImportError if no figure can be written to a file of this name."""
    if Path(path).suffix.lower() not in FIGURE_ENDINGS:
        raise ValueError(f"the figure is {Path(path).name!r}; the name must end in .png or .svg")
    _figure_class()


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a .png or .svg file; the same figure gives the same bytes on the same processor.

    Raises as `check_figure_path` does, and OSError if the file cannot be written.
    """
    check_figure_path(path)
    from matplotlib import rc_context

    kind = Path(path).suffix.lower()[1:]
    unwanted = ("Creator", "Date") if kind == "svg" else ("Software",)
    hashsalt = rc_context({"svg.hashsalt": "sase_hf"})
    with hashsalt, warnings.catch_warnings(), atomic_write(path) as draft:
        # matplotlib draws a box for a character that the font lacks, and warns.
        warnings.filterwarnings("ignore", "Glyph|Matplotlib currently does not support")
        figure.savefig(draft, format=kind, dpi=DOTS_PER_INCH, metadata=dict.fromkeys(unwanted))


def _figure_class() -> type[Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError as reason:
        raise ImportError("figures need matplotlib: pip install 'sase_hf[viz]'") from reason
    return Figure
