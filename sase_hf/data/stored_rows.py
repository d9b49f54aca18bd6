"""The wanted columns of one split: texts on disk, labels in memory.

The texts are in a temporary folder that is deleted when the process ends.
"""

import errno
import os
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
from datasets import ClassLabel, Dataset

from ..utils.files import is_write_error
from .tokenizer import text_fault

BATCH = 1000  # rows held in memory on their way to the disk

Batch = Mapping[str, Sequence[Any]]  # some rows, the values of each column


class Columns(NamedTuple):
    """The columns of a task."""

    texts: tuple[str, ...]  # one, or two for pairs
    labels: tuple[str, ...]  # one; several of 0 and 1, each a label; none where rows have no label


class StoredSplit:
    """One split; `read` stores the wanted columns, before the labels mean anything.

    A class id is stored as its name, and id -1, which stands for no label, as None.

    Attributes:
        name: One of `SPLITS`.
        title: The path of the file, or the split of a dataset, for errors.
        source: Where the rows come from, for a record.
        column_names: All columns of the source; those of a text file are known once it is read.
        class_names: The names in id order of each column of class ids.
        num_rows: The number of rows, once they are read.
        labels: The values of each wanted column of labels.
    """

    def __init__(
        self, name: str, title: str, source: dict[str, Any], features: Mapping[str, Any]
    ) -> None:
        self.name, self.title, self.source = name, title, source
        self.column_names = dict(features)
        classes = {column: getattr(kind, "feature", kind) for column, kind in features.items()}
        self.class_names = {
            column: tuple(kind.names)
            for column, kind in classes.items()
            if isinstance(kind, ClassLabel)
        }
        self.num_rows = 0
        self.labels: dict[str, list[Any]] = {}
        self._faults: dict[str, dict[int, str]] = {}
        self._path = scratch_file()

    def batches(self, wanted: Collection[str] = ()) -> Iterator[Batch]:
        """Yield all rows: the wanted columns, None where a row lacks one, or all columns."""
        raise NotImplementedError

    def read(self, columns: Columns) -> None:
        """Store all rows; OSError if the disk that holds temporary files is full."""
        self.labels = {column: [] for column in columns.labels}
        self._faults = {column: {} for column in columns.texts}
        # The offsets of plain `string` end at 2 GiB of text.
        schema = pa.schema({column: pa.large_string() for column in columns.texts})
        with (
            writing_rows(),
            pa.OSFile(self._path, "wb") as file,
            pa.ipc.new_stream(file, schema) as stream,
        ):
            for raw in self.batches(sum(columns, ())):
                batch = {name: _decoded(raw[name], self.class_names.get(name)) for name in raw}
                texts = {name: self._checked_texts(name, batch[name]) for name in columns.texts}
                stream.write_batch(pa.record_batch(texts, schema=schema))
                for name, labels in self.labels.items():
                    # One text for all rows that have it.
                    labels += (sys.intern(c) if type(c) is str else c for c in batch[name])
                self.num_rows += len(texts[columns.texts[0]])

    def _checked_texts(self, column: str, values: Iterable[Any]) -> list[str | None]:
        """Return the texts of the next rows, None for one that cannot be read."""
        texts = list(values)
        for place, value in enumerate(texts):
            reason = text_fault(value) or (not value.strip() and "the text is blank")
            if reason:
                self._faults[column][self.num_rows + place] = reason
                texts[place] = None
        return texts

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


def _decoded(values: Iterable[Any], names: Sequence[str] | None) -> Iterable[Any]:
    """Return class ids, or lists of them, as names."""
    if names is None:
        return values
    known: dict[Any, Any] = dict(enumerate(names))
    return [_decoded(v, names) if isinstance(v, list) else known.get(v) for v in values]


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
        folder = _scratch().name
        raise OSError(
            reason.errno,
            f"the rows do not fit into {folder}: {os.strerror(reason.errno or errno.ENOSPC)}; free "
            "space there, or set TMPDIR to another folder",
        ) from reason
