"""Logistic regression on TF-IDF of words and pairs of words.

Imports neither torch nor this package: the leaderboard measures the whole process.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

STRENGTHS = (0.3, 1.0, 3.0, 10.0)  # scikit-learn's C: the larger, the less regularisation

# One or two columns of texts, such as premises and hypotheses.
Columns = Sequence[Sequence[str]]


WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class LinearModel:
    """A fitted model, and the accuracy of each strength on the validation rows."""

    vectorizers: list[Any]
    classifier: Any
    accuracies: dict[float, float]

    def probabilities(self, columns: Columns) -> np.ndarray:
        """Return the probabilities of `classifier.classes_` for B rows, shape (B, C)."""
        return np.asarray(self.classifier.predict_proba(_features(self.vectorizers, columns)))


def fit_linear(
    columns: Columns,
    labels: Sequence[int],
    validation_columns: Columns,
    validation_labels: Sequence[int],
    strengths: Iterable[float] = STRENGTHS,
) -> LinearModel:
    """Fit with each strength and keep the one that is best on the validation rows.

    A linear model cannot compare the texts of a pair, so what it gets is compared: the second text,
    and the words that only the second, both, and only the first text have.

    Raises:
        ImportError: If scikit-learn is missing.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
    except ImportError as reason:
        raise ImportError("needs scikit-learn: pip install 'sase_hf[baselines]'") from reason
    from scipy.sparse import hstack

    options = {"ngram_range": (1, 2), "min_df": 2, "sublinear_tf": True}
    vectorizers, sides = [], []
    for texts in _compared(columns):
        vectorizers.append(TfidfVectorizer(**options))
        sides.append(vectorizers[-1].fit_transform(texts))
    train = hstack(sides, format="csr")
    validation = _features(vectorizers, validation_columns)
    accuracies: dict[float, float] = {}
    best = None
    for strength in strengths:
        model = LogisticRegression(C=strength, max_iter=1000).fit(train, labels)
        accuracy = float(model.score(validation, validation_labels))
        if best is None or accuracy > max(accuracies.values()):
            best = model
        accuracies[strength] = accuracy
    return LinearModel(vectorizers, best, accuracies)


def _features(vectorizers: Sequence[Any], columns: Columns) -> Any:
    """Return the features of all texts of a row side by side, sparse, shape (B, F)."""
    from scipy.sparse import hstack

    texts = zip(vectorizers, _compared(columns), strict=True)
    return hstack([words.transform(own) for words, own in texts], format="csr")


def _compared(columns: Columns) -> Columns:
    """Return one column as it is; for two columns of a pair the four of `fit_linear`."""
    if len(columns) == 1:
        return columns
    rows = []
    for first, second in zip(*columns, strict=True):
        ours, theirs = (WORD.findall(text.lower()) for text in (first, second))
        in_first, in_second = set(ours), set(theirs)
        parts = (
            [word for word in theirs if word not in in_first],
            [word for word in theirs if word in in_first],
            [word for word in ours if word not in in_second],
        )
        rows.append((second, *map(" ".join, parts)))
    return list(zip(*rows, strict=True))
