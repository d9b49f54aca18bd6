"""Rows as they were read, before their labels mean anything."""

import errno
import os
import sys
import tempfile
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import pyarrow as pa
from datasets import Dataset

from ..utils.cli import is_write_error
from .columns import Columns
from .tokenizer import text_fault

BATCH = 1000  # rows held in memory on their way to the disk

_numbers = count()


@dataclass(frozen=True)
class RawSplit:
    """The wanted columns of one split: texts on disk, so that any number fits, labels in memory.

    A column of class ids holds their names, and None for id -1, which stands for no label;
    `class_names` has its names in id order.
    """

    name: str  # one of `SPLITS`
    title: str  # for errors: the path of the file, or the split of a dataset
    source: dict[str, Any]  # where it comes from, for a record of what was measured
    column_names: list[str]  # of the source
    num_rows: int
    texts: Dataset  # the wanted ones that exist; None where a value is not a text to read
    faults: dict[str, dict[int, str]]  # of each column of texts: the rows of None, and why
    labels: dict[str, list[Any]]  # the wanted ones that exist
    class_names: Mapping[str, tuple[str, ...]]

    def named_texts(
        self, names: Mapping[str, str], left_out: Container[int] = frozenset()
    ) -> Dataset:
        """Return columns of texts under other names; ValueError if a row not left out has none."""
        for column in names:
            for row, reason in self.faults[column].items():
                if row not in left_out:
                    raise self.cell_error(row, column, reason)
        return self.texts.select_columns(list(names)).rename_columns(dict(names))

    def missing_column(self, column: str, flags: str) -> ValueError:
        """Return an error that names the columns that there are, and the flags that choose."""
        names = ", ".join(map(repr, self.column_names))
        fault = f"{self.title} has no column {column!r}; it has {names}"
        return ValueError(f"{fault}. Choose with {flags}")

    def cell_error(self, row: int, column: str, reason: str) -> ValueError:
        """Return an error that names a cell and what is wrong with it."""
        place = f"row {row} (counted from 0) of {self.title}, column {column!r}"
        return ValueError(f"{place}: {reason}")


def collect(
    name: str,
    title: str,
    source: dict[str, Any],
    batches: Iterable[Mapping[str, Sequence[Any]]],
    column_names: Collection[str],
    columns: Columns,
    class_names: Mapping[str, tuple[str, ...]] | None = None,
) -> RawSplit:
    """Gather the rows of a split from the batches that a reader yields.

    Args:
        name: One of `SPLITS`.
        title: The source, for errors.
        source: The source, for a record.
        batches: The values of every wanted column, of some rows at a time.
        column_names: The columns of the source, read after the last batch.
        columns: Those that are wanted.
        class_names: For each column of class ids the names, in id order.

    Raises:
        OSError: If the disk that holds temporary files is full.
    """
    faults: dict[str, dict[int, str]] = {column: {} for column in columns.texts}
    labels: dict[str, list[Any]] = {column: [] for column in columns.labels}
    path, start = scratch_file(), 0
    # The offsets of plain `string` end at 2 GiB of text.
    schema = pa.schema({column: pa.large_string() for column in faults})
    with writing_rows(), pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, schema) as out:
        for batch in batches:
            texts = {column: list(batch[column]) for column in faults}
            size = len(next(iter(batch.values()), ()))
            for column, values in texts.items():
                for place, value in enumerate(values):
                    reason = text_fault(value) or (not value.strip() and "the text is blank")
                    if reason:
                        faults[column][start + place], values[place] = reason, None
            out.write_batch(pa.record_batch(texts, schema=schema))
            for column, found in labels.items():
                # One text for all rows that have it.
                found += (sys.intern(v) if type(v) is str else v for v in batch[column])
            start += size
    rows = Dataset.from_file(path)
    return RawSplit(
        name,
        title,
        source,
        list(column_names),
        start,
        rows.remove_columns([column for column in faults if column not in column_names]),
        faults,
        {column: values for column, values in labels.items() if column in column_names},
        class_names or {},
    )


def scratch_file() -> str:
    """Return the path of a new file on disk, which is deleted when the process ends."""
    name = f"{os.getpid()}-{next(_numbers)}.arrow"  # a fork has the folder and the number too
    return os.path.join(_scratch().name, name)


@cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sase_hf-", ignore_cleanup_errors=True)


@contextmanager
def writing_rows() -> Iterator[None]:
    """Name the folder if the disk is full."""
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
