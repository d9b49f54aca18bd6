"""The simple models that a report compares with."""

import random
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from sase_hf.evaluation.baselines import linear_model
from sase_hf.models.answers import answers_of_kind

VOCAB_SIZE = 30
PROBLEMS = ["single_label_classification", "multi_label_classification", "regression"]
TWO_LABELS = answers_of_kind("single_label_classification", "ab")
THREE_LABELS = answers_of_kind("single_label_classification", "abc")
TWO_OF_SEVERAL = answers_of_kind("multi_label_classification", "ab")


def made_rows(problem: str, count: int, seed: int) -> Dataset:
    """Return rows whose words 2 and 3 say the label, among others that say nothing."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        label = int(rng.random() < 0.3)
        words = [2 + label] + [rng.randrange(4, VOCAB_SIZE) for _ in range(rng.randrange(5))]
        kinds = {PROBLEMS[0]: label, "regression": float(label)}
        labels = kinds.get(problem, [float(label), 1.0 - label])
        rows.append({"input_ids": rng.sample(words, len(words)), "labels": labels})
    return Dataset.from_list(rows)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_linear_model_learns_which_word_says_the_label(problem: str) -> None:
    train, rows = made_rows(problem, 300, 1), made_rows(problem, 100, 2)
    num_labels = 1 if problem == "regression" else 2
    logits = linear_model(train, rows, answers_of_kind(problem, "ab"[:num_labels]))
    assert logits.shape == (100, num_labels)
    labels = np.array(rows["labels"][:])
    predicted = {PROBLEMS[0]: logits.argmax(-1), PROBLEMS[1]: logits > 0}
    found = predicted.get(problem, logits[:, 0] > 0.5)
    assert (found == (labels > 0.5)).mean() > 0.95


def learned(answers: Any, **columns: list[Any]) -> list[int]:
    """Return the label that the model gives to each of the rows that it learned."""
    data = Dataset.from_dict(columns)
    labels: list[int] = linear_model(data, data, answers).argmax(-1).tolist()
    return labels


def test_linear_model_counts_the_texts_of_a_pair_apart() -> None:
    """The label is whether word 2 stands in the first text or in the second."""
    sides = [row % 2 for row in range(200)]
    types = [[side, 1 - side] for side in sides]
    columns = {"input_ids": [[2, 3]] * len(sides), "token_type_ids": types, "labels": sides}
    assert learned(TWO_LABELS, **columns) == sides


def test_linear_model_sees_which_words_both_texts_of_a_pair_have() -> None:
    """The label is whether the texts, of one word each, are equal: no word of either says it."""
    pairs = [(first, second) for first in range(2, 8) for second in range(2, 8)] * 4
    labels = [int(first == second) for first, second in pairs]
    types = [[0, 1]] * len(pairs)
    assert learned(TWO_LABELS, input_ids=pairs, token_type_ids=types, labels=labels) == labels


def test_linear_model_reads_pairs_of_neighbouring_words() -> None:
    """The same words in another order have another label."""
    labels = [row % 2 for row in range(40)]
    texts = [[2, 3, 4] if label else [4, 3, 2] for label in labels]
    assert learned(TWO_LABELS, input_ids=texts, labels=labels) == labels


def test_linear_model_learns_from_rows_of_the_whole_split_where_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows may be in the order of their labels."""
    monkeypatch.setattr("sase_hf.evaluation.baselines.MAX_ROWS", 12)
    labels = [row // 40 for row in range(120)]
    texts = [[label + 2] for label in labels]
    assert learned(THREE_LABELS, input_ids=texts, labels=labels) == labels


def test_linear_model_never_answers_with_a_label_that_no_training_row_has() -> None:
    labels = [0, 0, 0]
    assert learned(TWO_LABELS, input_ids=[[2], [3], [4]], labels=labels) == labels


def test_linear_model_reads_texts_of_any_length_also_an_empty_one() -> None:
    texts = [[4], [2, 3, 4, 2], [5, 2], [2, 5], [3, 6], []]
    labels = [0, 0, 1, 1, 2, 2]
    found = learned(THREE_LABELS, input_ids=texts, labels=labels)
    assert (np.array(found) == labels).mean() > 0.8
