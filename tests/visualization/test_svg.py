"""The SVG: every weight where it belongs, and no text that is taken for anything but text."""

import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

import pytest
from shown import PAYLOADS, explained, result, with_linear_part

from sase_hf.visualization import attention_svg, visible
from sase_hf.visualization.page import MAX_TOKENS

ELEMENTS = {"svg", "style", "g", "rect", "text"}
HOSTILE = (*PAYLOADS, "--></svg><script>alert(1)</script> ]]>", "a\u202eb\u0000c\ud800d\nnext")


class Drawing(NamedTuple):
    """Lines of text, and for each line of words its words, and cells by the name of the row."""

    texts: list[str]
    words: list[list[str]]
    cells: list[dict[str, list[tuple[str, float]]]]  # a class and an opacity; "even" has 0


def drawing(source: str) -> Drawing:
    root = ElementTree.fromstring(source)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= ELEMENTS
    drawn = Drawing([text.text or "" for text in root.iterfind("{*}text")], [], [])
    for group in root.iterfind("{*}g"):
        texts = group.findall("{*}text")
        above = [text for text in texts if "textLength" in text.attrib]
        starts = [float(text.attrib["x"]) - 3 for text in above]  # of the cells
        drawn.words.append([text.text or "" for text in above])
        rows = [text for text in texts if "textLength" not in text.attrib]
        drawn.cells.append({})
        for name in rows:
            top = float(name.attrib["y"]) - 15
            cells = [("even", 0.0)] * len(above)
            for rect in group.iterfind("{*}rect"):
                if float(rect.attrib["y"]) == top and rect.attrib["class"] != "even":
                    place = starts.index(float(rect.attrib["x"]))
                    cells[place] = rect.attrib["class"], float(rect.attrib["fill-opacity"])
            drawn.cells[-1][name.text or ""] = cells
    return drawn


def weights(*shares: float) -> list[tuple[str, float]]:
    return [("weight", share) if share else ("even", 0.0) for share in shares]


def test_attention_svg_draws_the_strengths_of_all_hops_and_of_each() -> None:
    drawn = drawing(attention_svg(result("good but dear", true_label="2 stars"), "A title"))
    assert drawn.texts == ["A title", "predicted: 4 stars 75.0%", "true label: 2 stars"]
    assert drawn.words[0] == ["good", "but", "dear"]
    rising, falling = weights(0, 0, 0.37), weights(0.37, 0, 0)
    assert drawn.cells[0] == {"all hops": rising, "hop 1": rising, "hop 2": falling}
    assert drawn.words[1:] == [["an even share or less", "8 times that or more, or all"]]
    assert drawn.cells[1:] == [{"attention": weights(0, 1)}]


def test_attention_svg_draws_what_words_added_with_its_sign() -> None:
    """What a word added by itself is a part of it already."""
    shown = explained("good but dear", [1.0, 0.0, -2.0], target="other")
    drawn = drawing(attention_svg(with_linear_part(shown, [1.0, 0.0, -1.0])))
    assert next(iter(drawn.cells[0])) == "why"
    assert drawn.cells[0]["why"] == [("for", 0.5), ("even", 0.0), ("against", 1.0)]
    assert drawn.words[1] == ["against: −2.00 or less", "for: +2.00 or more"]
    assert drawn.cells[1] == {"why": [("against", 1.0), ("for", 1.0)]}
    assert "explained: other" in drawn.texts


@pytest.mark.parametrize("payload", HOSTILE)
def test_attention_svg_draws_text_literally(payload: str) -> None:
    """Not as markup, wherever it stands, and with nothing hidden."""
    shown = drawing(attention_svg(result(payload, payload, true_label=payload), payload))
    line = " ".join(visible(payload).split())
    assert shown.texts == [line, f"predicted: {line} 75.0%", f"true label: {line}"]
    assert len(shown.words[0]) == len(result(payload)["tokens"])


def test_attention_svg_draws_an_alignment_with_the_source_across() -> None:
    alignment = {
        "text": "a <b>dog</b>",
        "translation_text": "un $chien$",
        "tokens": ["▁why", "▁$chien$", *["▁un"] * MAX_TOKENS],
        "source_tokens": ["▁a", "▁<b>dog", "\u202e", "▁"],
        "alignment": [[0.7, 0.1, 0.2, 0.0], *[[0.0, 1.0, 0.0, 0.0]] * (MAX_TOKENS + 1)],
    }
    drawn = drawing(attention_svg(alignment, "title"))
    assert drawn.texts == ["title", f"Only the first {MAX_TOKENS} tokens are shown."]
    assert drawn.words == [["a", "<b>dog", "[U+202E]", "▁"], ["0", "1"]]
    rows = list(drawn.cells[0].items())
    assert rows[:2] == [("why", weights(0.7, 0.1, 0.2, 0)), ("$chien$", weights(0, 1, 0, 0))]
