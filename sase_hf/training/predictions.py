"""Predictions as a copy of the rows that were predicted, with more columns."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from ..data.rows import Rows
from ..data.table import SHEET_ENDINGS
from ..utils.files import atomic_write

Row = Mapping[str, Any]


def write_predictions(
    added: Sequence[Row], rows: Rows, source: str | None, output_dir: str
) -> Path:
    """Write the test rows, with all columns of their source and the added ones; return the file.

    Those of a sheet or a Parquet file become `predictions.csv`, all others `predictions.jsonl`.
    """
    is_table = source is not None and source.lower().endswith((*SHEET_ENDINGS, ".parquet"))
    target = Path(output_dir, "predictions.csv" if is_table else "predictions.jsonl")
    with atomic_write(target) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        write_rows(file, rows.test_table or (), added, is_table=is_table)
    return target


def write_rows(file: TextIO, rows: Iterable[Row], added: Iterable[Row], *, is_table: bool) -> None:
    """Write rows with more columns, as JSON Lines or as CSV.

    In CSV lists are JSON texts, and each label has a column of scores.
    """
    if is_table:
        write_csv(file, map(with_columns, map(flat_row, rows), map(flat_row, added)))
    else:
        file.writelines(f"{json_line(row)}\n" for row in map(with_columns, rows, added))


def flat_row(row: Row) -> dict[str, Any]:
    """Return the row of a table: a column for each score, and lists as JSON texts."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            cells |= {f"{name}_{key}": entry for key, entry in value.items()}
        else:
            cells[name] = json_line(value) if isinstance(value, list) else value
    return cells


def with_columns(row: Row, added: Row) -> dict[str, Any]:
    """Return a row with more columns; underscores follow a name that is taken."""
    joined = dict(row)
    for name, value in added.items():
        while name in joined:
            name += "_"
        joined[name] = value
    return joined


def write_csv(file: TextIO, rows: Iterator[Row]) -> None:
    """Write rows below a line of their names; texts are quoted, as they may hold line ends."""
    first = next(rows, {})
    writer = csv.DictWriter(file, first, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    writer.writerows(filter(None, chain([first], rows)))


def json_line(value: object) -> str:
    """Return a value as JSON; what JSON lacks, such as times, as text."""
    return json.dumps(value, ensure_ascii=False, default=str)
