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

from sase_hf.models.answers import MULTI_LABEL, REGRESSION
from sase_hf.utils.text import Table, shortened
from sase_hf.visualization import attention_fragment, attention_html, comparison_html
from sase_hf.visualization.attended_text import parse_result, read_with_rivals
from sase_hf.visualization.page import page_html, table_section, texts_section

PAIR = pair_result("good", "bad") | {
    "target": "entailment",
    "logit": -1.0,
    "word_contributions": [[1.0], [-2.0]],
    "contributions": [[[1.0], [0.5]], [[-2.0], [-0.5]]],
}


def styles_of(shown: dict[str, Any]) -> list[str]:
    """Return the style of each word of a result."""
    return [style for text in parse_result(shown) for style in text.styles()]


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
    assert not any("Why" in view for view in Page(attention_html(result("a"))).texts["label.view"])


def test_page_says_why_a_label_was_chosen_over_the_next_of_three() -> None:
    of_two, over = result("fine"), explained("dull but fine", [-1.0, 0.0, 2.5])
    of_three = over | {"scores": {"<b>": 0.2, "a": 0.1, "c": 0.7}}
    # "c>d" is a label, and over "c" no pair.
    unclear = of_three | {"scores": {"c": 0.5, "d": 0.4, "c>d": 0.1}}
    read: Any = {None: [of_two, of_three, unclear], "c><b>": over, "c>d": result("wrong")}
    found = read_with_rivals(lambda _, target=None: read[target], ["fine", "dull but fine", "?"])
    page = assert_harmless(attention_html(list(found)))
    assert "Why not <b>?" in page.texts["summary"]
    assert "c over <b> +1.50+2.50 fine−1.00 dull" in page.texts["div.view"]


def test_page_shows_what_the_words_added_by_themselves_and_the_sum_with_all_hops() -> None:
    """A word is drawn for what it added by itself in its own view alone."""
    shown = with_linear_part(explained("dull but fine", [-0.5, 0.0, 1.25]), [-0.25, 0.0, 1.0])
    page = Page(attention_html(shown))
    assert page.texts["label.view"][1] == "The words themselves +0.75+1.00 fine−0.25 dull"
    assert page.texts["div.view"][1].startswith("Together +0.75the logit of 4 stars")
    assert styles_of(shown)[0] == "--2:0.37;--con:0.500;--own-con:0.250"
    page = Page(attention_html(with_linear_part(PAIR, [0.5], [0.25])))
    assert page.texts["label.view"][2] == "The words themselves +0.75+0.50 good+0.25 bad"


@pytest.mark.parametrize("payload", PAYLOADS[:2])
def test_page_opens_on_why_and_folds_hops_that_added_less_than_a_third(payload: str) -> None:
    """What decided comes first, and is chosen; a target is shown and not obeyed."""
    shown = explained("dull but fine", [-0.5, 0.0, 1.25], payload)
    behind = with_linear_part(shown, [-0.5, 0.0, 1.25])
    source = attention_html([behind, shown])
    page = assert_harmless(source)
    why, _, hops, *_ = page.texts["label.view"]
    assert why == f"Why {shortened(payload, 30)} +0.75+1.25 fine−0.50 dull"
    assert hops.startswith("All hops +0.00fine 50%")
    folded, each_hop = page.texts["summary"]
    assert folded.startswith("What was read: the hops added +0.00 of +0.75, so")
    assert each_hop == "What each hop read"
    assert page.texts["label.view"][6].startswith("All hops +0.75"), "before the fold"
    assert source.count('value="why" checked') == source.count(" checked>") == 2


def test_page_names_what_the_logit_has_beside_the_words() -> None:
    page = Page(attention_html(explained("dull but fine", [-0.5, 0.0, 1.25])))
    assert page.texts["label.view"][0].startswith("Why 4 stars +0.75")
    beside = "Besides +0.25what an empty text has, and what no word added"
    assert page.texts["div.view"] == [beside]


def test_page_compares_the_prediction_with_the_true_label() -> None:
    """Without a true label it makes no claim, and a number is neither right nor wrong."""
    several = {"kind": MULTI_LABEL, "labels": ["a", "b"]}
    for known, verdict in (
        ({"true_label": "4 stars"}, ["Right: the true label is 4 stars"]),
        ({"true_label": "5 stars"}, ["Wrong: the true label is 5 stars"]),
        ({**several, "true_label": ["b", "a"]}, ["Right: the true label is b, a"]),
        ({**several, "true_label": []}, ["Wrong: the true label is no label"]),
        ({"true_label": [3.5, 1.0], "kind": REGRESSION}, ["True: 3.5, 1.0"]),
        ({}, []),
    ):
        assert Page(attention_html(result("fine", **known))).texts["p.verdict"] == verdict


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


def test_fragment_leaves_the_page_around_it_alone() -> None:
    """In a notebook its styles must not leak, and two of them must not share radio buttons."""
    one, two = (attention_fragment(result("dull but fine")) for _ in range(2))
    page = assert_harmless(one)
    assert not {"html", "head", "body", "title"} & set(page.elements)
    rules = re.sub(r"/\*.*?\*/", "", one.partition("<style>")[2].partition("</style>")[0])
    top_level = re.findall(r"^[^\s/}*].*\{", rules, re.MULTILINE)
    assert {rule.split()[0] for rule in top_level} == {".sase-attention"}
    assert not set(page.values("id")) & set(Page(two).values("id")) - {None}


def test_comparison_has_a_column_and_a_chooser_for_each_model() -> None:
    """Hop 3 of one model has nothing to do with hop 3 of another; models may differ in hops."""
    one = [result("dull but fine"), result("so it is")]
    other = [shown | {"attention": [shown["overall"]] * 7} for shown in one]
    source = comparison_html({"one": one, "other": other})
    assert Page(source).texts["p.words"] == ["dull but fine"] * 2 + ["so it is"] * 2
    assert 'name="text-2-2" value="7"' in source
    assert 'name="text-2-1" value="7"' not in source


@pytest.mark.slow
@pytest.mark.browser
def test_page_in_a_browser_colours_the_hop_that_is_chosen(tmp_path: Path, tab: Any) -> None:
    """Without a script and without a request: the page may hold private text."""
    several = [explained("dull but fine", [-1.0, 0, 1.0]), result("<img src=x onerror=alert(1)>")]
    colour = "word => getComputedStyle(word).backgroundColor.split('/')[1] ?? '1)'"
    open_source(tab, tmp_path, attention_html(several))
    words = tab.locator("#text-1 .words span")
    tab.click("#text-1 summary")
    drawn = []
    for view in ("All hops", "Hop 2", "Why 4 stars"):
        tab.get_by_label(view).first.check()
        drawn.append(words.evaluate_all(f"words => words.map({colour})"))
    assert drawn == [[" 0)", " 0)", " 0.37)"], [" 0.37)", " 0)", " 0)"], ["1)", " 0)", "1)"]]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_for_a_label_are_blue_and_words_against_it_red(
    tmp_path: Path, tab: Any, scheme: Any
) -> None:
    """As the browser draws them: the word, and the line below it, which differs in its form."""
    look = """words => words.map(word => {
        const style = getComputedStyle(word);
        return [style.borderBottomStyle, style.backgroundColor, style.borderBottomColor];
    })"""
    tab.emulate_media(color_scheme=scheme)
    open_source(tab, tmp_path, attention_html(explained("dull but fine", [-1.0, 0, 1.0])))
    against, _, speaks_for = tab.locator(".words span").evaluate_all(look)
    tab.emulate_media(color_scheme="null")
    assert (against[0], speaks_for[0]) == ("dashed", "solid")
    assert [hue(colour) for colour in against[1:]] == ["red", "red"]
    assert [hue(colour) for colour in speaks_for[1:]] == ["blue", "blue"]


def hue(colour: str) -> str:
    """Return whether a colour of CSS, `rgb(...)` or `oklab(...)`, is rather red or rather blue."""
    first, second, third = map(float, re.findall(r"-?[\d.]+(?:e-?\d+)?", colour)[:3])
    if colour.startswith("oklab"):  # lightness, green to red, blue to yellow
        return "red" if second > 0 > -third else "blue"
    return "red" if first > third else "blue"
