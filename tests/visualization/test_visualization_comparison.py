"""Models side by side on the same texts."""

import pytest
from shown import PAYLOADS, Page, assert_harmless, pair_result, result

from sase_hf.visualization import comparison_html


def test_each_model_has_a_column_with_its_own_answer() -> None:
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


def test_each_column_has_a_chooser_of_its_own() -> None:
    """Hop 3 of one model has nothing to do with hop 3 of another; models may differ in hops."""
    many = result("fine", attention=[[1.0]] * 7)
    source = comparison_html({"a": result("fine"), "b": many, "c": result("fine")})
    names = {value for value in Page(source).values("name") if value and value.startswith("text")}
    assert names == {"text-1-1", "text-1-2", "text-1-3"}
    assert 'input[value="7"]:checked' in source


def test_pairs_are_compared_as_well() -> None:
    """Both texts in each column."""
    pair = pair_result("A man sleeps.", "He is awake.")
    page = assert_harmless(comparison_html({"a": pair, "b": [pair]}))
    assert page.texts["p.words"] == ["A man sleeps.", "He is awake."] * 2


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_name_of_a_model_is_shown_and_never_obeyed(payload: str) -> None:
    """It may be the name of a repository that somebody else chose."""
    page = assert_harmless(comparison_html({payload: result("fine"), "b": result("fine")}, payload))
    assert page.texts["h3"] == [payload, "b"]


def test_other_texts_cannot_be_compared() -> None:
    """Side by side they would look like two opinions of one text."""
    one, other = result("fine"), result("dull")
    with pytest.raises(
        ValueError, match=r"result 1 .* of 'a' is about 'fine' and that of 'b' about"
    ):
        comparison_html({"a": [one, one], "b": [one, other]})
    with pytest.raises(ValueError, match="'a' has 1 results and 'b' 2; give both the same texts"):
        comparison_html({"a": [one], "b": [one, one]})
    with pytest.raises(ValueError, match=r"the results of 1 model\(s\) came; .* two or more"):
        comparison_html({"a": [one]})
