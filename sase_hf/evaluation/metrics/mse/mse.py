"""Mean squared error; with several outputs the mean over all of them."""

from typing import Any

import datasets
import evaluate
import numpy as np

_INPUTS = """
Args:
    predictions: Numbers; or for each row a list with a number for every output.
    references: The true ones, in the same form.

Returns:
    mse: 0 or more; less is better.
"""


class Mse(evaluate.Metric):  # type: ignore[misc]
    """Mean squared error."""

    def _info(self) -> evaluate.MetricInfo:
        value = datasets.Value("float64")
        return evaluate.MetricInfo(
            description=__doc__ or "",
            citation="",
            inputs_description=_INPUTS,
            features=[  # of rows with several outputs, and of rows with one
                datasets.Features(predictions=kind, references=kind)
                for kind in (datasets.List(value), value)
            ],
        )

    def _compute(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
        predicted, true = np.array(predictions), np.array(references)
        if predicted.shape != true.shape:  # NumPy would repeat the shorter rows
            raise ValueError(
                f"predictions have shape {predicted.shape} and references {true.shape}; give the "
                "same number of rows and outputs"
            )
        return {"mse": float(np.square(predicted - true).mean())}
