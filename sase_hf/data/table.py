"""Rows of any source as one table: a file, a DataFrame, columns in memory, a dataset or a folder.

pyarrow reads CSV, TSV and Parquet, Python JSON and JSON Lines, pandas Excel, and `datasets` folders
and the Hub. What they refuse is refused here, with their reason. Rows of files are stored in a
temporary folder, which is deleted when the process ends, and mapped from there.
"""

import codecs
import csv
import errno
import hashlib
import io
import json
import logging
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, DatasetDict, load_dataset, load_from_disk

from ..utils.errors import refusal
from ..utils.files import check_content, check_readable, is_write_error
from ..utils.text import one_line

logger = logging.getLogger(__name__)

SEPARATORS = ("\t", ";", "|", ",")  # of equally frequent ones the first; names hold commas
CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
SHEET_ENDINGS = (*CSV_ENDINGS, ".xlsx")
JSON_ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
ENDINGS = (*SHEET_ENDINGS, *JSON_ENDINGS, ".parquet")
FIRST_ROW = 2  # of a sheet, below the names of the columns
MAX_ROW = 2**24  # bytes of a row of a CSV file
CHUNK = 10_000  # lines of JSON that are parsed at once
WAY_OUT = (
    "mend it (UTF-8, with cells that hold a separator or a line break in quotation marks), or read "
    "it with pandas and give the DataFrame to fit of TextClassifier or TextRegressor"
)

# What the libraries raise for a file that they do not read.
FAULTS: tuple[type[Exception], ...] = (pa.ArrowException, ValueError, OSError, EOFError, KeyError)
FAULTS += (OverflowError, RecursionError, zlib.error, zipfile.BadZipFile, ImportError)

# The names that a split of a dataset may have; the first one present counts.
SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": (
        *("validation", "valid", "val", "dev", "development"),
        *("validation_matched", "dev_matched"),
    ),
    "test": ("test", "testing", "eval", "evaluation", "test_matched"),
}

# The names of columns by which the rest of the package knows texts and soft labels.
TEXT_COLUMNS = ("text", "text_pair")
PROBABILITIES = "probabilities"  # of the classes, in a train split
PLACE = "row"  # in a train split, the number of a row in its source

Origin = dict[str, str | int | float | None]  # what distinguishes rows from others, for a record


def table(source: Any) -> Dataset:
    """Return the rows of a source, with its columns.

    A source is a path, a `Dataset`, a DataFrame, or a mapping of columns. The cells of CSV, TSV and
    Excel are texts. ValueError: a file that its library does not read, two columns with one name,
    or cells in a column without a name.
    """
    if isinstance(source, Dataset):
        return source.with_format(None) if source.format["type"] else source
    if isinstance(source, str | os.PathLike):
        return _rows_of_file(os.fspath(source))
    try:
        if isinstance(source, pd.DataFrame):
            _check_names(list(map(str, source.columns)), "the DataFrame")
            return Dataset(_plain(pa.Table.from_pandas(source, preserve_index=False)))
        return Dataset.from_dict(source)
    except (pa.ArrowException, TypeError, OverflowError, UnicodeEncodeError) as reason:
        way_out = "give the values of a column one type, and leave out columns that hold others"
        raise refusal(f"the rows cannot be read: {_why(reason)}", way_out) from reason


def _rows_of_file(path: str) -> Dataset:
    """Return the rows of a file, mapped from the disk."""
    check_readable(path)
    check_content(path)
    tables = _tables_of(path)
    empty = next(tables)
    unnamed = [place for place, name in enumerate(empty.column_names) if not name.strip()]
    names = [name for name in empty.column_names if name.strip()]
    _check_names(names, path)
    schema = _plain(empty.select(names)).schema
    stored = scratch_file()
    with writing_rows(), pa.OSFile(stored, "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        for part in tables:
            for place in set(unnamed) - {0}:  # pandas writes the numbers of rows into the first one
                _check_empty(part.column(place), path)
            stream.write_table(_plain(part.select(names)))
    try:
        rows = Dataset.from_file(stored)
    except ValueError as reason:
        raise refusal(f"cannot read {path}: {_why(reason)}", "leave the column out") from reason
    if path.lower().endswith((".tsv", ".tsv.gz")):
        _check_lines(rows, path)
    return rows


def _tables_of(path: str) -> Iterator[pa.Table]:
    """Yield the rows of a file in parts, as its library reads them; the first part has none."""
    ending = next((end for end in ENDINGS if path.lower().endswith(end)), None)
    if ending is None:
        raise refusal(f"{path!r} has an unknown ending", f"allowed are {', '.join(ENDINGS)}")
    try:
        if ending == ".parquet":
            file = pq.ParquetFile(path)
            reader = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        elif ending == ".xlsx":
            reader = _excel_rows(path).to_reader()
        elif ending in JSON_ENDINGS:
            reader = _json_rows(path).to_reader()
        else:
            reader = _csv_reader(path)
        yield reader.schema.empty_table()
        for batch in reader:
            yield pa.Table.from_batches([batch])
    except FAULTS as reason:
        if getattr(reason, "errno", None) is not None:
            raise  # of the file system
        raise refusal(f"cannot read {path}: {_why(reason)}", WAY_OUT) from reason


def _why(reason: Exception) -> str:
    """Return the words of a library in one line."""
    words = map(str, reason.args) if isinstance(reason, pa.ArrowException) else [str(reason)]
    return one_line(" ".join(words)).removesuffix(".")


def _unpacked(path: str) -> pa.NativeFile:
    """Open a file that may be packed, as its name says."""
    return pa.input_stream(path, compression="gzip" if path.lower().endswith(".gz") else None)


def _csv_reader(path: str) -> pa.RecordBatchReader:
    """Return the reader of a CSV or TSV file, for which all cells are texts.

    The separator is the mark that the line of names holds most. As in a spreadsheet, quotes enclose
    cells; empty lines are no rows.
    """
    with _unpacked(path) as file:
        start = file.read(2**16)
    is_utf_16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    shown = start.decode("utf-16" if is_utf_16 else "utf-8-sig", errors="replace").lstrip("\r\n")
    marks = re.sub(r'"[^"]*"', "", shown.partition("\n")[0])
    separator = max(SEPARATORS, key=marks.count)
    names = next(csv.reader(io.StringIO(shown, newline=None), delimiter=separator), [])
    encoding = "utf-16" if is_utf_16 else "utf-8"
    return pyarrow.csv.open_csv(
        _unpacked(path),
        pyarrow.csv.ReadOptions(use_threads=False, block_size=MAX_ROW, encoding=encoding),
        pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )


def _excel_rows(path: str) -> pa.Table:
    """Return the rows of the first sheet of an Excel file, all cells as texts."""
    sheets = pd.read_excel(
        path, sheet_name=None, header=None, dtype=str, keep_default_na=False, na_values=[""]
    )
    (name, cells), *others = sheets.items()
    unread = ", ".join(repr(other) for other, rows in others if len(rows))
    if unread:
        note = f"of {path} the sheet {name!r} is read, not {unread}; save another as its own file"
        logger.warning(one_line(note))
    names = cells.iloc[:1].fillna("").to_numpy().ravel().tolist()
    rows = pa.Table.from_pandas(cells.iloc[1:].rename(columns=str), preserve_index=False)
    return rows.rename_columns(names)


def _json_rows(path: str) -> pa.Table:
    """Return the rows of a file with an array of objects, or with one object per line.

    pandas would make a float of each integer in a column with missing values.
    """
    with _unpacked(path) as file, io.TextIOWrapper(file, "utf-8-sig") as text:
        lines = iter(text)
        first = next((line for line in lines if line.strip()), "")
        if first.lstrip().startswith("["):
            return _table_of(json.loads("".join([first, *lines])))
        # Without rows there is one table, which has no columns.
        parts = [pa.table({})]
        rows = []
        for number, line in enumerate(chain([first], lines), start=1):
            try:
                rows += [json.loads(line)] if line.strip() else []
            except json.JSONDecodeError as reason:
                raise ValueError(f"object {number}: {reason}") from reason
            if len(rows) == CHUNK:
                parts.append(_table_of(rows))
                rows = []
    return pa.concat_tables([*parts, _table_of(rows)], promote_options="permissive")


def _table_of(rows: list[Any]) -> pa.Table:
    """Return the objects of JSON as a table; ValueError for other values."""
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a row is not an object, such as {...}")
    columns = {}
    for name in dict.fromkeys(chain.from_iterable(rows)):
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except FAULTS as reason:
            raise ValueError(f"column {name!r}: {reason}") from reason
    return pa.table(columns)


def _plain(rows: pa.Table) -> pa.Table:
    """Return a table whose texts are of one type, and whose categories are their values."""
    for place, field in enumerate(rows.schema):
        values = rows.column(place)
        if pa.types.is_dictionary(field.type):
            values = values.cast(field.type.value_type)
        if pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
            values = values.cast(pa.string())
        if values.type != field.type:
            rows = rows.set_column(place, field.name, values)
    return rows


def _check_names(names: Sequence[str], title: str) -> None:
    """Raise ValueError if two columns have one name."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise refusal(f"{title} has two columns {name!r}", "give one of them another name")


def _check_empty(cells: pa.ChunkedArray, path: str) -> None:
    """Raise ValueError if a column without a name, as spreadsheets leave behind, holds a cell."""
    for cell in cells.drop_null().to_pylist():
        if str(cell).strip():
            raise refusal(
                f"{path} has the cell {cell!r:.80} in a column without a name",
                "put names into the first line, and nothing above it",
            )


def _check_lines(rows: Dataset, path: str) -> None:
    """Raise ValueError if a cell between tabs holds a line break: a quote joined rows."""
    for name in rows.column_names:
        row = pa.compute.match_substring(rows.data.column(name), "\n").index(True).as_py()
        if row >= 0:
            raise refusal(
                f"{place_of(path, row)}, column {name!r} holds a line break, as quotation marks "
                "join its lines",
                "save it as CSV, in which quotation marks inside a cell are doubled",
            )


def place_of(title: str, row: int) -> str:
    """Return where a row is, for errors; a spreadsheet counts the rows of a sheet from 1."""
    if title.lower().endswith(SHEET_ENDINGS):
        return f"row {row + FIRST_ROW} of the sheet {title}"
    return f"row {row} (counted from 0) of {title}"


def first_number(title: str) -> int:
    """Return the number that `place_of` gives to the first row of a source."""
    return FIRST_ROW if title.lower().endswith(SHEET_ENDINGS) else 0


# ---- datasets with splits ------------------------------------------------------------------------


def load_splits(
    name: str,
    config: str | None = None,
    revision: str | None = None,
    cache_dir: str | None = None,
    token: str | None = None,
) -> Mapping[str, Dataset]:
    """Return the splits of a dataset of the Hub, or of a folder, by their own names.

    ValueError names the dataset that `datasets` cannot read.
    """
    try:
        if os.path.isdir(name):
            if Path(name, "dataset_dict.json").exists() or Path(name, "state.json").exists():
                saved = load_from_disk(name)
                return saved if isinstance(saved, DatasetDict) else {"train": saved}
            # `datasets` copies the files of a folder.
            name, cache_dir = os.path.abspath(name), cache_dir or _scratch().name
        loaded = load_dataset(name, config, revision=revision, cache_dir=cache_dir, token=token)
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        reason = one_line(error.__cause__ or error) or type(error).__name__
        raise refusal(
            f"cannot read the dataset {name}: {reason}", "give its files by --train_file"
        ) from error
    for path in sorted(Path(name).rglob("*.parquet")) if os.path.isdir(name) else ():
        _check_classes(path, next(iter(loaded.values())).features)
    return dict(loaded)


def _check_classes(path: Path, read: Mapping[str, Any]) -> None:
    """Raise ValueError if a file numbers the classes of a column otherwise than they are read."""
    for name, feature in Dataset(pq.read_schema(path).empty_table()).features.items():
        item, item_read = (getattr(x, "feature", x) for x in (feature, read.get(name)))
        if isinstance(item, ClassLabel) or isinstance(item_read, ClassLabel):
            names, names_read = getattr(item, "names", None), getattr(item_read, "names", None)
            if names != names_read:
                raise refusal(
                    f"the classes of column {name!r} are {names} in {path}, and {names_read} in "
                    "another file of the folder, so one number can mean two classes",
                    "store its labels as texts in all files",
                )


def usual_splits(title: str, splits: Collection[str]) -> dict[str, str]:
    """Return which split of a dataset is which of `SPLIT_NAMES`; log those that are not read.

    ValueError if there is none.
    """
    by_form = {split.lower().replace("-", "_"): split for split in reversed(list(splits))}
    chosen: dict[str, str] = {}
    for name, usual in SPLIT_NAMES.items():
        present = [by_form[form] for form in usual if form in by_form]
        if present:
            chosen[name] = present[0]
    if not chosen:
        known = ", ".join(chain.from_iterable(SPLIT_NAMES.values()))
        raise refusal(f"{title} has the splits {list(splits)}", f"name them as usual: {known}")
    for split in splits:
        if split not in chosen.values():
            logger.warning(one_line(f"the split {split!r} of {title} is not read"))
    return chosen


def origin_of(path: str) -> Origin:
    """Return what distinguishes the content of a file from another's, for a record."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": Path(path).name, "sha256": digest}


def commit_of(rows: Dataset) -> str | None:
    """Return the commit that a dataset was downloaded at, None if it is not from the Hub."""
    urls = " ".join(rows.info.download_checksums or ())
    match = re.search(r"@([0-9a-f]{40})/", urls)
    return match and match[1]


# ---- columns and temporary files -----------------------------------------------------------------


def usual_form(name: str) -> str:
    """Return the form in which names of columns are compared: lower case, _ for each space."""
    return name.strip().lower().replace(" ", "_")


def present(names: Sequence[str], rows: Dataset) -> list[str]:
    """Return those of some columns that a dataset has, such as its `TEXT_COLUMNS`."""
    return [name for name in names if name in rows.column_names]


def holds_texts(rows: Dataset, name: str) -> bool:
    """Return whether a dataset has a column of this name, and it holds texts."""
    return getattr(rows.features.get(name), "dtype", None) in ("string", "large_string")


def with_column(rows: Dataset, name: str, values: Sequence[Any], feature: Any = None) -> Dataset:
    """Return rows with one more column, whose type is the `feature`, or that of the values."""
    # The fingerprint is random, because hashing all values takes long.
    return rows.add_column(name, values, feature=feature, new_fingerprint=uuid4().hex)


def numbered(kind: str, number: int) -> str:
    """Return the name of the n-th file of a kind in a record: `unlabelled`, `unlabelled_2`, ..."""
    return kind if number == 1 else f"{kind}_{number}"


def scratch_file() -> str:
    """Return the path of a new file on disk, which is deleted when the process ends."""
    return os.path.join(_scratch().name, f"{uuid4().hex}.arrow")  # forks share the folder


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sase_hf-", ignore_cleanup_errors=True)


@contextmanager
def writing_rows() -> Iterator[None]:
    """Name the folder of temporary files in the error of a full disk."""
    try:
        yield
    except OSError as reason:
        if not is_write_error(reason):
            raise
        why = os.strerror(reason.errno or errno.ENOSPC)
        raise OSError(
            reason.errno,
            f"the rows do not fit into {_scratch().name}: {why}; free space there, or set TMPDIR "
            "to another folder",
        ) from reason
