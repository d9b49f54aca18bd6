"""Rows that are read slice by slice, from files or from a dataset on the Hub.

No input is in memory as a whole. Parquet files are read one row group at a time. A dataset on the
Hub is in the cache of `datasets`, mapped into memory. Text files are parsed once to check every
row, and again up to each slice, which is cheap if slices are read in order.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
from datasets import Dataset, load_dataset

from ..data.files import commit_of, read_rows, wrap_read_errors
from ..data.tokenizer import text_fault
from ..utils.files import sha256_of

ROWS_PER_CHUNK = 10_000  # rows of a text file that are Python objects at the same time
_FOOTER_TAIL = 8  # a Parquet file ends with the size of its footer, 4 bytes, and "PAR1"


class _Source:
    """One file, or one split of a dataset; `name` stands in errors."""

    name: str
    schema: pa.Schema
    num_rows: int

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        """Return those of the columns that it has, of the rows start, ..., stop - 1."""
        raise NotImplementedError

    def has_null(self, column: str) -> bool:
        """Say whether a row has no value in a column."""
        return column not in self.schema.names and self.num_rows > 0


class _ParquetFile(_Source):
    """A Parquet file; keeps one row group in memory, which often serves the next slice too."""

    def __init__(self, file: str) -> None:
        self.name = file
        with wrap_read_errors(file), pq.ParquetFile(file) as reader:
            self.schema = reader.schema_arrow
            sizes = [reader.metadata.row_group(i).num_rows for i in range(reader.num_row_groups)]
        self._starts = [0, *accumulate(sizes)]
        self.num_rows = self._starts[-1]
        self._last: tuple[tuple[int, tuple[str, ...]], pa.Table] | None = None

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        columns = [name for name in columns if name in self.schema.names]
        return pa.concat_tables(
            self._group(group, columns).slice(first, last - first)
            for group, first, last in _overlaps(self._starts, start, stop)
        )

    def _group(self, group: int, columns: Sequence[str]) -> pa.Table:
        key = (group, tuple(columns))
        if self._last is None or self._last[0] != key:
            self._last = None  # frees the old row group before the new one is read
            with wrap_read_errors(self.name), pq.ParquetFile(self.name) as reader:
                self._last = key, reader.read_row_group(group, columns=list(columns))
        return self._last[1]

    def has_null(self, column: str) -> bool:
        # Where the file has statistics of the column, this reads nothing else.
        is_null = pds.field(column).is_null()
        return super().has_null(column) or pds.dataset(self.name).count_rows(filter=is_null) > 0


class _TextFile(_Source):
    """A CSV, TSV, JSON or JSON Lines file, packed by gzip or not; the constructor checks each row.

    `wanted` are the columns to read, None for all; `text_column` must hold a text in every row.
    """

    def __init__(self, file: str, text_column: str, wanted: Sequence[str] | None) -> None:
        self.name = file
        self.num_rows = 0
        self._rows: Iterator[Mapping[str, Any]] = iter(())
        self._next = 0
        schemas: list[pa.Schema] = []
        with wrap_read_errors(file):
            rows = read_rows(file)
            while chunk := list(islice(rows, ROWS_PER_CHUNK)):
                for row in chunk:
                    if fault := text_fault(row.get(text_column)):
                        raise ValueError(
                            f"row {self.num_rows} (counted from 0), column {text_column!r}: "
                            f"{fault}; choose one of {', '.join(map(repr, row))} with "
                            "--text_column_names"
                        )
                    self.num_rows += 1
                schemas.append(_schema_of(chunk, wanted))
        self.schema = _unified(schemas)

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        columns = [name for name in columns if name in self.schema.names]
        schema = pa.schema([self.schema.field(name) for name in columns])
        if start < self._next or self._next == 0:
            self._rows, self._next = read_rows(self.name), 0
        chunks = []
        with wrap_read_errors(self.name):
            next(islice(self._rows, start - self._next, start - self._next), None)  # skips rows
            for first in range(start, stop, ROWS_PER_CHUNK):
                rows = list(islice(self._rows, min(stop - first, ROWS_PER_CHUNK)))
                chunks.append(pa.Table.from_pylist(rows, schema))
        self._next = stop
        return pa.concat_tables(chunks)


class _HubSplit(_Source):
    """One split of a dataset on the Hub."""

    def __init__(self, name: str, data: Dataset) -> None:
        self.name, self.num_rows = name, data.num_rows
        self.schema = data.features.arrow_schema
        self._data = data.with_format("arrow")

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        table: Any = self._data.select_columns(list(columns))[start:stop]
        return table

    def has_null(self, column: str) -> bool:
        return self.read(0, self.num_rows, [column])[column].null_count > 0


class Corpus:
    """The rows of one or more sources, one source after the other.

    The schemas of the sources are unified, and a column that a source lacks is null.
    """

    def __init__(self, sources: Sequence[_Source]) -> None:
        self._sources = sources
        self._starts = [0, *accumulate(source.num_rows for source in sources)]
        self.schema = _unified([source.schema for source in sources])
        self.num_rows = self._starts[-1]
        if self.num_rows == 0:
            raise ValueError("the input has no rows; name other files, or another dataset")

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of the rows start, ..., stop - 1."""
        schema = pa.schema([self.schema.field(name) for name in columns], self.schema.metadata)
        pieces = [
            self._sources[number].read(first, last, columns)
            for number, first, last in _overlaps(self._starts, start, stop)
        ]
        tables = [schema.empty_table(), *pieces]
        return pa.concat_tables(tables, promote_options="permissive").select(list(columns))

    def place(self, row: int) -> str:
        """Say where a row is, for an error."""
        [(number, first, _)] = _overlaps(self._starts, row, row + 1)
        return f"row {first} (counted from 0) of {self._sources[number].name}"

    def check_columns(self, text_column: str, kept: Sequence[str]) -> None:
        """Raise ValueError unless each row has a text, and Parquet can hold the kept columns."""
        names = self.schema.names
        for column in (text_column, *kept):
            if column not in names:
                raise ValueError(
                    f"the input has no column {column!r}; it has {', '.join(map(repr, names))}. "
                    "Choose with --text_column_names and --keep_columns"
                )
        kind = self.schema.field(text_column).type
        values = kind.value_type if pa.types.is_dictionary(kind) else kind
        is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
        if not any(test(values) for test in is_text):
            raise ValueError(f"column {text_column!r} holds values of type {kind}, not texts")
        for start, source in zip(self._starts, self._sources, strict=False):
            if source.has_null(text_column):
                read = self.read(start, start + source.num_rows, [text_column])[text_column]
                raise ValueError(
                    f"{self.place(start + read.is_null().index(True).as_py())}, column "
                    f"{text_column!r}: the text is missing; an empty one is allowed"
                )
        schema = pa.schema([self.schema.field(name) for name in kept])
        try:
            pq.write_table(schema.empty_table(), pa.BufferOutputStream())
        except pa.ArrowException as reason:
            raise ValueError(
                f"Parquet cannot hold a column: {reason}; leave it out with --keep_columns"
            ) from reason


def open_files(
    files: Sequence[str], text_column: str, keep_columns: Sequence[str] | None
) -> Corpus:
    """Return the rows of files; those of text files are checked."""
    wanted = None if keep_columns is None else list(dict.fromkeys([text_column, *keep_columns]))
    sources = (
        _ParquetFile(file) if _is_parquet(file) else _TextFile(file, text_column, wanted)
        for file in files
    )
    return Corpus(list(sources))


def open_hub_split(
    name: str, config_name: str | None, revision: str | None, split: str
) -> tuple[Corpus, dict[str, Any]]:
    """Return the rows of one split of a dataset on the Hub, and what distinguishes them."""
    if os.path.isdir(name):
        raise ValueError(f"{name} is a folder; name the files in it instead of --dataset_name")
    data = load_dataset(name, name=config_name, revision=revision, split=split)
    identity = {"dataset": name, "config": config_name, "split": split}
    identity["revision"] = commit_of(data) or revision
    return Corpus([_HubSplit(f"{name}, split {split}", data)]), identity


def identify(file: str) -> dict[str, Any]:
    """Return what distinguishes the content of a file from another's.

    A text file is known by its SHA-256. A Parquet file may be too large to read twice, so it is
    known by its size and its footer, which holds the place and bounds of every piece of a column.
    """
    name = os.path.basename(file)
    with wrap_read_errors(file):
        if not _is_parquet(file):
            return {"file": name, "sha256": sha256_of(file)}
        footer = pq.read_metadata(file).serialized_size + _FOOTER_TAIL
        with open(file, "rb") as handle:
            size = handle.seek(-footer, os.SEEK_END) + footer
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        return {"file": name, "size": size, "footer_sha256": digest}


def _is_parquet(file: str) -> bool:
    return file.lower().endswith(".parquet")


def _overlaps(starts: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield each part that holds rows start, ..., stop - 1: its number, its first and last row.

    `starts` are the first row of each part, and the number of all rows.
    """
    for number, (low, high) in enumerate(pairwise(starts)):
        if max(start, low) < min(stop, high):
            yield number, max(start, low) - low, min(stop, high) - low


def _schema_of(rows: Sequence[Mapping[str, Any]], wanted: Sequence[str] | None) -> pa.Schema:
    """Return the types of the columns of some rows; columns that no row has are left out."""
    seen = dict.fromkeys(column for row in rows for column in row)
    fields = []
    for column in seen if wanted is None else (name for name in wanted if name in seen):
        try:
            fields.append((column, pa.array([row.get(column) for row in rows]).type))
        except (pa.ArrowException, ValueError, OverflowError) as reason:
            raise ValueError(
                f"column {column!r}: no common type ({reason}); leave it out with --keep_columns"
            ) from None
    return pa.schema(fields)


def _unified(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return one schema for all, with the wider of two types."""
    try:
        return pa.unify_schemas(schemas or [pa.schema([])], promote_options="permissive")
    except pa.ArrowException as reason:
        raise ValueError(
            f"the columns do not go together: {reason}; leave this one out with --keep_columns"
        ) from reason


__all__ = ["Corpus", "identify", "open_files", "open_hub_split"]
