"""The linear rivals: TF-IDF of words, of words and characters, and NB-SVM, by scikit-learn.

Cross-validation chooses the strength of the regularisation; the model learns all rows.
"""

import re
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # scikit-learn's C: the larger, the freer
FOLDS = 5
MAX_ROWS = 10_000  # that choose the strength
WORD = re.compile(r"\w+")


class NaiveBayesRatios(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The presence of words times how much more often they stand in the texts of a class."""

    def fit(self, counts: csr_array, is_class: np.ndarray) -> Self:
        """Learn the log ratio of each word, with each seen once more in either class."""
        inside, outside = (1 + counts[is_class == side].sum(0) for side in (1, 0))
        self.ratios_ = np.log(inside / inside.sum()) - np.log(outside / outside.sum())
        return self

    def transform(self, counts: csr_array) -> csr_array:
        """Return the scaled presences (N, F)."""
        return counts.multiply(self.ratios_.reshape(1, -1)).tocsr()


def fit_linear(
    kind: str, columns: np.ndarray, labels: np.ndarray, seed: int
) -> tuple[Pipeline, dict[str, Any]]:
    """Return a model of columns of texts (N, K) and class ids (N,), and its settings."""
    words = {"token_pattern": r"(?u)\b\w+\b", "ngram_range": (1, 2)}
    tfidf = TfidfVectorizer(sublinear_tf=True, **words)
    characters = TfidfVectorizer(
        sublinear_tf=True, analyzer="char_wb", ngram_range=(2, 5), min_df=2
    )
    vectorizers: dict[str, Any] = {
        "tfidf": tfidf,
        "tfidf_characters": make_union(tfidf, characters),
        "nbsvm": CountVectorizer(binary=True, **words),
    }
    parts = [(str(column), vectorizers[kind], column) for column in range(columns.shape[1])]
    classifier: Any = LogisticRegression(max_iter=1000)
    name = "C"
    if kind == "nbsvm":
        classifier = OneVsRestClassifier(make_pipeline(NaiveBayesRatios(), classifier))
        name = "estimator__logisticregression__C"
    features = ColumnTransformer(parts, sparse_threshold=1)
    known = features.fit_transform(columns).tocsr()
    drawn = np.random.default_rng(seed).permutation(len(labels))[:MAX_ROWS]
    search = GridSearchCV(classifier, {name: STRENGTHS}, cv=KFold(FOLDS), refit=False)
    search.fit(known[drawn], labels[drawn])
    accuracies = search.cv_results_["mean_test_score"].tolist()
    classifier.set_params(**search.best_params_).fit(known, labels)
    settings = {
        "C": search.best_params_[name],
        "accuracies": dict(zip(STRENGTHS, accuracies, strict=True)),
    }
    return make_pipeline(features, classifier), settings


def columns_of(rows: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the columns that a linear model reads, shape (N, 1), or (N, 4) for pairs.

    It cannot compare the texts of a pair. So it gets the second text, and the words that only the
    second, both, and only the first text have.
    """
    if len(rows[0]) == 1:
        return np.array(rows, dtype=object)
    columns = []
    for texts in rows:
        first, second = (WORD.findall(text.lower()) for text in texts)
        only_second = " ".join(word for word in second if word not in first)
        both = " ".join(word for word in second if word in first)
        only_first = " ".join(word for word in first if word not in second)
        columns.append([texts[1], only_second, both, only_first])
    return np.array(columns, dtype=object)
