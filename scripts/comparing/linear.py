"""Logistic regression on TF-IDF of words and pairs of words.

Imports neither torch nor this package: the leaderboard measures the whole process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

STRENGTHS = (0.3, 1.0, 3.0, 10.0)  # scikit-learn's C: the larger, the less regularisation

# One or two columns of texts, such as premises and hypotheses.
Columns = Sequence[Sequence[str]]


@dataclass(frozen=True)
class LinearModel:
    """A fitted model, and the accuracy of each strength on the validation rows."""

    words: Any
    classifier: Any
    accuracies: dict[float, float]

    def probabilities(self, columns: Columns) -> np.ndarray:
        """Return the probabilities of `classifier.classes_` for B rows, shape (B, C)."""
        features = _features(self.words.transform(chain(*columns)), len(columns))
        return np.asarray(self.classifier.predict_proba(features))


def fit_linear(
    columns: Columns,
    labels: Sequence[int],
    validation_columns: Columns,
    validation_labels: Sequence[int],
    strengths: Iterable[float] = STRENGTHS,
) -> LinearModel:
    """Fit with each strength and keep the one that is best on the validation rows.

    Raises:
        ImportError: If scikit-learn is missing.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
    except ImportError as reason:
        raise ImportError("needs scikit-learn: pip install 'sase_hf[baselines]'") from reason
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    train = _features(words.fit_transform(chain(*columns)), len(columns))
    validation = _features(words.transform(chain(*validation_columns)), len(columns))
    accuracies: dict[float, float] = {}
    best = None
    for strength in strengths:
        model = LogisticRegression(C=strength, max_iter=1000).fit(train, labels)
        accuracy = float(model.score(validation, validation_labels))
        if best is None or accuracy > max(accuracies.values()):
            best = model
        accuracies[strength] = accuracy
    return LinearModel(words, best, accuracies)


def _features(rows: Any, num_columns: int) -> Any:
    """Return the features of texts, shape (B, F): u of one text; u, v, |u - v| and u * v of a pair.

    A linear model cannot compare the texts of a pair itself. `rows` are the sparse features of the
    first texts and, of pairs, below them those of the second.
    """
    from scipy.sparse import hstack

    if num_columns == 1:
        return rows
    u, v = rows[: rows.shape[0] // 2], rows[rows.shape[0] // 2 :]
    return hstack([u, v, abs(u - v), u.multiply(v)], format="csr")
