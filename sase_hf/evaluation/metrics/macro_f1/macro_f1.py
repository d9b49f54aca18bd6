"""Macro F1: the plain mean over classes of F1 = 2 TP / (2 TP + FP + FN), from 0 to 1.

Predictions and references are class ids; or for each row a list with a 0 or 1 for every label. As
scikit-learn's `f1_score(..., average="macro")`: classes that occur neither in the predictions nor
in the references are left out, and one that occurs in only one of them counts with 0. In a
multi-label problem every label counts, with 0 if it is neither predicted nor true.
"""

from typing import Any

import datasets
import evaluate
import numpy as np


class MacroF1(evaluate.Metric):  # type: ignore[misc]
    """Mean over classes of F1."""

    def _info(self) -> evaluate.MetricInfo:
        value = datasets.Value("int64")
        kinds = (datasets.List(value), value)  # rows with several labels, and rows with one
        features = [datasets.Features(predictions=kind, references=kind) for kind in kinds]
        return evaluate.MetricInfo(description=__doc__ or "", citation="", features=features)

    def _compute(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
        predicted, true = np.array(predictions), np.array(references)
        if predicted.shape != true.shape:  # NumPy would repeat the shorter rows
            raise ValueError(f"predictions have shape {predicted.shape}, references {true.shape}")
        if predicted.ndim == 1:
            classes = np.union1d(predicted, true)
            predicted, true = predicted[:, None] == classes, true[:, None] == classes
        hits = (predicted.astype(bool) & true.astype(bool)).sum(axis=0)
        total = predicted.sum(axis=0) + true.sum(axis=0)  # 2 TP + FP + FN
        return {"macro_f1": float(np.mean(2 * hits / np.maximum(total, 1)))}
