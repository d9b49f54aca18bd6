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
        vocab_size=4,
        compute_metrics=metrics,
        facts={"temperature": "2.000"},
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


def test_headline_says_the_accuracy_and_the_worst_confusion() -> None:
    few = make_report(LOGITS, LABELS)
    assert (headline(few) or "").startswith("right for 2 of 5 validation rows, the linear model ")
    assert (headline(few) or "").endswith("; most often it confuses cold and mild")
    many = make_report(LOGITS * 60, LABELS * 60)
    assert (headline(many) or "").startswith("right for 40 of every 100 validation rows, ")


@pytest.mark.parametrize(
    ("systems", "expected"),
    [
        ({"this model": {"accuracy": 1.0}}, "right for 9 of 9 validation rows"),
        (
            {"linear model": {"mse": 4.0}, "this model": {"mse": 0.25}},
            "off by 0.5 (root of the mean squared error), the linear model by 2",
        ),
        ({"this model": {"rouge": 0.4}}, None),
    ],
)
def test_headline_says_what_is_known(
    systems: dict[str, dict[str, float]], expected: str | None
) -> None:
    """Without a mistake nothing is confused."""
    classes = [ClassScore("a", 1, 1, 1, 9), ClassScore("b", 0, 0, 0, 0)]
    report = Report(9, systems, classes, np.diag([9, 0]), {}, [], [])
    assert headline(report) == expected


@pytest.mark.parametrize(
    ("num_rows", "own", "linear", "expected"),
    [
        (1, 1.0, 0.0, "right for 1 of 1 validation row, the linear model for 0"),
        (100, 0.99, 0.5, "right for 99 of 100 validation rows, the linear model for 50"),
        (120, 1.0, 0.0, "right for 100 of every 100 validation rows, the linear model for 0"),
        (2000, 0.996, 0.9, "right for 1,992 of 2,000 validation rows, the linear model for 1,800"),
        (2000, 0.9, 0.004, "right for 1,800 of 2,000 validation rows, the linear model for 8"),
    ],
)
def test_headline_rounds_no_mistake_away(
    num_rows: int, own: float, linear: float, expected: str
) -> None:
    systems = {"linear model": {"accuracy": linear}, "this model": {"accuracy": own}}
    assert headline(Report(num_rows, systems, [], None, {}, [], [])) == expected


@pytest.mark.parametrize(
    ("missed", "said"),
    [
        ((20, 8), "; it takes poor for great more often than great for poor"),
        ((8, 20), "; it takes great for poor more often than poor for great"),
        ((15, 10), ""),
        ((0, 0), ""),
    ],
)
def test_headline_of_two_labels_says_which_one_is_missed_more_often(
    missed: tuple[int, int], said: str
) -> None:
    """That these two are confused is no news, and a small difference can be chance."""
    classes = [ClassScore(name, 1, 1, 1, 50) for name in ("poor", "great")]
    confusion = np.array([[50, missed[0]], [missed[1], 50]])
    report = Report(40, {"this model": {"accuracy": 0.5}}, classes, confusion, {}, [], [])
    assert headline(report) == f"right for 20 of 40 validation rows{said}"


def test_headline_names_no_confusion_that_is_as_frequent_as_another() -> None:
    classes = [ClassScore(name, 1, 1, 1, 9) for name in NAMES]
    systems = {"this model": {"accuracy": 0.5}}
    tie = np.array([[9, 2, 0], [0, 9, 1], [0, 1, 9]])
    assert "confuses" not in (headline(Report(31, systems, classes, tie, {}, [], [])) or "")
    tie[0, 1] += 1
    assert "confuses cold and mild" in (
        headline(Report(32, systems, classes, tie, {}, [], [])) or ""
    )


def test_remarks_name_few_rows_better_simple_models_and_labels_never_predicted() -> None:
    report = make_report([[3, 0, 0]] * 5, LABELS)
    few, gain, missed = remarks(report, "train more")
    assert few == "validation rows: 5; one row is 20 points of accuracy"
    assert gain == "this model is no better than the most frequent label: train more"
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
CONSTANT_WINS = {"most frequent label": 0.7, "linear model": 0.6, "this model": 0.65}


@pytest.mark.parametrize(
    ("metric", "values", "rows", "expected"),
    [
        (
            "accuracy",
            WORDS_WIN,
            52,  # above one standard error
            "10.0 points of accuracy behind the linear model: train; until then, the linear model",
        ),
        (
            "accuracy",
            WORDS_WIN,
            48,
            "no better than the linear model (10.0 points of accuracy behind, which can be chance)",
        ),
        ("accuracy", CONSTANT_WINS, 5000, "no better than the most frequent label: train"),
        (
            "macro_f1",
            WORDS_WIN,
            100,
            "10.0 points of macro F1 behind the linear model: train; until then, the linear model",
        ),
        (
            "mse",
            {"mean": 3.0, "linear model": 1.0, "this model": 1.5},
            100,
            "an mse of 0.5 behind the linear model: train; until then, the linear model is better",
        ),
        (
            "mse",
            {"mean": 1.0, "linear model": 2.0, "this model": 1.5},
            100,
            "no better than the me",
        ),
        (
            "accuracy",
            {"most frequent label": 0.5, "this model": 0.5},
            99,
            "no better than the most",
        ),
        (
            "accuracy",
            {**WORDS_WIN, "this model": 0.6},
            99,
            "no better than the linear model: train",
        ),
        ("accuracy", {**WORDS_WIN, "this model": 0.61}, 100, None),
        ("mse", {"mean": 3.0, "linear model": 1.0, "this model": 0.9}, 100, None),
        ("accuracy", {**WORDS_WIN, "linear model": 1.0, "this model": 1.0}, 100, None),
        ("accuracy", {"this model": 0.1}, 100, None),  # without training rows
        ("rouge", WORDS_WIN, 100, None),
    ],
)
def test_remarks_compare_with_the_best_simple_model(
    metric: str, values: dict[str, float], rows: int, expected: str | None
) -> None:
    """By the metric that chooses the epoch: balanced weights give accuracy up for rare labels."""
    other = {"accuracy": 0.1} if metric == "macro_f1" else {}
    systems = {name: {**other, metric: value} for name, value in values.items()}
    report = Report(rows, systems, [], None, {}, [], [])
    found = list(remarks(report, "train", metric=metric))
    if expected is None:
        assert not found
    else:
        assert len(found) == 1
        assert found[0].startswith(f"this model is {expected}")


def test_report_says_where_it_leaves_the_linear_model_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sase_hf.tasks.labels.report.MAX_WEIGHTS", 11)
    found = make_report([[3, 0, 0]], [0])
    assert "linear model" not in found.systems
    assert "4 words times 3 labels exceed the limit of 11 weights" in caplog.text


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


def test_report_tables_give_the_accuracy_an_interval() -> None:
    """Each bound is 1.96 of its standard errors away from the share (Wilson, 1927)."""
    report = make_report(LOGITS, LABELS)
    results = next(report_tables(report))
    assert results.rows[-1] == ["this model, 95 % interval", "11.8%-76.9%", ""]
    for bound in (0.118, 0.769):
        assert abs(bound - 0.4) / math.sqrt(bound * (1 - bound) / 5) == pytest.approx(
            1.96, abs=0.01
        )
    numbers = make_report([[1.0], [5.0]], [1.0, 2.0], "regression", ("score",))
    assert next(report_tables(numbers)).rows[-1][0] == "this model"


def test_report_tables_show_the_worst_confusions_of_many_labels() -> None:
    report = make_report(LOGITS, LABELS)
    *_, whole = report_tables(report)
    assert whole.rows[0] == ["cold", "1", "2", "0"]
    assert whole.shares is not None
    assert whole.shares[0] == [pytest.approx(1 / 3), pytest.approx(2 / 3), 0]
    *_, worst = report_tables(report, max_matrix=2)
    assert worst.rows == [["cold", "mild", "2"], ["mild", "hot", "1"]]


def test_report_tables_leave_out_confusions_of_which_there_are_none() -> None:
    report = make_report([[3, 0, 0], [0, 3, 0]], [0, 1])
    titles = [table.title for table in report_tables(report, max_matrix=2)]
    assert titles[-1] == "Label by label"


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
