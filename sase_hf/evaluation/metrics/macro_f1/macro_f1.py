"""Macro F1, as an `evaluate` module that needs nothing but NumPy."""

import datasets
import evaluate
import numpy as np

_DESCRIPTION = """
The plain mean over classes of F1 = 2 TP / (2 TP + FP + FN), as scikit-learn's default
`f1_score(..., average="macro")` has it. Classes that occur neither in the predictions nor in the
references are left out; one that occurs in only one of them counts with 0. In a multi-label problem
every label counts, and one that is neither predicted nor true counts with 0.
"""

_INPUTS = """
Args:
    predictions: The predicted class ids; or for each row a list with a 0 or 1 for every label.
    references: The true ones, in the same form.

Returns:
    macro_f1: From 0 to 1.
"""


class MacroF1(evaluate.Metric):  # type: ignore[misc]
    """The plain mean over classes of F1."""

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
        if predicted.ndim == 1:
            classes = np.union1d(predicted, true)
            predicted, true = predicted[:, None] == classes, true[:, None] == classes
        hits = (predicted.astype(bool) & true.astype(bool)).sum(axis=0)
        named = predicted.sum(axis=0) + true.sum(axis=0)  # 2 TP + FP + FN
        return {"macro_f1": float(np.mean(2 * hits / np.maximum(named, 1)))}
