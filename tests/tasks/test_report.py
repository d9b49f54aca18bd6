"""The report of a trained model."""

from typing import Any

import numpy as np
from datasets import Dataset

from sase_hf.evaluation.metrics import load_metrics, metrics_function
from sase_hf.models.answers import answers_of_kind
from sase_hf.tasks.labels.report import (
    Report,
    measure_report,
    report_lines,
    report_tables,
)

NAMES = ("cold", "mild", "hot")
LOGITS = [[11, 10.5, 0], [0, 1, 0], [0, 5, 0], [0, 0, 1], [0, 0, 2]]
LABELS = [0, 0, 0, 2, 1]


def make_report(
    logits: list[list[float]],
    labels: list[Any],
    problem: str = "single_label_classification",
    names: Any = NAMES,
    **parts: Any,
) -> Report:
    metrics = metrics_function(load_metrics(None, problem), answers_of_kind(problem))
    rows = Dataset.from_dict({"input_ids": [[2, 3]] * len(labels), "labels": labels})
    parts["this model"] = np.array(logits, dtype=np.float32)
    return measure_report(parts, rows, rows, answers_of_kind(problem, names), metrics)


def test_report_counts_the_confusions_of_labels() -> None:
    """Precision and recall of each label, and the wrong rows, the surest first."""
    report = make_report(LOGITS, LABELS, **{"its hops alone": np.eye(3)[LABELS]})
    assert report.confusion is not None
    assert report.confusion.tolist() == [[1, 2, 0], [0, 0, 1], [0, 0, 1]]
    assert report_tables(report)[-1].rows == [
        ["cold", "100.0%", "33.3%", "50.0%", "3"],
        ["mild", "0.0%", "0.0%", "0.0%", "1"],
        ["hot", "50.0%", "100.0%", "66.7%", "1"],
    ]
    assert report.wrong == [2, 4, 1]
    assert report.right == [0, 3], "the least lead first"
    assert report.systems["its hops alone"]["accuracy"] == 1
    assert "linear model" in report.systems


def test_report_names_the_labels_that_it_cannot_measure_and_those_never_predicted() -> None:
    _, unknown, missed = report_lines(make_report([[3, 0, 0]], [1]))
    assert unknown == "labels of no held-out text: cold, hot; add rows that have them"
    assert missed == "labels never predicted: mild; add rows that have them"


def test_report_of_sets_and_of_numbers_has_no_confusion() -> None:
    sets = make_report(
        [[1, -1], [1, 1]], [[1.0, 0.0], [0.0, 1.0]], "multi_label_classification", ("a", "b")
    )
    assert sets.confusion is None
    assert [row[1] for row in report_tables(sets)[-1].rows] == ["50.0%", "100.0%"]
    assert (sets.wrong, sets.right) == ([1], [0])
    numbers = make_report([[1.0], [5.0], [2.0]], [1.0, 2.0, 2.5], "regression", ("score",))
    assert numbers.wrong == [1]
    assert "linear model" in numbers.systems
