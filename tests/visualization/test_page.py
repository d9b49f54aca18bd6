"""The page that shows attention: faithful to the text, harmless whatever it holds."""

import re
from typing import Any

import pytest
from shown import PAYLOADS, Page, assert_harmless, pair_result, result

from sase_hf.visualization import Attention, attention_fragment, attention_html, comparison_html
from sase_hf.visualization.page import MAX_WORDS


@pytest.mark.parametrize(
    "text", ["  The soup,\twas\n\ngood. ", "", "word", "naïve 寿司 🙂 שלום", "a  b"]
)
def test_page_shows_the_text_once_with_its_own_spacing(text: str) -> None:
    """A reader must see what the model read, all of it; hops only colour it anew."""
    assert Page(attention_html(result(text))).texts["p.words"] == [text]


def test_page_gives_every_word_its_weight_in_every_view_and_in_words() -> None:
    """Against an even share: 0 is all hops, the second hop is reversed."""
    source = attention_html(result("dull but fine"))
    page = Page(source)
    assert page.weights == [
        [
            ("dull", {2: 0.37}),
            ("fine", {0: 0.37, 1: 0.37}),
        ]
    ]
    assert page.values("title") == ["17%; hop 2: 50%", "50%; hop 1: 50%"]
    lines = re.findall(r'<label class="view">.*</label>', source)
    words = [re.findall(r"<bdi>(\w+)</bdi> ([\d.]+%)", line) for line in lines]
    assert words[1] == [("fine", "50%"), ("but", "33%"), ("dull", "17%")]
    assert words[2] == [("dull", "50%"), ("but", "33%"), ("fine", "17%")]
    assert page.texts["ol.spans"] == ["\nfine 50%\n"]
    assert "Cosine between hops: <b>0.25</b>" in source
    one_hop = attention_html(result("fine", attention=[[1.0]]))
    assert "Cosine" not in one_hop, "one hop has no other to compare with"


def test_hop_chooser_is_a_radio_group_with_a_rule_for_each_hop() -> None:
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
def test_page_compares_the_prediction_with_the_true_label(
    known: dict[str, Any], said: list[str]
) -> None:
    """A page without true labels makes no claim, and a number is neither right nor wrong."""
    assert Page(attention_html(result("fine", **known))).texts["p.verdict"] == said


def test_page_lists_the_scores_of_the_labels() -> None:
    """Probabilities in percent, other scores as numbers; of many labels the best ones."""
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
    assert page.texts["p.note"] == ["and 4 labels with lower scores"]


def test_page_shows_a_pair_under_one_chooser() -> None:
    """Hop k is the same hop in both texts."""
    source = attention_html(pair_result("A man sleeps.", "He is awake."))
    page = Page(source)
    assert page.texts["p.words"] == ["A man sleeps.", "He is awake."]
    assert page.elements.count("fieldset") == 1
    assert len(page.texts["ol.spans"]) == 2
    assert '<article class="result pair"' in source


def test_page_of_many_texts_has_a_table_of_contents() -> None:
    """Each line links to its article; it is folded, so that the first text stands above it."""
    several = [result(f"text {number}", true_label="4 stars") for number in range(4)]
    source = attention_html(several)
    page = Page(source)
    assert page.values("href") == [f"#text-{number}" for number in range(1, 5)]
    assert {f"text-{number}" for number in range(1, 5)} <= set(page.values("id"))
    folded = re.search(r"<nav.*?<details>\n<summary>4 texts</summary>(.*?)</details>", source, re.S)
    assert folded[1].count("<tr>") == 1 + 4
    assert "nav" not in Page(attention_html(several[:3])).elements
    assert "There are no texts." in Page(attention_html([])).texts["p.note"]


def test_page_of_an_evenly_read_text_is_pale_and_says_so() -> None:
    """Against the strongest word, every word of it would be strong."""
    even = result("dull but fine", overall=[0.32, 0.34, 0.34], spans=[])
    source = attention_html(even)
    page = Page(source)
    assert [own.get(0, 0) for _, own in page.weights[0]] == [0, 0.02, 0.02]
    assert page.texts["p.note"] == ["The model reads all words about equally (all hops together)."]
    lines = re.findall(r'<label class="view">.*</label>', source)
    assert [("reads all words about equally" in line) for line in lines] == [True, False, False]
    assert "<p>none: all words are read about equally</p>" in source
    focused = attention_html(result("dull but fine", spans=[]))
    assert "<p>none: no word stands out</p>" in focused
    assert "about equally" not in focused


@pytest.mark.parametrize("payload", PAYLOADS)
def test_page_escapes_texts_labels_titles_and_names_of_models(payload: str) -> None:
    """Texts come from strangers: the page holds only elements and attributes that we write."""
    shown = result(f"fine {payload}", label=payload, true_label=payload)
    page = assert_harmless(attention_html([shown] * 4, title=payload))
    assert page.texts["p.words"] == [f"fine {payload}"] * 4
    assert page.texts["h2"] == [f"{n} Predicted {payload} 75.0%" for n in range(1, 5)]
    assert page.texts["title"] == page.texts["h1"] == [payload]
    page = assert_harmless(comparison_html({payload: result("fine"), "b": result("fine")}, payload))
    assert page.texts["h3"] == [payload, "b"]


def test_page_loads_nothing_and_runs_nothing() -> None:
    """It may hold private text: opening it must not tell anyone."""
    source = attention_html(result("fine"))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert ("content", policy) in Page(source).attributes
    assert not re.search(r"https?:|//|url\(|@import|<script", source)


@pytest.mark.slow
def test_page_of_long_texts_leaves_out_hops_first_and_stays_below_20_megabytes() -> None:
    """Even where nearly all words get more than an even share, so that each needs its colour."""
    words = MAX_WORDS + 1
    unread = words // 20
    most = [1 / (words - unread)] * (words - unread) + [0.0] * unread
    book = result("word " * words) | {"overall": most, "spans": []}
    source = attention_html([book | {"attention": [most] * 2}, book | {"attention": [most] * 3}])
    assert len(source.encode()) < 20e6
    first, second = source.split('<article class="result" id="text-2">')
    assert "no room for every hop" not in first
    assert "no room for every hop" in second
    assert "--2:" in first
    assert "--1:" not in second.partition('<fieldset class="views">')[0]
    assert f"Only the first {5 * MAX_WORDS - 1:,} of {5 * words:,} characters are shown." in second


def test_page_says_what_the_model_did_not_read() -> None:
    """Cut tokens and empty texts look alike without a note; only an empty text has no chooser."""
    source = attention_html([result("fine", truncated=1234), result("")])
    page = Page(source)
    assert page.texts["p.note"] == [
        "Tokens cut off at the end and not read: 1,234.",
        "The text is empty.",
    ]
    assert page.elements.count("fieldset") == source.count("Cosine between hops") == 1
    assert "fieldset" in Page(attention_html(pair_result("", "fine"))).elements


def test_fragment_leaves_the_page_around_it_alone() -> None:
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
    names, others = (set(re.findall(r' (?:name|id)="([^"]+)"', source)) for source in (one, two))
    assert names
    assert names.isdisjoint(others)


def test_notebook_object_shows_a_page_or_words() -> None:
    """Jupyter calls `_repr_html_`; everything else prints the words."""
    shown = Attention([result("dull but fine")])
    assert Page(shown._repr_html_()).texts["p.words"] == ["dull but fine"]
    assert repr(shown) == "4 stars: fine 50%, but 33%, dull 17%"
    assert repr(Attention(result("fine"))) == "4 stars: fine 100%"


def test_comparison_has_a_column_for_each_model() -> None:
    """The same text twice, coloured by each model, under each model's name."""
    without = [result("dull but fine", label="2 stars", true_label="4 stars"), result("so it is")]
    with_penalty = [result("dull but fine", true_label="4 stars"), result("so it is")]
    source = comparison_html({"without": without, "with": with_penalty}, title="Penalty")
    page = Page(source)
    assert page.texts["title"] == page.texts["h1"] == ["Penalty"]
    assert page.texts["h2"] == ["Text 1", "Text 2"]
    assert page.texts["h3"] == ["without", "with"] * 2
    assert page.texts["p.words"] == ["dull but fine"] * 2 + ["so it is"] * 2
    assert page.texts["p.verdict"] == [
        "Wrong: the true label is 4 stars",
        "Right: the true label is 4 stars",
    ]


def test_comparison_has_a_chooser_for_each_column() -> None:
    """Hop 3 of one model has nothing to do with hop 3 of another; models may differ in hops."""
    many = result("fine", attention=[[1.0]] * 7)
    source = comparison_html({"a": result("fine"), "b": many})
    assert re.findall(r'name="(.+)" value="0"', source) == ["text-1-1", "text-1-2"]
    assert 'input[value="7"]:checked' in source


def test_comparison_refuses_different_texts() -> None:
    """Side by side they would look like two opinions of one text."""
    one, other = result("fine"), result("dull")
    for different in ([one, other], [one]):
        with pytest.raises(ValueError, match="the texts of 'b' differ from those of 'a'; give"):
            comparison_html({"a": [one, one], "b": different})
    with pytest.raises(ValueError, match=r"1 model\(s\) cannot be compared; .* two or more"):
        comparison_html({"a": [one]})
