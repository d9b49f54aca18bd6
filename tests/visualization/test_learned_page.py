"""What a model learned, on a page: complete, readable, harmless."""

import re
from typing import Any

import pytest
from shown import PAYLOADS, assert_harmless, explained

from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL, answers_of_kind
from sase_hf.visualization import attention_html
from sase_hf.visualization.learned_words import (
    LearnedLabel,
    LearnedWord,
    LearnedWords,
)


def word_of(text: str, mean: float) -> LearnedWord:
    return LearnedWord(text, mean, 4)


def label_of(name: str = "good", num_texts: int = 3, **more: Any) -> LearnedLabel:
    values: dict[str, Any] = {
        "words_for": [word_of("warm", 1.0), word_of("quick", 0.25)],
        "words_against": [word_of("cold", -0.5)],
    }
    return LearnedLabel(name, num_texts, **{**values, **more})


LEARNED = LearnedWords(
    answers=answers_of_kind(SINGLE_LABEL, "abc"),
    num_texts=9,
    labels=[label_of(), label_of("bad"), label_of("fair")],
)


def page_of(**more: Any) -> str:
    return attention_html([], learned=LEARNED._replace(**more))


def test_learned_page_colours_the_words_of_each_label_by_one_scale() -> None:
    found = re.findall(
        r'learned-word (pro|con)" style="--w:(.*?)"><bdi>(\w+)</bdi> <small>(.*?) ×4<',
        page_of(labels=[label_of()]),
    )
    assert found == [
        ("pro", "1.000", "warm", "+1.00"),
        ("pro", "0.250", "quick", "+0.25"),
        ("con", "0.500", "cold", "−0.50"),
    ]


@pytest.mark.parametrize(
    ("kind", "num_labels", "headings"),
    [
        (SINGLE_LABEL, 3, ["Spoke for it", "Spoke against it"]),
        (SINGLE_LABEL, 2, ["Spoke for it"]),  # what speaks for one speaks against the other
        (MULTI_LABEL, 2, ["Spoke for it", "Spoke against it"]),  # each is decided by itself
        (REGRESSION, 2, ["Raised it", "Lowered it"]),
    ],
)
def test_learned_page_heads_its_lists(kind: str, num_labels: int, headings: list[str]) -> None:
    page = page_of(answers=answers_of_kind(kind, "abc"[:num_labels]), labels=LEARNED.labels[:2])
    words_of_labels = page.partition('class="words-of-labels"')[2].partition("</thead>")[0]
    assert re.findall(r'scope="col">([^<]+)<', words_of_labels) == headings
    assert ("predicted for" in page) == (kind != REGRESSION)


@pytest.mark.parametrize("text", [*PAYLOADS, "a\u202eb"])
def test_learned_page_shows_hostile_words_and_labels_and_obeys_none(text: str) -> None:
    word = LearnedWord(text, 1.0, 3)
    labels = [LearnedLabel(text, 1, [word], [word]), label_of(f"{text} 2"), label_of(f"{text} 3")]
    learned = LEARNED._replace(labels=labels)
    source = attention_html([explained("dull but fine", [1.0, 0, 0])], learned=learned)
    assert_harmless(source)
    assert "<script" not in source
    assert "\u202e" not in source


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_learned_page_fits_a_phone(width: int, chromium: Any) -> None:
    """Also with long words, in the dark, and without a script."""
    long = word_of("Donaudampfschifffahrtsgesellschaftskapitän", 5.0)
    words = [long, word_of("warm", 1.0), word_of("quick", 1.0)]
    labels = [label_of("l" * 70, words_for=words), label_of("bad"), label_of("fair")]
    page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme="dark")
    page.set_content(page_of(labels=labels))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    words_of_labels = page.locator(".scroll").first
    assert words_of_labels.evaluate("e => e.scrollWidth <= e.clientWidth")
