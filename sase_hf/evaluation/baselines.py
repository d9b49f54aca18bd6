"""Simple models beside a trained one: the most frequent label, and a linear model over words.

Shapes: B rows, C labels or outputs.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from datasets import Dataset
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge, SGDClassifier
from torch import Tensor

from ..models.answers import Answers

MAX_ROWS = 100_000  # of training; more are not worth the time and memory of a report
MAX_WEIGHTS = 4_000_000  # words and pairs of words, times labels
STRENGTH = 3.0  # scikit-learn's C: the larger, the less regularisation
NO_WORD: tuple[int, ...] = ()

# The token ids that a linear model reads of a row: one list, or the four of `_compared`.
Fields = Sequence[Sequence[int]]


def labels_of(rows: Dataset, answers: Answers) -> Tensor:
    """Return the labels of rows: ids of the (most probable) class (B,), or floats (B, C)."""
    return answers.labels(torch.tensor(rows["labels"][:]))


def most_frequent(train: Dataset, num_rows: int, answers: Answers) -> np.ndarray:
    """Return logits (B, C), the same in each row, that predict from the training labels alone.

    The prediction is the most frequent label; for sets of labels, the labels that most rows have;
    for numbers, their mean.
    """
    logits = answers.constant_logits(labels_of(train, answers))
    return np.tile(logits.numpy(), (num_rows, 1))


def linear_model(train: Dataset, rows: Dataset, answers: Answers) -> np.ndarray:
    """Return the logits (B, C) of a linear model over TF-IDF of words and pairs of words.

    One logistic regression for each label, or a ridge regression of numbers. The settings are
    fixed, not tuned on the evaluated rows, and a fixed seed draws the order of the rows. The model
    learns from at most `MAX_ROWS` rows, evenly spaced. It has at most `MAX_WEIGHTS` weights, those
    of the most frequent words and pairs.
    """
    if train.num_rows > MAX_ROWS:
        train = train.select(np.linspace(0, train.num_rows - 1, MAX_ROWS).astype(int))
    num_labels = len(answers.names)
    weigh_words = TfidfVectorizer(
        analyzer=_features,
        min_df=min(2, train.num_rows),
        max_features=max(MAX_WEIGHTS // num_labels, 1),
        sublinear_tf=True,
    )
    known = weigh_words.fit_transform(_fields_of(train))
    asked = weigh_words.transform(_fields_of(rows))
    labels = labels_of(train, answers).numpy()
    if not answers.has_labels:
        return Ridge().fit(known, labels).predict(asked).reshape(rows.num_rows, num_labels)
    if answers.has_one_label:
        labels = labels[:, None] == np.arange(num_labels)
    return np.stack([_log_odds(known, applies > 0, asked) for applies in labels.T], axis=1)


def _log_odds(known: csr_matrix, applies: np.ndarray, asked: csr_matrix) -> np.ndarray:
    """Return the logits of a label for `asked` rows (B,), learnt from whether it `applies` (N,).

    `known` and `asked` are sparse matrices of N and B rows of features.
    """
    num_asked = asked.shape[0]
    if applies.all():
        return np.full(num_asked, np.inf)
    if not applies.any():
        return np.full(num_asked, -np.inf)
    penalty = 1 / (STRENGTH * len(applies))
    regression = SGDClassifier(loss="log_loss", alpha=penalty, random_state=0)
    return regression.fit(known, applies).decision_function(asked)


def _fields_of(rows: Dataset) -> Iterator[Fields]:
    """Yield the tokens of each row; of a pair of texts, what a linear model can compare."""
    if "token_type_ids" not in rows.column_names:
        for row in rows:
            yield [row["input_ids"]]
        return
    for row in rows:
        first: list[int] = []
        second: list[int] = []
        for token, side in zip(row["input_ids"], row["token_type_ids"], strict=True):
            (second if side else first).append(token)
        yield _compared(first, second)


def _compared(first: Sequence[int], second: Sequence[int]) -> Fields:
    """Return the second text, and the words that only it, that both, and that only the first has.

    A linear model over the words of both texts cannot see which words they share.
    """
    in_first = set(first)
    in_second = set(second)
    new = [word for word in second if word not in in_first]
    shared = [word for word in second if word in in_first]
    gone = [word for word in first if word not in in_second]
    return second, new, shared, gone


def _features(fields: Fields) -> list[tuple[int, ...]]:
    """Return the words of all fields, and the pairs of neighbouring words.

    `NO_WORD` is in every row, since scikit-learn refuses rows that all are empty.
    """
    features = [NO_WORD]
    for field, words in enumerate(fields):
        features += [(field, word) for word in words]
        features += [(field, *pair) for pair in pairwise(words)]
    return features
