"""Rows whose label the other rows speak against: many of them have a wrong label.

A logistic regression over TF-IDF of words and pairs of words judges each fifth of the rows after
learning from the others, so that no row speaks for its own label. Of rows with equal texts and one
label, which would speak for one another, the first is judged.

Shapes: N judged rows, C labels.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import regex
from datasets import Dataset
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline

from ..data.repeats import text_digests
from ..utils.text import UNSPACED
from .baselines import STRENGTH

NUM_PARTS = 5  # of the rows; a label has as many rows, or is not judged
LEAST_ROWS = 50  # fewer say too little about one another
MAX_JUDGED = 10_000  # rows, evenly spaced
MAX_READ = 1000  # characters of a text
MAX_ROWS = 1000  # that are returned: more than a person reads
MAX_SHARE = 0.1  # of the judged rows, which are returned at most
MAX_FEATURES = 100_000  # words and pairs of words, the most frequent ones
MAX_STEPS = 1000  # of a regression
TOLERANCE = 1e-3  # where it stops; the order hardly depends on it
NUM_WORDS = 5  # that speak for a suggestion

# A word, or a single character that is no punctuation, or of a script without blanks.
_WORD = regex.compile(
    rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]+|[^\p{{P}}\s]\p{{M}}*", regex.VERSION1
)


class Doubt(NamedTuple):
    """A row with a doubtful label.

    row: its number among the rows, from 0.
    suggested: the id of the most likely label.
    probability: of the suggestion, and `label_probability` that of the label.
    why: the words and pairs of words that speak most for the suggestion and against the label.
    """

    row: int
    suggested: int
    probability: float
    label_probability: float
    why: list[str]


def doubtful_rows(rows: Dataset, labels: np.ndarray) -> Iterator[Doubt]:
    """Yield rows for which another label is more likely, by `shares_of_usual`, the least first.

    They are at most `MAX_SHARE` of the rows, which have a `text` and the ids of their `labels`.
    """
    numbers, probabilities = judge(rows, labels)
    if not len(numbers):
        return
    labels = labels[numbers]
    best = probabilities.argmax(1)
    order = shares_of_usual(probabilities, labels).argsort(kind="stable")
    most = min(MAX_ROWS, math.floor(MAX_SHARE * len(order)))
    texts = _texts_of(rows, numbers)
    weigh_words, regression = model = _model()
    model.fit(texts, labels)
    names = weigh_words.get_feature_names_out()
    weights = regression.coef_
    if len(weights) == 1:  # of two labels: how much more the second one has than the first
        weights = np.vstack([-weights, weights])
    of_label = dict(zip(regression.classes_, weights, strict=True))
    for place in order[best[order] != labels[order]][:most]:
        words = weigh_words.transform([texts[place]])
        spoken = words.data * (of_label[best[place]] - of_label[labels[place]])[words.indices]
        strongest = (-spoken).argsort()[:NUM_WORDS]
        yield Doubt(
            row=int(numbers[place]),
            suggested=int(best[place]),
            probability=probabilities[place, best[place]],
            label_probability=probabilities[place, labels[place]],
            why=[names[words.indices[word]] for word in strongest if spoken[word] > 0],
        )


def judge(rows: Dataset, labels: np.ndarray) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the numbers of the judged rows (N,), and the probabilities of their labels (N, C).

    None are judged if they are fewer than `LEAST_ROWS` or have one label.
    """
    of_text_and_label = text_digests(rows, ["text"]) + labels.astype(np.uint64)
    numbers = np.sort(np.unique(of_text_and_label, return_index=True)[1])
    numbers = numbers[:: len(numbers) // MAX_JUDGED + 1]
    has_words = [_WORD.search(text) is not None for text in _texts_of(rows, numbers)]
    numbers = numbers[np.array(has_words, dtype=bool)]
    numbers = numbers[np.bincount(labels[numbers])[labels[numbers]] >= NUM_PARTS]
    classes = np.unique(labels[numbers])
    if len(numbers) < LEAST_ROWS or len(classes) < 2:
        return numbers[:0], np.zeros((0, 0))
    probabilities = np.zeros((len(numbers), classes[-1] + 1))
    probabilities[:, classes] = cross_val_predict(
        _model(), _texts_of(rows, numbers), labels[numbers], cv=NUM_PARTS, method="predict_proba"
    )
    return numbers, probabilities


def shares_of_usual(probabilities: np.ndarray, labels: np.ndarray) -> NDArray[np.float64]:
    """Return the probability of each label (N,) over the mean of the rows with that label: (N,).

    By the probability alone, all rows of a rare label would be the most doubtful.
    """
    given = probabilities[np.arange(len(labels)), labels]
    usual = np.bincount(labels, given) / np.bincount(labels).clip(min=1)
    shares: NDArray[np.float64] = given / usual[labels]
    return shares


def _texts_of(rows: Dataset, numbers: np.ndarray) -> list[str]:
    return [text[:MAX_READ] for text in rows.select(numbers)["text"]]


def _model() -> Pipeline:
    options = {"tokenizer": _WORD.findall, "token_pattern": None, "ngram_range": (1, 2)}
    words = TfidfVectorizer(**options, max_features=MAX_FEATURES)
    return make_pipeline(words, LogisticRegression(C=STRENGTH, tol=TOLERANCE, max_iter=MAX_STEPS))
