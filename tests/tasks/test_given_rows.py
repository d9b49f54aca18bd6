"""Rows of a program: which texts and labels a fit takes, and that labels come back unchanged."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import Dataset

from sase_hf.tasks.labels.estimators import (
    rows_to_fit,
    rows_to_read,
    type_of_labels,
)

TEXTS = ["good meal", "bad room", "good bed"]
READ = [{"text": text} for text in TEXTS]
frame = pd.DataFrame


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b"], ["b", "a", "b"]),
        (np.array([10, 9, 10], dtype="int8"), [10, 9, 10]),
        (torch.tensor([1, 0, 1]), [1, 0, 1]),
        ([("x", "y"), ("y",), ()], [["x", "y"], ["y"], []]),
        ([[1, 2.5], [2, 3], [3, 4]], [[1.0, 2.5], [2.0, 3.0], [3.0, 4.0]]),
        (["a", float("nan"), pd.NA], ["a", None, None]),
    ],
)
def test_labels_are_a_column_beside_the_texts(labels: Any, expected: list[Any]) -> None:
    """None where one is missing: the run leaves such rows out."""
    entries, rows = rows_to_fit(TEXTS, labels)
    cells = rows["train"]["label"][:]
    assert cells == expected
    assert list(map(type, cells)) == list(map(type, expected))
    assert entries == {"label_column_name": ["label"], "text_column_names": ["text"]}


def test_series_with_a_name_are_texts_in_their_order() -> None:
    texts = pd.Series(TEXTS, index=[5, 3, 4], name="review", dtype="category")
    _, rows = rows_to_fit(texts, texts.rename("mood"))
    assert rows["train"].to_dict() == {"text": TEXTS, "label": TEXTS}
    assert rows_to_read(texts, ["text"]) == READ


def test_columns_of_a_matrix_are_those_of_its_labels() -> None:
    entries, _ = rows_to_fit(TEXTS, torch.tensor([[1, 0], [0, 0], [1, 1]]))
    assert entries["label_column_name"] == ["0", "1"]
    named, _ = rows_to_fit(TEXTS, frame({"sad": [0, 0, 1], "fun": [1, 0, 1]}))
    assert named["label_column_name"] == ["sad", "fun"]


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (TEXTS, ["a", "b"], r"numbers of samples: \[3, 2\]"),
        (["good", "bad", "b\ud800d"], ["a", "b", "a"], r"ud800.* surrogates"),
        ({"text": "good"}, ["a"], "dicts"),
        ([{}], ["a"], "dicts"),
        (TEXTS, [1, "1", 1], "'1' with type str.*column label.*; a file is"),
    ],
    ids=str,
)
def test_faults_are_named(texts: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_to_fit(texts, labels)


def test_pairs_are_two_columns() -> None:
    entries, rows = rows_to_fit([("a dog", "an animal"), ("a cat", "a dog")], ["yes", "no"])
    assert rows["train"].column_names == ["text", "text_pair", "label"]
    assert entries["text_column_names"] == ["text", "text_pair"]


def test_table_without_labels_beside_it_is_read_as_a_file_is() -> None:
    columns = {"review": TEXTS, "stars": [3, 2, 3]}
    entries, rows = rows_to_fit(frame(columns), None, Dataset.from_dict(columns))
    assert rows["train"].to_dict() == rows["validation"].to_dict() == columns
    assert entries == {}


def test_rows_to_read_are_texts_or_pairs() -> None:
    assert rows_to_read(np.array(TEXTS), ["text"]) == READ
    pair = {"text": "a", "text_pair": "b"}
    assert rows_to_read([("a", "b")], ["premise", "hypothesis"]) == [pair]
    table = frame({"stars": [1], "review": ["good"]})
    of_table = rows_to_read(table, ["review"])
    assert of_table == rows_to_read(table[["review"]], ["text"]) == [{"text": "good"}]
    with pytest.raises(ValueError, match=r"a row .* has none"):
        rows_to_read(["good", None], ["text"])


def test_type_of_labels_is_that_of_their_column() -> None:
    whole = pd.Series([1, None, 2], dtype="Int64")
    for labels, kind in ((whole, "int"), ([True, False, True], "bool")):
        _, splits = rows_to_fit(TEXTS, labels)
        assert type_of_labels(splits["train"], "label") == kind
