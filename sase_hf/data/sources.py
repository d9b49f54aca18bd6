"""The splits of text files, Parquet files, datasets of the Hub and local folders.

The wanted columns of each split are stored: labels in memory, and texts on disk, in a temporary
folder that is deleted when the process ends.
"""

import dataclasses
import errno
import logging
import os
import random
import re
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import (
    BuilderConfig,
    ClassLabel,
    Dataset,
    DatasetDict,
    Features,
    Value,
    load_dataset,
    load_dataset_builder,
    load_from_disk,
)
from datasets.config import (
    DATASET_INFO_FILENAME,
    DATASET_STATE_JSON_FILENAME,
    DATASETDICT_JSON_FILENAME,
)
from datasets.exceptions import DatasetGenerationError

from ..models.checked_files import sha256_of
from ..utils.errors import refusal
from ..utils.files import is_write_error
from ..utils.text import one_line, text_fault
from .arguments import SPLITS, SourceArguments
from .rows import ENDINGS, FIRST_ROW, is_sheet, place_of, read_parts, wrap_read_errors

logger = logging.getLogger(__name__)

BATCH = 1000  # rows held in memory on their way to the disk
SHOWN_ROWS = 10  # in an error about many
FILE_FLAGS = "--train_file, --validation_file and --test_file"

# The names that a split of a dataset may have, by the names of `SPLITS`; the first one present
# counts. They are those that `datasets` reads from the names of files.
SPLIT_NAMES = {
    "train": ("train", "training"),
    "validation": (
        *("validation", "valid", "val", "dev", "development"),
        *("validation_matched", "dev_matched"),
    ),
    "test": ("test", "testing", "eval", "evaluation", "test_matched"),
}

NO_TEXT = "there is no text; delete the row"

Batch = Mapping[str, Sequence[Any]]  # some rows, the values of each column
Origin = dict[str, str | int | float | None]  # what distinguishes rows from others, for a record

# The names of columns by which the rest of the package knows texts and soft labels.
TEXT_COLUMNS = ("text", "text_pair")
PROBABILITIES = "probabilities"  # of the classes, in a train split
# Where a row of a train split stands: its number, and its file if there are several.
PLACE_COLUMNS = ("row", "file")

# The features of a column that a file lacks, or whose values are all missing there.
MISSING = (None, Value("null"), pa.null())


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
        self, name: str, title: str, source: Origin, features: Mapping[str, object]
    ) -> None:
        self.name = name
        self.title = title
        self.source = source
        self.column_names = dict(features)  # those of a text file are known once it is read
        self.class_names: dict[str, tuple[str, ...]] = {}  # in id order
        for column, feature in features.items():
            class_names = _class_names(feature)
            if class_names is not None:
                self.class_names[column] = class_names
        self.aliases: dict[str, str] = {}  # a name of the first split -> that of this one
        self.num_rows = 0
        self.labels: dict[str, list[object]] = {}  # the values of each wanted column
        self._faults: dict[str, dict[int, str]] = {}
        self._path = scratch_file()

    def batches(self, wanted: Collection[str] = ()) -> Iterator[Batch]:
        """Yield all rows: the wanted columns, None where a row lacks one, or all columns."""
        asked_name = {self.aliases.get(name, name): name for name in wanted}  # by this split's name
        for batch in self._batches(asked_name.keys()):
            yield {asked_name.get(name, name): values for name, values in batch.items()}

    def spread_sample(self) -> Batch:
        """Return all columns of `BATCH` rows that are drawn from all rows; of fewer rows, all."""
        rows: list[dict[str, Any]] = []
        draw = random.Random(0)
        num_read = 0
        for batch in self.batches():
            for cells in zip(*batch.values(), strict=True):
                place = num_read if num_read < BATCH else draw.randrange(num_read + 1)
                num_read += 1
                if place >= BATCH:
                    continue
                row = dict(zip(batch, cells, strict=True))
                if place == len(rows):
                    rows.append(row)
                else:
                    rows[place] = row
        return {name: [row.get(name) for row in rows] for name in self.column_names}

    def adopt_names(self, columns: Iterable[str]) -> None:
        """Find columns whose names differ from those of the first split in case or blanks only."""
        next(self.batches(), None)  # a text file learns the names of its columns
        stored = list(self.column_names)
        for column in columns:
            other = written_otherwise(column, stored)
            if other is None or column in self.column_names:
                continue
            self.aliases[column] = other
            self.column_names[column] = self.column_names[other]
            if other in self.class_names:
                self.class_names[column] = self.class_names[other]
            note = f"column {other!r} of {self.title} is read as {column!r}"
            logger.warning(one_line(note))

    def _batches(self, wanted: Collection[str]) -> Iterator[Batch]:
        """Yield all rows as `batches` does, by the names that the source has."""
        raise NotImplementedError

    def _place_of(self, row: int) -> tuple[str, int]:
        """Return the file or split that holds a row, and the row's number there."""
        return self.title, row

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
                texts = {}
                for name in columns.texts:
                    texts[name] = self._checked_texts(name, self._decoded(raw, name))
                stream.write_batch(pa.record_batch(texts, schema=schema))
                for name, labels in self.labels.items():
                    labels += map(_label_cell, self._decoded(raw, name))
                self.num_rows += len(texts[columns.texts[0]])

    def _decoded(self, batch: Batch, column: str) -> Sequence[object]:
        """Return the values of a column, with names in place of class ids."""
        names = self.class_names.get(column)
        if names is None:
            return batch[column]
        return _names_of_ids(batch[column], dict(enumerate(names)))

    def _checked_texts(self, column: str, values: Iterable[object]) -> list[str | None]:
        """Return the texts of the next rows, None for one that cannot be read."""
        texts: list[str | None] = []
        for value in values:
            reason = _fault_of_text(value)
            if reason is not None:
                self._faults[column][self.num_rows + len(texts)] = reason
            texts.append(value if isinstance(value, str) and reason is None else None)
        return texts

    def require(self, columns: Iterable[str], flags: str) -> None:
        """Raise a ValueError if there are no rows, or a column is missing that `flags` choose."""
        if self.num_rows == 0:
            raise ValueError(f"{self.title} has no rows; add some, or leave it out")
        for column in columns:
            if column not in self.column_names:
                names = ", ".join(map(repr, self.column_names))
                raise refusal(
                    f"{self.title} has no column {column!r}", f"it has {names}. Choose with {flags}"
                )

    def rows_without_text(self, column: str) -> list[int]:
        """Return the rows whose text is missing or empty."""
        return [row for row, fault in self._faults[column].items() if fault == NO_TEXT]

    def named_texts(self, names: Mapping[str, str], left_out: Collection[int] = ()) -> Dataset:
        """Return columns of texts under other names; ValueError if a row not left out has none."""
        for column in names:
            bad_rows = [row for row in self._faults[column] if row not in left_out]
            if bad_rows:
                raise self._text_error(column, bad_rows)
        rows = Dataset.from_file(self._path)
        return rows.select_columns(list(names)).rename_columns(dict(names))

    def _text_error(self, column: str, rows: Sequence[int]) -> ValueError:
        """Return an error about the first of some rows whose text cannot be read."""
        reason = self._faults[column][rows[0]]
        if len(rows) == 1:
            return self.cell_error(rows[0], column, reason)
        shown = ", ".join(str(self._shown_number(row)) for row in rows[:SHOWN_ROWS])
        if len(rows) > SHOWN_ROWS:
            shown += ", ..."
        return self.cell_error(
            rows[0], column, f"{reason}. {len(rows)} rows have such a fault: {shown}"
        )

    def places(self) -> dict[str, Any]:
        """Return where each row stands, by the names of `PLACE_COLUMNS`.

        The number is that of `cell_error`: as a spreadsheet counts the rows of CSV and TSV files,
        from 0 for others. Only rows of several files have the name of the file.
        """
        return {"row": _numbers_in(self.title, self.num_rows)}

    def _shown_number(self, row: int) -> int:
        """Return the number of a row as `cell_error` counts it."""
        title, number = self._place_of(row)
        return number + FIRST_ROW if is_sheet(title) else number

    def cell_error(self, row: int, column: str, reason: str) -> ValueError:
        """Return an error that names a cell and its fault."""
        return ValueError(f"{place_of(*self._place_of(row))}, column {column!r}: {reason}")


class FileSplit(StoredSplit):
    """The rows of one file, or of several: CSV, TSV, JSON, JSON Lines and Parquet."""

    def __init__(self, name: str, title: str, source: Origin, paths: Sequence[str]) -> None:
        features: dict[str, object] = {}
        self._features_of: dict[str, Mapping[str, object]] = {}  # of each Parquet file
        for path in filter(_is_parquet, paths):
            with wrap_read_errors(path):
                self._features_of[path] = described_features(pq.read_schema(path))
            for column, feature in self._features_of[path].items():
                if _item_of(features.get(column)) in MISSING:
                    features[column] = feature
        super().__init__(name, title, source, features)
        self._paths = paths
        self._first_rows: dict[str, int] = {}  # of the files that are read so far

    @classmethod
    def of_file(cls, name: str, path: str) -> "FileSplit":
        """Return the split that is one file."""
        return cls(name, path, origin_of(path), [path])

    def read(self, columns: Columns) -> None:
        """Store all rows; ValueError if the files number the classes of a column differently."""
        wanted = (*columns.texts, *columns.labels, *columns.marks.values())
        stored = {self.aliases.get(column, column) for column in wanted}
        check_class_names(self._features_of, stored)
        super().read(columns)

    def _batches(self, wanted: Collection[str]) -> Iterator[Batch]:
        """Yield all rows, and collect the names of the columns of text files."""
        num_rows = 0
        for path in self._paths:
            self._first_rows[path] = num_rows
            read = self._parquet_batches if _is_parquet(path) else self._text_batches
            with wrap_read_errors(path):
                for batch in read(path, wanted):
                    num_rows += len(next(iter(batch.values()), ()))
                    yield batch

    def _text_batches(self, path: str, wanted: Collection[str]) -> Iterator[Batch]:
        for part in read_parts(path, BATCH):
            for row in part:
                for name in row:
                    self.column_names[name] = None
            names = wanted or self.column_names
            yield {name: [row.get(name) for row in part] for name in names}

    def _parquet_batches(self, path: str, wanted: Collection[str]) -> Iterator[Batch]:
        """Yield the rows of a Parquet file; only the wanted columns are read."""
        names = wanted or list(self.column_names)
        with pq.ParquetFile(path) as file:
            columns = [name for name in names if name in file.schema_arrow.names]
            for rows in file.iter_batches(BATCH, columns=columns):
                yield _values_of(rows, names)

    def _place_of(self, row: int) -> tuple[str, int]:
        # The last file that begins at or before the row: one without rows begins where it ends.
        begun = [path for path, first in self._first_rows.items() if first <= row]
        path = begun[-1]
        return path, row - self._first_rows[path]

    def places(self) -> dict[str, Any]:
        """Return also the files, if there are several."""
        if len(self._paths) == 1:
            return super().places()
        folder = os.path.commonpath([os.path.dirname(path) for path in self._paths])
        numbers: list[np.ndarray] = []
        files: list[str] = []
        ends = [*self._first_rows.values(), self.num_rows][1:]
        for (path, start), end in zip(self._first_rows.items(), ends, strict=True):
            numbers.append(_numbers_in(path, end - start))
            files += [os.path.relpath(path, folder)] * (end - start)
        return {"row": np.concatenate(numbers), "file": files}


class DatasetSplit(StoredSplit):
    """A split of a dataset that `datasets` has read; `split` is its name there."""

    def __init__(self, name: str, split: str, source: Origin, rows: Dataset) -> None:
        super().__init__(name, f"the {split} split of {source['dataset']}", source, rows.features)
        self._rows = rows.with_format("arrow")

    @classmethod
    def in_memory(cls, name: str, rows: Dataset) -> "DatasetSplit":
        """Return the split that is rows of the caller, who has no name for them."""
        source: Origin = {"dataset": "rows in memory", "fingerprint": rows._fingerprint}
        split = cls(name, name, source, rows)
        split.title = f"the {name} rows"
        return split

    def _batches(self, wanted: Collection[str]) -> Iterator[Batch]:
        names = wanted or list(self.column_names)
        columns = [name for name in names if name in self.column_names]
        for rows in self._rows.select_columns(columns).iter(BATCH):
            yield _values_of(rows, names)


def described_features(schema: pa.Schema) -> Mapping[str, object]:
    """Return the features that `datasets` wrote into a file, else the type of each column.

    A file that it did not write has no names of classes, and may have types that it does not know.
    """
    features: dict[str, object] = {}
    is_described = b"huggingface" in (schema.metadata or {})
    for field in schema:
        features[field.name] = field.type
        if is_described:
            with suppress(ValueError):  # of a type that came in later
                alone = pa.schema([field], schema.metadata)
                features[field.name] = Features.from_arrow_schema(alone)[field.name]
    return features


def check_class_names(
    features_of: Mapping[str, Mapping[str, object]],
    columns: Collection[str],
) -> None:
    """Raise ValueError if files read as one number the classes of a column differently.

    A class id would mean one class in the first file and another in the second.

    Args:
        features_of: The features of each file, by its name.
        columns: Those that are read. A file may lack one, or have missing values only.
    """
    first: dict[str, tuple[str, tuple[str, ...] | None]] = {}
    for file, features in features_of.items():
        for column in columns:
            feature = features.get(column)
            if _item_of(feature) in MISSING:
                continue
            names = _class_names(feature)
            first_file, first_names = first.setdefault(column, (file, names))
            if names != first_names:
                raise refusal(
                    f"the classes of column {column!r} are {_shown(first_names)} in {first_file} "
                    f"and {_shown(names)} in {file}, so one number can mean two classes",
                    "store its labels as strings in all of these files",
                )


def _class_names(feature: object) -> tuple[str, ...] | None:
    """Return the classes of a column of class ids, or of lists of them, in id order."""
    item = _item_of(feature)
    return tuple(item.names) if isinstance(item, ClassLabel) else None


def _item_of(feature: object) -> object:
    """Return the feature of the items of lists, and that of another column."""
    if hasattr(feature, "feature"):
        return _item_of(feature.feature)
    if isinstance(feature, pa.DataType) and hasattr(feature, "value_type"):
        return _item_of(feature.value_type)
    return feature


def _shown(class_names: tuple[str, ...] | None) -> str:
    return "without names" if class_names is None else f"{list(class_names)!r:.200}"


def _numbers_in(title: str, num_rows: int) -> np.ndarray:
    """Return the numbers of the rows of a file or split, as a person counts them: (N,)."""
    first = FIRST_ROW if is_sheet(title) else 0
    return np.arange(first, first + num_rows)


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(".parquet")


def _values_of(rows: pa.RecordBatch | pa.Table, names: Collection[str]) -> Batch:
    """Return the columns of a table, None in those that it lacks."""
    values: dict[str, list[Any]] = {name: [None] * rows.num_rows for name in names}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        values[name] = column.to_pylist()
        if pa.types.is_decimal(column.type):
            values[name] = [_number_of(value) for value in values[name]]
    return values


def _number_of(value: Decimal | None) -> int | float | None:
    """Return a decimal number of Parquet as the number that a text file would have."""
    if value is None:
        return None
    return int(value) if value == value.to_integral_value() else float(value)


def _fault_of_text(value: object) -> str | None:
    """Return why a value is no text to read, None if it is one."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return NO_TEXT
    return text_fault(value)


def _label_cell(value: object) -> object:
    """Return a cell of labels or marks; a date or a time becomes the text that a CSV file has."""
    if isinstance(value, date | time | timedelta):
        value = str(value)
    # Rows with the same text share one object.
    return sys.intern(value) if type(value) is str else value


def usual_form(name: str) -> str:
    """Return the form in which names of columns are compared: lower case, _ for each space."""
    return name.strip().lower().replace(" ", "_")


def written_otherwise(name: str, columns: Collection[str]) -> str | None:
    """Return the only column whose name has the same usual form; None for none or several."""
    alike = [column for column in columns if usual_form(column) == usual_form(name)]
    return alike[0] if len(alike) == 1 else None


def origin_of(path: str) -> Origin:
    """Return facts that distinguish the content of a file from another's, for a record."""
    with wrap_read_errors(path):
        return {"file": Path(path).name, "sha256": sha256_of(path)}


def _names_of_ids(values: Iterable[Any], name_of: Mapping[int, str]) -> list[object]:
    """Return class ids, or lists of them, as names; None for an id without a name."""
    names: list[object] = []
    for value in values:
        if isinstance(value, list):
            names.append(_names_of_ids(value, name_of))
        else:
            names.append(name_of.get(value))
    return names


def present(names: Sequence[str], rows: Dataset) -> list[str]:
    """Return those of some columns that a dataset has, such as its `TEXT_COLUMNS`."""
    return [name for name in names if name in rows.column_names]


def with_column(rows: Dataset, name: str, values: Sequence[Any], feature: Any = None) -> Dataset:
    """Return rows with one more column, whose type is the `feature`, or that of the values."""
    # The fingerprint is random, because hashing all values takes long.
    return rows.add_column(name, values, feature=feature, new_fingerprint=uuid4().hex)


def numbered(kind: str, number: int) -> str:
    """Return the name of the n-th file of a kind in a record: `unlabelled`, `unlabelled_2`, ..."""
    return kind if number == 1 else f"{kind}_{number}"


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
        raise OSError(
            reason.errno,
            f"the rows do not fit into {_scratch().name}: {why}; free space there, or set TMPDIR "
            "to another folder",
        ) from reason


@contextmanager
def open_sources(
    arguments: SourceArguments, in_memory: Mapping[str, Dataset] = MappingProxyType({})
) -> Iterator[list[StoredSplit]]:
    """Give the splits that the flags name, to be read, in the order of `SPLITS`.

    Splits `in_memory` take the place of all flags.
    """
    if in_memory:
        yield [
            DatasetSplit.in_memory(name, in_memory[name]) for name in SPLITS if name in in_memory
        ]
        return
    files = {}
    for name in SPLITS:
        path = arguments.file_of(name)
        if path is not None:
            files[name] = os.fspath(path)
    if (arguments.dataset_name is None) == (not files):
        raise refusal(
            f"--dataset_name is {arguments.dataset_name!r} and the files are {files}",
            f"give either a dataset, or one or more of {FILE_FLAGS}",
        )
    # `datasets` copies a local folder; the copy is deleted with the block, not kept in a cache.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        if arguments.dataset_name is not None:
            yield _dataset_splits(arguments.dataset_name, arguments, scratch)
        else:
            yield [FileSplit.of_file(name, path) for name, path in files.items()]


def _dataset_splits(path: str, arguments: SourceArguments, scratch: str) -> list[StoredSplit]:
    """Return the splits of a dataset of the Hub, or of a local folder.

    Text files and Parquet files of a folder are read as those that flags name. A folder with a
    description of its own, such as names of classes, is read as `datasets` reads it.
    """
    config = arguments.dataset_config_name
    source: Origin = {"dataset": path, "config": config}
    if os.path.isfile(path):
        raise refusal(f"--dataset_name {path} is a file", f"give it by {FILE_FLAGS}")
    if not os.path.isdir(path):
        loaded = _load(path, arguments, arguments.cache_dir)
        return _chosen_splits(path, loaded, source, arguments)
    source["dataset"] = Path(path).resolve().name
    if Path(path, DATASETDICT_JSON_FILENAME).exists():
        return _chosen_splits(path, _load_saved(path), source, arguments)
    saved = (DATASET_STATE_JSON_FILENAME, DATASET_INFO_FILENAME)
    if all(Path(path, name).exists() for name in saved):
        rows = _load_saved(path)
        return _chosen_splits(path, {_own_name(rows): rows}, source, arguments)
    files = _files_of(path, config, scratch)
    if files is None:
        loaded = _load(os.path.abspath(path), arguments, scratch)
        return _chosen_splits(path, loaded, source, arguments)
    source["revision"] = None
    names = _split_names(path, files)
    return [
        FileSplit(name, _title_of(split, files[split], source), source, files[split])
        for name, split in names.items()
    ]


def _own_name(rows: Dataset) -> str:
    """Return the name of the split that a saved dataset was, "train" if it does not say."""
    name = str(rows.split or "").partition("[")[0]  # as in train[:10%]
    is_usual = name.lower() in chain.from_iterable(SPLIT_NAMES.values())
    return name if is_usual else "train"


def _title_of(split: str, files: Sequence[str], source: Origin) -> str:
    return files[0] if len(files) == 1 else f"the {split} split of {source['dataset']}"


def _load(path: str, arguments: SourceArguments, cache_dir: str | None) -> DatasetDict:
    """Return the splits of a dataset that `datasets` reads."""
    with _naming(path):
        return load_dataset(
            path,
            name=arguments.dataset_config_name,
            revision=arguments.dataset_revision,
            cache_dir=cache_dir,
            token=arguments.token,
        )


def _load_saved(path: str) -> Dataset | DatasetDict:
    """Return what `save_to_disk` saved: a dataset, or one with splits."""
    with _naming(path):
        return load_from_disk(path)


def _files_of(path: str, config: str | None, scratch: str) -> dict[str, list[str]] | None:
    """Return the files of a folder by split; None if `datasets` has to read them.

    `datasets` finds which file belongs to which split. It has to read other formats, and files
    that the folder's README.md describes.
    """
    with _naming(path):
        # `datasets` names its builder by the last part of the path, which "." has not.
        folder = os.path.abspath(path)
        builder = load_dataset_builder(folder, name=config, cache_dir=scratch)
    if builder.info.features is not None or _has_reading_options(builder.config):
        return None
    files = {str(split): list(paths) for split, paths in (builder.config.data_files or {}).items()}
    are_ours = all(file.lower().endswith(ENDINGS) for file in chain.from_iterable(files.values()))
    return files if files and are_ours else None


def _has_reading_options(config: BuilderConfig) -> bool:
    """Return whether an option of a builder of `datasets` changes how it reads a file.

    The tab is the separator of every TSV file.
    """
    others = {"name", "version", "data_dir", "data_files", "description"}
    usual = type(config)()
    for field in dataclasses.fields(config):
        option = getattr(config, field.name)
        if field.name not in others and option not in (getattr(usual, field.name), "\t"):
            return True
    return False


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Raise ValueError that names the dataset for a fault in its files."""
    try:
        yield
    except (DatasetGenerationError, RuntimeError, KeyError, TypeError, ValueError) as error:
        reason = one_line(error.__cause__ or error) or type(error).__name__
        raise refusal(
            f"cannot read the dataset {path}: {reason}",
            f"give its files, if it has any, by {FILE_FLAGS}",
        ) from error


def _chosen_splits(
    path: str, loaded: Mapping[str, Dataset], source: Origin, arguments: SourceArguments
) -> list[StoredSplit]:
    """Return the splits of a dataset that a task reads."""
    chosen: list[StoredSplit] = []
    for name, split in _split_names(path, loaded).items():
        rows = loaded[split]
        revision = commit_of(rows) or arguments.dataset_revision
        chosen.append(DatasetSplit(name, split, {**source, "revision": revision}, rows))
    return chosen


def _split_names(path: str, splits: Collection[str]) -> dict[str, str]:
    """Return which split of a dataset is which of `SPLITS`; log those that are not read."""
    by_usual_form = {split.lower().replace("-", "_"): split for split in reversed(list(splits))}
    chosen: dict[str, str] = {}
    for name, usual in SPLIT_NAMES.items():
        present = [by_usual_form[form] for form in usual if form in by_usual_form]
        if present:
            chosen[name] = present[0]
    if not chosen:
        raise refusal(
            f"{path!r} has the splits {list(splits)}, but none of {list(SPLITS)}",
            "save those you want as files and give these instead",
        )
    for name, split in chosen.items():
        if name != split:
            logger.info(one_line(f"the split {split!r} of {path} is read as {name} rows"))
    unread = [repr(split) for split in splits if split not in chosen.values()]
    if unread:
        note = f"of {path} these splits are not read: {', '.join(unread)}"
        logger.warning(one_line(f"{note}; to read one, save it as a file and name it by a flag"))
    return chosen


def commit_of(dataset: Dataset) -> str | None:
    """Return the commit that a dataset was downloaded at, None if it is not from the Hub."""
    urls = " ".join(dataset.info.download_checksums or ())
    match = re.search(r"@([0-9a-f]{40})/", urls)
    return match and match[1]
