"""The baselines that a model is compared with: what they can learn, and what they cannot."""

import pytest
import torch
from datasets import Dataset, DatasetDict

from sase_hf.evaluation.baselines import bag_of_words_accuracy, majority_accuracy


def splits(rows: list[tuple[list[int], int]], **columns: list[list[int]]) -> DatasetDict:
    """Return the same rows, pairs of word ids and label, as every split."""
    data = {"input_ids": [ids for ids, _ in rows], "labels": [label for _, label in rows]}
    split = Dataset.from_dict(data | columns)
    return DatasetDict(train=split, validation=split, test=split)


def test_the_majority_is_that_of_the_training_rows() -> None:
    """Looking it up in the test rows would be an answer nobody could have given."""
    train = Dataset.from_dict({"labels": [0, 1, 1]})
    test = Dataset.from_dict({"labels": [0, 0, 0, 1]})
    assert majority_accuracy(DatasetDict(train=train, test=test)) == 0.25


def test_a_word_that_decides_is_found() -> None:
    """Wherever it stands, and in a row of any length."""
    rows = [([4], 0), ([2, 3, 4, 2], 0), ([5, 2], 1), ([2, 2, 3, 3, 5], 1), ([3, 6], 2), ([6], 2)]
    assert bag_of_words_accuracy(splits(rows), 7) == 1.0


def test_how_often_a_word_occurs_counts() -> None:
    """The features are counts: "very very good" is not "very good"."""
    assert bag_of_words_accuracy(splits([([2], 0), ([2, 2, 2], 1)]), 3, [0.0]) == 1.0


def test_word_order_and_negation_are_out_of_reach() -> None:
    """These are what the synthetic corpus asks of a model."""
    order = [([2, 3, 4], 0), ([4, 3, 2], 1)]
    assert bag_of_words_accuracy(splits(order), 5) == 0.5
    negation = [([2, 3], 0), ([2, 4], 1), ([5, 3], 1), ([5, 4], 0)]  # exclusive or
    assert bag_of_words_accuracy(splits(negation), 6) <= 0.75


def test_the_two_texts_of_a_pair_are_counted_apart() -> None:
    """The same word means something else in a premise than in a hypothesis."""
    rows = [([2, 3], 0), ([2, 3], 1)]
    types = [[0, 1], [1, 0]]
    assert bag_of_words_accuracy(splits(rows, token_type_ids=types), 4) == 1.0


def test_validation_rows_choose_the_strength_and_test_rows_do_not() -> None:
    """Chosen on the test rows, the baseline would look better than it is."""
    learnt = Dataset.from_dict({"input_ids": [[2], [3]], "labels": [0, 1]})
    turned = Dataset.from_dict({"input_ids": [[2], [3]], "labels": [1, 0]})
    held = DatasetDict(train=learnt, validation=learnt, test=turned)
    # Weights held at zero answer 0 to everything: half right on either split.
    assert bag_of_words_accuracy(held, 4, [1e9, 1e-3]) == 0.0


def test_it_depends_on_no_seed() -> None:
    """A baseline is one number."""
    rows = [([2, 3], 0), ([3, 4], 1), ([2, 4], 0), ([3, 2, 2], 1)]
    first = bag_of_words_accuracy(splits(rows), 5)
    torch.manual_seed(99)
    assert bag_of_words_accuracy(splits(rows), 5) == first


def test_an_empty_row_is_a_row() -> None:
    """A text of unknown words can be cut to nothing; its answer is the bias."""
    rows = [([2], 0), ([], 1), ([3], 0)]
    assert bag_of_words_accuracy(splits(rows), 4) == pytest.approx(1.0)
