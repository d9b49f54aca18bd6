"""The simple models that a report compares with."""

import itertools
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from sase_hf.evaluation.baselines import linear_model
from sase_hf.models.answers import answers_of_kind

TWO_LABELS = answers_of_kind("single_label_classification", "ab")


@pytest.mark.parametrize(
    ("problem", "values", "border"),
    [
        ("multi_label_classification", [[0.0, 1.0], [1.0, 0.0]], 0),
        ("regression", [[0.0], [1.0]], 0.5),
    ],
)
def test_linear_model_learns_which_word_says_the_label(
    problem: str, values: list[list[float]], border: float
) -> None:
    labels = np.squeeze(values * 50).tolist()
    rows = Dataset.from_dict({"input_ids": [[2, 4], [4, 3]] * 50, "labels": labels})
    logits = linear_model(rows, rows, answers_of_kind(problem, "ab"[: len(values[0])]))
    assert (logits > border).tolist() == values * 50


def learned(answers: Any, **columns: list[Any]) -> list[int]:
    """Return the label that the model gives to each of the rows that it learned."""
    data = Dataset.from_dict(columns)
    labels: list[int] = linear_model(data, data, answers).argmax(-1).tolist()
    return labels


def test_linear_model_counts_the_texts_of_a_pair_apart() -> None:
    """The label is whether word 2 stands in the first text or in the second."""
    sides, types = [0, 1] * 100, [[0, 1], [1, 0]] * 100
    ids = [[2, 3]] * 200
    assert learned(TWO_LABELS, input_ids=ids, token_type_ids=types, labels=sides) == sides


def test_linear_model_sees_which_words_both_texts_of_a_pair_have() -> None:
    """The label is whether the texts, of one word each, are equal: no word of either says it."""
    pairs = [*itertools.product(range(2, 8), repeat=2)] * 4
    labels = [int(first == second) for first, second in pairs]
    types = [[0, 1]] * len(pairs)
    assert learned(TWO_LABELS, input_ids=pairs, token_type_ids=types, labels=labels) == labels


def test_linear_model_learns_from_rows_of_the_whole_split_where_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows may be in the order of their labels. Here pairs of neighbouring words say the label."""
    monkeypatch.setattr("sase_hf.evaluation.baselines.MAX_ROWS", 12)
    labels = [0] * 60 + [1] * 60
    texts = [[4, 3, 2]] * 60 + [[2, 3, 4]] * 60
    assert learned(TWO_LABELS, input_ids=texts, labels=labels) == labels


def test_linear_model_never_answers_with_a_label_that_no_training_row_has() -> None:
    labels = [0, 0, 0]
    assert learned(TWO_LABELS, input_ids=[[2], [3], [4]], labels=labels) == labels
