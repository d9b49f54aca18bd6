"""Rows that are read a part at a time: from Parquet files, or from a data set on the Hub.

Neither is ever in memory as a whole. Parquet files are read where they lie, and a data set on the
Hub lies in the cache of `datasets`, mapped into memory.
"""

import os
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import load_dataset

from ..data.files import commit_of, wrap_read_errors


class Corpus(Protocol):
    """Rows that can be read from any place on.

    Attributes:
        schema: The columns.
        num_rows: All rows.
    """

    schema: pa.Schema
    num_rows: int

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of the rows from `start` on, up to `stop`."""

    def place(self, row: int) -> str:
        """Say where a row is, for an error."""

    def first_null(self, column: str) -> int | None:
        """Return the first row that has nothing in a column, None if there is no such row."""


class ParquetCorpus:
    """The rows of Parquet files, one file after the other; a `Corpus`.

    One row group is in memory at a time, and only the columns that are asked for.

    Args:
        files: For each file its path, and the file its rows come from, for errors: the same, unless
            it is a copy of a part of that.

    Raises:
        ValueError: If one is no Parquet file, or two have columns that do not go together.
    """

    def __init__(self, files: Sequence[tuple[str, str]]) -> None:
        # The first row of each row group; its file and its number there; of what its rows are.
        self._starts: list[int] = []
        self._groups: list[tuple[str, int]] = []
        self._sources: list[str] = []
        self.num_rows = 0
        schemas = []
        for file, source in files:
            with wrap_read_errors(file), pq.ParquetFile(file) as reader:
                schemas.append(reader.schema_arrow)
                for group in range(reader.metadata.num_row_groups):
                    self._starts.append(self.num_rows)
                    self._groups.append((file, group))
                    self._sources.append(source)
                    self.num_rows += reader.metadata.row_group(group).num_rows
        if not schemas:  # of text files without a row there are no copies
            schemas.append(pa.schema([]))
        try:
            self.schema = pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as reason:
            raise ValueError(
                f"the columns of the files do not go together: {reason}; leave the column out with "
                "--keep_columns, or mend the files"
            ) from reason
        self._last: tuple[tuple[int, tuple[str, ...]], pa.Table] | None = None

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of the rows from `start` on, up to `stop`."""
        schema = pa.schema([self.schema.field(name) for name in columns], self.schema.metadata)
        pieces = [schema.empty_table()]
        index = bisect_right(self._starts, start) - 1
        while index < len(self._starts) and self._starts[index] < stop:
            first = self._starts[index]
            skipped = max(start - first, 0)
            pieces.append(self._group(index, columns).slice(skipped, stop - first - skipped))
            index += 1
        # A file may lack a column, or have its numbers in a narrower type, than another.
        return pa.concat_tables(pieces, promote_options="permissive").select(list(columns))

    def _group(self, index: int, columns: Sequence[str]) -> pa.Table:
        """Return a row group; the last one is kept: it often holds the next shard's rows too."""
        key = (index, tuple(columns))
        if self._last is None or self._last[0] != key:
            file, group = self._groups[index]
            self._last = None  # lets go of the old group before the new one is read
            with wrap_read_errors(file), pq.ParquetFile(file) as reader:
                there = [name for name in columns if name in reader.schema_arrow.names]
                self._last = key, reader.read_row_group(group, columns=there)
        return self._last[1]

    def place(self, row: int) -> str:
        """Say where a row is, for an error."""
        source = self._sources[bisect_right(self._starts, row) - 1]
        first = self._starts[self._sources.index(source)]
        return f"row {row - first} (counted from 0) of {source}"

    def first_null(self, column: str) -> int | None:
        """Return the first row that has nothing in a column, None if there is no such row."""
        for index, (file, group) in enumerate(self._groups):
            with pq.ParquetFile(file) as reader:
                if not _may_have_nulls(reader, group, column):
                    continue
            values = self._group(index, [column])
            row = _null_in(values[column]) if column in values.column_names else 0
            if row is not None:
                return self._starts[index] + row
        return None


def _may_have_nulls(reader: pq.ParquetFile, group: int, column: str) -> bool:
    """Say whether a row group may lack values; most files count those they lack."""
    metadata = reader.metadata.row_group(group)
    for number in range(metadata.num_columns):
        chunk = metadata.column(number)
        if chunk.path_in_schema == column:
            statistics = chunk.statistics
            counted = statistics is not None and statistics.has_null_count
            return not counted or statistics.null_count > 0
    return True


def _null_in(values: pa.ChunkedArray) -> int | None:
    """Return the place of the first null."""
    if values.null_count == 0:
        return None
    return values.is_null().index(True).as_py()


class HubCorpus:
    """The rows of one split of a data set on the Hub; a `Corpus`.

    Args:
        name: The data set.
        config_name: Which of its configurations.
        revision: Commit, tag or branch.
        split: The split, or a slice of one as `datasets` writes it.

    Attributes:
        identity: What tells this data from other data.

    Raises:
        ValueError: If the name is that of a local folder, or there is no such split.
    """

    def __init__(
        self, name: str, config_name: str | None, revision: str | None, split: str
    ) -> None:
        if os.path.isdir(name):
            raise ValueError(f"{name} is a folder; name the files in it instead of --dataset_name")
        data = load_dataset(name, name=config_name, revision=revision, split=split)
        self.identity = {
            "dataset": name,
            "config": config_name,
            "revision": commit_of(data) or revision,
            "split": split,
        }
        self._data = data.with_format("arrow")
        self._label = f"{name}, split {split}"
        self.schema, self.num_rows = data.features.arrow_schema, data.num_rows

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of the rows from `start` on, up to `stop`."""
        table: Any = self._data.select_columns(list(columns))[start:stop]
        return table

    def place(self, row: int) -> str:
        """Say where a row is, for an error."""
        return f"row {row} (counted from 0) of {self._label}"

    def first_null(self, column: str) -> int | None:
        """Return the first row that has nothing in a column, None if there is no such row."""
        return _null_in(self.read(0, self.num_rows, [column])[column])


def check_columns(corpus: Corpus, text_column: str, columns: Sequence[str]) -> None:
    """Raise ValueError unless all columns are there, and one of them holds a text in every row.

    Args:
        corpus: The rows.
        text_column: The column of texts.
        columns: The others.
    """
    names = corpus.schema.names
    if text_column not in names:
        raise ValueError(
            f"there is no column {text_column!r}; there are {', '.join(map(repr, names))}. Choose "
            "with --text_column_names"
        )
    for column in columns:
        if column not in names:
            raise ValueError(
                f"no row of the input has a column {column!r}; name one that is there with "
                "--keep_columns"
            )
    row = 0 if corpus.num_rows else None
    kind = corpus.schema.field(text_column).type
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(test(values) for test in is_text):
        row, kind = corpus.first_null(text_column), "null"
    if row is not None:
        raise ValueError(
            f"{corpus.place(row)}, column {text_column!r}: the value is of type {kind}, not a "
            "text; empty texts are allowed, missing ones are not"
        )


__all__ = ["Corpus", "HubCorpus", "ParquetCorpus", "check_columns"]
