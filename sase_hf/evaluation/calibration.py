"""The calibration error of probabilities, the temperature that lowers it, and answer sets.

All need one label per row, and raise ValueError for other labels: a negative id, such as that of a
row without a label, would count from the last class. Shapes: B rows, C classes.

Sources: Guo et al. 2017, On Calibration of Modern Neural Networks; Sadinle et al. 2019, Least
Ambiguous Set-Valued Classifiers.
"""

import numpy as np
from numpy.typing import ArrayLike

from ..utils.errors import refusal

NUM_BINS = 15  # as in the paper's tables

# Bounds of the temperature: if all rows are right, or all wrong, no finite temperature is best.
LOWEST, HIGHEST = 0.01, 100.0


def expected_calibration_error(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean distance between confidence and accuracy, from 0 (best) to 1.

    The confidence of a row is its largest probability. Rows fall into 15 bins of equal width by
    confidence; each bin counts with its share of the rows (equation 3 of the paper). The
    `probabilities` are (B, C), the class ids `labels` (B,).
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    class_ids = _class_ids(labels, *probabilities.shape)
    is_negative = (probabilities < 0).any()
    if is_negative or not np.allclose(probabilities.sum(1), 1, atol=1e-3):
        raise refusal("probabilities do not sum to 1", "take the softmax of logits")
    confidence = probabilities.max(1)
    is_right = probabilities.argmax(1) == class_ids
    bins = np.ceil(confidence * NUM_BINS).astype(int)  # bin m is ((m - 1) / 15, m / 15]
    # |accuracy - confidence| of a bin times its rows is the distance between the two sums.
    distances = np.bincount(bins, weights=is_right - confidence)
    return float(np.abs(distances).sum() / len(class_ids))


def fit_temperature(logits: ArrayLike, labels: ArrayLike) -> float:
    """Return the temperature T that makes the labels most likely under softmax(logits / T).

    T lies between 0.01 and 100, above 1 where the model is too confident; dividing by T changes no
    prediction. The mean negative log-likelihood is convex in 1 / T, so its slope has one root,
    which bisection finds (section 4.2 of the paper).

    The rows are outside the training; `logits` are (B, C), the class ids `labels` (B,).
    """
    logits = np.asarray(logits, dtype=np.float64)
    class_ids = _class_ids(labels, *logits.shape)
    shifted = logits - logits.max(1, keepdims=True)  # exp never overflows
    mean_of_labels = _of_labels(shifted, class_ids).mean()
    low = np.log(LOWEST)
    high = np.log(HIGHEST)
    while high - low > 1e-6:
        middle = (low + high) / 2
        weights = np.exp(shifted / np.exp(middle))
        expected = (weights * shifted).sum(1) / weights.sum(1)
        if expected.mean() > mean_of_labels:  # the slope in 1 / T is positive: T is too low
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


def fit_threshold(probabilities: ArrayLike, labels: ArrayLike, error: float) -> float | None:
    """Return the probability from which on a label belongs to the answer set of a text.

    The set of a new text, which comes as those of the B rows did, lacks the right label with a
    probability of at most `error`. The threshold is the k-th smallest probability of the `labels`
    (B,), k = floor((B + 1) * error): conformal prediction, LAC. None if k is 0: of so few rows,
    only the set of all labels keeps the promise. `probabilities` are (B, C).
    """
    probabilities = np.asarray(probabilities)
    class_ids = _class_ids(labels, *probabilities.shape)
    ascending = np.sort(_of_labels(probabilities, class_ids))
    num_allowed = int((len(ascending) + 1) * error)
    if num_allowed == 0:
        return None
    return float(ascending[num_allowed - 1])


def _of_labels(values: np.ndarray, class_ids: np.ndarray) -> np.ndarray:
    """Return of each row of values (B, C) that of its class: (B,)."""
    return values[np.arange(len(class_ids)), class_ids]


def _class_ids(labels: ArrayLike, num_rows: int, num_classes: int) -> np.ndarray:
    """Return labels as an array (B,) of class ids, or raise ValueError."""
    ids = np.asarray(labels)
    if ids.shape != (num_rows,) or ids.dtype.kind not in "iu":
        raise refusal(
            f"labels has shape {ids.shape} and type {ids.dtype}",
            f"it must have one class id per row, ({num_rows},) integers",
        )
    unknown = ids[(ids < 0) | (ids >= num_classes)]
    if len(unknown):
        raise refusal(
            f"labels holds {unknown[0]}",
            f"the classes are 0 to {num_classes - 1}. Leave out rows without a label",
        )
    return ids
