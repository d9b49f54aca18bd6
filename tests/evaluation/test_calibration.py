"""The calibration error and the temperature, against numbers by hand and a library."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from sase_hf.evaluation.calibration import expected_calibration_error, fit_temperature


@pytest.mark.parametrize(
    ("probabilities", "labels", "expected"),
    [
        # Three rows at 0.9, two of them right, and one at 0.6, right.
        (
            [[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.6, 0.4]],
            [0, 1, 1, 0],
            3 / 4 * abs(2 / 3 - 0.9) + 1 / 4 * abs(1 - 0.6),
        ),
        # One row too sure and one not sure enough cancel in the same bin alone.
        ([[0.95, 0.05], [0.55, 0.45]], [1, 0], (0.95 + 0.45) / 2),
        ([[0.95, 0.05], [0.96, 0.04]], [1, 0], (0.95 - 0.04) / 2),
        (np.eye(3), [0, 1, 2], 0),  # always sure and right
        (np.eye(3), [1, 2, 0], 1),  # always sure and wrong
    ],
)
def test_expected_calibration_error_agrees_with_numbers_by_hand(
    probabilities: Any, labels: list[int], expected: float
) -> None:
    assert expected_calibration_error(probabilities, labels) == pytest.approx(expected)


def test_fit_temperature_is_the_minimum_of_the_likelihood() -> None:
    """A second method, from a library, finds the same."""
    draws = np.random.default_rng(0)
    logits = 5 * draws.normal(size=(200, 4))
    labels = np.where(draws.random(200) < 0.6, logits.argmax(1), draws.integers(4, size=200))

    def loss(temperature: float) -> float:
        scaled = torch.tensor(logits / temperature)
        return torch.nn.functional.cross_entropy(scaled, torch.tensor(labels)).item()

    expected = minimize_scalar(loss, bounds=(0.01, 100), method="bounded", options={"xatol": 1e-8})
    found = fit_temperature(torch.tensor(logits), torch.tensor(labels))
    assert found == pytest.approx(expected.x, rel=1e-4)


@pytest.mark.parametrize(
    ("labels", "expected"), [([0, 1], 0.01), ([1, 0], 100)], ids=["all right", "all wrong"]
)
def test_fit_temperature_stays_within_its_bounds(labels: list[int], expected: float) -> None:
    """Where the likelihood has no finite best temperature."""
    assert fit_temperature([[2.0, -2.0], [-2.0, 2.0]], labels) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("function", "scores", "message"),
    [
        (expected_calibration_error, [[2.0, -1.0]], "take the softmax"),
        (fit_temperature, [[float("nan"), 0.0]], "must be finite"),
    ],
)
def test_calibration_refuses_logits_as_probabilities_and_nan(
    function: Any, scores: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        function(scores, [0])
