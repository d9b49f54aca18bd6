"""The report of a trained model."""

import math
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from sase_hf.evaluation.metrics import load_metrics, metrics_function
from sase_hf.models.answers import answers_of_kind
from sase_hf.tasks.labels.report import (
    ClassScore,
    Report,
    headline,
    measure_report,
    remarks,
    report_tables,
    shown_metric,
)
from sase_hf.utils.text import table_lines

NAMES = ("cold", "mild", "hot")
LOGITS = [[3, 0, 0], [0, 1, 0], [0, 5, 0], [0, 0, 2], [0, 0, 2]]
LABELS = [0, 0, 0, 2, 1]


def make_report(
    logits: list[list[float]],
    labels: list[Any],
    problem: str = "single_label_classification",
    names: Any = NAMES,
) -> Report:
    metrics = metrics_function(load_metrics(None, problem), answers_of_kind(problem))
    rows = Dataset.from_dict({"input_ids": [[2, 3]] * len(labels), "labels": labels})
    return measure_report(
        np.array(logits, dtype=np.float32),
        rows,
        rows,
        answers=answers_of_kind(problem, names),
        compute_metrics=metrics,
    )


def test_report_counts_the_confusions_of_labels() -> None:
    """Precision and recall of each label, and the wrong rows, the surest first."""
    report = make_report(LOGITS, LABELS)
    assert report.confusion is not None
    assert report.confusion.tolist() == [[1, 2, 0], [0, 0, 1], [0, 0, 1]]
    cold, mild, hot = report.classes
    assert (cold.precision, cold.recall, cold.rows) == (1, pytest.approx(1 / 3), 3)
    assert (mild.precision, mild.recall, mild.f1) == (0, 0, 0)
    assert (hot.precision, hot.recall, hot.f1) == (0.5, 1, pytest.approx(2 / 3))
    assert report.wrong == [2, 4, 1]
    assert sorted(report.right) == [0, 3]
    assert report.systems["this model"]["accuracy"] == 0.4
    assert report.systems["most frequent label"]["accuracy"] == 0.6
    assert "linear model" in report.systems


CLASSES = [ClassScore(name, 1, 1, 1, 9) for name in NAMES]


@pytest.mark.parametrize(
    ("systems", "confusion", "expected"),
    [
        (
            {"linear model": {"accuracy": 0.52}, "this model": {"accuracy": 0.53}},
            [[30, 2, 0], [3, 20, 0], [0, 42, 3]],
            "right for 53 of 100 new texts, 43% to 62%; a linear model for 52; most often it takes "
            "hot for mild",
        ),
        (
            {"this model": {"accuracy": 1.0}},
            [[50, 0, 0], [0, 50, 0], [0, 0, 0]],
            "right for 100 of 100 new texts, 96% to 100%",
        ),
        (
            {"linear model": {"mse": 4.0}, "this model": {"mse": 0.25}},
            None,
            "off by 0.5 (root of the mean squared error); a linear model by 2",
        ),
        ({"this model": {"rouge": 0.4}}, None, None),
    ],
)
def test_headline_says_what_is_known(
    systems: dict[str, dict[str, float]], confusion: Any, expected: str | None
) -> None:
    """Each bound is 1.96 of its standard errors away from the share (Wilson, 1927)."""
    counts = None if confusion is None else np.array(confusion)
    report = Report(100, systems, CLASSES, counts, [], [])
    assert headline(report) == expected
    for bound in (0.4329, 0.6249):
        distance = abs(bound - 0.53) / math.sqrt(bound * (1 - bound) / 100)
        assert distance == pytest.approx(1.96, abs=0.01)


def test_remarks_name_better_simple_models_and_labels_never_predicted() -> None:
    report = make_report([[3, 0, 0]] * 5, LABELS)
    gain, missed = remarks(report, "train more")
    assert gain.startswith("no better than the most frequent label (accuracy 60.0% against")
    assert gain.endswith(": train more")
    assert missed == "never predicted: mild, hot; try --class_weights balanced"
    *_, missed = remarks(report, "", rare_way_out="add rows")
    assert missed == "never predicted: mild, hot; add rows"
    good = make_report([[1.0], [2.0]] * 50, [1.0, 2.0] * 50, "regression", ("score",))
    assert list(remarks(good, "")) == []


def test_remarks_advise_weights_for_rare_labels_only() -> None:
    """A frequent one that is never predicted has another cause, and one without rows has none."""
    names = (*NAMES, "absent")
    report = make_report([[0, 3, 0, 0]] * 5, LABELS, "single_label_classification", names)
    *_, missed = remarks(report, "")
    assert missed == "never predicted: hot; try --class_weights balanced"


WORDS_WIN = {"most frequent label": 0.3, "linear model": 0.6, "this model": 0.5}


@pytest.mark.parametrize(
    ("metric", "values", "expected"),
    [
        ("accuracy", WORDS_WIN, "linear model (accuracy 50.0% against 60.0%)"),
        ("macro_f1", WORDS_WIN, "linear model (macro F1 50.0% against 60.0%)"),
        (
            "accuracy",
            {"most frequent label": 0.7, "linear model": 0.6, "this model": 0.65},
            "most frequent label (accuracy 65.0% against 70.0%)",
        ),
        ("accuracy", {**WORDS_WIN, "this model": 0.6}, "linear model (accuracy 60.0% against 60"),
        (
            "mse",
            {"mean": 3.0, "linear model": 1.0, "this model": 1.5},
            "linear model (mse 1.5 against 1)",
        ),
        ("mse", {"mean": 1.0, "linear model": 2.0, "this model": 1.5}, "mean (mse 1.5 against 1)"),
        ("accuracy", {**WORDS_WIN, "this model": 0.61}, None),
        ("accuracy", {**WORDS_WIN, "its words alone": 0.7, "this model": 0.61}, None),
        ("mse", {"mean": 3.0, "linear model": 1.0, "this model": 0.9}, None),
        ("accuracy", {**WORDS_WIN, "linear model": 1.0, "this model": 1.0}, None),
        ("accuracy", {"this model": 0.1}, None),  # without training rows
        ("rouge", WORDS_WIN, None),
    ],
)
def test_remarks_compare_with_the_best_simple_model(
    metric: str, values: dict[str, float], expected: str | None
) -> None:
    """By the metric that chooses the epoch: balanced weights give accuracy up for rare labels."""
    other = {"accuracy": 0.1} if metric == "macro_f1" else {}
    systems = {name: {**other, metric: value} for name, value in values.items()}
    found = list(remarks(Report(100, systems, [], None, [], []), "train", metric=metric))
    assert [remark[: len(expected or "") + 18] for remark in found] == (
        [] if expected is None else [f"no better than the {expected}"[: len(expected) + 18]]
    )


def test_report_of_sets_of_one_label_scores_that_label() -> None:
    """Not its absence, which is no label."""
    report = make_report(
        [[1], [1], [-1], [-1]], [[1.0], [0.0], [0.0], [1.0]], "multi_label_classification", ("a",)
    )
    [score] = report.classes
    assert score == ("a", 0.5, 0.5, 0.5, 2)
    assert report.systems["this model"]["macro_f1"] == 0.5


def test_report_shows_the_right_rows_of_which_the_model_is_least_sure_first() -> None:
    """Those of numbers are in random order."""
    logits = [[3, 0, 0], [2, 1.5, 0], [9, 0, 0], [2, 1, 0]]
    report = make_report(logits, [0] * 4)
    assert report.right == [1, 3, 0, 2]


def test_report_counts_the_rows_of_labels_where_no_row_is_right() -> None:
    report = make_report([[0, 3, 0]] * 2, [0, 2])
    table = next(table for table in report_tables(report) if table.title == "Label by label")
    assert [row[-1] for row in table.rows] == ["1", "0", "1"]


def test_report_of_sets_and_of_numbers_has_no_confusion() -> None:
    sets = make_report(
        [[1, -1], [1, 1]], [[1.0, 0.0], [0.0, 1.0]], "multi_label_classification", ("a", "b")
    )
    assert sets.confusion is None
    assert [(score.precision, score.recall) for score in sets.classes] == [(0.5, 1), (1, 1)]
    assert (sets.wrong, sets.right) == ([1], [0])
    numbers = make_report([[1.0], [5.0], [2.0]], [1.0, 2.0, 2.5], "regression", ("score",))
    assert (numbers.classes, numbers.wrong) == ([], [1])
    assert "mean" in numbers.systems


def test_report_tables_show_the_worst_confusions_of_many_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = make_report(LOGITS, LABELS)
    whole = report_tables(report)[0]
    assert whole.rows[0] == ["cold", "1", "2", "0"]
    assert whole.shares is not None
    assert whole.shares[0] == [pytest.approx(1 / 3), pytest.approx(2 / 3), 0]
    monkeypatch.setattr("sase_hf.tasks.labels.report.MAX_MATRIX", 2)
    worst = report_tables(report)[0]
    assert worst.rows == [["cold", "mild", "2"], ["mild", "hot", "1"]]


def test_report_measures_parts_of_the_model_beside_it() -> None:
    rows = Dataset.from_dict({"input_ids": [[2, 3]] * 5, "labels": LABELS})
    answers = answers_of_kind("single_label_classification", NAMES)
    report = measure_report(
        np.array(LOGITS, dtype=np.float32),
        rows,
        None,
        answers=answers,
        compute_metrics=metrics_function(load_metrics(None, answers.kind), answers),
        parts={"its words alone": np.eye(3)[LABELS]},
    )
    accuracies = {name: values["accuracy"] for name, values in report.systems.items()}
    assert accuracies == {"its words alone": 1.0, "this model": 0.4}


@pytest.mark.parametrize(
    ("metric", "value", "shown"),
    [
        ("accuracy", 0.9876, "98.8%"),
        ("mse", 0.00001669, "1.669e-05"),
        ("mse", 5.2393, "5.239"),
        ("pearson", 0.99, "0.990"),
    ],
)
def test_shown_metric_tells_errors_of_any_size(metric: str, value: float, shown: str) -> None:
    assert shown_metric(metric, value) == shown


def test_table_lines_keep_columns_apart_whatever_the_labels_are() -> None:
    """A long label is cut; a number is not; control characters are shown."""
    names = ["a" * 99, "b\r\x1b[2J\nc"]
    report = make_report([[1, 0], [0, 1]], [0, 1], "single_label_classification", names)
    lines = [line for table in report_tables(report) for line in table_lines(table)]
    assert any(line.startswith("a" * 31 + "... ") for line in lines)
    assert all(len(line) <= 100 for line in lines)
    assert any(line.startswith("b[U+000D][U+001B][2J c ") for line in lines)
    assert all(min(line, default=" ") >= " " for line in lines)
    assert sum("100.0%" in line for line in lines) >= 3
