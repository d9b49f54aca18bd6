"""Accuracy: the share of rows that are predicted right, from 0 to 1.

Predictions and references are class ids; or for each row a list with a 0 or 1 for every label. Then
a row is right if every one of its labels is (subset accuracy).
"""

from typing import Any

import datasets
import evaluate
import numpy as np


class Accuracy(evaluate.Metric):  # type: ignore[misc]
    """Share of rows that are predicted right."""

    def _info(self) -> evaluate.MetricInfo:
        value = datasets.Value("int64")
        kinds = (datasets.List(value), value)  # rows with several labels, and rows with one
        features = [datasets.Features(predictions=kind, references=kind) for kind in kinds]
        return evaluate.MetricInfo(description=__doc__ or "", citation="", features=features)

    def _compute(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
        predicted, true = np.array(predictions), np.array(references)
        if predicted.shape != true.shape:  # NumPy would repeat the shorter rows
            raise ValueError(f"predictions have shape {predicted.shape}, references {true.shape}")
        right = (predicted == true).reshape(len(true), -1).all(axis=1)
        return {"accuracy": float(right.mean())}
