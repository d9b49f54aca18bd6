"""Rows of any source as one table, the repeats in them, and rows that are held out.

pyarrow reads CSV, TSV and Parquet, Python JSON and JSON Lines, pandas Excel, and `datasets` folders
and the Hub. What they refuse is refused here, with their reason. Rows of files are stored in a
temporary folder, which is deleted when the process ends, and mapped from there.
"""

import csv
import hashlib
import io
import json
import logging
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Dataset, Features, load_dataset
from pandas.util import hash_pandas_object
from pyarrow import csv as pa_csv

from ..utils.files import check_readable, scratch_file, scratch_folder
from ..utils.text import one_line, refusal

logger = logging.getLogger(__name__)

SEPARATORS = ("\t", ";", "|", ",")  # of equally frequent ones the first; names hold commas
SHEET_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".xlsx")
ENDINGS = (*SHEET_ENDINGS, ".jsonl", ".jsonl.gz", ".ndjson", ".json", ".json.gz", ".parquet")
MAX_ROW = 2**24  # bytes of a row of a CSV file
WAY_OUT = (
    "a file is UTF-8, in the format that its ending names (CSV, TSV, JSON, JSON Lines, Excel, "
    "Parquet), with a name and one type for each column; fit takes DataFrames, too"
)

# The names that a split of a dataset may have; the first one present counts.
SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": (
        "validation",
        "valid",
        "val",
        "dev",
        "development",
        "validation_matched",
        "dev_matched",
    ),
    "test": ("test", "testing", "eval", "evaluation", "test_matched"),
}

Record = dict[str, Any]  # what distinguishes rows from others

# The names of columns by which the rest of the package knows texts and soft labels.
TEXT_COLUMNS = ("text", "text_pair")
PROBABILITIES = "probabilities"  # of the classes, in a train split
PLACE = "row"  # in a train split, the number of a row in its source


def table(source: Any) -> Dataset:
    """Return the rows of a source, with its columns.

    A source is a path, a `Dataset` or a DataFrame. The cells of CSV, TSV and Excel are texts.
    ValueError: its library does not read it, or a column with cells has no name.
    """
    if isinstance(source, Dataset):
        return source.with_format(None)
    is_frame = isinstance(source, pd.DataFrame)
    title = "the DataFrame" if is_frame else str(source)
    if not is_frame:
        check_readable(title)
    try:
        if is_frame:
            rows = pa.Table.from_pandas(source, preserve_index=False)
            return Dataset(rows.cast(_plain(rows.schema)))
        return _rows_of_file(title)
    except Exception as reason:  # libraries raise classes of their own
        raise refusal(f"cannot read {title}: {one_line(reason)}", WAY_OUT) from reason


def _rows_of_file(path: str) -> Dataset:
    """Return the rows of a file, mapped from the disk.

    Columns without a name are left out: pandas writes the numbers of rows into the first one, and
    spreadsheets leave empty ones behind.
    """
    reader = _reader(path)
    schema = _plain(reader.schema)
    stored = scratch_file()
    with pa.OSFile(stored, "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        for batch in reader:
            for place, (name, cells) in enumerate(zip(reader.schema.names, batch, strict=True)):
                if place and not name.strip() and pc.any(pc.not_equal(cells, "")).as_py():
                    raise ValueError("a column that holds cells has no name")
            stream.write_batch(batch.select(schema.names).cast(schema))
    rows = Dataset.from_file(stored)
    if path.lower().endswith(SHEET_ENDINGS) and rows.num_columns > 1:
        are_names = map(pc.equal, rows.data.columns, rows.column_names)
        if pc.any(reduce(pc.and_, are_names)).as_py():
            raise ValueError("a row repeats the names of the columns; delete it")
    return rows


def _reader(path: str) -> pa.RecordBatchReader:
    """Return the rows of a file, as its library reads them."""
    name = path.lower()
    if name.endswith(".parquet"):
        file = pq.ParquetFile(path)
        return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
    if name.endswith(".xlsx"):
        return _excel_rows(path).to_reader()
    if name.endswith(SHEET_ENDINGS):
        return _csv_reader(path)
    return _json_rows(path).to_reader()


def _opened(path: str) -> io.TextIOWrapper:
    """Open a file of text, which may be packed, as its name says."""
    return io.TextIOWrapper(pa.input_stream(path), "utf-8-sig")


def _csv_reader(path: str) -> pa.RecordBatchReader:
    """Return the reader of a CSV or TSV file, for which all cells are texts.

    The separator is the mark that the line of names holds most. As in a spreadsheet, quotes enclose
    cells; empty lines are no rows.
    """
    with _opened(path) as file:
        names = next(filter(str.strip, file), "")
    if "\0" in names:
        raise ValueError("it is not UTF-8")
    marks = re.sub(r'"[^"]*"', "", names)
    separator = max(SEPARATORS, key=marks.count)
    _check_quotes(path, separator)
    return pa_csv.open_csv(
        path,
        pa_csv.ReadOptions(use_threads=False, block_size=MAX_ROW),
        pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        pa_csv.ConvertOptions(default_column_type=pa.string()),
    )


def _check_quotes(path: str, separator: str) -> None:
    """Raise ValueError for a quoted cell that goes on after its quotes; pyarrow would read on.

    In a TSV file, where quotes are part of the texts, no cell holds a line break either.
    """
    is_tsv = path.lower().endswith((".tsv", ".tsv.gz"))
    csv.field_size_limit(2**31 - 1)
    with _opened(path) as file, suppress(UnicodeDecodeError):  # of which pyarrow names the row
        rows = csv.reader(file, delimiter=separator, strict=True)
        joined = (cells for cells in rows if is_tsv and "\n" in "".join(cells))
        try:
            fault: object = next(joined, None) and "quotation marks join lines"
        except csv.Error as reason:
            fault = reason
        if fault is not None:
            raise ValueError(
                f"line {rows.line_num}: {fault}; save it as CSV, in which marks inside a cell in "
                "quotation marks are doubled, and nothing follows the closing one"
            )


def _excel_rows(path: str) -> pa.Table:
    """Return the rows of the first sheet of an Excel file, all cells as texts."""
    sheets = pd.read_excel(path, sheet_name=None, header=None, dtype=str, na_filter=False)
    (sheet, cells), *others = sheets.items()
    if others:
        logger.warning("of %s only the first sheet, %r, is read", path, sheet)
    cells.columns = cells.iloc[0]
    return pa.Table.from_pandas(cells[1:], preserve_index=False)


def _json_rows(path: str) -> pa.Table:
    """Return the rows of a file with an array of objects, or with one object per line.

    pandas would make a float of each integer in a column with missing values, and pyarrow times of
    texts.
    """
    with _opened(path) as file:
        content = file.read()
    if not content.lstrip().startswith("["):
        lines = filter(str.strip, content.split("\n"))
        content = "[" + ",\n".join(lines) + "]"
    # A table without columns has no rows.
    return pa.Table.from_struct_array(pa.array(json.loads(content) or [{}]))


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return the named columns; categories are their values."""
    fields = []
    for field in schema:
        if pa.types.is_dictionary(field.type):
            field = field.with_type(field.type.value_type)
        if field.name.strip():
            fields.append(field)
    return pa.schema(fields, schema.metadata)


# ---- datasets with splits ------------------------------------------------------------------------


def load_splits(name: str, config: str | None = None) -> Mapping[str, Dataset]:
    """Return the splits of a dataset of the Hub, or of a folder, by their own names.

    ValueError names the dataset that `datasets` cannot read.
    """
    cache_dir = revision = None
    if os.path.isdir(name):  # `datasets` copies its files
        name, cache_dir = os.path.abspath(name), scratch_folder().name
    elif "@" in name:
        name, _, revision = name.partition("@")
    try:
        loaded = load_dataset(name, config, revision=revision, cache_dir=cache_dir)
        # The names of classes in one file are read as those of all.
        schemas = map(pq.read_schema, Path(name).rglob("*.parquet"))
        kinds = {str(Features.from_arrow_schema(schema)) for schema in schemas}
        if len(kinds) > 1 and "ClassLabel" in str(kinds):
            raise ValueError("a class id can mean two classes, as its files differ in their types")
    except Exception as error:  # of many classes
        raise refusal(
            f"cannot read the dataset {name}: {one_line(error.__cause__ or error)}",
            "give its files by --train_file",
        ) from error
    return loaded


def origin_of(path: str) -> Record:
    """Return what distinguishes the content of a file from another's, for a record."""
    with open(path, "rb") as file:
        return {
            "file": Path(path).name,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


# ---- columns -------------------------------------------------------------------------------------


def usual_form(name: str) -> str:
    """Return the form in which names of columns are compared: lower case, _ for each space."""
    return name.strip().lower().replace(" ", "_")


def present(names: Sequence[str], rows: Dataset) -> list[str]:
    """Return those of some columns that a dataset has, such as its `TEXT_COLUMNS`."""
    return [name for name in names if name in rows.column_names]


def texts_of(rows: Dataset) -> list[dict[str, str]]:
    """Return the text or the two texts of each row, as pipelines read them."""
    texts: list[dict[str, str]] = rows.select_columns(present(TEXT_COLUMNS, rows)).to_list()
    return texts


def holds_texts(rows: Dataset, name: str) -> bool:
    """Return whether a dataset has a column of this name, and it holds texts."""
    return getattr(rows.features.get(name), "dtype", None) in ("string", "large_string")


# ---- texts in several rows, and held-out rows without them ---------------------------------------
# Two texts are equal here if they differ only in case, in blanks, or in two encodings of one
# character.


BATCH = 10_000  # rows held in memory at once


def text_digests(rows: Dataset) -> np.ndarray:
    """Return a digest of the texts of each of N rows: (N,), 8 bytes, equal for equal texts."""
    texts = rows.select_columns(present(TEXT_COLUMNS, rows))
    batches = texts.with_format("pandas").iter(BATCH)
    digests = [hash_pandas_object(batch.map(_comparable), index=False) for batch in batches]
    return np.concatenate(digests or [[]])


def _comparable(text: str) -> str:
    """Return a text in lower case, composed, with single blanks."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def warn_of_repeats(splits: Mapping[str, Dataset]) -> None:
    """Log how many texts stand in two splits."""
    for earlier, later in combinations(splits, 2):
        known, texts = (text_digests(splits[name]) for name in (earlier, later))
        if num_repeated := np.isin(texts, known).sum():
            logger.warning(
                f"{num_repeated:,} {later} texts are also in the {earlier} rows, so results look "
                "better than they are on new texts; delete these rows in one of the two"
            )


def hold_out(
    splits: dict[str, Dataset], sources: dict[str, Any], fraction: float | None, seed: int
) -> None:
    """Split validation rows off if it is asked for: no text on both sides, the labels alike.

    Adds the split to `splits`, and where its rows come from to `sources`.
    """
    if not fraction or not splits.get("train") or "validation" in splits:
        return
    train = splits["train"]
    is_picked = _evenly_picked(train, fraction, seed)
    splits["train"] = train.select(np.flatnonzero(~is_picked))
    splits["validation"] = train.select(np.flatnonzero(is_picked))
    sources["validation"] = {**sources["train"], "split_off": fraction, "seed": seed}


def _evenly_picked(rows: Dataset, fraction: float, seed: int) -> np.ndarray:
    """Return whether each of N rows is picked: about a fraction, all rows of a text or none.

    The texts are sorted by the label of one of their rows, then by frequency, so that rare texts
    even out what a frequent one overshot, then at random. Evenly spaced places in this order have
    the proportions of the labels. A text is picked once half of its rows are due.

    scikit-learn's `StratifiedGroupKFold` takes no numbers, no lists, no labels that occur once and
    no fraction but 1 / n; a million rows take it three minutes, and this function two seconds.
    """
    digests = text_digests(rows)
    labels = rows["label"][:] if isinstance(rows[0].get("label"), int | float) else 0
    order = np.random.default_rng(seed).permutation(len(digests))
    texts = pd.DataFrame({"text": digests, "label": labels}).iloc[order]
    texts = texts.groupby("text", sort=False)["label"].agg(["first", "size"])
    texts = texts.sort_values(["first", "size"], ascending=[True, False], kind="stable")
    count = round(fraction * len(digests)) or 1
    texts["due"] = np.ceil(texts["size"].cumsum() * count / len(digests) - 0.5)
    picked = []
    num_picked = 0
    for text, _, size, num_due in texts.itertuples():
        if 2 * (num_due - num_picked) >= size:
            picked.append(text)
            num_picked += size
    return np.isin(digests, picked)
