"""Pearson's correlation of predicted and true numbers, from -1 to 1.

Predictions and references are numbers; or for each row a list with a number for every output, and
the result is the mean over the outputs. It is not defined (NaN) where all predictions or all
references of an output are equal.
"""

from typing import Any

import datasets
import evaluate
import numpy as np


class Pearson(evaluate.Metric):  # type: ignore[misc]
    """Pearson's correlation."""

    def _info(self) -> evaluate.MetricInfo:
        value = datasets.Value("float64")
        kinds = (datasets.List(value), value)  # rows with several outputs, and rows with one
        features = [datasets.Features(predictions=kind, references=kind) for kind in kinds]
        return evaluate.MetricInfo(description=__doc__ or "", citation="", features=features)

    def _compute(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
        predicted, true = np.array(predictions), np.array(references)
        if predicted.shape != true.shape:  # NumPy would repeat the shorter rows
            raise ValueError(f"predictions have shape {predicted.shape}, references {true.shape}")
        # Compared, not computed: the mean of equal numbers may differ from them by rounding.
        flat = (predicted == predicted[0]).all(axis=0) | (true == true[0]).all(axis=0)
        predicted, true = predicted - predicted.mean(axis=0), true - true.mean(axis=0)
        product = (predicted * true).sum(axis=0)
        norms = np.linalg.norm(predicted, axis=0) * np.linalg.norm(true, axis=0)
        correlations = np.where(flat, np.nan, product / np.where(flat, 1, norms))
        return {"pearson": float(correlations.mean())}
