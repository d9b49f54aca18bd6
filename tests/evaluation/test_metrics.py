"""The metrics that ship with the package, against numbers worked out by hand."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest

import sase_hf
from sase_hf.evaluation.records import DEFAULT_METRICS, METRICS, load_metrics

FOLDER = Path(sase_hf.__file__).parent / "evaluation" / "metrics"


def measure(name: str, predictions: Any, references: Any) -> float:
    """Return the value of one of our metrics."""
    problem_type = next(kind for kind, names in DEFAULT_METRICS.items() if name in names)
    (metric,) = load_metrics([name], problem_type)
    (value,) = metric.compute(predictions=predictions, references=references).values()
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize(
    ("predictions", "references", "expected"),
    [
        ([0, 1, 2, 2], [0, 1, 1, 2], 3 / 4),
        ([1], [0], 0),
        ([[1, 0], [1, 1], [0, 0]], [[1, 0], [1, 0], [0, 0]], 2 / 3),
        ([[1], [0]], [[1], [1]], 1 / 2),
    ],
)
def test_accuracy_is_the_share_of_right_rows(
    predictions: Any, references: Any, expected: float
) -> None:
    """With several labels a row is right only as a whole."""
    assert measure("accuracy", predictions, references) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predictions", "references", "expected"),
    [
        # Class 0: TP 2, FP 1, FN 0: 4/5. Class 1: TP 1, FP 0, FN 1: 2/3.
        ([0, 0, 0, 1], [0, 0, 1, 1], (4 / 5 + 2 / 3) / 2),
        # The classes between 0 and 9 are neither predicted nor true, and do not count.
        ([0, 9], [0, 9], 1),
        # Class 2 is predicted and never true, class 1 true and never predicted: both count with 0.
        ([0, 2], [0, 1], (1 + 0 + 0) / 3),
        # Label 0: 2/3. Label 1: 1. Label 2 is neither predicted nor true and counts with 0.
        ([[1, 1, 0], [1, 0, 0]], [[1, 1, 0], [0, 0, 0]], (2 / 3 + 1 + 0) / 3),
    ],
)
def test_macro_f1_is_the_mean_over_classes(
    predictions: Any, references: Any, expected: float
) -> None:
    """These are the rules of scikit-learn's `f1_score(average="macro")`."""
    assert measure("macro_f1", predictions, references) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predictions", "references", "expected"),
    [([1.0, 3.0], [2.0, 1.0], 5 / 2), ([[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [0.0, 0.0]], 5 / 4)],
)
def test_mse_is_the_mean_squared_difference(
    predictions: Any, references: Any, expected: float
) -> None:
    """Over all rows and outputs."""
    assert measure("mse", predictions, references) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predictions", "references", "expected"),
    [
        ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0], 1),
        ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0], -1),
        # Centred: (-1, 0, 1) with (-1, 2, -1).
        ([1.0, 2.0, 3.0], [0.0, 3.0, 0.0], 0),
        # Centred: (-4, -1, 5) / 3 with (-1, 0, 1).
        ([0.0, 1.0, 3.0], [1.0, 2.0, 3.0], 3 / math.sqrt(42 / 9 * 2)),
        ([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]], 0),
    ],
)
def test_pearson_is_the_correlation(predictions: Any, references: Any, expected: float) -> None:
    """With several outputs it is the mean of theirs."""
    assert measure("pearson", predictions, references) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("same", [0.0, 0.1, 1e9])
def test_pearson_is_not_defined_for_equal_numbers(same: float) -> None:
    """Whatever rounding makes of their mean; a 0 would look like a result."""
    assert math.isnan(measure("pearson", [same] * 3, [1.0, 2.0, 3.0]))
    assert math.isnan(measure("pearson", [1.0, 2.0, 3.0], [same] * 3))


@pytest.mark.parametrize("name", METRICS)
def test_metric_adds_up_batches(name: str) -> None:
    """`evaluate` collects batches, of lists or arrays, and counts every row once."""
    predictions, references = np.array([0, 1, 1, 0, 1]), np.array([0, 1, 0, 0, 0])
    problem_type = next(kind for kind, names in DEFAULT_METRICS.items() if name in names)
    (metric,) = load_metrics([name], problem_type)
    metric.add_batch(predictions=predictions[:3], references=references[:3].tolist())
    metric.add_batch(predictions=predictions[3:4].tolist(), references=references[3:4])
    metric.add(prediction=1, reference=0)
    assert metric.compute() == {name: measure(name, predictions, references)}


@pytest.mark.parametrize("name", METRICS)
def test_metric_refuses_rows_of_unequal_width(name: str) -> None:
    """NumPy would stretch the shorter ones."""
    with pytest.raises(ValueError, match=r"have shape \(2, 1\) and references \(2, 2\); give the"):
        measure(name, [[1], [0]], [[1, 0], [0, 1]])


ELSEWHERE = """
import json, socket, sys
import evaluate

def refuse(*arguments):
    raise SystemExit(f"a connection is tried: {arguments}")

socket.socket.connect = socket.getaddrinfo = refuse
values = {}
for folder in sys.argv[1:]:
    metric = evaluate.load(folder)
    metric.add_batch(predictions=[0, 1], references=[0, 1])
    metric.add_batch(predictions=[1, 1], references=[0, 1])
    values |= metric.compute()
print(json.dumps([values, "sase_hf" in sys.modules]))
"""


@pytest.mark.slow
def test_evaluate_loads_every_metric_offline_and_without_the_package(tmp_path: Path) -> None:
    """`evaluate` copies the file into its cache, where no neighbour and no package is at hand."""
    folders = [path.parent for path in sorted(FOLDER.glob("*/*.py")) if path.stem != "__init__"]
    assert [folder.name for folder in folders] == sorted(METRICS), "the premise: all are there"
    copies = [shutil.copytree(folder, tmp_path / folder.name) for folder in folders]
    result = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", ELSEWHERE, *map(str, copies)],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    values, has_package = json.loads(result.stdout)
    assert not has_package
    assert values == pytest.approx(
        {
            "accuracy": 3 / 4,
            "macro_f1": (2 / 3 + 4 / 5) / 2,
            "mse": 1 / 4,
            "pearson": 1 / math.sqrt(3),
        }
    )


def test_metric_describes_itself(tmp_path: Path) -> None:
    """Users of `evaluate` look there for what a number means."""
    for name, metric_class in METRICS.items():
        metric = metric_class(keep_in_memory=True, cache_dir=tmp_path)
        assert isinstance(metric, evaluate.Metric)
        assert metric.name == name
        assert f"{name}:" in metric.inputs_description
        assert len(metric.description) > 40
