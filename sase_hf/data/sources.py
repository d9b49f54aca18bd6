"""Where rows come from: a data set on the Hub, or local CSV, TSV, JSON and Parquet files."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, load_dataset

from .row_files import read_rows, readable

FilePath = str | os.PathLike[str]

SPLITS = ("train", "validation", "test")


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
                    f"{', '.join(map(repr, self.column_names))}. Choose with "
                    "--text_column_names and --label_column_name"
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
        files: For every split a file with one of `row_files.ENDINGS`, or None. Text is UTF-8, with
            or without a byte-order mark. CSV and TSV have a header line; a `.json` file holds an
            array of objects or one object a line, as `.jsonl` does.
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
    name, parts = dataset_name, []
    # Without a folder of its own, a copy of what is here already would stay in the user's cache.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        if os.path.exists(dataset_name):
            name, options["cache_dir"] = Path(dataset_name).resolve().name, scratch
        splits = load_dataset(dataset_name, name=config_name, **options)
        for split in SPLITS:
            if split in splits:
                revision = commit_of(splits[split]) or options["revision"]
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
    with readable(path):
        source = {"file": os.path.basename(path), "sha256": sha256_of(path)}
        if path.lower().endswith(".parquet"):
            # As above: no copy in the user's cache.
            with tempfile.TemporaryDirectory() as scratch:
                data = Dataset.from_parquet(path, cache_dir=scratch, keep_in_memory=True)
            return _part_of(name, source, data, wanted)
        return _collect(name, source, read_rows(path), wanted)


def commit_of(dataset: Dataset) -> str | None:
    """Return the commit that a data set was downloaded at, None if it is not from the Hub.

    Args:
        dataset: What `load_dataset` returned.
    """
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
