"""The page that shows attention: faithful to the text, harmless whatever it holds."""

import re
from pathlib import Path
from typing import Any

import pytest
from browsers import open_source
from shown import (
    PAYLOADS,
    Page,
    assert_harmless,
    explained,
    pair_result,
    result,
    with_linear_part,
)

from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from sase_hf.utils.text import Table, shortened
from sase_hf.visualization import Attention, attention_fragment, attention_html, comparison_html
from sase_hf.visualization.attended_text import parse_result
from sase_hf.visualization.page import (
    Section,
    page_html,
    table_section,
    texts_section,
)

PAIR = pair_result("good", "bad") | {
    "target": "entailment",
    "word_contributions": [[1.0], [-2.0]],
    "contributions": [[[1.0], [0.5]], [[-2.0], [-0.5]]],
}


def styles_of(shown: dict[str, Any]) -> list[str]:
    """Return the style of each word of a result."""
    return [style for text in parse_result(shown) for style in text.styles()]


def test_words_have_their_strength_in_every_view() -> None:
    """Against an even share: 0 is all hops, the second hop is reversed."""
    shown = result("dull but fine")
    assert styles_of(shown) == ["--2:0.37", "", "--0:0.37;--1:0.37"]
    views = Page(attention_html(shown)).texts["label.view"]
    assert views == ["All hopsfine 50%", "Hop 1fine 50%", "Hop 2dull 50%"]


def test_page_lists_the_words_for_and_against_the_target_with_their_signs() -> None:
    """Numbers and signs, because not all readers see colours."""
    shown = explained("dull but very fine", [-0.5, 0.0, 0.004, 1.25])
    page = Page(attention_html(shown))
    why, all_hops, first_hop, second_hop = page.texts["label.view"]
    assert why == "Why 4 stars +0.75+1.25 fine−0.50 dull"
    assert all_hops.startswith("All hops +0.75")
    assert first_hop.startswith("Hop 1 +1.00")
    assert second_hop.startswith("Hop 2 −0.25")
    assert styles_of(shown)[0] == "--2:0.34;--con:0.500"
    of_pair = Page(attention_html(PAIR)).texts["label.view"]
    assert of_pair[0] == "Why entailment −1.00+1.00 good−2.00 bad"
    assert [view[: view.index("g")] for view in of_pair[2:]] == ["Hop 1 −1.00", "Hop 2 +0.00"]
    assert not any("Why" in view for view in Page(attention_html(result("a"))).texts["label.view"])


def test_page_shows_what_the_words_added_by_themselves_and_the_sum_with_all_hops() -> None:
    """All hops add nothing. A word is drawn for what it added by itself in its own view alone."""
    shown = with_linear_part(explained("dull but fine", [-0.5, 0.0, 1.25]), [-0.25, 0.0, 1.0])
    page = Page(attention_html(shown))
    assert page.texts["label.view"][1] == "The words themselves +0.75+1.00 fine−0.25 dull"
    assert page.texts["div.view"][0].startswith("Together +0.75the logit of 4 stars")
    assert styles_of(shown)[0] == "--2:0.37;--con:0.500;--own-con:0.250"
    page = Page(attention_html(with_linear_part(PAIR, [0.5], [0.25])))
    assert page.texts["label.view"][2] == "The words themselves +0.75+0.50 good+0.25 bad"
    assert page.texts["div.view"][0].startswith("Together −1.00")
    for without in (explained("dull", [0.5]), with_linear_part(explained("", []), [])):
        assert "The words themselves" not in attention_html(without).partition("<footer>")[0]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_page_opens_on_why_and_folds_hops_that_added_less_than_a_third(payload: str) -> None:
    """What decided comes first, and is chosen; a target is shown and not obeyed."""
    shown = explained("dull but fine", [-0.5, 0.0, 1.25], payload)
    behind = with_linear_part(shown, [-0.5, 0.0, 1.25])
    target = shortened(payload, 30)
    page = assert_harmless(attention_html([behind, shown]))
    why, words, hops, *_ = page.texts["label.view"]
    assert why == f"Why {target} +0.75+1.25 fine−0.50 dull"
    assert words == "The words themselves +0.75+1.25 fine−0.50 dull"
    assert hops.startswith("All hops +0.00fine 50%")
    [together] = page.texts["div.view"]
    assert together == f"Together +0.75the logit of {target}, minus that of an empty text"
    folded, each_hop = page.texts["summary"]
    assert folded.startswith("What was read: the hops added +0.00 of +0.75, so")
    assert each_hop == "What each hop read"
    assert page.texts["label.view"][6].startswith("All hops +0.75"), "before the fold"
    source = attention_html([behind, shown])
    assert source.count('value="why" checked') == source.count(" checked>") == 2


def test_page_names_what_no_word_added_beside_the_sum_of_the_words() -> None:
    """What a pretrained encoder mixed, and what tokens without characters added."""
    shown = explained("dull but fine", [-0.5, 0.0, 1.25])
    shown["contributions"][0][0] += 0.5
    page = assert_harmless(attention_html(shown))
    assert page.texts["label.view"][0].startswith("Why 4 stars +0.75")
    assert page.texts["div.view"] == ["The rest +0.50what no word of the text added"]


def test_page_colours_contributions_on_the_scale_of_the_median_text() -> None:
    """Half of the texts have a word of the full colour, so an outlier does not pale the others."""
    weak, strong = explained("dull", [0.5]), explained("fine", [-2.0])
    source = attention_html([weak, explained("good", [50.0]), strong])
    assert 'style="--full:2.000"' in source
    assert "against the answer: −2.00" in source
    fragment = assert_harmless(attention_fragment(weak))
    assert "--full:0.500" in fragment.values("style")


def test_page_explains_only_answers_with_contributions() -> None:
    """A ranker explains no label."""
    ranked = result("so it is")
    source = attention_html([explained("dull", [0.5]), ranked])
    assert source.count('value="why" checked>') == 1
    assert not re.search("--full|Why", attention_html(ranked).partition("</style>")[2])
    assert 'value="0" checked' in attention_html(ranked)


def test_page_compares_the_prediction_with_the_true_label() -> None:
    """Without a true label it makes no claim, and a number is neither right nor wrong."""
    several = {"kind": MULTI_LABEL}
    for known, verdict in (
        ({"true_label": "4 stars"}, "Right: the true label is 4 stars"),
        ({"true_label": "5 stars"}, "Wrong: the true label is 5 stars"),
        (
            {**several, "true_label": ["b", "a"], "labels": ["a", "b"]},
            "Right: the true label is b, a",
        ),
        ({**several, "true_label": [], "labels": []}, "Right: the true label is no label"),
        ({**several, "true_label": ["a"], "labels": []}, "Wrong: the true label is a"),
        ({"true_label": 3.5, "kind": REGRESSION}, "True: 3.5"),
        ({"true_label": "4 stars", "kind": REGRESSION}, "True: 4 stars"),
        ({"true_label": [3.5, 1.0], "kind": REGRESSION}, "True: 3.5, 1.0"),
        ({"true_label": "4 stars", "kind": None}, "True: 4 stars"),
        ({}, None),
    ):
        page = Page(attention_html(result("fine", **known)))
        assert page.texts["p.verdict"] == ([] if verdict is None else [verdict])


def test_page_lists_the_scores_of_the_labels() -> None:
    """Probabilities in percent, other scores as numbers, whatever they sum to; the best of many."""

    def shown(kind: str | None, **scores: float) -> tuple[str, str, int]:
        one = result("fine", kind=kind, score=scores["a"], scores=scores)
        source = attention_html(one).partition("<aside>")[2]
        return (
            source.partition("<h4>")[2].partition("</h4>")[0],
            Page(attention_html(one)).texts["table.scores"][0].replace("\n", ""),
            source.count("<i style"),
        )

    assert shown(SINGLE_LABEL, a=0.6, b=0.4) == ("Probabilities", "a60.0%b40.0%", 2)
    assert shown(MULTI_LABEL, a=0.6, b=0.4) == ("Scores", "a0.600b0.400", 2)
    for kind in (REGRESSION, "similarity", None):
        assert shown(kind, a=0.6, b=0.4) == ("Scores", "a0.600b0.400", 0)
    many = {f"label {number}": 0.01 * number for number in range(14)}
    [table] = Page(attention_html(result("fine", scores=many))).texts["table.scores"]
    assert table.split("\n")[1:-1] == [f"label {n}{n}.0%" for n in range(13, 3, -1)]


def test_page_of_an_evenly_read_text_is_pale_and_says_so() -> None:
    """Against the strongest word, every word of it would be strong."""
    even = result("dull but fine", overall=[0.32, 0.34, 0.34], spans=[])
    page = Page(attention_html(even))
    assert [own.get(0, 0) for _, own in page.weights[0]] == [0, 0.02, 0.02]
    assert page.texts["label.view"][0] == "All hopsno word much more than others"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_pages_escape_texts_labels_titles_and_names(payload: str) -> None:
    """Texts come from strangers: the page holds only elements and attributes that we write."""
    text = f"fine {payload}"
    shown = explained(text, [1.0, *map(float, range(len(text.split()) - 1))], payload)
    shown["true_label"] = payload
    page = assert_harmless(attention_html([shown] * 4, title=payload))
    assert page.texts["h2"] == [f"{n} Predicted {payload} 75.0%" for n in range(1, 5)]
    policy = page.values("content")[0] or ""
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'")
    page = assert_harmless(comparison_html({payload: [shown], "b": [shown]}, payload))
    assert page.texts["h3"] == [payload, "b"]
    table = Table(payload, ["", payload], [[payload, payload]], [[0.5]])
    sections = [table_section(table), texts_section([shown], payload)]
    page = assert_harmless(page_html(payload, sections, [payload]))
    assert page.texts["h2"] == [payload, payload, f"Predicted {payload} 75.0%"]


def test_page_folds_sections_and_draws_a_curve() -> None:
    points = [(1.0, 0.25, False), (2.0, 0.75, True)]
    curve = {"name": "accuracy", "points": points, "note": "from 0"}
    table = Table("facts", ["", "n"], [["a", "1"]])
    sections = [
        Section("curve", curve, "While it learned"),
        table_section(table)._replace(is_folded=True),
        texts_section([result("a")], "Wrong")._replace(is_folded=True),
    ]
    source = page_html("report", sections, ["right for 1"])
    page = assert_harmless(source)
    assert page.texts["p.line"] == ["Right for 1."]
    assert re.findall(r'<details class="part.*?<h2>(.*?)<', source) == ["facts", "Wrong"]
    assert page.values("d")[1] == "M50.0 50.0 L100.0 0.0"
    assert page.values("d")[-1] == "M100.0 0.0h0"
    assert "kept point" in page.values("class")


def test_page_says_what_is_not_read() -> None:
    """Cut tokens and empty texts look alike without a note; an empty text has no chooser."""
    page = Page(attention_html([result("a word", truncated=1234), result("")]))
    cut, empty = page.texts["p.note"]
    assert "not read: 1,234" in cut
    assert empty == "The text is empty."
    assert page.elements.count("fieldset") == 1


def test_fragment_leaves_the_page_around_it_alone() -> None:
    """In a notebook its styles must not leak, and two of them must not share radio buttons."""
    one, two = (attention_fragment(result("dull but fine")) for _ in range(2))
    page = assert_harmless(one)
    assert not {"html", "head", "body", "title"} & set(page.elements)
    rules = re.sub(r"/\*.*?\*/", "", one.partition("<style>")[2].partition("</style>")[0])
    top_level = re.findall(r"^[^\s/}*].*\{", rules, re.MULTILINE)
    assert {rule.split()[0] for rule in top_level} == {".sase-attention"}
    assert not set(page.values("id")) & set(Page(two).values("id")) - {None}
    notebook = Attention([result("dull but fine")])
    assert Page(notebook._repr_html_()).texts["p.words"] == ["dull but fine"]
    assert repr(notebook) == "4 stars 75.0%\nreads fine 50%"


def test_comparison_has_a_column_and_a_chooser_for_each_model() -> None:
    """Hop 3 of one model has nothing to do with hop 3 of another; models may differ in hops."""
    one = [result("dull but fine"), result("so it is")]
    other = [shown | {"attention": [shown["overall"]] * 7} for shown in one]
    source = comparison_html({"one": one, "other": other})
    page = Page(source)
    assert page.texts["h3"] == ["one", "other"] * 2
    assert page.texts["p.words"] == ["dull but fine"] * 2 + ["so it is"] * 2
    views = re.findall(r'name="(.+)" value="(\d)"', source)
    assert [views.count((f"text-2-{place}", "7")) for place in (1, 2)] == [0, 1]


@pytest.mark.slow
@pytest.mark.browser
def test_page_in_a_browser_colours_the_hop_that_is_chosen(tmp_path: Path, chromium: Any) -> None:
    """Without a script and without a request: the page may hold private text."""
    several = [explained("dull but fine", [-1.0, 0, 1.0]), result("<img src=x onerror=alert(1)>")]
    requests: list[str] = []
    tab = chromium.new_page()
    tab.on("request", lambda request: requests.append(request.url))
    open_source(tab, tmp_path, attention_html(several))
    colour = "word => getComputedStyle(word).backgroundColor.split('/')[1] ?? '1)'"
    words = tab.locator("#text-1 .words span")
    tab.get_by_label("All hops").first.check()
    before = words.evaluate_all(f"words => words.map({colour})")
    tab.click("#text-1 summary")
    tab.get_by_label("Hop 2").first.check()
    after = words.evaluate_all(f"words => words.map({colour})")
    tab.get_by_label("Why 4 stars").check()
    lines = "words => words.map(word => getComputedStyle(word).borderBottomStyle)"
    why, styles = (words.evaluate_all(call) for call in (f"words => words.map({colour})", lines))
    assert before == [" 0)", " 0)", " 0.37)"]
    assert after == [" 0.37)", " 0)", " 0)"]
    assert (why, styles) == (["1)", " 0)", "1)"], ["dashed", "solid", "solid"])
    assert len(requests) == 1


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_for_a_label_are_blue_and_words_against_it_red(
    tmp_path: Path, chromium: Any, scheme: Any
) -> None:
    """As the browser draws them: the word, the line below it, and its name."""
    colours = """words => words.map(word => {
        const style = getComputedStyle(word);
        return [style.backgroundColor, style.borderBottomColor, style.color];
    })"""
    tab = chromium.new_page(color_scheme=scheme)
    open_source(tab, tmp_path, attention_html(explained("dull but fine", [-1.0, 0, 1.0])))
    against, _, speaks_for = tab.locator(".words span").evaluate_all(colours)
    named = [tab.locator(f".why .top.{side} b") for side in ("pro", "con")]
    names = [words.evaluate_all(colours)[0][2] for words in named]
    for blue in (*speaks_for[:2], names[0]):
        assert hue(blue) == "blue", blue
    for red in (*against[:2], names[1]):
        assert hue(red) == "red", red


@pytest.mark.browser
def test_numbers_are_whole_among_the_styles_of_a_notebook(chromium: Any) -> None:
    """JupyterLab has these rules for every table and list of an output."""
    rules = """
        .jp-RenderedHTMLCommon table { table-layout: fixed; margin: 0 auto 1em; }
        .jp-RenderedHTMLCommon :is(td, th, tr) { padding: 0.5em; max-width: none; }
        :not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon :is(td, th, tr) { text-align: right; }
        .jp-RenderedHTMLCommon tbody tr:nth-child(even) { background: red; }
        .jp-RenderedHTMLCommon ol:not(.list-inline) { padding-left: 2em; }
    """
    fragment = attention_fragment(explained("dull but fine", [-1.0, 0, 1.0]))
    tab = chromium.new_page(viewport={"width": 900, "height": 900})
    output = f'<div class="jp-RenderedHTMLCommon">{fragment}</div>'
    tab.set_content(f"<style>{rules}</style>{output}")
    ends = "nodes => nodes.map(node => Math.round(node.getBoundingClientRect().right))"
    (aside,) = tab.locator("aside").evaluate_all(ends)
    assert max(tab.locator("aside :is(td, li)").evaluate_all(ends)) <= aside
    starts = "nodes => nodes.map(node => Math.round(node.getBoundingClientRect().left))"
    assert len(set(tab.locator("aside :is(tr, li)").evaluate_all(starts))) == 1
    colour = "rows => rows.map(row => getComputedStyle(row).backgroundColor)"
    assert set(tab.locator("aside tr").evaluate_all(colour)) == {"rgba(0, 0, 0, 0)"}


@pytest.mark.slow
@pytest.mark.browser
def test_page_in_a_browser_colours_what_each_word_added_by_itself(
    tmp_path: Path, chromium: Any
) -> None:
    """For blue and against red, whatever the sign of all that the word added."""
    shown = with_linear_part(explained("dull but fine", [-1.0, 0.0, 1.0]), [1.0, -1.0, 0.0])
    draw = """words => words.map(word => {
        const style = getComputedStyle(word);
        const strength = style.backgroundColor.split("/")[1] ?? "1)";
        return [word.textContent, style.borderBottomColor, style.borderBottomStyle, strength];
    })"""
    tab = chromium.new_page()
    open_source(tab, tmp_path, attention_html(shown))
    tab.click("#text-1 summary")
    tab.get_by_label("The words themselves").check()
    words = tab.locator(".words span").evaluate_all(draw)
    drawn = {word: (hue(colour), style, strength) for word, colour, style, strength in words}
    assert drawn["dull"] == ("blue", "solid", "1)")
    assert drawn["but"] == ("red", "dashed", "1)")
    assert drawn["fine"][2] == " 0)", "what the hops added is not drawn here"


def hue(colour: str) -> str:
    """Return whether a colour of CSS, `rgb(...)` or `oklab(...)`, is rather red or rather blue."""
    first, second, third = map(float, re.findall(r"-?[\d.]+(?:e-?\d+)?", colour)[:3])
    if colour.startswith("oklab"):  # lightness, green to red, blue to yellow
        return "red" if second > 0 > -third else "blue"
    return "red" if first > third else "blue"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_page_in_a_browser_breaks_no_label_of_why_within_a_word(
    tmp_path: Path, chromium: Any, width: int
) -> None:
    """And a short label has its number beside it, as the hops have."""
    rows = [explained("dull", [2.0], label) for label in ("contradiction", "0")]
    look = """all => all.map(name => {
        const [label, number] = [name.querySelector("bdi"), name.querySelector("small")];
        const bottom = label.getBoundingClientRect().bottom;
        return [label.getClientRects().length, number.getBoundingClientRect().top < bottom];
    })"""
    tab = chromium.new_page()
    tab.set_viewport_size({"width": width, "height": 800})
    open_source(tab, tmp_path, attention_html(rows))
    long, short = tab.locator(".why .name").evaluate_all(look)
    assert long == [1, width == 390], "on a phone it has the whole line"
    assert short == [1, True]


@pytest.mark.slow
@pytest.mark.browser
def test_page_in_a_browser_draws_scores_as_bars_and_marks_the_verdict(
    tmp_path: Path, chromium: Any
) -> None:
    several = [result("fine", true_label=label) for label in ("4 stars", "another")]
    width = "bar => parseFloat(getComputedStyle(bar).width)"
    mark = "verdict => getComputedStyle(verdict, '::before').content[1]"
    tab = chromium.new_page()
    open_source(tab, tmp_path, attention_html(several))
    cell = tab.locator("#text-1 .bar").first.evaluate("cell => cell.clientWidth")
    bars = tab.locator("#text-1 .bar i").evaluate_all(f"bars => bars.map({width})")
    marks = tab.locator(".verdict b").evaluate_all(f"all => all.map({mark})")
    assert bars[0] == pytest.approx(3 * bars[1], rel=0.02)
    assert bars[0] > 0.65 * cell
    assert marks == ["✓", "✗"]
