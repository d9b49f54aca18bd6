"""Where rows come from: a data set on the Hub, or local CSV, TSV, JSON and Parquet files.

The text formats are read here and not by the builders of `datasets`, because those guess: the text
`2020-01-01 00:00:00` in a JSON file becomes a timestamp, a row of a CSV file that lacks a field
becomes a blank text, and a first row with a field too many shifts every column. Here a CSV cell is
a text, a JSON value is what it says, and a line that breaks its format is named.
"""

import csv
import gzip
import hashlib
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from datasets import ClassLabel, Dataset, load_dataset
from datasets.exceptions import DatasetsError

FilePath = str | os.PathLike[str]

SPLITS = ("train", "validation", "test")
TEXT_ENDINGS = (".csv", ".tsv", ".json", ".jsonl")
ENDINGS = (*TEXT_ENDINGS, *(f"{ending}.gz" for ending in TEXT_ENDINGS), ".parquet")

# The csv module refuses longer fields; its own limit of 128 KiB is shorter than a long document.
MAX_FIELD_SIZE = 2**31 - 1


@dataclass(frozen=True)
class Part:
    """The wanted columns of one split, as plain values.

    Attributes:
        name: One of `SPLITS`.
        source: Where it comes from, for a record of what was measured.
        column_names: All columns of the source.
        num_rows: Rows of the source.
        columns: The values of those wanted columns that are there.
        class_names: For columns of class ids the names in id order; their values are names, and
            None for id -1, which stands for no label.
    """

    name: str
    source: dict[str, Any]
    column_names: list[str]
    num_rows: int
    columns: dict[str, list[Any]]
    class_names: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"the {self.name} split ({self.source.get('file') or self.source['dataset']})"

    def at(self, row: int, column: str, reason: str) -> str:
        """Say what is wrong with a cell, and where it is."""
        return f"row {row} (counted from 0) of {self}, column {column!r}: {reason}"

    def require(self, needed: Sequence[str]) -> None:
        """Raise if there are no rows, or a column is missing."""
        if self.num_rows == 0:
            raise ValueError(f"{self} has no rows; add some, or leave the split out")
        for column in needed:
            if column not in self.columns:
                raise ValueError(
                    f"{self} has no column {column!r}; it has "
                    f"{', '.join(map(repr, self.column_names))}. Choose with text_columns and "
                    "label_column"
                )


def read_parts(
    dataset_name: str | None,
    files: Mapping[str, FilePath | None],
    wanted: Sequence[str],
    **hub_options: Any,
) -> list[Part]:
    """Read the splits of a task into memory.

    Args:
        dataset_name: A data set on the Hub, or a local folder of data files; or None.
        files: For every split a file with one of `ENDINGS`, or None. Text is UTF-8, with or without
            a byte-order mark. CSV and TSV have a header line; a `.json` file holds an array of
            objects or one object a line, as `.jsonl` does.
        wanted: The columns to keep. One that is missing is left out, not refused; where only a row
            of a JSON file lacks it, the value is None.
        hub_options: `config_name`, `revision`, `cache_dir` and `token` of `dataset_name`.

    Returns:
        The splits that there are, in the order of `SPLITS`.

    Raises:
        ValueError: If both or none of `dataset_name` and files are given, the data set has none of
            `SPLITS`, or a file has no known ending or breaks its format; names file and line.
    """
    given = {name: path for name, path in files.items() if path is not None}
    if (dataset_name is None) == (not given):
        raise ValueError(
            f"dataset_name is {dataset_name!r} and the files are {given}; give one of them: a data "
            "set, or one or more of train_file, validation_file and test_file"
        )
    if dataset_name is not None:
        return _hub_parts(dataset_name, wanted, **hub_options)
    return [_file_part(name, os.fspath(given[name]), wanted) for name in SPLITS if name in given]


def _hub_parts(
    dataset_name: str, wanted: Sequence[str], config_name: str | None, **options: Any
) -> list[Part]:
    """Load the splits of a data set on the Hub, or of a local folder."""
    splits = load_dataset(dataset_name, name=config_name, **options)
    name = Path(dataset_name).resolve().name if os.path.exists(dataset_name) else dataset_name
    parts = []
    for split in SPLITS:
        if split in splits:
            revision = _commit_of(splits[split]) or options["revision"]
            source = {"dataset": name, "config": config_name, "revision": revision}
            parts.append(_part_of(split, source, splits[split], wanted))
    if not parts:
        raise ValueError(
            f"{dataset_name!r} has the splits {', '.join(map(repr, splits))}, none of "
            f"{', '.join(map(repr, SPLITS))}; save those you want as files and give these instead"
        )
    return parts


def _file_part(name: str, path: str, wanted: Sequence[str]) -> Part:
    """Read one split from a file; the ending says the format."""
    if not path.lower().endswith(ENDINGS):
        raise ValueError(f"{path!r} has no known ending; allowed are {', '.join(ENDINGS)}")
    source = {"file": os.path.basename(path), "sha256": sha256_of(path)}
    try:
        if path.lower().endswith(".parquet"):
            # Without a folder of its own, a copy of the file would stay in the user's cache.
            with tempfile.TemporaryDirectory() as scratch:
                data = Dataset.from_parquet(path, cache_dir=scratch, keep_in_memory=True)
            return _part_of(name, source, data, wanted)
        return _collect(name, source, _rows(path), wanted)
    except (EOFError, gzip.BadGzipFile, zlib.error) as reason:
        raise ValueError(f"cannot unpack {path!r}: {reason}; is it a whole gzip file?") from reason
    except UnicodeDecodeError as reason:
        raise ValueError(f"cannot read {path!r}: {reason}; save it as UTF-8") from reason
    except (ValueError, DatasetsError) as reason:
        # `datasets` wraps what went wrong in an error that does not say it.
        raise ValueError(f"cannot read {path!r}: {reason.__cause__ or reason}") from reason


def _commit_of(dataset: Dataset) -> str | None:
    """Return the commit that a data set was downloaded at, None if it is not from the Hub."""
    found = re.search(r"@([0-9a-f]{40})/", " ".join(dataset.info.download_checksums or ()))
    return found and found[1]


def sha256_of(path: FilePath) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _part_of(name: str, source: dict[str, Any], dataset: Dataset, wanted: Sequence[str]) -> Part:
    """Take columns out of a `Dataset`, with class ids replaced by their names."""
    columns, class_names = {}, {}
    for column in wanted:
        if column not in dataset.column_names:
            continue
        values, feature = dataset[column][:], dataset.features[column]
        inner = getattr(feature, "feature", None)
        if isinstance(feature, ClassLabel):
            class_names[column] = tuple(feature.names)
            values = [_class_name(feature, value) for value in values]
        elif isinstance(inner, ClassLabel):
            class_names[column] = tuple(inner.names)
            values = [row and [_class_name(inner, value) for value in row] for row in values]
        columns[column] = values
    return Part(name, source, dataset.column_names, dataset.num_rows, columns, class_names)


def _class_name(feature: ClassLabel, value: int | None) -> str | None:
    return None if value is None or value < 0 else feature.names[value]


def _collect(
    name: str, source: dict[str, Any], rows: Iterable[Mapping[str, Any]], wanted: Sequence[str]
) -> Part:
    """Turn rows into columns."""
    columns: dict[str, list[Any]] = {column: [] for column in wanted}
    seen: dict[str, None] = {}
    num_rows = 0
    for row in rows:
        num_rows += 1
        seen.update(dict.fromkeys(row))
        for column, values in columns.items():
            values.append(row.get(column))
    there = {column: values for column, values in columns.items() if column in seen}
    return Part(name, source, list(seen), num_rows, there)


def _rows(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a CSV, TSV, JSON or JSON Lines file, packed by gzip or not."""
    packed = path.lower().endswith(".gz")
    ending = Path(path.lower().removesuffix(".gz")).suffix
    opener = gzip.open if packed else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        if ending == ".csv":
            yield from _csv_rows(file, ",")
        elif ending == ".tsv":
            yield from _csv_rows(file, "\t")
        else:
            yield from _json_rows(file)


def _csv_rows(file: TextIO, separator: str) -> Iterator[Mapping[str, str]]:
    """Yield the rows below the header line; cells stay the texts they are."""
    usual_limit = csv.field_size_limit(MAX_FIELD_SIZE)
    reader = csv.reader(file, delimiter=separator, strict=True)
    try:
        header = next(reader, [])
        if len(set(header)) < len(header):
            raise ValueError(f"the header names a column twice: {header}")
        blank_line = None
        for cells in reader:
            if not cells:
                blank_line = blank_line or reader.line_num
                continue
            if blank_line is not None:
                raise ValueError(f"line {blank_line} is blank; only the last ones may be")
            if len(cells) != len(header):
                raise ValueError(
                    f"the row that ends in line {reader.line_num} has {len(cells)} fields and the "
                    f"header {len(header)}; a field that holds a separator needs quotes around it"
                )
            yield dict(zip(header, cells, strict=True))
    except csv.Error as reason:
        raise ValueError(
            f"line {reader.line_num}: {reason}; quotes inside a quoted field must be doubled, and "
            "the last one closed"
        ) from None
    finally:
        csv.field_size_limit(usual_limit)


def _json_rows(file: TextIO) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of an array, or of one object a line."""
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            is_array = line.lstrip().startswith("[")
            rows = json.loads(line + file.read()) if is_array else [json.loads(line)]
        except json.JSONDecodeError as reason:
            raise ValueError(
                f"line {number + reason.lineno - 1}, character {reason.colno}: "
                f"{reason.msg.removesuffix(' at')}; a JSON file holds one object a line, or an "
                "array of objects"
            ) from None
        for row in rows:
            if not isinstance(row, dict):
                raise ValueError(
                    f"line {number}: a row of type {type(row).__name__}; it must be an object, "
                    'such as {"text": "...", "label": "..."}'
                )
            yield row
