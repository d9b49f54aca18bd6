"""The raw rows of a task: CSV, TSV, JSON, JSON Lines and Parquet files, and datasets of the Hub.

The text formats are not read by the builders of `datasets`, because those guess: the JSON text
`2020-01-01 00:00:00` becomes a timestamp, a missing CSV field a blank text. Here a CSV cell is a
text, a JSON value is what it says, and a line that breaks its format is named.
"""

import csv
import gzip
import json
import logging
import os
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, count, islice, tee
from pathlib import Path
from typing import Any, TextIO

import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, Features, load_dataset
from datasets.exceptions import DatasetGenerationError

from ..utils.files import FilePath, sha256_of
from .arguments import SPLITS, DataArguments
from .columns import SAMPLE_ROWS, Columns, find_columns
from .raw import BATCH, RawSplit, collect

logger = logging.getLogger(__name__)

TEXT_ENDINGS = (".csv", ".tsv", ".json", ".jsonl")
SEPARATORS = (",", ";", "\t", "|")
# A text file has more than this only by mistake, or to fill the memory of who reads it.
MAX_LINE = 2**26  # characters in a line; of an array in a JSON file, which is held whole, in none
MAX_EXPANSION = 100  # characters for each byte of a packed file, where these are more than a line
ENDINGS = (*TEXT_ENDINGS, *(f"{ending}.gz" for ending in TEXT_ENDINGS), ".parquet")


def read_splits(arguments: DataArguments) -> tuple[Columns, list[RawSplit]]:
    """Read the columns of a task, for its splits in the order of `SPLITS`.

    The first split, "train" if there is one, decides which columns these are; see `find_columns`.

    Raises:
        ValueError: If both or neither of a dataset and files are given, the dataset has none of
            `SPLITS`, or as `find_columns` and `read_file` do.
    """
    files = {name: getattr(arguments, f"{name}_file") for name in SPLITS}
    given = {name: path for name, path in files.items() if path is not None}
    if (arguments.dataset_name is None) == (not given):
        raise ValueError(
            f"--dataset_name is {arguments.dataset_name!r} and the files are {given}; give either "
            "a dataset, or one or more of --train_file, --validation_file and --test_file"
        )
    if arguments.dataset_name is not None:
        return _dataset_splits(arguments.dataset_name, arguments)
    first, path = next(iter(given.items()))
    columns = find_columns(path, _first_rows(path), arguments, labelled=first != "test")
    return columns, [read_file(path, columns, name) for name, path in given.items()]


def read_file(path: FilePath, columns: Columns, split: str = "test") -> RawSplit:
    """Read the wanted columns of one split from a file; the ending decides the format.

    Text is UTF-8, with or without a byte-order mark. CSV and TSV have a header line, and fields may
    be in quotes; where these would join the rows of a TSV file, they are text. A `.json` file
    holds an array of objects or one object per line, as `.jsonl` does. A column that is missing is
    left out; where only a row of a JSON file lacks it, the value is None.

    Raises:
        ValueError: If the file has none of `ENDINGS` or breaks its format; names file and line.
    """
    path = os.fspath(path)
    with wrap_read_errors(path):
        source = {"file": os.path.basename(path), "sha256": sha256_of(path)}
        if path.lower().endswith(".parquet"):
            with pq.ParquetFile(path) as file:
                features = Features.from_arrow_schema(file.schema_arrow)
                present = columns.within(features)
                parts = file.iter_batches(BATCH, columns=sum(present, ()))
                batches = (part.to_pydict() for part in parts)
                rows = file.metadata.num_rows
                return _typed_split(split, path, source, batches, rows, features, present)
        seen: dict[str, None] = {}
        return collect(split, path, source, _batches(path, columns, seen), seen, columns)


def _batches(path: str, columns: Columns, seen: dict[str, None]) -> Iterator[dict[str, list[Any]]]:
    """Yield the wanted columns of a text file, some rows at a time; note all columns in `seen`."""
    rows = read_rows(path)
    while part := list(islice(rows, BATCH)):
        for row in part:
            seen.update(dict.fromkeys(row))
        yield {column: [row.get(column) for row in part] for column in sum(columns, ())}


def commit_of(dataset: Dataset) -> str | None:
    """Return the commit that a dataset was downloaded at, None if it is not from the Hub."""
    found = re.search(r"@([0-9a-f]{40})/", " ".join(dataset.info.download_checksums or ()))
    return found and found[1]


@contextmanager
def wrap_read_errors(path: str) -> Iterator[None]:
    """Turn what goes wrong while a file is read into a ValueError that names the file."""
    if not path.lower().endswith(ENDINGS):
        raise ValueError(f"{path!r} has an unknown ending; allowed are {', '.join(ENDINGS)}")
    try:
        yield
    except ValueError as reason:
        advice = "; save it as UTF-8" if isinstance(reason, UnicodeDecodeError) else ""
        raise ValueError(f"cannot read {path!r}: {reason}{advice}") from reason
    except (EOFError, OSError, zlib.error) as reason:
        if getattr(reason, "errno", None) is not None:
            raise  # the file system's; the others come from gzip and Parquet
        raise ValueError(f"cannot read {path!r}: {reason}; is the file complete?") from reason


def read_rows(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a text file, packed by gzip or not; call it inside `wrap_read_errors`.

    Only an array in a JSON file is held in memory as a whole.
    """
    ending = Path(path.lower().removesuffix(".gz")).suffix
    opener = gzip.open if path.lower().endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        if ending in (".csv", ".tsv"):
            usual = "," if ending == ".csv" else "\t"
            fault = _quotes_are_text(_pieces(file, path), usual)
            if fault is not None:
                _warn_of_quotes(path, fault)
            file.seek(0)
            yield from _csv_rows(_pieces(file, path), usual, fault is not None)
        else:
            yield from _json_rows(_pieces(file, path))


@cache  # a file is read twice: for its columns, and for its rows
def _warn_of_quotes(path: str, line: int) -> None:
    logger.warning(
        f"the quotes of {path} are read as text: those in line {line} would join or spoil whole "
        "rows. If they are not text, save the file as CSV"
    )


def _pieces(file: TextIO, path: str) -> Iterator[str]:
    """Yield the lines of a file, those above the limit in pieces."""
    size, limit = 0, max(MAX_LINE, MAX_EXPANSION * os.path.getsize(path))
    while piece := file.readline(MAX_LINE):
        size += len(piece)
        if size > limit:
            fault = f"it unpacks to more than {limit:,} characters, {MAX_EXPANSION} for each byte"
            raise ValueError(f"{fault}; if that is right, unpack it first")
        yield piece


def _whole(number: int, piece: str) -> str:
    if len(piece) < MAX_LINE:
        return piece
    raise ValueError(f"line {number} has {MAX_LINE:,} characters or more; are line ends missing?")


def _csv_start(pieces: Iterator[str], usual: str) -> tuple[list[str], Iterator[str], str]:
    """Return the lines up to the header, those below it, and the separator."""
    csv.field_size_limit(MAX_LINE)  # its own limit of 128 KiB is shorter than a long document
    lines = map(_whole, count(1), pieces)
    first = _first_lines(lines)
    second = list(islice(lines, 1))
    return first, chain(second, lines), _separator(first[-1], "".join(second), usual)


def _quotes_are_text(pieces: Iterator[str], usual: str) -> int | None:
    """Return the line that shows the quotes of a file to be text, as in the TSV files of GLUE.

    So it is if tabs separate, the header has no quotes, no doubled ones come before, and a quoted
    field would join lines that are rows by themselves, or be a fault in one that is.
    """
    first, lines, separator = _csv_start(pieces, usual)
    tabs = first[-1].count("\t")
    if separator != "\t" or not tabs or '"' in first[-1]:
        return None
    number = len(first)
    for line in lines:
        number += 1
        if '""' in line:
            return None
        if '"' not in line:
            continue
        read, same = tee(chain([line], lines))
        reader = csv.reader(read, delimiter="\t", strict=True)
        try:
            next(reader)
            is_row = reader.line_num == 1
        except csv.Error:
            is_row = False
        taken = list(islice(same, reader.line_num))
        if not is_row and all(line.count("\t") == tabs for line in taken if line.strip()):
            return number
        number += len(taken) - 1
    return None


def _csv_rows(
    pieces: Iterator[str], usual: str, quotes_are_text: bool
) -> Iterator[Mapping[str, str]]:
    """Yield the rows below the header line; cells stay the texts they are."""
    first, lines, separator = _csv_start(pieces, usual)
    reader = csv.reader(
        chain(first, lines),
        delimiter=separator,
        quoting=csv.QUOTE_NONE if quotes_are_text else csv.QUOTE_MINIMAL,
        strict=True,
    )
    advice = "a field that holds a separator needs quotes around it"
    if quotes_are_text:
        advice = "its quotes are text, as they would join whole rows; if not, save it as CSV"
    try:
        header = next(islice(reader, len(first) - 1, None), [])
        if len(set(header)) < len(header):
            raise ValueError(f"the header names a column twice: {header}")
        for cells in reader:
            if not cells and not any(map(str.strip, lines)):
                break  # only blank lines are left
            if len(cells) != len(header):
                if len(cells) < 2 and not "".join(cells).strip():
                    raise ValueError(f"line {reader.line_num} is blank; delete it")
                fault = f"has {len(cells)} fields and the header {len(header)}; {advice}"
                raise ValueError(f"line {reader.line_num} {fault}")
            yield dict(zip(header, cells, strict=True))
    except csv.Error as reason:
        advice = "quotes inside a quoted field must be doubled, and the last one closed"
        raise ValueError(f"line {reader.line_num}: {reason}; {advice}") from None


@dataclass(frozen=True)
class CsvForm:
    """How a CSV or TSV file is written."""

    separator: str
    line_end: str
    encoding: str  # utf-8-sig, with a byte order mark, or utf-8
    above: str  # the line above the header, or nothing


def csv_form(path: str) -> CsvForm:
    """Return how a CSV or TSV file is written, packed by gzip or not."""
    opener = gzip.open if path.lower().endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        *above, header = _first_lines(file)
        second = next(file, "")
    usual = "\t" if ".tsv" in Path(path.lower()).suffixes else ","
    return CsvForm(
        separator=_separator(header, second, usual),
        line_end=header[len(header.rstrip("\r\n")) :] or "\n",
        encoding="utf-8-sig" if "".join([*above, header]).startswith("\ufeff") else "utf-8",
        above="".join(above).removeprefix("\ufeff"),
    )


def _first_lines(lines: Iterator[str]) -> list[str]:
    """Return the lines up to the header: a line such as `sep=;`, if it is above, is for Excel."""
    first = next(lines, "")
    return [first, next(lines, "")] if re.fullmatch(r'\ufeff?"?sep=.?"?\s*', first) else [first]


def _separator(header: str, second: str, usual: str) -> str:
    """Return what a header line has most of, and the second line as often; if tied, the usual.

    Where no mark is in both lines as often, or a cell of the second line goes on in the next, the
    usual one if the header has it.
    """
    first, other = (Counter(re.sub(r'"[^"]*"', "", line)) for line in (header, second))
    marks = (usual, *SEPARATORS)
    if other['"'] % 2:  # a cell goes on in the next line
        other = Counter()
    if even := [mark for mark in marks if first[mark] == other[mark] > 0]:
        return max(even, key=first.__getitem__)
    return usual if first[usual] else max(marks, key=first.__getitem__)


def _json_rows(pieces: Iterator[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of an array, or of one object per line."""
    for number, piece in enumerate(pieces, start=1):
        if not piece.strip():
            continue
        try:
            if piece.lstrip().startswith("["):
                rows = json.loads("".join(chain([piece], pieces)))
            else:
                rows = [json.loads(_whole(number, piece).rstrip())]
        except json.JSONDecodeError as reason:
            place = f"line {number + reason.lineno - 1}, character {reason.colno}: {reason.msg}"
            form = "a JSON file holds one object per line, or an array of objects"
            raise ValueError(f"{place}; {form}") from None
        except RecursionError:
            raise ValueError(f"line {number}: brackets are nested too deeply") from None
        for row in rows:
            if not isinstance(row, dict):
                kind = type(row).__name__
                raise ValueError(f"line {number}: a row of type {kind}; it must be an object")
            yield row


def _first_rows(path: FilePath) -> dict[str, list[Any]]:
    """Return the first rows of a file, the values of each column."""
    path = os.fspath(path)
    with wrap_read_errors(path):
        if path.lower().endswith(".parquet"):
            with pq.ParquetFile(path) as file:
                return next((b.to_pydict() for b in file.iter_batches(SAMPLE_ROWS)), {})
        rows = list(islice(read_rows(path), SAMPLE_ROWS))
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _dataset_splits(path: str, arguments: DataArguments) -> tuple[Columns, list[RawSplit]]:
    """Load the splits of a dataset on the Hub, or of a local folder of data files."""
    config, revision = arguments.dataset_config_name, arguments.dataset_revision
    name, cache_dir = path, arguments.cache_dir
    splits = []
    # A local folder is cached in a temporary one: no copy of it stays in the user's cache.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        if os.path.exists(path):
            name, cache_dir = Path(path).resolve().name, scratch
        try:
            loaded = load_dataset(
                path, name=config, revision=revision, cache_dir=cache_dir, token=arguments.token
            )
        except DatasetGenerationError as error:
            reason = str(error.__cause__ or error).strip()
            raise ValueError(
                f"cannot read the dataset {path}: {reason}; give its files, if it has any, by "
                "--train_file, --validation_file and --test_file"
            ) from error
        columns = None
        for split in filter(loaded.__contains__, SPLITS):
            commit = commit_of(loaded[split]) or revision
            source = {"dataset": name, "config": config, "revision": commit}
            title = f"the {split} split of {name}"
            if columns is None:
                rows = loaded[split].with_format("arrow")[:SAMPLE_ROWS].to_pydict()
                columns = find_columns(title, rows, arguments, labelled=split != "test")
            present = columns.within(loaded[split].column_names)
            batches = loaded[split].select_columns(sorted({*sum(present, ())})).iter(BATCH)
            rows, features = loaded[split].num_rows, loaded[split].features
            splits.append(_typed_split(split, title, source, batches, rows, features, present))
    if columns is None:
        fault = f"{path!r} has the splits {list(loaded)}, but none of {list(SPLITS)}"
        raise ValueError(f"{fault}; save those you want as files and give these instead")
    return columns, splits


def _typed_split(
    name: str,
    title: str,
    source: dict[str, Any],
    batches: Iterable[Mapping[str, Sequence[Any]]],
    num_rows: int,
    features: Features,
    columns: Columns,
) -> RawSplit:
    """Gather the rows of a source whose columns have types; class ids become their names."""
    class_names = {}
    for column in sum(columns, ()):
        classes = getattr(features[column], "feature", features[column])
        if isinstance(classes, ClassLabel):
            class_names[column] = tuple(classes.names)

    def named(column: str, values: Sequence[Any]) -> Sequence[Any]:
        if column not in class_names:
            return values
        names: dict[int | None, str | None] = dict(enumerate(class_names[column]))
        names |= {None: None, -1: None}  # a missing id; None is also a missing list
        if isinstance(features[column], ClassLabel):
            return [names[index] for index in values]
        return [row and [names[index] for index in row] for row in values]

    decoded = ({name: named(name, values) for name, values in batch.items()} for batch in batches)
    split = collect(name, title, source, decoded, features, columns, class_names)
    return replace(split, num_rows=num_rows)  # also where it has no wanted column
