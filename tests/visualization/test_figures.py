"""Figures: every weight where it belongs, and no text that is taken for anything but text."""

import math
import random
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sase_hf.visualization import (
    accuracy_figure,
    attention_figure,
    comparison_figure,
    curves_figure,
    save_figure,
    statistics_figure,
)
from sase_hf.visualization.canvas import LONGEST_LINE, columns_of, plain
from sase_hf.visualization.figures import MAX_HOPS, MAX_WORDS, WORDS_ACROSS

HOPS = ((0.5, 0.25, 0.25), (0.0, 0.8, 0.2))
PAYLOADS = (
    r"$\frac{$ and $x^2$",
    "--></svg><script>alert(1)</script>",
    "_hidden & <b> ]]>",
    "a\u202eb\u0000c\ud800d\nnext",
)


def result(text: str = "good but dear", hops: Any = HOPS, **more: Any) -> dict[str, Any]:
    """Return what the pipeline says of a text whose hops have these weights."""
    spans = [match.span() for match in re.finditer(r"[^ \n]+", text)]
    return {
        "text": text,
        "label": "4 stars",
        "score": 0.75,
        "scores": {"4 stars": 0.75},
        "tokens": [text[start:end] for start, end in spans],
        "offsets": spans,
        "attention": [list(hop) for hop in hops],
        "overall": [sum(weights) / len(hops) for weights in zip(*hops, strict=True)],
        "overlap": 0.0,
        **more,
    }


def long_result(num_words: int, num_hops: int = 2) -> dict[str, Any]:
    """Return a result for a text of so many words, all read alike."""
    return result("word " * num_words, [[1 / num_words] * num_words] * num_hops)


def shades(figure: Figure) -> list[list[list[float]]]:
    """Return the rows of cells of every heat map in a figure, the scale's left out."""
    meshes = [axes.collections[0] for axes in figure.axes]
    return [mesh.get_array().tolist() for mesh in meshes[:-1]]


def texts(figure: Figure) -> list[str]:
    """Return all that is written in a figure, in the order in which it was drawn."""
    return [text.get_text() for text in figure.texts]


def expected_shades(hops: Any, strongest: float) -> Any:
    return [pytest.approx([math.sqrt(weight / strongest) for weight in hop]) for hop in hops]


def test_the_cells_are_the_weights_of_all_hops_and_of_each() -> None:
    """A figure in a paper is evidence: each row belongs to one hop, each column to one word."""
    overall, hops = shades(attention_figure(result()))
    assert overall == expected_shades([(0.25, 0.525, 0.225)], strongest=0.525)
    assert hops == expected_shades(HOPS, strongest=0.8)


def test_words_labels_and_the_scale_are_written_beside_the_cells() -> None:
    """Colours alone say neither where nor how much."""
    written = texts(attention_figure(result(true_label="2 stars"), "A title"))
    assert written[:3] == ["A title", "predicted (0.750): 4 stars", "true label: 2 stars"]
    assert written[3:9] == ["good", "but", "dear", "all", "hop 1", "hop 2"]
    assert written[9:13] == ["0", "0.2", "0.8", "of a hop's attention"]
    assert written[14:16] == ["0.13", "0.53"]


def test_both_sentences_of_a_pair_are_drawn() -> None:
    """Entailment lies between the two."""
    first, second = result("all sleep now"), result("none is awake", HOPS[::-1])
    pair = {name: [first[name], second[name]] for name in first if name not in ("label", "score")}
    figure = attention_figure({**first, **pair, "scores": {"neutral": 1.0}, "label": "neutral"})
    written = texts(figure)
    assert written.index("First text") < written.index("sleep") < written.index("Second text")
    assert written.index("Second text") < written.index("awake")
    assert len(shades(figure)) == 4


def test_a_text_wider_than_the_page_goes_on_below() -> None:
    """Nobody reads a strip of two hundred words; blocks of one word would look odd."""
    figure = attention_figure(long_result(WORDS_ACROSS + 1))
    assert [len(rows[0]) for rows in shades(figure)] == [17, 17, 16, 16]
    assert figure.get_figwidth() < 10


def test_a_short_text_fills_its_figure() -> None:
    """Wider cells and a narrower page, instead of a right half that is blank."""
    figure = attention_figure(result())
    assert figure.get_figwidth() < 5
    assert figure.axes[0].get_position().x1 > 0.45
    assert attention_figure(long_result(WORDS_ACROSS)).axes[0].get_position().x1 > 0.9


def test_no_label_is_named() -> None:
    """Of several possible labels a text may have none."""
    assert "true label: no label" in texts(attention_figure(result(true_label=[])))


def test_what_is_left_out_is_said() -> None:
    """A figure that is silently cut would lie about the rest."""
    figure = attention_figure(long_result(MAX_WORDS + 1, MAX_HOPS + 1) | {"truncated": 7})
    assert {
        f"Only the first {MAX_WORDS} of {MAX_WORDS + 1} words are shown.",
        f"Only the first {MAX_HOPS} of {MAX_HOPS + 1} hops are shown.",
        "The model did not read the last 7 tokens.",
    } <= set(texts(figure))
    assert sum(len(rows[0]) for rows in shades(figure)[::2]) == MAX_WORDS
    assert not any(text.startswith("Only") for text in texts(attention_figure(result())))


@pytest.mark.parametrize(("text", "note"), [("", "The text is empty."), ("\n", "no word.")])
def test_a_text_without_words_has_a_figure(text: str, note: str, tmp_path: Path) -> None:
    """An empty text has a prediction, too."""
    figure = attention_figure(result(text, [[], []]))
    assert texts(figure)[-1].endswith(note)
    save_figure(figure, tmp_path / "empty.png")


def test_a_sharper_model_is_the_darker_one() -> None:
    """With and without penalty side by side: the scale of colours is one for both."""
    flat = result(hops=[[0.4, 0.3, 0.3]] * 2)
    figure = comparison_figure({"without penalty": flat, "with penalty": result()})
    _, flat_hops, _, hops = shades(figure)
    assert flat_hops == expected_shades([(0.4, 0.3, 0.3)] * 2, strongest=0.8)
    assert hops == expected_shades(HOPS, strongest=0.8)
    left, _, right, _ = (axes.get_position() for axes in figure.axes[:4])
    assert left.x1 < right.x0
    assert left.y0 == right.y0
    assert [name for name in texts(figure) if "penalty" in name] == [
        "without penalty",
        "with penalty",
    ]


def test_nothing_to_compare_is_refused() -> None:
    """An empty page would hide a mistake of the caller."""
    with pytest.raises(ValueError, match=r"nothing to compare; give at least one result"):
        comparison_figure({})


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_text_is_drawn_and_never_obeyed(payload: str, ending: str, tmp_path: Path) -> None:
    """Neither as a formula nor as markup, wherever it stands."""
    hops = [[1 / len(payload.split())] * len(payload.split())]
    strange = result(payload, hops, label=payload, true_label=payload)
    figure = comparison_figure({payload: strange}, title=payload)
    assert plain(payload) in texts(figure)
    path = tmp_path / f"figure{ending}"
    save_figure(figure, path)
    if ending == ".svg":
        elements = {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}
        assert {"script", "image", "a", "foreignObject"}.isdisjoint(elements)


def test_strange_characters_raise_no_warning(tmp_path: Path) -> None:
    """Missing glyphs, overrides and lone surrogates: a warning would stop those who forbid it."""
    rng = random.Random(0)
    for round_ in range(8):
        text = "".join(chr(rng.randrange(0x110000)) for _ in range(30)) + "日本 שלום مرحبا 👨‍👩‍👧 é"
        count = len(re.findall(r"[^ \n]+", text))
        figure = attention_figure(result(text, [[1 / count] * count], label=text), text)
        save_figure(figure, tmp_path / f"{round_}.svg")


def test_a_line_has_only_what_the_font_can_draw_and_an_end() -> None:
    """Wide letters take two columns; a box says that there was one."""
    assert plain("a\n b\u202e") == "a b[U+202E]"
    assert plain("日本") == "□□"
    for endless in ("x" * 10**6, "日" * 10**6):
        assert columns_of(plain(endless)) <= LONGEST_LINE
        assert plain(endless).endswith("…")


def test_names_do_not_run_into_the_next_column() -> None:
    """Labels come from users and may be as long as a page."""
    words = "Long names " * 50
    endless = result(label=words, true_label=words)
    figure = comparison_figure({words: endless, "b": endless}, words)
    lines = [text for text in figure.texts if "names" in text.get_text()]
    assert len(lines) == 6
    canvas = FigureCanvasAgg(figure)
    edge = figure.axes[2].get_position().x0 * canvas.get_renderer().width
    for line in lines[1:4]:
        assert line.get_window_extent(canvas.get_renderer()).x1 < edge
        assert line.get_text().endswith("…")


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    """A date in it would make every record of a run a new file."""
    for ending in ("png", "svg"):
        paths = [tmp_path / "new" / f"{name}.{ending}" for name in "ab"]
        for path in paths:
            save_figure(attention_figure(result()), path)
        first, second = (path.read_bytes() for path in paths)
        assert first == second


def test_an_unknown_kind_of_file_is_refused(tmp_path: Path) -> None:
    """Say which there are."""
    with pytest.raises(ValueError, match=r"'page.html'; the name must end in .png or .svg"):
        save_figure(attention_figure(result()), tmp_path / "page.html")


def test_without_matplotlib_the_answer_is_the_line_for_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: pages and the terminal do without."""
    figure = attention_figure(result())
    for module in ("matplotlib", "matplotlib.figure", "matplotlib.font_manager"):
        monkeypatch.setitem(sys.modules, module, None)
    draws: list[Callable[[], object]] = [
        lambda: attention_figure(result()),
        lambda: curves_figure({}),
        lambda: statistics_figure({"a": {"entropy": {"hops": []}}}),
        lambda: save_figure(figure, "figure.png"),
    ]
    for draw in draws:
        with pytest.raises(ImportError, match=r"need matplotlib: pip install 'sase_hf\[viz\]'"):
            draw()


def test_curves_are_drawn_as_they_were_measured(tmp_path: Path) -> None:
    """Each ranking is a line on either side, and its name says which."""
    deletion = {"random": [0.9, 0.6, 0.2], "attention": [0.9, 0.3, 0.2]}
    insertion = {"random": [0.2, 0.6, 0.9], "attention": [0.2, 0.8, 0.9]}
    figure = curves_figure({"percents": [0, 50, 100], "deletion": deletion, "insertion": insertion})
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["attention", "random"]
    for axes, means in zip(figure.axes, (deletion, insertion), strict=True):
        drawn = [list(line.get_ydata()) for line in axes.get_lines()]
        assert drawn == [means[name] for name in names]
    save_figure(figure, tmp_path / "curves.svg")


def test_boxes_show_the_percentiles_of_every_hop(tmp_path: Path) -> None:
    """Two checkpoints with different numbers of hops, and names that matplotlib might obey."""

    def hop(middle: float) -> dict[str, float]:
        shifts = {"p5": -0.2, "p25": -0.1, "p50": 0.0, "p75": 0.1, "p95": 0.2}
        return {"mean": middle, **{name: middle + shift for name, shift in shifts.items()}}

    def statistics(*middles: float) -> dict[str, Any]:
        return {name: {"hops": [*map(hop, middles)]} for name in ("entropy", "overlap")}

    figure = statistics_figure({"_$a$": statistics(0.3, 0.5), "b": statistics(0.6)})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["_$a$", "b"]
    for axes in figure.axes:
        levels = {tuple(line.get_ydata()) for line in axes.get_lines()}
        assert {(0.3, 0.3), (0.5, 0.5), (0.6, 0.6)} <= levels
    save_figure(figure, tmp_path / "boxes.svg")
    assert not statistics_figure({"alone": statistics(0.3)}).legends
    with pytest.raises(ValueError, match=r"nothing to draw; give the statistics"):
        statistics_figure({})


def test_the_accuracy_of_every_model_is_a_line_in_the_panel_of_its_task() -> None:
    """A model without a record on one task keeps its colour on the others."""
    points = {"r = 1": [(1.0, 0.5), (2.0, 0.75)], "r = $5$": [(1.0, 0.25)]}
    figure = accuracy_figure({"snli": points, "_$age$": {**points, "r = 1": []}})
    left, right = figure.axes
    assert [line.get_xydata().tolist() for line in left.get_lines()] == [
        [[1, 50], [2, 75]],
        [[1, 25]],
    ]
    assert [len(line.get_xydata()) for line in right.get_lines()] == [0, 1]
    colours = [[line.get_color() for line in axes.get_lines()] for axes in (left, right)]
    assert colours[0] == colours[1]
    assert right.get_title() == "_$age$"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["r = 1", "r = $5$"]
    with pytest.raises(ValueError, match="nothing to draw; give the curves of at least one task"):
        accuracy_figure({})
