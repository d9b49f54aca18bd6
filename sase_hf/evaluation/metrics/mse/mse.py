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
        return evaluate.MetricInfo(
            description=__doc__ or "",
            citation="",
            inputs_description=__doc__ or "",
            features=[  # of rows with several outputs, and of rows with one
                datasets.Features(predictions=kind, references=kind)
                for kind in (datasets.List(value), value)
            ],
        )

    def _compute(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
        predicted, true = np.array(predictions), np.array(references)
        if predicted.shape != true.shape:  # NumPy would repeat the shorter rows
            raise ValueError(f"predictions have shape {predicted.shape}, references {true.shape}")
        return {"mse": float(np.square(predicted - true).mean())}
