"""Charts of what was measured: faithfulness, entropy and overlap, and accuracy, by matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .figures import draw_literally, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The colours of Okabe and Ito, which the colour-blind tell apart; the marks differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKS = "osD^vP"
GRID = "#dddddd"
LONGEST_NAME, NAMES_ACROSS = 40, 4

BOX_SHARE = 0.75  # of the room that the boxes of one hop have
PERCENTILES = {"whislo": "p5", "q1": "p25", "med": "p50", "q3": "p75", "whishi": "p95"}


def curves_figure(curves: Mapping[str, Any]) -> Figure:
    """Draw deletion and insertion curves side by side, a line for each ranking of the words.

    Args:
        curves: The `curves` of `measure_faithfulness`, or of its record.

    Returns:
        The figure.

    Raises:
        ImportError: If matplotlib is missing.
    """
    figure = new_figure(9, 4.2)
    meanings = {"deletion": "taken out", "insertion": "put in"}
    left, right = figure.subplots(1, 2, sharey=True)
    rankings = sorted(curves["deletion"])  # as in a record, so that both give the same colours
    for axes, (direction, meaning) in zip((left, right), meanings.items(), strict=True):
        for number, ranking in enumerate(rankings):
            axes.plot(
                curves["percents"], curves[direction][ranking], **_style(number), markersize=4
            )
        axes.set_title(f"Words {meaning}, those ranked highest first", size=10)
        axes.set_xlabel(f"words {meaning}, in % of the text")
        axes.set_ylim(0, 1)
        _tidy(axes)
    left.set_ylabel("mean probability of the predicted class")
    _legend(figure, [name.replace("_", " ") for name in rankings], left.get_lines())
    return figure


def statistics_figure(statistics: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw the distributions of the hops' entropy and overlap, the checkpoints side by side.

    A box holds the middle half of the texts, with a line at the median; the whiskers end at the 5th
    and 95th percentile.

    Args:
        statistics: For the name of each checkpoint what
            `sase_hf.evaluation.attention.measure_attention` returned.

    Returns:
        The figure.

    Raises:
        ValueError: If there is nothing to draw.
        ImportError: If matplotlib is missing.
    """
    if not statistics:
        raise ValueError("there is nothing to draw; give the statistics of at least one checkpoint")
    num_hops = max(len(measured["entropy"]["hops"]) for measured in statistics.values())
    width = max(6.0, 0.8 + num_hops * (0.25 + 0.22 * len(statistics)))
    figure = new_figure(width, 6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    for number, measured in enumerate(statistics.values()):
        middle = (number - (len(statistics) - 1) / 2) * BOX_SHARE / len(statistics)
        for axes, name in ((upper, "entropy"), (lower, "overlap")):
            _boxes(axes, measured[name]["hops"], middle, number, len(statistics))
    upper.set_ylabel("entropy, as a share of log T")
    lower.set_ylabel("overlap with the other hops")
    lower.set_xlabel("hop")
    lower.set_xticks(range(1, num_hops + 1), [str(hop) for hop in range(1, num_hops + 1)])
    for axes in (upper, lower):
        axes.set_ylim(bottom=0)
        _tidy(axes)
    upper.set_ylim(0, 1)
    if len(statistics) > 1:
        _legend(figure, statistics, [_box_key(number) for number in range(len(statistics))])
    return figure


def accuracy_figure(curves: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> Figure:
    """Draw the accuracy by epoch, a panel for each task and in it a line for each model.

    Args:
        curves: For each task the models by name, each with epochs and accuracies from 0 to 1, or
            with nothing to draw; the same models for all tasks.

    Returns:
        The figure.

    Raises:
        ValueError: If there is no task.
        ImportError: If matplotlib is missing.
    """
    if not curves:
        raise ValueError("there is nothing to draw; give the curves of at least one task")
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(4.5 * len(curves), 4.2)
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, (task, models) in zip(panels, curves.items(), strict=True):
        for number, points in enumerate(models.values()):
            epochs = [epoch for epoch, _ in points]
            accuracies = [100 * accuracy for _, accuracy in points]
            axes.plot(epochs, accuracies, **_style(number), markersize=4)
        axes.set_title(plain(task, LONGEST_NAME), size=10)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        _tidy(axes)
    panels[0].set_ylabel("accuracy in %")
    _legend(figure, list(models), panels[-1].get_lines())
    return figure


def _boxes(
    axes: Axes, hops: Sequence[Mapping[str, float]], shift: float, number: int, count: int
) -> None:
    """Draw a box for each hop of one of `count` checkpoints, beside the number of the hop."""
    colour = COLOURS[number % len(COLOURS)]
    lines = {"color": colour, "linewidth": 1}
    axes.bxp(
        [{key: hop[name] for key, name in PERCENTILES.items()} for hop in hops],
        positions=[hop + shift for hop in range(1, len(hops) + 1)],
        widths=0.9 * BOX_SHARE / count,
        showfliers=False,
        manage_ticks=False,
        patch_artist=True,
        boxprops=_box_colours(number),
        whiskerprops=lines,
        capprops=lines,
        medianprops={**lines, "linewidth": 2},
    )


def _box_colours(number: int) -> dict[str, Any]:
    """Return the colours of a box."""
    colour = COLOURS[number % len(COLOURS)]
    return {"facecolor": f"{colour}44", "edgecolor": colour}


def _box_key(number: int) -> Artist:
    """Return a small box for the legend."""
    from matplotlib.patches import Patch

    return Patch(**_box_colours(number))


def _style(number: int) -> dict[str, Any]:
    """Return colour and mark of a line."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number % len(MARKS)]}


def _legend(figure: Figure, names: Iterable[str], keys: Sequence[Artist]) -> None:
    """Name what has these colours above the axes, and leave room for the names."""
    names = [plain(name, LONGEST_NAME) for name in names]
    figure.legend(
        keys,
        names,
        loc="outside upper center",
        ncols=min(len(names), NAMES_ACROSS),
        frameon=False,
    )
    draw_literally(figure)


def _tidy(axes: Axes) -> None:
    """Leave only what helps to read a value."""
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


__all__ = ["accuracy_figure", "curves_figure", "statistics_figure"]
