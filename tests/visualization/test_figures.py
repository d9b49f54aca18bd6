"""Figures: every weight where it belongs, and no text that is taken for anything but text."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from shown import explained, pair_result, result, with_linear_part

from sase_hf.visualization import (
    attention_figure,
    comparison_figure,
    save_figure,
)
from sase_hf.visualization.figures import MAX_HOPS, MAX_WORDS, plain
from sase_hf.visualization.picture import heatmap_svg

STRENGTHS = [0, 0, 0.37]  # of the first of the two hops, and of both together
PAYLOADS = (
    r"$\frac{$ and $x^2$",
    "--></svg><script>alert(1)</script>",
    "_hidden & <b> ]]>",
    "a\u202eb\u0000c\ud800d\nnext",
)


def cells(figure: Figure) -> list[list[list[float]]]:
    return [axes.collections[0].get_array().tolist() for axes in figure.axes[:-1]]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_figure_cells_are_the_strengths_of_all_hops_and_of_each() -> None:
    figure = attention_figure(result("good but dear", true_label="2 stars"), "A title")
    [strengths] = cells(figure)
    assert strengths == [STRENGTHS, STRENGTHS, STRENGTHS[::-1]]
    axes = figure.axes[0]
    words, names = axes.get_xticklabels(), axes.get_yticklabels()
    assert [word.get_text() for word in words] == ["good", "but", "dear"]
    assert [name.get_text() for name in names] == ["all hops", "hop 1", "hop 2"]
    edges = axes.collections[0].get_coordinates()[0, :, 0]
    for word, start, end in zip(words, edges, edges[1:], strict=False):
        assert start < word.get_position()[0] < end, "a word stands above its cells"


def test_figure_names_what_is_predicted_and_what_is_true() -> None:
    figure = attention_figure(result("good but dear", true_label="2 stars"), "A title")
    assert {"A title", "predicted (0.750): 4 stars\ntrue label: 2 stars"} <= set(texts(figure))


def test_figure_names_both_texts_of_a_pair() -> None:
    pair = attention_figure(pair_result("all sleep now", "none is awake"))
    titles = [axes.get_title("left") for axes in pair.axes[:2]]
    assert titles == ["predicted (0.500): neutral\nFirst text", "Second text"]


def test_figure_draws_contributions_on_a_scale_of_their_own() -> None:
    figure = attention_figure(explained("good but dear", [1.0, 0.0, -2.0], label="other"))
    why = figure.axes[0].collections[1]
    assert why.get_array().tolist() == [[1, 0, -2]]
    assert (why.norm.vmin, why.norm.vmax) == (-2, 2), "a sign has a colour of its own"
    against, neutral, speaks_for = (why.cmap(why.norm(added))[:3] for added in (-2, 0, 2))
    assert against[0] > against[2], "red"
    assert speaks_for[2] > speaks_for[0], "blue"
    assert min(neutral) > 0.9, "paper"
    assert {"why", "against: −2.00 or less", "for: +2.00 or more"} <= set(texts(figure))


def test_figure_counts_what_words_added_by_themselves_once() -> None:
    """It is part of `word_contributions` already."""
    shown = explained("good but dear", [1.0, 0.0, -2.0])
    figure = attention_figure(with_linear_part(shown, [1.0, 0.0, -1.0]))
    assert figure.axes[0].collections[1].get_array().tolist() == [[1, 0, -2]]


def test_figure_wraps_long_texts_and_says_what_it_leaves_out() -> None:
    words = MAX_WORDS + 1
    even = [1 / words] * words
    long = result("word " * words, attention=[even] * (MAX_HOPS + 1), truncated=7)
    figure = attention_figure(long)
    [note] = [text for text in texts(figure) if "Only" in text]
    assert note.splitlines() == [
        "(even): reads all words about equally.",
        f"Only the first {MAX_WORDS} of {words} words are shown.",
        f"Only the first {MAX_HOPS} of {MAX_HOPS + 1} hops are shown.",
        "The model did not read the last 7 tokens.",
    ]
    assert sum(len(rows[0]) for rows in cells(figure)) == MAX_WORDS
    assert len(cells(figure)) > 2, "long texts are wrapped"


def test_figure_of_an_empty_text_says_so() -> None:
    assert "The text is empty." in texts(attention_figure(result("")))


def test_figure_shortens_long_words_labels_and_titles() -> None:
    words = "Long names " * 50
    endless = result("x" * 10**6, label=words)
    figure = comparison_figure({words: endless, "b": endless}, words)
    assert max(len(line) for text in texts(figure) for line in text.splitlines()) <= 100


def test_comparison_figure_has_a_column_for_each_model_and_one_scale() -> None:
    """A sharper model has stronger colours only if both share the scale."""
    even = {"overall": [1 / 3] * 3, "attention": [[1 / 3] * 3] * 2}
    results = {"without penalty": result("so it is", **even), "with penalty": result("so it is")}
    figure = comparison_figure(results)
    left, right = figure.axes[:2]
    assert left.get_title("left").startswith("without penalty\n")
    assert right.get_title("left").startswith("with penalty\n")
    assert left.collections[0].norm.vmax == right.collections[0].norm.vmax == 1


def test_dark_figure_has_light_words_on_dark_paper() -> None:
    light, dark = (attention_figure(result("fine"), theme=theme) for theme in ("light", "dark"))
    inks = [to_rgb(text.get_color()) for text in dark.findobj(Text) if text.get_text()]
    assert min(map(min, inks)) > 0.5, "no dark word on the dark paper"
    assert dark.get_facecolor() < (0.1, 0.1, 0.1) < (0.9, 0.9, 0.9) < light.get_facecolor()


def test_figure_names_a_theme_that_there_is_not() -> None:
    with pytest.raises(ValueError, match=r"'blue'.* light, dark"):
        attention_figure(result("fine"), theme="blue")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_figure_draws_text_literally(payload: str, tmp_path: Path) -> None:
    """Neither as a formula nor as markup, wherever it stands."""
    strange = result(payload, label=payload, true_label=payload)
    figure = comparison_figure({payload: strange}, title=payload)
    assert plain(payload) in texts(figure)
    assert not any(text.get_parse_math() for text in figure.findobj(Text))
    for path in (tmp_path / "figure.png", tmp_path / "figure.svg"):
        save_figure(figure, path)
    picture = heatmap_svg(strange)
    assert plain(payload.split()[0], 20) in "".join(ElementTree.fromstring(picture).itertext())
    for root in (ElementTree.parse(path).getroot(), ElementTree.fromstring(picture)):
        elements = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert {"script", "a", "foreignObject"}.isdisjoint(elements)


def test_save_figure_writes_the_same_bytes_for_the_same_figure(tmp_path: Path) -> None:
    """A date in it would make every record of a run a new file."""
    for ending in ("png", "svg"):
        one, other = (tmp_path / "new" / f"{name}.{ending}" for name in "ab")
        for path in (one, other):
            save_figure(attention_figure(result("fine")), path)
        assert one.read_bytes() == other.read_bytes()


def test_save_figure_names_a_file_of_another_form(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'page\.html'.*\.png or \.svg"):
        save_figure(Figure(), tmp_path / "page.html")


def test_figures_without_matplotlib_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"matplotlib.*sase_hf\[viz\]"):
        attention_figure(result("fine"))
