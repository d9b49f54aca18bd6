"""What people correct in the report of a run."""

from pathlib import Path
from typing import Any

import pytest
from browsers import downloaded, open_source
from shown import PAYLOADS, result, to_correct

from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL, answers_of_kind
from sase_hf.visualization.page import page_html, texts_section

LABELS = ("4 stars", "another", "<i>third</i>")


def report(
    *shown: dict[str, Any], kind: str = SINGLE_LABEL, labels: Any = LABELS, title: str = "report"
) -> str:
    section = texts_section(shown, "Predictions", corrects=True)
    return page_html(title, [section], answers=answers_of_kind(kind, labels))


@pytest.mark.parametrize("payload", [*PAYLOADS, "</script><script>alert(1)</script>"])
def test_report_writes_texts_and_labels_into_its_script_as_data(payload: str) -> None:
    shown = result(payload, payload, true_label=payload)
    page = report(shown, labels=(payload, "other"), title="hash-of-script")
    assert page.count("<script") == page.count("</script") == 2
    assert to_correct(page)["labels"] == [payload, "other"]
    assert to_correct(page)["texts"][0]["texts"] == [payload]
    assert "<h1>hash-of-script</h1>" in page, "only the policy has the hash"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(
    ("kind", "label"),
    [
        (SINGLE_LABEL, LABELS[2]),
        (MULTI_LABEL, list(LABELS[1:])),
        (REGRESSION, [0.1, 1234567.0, -3.0]),
    ],
)
def test_texts_of_a_report_are_corrected(tmp_path: Path, tab: Any, kind: str, label: Any) -> None:
    """The true label is chosen at first. The page asks for nothing, and its policy holds."""
    texts = ["dull \U0001f355 fine", *PAYLOADS]
    shown = [result(text, kind=kind, true_label=label, labels=["another"]) for text in texts]
    open_source(tab, tmp_path, report(*shown, kind=kind))
    for article in tab.locator(".result").all():
        article.locator(".correct").click()
        article.locator(".words span").last.click()
        article.locator("[type=submit]").click()
    assert not tab.locator("main img, main .result script").count()
    rows = downloaded(tab)
    assert [row["text"] for row in rows] == texts
    assert [row["label"] for row in rows] == [label] * len(texts)
    assert rows[0]["rationale"] == [[7, 11]]
    for row in rows:
        [[start, end]] = row["rationale"]
        assert row["text"][start:end] == row["text"].split()[-1]


@pytest.mark.slow
@pytest.mark.browser
def test_correction_of_a_label_keeps_the_marks_of_the_training_data(
    tmp_path: Path, tab: Any
) -> None:
    marks = [[[[0, 4]]], [[[5, 9]]]]
    shown = {**result("good soup"), "true_label": LABELS[0], "marks": marks}
    open_source(tab, tmp_path, report(shown))
    tab.click(".correct")
    tab.check(".choices label:nth-child(2) input")
    [row] = downloaded(tab)
    assert row["label"] == LABELS[1]
    assert (row["rationale"], row["rationale_against"]) == ([[0, 4]], [[5, 9]])
