"""The alignment of a translation: figure, page and terminal text."""

import re
from typing import Any

import pytest
from shown import Page

from sase_hf.visualization import (
    alignment_figure,
    alignment_fragment,
    alignment_html,
    alignment_text,
)
from sase_hf.visualization.picture import heatmap_svg

RESULT: dict[str, Any] = {
    "text": "a <b>dog</b>",
    "translation_text": "un $chien$",
    "tokens": ["▁un", "▁$chien$", "[EOS]"],
    "source_tokens": ["▁a", "▁<b>dog", "\u202e", "▁"],
    "alignment": [[0.7, 0.1, 0.2, 0.0], [0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]],
    "score": -1.0,
}


def test_alignment_figure_has_the_source_across_and_the_target_down() -> None:
    """Grey from 0 black to 1 white, as in Figure 3 of the paper."""
    figure = alignment_figure(RESULT, "title")
    [axes] = figure.axes
    [image] = axes.get_images()
    assert image.get_array().tolist() == RESULT["alignment"]
    assert (image.get_clim(), image.get_cmap().name) == ((0, 1), "gray")
    across, down = axes.get_xticklabels(), axes.get_yticklabels()
    assert [label.get_text() for label in across] == ["a", "<b>dog", "[U+202E]", "▁"]
    assert [label.get_text() for label in down] == ["un", "$chien$", "[EOS]"]


def test_heatmap_leaves_room_for_letters_of_double_width() -> None:
    """Names of rows end at the grid, and would else begin left of the picture."""
    narrow, wide = (heatmap_svg({**RESULT, "tokens": [a * 9, "▁", "▁"]}) for a in ("a", "狗"))
    lefts = [float(re.findall(r"translate\(([\d.]+)", picture)[0]) for picture in (narrow, wide)]
    assert lefts == [(9 + 2) * 8, (18 + 2) * 8]


def test_alignment_page_shows_every_weight_and_obeys_no_text() -> None:
    source = alignment_html([RESULT, RESULT], title="<i>")
    page = Page(source)
    assert page.texts["h1"] == ["<i>"]
    assert page.texts["h2"] == ["un $chien$"] * 2
    assert page.texts["p.words"] == ["a <b>dog</b>"] * 2
    weights = [f"{weight:.3f}" for row in RESULT["alignment"] * 2 for weight in row]
    assert re.findall(r"--g:([\d.]+)", source) == weights
    assert page.values("title")[:2] == ["un ← a: 70%", "un ← <b>dog: 10%"]
    assert "b" not in page.elements
    assert not {"html", "h1"} & set(Page(alignment_fragment(RESULT)).elements)


def test_alignment_text_names_the_strongest_source_words() -> None:
    lines = alignment_text(RESULT, top=2).splitlines()
    assert lines[0] == "un $chien$"
    assert lines[2].split() == ["$chien$", "<b>dog", "100%,", "a", "0%"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({**RESULT, "alignment": None}, "the model has no attention"),
        ({"tokens": []}, "not from the aligned-translation pipeline"),
    ],
)
def test_alignment_refuses_what_it_cannot_show(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alignment_html(wrong)
