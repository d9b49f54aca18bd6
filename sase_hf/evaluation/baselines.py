"""What the words alone tell: rivals of a trained model, and a judge of doubtful labels.

Shapes: B rows, C labels or outputs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from torch import Tensor

from ..data.table import text_digests
from ..data.tokenizer import cut, untrained
from ..models.answers import Answers

MAX_ROWS = 100_000  # of training; more are not worth the time and memory of a report
QUERIES = 256  # whose scores are in memory at once
MAX_WEIGHTS = 4_000_000  # words and pairs of words, times labels
# One logistic regression for each label.
LOGISTIC = LogisticRegression(C=3.0, solver="liblinear")


def labels_of(rows: Dataset, answers: Answers) -> Tensor:
    """Return the labels of rows: ids of the (most probable) class (B,), or floats (B, C)."""
    labels = torch.tensor(rows["labels"][:])
    if not answers.has_one_label:
        return labels.float().reshape(-1, len(answers.names))
    return labels if labels.ndim == 1 else labels.argmax(1)


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


def ranks_by_words(queries: Sequence[str], documents: Sequence[str]) -> Tensor:
    """Return the rank of document i among all for query i, by TF-IDF of their words, (Q,).

    Documents of equal scores stay in their order.
    """
    words = TfidfVectorizer(analyzer=partial(cut, tokenizer=untrained()), sublinear_tf=True)
    known = words.fit_transform(documents).T.tocsr()
    asked = words.transform(queries)
    places = np.arange(len(documents))
    ranks = []
    for own in np.array_split(places, len(places) // QUERIES + 1):
        scores = (asked[own] @ known).toarray()
        column = own[:, None]
        of_own = np.take_along_axis(scores, column, 1)
        is_before = (scores > of_own) | ((scores == of_own) & (places < column))
        ranks.append(1 + is_before.sum(1))
    return torch.from_numpy(np.concatenate(ranks))


# ---- rows whose label the other rows speak against -----------------------------------------------
# The linear model of the report judges each fifth of the rows after learning from the others, so
# that no row, nor another one with its text, speaks for its own label. A row is doubtful if the
# hops of the model, too, prefer another label. (The words of a model learn wrong labels by
# heart.)
#
# Sources: Northcutt et al. 2021, Confident Learning. Shapes: N judged rows, C labels.


NUM_PARTS = 5  # of the rows; a label has as many rows, or is not judged
MAX_JUDGED = 10_000  # rows, evenly spaced
# A judge that errs so many times as often as the model lacks what the labels depend on.
MOST_ERRORS = 2.0


def doubtful_rows(
    rows: Dataset,
    tokens: Dataset,
    validation: Dataset,
    answers: Answers,
    logits_of_hops: Callable[[Dataset], NDArray[np.float32]],
) -> pd.DataFrame:
    """Return the rows for which another label is more likely, by `shares_of_usual`, least first.

    The columns: `row`, its number among the rows, from 0; the id of its `label`, and of the one
    that is `suggested`, with the `probability` and the `label_probability`. The rows are as many as
    the hops accuse beyond chance, and none if the judge is weak: it accuses more rows than have
    another label than the most frequent one, or far more than hops err on the validation rows.

    Args:
        rows: The training rows, with a `text`.
        tokens: The same rows, encoded, with one label each.
        validation: Other encoded rows.
        answers: Those of the model.
        logits_of_hops: Returns those of encoded rows, (B, C).
    """
    numbers, probabilities = judge(rows, tokens, answers)
    labels = labels_of(tokens, answers).numpy()[numbers]
    shares = shares_of_usual(probabilities, labels)
    suggested = shares.argmax(1)
    each = np.arange(len(labels))
    judged = pd.DataFrame(
        {
            "row": numbers,
            "label": labels,
            "label_probability": probabilities[each, labels],
            "suggested": suggested,
            "probability": probabilities[each, suggested],
            "share": shares[each, labels],
        }
    )
    if judged.empty:
        return judged
    is_accused = suggested != labels
    errors = logits_of_hops(validation).argmax(1) != labels_of(validation, answers).numpy()
    share_of_errors = (errors.sum() + 1) / (len(errors) + 1)
    share_of_others = 1 - np.bincount(labels).max() / len(labels)
    if not 0 < is_accused.mean() <= min(MOST_ERRORS * share_of_errors, share_of_others):
        return judged[:0]
    accused = judged[is_accused].sort_values("share", kind="stable")
    of_hops = logits_of_hops(tokens.select(accused["row"])).argmax(1)
    agreed = accused[of_hops != accused["label"]]
    # Hops that say nothing accuse these rows as often as new ones.
    num_by_chance = round(len(accused) * share_of_errors)
    return agreed[: max(len(agreed) - num_by_chance, 0)]


def judge(
    rows: Dataset, tokens: Dataset, answers: Answers
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the numbers of the judged rows (N,), and the probabilities of their labels (N, C).

    The rows have a `text`, and their `tokens` one label each. Judged are labels with some texts,
    unless it is one label.
    """
    labels = labels_of(tokens, answers).numpy()
    numbers = np.arange(len(labels))[:: len(labels) // MAX_JUDGED + 1]
    texts = pd.Series(text_digests(rows.select(numbers)))
    is_judged = texts.groupby(labels[numbers]).transform("nunique") >= NUM_PARTS
    numbers = numbers[is_judged]
    labels = labels[numbers]
    if len(np.unique(labels)) < 2:
        return numbers[:0], np.zeros((0, len(answers.names)))
    words = words_of_rows(len(numbers), len(answers.names))
    probabilities = np.zeros((len(numbers), len(answers.names)))
    probabilities[:, np.unique(labels)] = cross_val_predict(
        OneVsRestClassifier(LOGISTIC),
        words.fit_transform(tokens.select(numbers)),
        labels,
        groups=texts[is_judged],
        cv=StratifiedGroupKFold(NUM_PARTS),
        method="predict_proba",
    )
    return numbers, probabilities


def shares_of_usual(probabilities: np.ndarray, labels: np.ndarray) -> NDArray[np.float64]:
    """Return each probability (N, C) over the mean that it has in the rows with its label: (N, C).

    By the probability alone, all rows of a rare label would be the most doubtful.
    """
    given = pd.Series(probabilities[np.arange(len(labels)), labels])
    usual = given.groupby(labels).mean().reindex(range(probabilities.shape[1]))
    shares: NDArray[np.float64] = probabilities / usual.fillna(np.inf).to_numpy()
    return shares
