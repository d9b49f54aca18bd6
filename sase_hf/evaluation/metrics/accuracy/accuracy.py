"""Accuracy, as an `evaluate` module that needs nothing but NumPy."""

import datasets
import evaluate
import numpy as np

_DESCRIPTION = """
The share of rows that are predicted right. In a multi-label problem a row is right if every one of
its labels is (subset accuracy).
"""

_INPUTS = """
Args:
    predictions: The predicted class ids; or for each row a list with a 0 or 1 for every label.
    references: The true ones, in the same form.

Returns:
    accuracy: From 0 to 1.
"""


class Accuracy(evaluate.Metric):  # type: ignore[misc]
    """The share of rows that are predicted right."""

    def _info(self) -> evaluate.MetricInfo:
        integer = datasets.Value("int64")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_INPUTS,
            features=[
                datasets.Features(
                    predictions=datasets.List(integer), references=datasets.List(integer)
                ),
                datasets.Features(predictions=integer, references=integer),
            ],
        )

    def _compute(
        self, predictions: list[int] | list[list[int]], references: list[int] | list[list[int]]
    ) -> dict[str, float]:
        predicted, true = np.array(predictions), np.array(references)
        if predicted.shape != true.shape:
            raise ValueError(
                f"predictions have shape {predicted.shape} and references {true.shape}; both must "
                "have as many rows and labels"
            )
        right = predicted == true
        return {"accuracy": float(right.reshape(len(right), -1).all(axis=1).mean())}
