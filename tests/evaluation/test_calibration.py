"""The calibration error and the temperature, against numbers by hand and a library."""

from typing import Any

import numpy as np
import pytest
import torch

from sase_hf.evaluation.calibration import (
    expected_calibration_error,
    fit_temperature,
    fit_threshold,
)


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


def test_fit_temperature_is_the_minimum_of_the_likelihood() -> None:
    draws = np.random.default_rng(0)
    logits = 5 * draws.normal(size=(200, 4))
    labels = np.where(draws.random(200) < 0.6, logits.argmax(1), draws.integers(4, size=200))

    def loss(temperature: float) -> float:
        scaled = torch.tensor(logits / temperature)
        return torch.nn.functional.cross_entropy(scaled, torch.tensor(labels)).item()

    found = fit_temperature(torch.tensor(logits), torch.tensor(labels), 0.01, 100)
    assert loss(found) < min(loss(found * 0.99), loss(found * 1.01))


def test_fit_temperature_stays_within_its_bounds() -> None:
    """Where all rows are right, or all wrong, the likelihood has no finite best temperature."""
    logits = [[2.0, -2.0], [-2.0, 2.0]]
    found = [fit_temperature(logits, ids, 0.25, 10) for ids in ([0, 1], [1, 0])]
    assert found == pytest.approx([0.25, 10], rel=1e-4)


def test_calibration_refuses_labels_that_are_not_class_ids() -> None:
    """A label of -1, of a row without one, would be the last class."""
    scores, labels = [[0.9, 0.1], [0.2, 0.8]], [0, -1]
    with pytest.raises(ValueError, match="from -1 to 0; the classes are 0 to 1"):
        expected_calibration_error(scores, labels)
    with pytest.raises(ValueError, match="from -1 to 0"):
        fit_temperature(scores, labels, 0.01, 100)
    with pytest.raises(ValueError, match="from -1 to 0"):
        fit_threshold(scores, labels, 0.1)


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
