"""The page and the line that show attention: faithful to the text, harmless whatever it holds."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from sase_hf.visualization import MAX_CHARACTERS, attention_html, attention_text

VOID = {"meta"}
HEAD = {"html", "head", "meta", "title", "style"}
BODY = {"body", "h1", "h2", "p", "article", "span", "details", "summary"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "dir", "style", "title"}
PAYLOADS = (
    "<script>alert(1)</script>",
    "</p></article><img src=x onerror=alert(1)>",
    "\"' onmouseover=alert(1) x='",
    "</title></style><style>@import 'x';</style>",
    "{title} {0} %s &lt;b&gt; &amp;",
)


class Page(HTMLParser):
    """The elements, attributes and texts of a page; fails on tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: dict[str, list[str]] = {name: [] for name in ("title", "h1", "h2", "p.text")}
        self.note = ""
        self.feed(page)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element and its attributes; begin a text where one is collected."""
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag + ".text" * (("class", "text") in attrs))
            if self.open[-1] in self.texts:
                self.texts[self.open[-1]].append("")

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost element is the one that ends."""
        assert self.open.pop().removesuffix(".text") == tag

    def handle_data(self, data: str) -> None:
        """Add the text to every collected element that is open."""
        for name in self.open:
            if name in self.texts:
                self.texts[name][-1] += data
        if self.open and self.open[-1] == "p":
            self.note += data


def reading(text: str, hops: int = 2) -> dict[str, Any]:
    """Return what the pipeline says of a text whose words get ever more attention."""
    spans = [match.span() for match in re.finditer(r"[^ \t\n]+", text)]
    total = sum(range(1, len(spans) + 1))
    weights = [number / total for number in range(1, len(spans) + 1)]
    return {
        "text": text,
        "tokens": [text[start:end] for start, end in spans],
        "offsets": spans,
        "attention": [weights] * hops,
        "overall": weights,
        "overlap": 0.0,
    }


def result(text: str, label: str = "4 stars", **more: str) -> dict[str, Any]:
    """Return a result of the pipeline for one text."""
    return {"label": label, "score": 0.75, "scores": {label: 0.75}, **reading(text), **more}


def pair_result(first: str, second: str) -> dict[str, Any]:
    """Return a result of the pipeline for a pair."""
    readings = [reading(first), reading(second)]
    sides = {name: [side[name] for side in readings] for name in readings[0]}
    return {"label": "neutral", "score": 0.5, "scores": {"neutral": 0.5}, **sides}


@pytest.mark.parametrize(
    "text", ["  The soup,\twas\n\ngood. ", "", "word", "naïve 寿司 🙂 שלום", "a  b"]
)
def test_the_page_shows_the_text_with_its_own_spacing(text: str) -> None:
    """A reader must see what the model read: all of it, once overall and once for each hop."""
    page = Page(attention_html(result(text)))
    assert page.texts["p.text"] == [text] * 3


def test_every_word_carries_its_weight_as_colour_and_as_number() -> None:
    """The colour is measured against the strongest word, the number is the weight itself."""
    attributes = Page(attention_html(result("dull but fine"))).attributes
    styles = [value for name, value in attributes if name == "style"]
    numbers = [value for name, value in attributes if name == "title"]
    assert styles == ["--w:0.33", "--w:0.67", "--w:1.00"] * 3
    assert numbers == ["0.167", "0.333", "0.500"] * 3


def test_prediction_and_true_label_stand_above_the_text() -> None:
    """A mistake is seen at once; without a true label nothing is claimed about it."""
    page = Page(attention_html([result("fine", true_label="5 stars"), result("fine")]))
    assert page.texts["h2"] == ["4 stars (0.750), true label 5 stars", "4 stars (0.750)"]


def test_a_pair_shows_both_of_its_texts() -> None:
    """Each sentence of a pair has an attention of its own."""
    page = Page(attention_html(pair_result("A man sleeps.", "He is awake.")))
    assert page.texts["p.text"] == ["A man sleeps."] * 3 + ["He is awake."] * 3


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_in_a_text_a_label_or_a_title_becomes_markup(payload: str) -> None:
    """Texts come from strangers: the page holds only elements and attributes that we write."""
    shown = result(f"fine {payload}", label=payload, true_label=payload)
    page = Page(attention_html(shown, title=payload))
    assert set(page.elements) <= HEAD | BODY
    assert {name for name, _ in page.attributes} <= ATTRIBUTES
    assert page.texts["p.text"] == [f"fine {payload}"] * 3
    assert page.texts["h2"] == [f"{payload} (0.750), true label {payload}"]
    assert page.texts["title"] == page.texts["h1"] == [payload]


def test_the_page_asks_for_nothing_and_runs_nothing() -> None:
    """It may hold private text: opening it must not tell anyone."""
    source = attention_html(result("fine"))
    page = Page(source)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert ("content", policy) in page.attributes
    assert not re.search(r"https?:|//|url\(|@import|<script", source)


@pytest.mark.parametrize(
    "character", ["\0", "\x1b", "\r", "\u202e", "\u2066", "\u200b", "\ufeff", "\u2028", "\ud800"]
)
def test_characters_that_cannot_be_seen_are_shown_by_number(character: str) -> None:
    """They could hide words, turn them round or steer a terminal; some cannot be written."""
    shown = f"[U+{ord(character):04X}]"
    strange = result(f"a{character}b c", label=character)
    page = Page(attention_html(strange, title=character).encode().decode())
    assert page.texts["p.text"] == [f"a{shown}b c"] * 3
    assert page.texts["h2"] == [f"{shown} (0.750)"]
    assert f"a{shown}b" in attention_text(strange).encode().decode()


def test_joiners_inside_emoji_stay() -> None:
    """Taken apart, a family would become three people."""
    family = "👨\u200d👩\u200d👧"
    assert Page(attention_html(result(family))).texts["p.text"][0] == family


def test_a_long_text_is_cut_and_the_page_says_so() -> None:
    """Hop by hop a book would make a page that no browser opens."""
    text = "word " * MAX_CHARACTERS
    page = Page(attention_html(result(text)))
    assert page.texts["p.text"] == [text[:MAX_CHARACTERS]] * 3
    assert f"Only the first {MAX_CHARACTERS:,} of {len(text):,} characters are shown." in page.note
    assert "Only" not in Page(attention_html(result(text[:MAX_CHARACTERS]))).note


def test_tokens_that_share_an_offset_do_not_repeat_the_text() -> None:
    """A byte-level tokenizer splits one character into several tokens."""
    shared = {"tokens": ["é", "é", ""], "offsets": [(0, 1), (0, 1), (0, 0)]}
    weights = {"overall": [0.5, 0.5, 0.0], "attention": [[0.5, 0.5, 0.0]]}
    assert Page(attention_html(result("é!") | shared | weights)).texts["p.text"] == ["é!"] * 2


def test_the_terminal_names_the_strongest_words_first() -> None:
    """One line for a text, one for each text of a pair."""
    assert attention_text(result("dull but fine"), top=2) == "fine 50%, but 33%"
    assert attention_text(pair_result("so it is", "no")) == "is 50%, it 33%, so 17%\nno 100%"
    assert attention_text(result("")) == ""


@pytest.mark.parametrize("show", [attention_html, attention_text])
def test_a_result_of_another_pipeline_is_refused(show: Any) -> None:
    """A plain classifier returns label and score alone; say what to call instead."""
    with pytest.raises(ValueError, match=r"text, tokens, offsets, overall, attention missing"):
        show({"label": "4 stars", "score": 0.75})
