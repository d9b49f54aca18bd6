"""Mean squared error, as an `evaluate` module that needs nothing but NumPy."""

import datasets
import evaluate
import numpy as np

_DESCRIPTION = """
The mean of the squared differences; with several outputs the mean over all of them.
"""

_INPUTS = """
Args:
    predictions: The predicted numbers; or for each row a list of them, one for every output.
    references: The true ones, in the same form.

Returns:
    mse: 0 or more; less is better.
"""


class Mse(evaluate.Metric):  # type: ignore[misc]
    """The mean of the squared differences."""

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
        return {"mse": float(np.square(predicted - true).mean())}
