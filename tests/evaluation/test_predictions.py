"""Predictions beside the columns of their file."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows import write_csv, write_jsonl

from sase_hf.data.columns import DataArguments
from sase_hf.data.rows import load_rows
from sase_hf.evaluation.predictions import write_predictions

# The second has no text.
ROWS = [
    {"text": "cold, they said", "id": "007", "confidence": "x"},
    {"text": "", "id": "8", "confidence": "y"},
    {"text": "hot\rwarm", "id": "9", "confidence": ""},
]


def write(path: Path, added: dict[str, Any], **options: Any) -> Path:
    """Write predictions beside the columns of a file."""
    rows = load_rows(DataArguments(test_file=str(path), label_names=["no", "yes"], **options))
    return write_predictions(
        [added] * rows.splits["test"].num_rows, rows, str(path), str(path.parent / "out")
    )


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_predictions_keep_the_columns_of_the_rows_that_are_read(
    ending: str, tmp_path: Path
) -> None:
    """Those of a table are CSV, others JSON Lines. A name that is taken gets an underscore."""
    path = tmp_path / f"New.Rows.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        {"csv": write_csv, "jsonl": write_jsonl}[ending](path, ROWS)
    written = write(path, {"confidence": "1"})
    with written.open(encoding="utf-8", newline="") as file:
        rows = [*map(json.loads, file)] if ending == "jsonl" else [*csv.DictReader(file)]
    assert rows == [{**ROWS[0], "confidence_": "1"}, {**ROWS[2], "confidence_": "1"}]


def test_predictions_of_a_table_have_what_its_cells_hold_as_json(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": ["cold", "warm"], "of": [None, {"id": 7}]}), path)
    with write(path, {"of_id": 1}).open(encoding="utf-8", newline="") as file:
        assert [row["of"] for row in csv.DictReader(file)] == ["", '{"id": 7}']


def test_predictions_stand_beside_the_first_rows_where_no_others_are_predicted(
    tmp_path: Path,
) -> None:
    path = write_csv(tmp_path / "rows.csv", ROWS)
    written = write(path, {"scores": {"no": 0.25, "yes": 0.75}}, max_predict_samples=1)
    header, *lines = written.read_text().splitlines()
    assert header == '"text","id","confidence","scores_no","scores_yes"'
    assert lines == ['"cold, they said","007","x",0.25,0.75']
