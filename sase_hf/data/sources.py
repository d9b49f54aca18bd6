"""The splits of text files, Parquet files, datasets of the Hub and local folders.

The wanted columns of each split are stored: labels in memory, and texts on disk, in a temporary
folder that is deleted when the process ends.
"""

import errno
import logging
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, Features, load_dataset
from datasets.exceptions import DatasetGenerationError

from ..models.checked_model import sha256_of
from ..utils.files import is_write_error
from ..utils.text import one_line
from .arguments import SPLITS, SourceArguments
from .rows import FIRST_ROW, is_sheet, place_of, read_parts, wrap_read_errors
from .tokenizer import text_fault

logger = logging.getLogger(__name__)

BATCH = 1000  # rows held in memory on their way to the disk
FILE_FLAGS = "--train_file, --validation_file and --test_file"

Batch = Mapping[str, Sequence[Any]]  # some rows, the values of each column


class Columns(NamedTuple):
    """The columns of a task."""

    texts: tuple[str, ...]  # one, or two for pairs
    labels: tuple[str, ...]  # one; several of 0 and 1, each a label; none where rows have no label
    marks: Mapping[str, str] = {}  # standard name -> column; a split may lack it


class StoredSplit:
    """One split; `read` stores the wanted columns, before the labels mean anything.

    A class id is stored as its name, and id -1, which stands for no label, as None. The `title` is
    the path of the file or the split of a dataset, for errors; `source` is for a record.
    """

    def __init__(
        self, name: str, title: str, source: dict[str, Any], features: Mapping[str, Any]
    ) -> None:
        self.name, self.title, self.source = name, title, source
        self.column_names = dict(features)  # those of a text file are known once it is read
        self.class_names: dict[str, tuple[str, ...]] = {}  # in id order
        for column, feature in features.items():
            kind = getattr(feature, "feature", feature)
            if isinstance(kind, ClassLabel):
                self.class_names[column] = tuple(kind.names)
        self.aliases: dict[str, str] = {}  # a name of the first split -> that of this one
        self.num_rows = 0
        self.labels: dict[str, list[Any]] = {}  # the values of each wanted column
        self._faults: dict[str, dict[int, str]] = {}
        self._path = scratch_file()

    def batches(self, wanted: Collection[str] = ()) -> Iterator[Batch]:
        """Yield all rows: the wanted columns, None where a row lacks one, or all columns."""
        names = {name: self.aliases.get(name, name) for name in wanted or self.column_names}
        stored = {name for name in names.values() if name in self.column_names}
        for rows in self._arrow(sorted(stored)):
            values = rows.to_pydict()
            missing = [None] * rows.num_rows
            yield {name: values.get(column) or missing for name, column in names.items()}

    def adopt_names(self, columns: Iterable[str]) -> None:
        """Find columns whose names differ from those of the first split in case or blanks only."""
        next(self.batches(), None)  # a text file learns the names of its columns
        names: dict[str, list[str]] = {}
        for name in self.column_names:
            names.setdefault(usual_form(name), []).append(name)
        for column in columns:
            others = names.get(usual_form(column), [])
            if column in self.column_names or len(others) != 1:
                continue
            self.aliases[column] = others[0]
            self.column_names[column] = self.column_names[others[0]]
            if others[0] in self.class_names:
                self.class_names[column] = self.class_names[others[0]]
            note = f"column {others[0]!r} of {self.title} is read as {column!r}"
            logger.warning(one_line(note))

    def _arrow(self, columns: list[str]) -> Iterator[Any]:
        """Yield tables of these columns, of `BATCH` rows each."""
        raise NotImplementedError

    def read(self, columns: Columns) -> None:
        """Store all rows; OSError if the disk that holds temporary files is full."""
        self.labels = {column: [] for column in (*columns.labels, *columns.marks.values())}
        self._faults = {column: {} for column in columns.texts}
        # The offsets of plain `string` end at 2 GiB of text.
        schema = pa.schema({column: pa.large_string() for column in columns.texts})
        with (
            writing_rows(),
            pa.OSFile(self._path, "wb") as file,
            pa.ipc.new_stream(file, schema) as stream,
        ):
            for raw in self.batches((*columns.texts, *self.labels)):
                batch = {name: _decoded(raw[name], self.class_names.get(name)) for name in raw}
                texts = {name: self._checked_texts(name, batch[name]) for name in columns.texts}
                stream.write_batch(pa.record_batch(texts, schema=schema))
                for name, labels in self.labels.items():
                    # Rows with the same text share one object.
                    labels += (sys.intern(c) if type(c) is str else c for c in batch[name])
                self.num_rows += len(texts[columns.texts[0]])

    def _checked_texts(self, column: str, values: Iterable[Any]) -> list[str | None]:
        """Return the texts of the next rows, None for one that cannot be read."""
        texts = list(values)
        for place, value in enumerate(texts):
            is_blank = value is None or (isinstance(value, str) and not value.strip())
            if reason := "there is no text; delete the row" if is_blank else text_fault(value):
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
            if bad := [row for row in self._faults[column] if row not in left_out]:
                more = ", ".join(str(row + FIRST_ROW * is_sheet(self.title)) for row in bad[:10])
                more = f". {len(bad)} rows have such a fault: {more}" + ", ..." * (len(bad) > 10)
                raise self.cell_error(
                    bad[0], column, self._faults[column][bad[0]] + more * (len(bad) > 1)
                )
        rows = Dataset.from_file(self._path)
        return rows.select_columns(list(names)).rename_columns(dict(names))

    def cell_error(self, row: int, column: str, reason: str) -> ValueError:
        """Return an error that names a cell and its fault."""
        return ValueError(f"{place_of(self.title, row)}, column {column!r}: {reason}")


class TextFile(StoredSplit):
    """A CSV, TSV, JSON or JSON Lines file."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, path, origin_of(path), {})

    def batches(self, wanted: Collection[str] = ()) -> Iterator[Batch]:
        """Yield all rows, and collect the names of their columns."""
        with wrap_read_errors(self.title):
            for part in read_parts(self.title, BATCH):
                for row in part:
                    self.column_names.update(dict.fromkeys(row))
                names = {name: self.aliases.get(name, name) for name in wanted or self.column_names}
                yield {name: [row.get(column) for row in part] for name, column in names.items()}


class ParquetFile(StoredSplit):
    """A Parquet file; only the wanted columns are read."""

    def __init__(self, name: str, path: str) -> None:
        with wrap_read_errors(path):
            features = Features.from_arrow_schema(pq.read_schema(path))
        super().__init__(name, path, origin_of(path), features)

    def _arrow(self, columns: list[str]) -> Iterator[Any]:
        with wrap_read_errors(self.title), pq.ParquetFile(self.title) as file:
            yield from file.iter_batches(BATCH, columns=columns)


class DatasetSplit(StoredSplit):
    """A split of a dataset on the Hub, or of a local folder of data files."""

    def __init__(self, name: str, source: dict[str, Any], rows: Dataset) -> None:
        super().__init__(name, f"the {name} split of {source['dataset']}", source, rows.features)
        self._rows = rows.with_format("arrow")

    def _arrow(self, columns: list[str]) -> Iterator[Any]:
        yield from self._rows.select_columns(columns).iter(BATCH)


def usual_form(name: str) -> str:
    """Return the form in which names of columns are compared: lower case, _ for each space."""
    return name.strip().lower().replace(" ", "_")


def origin_of(path: str) -> dict[str, Any]:
    """Return facts that distinguish the content of a file from another's, for a record."""
    with wrap_read_errors(path):
        return {"file": Path(path).name, "sha256": sha256_of(path)}


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
        why = os.strerror(reason.errno or errno.ENOSPC)
        fault = f"the rows do not fit into {_scratch().name}: {why}"
        advice = "free space there, or set TMPDIR to another folder"
        raise OSError(reason.errno, f"{fault}; {advice}") from reason


@contextmanager
def open_sources(arguments: SourceArguments) -> Iterator[list[StoredSplit]]:
    """Give the splits that the flags name, to be read, in the order of `SPLITS`."""
    files = {name: arguments.file_of(name) for name in SPLITS}
    given = {name: os.fspath(path) for name, path in files.items() if path is not None}
    if (arguments.dataset_name is None) == (not given):
        fault = f"--dataset_name is {arguments.dataset_name!r} and the files are {given}"
        raise ValueError(f"{fault}; give either a dataset, or one or more of {FILE_FLAGS}")
    # `datasets` copies a local folder; the copy is deleted with the block, not kept in a cache.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        if arguments.dataset_name is not None:
            yield _dataset_splits(arguments.dataset_name, arguments, scratch)
        else:
            yield [
                ParquetFile(name, path)
                if path.lower().endswith(".parquet")
                else TextFile(name, path)
                for name, path in given.items()
            ]


def _dataset_splits(path: str, arguments: SourceArguments, scratch: str) -> list[StoredSplit]:
    config, revision = arguments.dataset_config_name, arguments.dataset_revision
    name, cache_dir = path, arguments.cache_dir
    if os.path.exists(path):
        name, cache_dir = Path(path).resolve().name, scratch
    try:
        loaded = load_dataset(
            path, name=config, revision=revision, cache_dir=cache_dir, token=arguments.token
        )
    except DatasetGenerationError as error:
        reason = str(error.__cause__ or error).strip()
        advice = f"give its files, if it has any, by {FILE_FLAGS}"
        raise ValueError(f"cannot read the dataset {path}: {reason}; {advice}") from error
    splits = [split for split in SPLITS if split in loaded]
    if not splits:
        fault = f"{path!r} has the splits {list(loaded)}, but none of {list(SPLITS)}"
        raise ValueError(f"{fault}; save those you want as files and give these instead")
    origin = {"dataset": name, "config": config}
    return [
        DatasetSplit(s, {**origin, "revision": commit_of(loaded[s]) or revision}, loaded[s])
        for s in splits
    ]


def commit_of(dataset: Dataset) -> str | None:
    """Return the commit that a dataset was downloaded at, None if it is not from the Hub."""
    found = re.search(r"@([0-9a-f]{40})/", " ".join(dataset.info.download_checksums or ()))
    return found and found[1]
