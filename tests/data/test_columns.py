"""Which columns are the texts and the labels: by flag, by name, or those of the training."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from rows import write_csv, write_jsonl

from sase_hf.data.arguments import DataArguments, PairArguments
from sase_hf.data.columns import ROWS_NAME, find_columns
from sase_hf.data.rows import Rows, load_pairs, load_rows

BODIES = [f"the soup was {word} and I paid" for word in ("hot", "cold", "fine", "thin", "bad")]
KINDS = ["yes!", "no!", "yes!", "no!", "yes!"]
FLAGS = [0, 1, 1, 0, 1]
WITH_COMMA = "What was good, and why?"


def find(columns: dict[str, Any], labelled: bool = True, **flags: Any) -> tuple[Any, ...]:
    rows = Dataset.from_dict({name: list(values) for name, values in columns.items()})
    return tuple(find_columns("f.csv", rows, DataArguments(**flags), labelled=labelled))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("Sentiment,Review,id", "Review,Sentiment"),
        ("Review Text,Rating,id", "Review Text,Rating"),
        # The plainest name comes first; a title is the text only where there is no other.
        ("text,label,label_text,comment", "text,label"),
        ("title,body,class", "body,class"),
        ("title,class,id", "title,class"),
        ("title,description,class", "description,class"),
        # Two texts are found by the names of pairs, and only by these.
        ("premise,hypothesis,label", "premise,hypothesis,label"),
        ("Sentence2,Sentence1,score", "Sentence1,Sentence2,score"),
    ],
)
def test_find_columns_knows_usual_names(names: str, expected: str) -> None:
    texts, labels = find(dict.fromkeys(names.split(","), "ab"))
    assert (*texts, *labels) == tuple(expected.split(","))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        *(("Rezension", "Sterne"), ("Commentaire", "Étiquette"), ("reseña", "calificación")),
        *(("frase", "classe"), ("评论", "情感"), ("レビュー", "評価"), ("리뷰", "감정")),
    ],
)
def test_find_columns_knows_usual_names_of_other_languages(text: str, label: str) -> None:
    assert find({"id": BODIES, label: KINDS, text: KINDS}) == ((text,), (label,))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["first"], ("first",)),
        (["first, second"], ("first", "second")),
        (["first", "second"], ("first", "second")),
        (["first+second"], ("first+second",)),
        ([WITH_COMMA], (WITH_COMMA,)),
        ([WITH_COMMA, "first"], (WITH_COMMA, "first")),
        (["a,b,c"], None),
        (["first,first"], None),
        (["first", "second", "label"], None),
    ],
    ids=str,
)
def test_text_columns_are_one_or_two_between_commas_outside_of_names(
    words: list[str], expected: tuple[str, ...] | None
) -> None:
    columns = {"first": BODIES, "second": BODIES, WITH_COMMA: BODIES, "label": KINDS}
    if expected is not None:
        assert find(columns, text_column_names=words) == (expected, ("label",))
        return
    with pytest.raises(ValueError, match=r"--text_column_names is \["):
        find(columns, text_column_names=words)


CELLS = {"kinds": KINDS, "bodies": BODIES, "flags": FLAGS, "lists": [["a"]] * 5, "none": [None] * 5}


def columns_of(table: str) -> dict[str, Any]:
    """Return the columns that are written as names with the kind of their cells."""
    return {name: CELLS[kind] for name, kind in (part.split(":") for part in table.split("; "))}


@pytest.mark.parametrize(
    ("table", "flags", "expected"),
    [
        # Of two columns the one with the longer texts is the text.
        ("x:kinds; y:bodies", {}, "y x"),
        ("x:flags; y:kinds", {}, "y x"),
        ("x:lists; y:kinds", {}, "y x"),
        # A single column is what is missing.
        ("comment:kinds; x:bodies", {}, "comment x"),
        ("x:bodies; label:kinds", {}, "x label"),
        ("x:bodies; y:kinds; z:bodies", {"text_column_names": ["x+z"]}, "x+z y"),
        # A label that a flag names is no text, and marks are neither.
        ("text:kinds; x:bodies", {"label_column_name": "text"}, "x text"),
        ("question:bodies; answer:kinds", {"label_column_name": "answer"}, "question answer"),
        ("Rationale:bodies; x:kinds; y:bodies", {}, "y x"),
        # Several columns of labels; a name with a comma is one.
        ("text:kinds; a:flags; b:flags", {"label_column_name": "a, b"}, "text a b"),
        ("text:kinds; a,b:flags; b:flags", {"label_column_name": "a,b"}, "text a,b"),
    ],
    ids=str,
)
def test_find_columns_takes_the_only_ones_that_can_be_meant(
    table: str, flags: dict[str, Any], expected: str
) -> None:
    texts, labels = find(columns_of(table), **flags)
    assert [*texts, *labels] == expected.split(" ")


@pytest.mark.parametrize(
    ("table", "flags", "expected"),
    [
        ("x:bodies", {}, "x"),
        ("text:bodies; x:kinds; y:flags", {}, "text"),
        ("text:bodies; stars:flags", {}, "text stars"),
        ("text:bodies; stars:flags", {"label_column_name": ""}, "text"),
    ],
)
def test_find_columns_of_rows_to_predict_needs_no_labels(
    table: str, flags: dict[str, Any], expected: str
) -> None:
    texts, labels = find(columns_of(table), labelled=False, **flags)
    assert [*texts, *labels] == expected.split(" ")


@pytest.mark.parametrize(
    ("table", "text", "label"),
    [
        (f"id:flags; {WITH_COMMA}:bodies; a b:kinds", WITH_COMMA, "id"),
        ("title:kinds; subject:bodies; label:kinds; x:none", "title", "label"),
        ("comment:bodies; stars:flags; topic:kinds", "comment", "stars"),
        ("text:bodies; when 1:kinds; mood:flags", "text", "mood"),
    ],
)
def test_find_columns_lists_unclear_columns_and_flags_that_work(
    table: str, text: str, label: str
) -> None:
    columns = columns_of(table)
    with pytest.raises(ValueError, match=r"^f\.csv: it is not clear which columns") as caught:
        find(columns)
    listed, _, flags = str(caught.value).rpartition("name them, such as --text_column_names ")
    for name, (cell, *_) in columns.items():
        shown = "empty" if cell is None else f"such as {cell!r:.9}"
        assert f"{name!r} ({shown}" in listed
    assert shlex.split(flags) == [text, "--label_column_name", label]
    assert find(columns, text_column_names=[text], label_column_name=label) == ((text,), (label,))


@pytest.mark.parametrize("name", ["text", "label"])
def test_find_columns_doubts_a_name_that_is_also_a_cell(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Files that were joined have the line of names twice."""
    columns = {"text": BODIES, "label": KINDS, "id": ["id"] * 5}
    find(columns)
    assert not caplog.messages
    find({**columns, name: [*columns[name][:4], name]})
    assert f"the column '{name}' holds its own name" in caplog.text


def test_find_columns_of_pairs_without_labels_takes_all_or_those_that_flags_name() -> None:
    rows = Dataset.from_dict({"en": BODIES, "fr": BODIES, "x": KINDS})
    two = rows.remove_columns("x")
    assert find_columns("f.csv", two, PairArguments(), labelled=True).texts == ("en", "fr")
    asked = PairArguments(text_column_names=["fr,en"])
    assert find_columns("f.csv", rows, asked, labelled=True).texts == ("fr", "en")
    with pytest.raises(ValueError, match=r"f\.csv.*'x' \(such as.*_names en,fr"):
        find_columns("f.csv", rows, PairArguments(), labelled=True)


def test_load_rows_columns_of_the_train_split_hold_for_the_others(tmp_path: Path) -> None:
    """Another split may have a column with a more usual name, and write them in another case."""
    write_csv(tmp_path / "a.csv", [{"v1": "no", "v2": "bad soup"}, {"v1": "yes", "v2": "fine"}])
    test = write_jsonl(tmp_path / "b.jsonl", [{"text": "x", " V1": "yes", "V2 ": "nice"}])
    files = DataArguments(train_file=str(tmp_path / "a.csv"), test_file=str(test))
    task = load_rows(files)
    assert (task.text_columns, task.label_columns) == (("v2",), ("v1",))
    assert task.splits["test"][0] == {"text": "nice", "label": 1}
    write_jsonl(test, [{"V2": "a", "V 2": "b", "v2 ": "c"}])
    with pytest.raises(ValueError, match=r"b\.jsonl has no column 'v2'; it has 'V2', 'V 2', 'v2 '"):
        load_rows(files)


# ---- the columns of the training -----------------------------------------------------------------

NEWS = [
    {"headline": "Rain is near.", "body": "It will rain all day.", "mood": "sad", "class": "x"},
    {"headline": "Sun is back.", "body": "It was a fine day.", "mood": "glad", "class": "y"},
]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The folder of a run that read `headline` and `mood`, which usual names would not choose."""
    folder = tmp_path / "run" / "checkpoint-3"
    folder.mkdir(parents=True)
    write_record(folder.parent, ["headline"], ["mood"])
    return folder


def write_record(folder: Path, texts: list[str], labels: list[str]) -> None:
    """Write the columns of a training into the folder of a run."""
    record = {"text_column_names": texts, "label_column_name": labels}
    (folder / ROWS_NAME).write_text(json.dumps(record), encoding="utf-8")


def load(folder: Path, rows: list[dict[str, str]], checkpoint: Path, **flags: Any) -> Rows:
    """Read rows to predict by a checkpoint."""
    path = write_csv(folder / "test.csv", rows)
    arguments = DataArguments(test_file=str(path), label_names=["sad", "glad"], **flags)
    return load_rows(arguments, checkpoint=str(checkpoint))


def test_load_rows_reads_the_columns_of_the_training(checkpoint: Path, tmp_path: Path) -> None:
    """Also in another case, and of a checkpoint in the folder of the run."""
    for folder in (checkpoint, checkpoint.parent):
        task = load(tmp_path, NEWS, folder)
        assert (task.text_columns, task.label_columns) == (("headline",), ("mood",))
    upper = [{name.upper(): value for name, value in row.items()} for row in NEWS]
    task = load(tmp_path, upper, checkpoint)
    assert (task.text_columns, task.label_columns) == (("HEADLINE",), ("MOOD",))
    asked = load(tmp_path, NEWS, checkpoint, text_column_names=["body"])
    assert asked.text_columns == ("body",), "a flag wins"
    path = write_csv(tmp_path / "train.csv", NEWS)
    arguments = DataArguments(train_file=str(path), label_column_name="mood")
    new = load_rows(arguments, checkpoint=str(checkpoint))
    assert new.text_columns == ("body",), "a training finds its own"


@pytest.mark.parametrize(("column", "text"), [(WITH_COMMA, "a"), ("a+b", "a"), ("x+y", "b\nc")])
def test_load_rows_reads_a_column_of_the_training_with_a_sign_in_its_name(
    column: str, text: str, tmp_path: Path
) -> None:
    write_record(tmp_path, [column], [])
    rows = [{"text": "t", WITH_COMMA: "a", "a+b": "a", "x": "b", "y": "c"}] * 2
    task = load(tmp_path, rows, tmp_path)
    assert (task.text_columns, task.splits["test"]["text"][0]) == ((column,), text)


def test_load_rows_says_that_the_column_of_the_training_is_missing(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load(tmp_path, NEWS, checkpoint)
    assert "does not have" not in caplog.text
    task = load(tmp_path, [{"text": "Rain."}, {"text": "Sun."}], checkpoint)
    assert task.text_columns == ("text",)
    assert f"trained on headline, which {tmp_path / 'test.csv'} does not have" in caplog.text


def test_load_pairs_keeps_the_direction_of_the_training(tmp_path: Path) -> None:
    """A model that translates from French must not read the English column, which comes first."""
    write_record(tmp_path, ["fr", "en"], [])
    rows = [{"en": "a small house", "fr": "une petite maison"}] * 2
    path = write_csv(tmp_path / "pairs.csv", rows)
    task = load_pairs(PairArguments(validation_file=str(path)), checkpoint=str(tmp_path))
    assert task.splits["validation"]["text"][0] == "une petite maison"


@pytest.mark.parametrize("texts", ["review", "title+review"])
def test_find_columns_takes_flags_in_another_case(texts: str) -> None:
    """The label is the column that is left, as the flag has named the others."""
    columns = {"Review": ["a b", "c d"], "Kind": ["1", "2"]}
    if "title" in texts:
        columns["Title"] = ["x", "y"]
    arguments = DataArguments(text_column_names=[texts])
    chosen = find_columns("rows.csv", Dataset.from_dict(columns), arguments, labelled=True)
    assert (chosen.texts, chosen.labels) == ((texts,), ("Kind",))


@pytest.mark.parametrize("flag", ["text_column_names", "label_column_name"])
def test_find_columns_names_the_column_that_a_flag_misses(flag: str) -> None:
    rows = Dataset.from_dict({"review": ["a b", "c d"], "stars": ["1", "2"]})
    arguments = DataArguments(**{flag: ["nope"] if flag.startswith("text") else "nope"})
    with pytest.raises(ValueError, match=r"rows\.csv has no column 'nope'; it has 'review'"):
        find_columns("rows.csv", rows, arguments, labelled=True)
