"""The wanted columns of one split as they were read: texts on disk, labels in memory.

The texts are in a temporary folder that is deleted when the process ends.
"""

import errno
import os
import sys
import tempfile
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa
from datasets import Dataset

from ..utils.cli import is_write_error
from .tokenizer import text_fault

BATCH = 1000  # rows held in memory on their way to the disk

_numbers = count()


class Columns(NamedTuple):
    """The columns of a task."""

    texts: tuple[str, ...]  # one, or two for pairs
    labels: tuple[str, ...]  # one; several of 0 and 1, each a label; none where rows have no label

    def within(self, names: Container[str]) -> "Columns":
        """Return those that are among some names."""
        return Columns(*(tuple(name for name in part if name in names) for part in self))


class StoredSplit:
    """The wanted columns of one split, before the labels mean anything; written by `add`.

    A column of class ids holds their names, and None for id -1, which stands for no label.

    Attributes:
        name: One of `SPLITS`.
        title: The source for errors: the path of the file, or the split of a dataset.
        source: The source for a record.
        column_names: All columns of the source.
        class_names: The names in id order of each column of class ids.
        num_rows: The number of rows.
        labels: The values of each wanted column of labels.
    """

    def __init__(self, name: str, title: str, source: dict[str, Any], columns: Columns) -> None:
        self.name, self.title, self.source = name, title, source
        self.column_names: Collection[str] = ()
        self.class_names: dict[str, tuple[str, ...]] = {}
        self.num_rows = 0
        self.labels: dict[str, list[Any]] = {column: [] for column in columns.labels}
        self._faults: dict[str, dict[int, str]] = {column: {} for column in columns.texts}
        # The offsets of plain `string` end at 2 GiB of text.
        self._schema = pa.schema({column: pa.large_string() for column in columns.texts})
        self._path = scratch_file()

    def write(self, batches: Iterable[Mapping[str, Sequence[Any]]]) -> None:
        """Store all rows; OSError if the disk that holds temporary files is full."""
        with (
            writing_rows(),
            pa.OSFile(self._path, "wb") as file,
            pa.ipc.new_stream(file, self._schema) as self._stream,
        ):
            for batch in batches:
                self.add(batch)

    def add(self, batch: Mapping[str, Sequence[Any]]) -> None:
        """Store the next rows: the values of every wanted column that exists."""
        size = len(next(iter(batch.values()), ()))
        texts = {column: list(batch.get(column, [None] * size)) for column in self._faults}
        for column, values in texts.items():
            for place, value in enumerate(values):
                reason = text_fault(value) or (not value.strip() and "the text is blank")
                if reason:
                    self._faults[column][self.num_rows + place] = reason
                    values[place] = None
        self._stream.write_batch(pa.record_batch(texts, schema=self._schema))
        for column, labels in self.labels.items():
            # One text for all rows that have it.
            cells = batch.get(column, [None] * size)
            labels += (sys.intern(cell) if type(cell) is str else cell for cell in cells)
        self.num_rows += size

    def require(self, columns: Iterable[str], flags: str) -> None:
        """Raise a ValueError if there are no rows, or a column is missing that `flags` choose."""
        if self.num_rows == 0:
            raise ValueError(f"{self.title} has no rows; add some, or leave it out")
        for column in columns:
            if column not in self.column_names:
                names = ", ".join(map(repr, self.column_names))
                fault = f"{self.title} has no column {column!r}; it has {names}"
                raise ValueError(f"{fault}. Choose with {flags}")

    def named_texts(self, names: Mapping[str, str], left_out: Collection[int] = ()) -> Dataset:
        """Return columns of texts under other names; ValueError if a row not left out has none."""
        for column in names:
            for row, reason in self._faults[column].items():
                if row not in left_out:
                    raise self.cell_error(row, column, reason)
        rows = Dataset.from_file(self._path)
        return rows.select_columns(list(names)).rename_columns(dict(names))

    def cell_error(self, row: int, column: str, reason: str) -> ValueError:
        """Return an error that names a cell and its fault."""
        place = f"row {row} (counted from 0) of {self.title}, column {column!r}"
        return ValueError(f"{place}: {reason}")


def scratch_file() -> str:
    """Return the path of a new file on disk, which is deleted when the process ends."""
    name = f"{os.getpid()}-{next(_numbers)}.arrow"  # a fork has the folder and the number too
    return os.path.join(_scratch().name, name)


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
        folder = _scratch().name
        raise OSError(
            reason.errno,
            f"the rows do not fit into {folder}: {os.strerror(reason.errno or errno.ENOSPC)}; free "
            "space there, or set TMPDIR to another folder",
        ) from reason
