"""Attention as a figure for a paper or a slide: hops by words, or tokens by tokens.

Texts, labels and names are never drawn as formulas, and an invisible character appears as its code
point. matplotlib opens no window, and its global settings stay as they are.
"""

from __future__ import annotations

import os
import unicodedata
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..utils.errors import refusal
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

# In points: the words above cells, and all other texts.
WORD_SIZE = 10
SMALL_SIZE = 9

# In inches: the words of a line, an average letter, the names of the hops beside the words.
FULL_WIDTH = 9.0
MIN_WIDTH = 3.6
LETTER_WIDTH = 0.085
MARGIN = 1.0
ROW_HEIGHT = 0.24
TEXT_HEIGHT = 0.2
CELL = 0.26
MARGIN_OF_GRID = 1.3

Grid = tuple[list[list[float]], list[str], list[str]]  # weights, words down, words across


class _Theme(NamedTuple):
    """The colours of a figure.

    The colour-blind and a printer see one hue gain strength as everyone does, and tell blue from
    red.

    Attributes:
        paper: Behind all, and between the cells.
        ink: Of all texts.
        weights: From an even share to the strongest weight.
        added: Contributions, from against to for.
    """

    paper: str
    ink: str
    weights: tuple[str, str, str]
    added: tuple[str, str, str]


THEMES = {
    "light": _Theme(
        paper="#ffffff",
        ink="#1f2328",
        weights=("#f8f2ea", "#f7a44a", "#a34400"),
        added=("#b3261e", "#f4f2ee", "#0b5fb0"),
    ),
    "dark": _Theme(
        paper="#0d1117",
        ink="#e6edf3",
        weights=("#1b2028", "#8f4a0a", "#ffb65f"),
        added=("#ff8a7a", "#1b2028", "#6cb6ff"),
    ),
}


@dataclass
class _Line:
    """Words side by side above their cells: a row for all hops together, then one for each hop.

    Attributes:
        heading: The text above the words.
        names: The names of the rows.
        words: The words.
        edges: In inches: the start of each word, and the end of the last.
        strengths: Of each word, a number for each row.
        added: By each word to the logit of the target; empty if it is not known.
        note: The text below the cells.
    """

    heading: str
    names: list[str]
    words: list[str] = field(default_factory=list)
    edges: list[float] = field(default_factory=lambda: [0.0])
    strengths: list[tuple[float, ...]] = field(default_factory=list)
    added: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def all_names(self) -> list[str]:
        """The names of the rows, and of the last one, which shows what each word added."""
        return [*self.names, "why"] if self.added else self.names


def attention_figure(result: Result, title: str = "", *, theme: str = "light") -> Figure:
    """Draw the attention on one text, or on both of a pair; `save_figure` writes the figure.

    The words stand above their cells. The first row of cells is the overall attention, the others
    are the hops (section 2.3 of the paper). A last row, "why", shows what each word added to the
    logit of the target, in the hops and by itself, if the result has contributions. Long texts are
    wrapped; a note says if words beyond `MAX_WORDS` or hops beyond `MAX_HOPS` are left out. The
    figure names a `true_label` that was added to the result. The rest is as in `comparison_figure`.
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
        raise refusal(f"theme is {theme!r}", f"allowed are {', '.join(THEMES)}")
    colours = THEMES[theme]
    texts: list[AttendedText] = []
    models: list[list[_Line]] = []
    for name, result in results.items():
        texts_of_model = parse_result(result, f"the result of {name!r}" if name else "the result")
        texts += texts_of_model
        models.append(_lines(name, result, texts_of_model, FULL_WIDTH / len(results)))
    low, high, full = scale_ends(texts)
    lines = list(chain(*models))
    width = max(MIN_WIDTH, *(line.edges[-1] for line in lines))

    figure = new_figure(len(models) * (width + MARGIN), _height(models))
    figure.set_facecolor(colours.paper)
    _draw_title(figure, title)
    panels = figure.subplots(max(map(len, models)), len(models), squeeze=False)
    scale = _scale(colours.weights, 0, 1)
    signed_scale = _scale(colours.added, -full, full)
    for lines_of_model, column in zip(models, panels.T, strict=True):
        for axes, line in zip_longest(column, lines_of_model):
            if line is None:
                axes.remove()
            else:
                _draw_line(axes, line, width, colours.paper, scale, signed_scale)
    if any(line.words for line in lines):
        drawn = figure.axes
        if full:
            ends = (f"against: {signed(-full)} or less", f"for: {signed(full)} or more")
            _draw_scale(figure, drawn, signed_scale, ends, "why")
        _draw_scale(figure, drawn, scale, (low, high), "attention")
    draw_literally(figure, colours.ink)
    return figure


def _height(models: Sequence[Sequence[_Line]]) -> float:
    """Return the height in inches of the lines of all models, side by side."""
    num_lines = max(map(len, models))
    num_rows = max(len(line.all_names) for line in chain(*models))
    num_headings = sum(line.heading.count("\n") + 1 for line in models[0])
    # The title, the scales and their names need the height of four more texts.
    return num_lines * (num_rows * ROW_HEIGHT + TEXT_HEIGHT) + (num_headings + 4) * TEXT_HEIGHT


def _scale(colours: Sequence[str], low: float, high: float) -> ScalarMappable:
    """Return the scale that runs through some colours from a low number to a high one."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    return ScalarMappable(Normalize(low, high), LinearSegmentedColormap.from_list("", colours))


def _draw_scale(
    figure: Figure, panels: list[Axes], scale: ScalarMappable, ends: tuple[str, str], name: str
) -> None:
    """Draw the bar of colours below the panels, with the meaning of its ends."""
    bar = figure.colorbar(
        scale,
        ax=panels,
        shrink=MIN_WIDTH / (figure.get_figwidth() - MARGIN),
        location="bottom",
        anchor=(0, 0),
        aspect=36,
        pad=0.02,
    )
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
    predicted = "predicted"
    if "labels" not in result:
        predicted += f" ({result['score']:.3f})"
    titles.append(f"{predicted}: {predicted_text(result)}")
    if "true_label" in result:
        titles.append(f"true label: {label_text(result['true_label'])}")
    if result.get("target", result["label"]) != result["label"]:
        titles.append(f"explained: {label_text(result['target'])}")
    lines = []
    for text, ordinal in zip(texts, ("First", "Second"), strict=False):
        if len(texts) > 1:
            titles.append(f"{ordinal} text")
        heading = "\n".join(plain(title, int(width / LETTER_WIDTH)) for title in titles)
        lines += wrapped(text, width, heading)
        titles = []
    return lines


def wrapped(text: AttendedText, width: float, heading: str) -> list[_Line]:
    """Cut a text into lines of up to a width in inches; an empty text has one line."""
    views = range(min(len(text.views), MAX_HOPS + 1))
    evenly = [text.reads_evenly(view) for view in views]
    names = [_row_name(view, is_even) for view, is_even in enumerate(evenly)]
    strengths_of_words = list(zip(*(text.strengths(view) for view in views), strict=True))
    line = _Line(heading, names)
    lines = [line]
    for number, span in enumerate(text.words[:MAX_WORDS]):
        word = plain(text.part(*span), MAX_WORD_LENGTH)
        word_width = (num_cells(word) + 1.2) * LETTER_WIDTH
        if line.words and line.edges[-1] + word_width > width:
            line = _Line("", names)
            lines.append(line)
        line.words.append(word)
        line.edges.append(line.edges[-1] + word_width)
        line.strengths.append(strengths_of_words[number])
        if text.added:
            line.added.append(text.added[number])
    notes = _notes(text)
    if any(evenly):
        notes.insert(0, f"(even): {READS_EVENLY}.")
    line.note = "\n".join(notes)
    return lines


def _row_name(view: int, is_even: bool) -> str:
    """Return the name of the row of a view, and whether it reads all words about equally."""
    name = f"hop {view}" if view else "all hops"
    return f"{name} (even)" if is_even else name


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
    axes: Axes,
    line: _Line,
    width: float,
    paper: str,
    scale: ScalarMappable,
    signed_scale: ScalarMappable,
) -> None:
    """Draw one line of words and its cells; the last row, "why", has a scale of its own."""
    axes.set_title(line.heading, loc="left", size=SMALL_SIZE)
    axes.set_xlabel(line.note, loc="left", size=SMALL_SIZE, style="italic")
    axes.set_facecolor("none")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.set_xticks([])
    axes.set_yticks([])
    if not line.words:
        return
    num_views = len(line.names)
    num_rows = len(line.all_names)
    rows = list(zip(*line.strengths, strict=True))
    _draw_cells(axes, line.edges, range(num_views + 1), rows, scale, paper)
    if line.added:
        edges_of_row = (num_views, num_rows)
        _draw_cells(axes, line.edges, edges_of_row, [line.added], signed_scale, paper)
    for row in (1, num_views):
        axes.axhline(row, color=paper, linewidth=4)
    axes.set_xlim(0, width)
    axes.set_ylim(num_rows, 0)
    centres = [sum(edges) / 2 for edges in pairwise(line.edges)]
    axes.set_xticks(centres, line.words, size=WORD_SIZE)
    axes.set_yticks([row + 0.5 for row in range(num_rows)], line.all_names, size=SMALL_SIZE)


def _draw_cells(
    axes: Axes,
    columns: Sequence[float],
    rows: Sequence[float],
    values: Sequence[Sequence[float]],
    scale: ScalarMappable,
    paper: str,
) -> None:
    """Draw rows of cells, each coloured by its value, between the edges of columns and of rows."""
    axes.pcolormesh(
        columns,
        rows,
        values,
        cmap=scale.cmap,
        norm=scale.norm,  # type: ignore[arg-type]  # the base class, which its stub leaves out
        edgecolors=paper,
        linewidth=1.5,
    )


def pair_figure(result: Result, title: str = "") -> Figure:
    """Draw the weights of pairs of tokens in one text, or in both; `save_figure` writes it.

    A row is a token, and the white cell in it is the partner with the largest weight of the figure;
    black is a weight of 0. The figure shows the first `MAX_TOKENS` tokens. Raises ValueError if the
    model weighs no pairs.
    """
    parse_result(result)
    if "pair_attention" not in result:
        raise refusal(
            "the result has no pair_attention",
            "its model must have encoder='relation_network' and relation_weights='softmax' or "
            "'sigmoid'",
        )
    sides: Iterable[tuple[list[list[float]], list[str]]]
    if isinstance(result["text"], str):
        sides = [(result["pair_attention"], result["tokens"])]
    else:
        sides = zip(result["pair_attention"], result["tokens"], strict=True)
    grids = []
    for weights, tokens in sides:
        names = [visible(token) for token in tokens[:MAX_TOKENS]]
        grids.append(([list(row[:MAX_TOKENS]) for row in weights[:MAX_TOKENS]], names, names))
    drawn = chain.from_iterable(row for weights, _, _ in grids for row in weights)
    return grid_figure(grids, title, max(drawn, default=1))


def grid_figure(grids: Sequence[Grid], title: str, largest: float) -> Figure:
    """Draw weights between words, one grid below the other; white is the weight `largest`."""
    width = max(len(across) for _, _, across in grids)
    heights = [max(CELL * len(down), CELL) + MARGIN_OF_GRID for _, down, _ in grids]
    figure = new_figure(CELL * width + MARGIN_OF_GRID, sum(heights))
    _draw_title(figure, title)
    panels = figure.subplots(len(grids), squeeze=False, height_ratios=heights)
    for axes, (weights, down, across) in zip(panels[:, 0], grids, strict=True):
        axes.imshow(weights or [[0.0]], cmap="gray", vmin=0, vmax=largest, interpolation="nearest")
        axes.set_xticks(range(len(across)), _short(across), rotation=90, size=SMALL_SIZE)
        axes.set_yticks(range(len(down)), _short(down), size=SMALL_SIZE)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
    draw_literally(figure)
    return figure


def _short(words: Sequence[str]) -> list[str]:
    return [plain(word, MAX_WORD_LENGTH) for word in words]


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


def _draw_title(figure: Figure, title: str) -> None:
    figure.suptitle(plain(title), x=0.01, ha="left", weight="bold", size=12)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches."""
    return _figure_class()(figsize=(width, height), layout="constrained")


def check_figure_path(path: str | os.PathLike[str]) -> None:
    """Raise ValueError or ImportError if no figure can be written to a file of this name."""
    if Path(path).suffix.lower() not in FIGURE_ENDINGS:
        raise refusal(f"the figure is {Path(path).name!r}", "the name must end in .png or .svg")
    _figure_class()


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a .png or .svg file; the same figure gives the same bytes on the same processor.

    Raises as `check_figure_path` does, and OSError if the file cannot be written.
    """
    check_figure_path(path)
    from matplotlib import rc_context

    # The date, and the version of matplotlib, which differ between equal figures.
    metadata = {"Software": None}
    if Path(path).suffix.lower() == ".svg":
        metadata = {"Creator": None, "Date": None}
    hashsalt = rc_context({"svg.hashsalt": "sase_hf"})
    with hashsalt, warnings.catch_warnings(), atomic_write(path) as draft:
        # matplotlib draws a box for a character that the font lacks, and warns.
        warnings.filterwarnings("ignore", "Glyph|Matplotlib currently does not support")
        ending = Path(path).suffix.lower().removeprefix(".")
        figure.savefig(draft, format=ending, dpi=DOTS_PER_INCH, metadata=metadata)


def _figure_class() -> type[Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError as reason:
        raise ImportError("figures need matplotlib: pip install 'sase_hf[viz]'") from reason
    return Figure
