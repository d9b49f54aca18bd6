"""The figures of the pages, and the pictures of the README."""

import importlib
import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from charts import COLOURS, MARKS, Panels, finish, line_panels, new_figure, plain

from sase_hf.serving.html_export import live_page
from sase_hf.utils.files import write_text
from sase_hf.utils.loading import load_pipeline
from sase_hf.visualization import attention_svg

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
REPORT_SIZE = {"width": 900, "height": 1200}
# A point for each name, by panel.
Points = dict[str, dict[str, tuple[float, float]]]
HEATMAP = "We waited an hour and the soup was cold, but the dessert was delicious and our waiter "
HEATMAP += "kind."


def save_pictures(checkpoints: Sequence[str], folder: Path) -> None:
    """Write the README's heatmap by the first checkpoint, and its page that holds the second."""
    reader, shown = checkpoints
    heatmap = attention_svg(load_pipeline(reader)(HEATMAP))
    for theme, is_dark in (("light", "not all"), ("dark", "all")):
        # The theme of the site that shows the README, which can differ from that of the system.
        of_theme = heatmap.replace("(prefers-color-scheme: dark)", is_dark)
        write_text(folder / f"heatmap_{theme}.svg", of_theme)
        size = {"width": 960, "height": 1500}
        with opened_page(shown, color_scheme=theme, viewport=size) as (_, tab):
            tab.click("label.why")
            box, answer = (tab.locator(name).bounding_box() for name in (".typed", ".result"))
            height = answer["y"] + answer["height"] - box["y"]
            clip = {"x": 0, "y": box["y"] - 16, "width": 960, "height": height + 32}
            tab.screenshot(path=folder / f"page_{theme}.png", clip=clip)


def save_learned(runs: Sequence[str], folder: Path) -> None:
    """Write what two models learned of their last label, as their reports show it."""
    for name, run in zip(("before", "after"), runs, strict=True):
        with opened_file(Path(run, "report.html").resolve(), viewport=REPORT_SIZE) as tab:
            tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = false)")
            label = tab.locator("section.learned section").last
            label.screenshot(path=folder / f"reasons_{name}.png")


@contextmanager
def opened_page(checkpoint: str, **options: Any) -> Iterator[tuple[int, Any]]:
    """Give the bytes of the page of a checkpoint, and a tab that shows its first answer."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(live_page(checkpoint)[0], encoding="utf-8")
        with opened_file(file, **options) as tab:
            tab.wait_for_selector("body[data-ready]")
            yield file.stat().st_size, tab


@contextmanager
def opened_file(file: Path, **options: Any) -> Iterator[Any]:
    """Give a tab of Chromium that shows a file."""
    playwright = importlib.import_module("playwright.sync_api")  # of the extra `test`
    with playwright.sync_playwright() as browsers:
        executable = next(filter(None, map(shutil.which, BROWSERS)), None)
        program = browsers.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        tab = program.new_page(**options)
        tab.goto(file.as_uri())
        yield tab


def accuracy_figure(panels: Panels, x_label: str, *, log_x: bool = False) -> Any:
    """Draw the accuracy in percent: a panel for each task, in it a line for each model."""
    figure = line_panels(panels, x_label, "accuracy in %")
    from matplotlib.ticker import MaxNLocator

    for axes in figure.axes:
        if log_x:
            _log_x(axes)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _log_x(axes: Any) -> None:
    axes.set_xscale("log")
    # The usual labels are formulas, which are drawn literally here.
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.minorticks_off()


def points_figure(
    points: Points, x_label: str, y_label: str, *, columns: int, log_x: bool = False
) -> Any:
    """Draw points, a panel for each task, up to `columns` side by side.

    Points with the same name have the same colour and mark. x is a share without `log_x`.
    """
    columns = min(columns, len(points))
    num_rows = math.ceil(len(points) / columns)
    names = list(dict.fromkeys(name for panel in points.values() for name in panel))
    figure = new_figure(3.2 * columns, 0.7 + 3.5 * num_rows)
    grid = figure.subplots(num_rows, columns, squeeze=False)
    for axes in grid.flat[len(points) :]:
        axes.remove()
    keys: dict[str, Any] = {}
    for axes, (title, panel) in zip(grid.flat, points.items(), strict=False):
        for name, point in panel.items():
            style = names.index(name)
            colour, mark = COLOURS[style % len(COLOURS)], MARKS[style % len(MARKS)]
            (keys[name],) = axes.plot(*point, color=colour, marker=mark, linestyle="none")
        axes.set_title(plain(title, 60), size=10)
        axes.set_xlabel(x_label)
        if log_x:
            _log_x(axes)
        else:
            axes.set_xlim(0, 1)
        axes.margins(y=0.2)
    for row in grid:
        row[0].set_ylabel(y_label)
    finish(figure, list(keys), list(keys.values()))
    return figure


def bars_figure(bars: Mapping[str, Mapping[str, float]], x_label: str) -> Any:
    """Draw a group of bars for each title, the first on top; bars of a name have one colour."""
    names = list(dict.fromkeys(name for group in bars.values() for name in group))
    figure = new_figure(8, 1.0 + 0.5 * len(bars))
    axes = figure.subplots()
    height = 0.8 / max(len(names), 1)
    keys: dict[str, Any] = {}
    for number, group in enumerate(bars.values()):
        for name, value in group.items():
            place = names.index(name)
            drawn = axes.barh(
                number + place * height,
                value,
                height,
                align="edge",
                color=COLOURS[place % len(COLOURS)],
            )
            axes.bar_label(drawn, fmt="%.1f", padding=2, fontsize=8)
            keys[name] = drawn
    axes.set_yticks([number + 0.4 for number in range(len(bars))], labels=list(bars))
    axes.invert_yaxis()
    axes.set_xlabel(x_label)
    finish(figure, list(keys), list(keys.values()))
    return figure
