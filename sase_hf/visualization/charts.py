"""Charts of measurements, such as faithfulness and attention statistics; they need matplotlib."""

from __future__ import annotations

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
    figure = line_panels(panels, "words, in % of the text", y_label, sharey=True)
    figure.axes[0].set_ylim(0, 1)
    return figure


def lines_figure(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], x_label: str, y_label: str
) -> Figure:
    """Draw lines in one panel; `lines` holds x and y of the points by the name of each line."""
    return line_panels({"": lines}, x_label, y_label)


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
    finish(figure, list(statistics) if len(statistics) > 1 else [], keys)
    return figure


def line_panels(panels: Panels, x_label: str, y_label: str, sharey: bool = False) -> Figure:
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
    finish(figure, list(lines), row[-1].get_lines())
    return figure


def finish(figure: Figure, names: Sequence[str], keys: Sequence[Artist]) -> None:
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
