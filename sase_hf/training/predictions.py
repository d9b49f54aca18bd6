"""Predictions as a copy of the rows that were predicted, with more columns."""

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from ..data.arguments import SourceArguments
from ..data.rows import Rows
from ..data.table import SHEET_ENDINGS
from ..utils.files import atomic_write

Row = Mapping[str, Any]

_TABLES = (*SHEET_ENDINGS, ".parquet")


def write_predictions(
    added: Sequence[Row], rows: Rows, arguments: SourceArguments, output_dir: str
) -> Path:
    """Write the test rows, with all columns of their source and the added ones; return the file.

    Those of a sheet or a Parquet file become `predictions.csv`, where lists are JSON texts and each
    label has a column of scores; all others `predictions.jsonl`.
    """
    source = arguments.test_file
    is_table = source is not None and source.lower().endswith(_TABLES)
    if is_table:
        added = [flat_row(row) for row in added]
    test_rows = rows.test_table
    assert test_rows is not None
    rows_of_source = map(flat_row, test_rows) if is_table else test_rows
    joined = map(with_columns, rows_of_source, added)
    target = Path(output_dir, "predictions.csv" if is_table else "predictions.jsonl")
    with atomic_write(target) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        if is_table:
            write_csv(file, joined)
        else:
            file.writelines(f"{json_line(row)}\n" for row in joined)
    return target


def flat_row(row: Row) -> dict[str, Any]:
    """Return the row of a table: a column for each score, and lists as JSON texts."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            for key, entry in value.items():
                cells[f"{name}_{key}"] = entry
        elif isinstance(value, list):
            cells[name] = json.dumps(value, ensure_ascii=False, default=str)
        else:
            cells[name] = value
    return cells


def with_columns(row: Row, added: Row) -> dict[str, Any]:
    """Return a row with more columns; underscores follow a name that is taken."""
    joined = dict(row)
    for name, value in added.items():
        while name in joined:
            name += "_"
        joined[name] = value
    return joined


def write_csv(file: TextIO, rows: Iterable[Row]) -> None:
    """Write rows below a line of their names."""
    writer = csv.writer(file, lineterminator="\n")
    quoting = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for number, row in enumerate(rows):
        if number == 0:
            writer.writerow(row)
        # The writer quotes only the line ends that it writes, and readers know others too.
        breaks = any("\r" in cell for cell in row.values() if isinstance(cell, str))
        (quoting if breaks else writer).writerow(row.values())


def json_line(row: Row) -> str:
    """Return a row as JSON; what JSON lacks, such as times, as text."""
    return json.dumps(row, ensure_ascii=False, default=str)
