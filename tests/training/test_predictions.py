"""Predictions beside the columns of their file."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from rows import write_csv, write_jsonl

from sase_hf.data.arguments import DataArguments
from sase_hf.data.rows import load_rows
from sase_hf.tasks.labels.predictions import predicted_labels
from sase_hf.training.predictions import write_predictions

ROWS = [
    {"text": "cold, they said", "id": "7", "confidence": "x"},
    {"text": "hot", "id": "8", "confidence": ""},
]
LOGITS = torch.tensor([[2.0, 0.0], [0.0, 3.0]])


def write(path: Path) -> str:
    """Write `ROWS` in the form that the ending names."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif path.suffix == ".jsonl":
        write_jsonl(path, ROWS)
    else:
        write_csv(path, ROWS)
    return str(path)


def read(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)] if path.suffix == ".csv" else [*map(json.loads, file)]


def add(file: Path, added: list[dict[str, Any]], folder: Path, **options: Any) -> Path:
    """Write columns beside those of a file."""
    arguments = DataArguments(test_file=str(file), label_names=["no", "yes"], **options)
    return write_predictions(added, load_rows(arguments), str(file), str(folder))


@pytest.mark.parametrize("ending", ["csv.gz", "jsonl", "parquet"])
def test_predictions_keep_the_columns_of_their_file(ending: str, tmp_path: Path) -> None:
    """Those of a table are CSV, others JSON Lines. A name that is taken gets an underscore."""
    names = ["no", "yes"]
    arguments = DataArguments(test_file=write(tmp_path / f"New.Rows.{ending}"), label_names=names)
    task = load_rows(arguments)
    added = predicted_labels(LOGITS, task.answers)
    path = write_predictions(added, task, arguments.test_file, str(tmp_path / "out"))
    form = "jsonl" if ending == "jsonl" else "csv"
    assert path == tmp_path / "out" / f"predictions.{form}"
    rows = read(path)
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert [row["predicted_label"] for row in rows] == names
    assert float(rows[0]["confidence_"]) == round(LOGITS[0].softmax(0)[0].item(), 4)
    scores = rows[1].get("scores") or {name: float(rows[1][f"scores_{name}"]) for name in names}
    assert scores == {"no": 0.0474, "yes": 0.9526}


def test_predictions_quote_line_ends_of_every_kind(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b'text,id\n"cold\rhot",007\nhot,8\n')
    path = add(tmp_path / "rows.csv", [{"score": 1}] * 2, tmp_path)
    assert path.read_bytes() == b'"text","id","score"\n"cold\rhot","007",1\n"hot","8",1\n'


def test_predictions_have_the_same_names_in_all_rows(tmp_path: Path) -> None:
    """Also where few rows have a key, and the name with an underscore is that of another."""
    (tmp_path / "some.jsonl").write_text('{"text": "a"}\n{"text": "b", "own": 0}\n')
    path = add(tmp_path / "some.jsonl", [{"own": 1, "own_": 2}] * 2, tmp_path / "out")
    assert [(row["own_"], row["own__"]) for row in read(path)] == [(1, 2)] * 2


def test_predictions_keep_the_columns_of_the_rows_that_are_read(tmp_path: Path) -> None:
    """Where a row has no text, and where only the first rows are predicted."""
    rows = [*ROWS[:1], {**ROWS[0], "text": ""}, *ROWS[1:], *ROWS]
    path = write_csv(tmp_path / "rows.csv", rows)
    written = add(path, [{"score": 1}] * 2, tmp_path / "out", max_predict_samples=2)
    assert [row["id"] for row in read(written)] == ["7", "8"]
