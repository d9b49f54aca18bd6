"""What a model learned, on a page and in the terminal: complete, readable, harmless."""

import re
from dataclasses import replace
from typing import Any

import pytest
from shown import PAYLOADS, Page, assert_harmless, explained

from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from sase_hf.utils.text import Table
from sase_hf.visualization import attention_html, learned_text
from sase_hf.visualization.learned_page import learned_values
from sase_hf.visualization.learned_words import (
    LearnedLabel,
    LearnedPart,
    LearnedWord,
    LearnedWords,
)
from sase_hf.visualization.page import tables_html


def word_of(text: str, mean: float) -> LearnedWord:
    return LearnedWord(text, mean, 4, ("it was\n", text, " to me"))


def label_of(name: str = "good", num_texts: int = 3, **more: Any) -> LearnedLabel:
    values: dict[str, Any] = {
        "words_for": [word_of("warm", 1.0), word_of("quick", 0.25)],
        "words_against": [word_of("cold", -0.5)],
    }
    return LearnedLabel(name, num_texts, **{**values, **more})


HOP = LearnedPart(hops=[0], words=[("warm", 0.5), ("cold", 0.25)], size=0.5, label="good")
LEARNED = LearnedWords(
    kind=SINGLE_LABEL,
    num_texts=9,
    num_left_out=0,
    labels=[label_of(), label_of("bad"), label_of("fair")],
    num_labels=3,
    parts=[HOP],
)


def test_learned_page_draws_the_bars_of_each_label_by_one_scale() -> None:
    page = attention_html([], learned=replace(LEARNED, labels=[label_of()]))
    found = re.findall(r'"(pro|con)".*<bdi>(\w+)</bdi>.*--w:(.*?)".*<span>(.*?) <', page)
    assert found == [
        ("pro", "warm", "1.000", "+1.00"),
        ("pro", "quick", "0.250", "+0.25"),
        ("con", "cold", "0.500", "−0.50"),
    ]


def headings(learned: LearnedWords) -> list[str]:
    return re.findall("<h4>(.*)</h4>", attention_html([], learned=learned))


def test_learned_page_of_two_labels_says_once_what_speaks_for_one_and_against_the_other() -> None:
    learned = replace(LEARNED, labels=LEARNED.labels[:2], num_labels=2)
    assert headings(learned) == ["Spoke for it"] * 2
    assert "What speaks for one label speaks against the other." in str(learned_values(learned))
    several = replace(learned, kind=MULTI_LABEL)
    assert len(headings(several)) == 4, "each label is decided by itself"


def test_learned_page_folds_long_lists() -> None:
    words = [word_of(f"word{place}", 1.0) for place in range(7)]
    text = attention_html([], learned=replace(LEARNED, labels=[label_of(words_for=words)]))
    assert re.findall(r'<details class="more"><summary>(.*?)<', text) == ["2 more"]
    assert all(f">word{place}<" in text for place in range(7))


def test_learned_page_of_numbers_says_what_raised_them() -> None:
    learned = replace(LEARNED, kind=REGRESSION, labels=[label_of("stars", 9)])
    assert headings(learned) == ["Raised it", "Lowered it"]
    assert "predicted for" not in attention_html([], learned=learned)


def test_learned_page_names_hops_that_read_the_same() -> None:
    learned = replace(LEARNED, parts=[replace(HOP, hops=[1, 4, 6]), replace(HOP, hops=[])])
    page = attention_html([], learned=learned)
    assert "Hops 2, 5, 7, which read the same" in page
    hops, linear, _ = learned_text(learned).splitlines()[-3:]
    assert hops.startswith("hops 2, 5, 7, which read the same: warm 50%, cold 25%, adds 0.50, ")
    assert linear.startswith("the words themselves: ")


def test_learned_page_says_which_words_texts_and_labels_are_left_out() -> None:
    learned = replace(LEARNED, num_left_out=11, num_labels=5)
    page = attention_html([], learned=learned)
    for note in ("fewer than 3 times", "11 more rows", "3 most frequent of 5 labels"):
        assert note in page
        assert note in learned_text(learned)


@pytest.mark.parametrize("text", PAYLOADS)
def test_learned_page_shows_hostile_words_and_labels_and_obeys_none(text: str) -> None:
    word = LearnedWord(text, 1.0, 3, (text, text, text))
    labels = [LearnedLabel(text, 1, [word], [word]), *(label_of(f"{text} {n}") for n in range(9))]
    part = LearnedPart([0], [(text, 0.5)], 1.0, text)
    learned = replace(LEARNED, labels=labels, parts=[part])
    source = attention_html([explained("dull but fine", [1.0, 0, 0])], learned=learned)
    assert assert_harmless(source).elements.count("details") > 2
    assert "<script" not in source
    assert_harmless(tables_html([Table("t", ["", "n"], [["a", "1"]])], {}, "report", learned))


def test_learned_page_shows_what_is_invisible_in_a_word() -> None:
    word = LearnedWord("a\u202eb", 1 / 3, 3, ("\u200b", "a\u202eb", "\x1b[31m"))
    labels = [label_of(words_for=[word]), label_of("bad"), label_of("fair")]
    learned = replace(LEARNED, labels=labels)
    page = attention_html([], learned=learned)
    assert "a[U+202E]b" in page
    assert "[U+001B]" in page
    assert "a[U+202E]b +0.33 ×3" in learned_text(learned)


def test_learned_page_of_nothing_says_so() -> None:
    empty = LearnedLabel("good", 0, [], [])
    part = LearnedPart([0], [], 0.0, None)
    learned = replace(LEARNED, num_texts=0, labels=[empty], parts=[part])
    page = assert_harmless(attention_html([], learned=learned))
    assert page.texts["p.note"][:2] == ["No word."] * 2
    assert "hop 1: adds 0.00" in learned_text(learned)


def test_attention_page_has_no_section_without_it() -> None:
    assert "What the model learned" not in attention_html([])


def test_report_page_has_the_section_between_the_open_table_and_folded_ones() -> None:
    tables = [Table(title, ["", "n"], [["a", "1"]]) for title in ("accuracy", "facts")]
    text = tables_html(tables, {}, "report", LEARNED, lines=["right for 1"])
    page = Page(text)
    assert page.texts["p.line"] == ["Right for 1."]
    assert page.texts["h2"] == ["accuracy", "What the model learned", "facts"]
    assert re.findall(r'<details class="table"><summary><h2>(.*?)<', text) == ["facts"]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_learned_page_fits_a_phone_and_opens_an_example(width: int, chromium: Any) -> None:
    """Also with long words, in the dark, and without a script."""
    long = word_of("Donaudampfschifffahrtsgesellschaftskapitän", 5.0)
    labels = [label_of("bad"), label_of("l" * 70, words_for=[long]), label_of("fair")]
    labels[0] = label_of("good", words_for=[long, word_of("warm", 1.0), word_of("quick", 1.0)])
    part = replace(HOP, words=[("w" * 40, 0.5)] * 8)
    page_source = attention_html([], learned=replace(LEARNED, labels=labels, parts=[part]))
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": "dark"}
    page = chromium.new_page(**options)
    page.set_content(page_source)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    section = page.locator(".learned")
    assert section.evaluate("e => e.scrollWidth <= e.clientWidth")
    bar = page.locator(".learned summary i").nth(1)
    assert bar.bounding_box()["width"] > 0
    first, second = page.locator(".learned details").all()[:2]
    assert first.get_by_text("it was").is_visible(), "the first word of a list shows how"
    assert not second.get_by_text("it was").is_visible()
    second.locator("summary").click()
    assert second.get_by_text("it was").is_visible()
