"""The metrics that ship with the package, against numbers worked out by hand."""

import math
import socket
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import evaluate
import numpy as np
import pytest
from transformers import EvalPrediction

from sase_hf.evaluation.metrics import (
    DEFAULT_METRICS,
    load_metrics,
    metrics_function,
    score,
)
from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL, answers_of_kind


def computed(name: str, predictions: Any, references: Any) -> float:
    problem_type = next(kind for kind, names in DEFAULT_METRICS.items() if name in names)
    (metric,) = load_metrics([name], problem_type)
    (value,) = metric.compute(predictions=predictions, references=references).values()
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize(
    ("name", "predictions", "references", "expected"),
    [
        # With several labels a row is right only as a whole.
        ("accuracy", [[1, 0], [1, 1], [0, 0]], [[1, 0], [1, 0], [0, 0]], 2 / 3),
        # Class 2 is predicted and never true, class 1 true and never predicted: both count with 0.
        ("macro_f1", [0, 2], [0, 1], (1 + 0 + 0) / 3),
        # Label 0: 2/3. Label 1: 1. Label 2 is neither predicted nor true and counts with 0.
        ("macro_f1", [[1, 1, 0], [1, 0, 0]], [[1, 1, 0], [0, 0, 0]], (2 / 3 + 1 + 0) / 3),
        ("mse", [[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [0.0, 0.0]], 5 / 4),
        # Centred: (-4, -1, 5) / 3 with (-1, 0, 1).
        ("pearson", [0.0, 1.0, 3.0], [1.0, 2.0, 3.0], 3 / math.sqrt(42 / 9 * 2)),
        # Of the n-grams 4/5, 3/4, 2/3 and 1/2 are right: 100 times their geometric mean.
        ("bleu", ["A dog runs home."], ["A dog runs home!"], 100 * (1 / 5) ** (1 / 4)),
    ],
)
def test_metric_agrees_with_numbers_by_hand(
    name: str, predictions: Any, references: Any, expected: float
) -> None:
    assert computed(name, predictions, references) == pytest.approx(expected, abs=1e-12)


def test_metrics_refuse_rows_of_unequal_width_and_a_correlation_of_equal_numbers() -> None:
    """NumPy would stretch the shorter rows; a correlation of 0 would look like a result."""
    for name, refused in (("accuracy", "a mix of"), ("mse", "different number of output")):
        with pytest.raises(ValueError, match=refused):
            computed(name, [[1], [0]], [[1, 0], [0, 1]])
    assert math.isnan(computed("pearson", [0.1] * 3, [1.0, 2.0, 3.0]))
    assert math.isnan(computed("pearson", [0.1], [1.0]))


def measure(
    predictions: Any, labels: Any, problem_type: str, names: list[str] | None = None
) -> dict[str, float]:
    modules = load_metrics(names, problem_type)
    evaluated = EvalPrediction(predictions=predictions, label_ids=np.array(labels))
    return metrics_function(modules, answers_of_kind(problem_type))(evaluated)


HITS = """
import datasets
import evaluate

class Hits(evaluate.Metric):
    def _info(self):
        number = datasets.Value("int64")
        features = datasets.Features(predictions=number, references=number)
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions, references):
        hits = sum(a == b for a, b in zip(predictions, references))
        return {"hits": hits or [0] * len(predictions), "list": [hits]}
"""


def test_metrics_function_takes_the_largest_logit() -> None:
    """Rows with the label that the loss ignores do not count, and other outputs are ignored."""
    logits = np.array([[0.1, 0.2, 0.0], [3.0, 2.0, 1.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]])
    expected = {"accuracy": 2 / 3, "macro_f1": (2 / 3 + 1 + 0) / 3}
    found = measure((logits, np.full((4, 7), np.nan)), [1, 0, 0, -100], SINGLE_LABEL)
    assert found == pytest.approx(expected)


def test_metrics_function_takes_likely_labels_and_the_outputs_of_a_regression() -> None:
    """A model with one output gives a column, and its labels are numbers."""
    logits = np.array([[0.1, -0.1], [-2.0, 0.0]])
    assert measure(logits, [[1.0, 0.0], [0.0, 1.0]], MULTI_LABEL)["accuracy"] == 0.5
    outputs = np.arange(6.0, dtype=np.float32).reshape(-1, 1)
    expected = pytest.approx({"mse": 0.25, "pearson": 1.0})
    assert measure(outputs + 0.5, outputs.squeeze(-1), REGRESSION) == expected


def test_metrics_function_combines_own_and_foreign_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`evaluate` loads a user's file; lists among the results are left out."""
    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", tmp_path / "modules")
    monkeypatch.syspath_prepend(tmp_path / "modules")  # before the user's own modules
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "metrics")
    hits = tmp_path / "hits.py"
    hits.write_text(HITS)
    results = measure(np.eye(3), [0, 1, 1], SINGLE_LABEL, ["accuracy", str(hits)])
    assert results == {"accuracy": pytest.approx(2 / 3), "hits": 2.0}


def test_load_metrics_needs_no_network_and_leaves_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("a connection is tried"))
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "metrics")
    assert [each.name for each in load_metrics(None, SINGLE_LABEL)] == ["accuracy", "macro_f1"]
    assert not (tmp_path / "metrics").exists()


def test_load_metrics_refuses_metrics_that_do_not_fit_or_do_not_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match=r"^--metric_name accuracy does .* use mse or pearson"):
        load_metrics(["accuracy"], REGRESSION)
    monkeypatch.setattr(evaluate, "load", Mock(side_effect=ImportError("no rouge_score")))
    with pytest.raises(ValueError, match=r"cannot load the metric 'rouge' \(no rouge_score\)"):
        load_metrics(["accuracy", "rouge"], SINGLE_LABEL)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (("accuracy", 0.9, 0.1), ("accuracy", 0.9, 0.2)),
        (("accuracy", 0.9, 20.0), ("accuracy", 0.88, 0.1)),
        (("accuracy", 0.9, 0.1), ("accuracy", 0.9, math.nan)),
        (("mse", 1.0, 0.1), ("mse", 2.0, 0.1)),
    ],
    ids=["tie", "metric first", "no loss", "less is better"],
)
def test_score_compares_by_the_metric_and_breaks_ties_by_the_loss(better: Any, worse: Any) -> None:
    assert score(*better) > score(*worse)
