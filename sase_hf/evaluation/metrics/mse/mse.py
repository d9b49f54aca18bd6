"""Mean squared error, 0 or more; less is better.

Predictions and references are numbers; or for each row a list with a number for every output, and
the mean is that over all of them.
"""

from typing import Any

import datasets
import evaluate
import numpy as np


class Mse(evaluate.Metric):  # type: ignore[misc]
    """Mean squared error."""

    def _info(self) -> evaluate.MetricInfo:
        value = datasets.Value("float64")
        kinds = (datasets.List(value), value)  # rows with several outputs, and rows with one
        features = [datasets.Features(predictions=kind, references=kind) for kind in kinds]
        return evaluate.MetricInfo(description=__doc__ or "", citation="", features=features)

    def _compute(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
        predicted, true = np.array(predictions), np.array(references)
        if predicted.shape != true.shape:  # NumPy would repeat the shorter rows
            raise ValueError(f"predictions have shape {predicted.shape}, references {true.shape}")
        return {"mse": float(np.square(predicted - true).mean())}
