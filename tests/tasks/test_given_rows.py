"""Rows of a program: which texts and labels a fit takes, and that labels come back unchanged."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import ClassLabel, Dataset

from sase_hf.tasks.labels.given_rows import (
    labels_by_type,
    rows_to_fit,
    rows_to_read,
    type_of_labels,
)

TEXTS = ["good meal", "bad room", "good bed"]
frame = pd.DataFrame


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b"], ["b", "a", "b"]),
        (np.array([10, 9, 10], dtype="int8"), [10, 9, 10]),
        (torch.tensor([1, 0, 1]), [1, 0, 1]),
        ([True, False, True], [True, False, True]),
        (pd.Series(["b", "a", "b"], index=[5, 6, 7], dtype="category"), ["b", "a", "b"]),
        ([("x", "y"), ("y",), ()], [["x", "y"], ["y"], []]),
        ([1, None, 2], [1, None, 2]),
        ([[1, 2.5], [2, 3], [3, 4]], [[1.0, 2.5], [2.0, 3.0], [3.0, 4.0]]),
        (["a", float("nan"), pd.NA], ["a", None, None]),
    ],
    ids=str,
)
def test_labels_are_a_column_beside_the_texts(labels: Any, expected: list[Any]) -> None:
    """None where one is missing: the run leaves such rows out."""
    entries, rows = rows_to_fit(TEXTS, labels)
    cells = rows["train"]["label"][:]
    assert cells == expected
    assert list(map(type, cells)) == list(map(type, expected))
    assert entries == {"label_column_name": "label", "text_column_names": "text"}


def test_series_with_a_name_are_texts_in_their_order() -> None:
    texts = pd.Series(TEXTS, index=[5, 3, 4], name="review")
    _, rows = rows_to_fit(texts, texts.rename("mood"))
    assert rows["train"].to_dict() == {"text": TEXTS, "label": TEXTS}
    assert rows_to_read(texts, ["text"]) == [(text,) for text in TEXTS]


def test_columns_of_a_matrix_are_those_of_its_labels() -> None:
    entries, rows = rows_to_fit(TEXTS, torch.tensor([[1, 0], [0, 0], [1, 1]]))
    assert entries["label_column_name"] == "0,1"
    train = rows["train"]
    assert (train["0"][:], train["1"][:]) == ([1, 0, 1], [0, 0, 1])
    named, _ = rows_to_fit(TEXTS, frame({"sad": [0, 0, 1], "fun": [1, 0, 1]}))
    assert named["label_column_name"] == "sad,fun"


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (TEXTS, ["a", "b"], r"numbers of samples: \[3, 2\]"),
        ([("a", "b", "c")] * 3, ["a", "b", "a"], "3 elements.*; give a list of texts, or of pairs"),
        (["good", "bad", "b\ud800d"], ["a", "b", "a"], r"ud800.* surrogates"),
        (TEXTS, [1, "1", 1], "'1' with type str.*column label.*; give the values"),
        (frame({"label": TEXTS}), ["b", "a", "b"], "'label', 'label'.*another name"),
    ],
    ids=str,
)
def test_faults_are_named(texts: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rows_to_fit(texts, labels)


def test_pairs_are_two_columns() -> None:
    entries, rows = rows_to_fit([("a dog", "an animal"), ("a cat", "a dog")], ["yes", "no"])
    assert rows["train"].column_names == ["text", "text_pair", "label"]
    assert entries["text_column_names"] == "text,text_pair"


def test_table_without_labels_beside_it_is_read_as_a_file_is() -> None:
    columns = {"review": TEXTS, "stars": [3, 2, 3]}
    entries, rows = rows_to_fit(frame(columns), None, Dataset.from_dict(columns))
    assert rows["train"].to_dict() == rows["validation"].to_dict() == columns
    assert entries == {}


def test_file_is_a_flag() -> None:
    entries, _rows = rows_to_fit("reviews.csv", None, "dev.csv")
    assert entries == {"train_file": "reviews.csv", "validation_file": "dev.csv"}


def test_rows_to_read_are_texts_or_pairs() -> None:
    assert rows_to_read(np.array(TEXTS), ["text"]) == [(text,) for text in TEXTS]
    assert rows_to_read([("a", "b")], ["premise", "hypothesis"]) == [("a", "b")]
    table = frame({"stars": [1], "review": ["good"]})
    assert rows_to_read(table, ["review"]) == [("good",)]
    assert rows_to_read(table[["review"]], ["text"]) == [("good",)]
    for wrong, fault in [
        (["good", None], "a row .* has none"),
        ([("a", "b")], "2 elements, new values have 1 .*; give a list of texts"),
    ]:
        with pytest.raises(ValueError, match=fault):
            rows_to_read(wrong, ["text"])


def test_labels_of_a_class_label_are_its_names() -> None:
    rows = Dataset.from_dict({"label": [1, 0]}).cast_column("label", ClassLabel(names=["1", "2"]))
    assert type_of_labels(rows, "label") == "str"


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([1, -2], ["1", "-2"]),
        ([True, False], ["true", "false"]),
    ],
    ids=str,
)
def test_type_of_labels_reads_their_names(labels: list[Any], names: list[str]) -> None:
    rows = Dataset.from_dict({"label": labels})
    read = labels_by_type(names, type_of_labels(rows, "label"))
    assert read == labels
    assert list(map(type, read)) == list(map(type, labels))
