"""Rows whose label the other rows speak against."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from datasets import Dataset, concatenate_datasets

from sase_hf.evaluation.baselines import doubtful_rows, judge, shares_of_usual
from sase_hf.models.answers import SingleLabel

WORDS = (3, 4, 5)  # each is in the texts of one label
ANSWERS = SingleLabel("abc")


def tokens_of(true: Sequence[int], given: Sequence[int]) -> Dataset:
    """Return different texts, each with the word of its true label."""
    draws = np.random.default_rng(0).integers(6, 11, size=(len(true), 3)).tolist()
    texts = [
        [*words, WORDS[label], 20 + n]
        for n, (words, label) in enumerate(zip(draws, true, strict=True))
    ]
    return Dataset.from_dict({"input_ids": texts, "labels": given})


def rows_of(tokens: Dataset) -> Dataset:
    return Dataset.from_dict({"text": [" ".join(map(str, ids)) for ids in tokens["input_ids"]]})


def labels_of(count: int) -> list[int]:
    return [number % 3 for number in range(count)]


def true_of(tokens: Dataset) -> np.ndarray:
    """Return what a model would choose that knows the words."""
    return np.array([WORDS.index(ids[3]) for ids in tokens["input_ids"]])


def doubts_of(
    tokens: Dataset, choose: Callable[[Dataset], np.ndarray] = true_of, count: int = 10
) -> list[Any]:
    validation = tokens_of(labels_of(count), labels_of(count))
    doubts = doubtful_rows(
        rows_of(tokens), tokens, validation, ANSWERS, lambda asked: np.eye(3)[choose(asked)]
    )
    return [*doubts.itertuples()]


WRONG = range(3, 120, 13)


def with_wrong_labels() -> Dataset:
    """Return 120 rows, of which those in `WRONG` have the label after theirs."""
    given = labels_of(120)
    for row in WRONG:
        given[row] = (given[row] + 1) % 3
    return tokens_of(labels_of(120), given)


def test_doubtful_rows_have_a_wrong_label() -> None:
    doubts = doubts_of(with_wrong_labels())
    assert len(WRONG) / 2 < len(doubts) <= len(WRONG)
    for doubt in doubts:
        assert doubt.row in WRONG
        assert doubt.suggested == doubt.row % 3
        assert doubt.probability > doubt.label_probability


def test_doubtful_rows_are_those_of_which_the_model_thinks_so_too() -> None:
    tokens = with_wrong_labels()
    learned = tokens["input_ids"][doubts_of(tokens)[0].row]

    def choose(asked: Dataset) -> np.ndarray:
        is_learned = np.array([ids == learned for ids in asked["input_ids"]])
        return np.where(is_learned, (true_of(asked) + 1) % 3, true_of(asked))

    [first, *_] = doubts_of(tokens)
    assert first.row not in [doubt.row for doubt in doubts_of(tokens, choose)]


def test_doubtful_rows_of_a_judge_far_behind_the_model_are_none() -> None:
    """The judge errs as often as labels are wrong, the model never in 120 rows."""
    assert doubts_of(with_wrong_labels(), count=10)
    assert doubts_of(with_wrong_labels(), count=120) == []


def test_doubtful_rows_of_a_judge_that_knows_the_frequent_label_alone_are_none() -> None:
    rare = np.random.default_rng(5).integers(12, size=120) // 11
    assert not doubts_of(tokens_of([0] * 120, rare.tolist()))


def test_doubtful_rows_of_hops_that_choose_one_label_are_none() -> None:
    """They accuse many rows, but new ones as often."""
    assert doubts_of(with_wrong_labels(), lambda asked: np.zeros(len(asked), int), count=30) == []


def test_shares_are_of_what_is_usual_for_the_label() -> None:
    """A rare label is never likely, and half of what is usual for it is no more doubtful."""
    probabilities = np.array([[0.9, 0.1, 0], [0.7, 0.3, 0], [0.6, 0.4, 0], [0.8, 0.2, 0]])
    shares = shares_of_usual(probabilities, np.array([0, 0, 1, 1]))
    expected = [[0.9 / 0.8, 0.1 / 0.3, 0], [0.6 / 0.8, 0.4 / 0.3, 0]]
    np.testing.assert_allclose(shares[[0, 2]], expected)


def test_doubtful_rows_do_not_speak_for_their_own_label() -> None:
    """Nor do rows with equal texts."""
    tokens = with_wrong_labels()
    ids = tokens["input_ids"][WRONG[0]]
    copies = Dataset.from_dict({"input_ids": [ids] * 5, "labels": [tokens["labels"][WRONG[0]]] * 5})
    rows = concatenate_datasets([tokens, copies])
    _, probabilities = judge(rows_of(rows), rows, ANSWERS)
    assert (probabilities[[WRONG[0], *range(120, 125)]].argmax(1) == WRONG[0] % 3).all()


def test_doubtful_rows_leave_out_a_label_of_few_texts() -> None:
    """Hardly any other row can say how such a text looks."""
    true = [0, 1] * 30
    tokens = tokens_of([*true, *[0] * 4], [*true, *[2] * 4]).select([*range(64), 63])
    assert doubts_of(tokens) == []
    assert judge(rows_of(tokens), tokens, ANSWERS)[0].tolist() == list(range(60))
