"""Predictions as a copy of the rows that were predicted, with more columns."""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pyarrow.parquet as pq

from ..data.arguments import SourceArguments
from ..data.rows import read_rows, wrap_read_errors
from ..data.splits import Rows
from ..utils.files import atomic_write

Row = Mapping[str, Any]

_HALVES = re.compile("[\ud800-\udfff]")  # lone surrogates
_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")


def write_predictions(
    added: Sequence[Row], rows: Rows, arguments: SourceArguments, output_dir: str
) -> Path:
    """Write the test rows with the added columns, and return the file.

    Those of a CSV, TSV or Parquet file become `predictions.csv`, where lists are JSON texts and
    each label has a column of scores; all others `predictions.jsonl`. The columns of the file are
    kept. Rows that are not those of one file, because they come from the Hub or because some were
    left out, have the columns `text`, `text_pair` and `label`.
    """
    source = arguments.file_of("test")
    if "left_out" in rows.sources["test"]:
        source = None
    is_table = source is not None and source.lower().endswith(_TABLES)
    if is_table:
        added = [flat_row(row) for row in added]
    added = _renamed(added, (name for row in _test_rows(source, rows, len(added)) for name in row))
    test_rows = _test_rows(source, rows, len(added))
    joined = ({**row, **columns} for row, columns in zip(test_rows, added, strict=True))
    target = Path(output_dir, "predictions.csv" if is_table else "predictions.jsonl")
    with atomic_write(target) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        if is_table:
            write_csv(file, joined)
        else:
            file.writelines(f"{json_line(row)}\n" for row in joined)
    return target


def _test_rows(source: str | None, rows: Rows, count: int) -> Iterator[Row]:
    """Yield the first `count` rows of the file; without a file, the rows of the test split."""
    if source is None:
        yield from rows.splits["test"].to_list()
    elif source.lower().endswith(".parquet"):
        yield from pq.read_table(source).slice(0, count).to_pylist()
    else:
        with wrap_read_errors(source):
            yield from islice(read_rows(source), count)


def flat_row(row: Row) -> dict[str, Any]:
    """Return the row of a table: a column for each score, and lists as JSON texts."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            for key, entry in value.items():
                cells[f"{name}_{key}"] = entry
        elif isinstance(value, list):
            cells[name] = json.dumps(value, ensure_ascii=False)
        else:
            cells[name] = value
    return cells


def _renamed(added: Sequence[Row], names: Iterable[str]) -> Sequence[Row]:
    """Return the added columns, all rows alike, with underscores after names that are taken."""
    if not added:
        return added
    taken = set(names)
    free_names: dict[str, str] = {}
    for name in added[0]:
        free_name = name
        while free_name in taken:
            free_name += "_"
        taken.add(free_name)
        free_names[name] = free_name
    return [{free_names[name]: value for name, value in row.items()} for row in added]


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
    """Return a row as JSON, in ASCII if it holds half a character, which UTF-8 cannot write."""
    line = json.dumps(row, ensure_ascii=False)
    if _HALVES.search(line):
        return json.dumps(row)
    return line
