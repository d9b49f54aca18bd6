"""Charts of measurements."""

from typing import Any

from charts import statistics_figure


def test_statistics_figure_has_a_line_for_each_checkpoint() -> None:
    """Two checkpoints with different numbers of hops, and names that matplotlib might obey."""

    def statistics(*medians: float) -> dict[str, Any]:
        hops = [{"p50": median} for median in medians]
        return {name: {"hops": hops} for name in ("entropy", "cosine")}

    figure = statistics_figure({"_$a$": statistics(0.3, 0.5), "b": statistics(0.6)})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["_$a$", "b"]
    for axes in figure.axes:
        drawn = [(*line.get_xdata(), *line.get_ydata()) for line in axes.get_lines()]
        assert drawn == [(1, 2, 0.3, 0.5), (1, 0.6)]
