"""Metrics as `evaluate` modules that need no download, and how a `Trainer` computes them.

Predictions and references are one value per row, or a list of values for every row: a 0 or 1 for
each label of a multi-label problem, a number for each output of a regression.
"""

import reprlib
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import datasets
import evaluate
import numpy as np
from transformers import EvalPrediction

from ..data.labels import IGNORED_LABEL, MULTI_LABEL, REGRESSION, SINGLE_LABEL
from ..data.splits import TRANSLATION
from ..models import RETRIEVAL

# What an evaluation measures beside the loss, by type of problem; the first chooses the best model.
DEFAULT_METRICS = {
    SINGLE_LABEL: ("accuracy", "macro_f1"),
    MULTI_LABEL: ("accuracy", "macro_f1"),
    REGRESSION: ("mse", "pearson"),
    TRANSLATION: ("bleu",),
    RETRIEVAL: ("mrr", "recall_at_1", "recall_at_10"),
}


class _RowMetric(evaluate.Metric):  # type: ignore[misc]
    """A metric with the name of its class; `_score` is the formula."""

    dtype = "int64"

    def _info(self) -> evaluate.MetricInfo:
        value = datasets.Value(self.dtype)
        kinds = (datasets.List(value), value)  # several values in a row, and one
        features = [datasets.Features(predictions=kind, references=kind) for kind in kinds]
        return evaluate.MetricInfo(description=self.__doc__ or "", citation="", features=features)

    def _compute(self, predictions: list[Any], references: list[Any]) -> dict[str, float]:
        predicted, true = np.array(predictions), np.array(references)
        if predicted.shape != true.shape:  # NumPy would repeat the shorter rows
            raise ValueError(f"predictions have shape {predicted.shape}, references {true.shape}")
        return {self.name: float(self._score(predicted, true))}

    def _score(self, predicted: np.ndarray, true: np.ndarray) -> Any:
        raise NotImplementedError


class Accuracy(_RowMetric):
    """Share of rows with all labels predicted right (subset accuracy), from 0 to 1."""

    def _score(self, predicted: np.ndarray, true: np.ndarray) -> Any:
        return (predicted == true).reshape(len(true), -1).all(axis=1).mean()


class MacroF1(_RowMetric):
    """Plain mean over classes of F1 = 2 TP / (2 TP + FP + FN), from 0 to 1.

    As scikit-learn's `f1_score(..., average="macro")`: a class counts if it is predicted or true,
    and every label of a multi-label problem counts, with 0 if it is neither.
    """

    def _score(self, predicted: np.ndarray, true: np.ndarray) -> Any:
        if predicted.ndim == 1:
            classes = np.union1d(predicted, true)
            predicted, true = predicted[:, None] == classes, true[:, None] == classes
        hits = (predicted.astype(bool) & true.astype(bool)).sum(axis=0)
        total = predicted.sum(axis=0) + true.sum(axis=0)  # 2 TP + FP + FN
        return np.mean(2 * hits / np.maximum(total, 1))


class Mse(_RowMetric):
    """Mean squared error over rows and outputs, 0 or more; less is better."""

    dtype = "float64"

    def _score(self, predicted: np.ndarray, true: np.ndarray) -> Any:
        return np.square(predicted - true).mean()


class Pearson(_RowMetric):
    """Pearson's correlation, from -1 to 1, the mean over outputs.

    It is NaN where all predictions or all references of an output are equal.
    """

    dtype = "float64"

    def _score(self, predicted: np.ndarray, true: np.ndarray) -> Any:
        # Compared, not computed: the mean of equal numbers may differ from them by rounding.
        flat = (predicted == predicted[0]).all(axis=0) | (true == true[0]).all(axis=0)
        predicted, true = predicted - predicted.mean(axis=0), true - true.mean(axis=0)
        product = (predicted * true).sum(axis=0)
        norms = np.linalg.norm(predicted, axis=0) * np.linalg.norm(true, axis=0)
        return np.where(flat, np.nan, product / np.where(flat, 1, norms)).mean()


class Bleu(_RowMetric):
    """BLEU of plain texts by sacrebleu, from 0 to 100: cased, tokenised as 13a, one reference."""

    dtype = "string"

    def __init__(self, **options: Any) -> None:
        _sacrebleu()  # the error comes now, not after a training
        super().__init__(**options)

    def _compute(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        return {self.name: float(_sacrebleu().corpus_score(predictions, [references]).score)}


def bleu_signature() -> str:
    """Return sacrebleu's account of its settings: case, tokens, smoothing, version."""
    metric = _sacrebleu()
    metric.corpus_score(["a"], [["a"]])  # the signature counts the references
    return str(metric.get_signature())


def _sacrebleu() -> Any:
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as reason:
        raise ImportError("BLEU needs sacrebleu; pip install 'sase_hf[translation]'") from reason
    return BLEU()


METRICS = {"accuracy": Accuracy, "macro_f1": MacroF1, "mse": Mse, "pearson": Pearson, "bleu": Bleu}


def load_metrics(names: Sequence[str] | None, problem_type: str) -> list[evaluate.EvaluationModule]:
    """Load the named metrics; by default those of this package that fit `problem_type`.

    Any other name goes to `evaluate.load`: a name on the Hub, or the path of a module. The code of
    the module is then run.

    Raises:
        ValueError: If a metric does not fit the problem type or cannot be loaded.
    """
    fitting = DEFAULT_METRICS[problem_type]
    return [_load_metric(name, problem_type, fitting) for name in names or fitting]


def _load_metric(name: str, problem_type: str, fitting: Sequence[str]) -> evaluate.EvaluationModule:
    if name not in METRICS:
        try:
            return evaluate.load(name)
        except (OSError, ImportError) as reason:
            fault = f"is not one of {', '.join(METRICS)}, and evaluate cannot load it: {reason}"
            raise ValueError(f"metric {name!r} {fault}") from reason
    if name not in fitting:
        allowed = " or ".join(fitting)
        raise ValueError(f"--metric_name {name} does not fit {problem_type}; use {allowed}")
    # Without a folder, a metric makes one in the user's cache even if it keeps nothing.
    with tempfile.TemporaryDirectory() as scratch:
        return METRICS[name](keep_in_memory=True, cache_dir=scratch)


def metrics_function(
    modules: Sequence[evaluate.EvaluationModule], problem_type: str
) -> Callable[[EvalPrediction], dict[str, float]]:
    """Return the `compute_metrics` of a `Trainer`.

    The modules get class ids (the largest logit); for multi-label problems a 1 for each label with
    a probability above 0.5, else 0; for regression the outputs. It raises ValueError for a result
    that is not a number, which a `Trainer` could not log.
    """
    combined = evaluate.combine(list(modules))

    def compute(evaluated: EvalPrediction) -> dict[str, float]:
        outputs = evaluated.predictions
        logits = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)
        labels = np.asarray(evaluated.label_ids)
        if problem_type == SINGLE_LABEL:
            counted = labels != IGNORED_LABEL
            predictions, labels = logits.argmax(-1)[counted], labels[counted]
        elif problem_type == MULTI_LABEL:
            predictions, labels = (logits > 0).astype(int), labels.astype(int)
        else:
            predictions = logits.reshape(labels.shape)
        results = combined.compute(predictions=predictions, references=labels)
        for name, value in results.items():
            if not isinstance(value, int | float | np.number):
                raise ValueError(f"metric {name!r} is {reprlib.repr(value)}, not a number")
        return {name: float(value) for name, value in results.items()}

    return compute
