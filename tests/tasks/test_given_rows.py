"""Rows of a program: which texts and labels a fit takes, and that labels come back unchanged."""

import enum
from typing import Any

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, DatasetDict

from sase_hf.tasks.labels.given_rows import (
    as_array,
    labels_by_type,
    name_of,
    names_and_values,
    rows_to_fit,
    rows_to_read,
    type_of_labels,
)

TEXTS = ["good meal", "bad room", "good bed"]


def frame(columns: dict[str, list[Any]]) -> Any:
    """Return a DataFrame of pandas."""
    return Dataset.from_dict(columns).to_pandas()


class Mood(enum.Enum):
    """Labels that are no texts."""

    SAD = 1
    GLAD = 2


def fit_rows(texts: Any, labels: Any = None, validation: Any = None, **entries: Any) -> Any:
    return rows_to_fit(texts, labels, validation, entries, learns_labels=True)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([10, 9, 10], ["9", "10"]),
        (np.array([10, 9, 10], dtype="int8"), ["9", "10"]),
        ([np.int64(3), np.int64(2), np.int64(3)], ["2", "3"]),
        (torch.tensor([1, 0, 1]), ["0", "1"]),
        ([True, False, True], ["false", "true"]),
        ([2.0, 1.0, 2.0], ["1", "2"]),
        (np.array([[3], [2], [3]]), ["2", "3"]),
        (frame({"label": ["b", "a", "b"]}), ["a", "b"]),
        (frame({"label": ["b", "a", "b"]})["label"], ["a", "b"]),
        ([Mood.SAD, Mood.GLAD, Mood.SAD], ["Mood.GLAD", "Mood.SAD"]),
        ([("x", "y"), ("y",), ()], ["x", "y"]),
        ([["x", "y"], ["y"], []], ["x", "y"]),
        (np.array([[1, 0], [0, 1], [1, 1]]), ["0", "1"]),
    ],
    ids=str,
)
def test_labels_have_the_ids_of_their_names_in_order(labels: Any, names: list[str]) -> None:
    rows = fit_rows(TEXTS, labels)
    assert list(rows.values) == names
    train = rows.in_memory["train"]
    feature = train.features["label"]
    assert getattr(feature, "feature", feature).names == names
    known = list(rows.values.values())
    if not rows.is_matrix and not isinstance(train[0]["label"], list):
        assert [known[row["label"]] for row in train] == np.asarray(labels).ravel().tolist()


@pytest.mark.parametrize("make", [np.array, list, torch.tensor])
def test_rows_of_a_matrix_are_the_classes_with_a_one(make: Any) -> None:
    rows = fit_rows(TEXTS, make([[1, 0], [0, 0], [1, 1]]))
    assert rows.in_memory["train"]["label"][:] == [[0], [], [0, 1]]
    assert rows.is_matrix
    assert rows.entries["problem_type"] == "multi_label_classification"


TIMES = np.array(["2020-01-01", "1999-12-31", "2020-01-01"], dtype="datetime64[ns]")


@pytest.mark.parametrize(
    "make",
    [np.array, list, lambda times: frame({"when": times})["when"], lambda times: times - TIMES[1]],
    ids=["array", "list", "series", "durations"],
)
def test_labels_that_are_times_stay_times(make: Any) -> None:
    """As numbers, which numpy makes of them, they would be 946598400000000000."""
    labels = make(TIMES)
    rows = fit_rows(TEXTS, labels)
    assert list(rows.values.values()) == [labels[1], labels[0]]
    assert not any(isinstance(value, int) for value in rows.values.values())
    array = as_array(list(rows.values.values()), rows.dtype)
    assert rows.dtype is None or array.dtype == labels.dtype


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"],
        ["a", " ", "b"],
        [["a"], None, ["b"]],
        [2.0, float("nan"), 1.0],
        np.array(["2020-01-01", "NaT", "1999-12-31"], dtype="datetime64[ns]"),
    ],
    ids=str,
)
def test_missing_labels_and_texts_stay_missing(labels: Any) -> None:
    """The run leaves their rows out."""
    train = fit_rows([None, *TEXTS[1:]], labels).in_memory["train"]
    assert train["label"][1] is None
    assert train["text"][0] is None


def test_columns_of_a_table_of_labels_are_their_names() -> None:
    """In the order of the table."""
    labels = frame({"sad": [0, 0, 1], "fun": [1, 0, 1]})
    rows = fit_rows(TEXTS, labels, (TEXTS, labels))
    train = rows.in_memory["train"]
    assert train.features["label"].feature.names == list(rows.values) == ["sad", "fun"]
    assert train["label"][:] == [[1], [], [0, 1]]
    with pytest.raises(ValueError, match=r"columns \['fun', 'sad'\], those to learn \['sad', "):
        fit_rows(TEXTS, labels, (TEXTS, labels[["fun", "sad"]]))


def test_single_columns_of_labels_may_have_different_names() -> None:
    rows = fit_rows(TEXTS, frame({"zed": [0, 1, 0]}), (TEXTS, frame({"abc": [1, 0, 1]})))
    assert rows.in_memory["validation"]["label"][:] == [1, 0, 1]


@pytest.mark.parametrize("numbers", [["a", "b", "c"], [True, False, True], [[1, "a"]] * 3], ids=str)
def test_regressor_refuses_labels_that_are_no_numbers(numbers: Any) -> None:
    with pytest.raises(ValueError, match=r"label 0 \(counted from 0\) .* use TextClassifier"):
        rows_to_fit(TEXTS, numbers, None, {}, learns_labels=False)


def test_classes_keep_the_type_of_an_array() -> None:
    labels = np.array([3, 2, 3], dtype="int8")
    assert as_array([2, 3], labels.dtype).dtype == labels.dtype
    assert as_array(["a", "b"]).dtype.kind == "U"
    assert as_array([1, "a"]).dtype == object
    assert as_array([(1, 2), (1, 3)]).shape == (2,)


def test_two_labels_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"the labels 1 and '1' have one name, '1'; write one"):
        fit_rows(TEXTS, [1, "1", 1])


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        ([], [], "there are 0 texts; give at least two"),
        (TEXTS, ["a", "b"], "there are 3 texts, but 2 labels; give a label"),
        (TEXTS * 4, list("abcdefghijkl"), "there are 12 different labels in 12 rows"),
        (TEXTS, frame({"topic": ["x", "y", "z"], "mood": [0, 1, 0]}), "column 'topic' .* 'x'"),
        (TEXTS, frame({"a": [0, 1, 1], "b": [0.5, 0, 1]}), "column 'b' of the labels holds 0.5"),
        (TEXTS, ["a", "b", ("a", "b")], r"label 2 .* is \('a', 'b'\), the first is 'a'; give each"),
        (TEXTS, [[1], 2, 2], r"label 1 \(counted from 0\) is 2, the first is \[1\]"),
        (
            TEXTS,
            [[1, 0, 0], [0, 1, 0], [2, 0, 1]],
            r"label 0 .* is \[1, 0, 0\], with a label twice",
        ),
        (TEXTS, [["a"], ["a", None], []], r"label 1 .* is \['a', None\], which holds None; leave"),
        (TEXTS, [["a"], ["b", " "], []], r"label 1 .* which holds ' '"),
        (TEXTS, [1.0, 2.5, 1.0], "the label 2.5 is a number that is not whole; use TextRegressor"),
        (TEXTS, "aba", "the labels are 'aba'; give a list"),
        (TEXTS, [{"a": 1}, {"a": 1}, {"b": 1}], "a label is {'a': 1}, a dict; give texts"),
        ("good meal", ["a"], "the texts are 'good meal', a str; give a list of texts"),
        (["good", 3, "bad"], ["a", "b", "a"], r"text 1 \(counted from 0\) is 3, a int; give"),
        (
            frame({"x": [1.5, float("nan")]}),
            ["a", "b"],
            r"row 0 \(.*\) of column 'x' is 1.5, a float",
        ),
        (["good", ("a", "b"), "bad"], ["a", "b", "a"], "give single texts only, or pairs only"),
        ([("a", "b", "c")] * 3, ["a", "b", "a"], r"text 0 \(counted from 0\) is \('a', 'b', 'c'\)"),
        (3, None, "there are no labels, and the rows are a int; give texts and labels"),
    ],
    ids=str,
)
def test_faults_are_named(texts: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_rows(texts, labels)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_cell_of_a_wide_table_stays_missing(missing: Any) -> None:
    """Which of its columns hold the texts is found out later; the cell is no text `nan`."""
    table = frame({"number": [1, 2, 3], "day": ["a", "b", "c"]})
    table["review"] = ["good", missing, "bad"]
    rows = fit_rows(table, ["x", "y", "x"]).in_memory["train"]
    assert rows["review"][:] == ["good", None, "bad"]


def test_column_that_no_dataset_holds_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    table = frame({"text": TEXTS, "label": ["x", "y", "x"]})
    table["note"] = ["a", 1, 2.5]
    table["phase"] = [1j, 2j, 3j]
    rows = fit_rows(table).in_memory["train"]
    assert rows.column_names == ["text", "label"]
    assert "column 'note' is not read" in caplog.text
    assert "column 'phase' is not read" in caplog.text


@pytest.mark.parametrize("cells", [["a", 1, 2.5], [2**70, 1, 2]], ids=str)
def test_column_of_mixed_types_with_the_name_of_labels_is_refused(cells: list[Any]) -> None:
    """Another column would become the label."""
    table = frame({"text": TEXTS, "verified": ["y", "n", "y"]})
    table["label"] = cells
    with pytest.raises(ValueError, match=r"column 'label' cannot be read: .*; give its values one"):
        fit_rows(table)


def test_columns_of_one_name_are_refused() -> None:
    table = frame({"text": TEXTS, "label": ["x", "y", "x"]})
    with pytest.raises(ValueError, match="two columns have the name 'text'; rename"):
        fit_rows(table[["text", "text", "label"]])


def test_row_with_a_lone_surrogate_is_named() -> None:
    message = r"^row 2 \(counted from 0\), column 'text': 'b\\ud800d' has a lone surrogate.*repair"
    table = frame({"text": TEXTS, "label": ["x", "y", "x"]}).astype(object)
    table.loc[2, "text"] = "b\ud800d"
    with pytest.raises(ValueError, match=message):
        fit_rows(list(table["text"]), list(table["label"]))
    with pytest.raises(ValueError, match=message):
        fit_rows(table)


def test_pairs_are_two_columns() -> None:
    rows = fit_rows([("a dog", "an animal"), ("a cat", "a dog")], ["yes", "no"])
    assert rows.in_memory["train"].column_names == ["text", "text_pair", "label"]
    assert rows.entries["text_column_names"] == "text,text_pair"


@pytest.mark.parametrize("make", [frame, Dataset.from_dict])
def test_table_beside_labels_holds_texts(make: Any) -> None:
    table = make({"review": TEXTS})
    rows = fit_rows(table, ["b", "a", "b"])
    assert rows.in_memory["train"]["review"][:] == TEXTS
    assert rows.entries["text_column_names"] == "review"
    with pytest.raises(ValueError, match="the texts have a column 'label', and there are labels"):
        fit_rows(make({"text": TEXTS, "label": TEXTS}), ["b", "a", "b"])
    chosen = fit_rows(make({"n": [1, 2, 3], "t": TEXTS}), ["b", "a", "b"], text_column_names="t")
    assert chosen.in_memory["train"].column_names == ["t", "label"]


@pytest.mark.parametrize("make", [frame, Dataset.from_dict])
def test_table_without_labels_beside_it_is_read_as_a_file_is(make: Any) -> None:
    columns = {"review": TEXTS, "stars": [3, 2, 3]}
    rows = fit_rows(make(columns), None, make(columns))
    assert {name: split.to_dict() for name, split in rows.in_memory.items()} == {
        "train": columns,
        "validation": columns,
    }
    assert rows.entries == {}


def test_splits_of_a_dataset_are_those_of_the_fit() -> None:
    split = Dataset.from_dict({"text": TEXTS, "label": [1, 0, 1]})
    given = DatasetDict({"train": split, "validation": split, "test": split})
    assert list(fit_rows(given).in_memory) == ["train", "validation"]
    with pytest.raises(ValueError, match="the splits are test; name the rows to learn 'train'"):
        fit_rows(DatasetDict({"test": split}))


def test_file_is_a_flag() -> None:
    rows = fit_rows("reviews.csv", None, "dev.csv")
    assert rows.entries == {"train_file": "reviews.csv", "validation_file": "dev.csv"}
    with pytest.raises(ValueError, match=r"dev\.csv is a file, but other rows are in memory"):
        fit_rows(frame({"text": TEXTS, "label": TEXTS}), None, "dev.csv")


def test_rows_to_validate_have_the_ids_of_the_rows_to_learn() -> None:
    rows = fit_rows(TEXTS, ["c", "a", "b"], (["fine"], ["c"]))
    assert rows.in_memory["validation"]["label"][:] == [2]
    with pytest.raises(ValueError, match="a row to validate has the label 'x'; those to learn"):
        fit_rows(TEXTS, ["c", "a", "b"], (["fine"], ["x"]))
    with pytest.raises(ValueError, match=r"validate begin with \['c'\], unlike those to learn"):
        fit_rows(TEXTS, ["c", "a", "b"], (["fine"], [["c"]]))
    with pytest.raises(ValueError, match=r"validate begin with \[1, 0, 0\], unlike those to learn"):
        fit_rows(TEXTS, [[1, 0], [0, 1], [0, 0]], (["fine"], [[1, 0, 0]]))
    with pytest.raises(ValueError, match=r"validation is a list; give it as \(texts, labels\)"):
        fit_rows(TEXTS, ["c", "a", "b"], ["fine"])


def test_numbers_to_learn_stay_numbers() -> None:
    rows = rows_to_fit(TEXTS, [1, 2.5, 3], None, {}, learns_labels=False)
    assert rows.in_memory["train"]["label"][:] == [1.0, 2.5, 3.0]
    assert rows.entries["problem_type"] == "regression"


def test_rows_to_read_are_texts_or_pairs() -> None:
    assert rows_to_read(TEXTS, ["text"]) == [[text] for text in TEXTS]
    assert rows_to_read(np.array(TEXTS), ["text"]) == [[text] for text in TEXTS]
    assert rows_to_read([("a", "b")], ["premise", "hypothesis"]) == [["a", "b"]]
    table = frame({"stars": [1], "review": ["good"]})
    assert rows_to_read(table, ["review"]) == [["good"]]
    assert rows_to_read(table[["review"]], ["text"]) == [["good"]]
    assert rows_to_read([], ["text"]) == []
    with pytest.raises(ValueError, match=r"the model reads single texts, but a row has 2"):
        rows_to_read([("a", "b")], ["text"])
    with pytest.raises(ValueError, match=r"row 0 \(.*\) of column 'stars' is 1, a int"):
        rows_to_read(table[["stars"]], ["text"])


def test_labels_of_a_column_come_back_by_their_names() -> None:
    numbers = Dataset.from_dict({"label": [3, None, 2]})
    assert names_and_values([numbers], ["2", "3", "4"]) == {"2": 2, "3": 3}
    lists = Dataset.from_dict({"label": [["x"], []]})
    assert names_and_values([lists], ["x"]) == {"x": "x"}


@pytest.mark.parametrize("names", [["neg", "pos"], ["1", "2"]], ids=str)
def test_labels_of_a_class_label_are_its_ids(names: list[str]) -> None:
    rows = Dataset.from_dict({"label": [1, 0]}).cast_column("label", ClassLabel(names=names))
    values = names_and_values([rows], names)
    assert values == dict(zip(names, [0, 1], strict=True))
    assert type_of_labels(values) == "str"


@pytest.mark.parametrize("asked", [{}, {"text_column_names": "review, long"}])
def test_column_of_texts_may_have_a_comma_in_its_name(asked: dict[str, str]) -> None:
    rows = fit_rows(frame({"review, long": TEXTS}), ["b", "a", "b"], **asked)
    assert rows.entries["text_column_names"] == "review, long"
    assert rows.in_memory["train"]["review, long"][:] == TEXTS


@pytest.mark.parametrize(
    "labels", [["a", "b"], [1, -2], [True, False], [0.5, 2.0], [Mood.SAD, Mood.GLAD]], ids=str
)
def test_type_of_labels_reads_their_names(labels: list[Any]) -> None:
    names = list(map(name_of, labels))
    read = labels_by_type(names, type_of_labels(dict(zip(names, labels, strict=True))))
    assert read == (names if isinstance(labels[0], Mood) else labels)
    assert list(map(type, read)) == [str if x in names else type(x) for x in read]


def test_renamed_labels_are_texts() -> None:
    assert labels_by_type(["good", "bad"], "int") == ["good", "bad"]
    assert labels_by_type(["good", "bad"], "bool") == ["good", "bad"]
    assert type_of_labels({"1": 1, "a": "a"}) == "str"
