"""A simple model beside a trained one: a linear model over words.

Shapes: B rows, C labels or outputs.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor

from ..models.answers import Answers

MAX_ROWS = 100_000  # of training; more are not worth the time and memory of a report
MAX_WEIGHTS = 4_000_000  # words and pairs of words, times labels
# One logistic regression for each label.
LOGISTIC = LogisticRegression(C=3.0, solver="liblinear")


def labels_of(rows: Dataset, answers: Answers) -> Tensor:
    """Return the labels of rows: ids of the (most probable) class (B,), or floats (B, C)."""
    return answers.labels(torch.tensor(rows["labels"][:]))


def words_of_rows(num_rows: int, num_labels: int) -> TfidfVectorizer:
    """Return what weighs words and pairs of words in encoded rows, of which it learns so many.

    These are at most so many that `MAX_WEIGHTS` weights suffice, the most frequent ones.
    """
    return TfidfVectorizer(
        analyzer=_features,
        min_df=min(2, num_rows),
        max_features=max(MAX_WEIGHTS // num_labels, 1),
        sublinear_tf=True,
    )


def linear_model(train: Dataset, rows: Dataset, answers: Answers) -> np.ndarray:
    """Return the logits (B, C) of a linear model over TF-IDF of words and pairs of words.

    One logistic regression for each label, or a ridge regression of numbers. The settings are
    fixed, not tuned on the evaluated rows. The model learns from at most `MAX_ROWS` rows, evenly
    spaced.
    """
    train = train.select(range(0, len(train), len(train) // MAX_ROWS + 1))
    num_labels = len(answers.names)
    words = words_of_rows(len(train), num_labels)
    known = words.fit_transform(train)
    asked = words.transform(rows)
    labels = labels_of(train, answers).numpy()
    if not answers.has_labels:
        return Ridge().fit(known, labels).predict(asked).reshape(len(rows), num_labels)
    if answers.has_one_label:
        labels = labels[:, None] == np.arange(num_labels)
    logits = np.full((len(rows), num_labels), -np.inf)  # of a label that no row has
    for label, applies in enumerate(labels.T > 0):
        if applies.all():
            logits[:, label] = np.inf
        elif applies.any():
            logits[:, label] = LOGISTIC.fit(known, applies).decision_function(asked)
    return logits


def _features(row: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """Return the words of a row, and the pairs of neighbouring words.

    Of a pair of texts these are those of the second one, and, apart, of the words that only it,
    that both, and that only the first has: a linear model over the words of both texts cannot see
    which words they share. The empty feature is in every row, since scikit-learn refuses rows that
    all are empty.
    """
    words = np.array(row["input_ids"], dtype=int)
    parts = [np.ones(len(words), dtype=bool)]
    if "token_type_ids" in row:
        is_second = np.array(row["token_type_ids"]) == 1
        in_first = np.isin(words, words[~is_second])
        in_second = np.isin(words, words[is_second])
        parts = [is_second, is_second & ~in_first, is_second & in_first, ~in_second]
    features: list[tuple[int, ...]] = [()]
    for part, is_inside in enumerate(parts):
        inside = words[is_inside].tolist()
        features += [(part, word) for word in inside]
        features += [(part, *pair) for pair in pairwise(inside)]
    return features
