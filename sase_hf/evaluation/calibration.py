"""The calibration error of probabilities, and answer sets.

All need one label per row, ids from 0. Shapes: B rows, C classes.

Sources: Guo et al. 2017, On Calibration of Modern Neural Networks; Sadinle et al. 2019, Least
Ambiguous Set-Valued Classifiers.
"""

import numpy as np
from numpy.typing import ArrayLike

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
    ascending = np.sort(_of_labels(probabilities, labels))
    num_allowed = int((len(ascending) + 1) * error)
    if num_allowed == 0:
        return None
    return float(ascending[num_allowed - 1])


def _of_labels(values: np.ndarray, labels: ArrayLike) -> np.ndarray:
    """Return of each row of values (B, C) that of its class: (B,)."""
    return values[np.arange(len(values)), np.asarray(labels)]
