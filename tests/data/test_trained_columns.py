"""Rows to predict are read from the columns that the model was trained on."""

import json
from pathlib import Path
from typing import Any

import pytest
from rows import write_csv

from sase_hf.data.arguments import DataArguments, PairArguments
from sase_hf.data.splits import Rows, load_pairs, load_rows
from sase_hf.data.trained_columns import ROWS_NAME, warn_of_learned_rows

NEWS = [
    {"headline": "Rain is near.", "body": "It will rain all day.", "mood": "sad", "class": "x"},
    {"headline": "Sun is back.", "body": "It was a fine day.", "mood": "glad", "class": "y"},
]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The folder of a run that read `headline` and `mood`."""
    folder = tmp_path / "run" / "checkpoint-3"
    folder.mkdir(parents=True)
    record = {"text_column_names": ["headline"], "label_column_name": ["mood"]}
    (tmp_path / "run" / ROWS_NAME).write_text(json.dumps(record), encoding="utf-8")
    return folder


def load(folder: Path, rows: list[dict[str, str]], checkpoint: Path, **flags: Any) -> Rows:
    """Read rows to predict by a checkpoint."""
    path = write_csv(folder / "test.csv", rows)
    arguments = DataArguments(test_file=str(path), label_names=["sad", "glad"], **flags)
    return load_rows(arguments, checkpoint=str(checkpoint))


@pytest.mark.parametrize("folder", [".", ".."])
def test_load_rows_reads_the_columns_of_the_training(
    folder: str, checkpoint: Path, tmp_path: Path
) -> None:
    """The usual names would choose `body` and `class`."""
    task = load(tmp_path, NEWS, checkpoint / folder)
    assert (task.text_columns, task.label_columns) == (("headline",), ("mood",))
    asked = load(tmp_path, NEWS, checkpoint / folder, text_column_names=["body"])
    assert asked.text_columns == ("body",), "a flag wins"


def test_load_rows_reads_the_columns_of_the_training_in_another_case(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{name.upper(): value for name, value in row.items()} for row in NEWS]
    task = load(tmp_path, rows, checkpoint)
    assert (task.text_columns, task.label_columns) == (("HEADLINE",), ("MOOD",))
    assert "does not have" not in caplog.text


def test_load_rows_says_that_the_column_of_the_training_is_missing(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"text": "Rain."}, {"text": "Sun."}]
    assert load(tmp_path, rows, checkpoint).text_columns == ("text",)
    assert (
        f"trained on headline, which {tmp_path / 'test.csv'} does not have; --text_column"
        in caplog.text
    )


def test_load_rows_reads_a_column_of_the_training_with_a_comma(tmp_path: Path) -> None:
    name = "What was good, and why?"
    (tmp_path / ROWS_NAME).write_text(json.dumps({"text_column_names": [name]}), encoding="utf-8")
    rows = [{name: "The soup."}, {name: "The bread."}]
    assert load(tmp_path, rows, tmp_path).text_columns == (name,)


def test_load_rows_of_a_training_finds_its_own_columns(checkpoint: Path, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "train.csv", NEWS)
    arguments = DataArguments(train_file=str(path), label_column_name="mood")
    assert load_rows(arguments, checkpoint=str(checkpoint)).text_columns == ("body",)


def test_load_pairs_keeps_the_direction_of_the_training(tmp_path: Path) -> None:
    """A model that translates from French must not read the English column, which comes first."""
    (tmp_path / ROWS_NAME).write_text('{"text_column_names": ["fr", "en"]}', encoding="utf-8")
    rows = [{"en": "a small house", "fr": "une petite maison"}] * 2
    path = write_csv(tmp_path / "pairs.csv", rows)
    task = load_pairs(PairArguments(validation_file=str(path)), checkpoint=str(tmp_path))
    assert task.splits["validation"]["text"][0] == "une petite maison"


READ = {"file": "a.csv", "sha256": "1f", "rows": 90, "text_column_names": ("text",)}
HELD_OUT = {"file": "a.csv", "split_off": 0.1}


@pytest.mark.parametrize(
    ("before", "warning"),
    [
        (READ, ""),
        ({**READ, "file": "renamed.csv"}, ""),
        ({**READ, "settings": {"seed": 3}}, ""),
        ({**READ, "sha256": "2e"}, "was trained on 90 rows of a.csv, which are not those of now"),
        ({**READ, "rows": 100}, "was trained on 100 rows of a.csv"),
        ({**READ, "corrections": [{"sha256": "3d"}]}, "was trained on 90 rows of a.csv"),
        ({}, "does not say on which rows it was trained"),
    ],
    ids=str,
)
def test_held_out_rows_that_a_checkpoint_may_know_are_warned_of(
    before: dict[str, Any], warning: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ROWS_NAME).write_text(json.dumps(before), encoding="utf-8")
    warn_of_learned_rows(str(tmp_path), READ, HELD_OUT)
    assert warning in caplog.text
    assert bool(warning) == bool(caplog.text)


def test_rows_of_a_validation_file_are_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_learned_rows(str(tmp_path), READ, {"file": "b.csv"})
    warn_of_learned_rows(None, READ, HELD_OUT)
    assert caplog.text == ""
