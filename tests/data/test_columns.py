"""Which columns are the texts and the labels: by flag, by name, or those of the training."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from rows import write_csv, write_jsonl

from sase_hf.data.columns import ROWS_NAME, DataArguments, SourceArguments, find_columns
from sase_hf.data.rows import Rows, load_rows

BODIES = [f"the soup was {word} and I paid" for word in ("hot", "cold", "fine", "thin", "bad")]
KINDS = ["yes!", "no!", "yes!", "no!", "yes!"]
FLAGS = [0, 1, 1, 0, 1]
CELLS = {"kinds": KINDS, "bodies": BODIES, "flags": FLAGS, "lists": [["a"]] * 5, "none": [None] * 5}


def columns_of(table: str) -> dict[str, Any]:
    """Return the columns that are written as names, with the kind of their cells or `kinds`."""
    parts = [part.partition(":") for part in table.split("; ")]
    return {name: CELLS[kind or "kinds"] for name, _, kind in parts}


def find(table: str, labelled: bool = True, **flags: Any) -> list[str]:
    """Return the columns of texts and labels."""
    rows = Dataset.from_dict(columns_of(table))
    arguments = DataArguments(**flags)
    texts, labels = find_columns("f.csv", rows, arguments, labelled=labelled, record={})
    return [*texts, *labels]


@pytest.mark.parametrize(
    ("table", "flags", "expected"),
    [
        ("Sentiment; Review; id", {}, "Review; Sentiment"),
        # The plainest name comes first; a title is the text only where there is no other.
        ("text; label; label_text; comment", {}, "text; label"),
        ("title; body; class", {}, "body; class"),
        # Two texts are found by the names of pairs, and only by these.
        ("premise; hypothesis; label", {}, "premise; hypothesis; label"),
        # Usual names of other languages.
        ("id; Sterne; Rezension", {}, "Rezension; Sterne"),
        ("id; 情感; 评论", {}, "评论; 情感"),
        # Of two columns the one with the longer texts is the text.
        ("x:kinds; y:bodies", {}, "y; x"),
        # A single column is what is missing.
        ("comment:kinds; x:bodies", {}, "comment; x"),
        # A label that a flag names is no text, and marks are neither.
        ("text:kinds; x:bodies", {"label_column_name": ["text"]}, "x; text"),
        # Several columns of labels; a name with a comma is one.
        ("text; a:flags; b:flags", {"label_column_name": ["a, b"]}, "text; a; b"),
        ("text; a:flags; b:flags", {"label_names": ["b", "a"]}, "text; b; a"),
        ("text; label; a:flags; b:flags", {"label_names": ["b", "a"]}, "text; label"),
        # Flags name one or two texts.
        ("a; b; label", {"text_column_names": ["b", "a"]}, "b; a; label"),
        ("title; review; class", {"text_column_names": ["title+review"]}, "title+review; class"),
        # Rows to predict need no labels.
        ("text:bodies; stars:flags", {"labelled": False, "label_column_name": []}, "text"),
    ],
    ids=str,
)
def test_find_columns_takes_the_only_ones_that_can_be_meant(
    table: str, flags: dict[str, Any], expected: str
) -> None:
    assert "; ".join(find(table, **flags)) == expected


def test_find_columns_does_not_choose_where_several_can_be_meant() -> None:
    with pytest.raises(ValueError, match=r"^f\.csv: it is not clear which columns"):
        find("id:flags; Good, or not?:bodies; a b:kinds")


def test_find_columns_of_pairs_without_labels_takes_all_or_those_that_flags_name() -> None:
    def texts(table: str, **flags: Any) -> Sequence[str]:
        rows = Dataset.from_dict(columns_of(table))
        arguments = SourceArguments(**flags)
        return find_columns("f.csv", rows, arguments, labelled=True, record={})[0]

    assert texts("en; fr") == ("en", "fr")
    assert texts("en; fr; x", text_column_names=["fr,en"]) == ("fr", "en")
    with pytest.raises(ValueError, match=r"f\.csv.*'x' \(such as.*--text_column_names"):
        texts("en; fr; x")


def test_load_rows_columns_of_the_train_split_hold_for_the_others(tmp_path: Path) -> None:
    """Another split may have a column with a more usual name."""
    train = write_csv(tmp_path / "a.csv", [{"v1": kind, "v2": f"was {kind}"} for kind in KINDS])
    test = write_jsonl(tmp_path / "b.jsonl", [{"text": "x", "v1": "yes!", "v2": "nice"}])
    files = DataArguments(train_file=str(train), test_file=str(test))
    assert load_rows(files).splits["test"].to_list() == [{"text": "nice", "label": 1}]


# ---- the columns of the training -----------------------------------------------------------------


def load(texts: list[str], table: str, folder: Path, file: str = "test") -> Rows:
    """Read rows by a run in the folder that read the columns `texts` and `mood`."""
    record = {"text_column_names": texts, "label_column_name": ["mood"]}
    (folder / ROWS_NAME).write_text(json.dumps(record), encoding="utf-8")
    path = write_csv(folder / "rows.csv", Dataset.from_dict(columns_of(table)).to_list())
    arguments = DataArguments(**{f"{file}_file": str(path)}, label_names=["no!", "yes!"])
    return load_rows(arguments, checkpoint=str(folder / "checkpoint-3"))


def test_load_rows_reads_the_columns_of_the_training(tmp_path: Path) -> None:
    """Usual names would choose others; they count for a training where one is not there."""
    task = load(["headline"], "headline:bodies; body:bodies; mood; class", tmp_path)
    assert [*task.text_columns, *task.label_columns] == ["headline", "mood"]
    task = load(["headline"], "headline:bodies; body:bodies; class", tmp_path, "train")
    assert [*task.text_columns, *task.label_columns] == ["headline", "class"]
    task = load(["title+headline"], "headline:bodies; body:bodies; class", tmp_path, "train")
    assert [*task.text_columns, *task.label_columns] == ["body", "class"]
    for file in ("test", "validation"):
        with pytest.raises(ValueError, match=r"rows\.csv: .* 'headline' holds nothing; "):
            load(["headline"], "text:bodies; mood", tmp_path, file)
    # Lists have this name, and a table another one.
    assert load(["text"], "id:flags; Review:bodies", tmp_path).text_columns == ("Review",)


def test_load_rows_parts_labels_as_the_training(tmp_path: Path) -> None:
    """Also where each row of a file has one or none; other labels have no separator."""
    (tmp_path / ROWS_NAME).write_text('{"label_separator": ";"}', encoding="utf-8")
    rows = [{"text": "a", "label": "fun"}, {"text": "b", "label": ""}]
    arguments = DataArguments(
        test_file=str(write_csv(tmp_path / "new.csv", rows)),
        label_names=["fun", "sad"],
        problem_type="multi_label_classification",
    )
    read = load_rows(arguments, checkpoint=str(tmp_path))
    assert read.splits["test"]["label"][:] == [[1, 0], [0, 0]]
    arguments = DataArguments(train_file=str(write_csv(tmp_path / "old.csv", [*rows, *rows[:1]])))
    with pytest.raises(ValueError, match="at least 2 are needed"):
        load_rows(arguments, checkpoint=str(tmp_path))


def test_load_rows_keeps_the_direction_of_the_training(tmp_path: Path) -> None:
    """A model that translates from French must not read the English column, which comes first."""
    load(["fr", "en"], "en:bodies; fr", tmp_path)
    path = str(tmp_path / "rows.csv")
    rows = load_rows(SourceArguments(validation_file=path), checkpoint=str(tmp_path))
    assert rows.text_columns == ("fr", "en")
