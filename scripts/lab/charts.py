"""Charts of measurements, such as faithfulness and attention statistics; they need matplotlib."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sase_hf.utils.errors import refusal
from sase_hf.utils.files import atomic_write
from sase_hf.utils.text import visible
from sase_hf.visualization.attended_text import shortened

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which the colour-blind tell apart; the marks differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKS = "osD^vPX"  # seven marks for six colours give 42 different pairs
MAX_NAME_LENGTH = 40

FIGURE_ENDINGS = (".png", ".svg")
DOTS_PER_INCH = 200

# By the name of a line: x and y of the points.
Lines = Mapping[str, tuple[Sequence[float], Sequence[float]]]
Panels = Mapping[str, Lines]


def curves_figure(curves: Mapping[str, Any]) -> Figure:
    """Draw the `curves` of `measure_faithfulness`, a line for each ranking of the words."""
    percents = curves["percents"]
    panels: dict[str, Lines] = {}
    for direction, title in (("deletion", "Words taken out"), ("insertion", "Words put in")):
        lines = {}
        for name, probabilities in sorted(curves[direction].items()):
            words = name.replace("_", " ")
            lines[words] = percents, probabilities
        panels[f"{title}, those ranked highest first"] = lines
    y_label = "mean probability of the predicted class"
    figure = line_panels(panels, "words, in % of the text", y_label, sharey=True)
    figure.axes[0].set_ylim(0, 1)
    return figure


def lines_figure(lines: Lines, x_label: str, y_label: str) -> Figure:
    """Draw lines in one panel."""
    return line_panels({"": lines}, x_label, y_label)


def statistics_figure(statistics: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw median entropy and cosine of each hop, a line for each result of `measure_attention`."""
    panels: dict[str, Lines] = {}
    for statistic, title in (("entropy", "entropy, as a share of log T"), ("cosine", "cosine")):
        lines = {}
        for name, measured in statistics.items():
            medians = [hop["p50"] for hop in measured[statistic]["hops"]]
            hops = range(1, len(medians) + 1)
            lines[name] = hops, medians
        panels[title] = lines
    return line_panels(panels, "hop", "median of the texts", sharey=True)


def line_panels(panels: Panels, x_label: str, y_label: str, sharey: bool = False) -> Figure:
    """Draw panels side by side; lines with the same name have the same colour in all of them."""
    figure = new_figure(4.5 * len(panels), 4.2)
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=sharey)
    row: Sequence[Axes] = grid[0]
    for axes, (title, lines) in zip(row, panels.items(), strict=True):
        for number, (x, y) in enumerate(lines.values()):
            colour = COLOURS[number % len(COLOURS)]
            mark = MARKS[number % len(MARKS)]
            axes.plot(x, y, color=colour, marker=mark, markersize=4)
        axes.set_title(plain(title, 60), size=10)
        axes.set_xlabel(x_label)
    row[0].set_ylabel(y_label)
    finish(figure, list(lines), row[-1].get_lines())
    return figure


def finish(figure: Figure, names: Sequence[str], keys: Sequence[Artist]) -> None:
    """Draw the legend above the panels, lines that help to read a value, and no frame."""
    for axes in figure.axes:
        axes.grid(axis="y", color="#dddddd")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    if names:
        shown = [plain(name, MAX_NAME_LENGTH) for name in names]
        longest = max(map(len, shown))
        width = 0.6 + 0.08 * longest  # of a mark and a name, in inches
        fitting = int(figure.get_figwidth() / width)
        columns = max(1, min(len(shown), 4, fitting))
        figure.legend(keys, shown, loc="outside upper center", ncols=columns, frameon=False)
    draw_literally(figure)


def plain(text: str, longest: int) -> str:
    """Return a text as one line of at most `longest` characters, with nothing hidden in it."""
    return shortened(visible(text), longest)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def draw_literally(figure: Figure) -> None:
    """Turn off formulas in all texts of a figure."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)
        text.set_usetex(False)


def check_figure_path(path: str | os.PathLike[str]) -> None:
    """Raise ValueError or ImportError if no figure can be written to a file of this name."""
    if Path(path).suffix.lower() not in FIGURE_ENDINGS:
        raise refusal(f"the figure is {Path(path).name!r}", "the name must end in .png or .svg")
    new_figure(1, 1)


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a .png or .svg file; the same figure gives the same bytes on the same processor."""
    from matplotlib import rc_context

    ending = Path(path).suffix.lower()
    # The date, and the version of matplotlib, which differ between equal figures.
    metadata = {"Creator": None, "Date": None} if ending == ".svg" else {"Software": None}
    with rc_context({"svg.hashsalt": "sase_hf"}), atomic_write(path) as draft:
        figure.savefig(draft, format=ending[1:], dpi=DOTS_PER_INCH, metadata=metadata)
