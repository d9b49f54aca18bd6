"""Pearson's correlation, as an `evaluate` module that needs nothing but NumPy."""

import datasets
import evaluate
import numpy as np

_DESCRIPTION = """
Pearson's correlation between predicted and true numbers; with several outputs the mean of theirs.
It is not defined (NaN) where all predictions or all references of an output are equal.
"""

_INPUTS = """
Args:
    predictions: The predicted numbers; or for each row a list of them, one for every output.
    references: The true ones, in the same form.

Returns:
    pearson: From -1 to 1, or NaN.
"""


class Pearson(evaluate.Metric):  # type: ignore[misc]
    """Pearson's correlation between predicted and true numbers."""

    def _info(self) -> evaluate.MetricInfo:
        number = datasets.Value("float64")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_INPUTS,
            features=[
                datasets.Features(
                    predictions=datasets.List(number), references=datasets.List(number)
                ),
                datasets.Features(predictions=number, references=number),
            ],
        )

    def _compute(
        self,
        predictions: list[float] | list[list[float]],
        references: list[float] | list[list[float]],
    ) -> dict[str, float]:
        predicted, true = np.array(predictions), np.array(references)
        if predicted.shape != true.shape:
            raise ValueError(
                f"predictions have shape {predicted.shape} and references {true.shape}; both must "
                "have as many rows and outputs"
            )
        # Compared and not computed: the mean of equal numbers may differ from them by rounding.
        flat = (predicted == predicted[0]).all(axis=0) | (true == true[0]).all(axis=0)
        predicted, true = predicted - predicted.mean(axis=0), true - true.mean(axis=0)
        product = (predicted * true).sum(axis=0)
        norms = np.linalg.norm(predicted, axis=0) * np.linalg.norm(true, axis=0)
        correlations = np.where(flat, np.nan, product / np.where(flat, 1, norms))
        return {"pearson": float(correlations.mean())}
