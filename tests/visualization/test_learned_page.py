"""What a model learned, on a page and in the terminal: complete, readable, harmless."""

import re
from dataclasses import replace
from typing import Any

import pytest
from shown import PAYLOADS, Page, assert_harmless, explained

from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from sase_hf.utils.text import Table
from sase_hf.visualization import attention_html, learned_text
from sase_hf.visualization.learned_page import MAX_SHOWN_LABELS, learned_values
from sase_hf.visualization.learned_words import (
    LearnedHop,
    LearnedLabel,
    LearnedWord,
    LearnedWords,
    Voice,
)
from sase_hf.visualization.page import tables_html
from sase_hf.visualization.word_corpus import Example


def word_of(text: str, added: float, count: int = 4, side: int | None = None) -> LearnedWord:
    return LearnedWord(text, side, added, count, Example("it was\n", text, " to me"))


def label_of(name: str = "good", num_texts: int = 3, **more: Any) -> LearnedLabel:
    values: dict[str, Any] = {
        "words_for": [word_of("warm", 4.0), word_of("quick", 1.0)],
        "words_against": [word_of("cold", -2.0)],
        "punctuation": [word_of("!", 0.4)],
        "unknown": word_of("xyz", -0.4),
    }
    return LearnedLabel(name, num_texts, **{**values, **more})


HOP = LearnedHop(
    hops=[0],
    words=[("warm", 0.5), ("cold", 0.25)],
    punctuation=0.125,
    unknown=0.0,
    voice=Voice({"good": 0.5, "bad": -0.5, "fair": 0.0}, 0.5, "good"),
)
LEARNED = LearnedWords(
    kind=SINGLE_LABEL,
    num_texts=9,
    num_left_out=0,
    is_pair=False,
    explains_predicted=False,
    least_count=3,
    num_rare=1234,
    labels=[label_of(), label_of("bad"), label_of("fair")],
    hops=[HOP],
    linear=None,
)


def test_learned_page_draws_the_bars_of_each_label_by_one_scale() -> None:
    [good, *_] = learned_values(LEARNED)["labels"]  # type: ignore[misc]
    bars = {
        heading: [(word["word"], word["bar"], word["mean"], word["count"]) for word in words]
        for heading, _, words in good["lists"]
    }
    assert bars == {
        "Spoke for it": [("warm", "1.000", "+1.00", "4"), ("quick", "0.250", "+0.25", "4")],
        "Spoke against it": [("cold", "0.500", "−0.50", "4")],
    }
    assert good["punctuation"][0]["mean"] == "+0.10"
    assert good["unknown"]["mean"] == "−0.10"
    _, _, [warm, *_] = good["lists"][0]
    assert warm["example"] == ("it was ", "warm", " to me"), "on one line"


def test_learned_page_of_two_labels_says_once_what_speaks_for_one_and_against_the_other() -> None:
    values = learned_values(replace(LEARNED, labels=LEARNED.labels[:2]))
    for label in values["labels"]:  # type: ignore[attr-defined]
        assert [heading for heading, _, _ in label["lists"]] == ["Spoke for it"]
    assert "What speaks for one label speaks against the other." in str(values["lead"])
    several = learned_values(replace(LEARNED, kind=MULTI_LABEL, labels=LEARNED.labels[:2]))
    assert len(several["labels"][0]["lists"]) == 2, "each label is decided by itself"  # type: ignore[index]


@pytest.mark.parametrize(("num_labels", "folded"), [(2, []), (3, ["2 more"] * 3)])
def test_learned_page_folds_long_lists_of_many_labels(num_labels: int, folded: list[str]) -> None:
    words = [word_of(f"word{place}", 1.0) for place in range(7)]
    labels = [label_of(f"label{number}", words_for=words) for number in range(num_labels)]
    text = attention_html([], learned=replace(LEARNED, labels=labels))
    assert re.findall(r'<details class="more"><summary>(.*?)<', text) == folded
    assert all(text.count(f">word{place}<") >= num_labels for place in range(7))


def test_learned_page_of_numbers_says_what_raised_them() -> None:
    voice = Voice({"stars": -0.5}, 0.5, "stars")
    hops = [replace(HOP, voice=voice), replace(HOP, voice=replace(voice, label=None))]
    learned = replace(LEARNED, kind=REGRESSION, labels=[label_of("stars", 9)], hops=hops)
    values = learned_values(learned)
    [stars] = values["labels"]  # type: ignore[misc]
    assert [heading for heading, _, _ in stars["lists"]] == ["Raised it", "Lowered it"]
    spoke = [hop["voice"]["spoke_for"] for hop in values["hops"]]  # type: ignore[attr-defined]
    assert spoke == ["mostly down: stars", "up here, down there"]
    assert "predicted for" not in attention_html([], learned=learned)


def test_learned_page_names_hops_that_read_the_same() -> None:
    learned = replace(LEARNED, hops=[replace(HOP, hops=[1, 4, 6])])
    page = attention_html([], learned=learned)
    assert "Hops 2, 5, 7, which read the same" in page
    assert "hops 2, 5, 7, which read the same: warm 50%, cold 25%; adds 0.50" in learned_text(
        learned
    )


def test_learned_page_says_which_words_texts_and_labels_are_left_out() -> None:
    labels = [label_of(f"label {n}", num_texts=n) for n in range(MAX_SHOWN_LABELS + 2)]
    learned = replace(LEARNED, labels=labels, num_left_out=11, explains_predicted=True)
    page = attention_html([], learned=learned)
    shown = re.findall(r"<bdi>(label \d+)</bdi>", page)
    assert shown == [f"label {n}" for n in range(2, MAX_SHOWN_LABELS + 2)]
    for note in (
        "Words that occur fewer than 3 times are left out: 1,234 different ones",
        "9 of 20 texts were read, drawn at random",
        "Less frequent labels, which have no bars: label 1, label 0",
        "each text explains only the one that is predicted for it",
    ):
        assert note in page
        assert note in learned_text(learned)


def test_learned_page_tells_the_texts_of_a_pair_apart() -> None:
    words = [word_of("not", 1.0, side=1), word_of("not", 0.5, side=0)]
    labels = [label_of(words_for=words), label_of("bad"), label_of("fair")]
    learned = replace(LEARNED, is_pair=True, labels=labels)
    page = Page(attention_html([], learned=learned))
    assert page.elements.count("details") == 3 + 3 + 3
    assert "not (2nd text) +0.25 ×4, not (1st text) +0.12 ×4" in learned_text(learned)


@pytest.mark.parametrize("text", PAYLOADS)
def test_learned_page_shows_hostile_words_and_labels_and_obeys_none(text: str) -> None:
    word = LearnedWord(text, 0, 1.0, 3, Example(text, text, text))
    label = LearnedLabel(text, 1, [word], [word], [word], word)
    voice = Voice({text: 1.0}, 1.0, text)
    hop = LearnedHop([0], [(text, 0.5)], 0.1, 0.1, voice)
    labels = [label, *(label_of(f"{text} {number}") for number in range(9))]
    learned = replace(LEARNED, labels=labels, hops=[hop], linear=voice, is_pair=True)
    source = attention_html([explained("dull but fine", [1.0, 0, 0])], learned=learned)
    assert assert_harmless(source).elements.count("details") > 2
    assert "<script" not in source
    assert_harmless(tables_html([Table("t", ["", "n"], [["a", "1"]])], {}, "report", learned))


def test_learned_page_shows_what_is_invisible_in_a_word() -> None:
    word = LearnedWord("a\u202eb", None, 1.0, 3, Example("\u200b", "a\u202eb", "\x1b[31m"))
    space = LearnedWord(" ", None, 1.0, 3, Example("a", " ", "b"))
    labels = [label_of(words_for=[word], punctuation=[space]), label_of("bad"), label_of("fair")]
    learned = replace(LEARNED, labels=labels)
    page = attention_html([], learned=learned)
    assert "a[U+202E]b" in page
    assert "[U+001B]" in page
    assert "<bdi>white space</bdi>" in page
    assert "a[U+202E]b +0.33 ×3" in learned_text(learned)


def test_learned_page_of_nothing_says_so() -> None:
    empty = LearnedLabel("good", 0, [], [], [], None)
    hop = LearnedHop([0], [], 0.0, 0.0, Voice({"good": 0.0}, 0.0, None))
    learned = replace(LEARNED, num_texts=1, labels=[empty], hops=[hop])
    page = assert_harmless(attention_html([], learned=learned))
    assert page.texts["p.note"][:2] == ["No word."] * 2
    assert "no word of the lists" in learned_text(learned)
    assert "from 1 text:" in learned_text(learned)


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
    hop = replace(HOP, words=[("w" * 40, 0.5)] * 8)
    page_source = attention_html([], learned=replace(LEARNED, labels=labels, hops=[hop]))
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
