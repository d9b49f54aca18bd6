"""The calibration error and the threshold of answer sets, against numbers by hand."""

from typing import Any

import numpy as np
import pytest

from sase_hf.evaluation.metrics import expected_calibration_error, fit_threshold


@pytest.mark.parametrize(
    ("probabilities", "labels", "expected"),
    [
        # Three rows at 0.9, two of them right, and one at 0.6, right.
        (
            [[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.6, 0.4]],
            [0, 1, 1, 0],
            3 / 4 * abs(2 / 3 - 0.9) + 1 / 4 * abs(1 - 0.6),
        ),
        # 0.6 is the upper end of a bin, which it shares with 0.55.
        ([[0.6, 0.4], [0.55, 0.45]], [0, 1], abs(1 - 0.6 - 0.55) / 2),
    ],
)
def test_expected_calibration_error_agrees_with_numbers_by_hand(
    probabilities: Any, labels: list[int], expected: float
) -> None:
    assert expected_calibration_error(probabilities, labels) == pytest.approx(expected)


def test_fit_threshold_keeps_the_promise_on_new_rows() -> None:
    """Of rows that come alike, at least 1 - error of the sets are right, and hardly more."""
    num_rows, error = 30, 0.1
    of_labels = np.random.default_rng(0).beta(2, 1, size=(4000, num_rows + 1))
    found = [
        new >= (fit_threshold([[share, 1 - share] for share in held], [0] * num_rows, error) or 0)
        for *held, new in of_labels.tolist()
    ]
    slack = 3 * np.std(found) / len(found) ** 0.5
    assert 1 - error - slack <= np.mean(found) <= 1 - error + 1 / (num_rows + 1) + slack


@pytest.mark.parametrize(("num_rows", "expected"), [(18, None), (39, 0.02)])
def test_fit_threshold_is_the_largest_that_the_rows_allow(
    num_rows: int, expected: float | None
) -> None:
    """By hand: 18 rows promise nothing, of 39 one set may lack its label."""
    probabilities = [[row / 100, 1 - row / 100] for row in range(num_rows, 0, -1)]
    assert fit_threshold(probabilities, [0] * num_rows, 0.05) == expected
