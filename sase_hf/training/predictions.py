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
from torch import Tensor

from ..data.arguments import DataArguments, SourceArguments
from ..data.csv_rows import CsvForm
from ..data.labels import MULTI_LABEL, REGRESSION
from ..data.rows import read_rows
from ..data.splits import TaskData
from ..utils.files import atomic_write

Row = Mapping[str, Any]

_HALVES = re.compile("[\ud800-\udfff]")  # lone surrogates


def write_predictions(
    added: Sequence[Row], task: TaskData, arguments: SourceArguments, output_dir: str
) -> Path:
    """Write the test rows with more columns: `predictions` with the file's ending.

    The columns of the file are kept. In CSV, TSV and Parquet, lists and scores are JSON texts. Rows
    that are not those of one file, because they come from the Hub or because some were left out,
    become JSON Lines with the columns `text`, `text_pair` and `label`.

    Args:
        added: The new columns of the test rows in their order.
        task: The test rows.
        arguments: Names the file.
        output_dir: The folder to write into.
    """
    source = arguments.test_file
    drops_rows = isinstance(arguments, DataArguments) and arguments.drop_unlabelled
    if source is None or drops_rows:
        rows, ending = task.splits["test"].to_list(), ".jsonl"
    elif source.lower().endswith(".parquet"):
        rows, ending = pq.read_table(source), ".parquet"
    else:
        rows = islice(read_rows(source), len(added))
        path = Path(source.lower())
        ending = "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:])
    target = Path(output_dir, f"predictions{ending}")
    with atomic_write(target) as draft:
        if ending == ".parquet":
            _write_parquet(draft, rows, added)
            return target
        form = CsvForm.of(str(source)) if ending.startswith((".csv", ".tsv")) else None
        opener = gzip.open if ending.endswith(".gz") else open
        encoding = "utf-8" if form is None else form.encoding
        with opener(draft, "wt", encoding=encoding, newline="") as file:
            if form is not None:
                _write_csv(file, rows, added, form)
            else:
                _write_json(file, rows, added, is_array=ending in (".json", ".json.gz"))
    return target


def predicted_labels(logits: Tensor, task: TaskData) -> list[dict[str, Any]]:
    """Return what a model says of each row, as columns.

    `predicted_label` and `confidence`, its probability; for sets of labels `predicted_labels`; for
    numbers `predicted_` and the name of each. The probability of every label is in `scores`.

    Args:
        logits: Shape (B, C).
        task: Names the labels.
    """
    return list(_predicted(logits, task))


def _predicted(logits: Tensor, task: TaskData) -> Iterator[dict[str, Any]]:
    if task.problem_type == REGRESSION:
        for row in logits.float().tolist():
            yield {f"predicted_{n}": value for n, value in zip(task.label_names, row, strict=True)}
        return
    is_multi = task.problem_type == MULTI_LABEL
    probabilities = logits.float().sigmoid() if is_multi else logits.float().softmax(-1)
    for row in probabilities.tolist():
        scores = dict(zip(task.label_names, row, strict=True))
        if is_multi:
            yield {"predicted_labels": [n for n, p in scores.items() if p > 0.5], "scores": scores}
        else:
            best = max(scores, key=scores.__getitem__)
            yield {"predicted_label": best, "confidence": scores[best], "scores": scores}


def _joined(rows: Iterable[Row], added: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield rows with the added columns, which take another name where theirs is taken."""
    for row, more in zip(rows, added, strict=True):
        yield {**row, **{_free(name, row): value for name, value in more.items()}}


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _as_text(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _write_csv(file: TextIO, rows: Iterable[Row], added: Sequence[Row], form: CsvForm) -> None:
    options: dict[str, Any] = {"delimiter": form.separator, "lineterminator": form.line_end}
    writer = csv.writer(file, **options)
    quoting = csv.writer(file, **options, quoting=csv.QUOTE_ALL)
    file.write(form.above)
    for number, row in enumerate(_joined(rows, added)):
        if number == 0:
            writer.writerow(row)
        cells = [*map(_as_text, row.values())]
        # By itself it quotes only the line ends that it writes, but readers know others too.
        breaks = any("\r" in cell or "\n" in cell for cell in cells if isinstance(cell, str))
        (quoting if breaks else writer).writerow(cells)


def _json_line(row: Row) -> str:
    """Return a row as JSON, in ASCII if it holds half a character, which UTF-8 cannot write."""
    line = json.dumps(row, ensure_ascii=False)
    return line if line.isascii() or not _HALVES.search(line) else json.dumps(row)


def _write_json(file: TextIO, rows: Iterable[Row], added: Sequence[Row], is_array: bool) -> None:
    lines = map(_json_line, _joined(rows, added))
    if is_array:
        file.write("[\n" + ",\n".join(lines) + "\n]\n")
    else:
        file.writelines(f"{line}\n" for line in lines)


def _write_parquet(path: Path, table: pa.Table, added: Sequence[Row]) -> None:
    table = table.slice(0, len(added))
    for name in added[0]:
        values = pa.array([_as_text(row[name]) for row in added])
        table = table.append_column(_free(name, table.column_names), values)
    pq.write_table(table, path)


__all__ = ["predicted_labels", "write_predictions"]
