"""The page that shows attention: faithful to the text, harmless whatever it holds."""

import re
from typing import Any

import pytest
from shown import PAYLOADS, Page, assert_harmless, pair_result, reading, result

from sase_hf.visualization import Attention, attention_fragment, attention_html, markup


@pytest.mark.parametrize(
    "text", ["  The soup,\twas\n\ngood. ", "", "word", "naïve 寿司 🙂 שלום", "a  b"]
)
def test_the_page_shows_the_text_once_with_its_own_spacing(text: str) -> None:
    """A reader must see what the model read, all of it; hops only colour it anew."""
    assert Page(attention_html(result(text))).texts["p.words"] == [text]


def test_every_word_carries_its_weight_in_every_view() -> None:
    """Measured against the strongest word of the view: 0 is all hops, the second hop turns back."""
    page = Page(attention_html(result("dull but fine")))
    assert page.weights == [
        [
            ("dull", {0: 0.33, 1: 0.33, 2: 1.0}),
            ("but", {0: 0.67, 1: 0.67, 2: 0.67}),
            ("fine", {0: 1.0, 1: 1.0, 2: 0.33}),
        ]
    ]
    assert page.values("title") == ["17%; hop 2: 50%", "33%; hop 1: 33%", "50%; hop 1: 50%"]


def test_the_hop_chooser_is_a_radio_group_with_a_rule_for_each_hop() -> None:
    """It works without a script and by keyboard, and each text has a group of its own."""
    source = attention_html([result("fine"), result("dull", attention=[[1.0]] * 5)])
    page = Page(source)
    radios = re.findall(r'<input type="radio" name="([^"]+)" value="(\d)"( checked)?>', source)
    first = [("text-1", str(view), " checked" * (view == 0)) for view in range(3)]
    assert radios[:3] == first
    assert [view for name, view, _ in radios if name == "text-2"] == list("012345")
    for view in range(1, 6):
        assert f'input[value="{view}"]:checked) .words span {{ --w: var(--{view}, 0); }}' in source
    assert 'input[value="6"]' not in source
    assert page.elements.count("legend") == page.elements.count("fieldset") == 2
    assert page.elements.count("label") == len(radios)


def test_every_hop_has_a_line_with_its_strongest_words() -> None:
    """Colours alone would leave out whoever cannot see them."""
    source = attention_html(result("dull but fine"))
    lines = re.findall(r'<label class="view">.*</label>', source)
    words = [re.findall(r"<bdi>(\w+)</bdi> ([\d.]+%)", line) for line in lines]
    assert words[1] == [("fine", "50%"), ("but", "33%"), ("dull", "17%")]
    assert words[2] == [("dull", "50%"), ("but", "33%"), ("fine", "17%")]


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"true_label": "4 stars"}, ["Right: the true label is 4 stars"]),
        ({"true_label": "5 stars"}, ["Wrong: the true label is 5 stars"]),
        ({"true_label": ["a", "b"]}, ["True: a, b"]),
        ({"true_label": []}, ["True: no label"]),
        ({"true_label": 3.5, "scores": {"4 stars": 0.75}}, ["True: 3.5"]),
        ({}, []),
    ],
)
def test_a_mistake_is_told_in_words(known: dict[str, Any], said: list[str]) -> None:
    """Without a true label nothing is claimed; a number is never quite right."""
    assert Page(attention_html(result("fine", **known))).texts["p.verdict"] == said


def test_the_scores_of_all_labels_stand_beside_the_text() -> None:
    """Probabilities as shares, other scores as numbers; of very many labels the best ones."""
    page = Page(attention_html(result("fine")))
    assert page.texts["table.scores"][0].split() == ["4", "stars75.0%", "another25.0%"]
    value = {"scores": {"stars": 3.72}, "label": "stars", "score": 3.72}
    page = Page(attention_html(result("fine", **value)))
    assert page.texts["table.scores"][0].strip() == "stars3.720"
    assert "Predicted stars 3.720" in page.texts["h2"][0]
    many = {"scores": {f"label {number}": 0.01 * number for number in range(14)}}
    page = Page(attention_html(result("fine", **many)))
    assert "label 13" in page.texts["table.scores"][0]
    assert "label 3" not in page.texts["table.scores"][0]
    assert page.texts["p.note"] == ["and 4 labels with less"]


def test_most_attended_spans_and_overlap_are_told() -> None:
    """They are the picture in words and numbers."""
    source = attention_html(result("dull but fine"))
    assert Page(source).texts["ol.spans"] == ["\nfine 50%\n"]
    assert "<b>0.25</b>" in source
    one_hop = attention_html(result("fine", attention=[[1.0]]))
    assert "Overlap" not in one_hop, "one hop has nothing to overlap with"


def test_a_pair_shows_both_of_its_texts_under_one_chooser() -> None:
    """Each sentence has attention of its own, and hop k is the same hop in both."""
    source = attention_html(pair_result("A man sleeps.", "He is awake."))
    page = Page(source)
    assert page.texts["p.words"] == ["A man sleeps.", "He is awake."]
    assert page.elements.count("fieldset") == 1
    assert len(page.texts["ol.spans"]) == 2
    assert '<article class="result pair"' in source


def test_many_texts_get_a_table_of_contents() -> None:
    """Each line leads to its article and tells what was predicted; few texts need none."""
    several = [result(f"text {number}", true_label="4 stars") for number in range(4)]
    page = Page(attention_html(several))
    assert page.values("href") == [f"#text-{number}" for number in range(1, 5)]
    assert {f"text-{number}" for number in range(1, 5)} <= set(page.values("id"))
    assert "nav" not in Page(attention_html(several[:3])).elements
    assert "There are no texts." in Page(attention_html([])).texts["p.note"]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_in_a_text_a_label_or_a_title_becomes_markup(payload: str) -> None:
    """Texts come from strangers: the page holds only elements and attributes that we write."""
    shown = result(f"fine {payload}", label=payload, true_label=payload)
    page = assert_harmless(attention_html([shown] * 4, title=payload))
    assert page.texts["p.words"] == [f"fine {payload}"] * 4
    assert page.texts["h2"] == [f"{n} Predicted {payload} 75.0%" for n in range(1, 5)]
    assert page.texts["title"] == page.texts["h1"] == [payload]


def test_the_page_asks_for_nothing_and_runs_nothing() -> None:
    """It may hold private text: opening it must not tell anyone."""
    source = attention_html(result("fine"))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert ("content", policy) in Page(source).attributes
    assert not re.search(r"https?:|//|url\(|@import|<script", source)


def test_light_dark_and_print_are_styled() -> None:
    """Colours follow the reader's scheme; in print the colours and the lines under words stay."""
    source = attention_html(result("fine"))
    assert "color-scheme: light dark" in source
    assert "print-color-adjust: exact" in source
    assert "border-bottom: calc((var(--w)" in source


def test_a_long_text_leaves_out_hops_first_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hop by hop a book would make a page that no browser opens; the lines of the hops stay."""
    monkeypatch.setattr(markup, "MAX_WORDS", 1000)
    monkeypatch.setattr("sase_hf.visualization.page.MAX_HOP_WEIGHTS", 1500)
    text = "word " * 900
    page = Page(attention_html([result(text), result("short text")]))
    assert page.texts["p.words"] == [text, "short text"]
    assert all(weights.keys() == {0} for _, weights in page.weights[0])
    assert page.weights[1][0][1].keys() == {0, 1, 2}, "what fits is shown whole"
    assert page.texts["p.note"][0].startswith("The page has no room for every hop")
    assert len(page.texts["p.note"]) == 1

    twice = Page(attention_html([result("word " * 400)] * 2))
    assert len(twice.texts["p.note"]) == 1, "there is room for one of them, not for both"

    text = "word " * 2000
    page = Page(attention_html(result(text)))
    assert page.texts["p.words"] == [("word " * 1000)[:-1]]
    assert "Only the first 4,999 of 10,000 characters are shown." in page.texts["p.note"]


@pytest.mark.parametrize("hops", [5, 30])
def test_a_text_of_a_hundred_thousand_words_makes_a_page_below_20_megabytes(hops: int) -> None:
    """Even where no word is weaker than another and each needs its colour."""
    words = 100_000
    even = [1 / words] * words
    book = result("word " * words) | {"attention": [even] * hops, "overall": even, "spans": []}
    source = attention_html(book)
    assert len(source.encode()) < 20e6
    assert ("no room for every hop" in source) == (hops == 30)


def test_what_the_model_did_not_read_is_told() -> None:
    """Cut tokens and empty texts look alike without a word about them."""
    page = Page(attention_html([result("fine", truncated=1234), result("")]))
    assert page.texts["p.note"] == [
        "Tokens cut off at the end and not read: 1,234.",
        "The text is empty.",
    ]


def test_an_empty_text_has_no_hops_to_choose_from() -> None:
    """Ten rows without a word, and their overlap, would be noise; one of a pair has them."""
    source = attention_html(result(""))
    assert "fieldset" not in Page(source).elements
    assert "Overlap" not in source
    assert "fieldset" in Page(attention_html(pair_result("", "fine"))).elements


def test_only_a_pointer_is_told_to_point() -> None:
    """On a phone a touch opens no title."""
    source = attention_html(result("fine"))
    assert '<span class="pointing">; point at a word for its share</span>.' in source
    assert "@media (hover: none) { & .pointing { display: none; } }" in source


def test_a_fragment_holds_the_same_without_touching_the_page_around_it() -> None:
    """In a notebook its styles must not leak, and two of them must not share radio buttons."""
    one, two = (attention_fragment(result("dull but fine")) for _ in range(2))
    for source in (one, two):
        page = assert_harmless(source)
        assert source.startswith('<section class="sase-attention">')
        assert not {"html", "head", "body", "title"} & set(page.elements)
        assert page.texts["p.words"] == ["dull but fine"]
        rules = source.partition("<style>")[2].partition("</style>")[0]
        top_level = re.findall(r"^[^\s/}*].*\{", re.sub(r"/\*.*?\*/", "", rules), re.MULTILINE)
        assert top_level
        assert all(rule.startswith(".sase-attention") for rule in top_level)
    names = [set(re.findall(r' (?:name|id)="([^"]+)"', source)) for source in (one, two)]
    assert all(names)
    assert not names[0] & names[1]


def test_a_notebook_shows_results_as_a_picture() -> None:
    """Jupyter calls `_repr_html_`; everything else prints the words."""
    shown = Attention([result("dull but fine")])
    assert Page(shown._repr_html_()).texts["p.words"] == ["dull but fine"]
    assert repr(shown) == "4 stars: fine 50%, but 33%, dull 17%"
    assert repr(Attention(result("fine"))) == "4 stars: fine 100%"


def test_a_result_from_json_looks_the_same() -> None:
    """Results are kept in files; tuples come back as lists."""
    text = "dull but fine"
    as_lists = [list(span) for span in reading(text)["offsets"]]
    assert attention_html(result(text, offsets=as_lists)) == attention_html(result(text))
