"""From sources to the splits of a task: columns, labels, and errors about bad rows."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from rows import REVIEWS, write_csv, write_jsonl

from sase_hf import build_tokenizer
from sase_hf.data.batching import encode_rows
from sase_hf.data.columns import DataArguments
from sase_hf.data.rows import Rows, load_rows
from sase_hf.utils.files import scratch_file


def load(**fields: Any) -> Rows:
    return load_rows(DataArguments(**fields))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "reviews.jsonl", REVIEWS)


def load_written(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Rows:
    return load(train_file=write_jsonl(folder / "rows.jsonl", rows), **options)


def labelled(labels: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"text": f"text {number}", "label": label} for number, label in enumerate(labels)]


def labels_of(task: Rows, split: str = "train") -> list[Any]:
    return task.splits[split]["label"][:]


def test_load_rows_splits_share_the_ids_of_the_train_split(tmp_path: Path, reviews: Path) -> None:
    """The ids do not depend on the format or order of a split, nor on a limit on its rows."""
    dev = write_csv(tmp_path / "dev.csv", REVIEWS[1::-1])
    test = write_csv(tmp_path / "test.tsv.gz", REVIEWS[2:], "\t")
    limits = {"max_train_samples": 3, "max_eval_samples": 1, "max_predict_samples": 99}
    task = load(train_file=reviews, validation_file=dev, test_file=test, **limits)
    assert task.label_names == ("bad", "fair", "good")
    assert [labels_of(task, name) for name in task.splits] == [[0, 2, 1], [2], [1, 0]]


def write_classes(path: Path, ids: list[int], names: list[str]) -> Path:
    """Write rows with class ids and their names, as datasets of the Hub have them."""
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    Dataset.from_list(labelled(ids), features=features).to_parquet(path)
    return path


def test_load_rows_matches_class_ids_by_name_between_splits(tmp_path: Path) -> None:
    """Two files may number the same classes differently; -1 is no label, as in SNLI."""
    train = write_classes(tmp_path / "train.parquet", [0, 1, -1], ["no", "yes", "maybe"])
    dev = write_classes(tmp_path / "dev.parquet", [0, 1], ["yes", "no"])
    task = load(train_file=train, validation_file=dev)
    assert task.label_names == ("no", "yes", "maybe"), "the dataset's order, with unused names"
    assert (labels_of(task), labels_of(task, "validation")) == ([0, 1], [1, 0])


TAGS = {"label": ["fun;sad", "sad", ""], "fun": [1, 0, 0], "sad": [1, 1, 0]}


@pytest.mark.parametrize(
    ("columns", "flags", "names", "labels"),
    [
        ({"label": ["o", "x", ""]}, {}, "o,x", [0, 1]),
        # Several labels, with a separator, or as columns in the order of the flag.
        (TAGS, {"label_separator": ";"}, "fun,sad", [[1, 1], [0, 1], [0, 0]]),
        (TAGS, {"label_column_name": ["sad,fun"]}, "sad,fun", [[1, 1], [1, 0], [0, 0]]),
        # A row that lacks one of them has no label.
        ({"x": [1, None], "y": [0, 0]}, {"label_column_name": ["y,x"]}, "y,x", [[0, 1]]),
    ],
    ids=str,
)
def test_load_rows_encodes_labels_by_those_of_the_train_rows_or_of_a_checkpoint(
    columns: dict[str, Any], flags: dict[str, Any], names: str, labels: list[Any], tmp_path: Path
) -> None:
    texts = list("abc")[: len(next(iter(columns.values())))]
    path = write_csv(tmp_path / "a.csv", Dataset.from_dict({"text": texts, **columns}).to_list())
    task = load(train_file=path, **flags)
    assert (",".join(task.label_names), labels_of(task)) == (names, labels)
    known = {**flags, "problem_type": task.kind, "label_names": names.split(",")}
    assert labels_of(load(validation_file=path, **known), "validation") == labels
    new = write_csv(tmp_path / "new.csv", [{"text": "a", "label": ""}])
    assert load(test_file=new, **known).splits["test"].column_names == ["text"]


BAD = [{"text": "", "label": "good"}, {"text": "x", "label": None}, {"text": "y", "label": " "}]


def test_load_rows_leaves_out_and_counts_rows_without_a_text_or_a_label(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = load_written(tmp_path, [*BAD, *REVIEWS])
    assert task.splits["train"]["text"][:] == [row["text"] for row in REVIEWS]
    assert task.sources["train"]["left_out"] == 3
    assert re.search("rows.jsonl: 3 of 7 rows .*: .0, 1, 2.$", caplog.text.strip())
    with pytest.raises(ValueError, match=r"rows.jsonl: 3 of 5 rows have no text or no label"):
        load_written(tmp_path, [*BAD, *REVIEWS[:2]])


def test_test_table_has_all_columns_of_the_rows_that_are_read(
    tmp_path: Path, reviews: Path
) -> None:
    """A prediction is written beside the row that it is for, whichever are left out before it."""
    rows = [{**row, "id": number} for number, row in enumerate((*BAD, *REVIEWS))]
    test = write_jsonl(tmp_path / "test.jsonl", rows)
    task = load(train_file=reviews, test_file=test, max_predict_samples=3)
    texts = [row["text"] for row in rows[1:4]]
    assert task.test_table is not None
    assert (task.splits["test"]["text"][:], task.test_table.to_list()) == (texts, rows[1:])


def test_load_rows_joins_columns_into_one_text(tmp_path: Path) -> None:
    """A part may be empty, but not all."""
    table = {"title": ["A", "D", None, None], "body": ["b", "", "e", None], "id": [*"xyzw"]}
    rows = Dataset.from_dict({**table, "label": [*"1212"]}).to_list()
    train = load_written(tmp_path, rows, text_column_names=["body + title, id"]).splits["train"]
    assert (train["text"][:], train["text_pair"][:]) == (["b\nA", "D", "e"], [*"xyz"])


def test_load_rows_shuffles_by_seed_before_the_limit(tmp_path: Path) -> None:
    """Files are often sorted by label; the first rows would then be of one label only."""
    rows = labelled("ab" * 50)
    task = load_written(tmp_path, rows, shuffle_seed=1, max_train_samples=20)
    assert sorted(task.splits["train"]["row"]) != [*range(20)]


@pytest.mark.parametrize(
    ("labels", "picked"),
    [
        ("baaaa" * 4, [3, 5, 6, 7, 9]),
        ([["a"]] * 20, [0, 1, 3, 6, 18]),
        ([n % 4 + 0.5 for n in range(20)], [5, 6, 7, 8, 14]),
    ],
    ids=["single", "several", "numbers"],
)
def test_load_rows_holds_out_the_rows_of_earlier_records(
    labels: Any, picked: list[int], tmp_path: Path
) -> None:
    """The same seed gives the same rows, and the record says so."""
    task = load_written(tmp_path, labelled(labels), validation_fraction=0.25)
    assert task.splits["validation"]["text"][:] == [f"text {row}" for row in picked]
    assert task.splits["train"].num_rows == 15
    assert task.sources["validation"]["split_off"] == 0.25


def test_load_rows_of_soft_labels_validates_with_the_most_probable_class(tmp_path: Path) -> None:
    """Only train rows have probabilities to learn; accuracy needs one class a row."""
    shares = [[0.7, 0.3], [0.2, 0.8]] * 4
    rows = [{"text": str(n), "a": a, "b": b} for n, (a, b) in enumerate(shares)]
    task = load_written(tmp_path, rows, label_column_name=["a,b"], validation_fraction=0.5)
    train, validation = task.splits.values()
    assert train["probabilities"][:] == [shares[row] for row in train["row"]]
    assert validation["label"][:] == [int(text) % 2 for text in validation["text"]]


def test_load_rows_validation_fraction_keeps_equal_texts_together(tmp_path: Path) -> None:
    """Accuracy on texts that were trained on says nothing about new ones."""
    rows = []
    for index, count in enumerate([1] * 60 + [2] * 30 + [5] * 15 + [30]):
        rows += [{"text": f"text {index}", "label": "abc"[index % 3]}] * count
    train, validation = load_written(tmp_path, rows, validation_fraction=0.2).splits.values()
    of_text = Counter(validation["text"])
    assert of_text.keys().isdisjoint(train["text"])
    assert Counter(validation["label"]) == {0: 19, 1: 13, 2: 13}, "a fifth of each"
    assert Counter(of_text.values()) == {1: 11, 2: 7, 5: 4}, "frequent texts as well as rare ones"


def test_load_rows_and_encode_rows_leave_nothing_beside_the_rows_of_a_user(
    tmp_path: Path, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of somebody's data is in a folder that ends with the process, and nowhere else."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    test = tmp_path / "test.parquet"
    Dataset.from_list(REVIEWS).to_parquet(test)
    task = load(train_file=reviews, test_file=test, validation_fraction=0.5, shuffle_seed=1)
    rows = encode_rows(task, build_tokenizer(["soup"]))
    assert {*tmp_path.rglob("*")} == {reviews, test}
    folder = Path(scratch_file()).parent
    for split in rows.values():
        assert {Path(file["filename"]).parent for file in split.cache_files} == {folder}


NAMES = {"label_names": ["bad", "good", "fair"]}
TWO = {"label_column_name": ["x,y"], "label_names": ["y", "x"]}


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": 5, "label": "bad"}], NAMES, r"rows\.jsonl: .* 'text' holds .*int64"),
        (labelled(["bad", "great"]), NAMES, r"row 1 .*'label': 'great' fits no"),
        (
            REVIEWS,
            {"max_train_samples": 0},
            r"no train rows; give .* parted\), a --max_train_samples or",
        ),
        # Rows with one text stay together.
        ([REVIEWS[0]] * 4, {**NAMES, "validation_fraction": 0.2}, "no validation rows"),
        # Columns of labels.
        ([{"text": "a", "x": "b", "y": 0}], TWO, r"row 0 .*, column 'y,x': \(0, 'b'\)"),
    ],
    ids=str,
)
def test_load_rows_refuses_rows(
    rows: list[Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """A bad row by its file, its number and its column."""
    with pytest.raises(ValueError, match=message):
        load_written(tmp_path, rows, **options)


def test_load_rows_counts_texts_of_a_split_in_an_earlier_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In any case, with any blanks, in any encoding: results on them say nothing about new ones."""
    known = ["T\u00e9xt", *(f"text number {number}" for number in range(9))]
    texts = ["TEXT number 3", " text  number\n4 ", "te\u0301xt", "new text"]
    splits = {"train": known, "validation": texts, "test": ["New text"]}
    files = {}
    for name, own in splits.items():
        rows = [{"text": text, "label": "ab"[number % 2]} for number, text in enumerate(own)]
        files[f"{name}_file"] = write_jsonl(tmp_path / f"{name}.jsonl", rows)
    load(**files)
    assert "3 validation texts are also in the train rows" in caplog.text
    assert "1 test texts are also in the validation rows" in caplog.text
