"""Charts of measurements, such as faithfulness and attention statistics; they need matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .figures import draw_literally, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which the colour-blind tell apart; the marks differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKS = "osD^vPX"  # seven marks for six colours give 42 different pairs
MAX_NAME_LENGTH = 40

BOX_SHARE = 0.75  # of the room of one hop, filled by its boxes
PERCENTILES = {"whislo": "p5", "q1": "p25", "med": "p50", "q3": "p75", "whishi": "p95"}

# By panel, then by the name of a line: x and y of the points.
Panels = Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]]


def curves_figure(curves: Mapping[str, Any]) -> Figure:
    """Draw the `curves` of `measure_faithfulness`, a line for each ranking of the words."""
    titles = {"deletion": "Words taken out", "insertion": "Words put in"}
    panels = {
        f"{title}, those ranked highest first": {
            name.replace("_", " "): (curves["percents"], curves[direction][name])
            for name in sorted(curves[direction])
        }
        for direction, title in titles.items()
    }
    y_label = "mean probability of the predicted class"
    figure = _line_panels(panels, "words, in % of the text", y_label, sharey=True)
    figure.axes[0].set_ylim(0, 1)
    return figure


def accuracy_figure(
    curves: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], x_label: str = "epoch"
) -> Figure:
    """Draw the accuracy by epoch, a panel for each task and in it a line for each model.

    Args:
        curves: For each task the same models by name, each with its epochs and accuracies from 0 to
            1; the list of a model may be empty.
        x_label: The name of the x axis.
    """
    panels = {
        task: {
            name: ([x for x, _ in points], [100 * accuracy for _, accuracy in points])
            for name, points in models.items()
        }
        for task, models in curves.items()
    }
    figure = _line_panels(panels, x_label, "accuracy in %")
    from matplotlib.ticker import MaxNLocator

    for axes in figure.axes:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def lines_figure(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], x_label: str, y_label: str
) -> Figure:
    """Draw lines in one panel; `lines` holds x and y of the points by the name of each line."""
    return _line_panels({"": lines}, x_label, y_label)


def points_figure(
    points: Mapping[str, Mapping[str, tuple[float, float]]],
    x_label: str,
    y_label: str,
    *,
    columns: int = 0,
    log_x: bool = False,
) -> Figure:
    """Draw points, a panel for each task; points with the same name have the same colour and mark.

    Args:
        points: For each of one or more tasks, x and y of the point of each name.
        x_label: The name of the x axis.
        y_label: The name of the y axis.
        columns: The number of panels side by side; by default all of them.
        log_x: Whether x has a logarithmic axis; otherwise x is a share from 0 to 1.
    """
    columns = min(columns or len(points), len(points))
    num_rows = math.ceil(len(points) / columns)
    names = list(dict.fromkeys(name for panel in points.values() for name in panel))
    figure = new_figure(3.2 * columns, 0.7 + 3.5 * num_rows)
    grid = figure.subplots(num_rows, columns, squeeze=False)
    for axes in grid.flat[len(points) :]:
        axes.remove()
    keys: dict[str, Artist] = {}
    for axes, (title, panel) in zip(grid.flat, points.items(), strict=False):
        for name, point in panel.items():
            style = names.index(name)
            colour, mark = COLOURS[style % len(COLOURS)], MARKS[style % len(MARKS)]
            (keys[name],) = axes.plot(*point, color=colour, marker=mark, linestyle="none")
        axes.set_title(plain(title, 60), size=10)
        axes.set_xlabel(x_label)
        if log_x:
            axes.set_xscale("log")
            # The usual labels are formulas, which are drawn literally here.
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.minorticks_off()
        else:
            axes.set_xlim(0, 1)
        axes.margins(y=0.2)
    for row in grid:
        row[0].set_ylabel(y_label)
    _finish(figure, list(keys), list(keys.values()))
    return figure


def statistics_figure(statistics: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw the distributions of the hops' entropy and cosine, the checkpoints side by side.

    A box holds the middle half of the texts, with a line at the median; the whiskers end at the 5th
    and 95th percentile.

    Args:
        statistics: The result of `measure_attention`, by the name of each checkpoint.
    """
    num_hops = max(len(measured["entropy"]["hops"]) for measured in statistics.values())
    figure = new_figure(max(6.0, 0.8 + num_hops * (0.25 + 0.22 * len(statistics))), 6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    keys = []
    for number, measured in enumerate(statistics.values()):
        shift = (number - (len(statistics) - 1) / 2) * BOX_SHARE / len(statistics)
        for axes, name in ((upper, "entropy"), (lower, "cosine")):
            colour = COLOURS[number % len(COLOURS)]
            lines = {"color": colour, "linewidth": 1}
            hops = measured[name]["hops"]
            drawn = axes.bxp(
                [{key: hop[percentile] for key, percentile in PERCENTILES.items()} for hop in hops],
                positions=[hop + shift for hop in range(1, len(hops) + 1)],
                widths=0.9 * BOX_SHARE / len(statistics),
                showfliers=False,
                manage_ticks=False,
                patch_artist=True,
                boxprops={"facecolor": f"{colour}44", "edgecolor": colour},
                whiskerprops=lines,
                capprops=lines,
                medianprops={**lines, "linewidth": 2},
            )
        keys.append(drawn["boxes"][0])
    upper.set_ylabel("entropy, as a share of log T")
    lower.set_ylabel("cosine with the other hops")
    lower.set_xlabel("hop")
    lower.set_xticks(range(1, num_hops + 1), [str(hop) for hop in range(1, num_hops + 1)])
    for axes in (upper, lower):
        axes.set_ylim(0, 1)
    _finish(figure, list(statistics) if len(statistics) > 1 else [], keys)
    return figure


def _line_panels(panels: Panels, x_label: str, y_label: str, sharey: bool = False) -> Figure:
    """Draw panels side by side; lines with the same name have the same colour in all of them."""
    figure = new_figure(4.5 * len(panels), 4.2)
    row: Sequence[Axes] = figure.subplots(1, len(panels), squeeze=False, sharey=sharey)[0]
    for axes, (title, lines) in zip(row, panels.items(), strict=True):
        for number, (x, y) in enumerate(lines.values()):
            colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
            axes.plot(x, y, color=colour, marker=mark, markersize=4)
        axes.set_title(plain(title, 60), size=10)
        axes.set_xlabel(x_label)
    row[0].set_ylabel(y_label)
    _finish(figure, list(lines), row[-1].get_lines())
    return figure


def _finish(figure: Figure, names: Sequence[str], keys: Sequence[Artist]) -> None:
    """Draw the legend above the panels, lines that help to read a value, and no frame."""
    for axes in figure.axes:
        axes.grid(axis="y", color="#dddddd")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    if names:
        names = [plain(name, MAX_NAME_LENGTH) for name in names]
        width = 0.6 + 0.08 * max(map(len, names))  # of a mark and a name, in inches
        columns = max(1, min(len(names), 4, int(figure.get_figwidth() / width)))
        figure.legend(keys, names, loc="outside upper center", ncols=columns, frameon=False)
    draw_literally(figure)
