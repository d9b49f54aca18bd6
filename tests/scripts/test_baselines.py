"""The quickstart's baselines: what they can learn, and what they cannot."""

from datasets import Dataset, DatasetDict
from synthetic.baselines import bag_of_words_accuracy, majority_accuracy


def splits(rows: list[tuple[list[int], int]], **columns: list[list[int]]) -> DatasetDict:
    """Return the same rows, pairs of word ids and label, as every split."""
    data = {"input_ids": [ids for ids, _ in rows], "labels": [label for _, label in rows]}
    split = Dataset.from_dict(data | columns)
    return DatasetDict(train=split, validation=split, test=split)


def test_majority_is_that_of_the_training_rows() -> None:
    train = Dataset.from_dict({"labels": [0, 1, 1]})
    test = Dataset.from_dict({"labels": [0, 0, 0, 1]})
    assert majority_accuracy(DatasetDict(train=train, test=test)) == 0.25


def test_bag_of_words_learns_counts() -> None:
    rows = [([4], 0), ([2, 3, 4, 2], 0), ([5, 2], 1), ([2, 2, 3, 3, 5], 1), ([3, 6], 2), ([], 2)]
    assert bag_of_words_accuracy(splits(rows), 7, [1e-5]) == 1.0


def test_bag_of_words_learns_neither_order_nor_negation() -> None:
    """The synthetic corpus asks a model for both."""
    order = [([2, 3, 4], 0), ([4, 3, 2], 1)]
    assert bag_of_words_accuracy(splits(order), 5) == 0.5
    negation = [([2, 3], 0), ([2, 4], 1), ([5, 3], 1), ([5, 4], 0)]  # exclusive or
    assert bag_of_words_accuracy(splits(negation), 6) <= 0.75


def test_bag_of_words_counts_the_texts_of_a_pair_apart() -> None:
    rows = [([2, 3], 0), ([2, 3], 1)]
    types = [[0, 1], [1, 0]]
    assert bag_of_words_accuracy(splits(rows, token_type_ids=types), 4) == 1.0
