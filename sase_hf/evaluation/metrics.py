"""Metrics for a `Trainer` that need no download, and those of `evaluate`; calibration, answer sets.

Predictions and references are one value per row, or a list of values for every row: a 0 or 1 for
each label of a multi-label problem, a number for each output of a regression.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import evaluate
import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import ConstantInputWarning, pearsonr
from sklearn.metrics import accuracy_score, f1_score, mean_squared_error
from torch import Tensor
from transformers import EvalPrediction

from ..data.labels import IGNORED_LABEL
from ..data.rows import TRANSLATION
from ..models import FAMILIES, RETRIEVAL
from ..models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Answers
from ..utils.text import refusal

# What an evaluation measures beside the loss, by type of problem; the first chooses the best model.
DEFAULT_METRICS = {
    SINGLE_LABEL: ("accuracy", "macro_f1"),
    MULTI_LABEL: ("accuracy", "macro_f1"),
    REGRESSION: ("mse", "pearson"),
    TRANSLATION: ("bleu",),
    RETRIEVAL: ("mrr", "recall_at_1", "recall_at_10"),
}
LOWER_IS_BETTER = {"loss", "mse", "rmse", "mae"}.union(
    *(family.logged_outputs for family in FAMILIES.values())
)
NUMBER = int | float | np.number  # what a `Trainer` can log of a metric

SCORE = "score"  # the name of what `score` returns, among the metrics of an evaluation
LOSS_SHARE = 0.001
LARGEST_LOSS = 10.0


def score(metric: str, value: float, loss: float) -> float:
    """Return one number by which evaluations are compared, larger for a better one.

    It is the value of the metric, or its negative where less is better, minus a thousandth of the
    loss: a share such as accuracy stays the same over several evaluations where rows are few, while
    the model still learns. Of a loss above 10, or of NaN, 10 counts.
    """
    better = -value if metric in LOWER_IS_BETTER else value
    return better - LOSS_SHARE * min(LARGEST_LOSS, loss)


class Metric(NamedTuple):
    """A metric of this package, which is called as a module of `evaluate` is."""

    name: str
    formula: Callable[[np.ndarray, np.ndarray], float]  # of what is true and what is predicted

    def compute(self, *, predictions: Any, references: Any) -> dict[str, float]:
        """Return the value by the name of the metric."""
        return {self.name: float(self.formula(np.array(references), np.array(predictions)))}


def _macro_f1(true: np.ndarray, predicted: np.ndarray) -> float:
    """Return the plain mean over classes of F1 = 2 TP / (2 TP + FP + FN), from 0 to 1.

    A class counts if it is predicted or true. Every label of a multi-label problem counts, with 0
    if it is neither.
    """
    if true.ndim == 2 and true.shape[1] == 1:  # scikit-learn would count the label's absence, too
        return f1_score(true[:, 0], predicted[:, 0], zero_division=0)
    return f1_score(true, predicted, average="macro", zero_division=0)


def _pearson(true: np.ndarray, predicted: np.ndarray) -> float:
    """Return Pearson's correlation, from -1 to 1, the mean over outputs.

    It is NaN of one row, and where all predictions or all references of an output are equal.
    """
    if len(true) == 1:
        return np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)  # the number is NaN then
        return np.mean(pearsonr(true, predicted, axis=0).statistic)


def _bleu(true: np.ndarray, predicted: np.ndarray) -> float:
    """Return sacrebleu's BLEU of plain texts, 0 to 100: cased, tokenised as 13a, one reference."""
    return _sacrebleu().corpus_score(predicted.tolist(), [true.tolist()]).score


def _sacrebleu() -> Any:
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as reason:
        raise ImportError("BLEU needs sacrebleu; pip install 'sase_hf[translation]'") from reason
    return BLEU()


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": accuracy_score,  # share of rows with all labels right (subset accuracy), 0 to 1
    "macro_f1": _macro_f1,
    "mse": mean_squared_error,  # over rows and outputs, 0 or more; less is better
    "pearson": _pearson,
    "bleu": _bleu,
}


def load_metrics(names: Sequence[str] | None, kind: str) -> list[Any]:
    """Load the named metrics; by default those of this package that fit the `kind` of labels.

    Any other name goes to `evaluate.load`: a name on the Hub, or the path of a module. The code of
    the module is then run.

    Raises:
        ValueError: If a metric does not fit the kind or cannot be loaded.
    """
    fitting = DEFAULT_METRICS[kind]
    names = names or fitting
    for name in names:
        if name in METRICS and name not in fitting:
            what = f"--metric_name {name} does not fit {kind}"
            raise refusal(what, f"use {' or '.join(fitting)}")
    return list(map(_load_metric, names))


def _load_metric(name: str) -> Any:
    if name == "bleu":
        _sacrebleu()  # the error comes now, not after a training
    if name in METRICS:
        return Metric(name, METRICS[name])
    try:
        return evaluate.load(name)
    except (OSError, ImportError) as reason:
        what = f"evaluate cannot load the metric {name!r} ({reason})"
        raise refusal(what, f"{', '.join(METRICS)} need no loading") from reason


def numbers_of(results: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers among the results of a metric, which may hold lists beside them."""
    return {name: float(value) for name, value in results.items() if isinstance(value, NUMBER)}


def chosen(logits: Tensor, answers: Answers) -> Tensor:
    """Return the prediction for logits (B, C): the best label (B,), or (B, C).

    The latter is 1 for each label that applies, or the numbers as they are.
    """
    if answers.has_one_label:
        return logits.argmax(-1)
    return (logits > 0).long() if answers.has_labels else logits


def metrics_function(
    modules: Sequence[Any], answers: Answers
) -> Callable[[EvalPrediction], dict[str, float]]:
    """Return the `compute_metrics` of a `Trainer`.

    The modules get class ids (the largest logit); for multi-label problems a 1 for each label with
    a probability above 0.5, else 0; for regression the outputs. What they return is `numbers_of`.
    """
    combined = evaluate.combine(list(modules))

    def compute(evaluated: EvalPrediction) -> dict[str, float]:
        outputs = evaluated.predictions
        logits = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs, np.float64)
        labels = np.asarray(evaluated.label_ids)
        predictions = chosen(torch.from_numpy(logits), answers).numpy().reshape(labels.shape)
        if answers.has_labels:
            labels = labels.astype(int)
        if answers.has_one_label:
            is_counted = labels != IGNORED_LABEL
            predictions = predictions[is_counted]
            labels = labels[is_counted]
        results = combined.compute(predictions=predictions, references=labels)
        return numbers_of(results)

    return compute


# ---- the calibration error of probabilities, and answer sets -------------------------------------
# All need one label per row, ids from 0. Shapes: B rows, C classes.
#
# Sources: Guo et al. 2017, On Calibration of Modern Neural Networks; Sadinle et al. 2019, Least
# Ambiguous Set-Valued Classifiers.


NUM_BINS = 15  # as in the paper's tables


def expected_calibration_error(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean distance between confidence and accuracy, from 0 (best) to 1.

    The confidence of a row is its largest probability. Rows fall into 15 bins of equal width by
    confidence; each bin counts with its share of the rows (equation 3 of the paper). The
    `probabilities` are (B, C), the class ids `labels` (B,).
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    confidence = probabilities.max(1)
    is_right = probabilities.argmax(1) == np.asarray(labels)
    bins = np.ceil(confidence * NUM_BINS).astype(int)  # bin m is ((m - 1) / 15, m / 15]
    # |accuracy - confidence| of a bin times its rows is the distance between the two sums.
    distances = np.bincount(bins, weights=is_right - confidence)
    return float(np.abs(distances).sum() / len(probabilities))


def fit_threshold(probabilities: ArrayLike, labels: ArrayLike, error: float) -> float | None:
    """Return the probability from which on a label belongs to the answer set of a text.

    The set of a new text, which comes as those of the B rows did, lacks the right label with a
    probability of at most `error`. The threshold is the k-th smallest probability of the `labels`
    (B,), k = floor((B + 1) * error): conformal prediction, LAC. None if k is 0: of so few rows,
    only the set of all labels keeps the promise. `probabilities` are (B, C).
    """
    probabilities = np.asarray(probabilities)
    ascending = np.sort(probabilities[np.arange(len(probabilities)), np.asarray(labels)])
    num_allowed = int((len(ascending) + 1) * error)
    if num_allowed == 0:
        return None
    return float(ascending[num_allowed - 1])
