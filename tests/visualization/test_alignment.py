"""The alignment of a translation: page and terminal text."""

import re
from typing import Any

from shown import Page

from sase_hf.visualization import alignment_html

RESULT: dict[str, Any] = {
    "text": "a <b>dog</b>",
    "translation_text": "un $chien$",
    "tokens": ["▁un", "▁$chien$", "[EOS]"],
    "source_tokens": ["▁a", "▁<b>dog", "\u202e", "▁"],
    "alignment": [[0.7, 0.1, 0.2, 0.0], [0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]],
    "score": -1.0,
}


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
