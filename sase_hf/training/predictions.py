"""Predictions as a copy of the file that was predicted, with more columns."""

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from ..data.arguments import SourceArguments
from ..data.rows import CsvForm, read_rows, wrap_read_errors
from ..data.splits import Rows
from ..utils.files import atomic_write

Row = Mapping[str, Any]

_HALVES = re.compile("[\ud800-\udfff]")  # lone surrogates


def write_predictions(
    added: Sequence[Row], rows: Rows, arguments: SourceArguments, output_dir: str
) -> Path:
    """Write the test rows with the added columns: `predictions` with the ending of `test_file`.

    The columns of the file are kept. In CSV, TSV and Parquet, lists are JSON texts, and each label
    has a column of scores. Rows that are not those of one file, because they come from the Hub or
    because some were left out, become JSON Lines with the columns `text`, `text_pair` and `label`.
    """
    source = arguments.file_of("test")
    if getattr(arguments, "drop_unlabelled", False):
        source = None
    ending = ".jsonl" if source is None else _ending(source)
    if ending.startswith((".csv", ".tsv", ".parquet")):
        added = [flat_row(row) for row in added]
    target = Path(output_dir, f"predictions{ending}")
    with atomic_write(target) as draft:
        if source is not None and ending == ".parquet":
            _write_parquet(draft, pq.read_table(source), added)
            return target
        names = (name for row in _test_rows(source, rows, len(added)) for name in row)
        added = _renamed(added, names)
        test_rows = _test_rows(source, rows, len(added))
        joined = ({**row, **columns} for row, columns in zip(test_rows, added, strict=True))
        form = None
        if source is not None and ending.startswith((".csv", ".tsv")):
            form = CsvForm.of(source)
        _write_text(draft, ending, joined, form)
    return target


def _ending(file: str) -> str:
    """Return the ending of a file in lower case, such as `.csv` or `.csv.gz`."""
    suffixes = Path(file.lower()).suffixes
    if suffixes[-1:] == [".gz"]:
        return "".join(suffixes[-2:])
    return "".join(suffixes[-1:])


def _test_rows(source: str | None, rows: Rows, count: int) -> Iterator[Row]:
    """Yield the first `count` rows of the file; without a file, the rows of the test split."""
    if source is None:
        yield from rows.splits["test"].to_list()
        return
    with wrap_read_errors(source):
        yield from islice(read_rows(source), count)


def _write_parquet(draft: Path, table: pa.Table, added: Sequence[Row]) -> None:
    table = table.slice(0, len(added))
    added = _renamed(added, table.column_names)
    for name in added[0]:
        values = [row[name] for row in added]
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, draft)


def _write_text(draft: Path, ending: str, rows: Iterable[Row], form: CsvForm | None) -> None:
    """Write rows as CSV in the given form; without a form, as JSON Lines or JSON."""
    opener = gzip.open if ending.endswith(".gz") else open
    encoding = "utf-8" if form is None else form.encoding
    with opener(draft, "wt", encoding=encoding, newline="") as file:
        if form is not None:
            write_csv(file, rows, form)
        elif ending.startswith(".jsonl"):
            file.writelines(f"{json_line(row)}\n" for row in rows)
        else:
            objects = ",\n".join(map(json_line, rows))
            file.write(f"[\n{objects}\n]\n")


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


def write_csv(file: TextIO, rows: Iterable[Row], form: CsvForm) -> None:
    """Write rows below a line of their names."""
    options: dict[str, Any] = {"delimiter": form.separator, "lineterminator": form.line_end}
    writer = csv.writer(file, **options)
    quoting = csv.writer(file, **options, quoting=csv.QUOTE_ALL)
    file.write(form.above)
    for number, row in enumerate(rows):
        if number == 0:
            writer.writerow(row)
        cells = row.values()
        # The writer quotes only the line ends that it writes, and readers know others too.
        breaks = any("\r" in cell or "\n" in cell for cell in cells if isinstance(cell, str))
        if breaks:
            quoting.writerow(cells)
        else:
            writer.writerow(cells)


def json_line(row: Row) -> str:
    """Return a row as JSON, in ASCII if it holds half a character, which UTF-8 cannot write."""
    line = json.dumps(row, ensure_ascii=False)
    if _HALVES.search(line):
        return json.dumps(row)
    return line
