"""The metrics that ship with the package, against numbers worked out by hand."""

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sase_hf
from sase_hf.evaluation.records import DEFAULT_METRICS, METRICS, load_metrics


def measure(name: str, predictions: Any, references: Any) -> float:
    problem_type = next(kind for kind, names in DEFAULT_METRICS.items() if name in names)
    (metric,) = load_metrics([name], problem_type)
    (value,) = metric.compute(predictions=predictions, references=references).values()
    assert isinstance(value, float)
    return value


@pytest.mark.parametrize(
    ("name", "predictions", "references", "expected"),
    [
        ("accuracy", [0, 1, 2, 2], [0, 1, 1, 2], 3 / 4),
        # With several labels a row is right only as a whole.
        ("accuracy", [[1, 0], [1, 1], [0, 0]], [[1, 0], [1, 0], [0, 0]], 2 / 3),
        # Class 0: TP 2, FP 1, FN 0: 4/5. Class 1: TP 1, FP 0, FN 1: 2/3.
        ("macro_f1", [0, 0, 0, 1], [0, 0, 1, 1], (4 / 5 + 2 / 3) / 2),
        # The classes between 0 and 9 are neither predicted nor true, and do not count.
        ("macro_f1", [0, 9], [0, 9], 1),
        # Class 2 is predicted and never true, class 1 true and never predicted: both count with 0.
        ("macro_f1", [0, 2], [0, 1], (1 + 0 + 0) / 3),
        # Label 0: 2/3. Label 1: 1. Label 2 is neither predicted nor true and counts with 0.
        ("macro_f1", [[1, 1, 0], [1, 0, 0]], [[1, 1, 0], [0, 0, 0]], (2 / 3 + 1 + 0) / 3),
        ("mse", [1.0, 3.0], [2.0, 1.0], 5 / 2),
        ("mse", [[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [0.0, 0.0]], 5 / 4),
        ("pearson", [1.0, 2.0, 3.0], [3.0, 2.0, 1.0], -1),
        # Centred: (-4, -1, 5) / 3 with (-1, 0, 1).
        ("pearson", [0.0, 1.0, 3.0], [1.0, 2.0, 3.0], 3 / math.sqrt(42 / 9 * 2)),
        # With several outputs it is the mean of theirs.
        ("pearson", [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]], 0),
        # Of the n-grams 4/5, 3/4, 2/3 and 1/2 are right: 100 times their geometric mean.
        ("bleu", ["A dog runs home."], ["A dog runs home!"], 100 * (1 / 5) ** (1 / 4)),
    ],
)
def test_metric_agrees_with_numbers_by_hand(
    name: str, predictions: Any, references: Any, expected: float
) -> None:
    assert measure(name, predictions, references) == pytest.approx(expected, abs=1e-12)


def test_pearson_is_not_defined_for_equal_numbers() -> None:
    """A 0 would look like a result; the mean of three times 0.1 is not exactly 0.1."""
    assert math.isnan(measure("pearson", [0.1] * 3, [1.0, 2.0, 3.0]))
    assert math.isnan(measure("pearson", [1.0, 2.0, 3.0], [0.1] * 3))


@pytest.mark.parametrize("name", [name for name in METRICS if name != "bleu"])
def test_metric_refuses_rows_of_unequal_width(name: str) -> None:
    """NumPy would stretch the shorter ones."""
    with pytest.raises(ValueError, match=r"have shape \(2, 1\), references \(2, 2\)"):
        measure(name, [[1], [0]], [[1, 0], [0, 1]])


@pytest.mark.slow
def test_metrics_load_offline_and_without_the_package(tmp_path: Path) -> None:
    """`evaluate` copies a file into its cache, where no neighbour and no package is at hand."""
    shutil.copytree(Path(sase_hf.__file__).parent / "evaluation" / "metrics", tmp_path / "own")
    code = "import evaluate, sys\nfor folder in sys.argv[1:]: print(evaluate.load(folder)"
    code += ".compute(predictions=[0, 1, 1, 1], references=[0, 1, 0, 1]))"
    code += "\nprint(evaluate.load('own/bleu').compute(predictions=['a'], references=['a']))"
    result = subprocess.run(
        [
            sys.executable,
            "-I",
            "-W",
            "error",
            "-c",
            code,
            *(f"own/{name}" for name in METRICS if name != "bleu"),
        ],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.count("{") == len(METRICS), result.stderr
