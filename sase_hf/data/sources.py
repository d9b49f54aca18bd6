"""Where splits come from: text files, Parquet files, datasets of the Hub and local folders."""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from datasets import ClassLabel, Dataset, Features, load_dataset
from datasets.exceptions import DatasetGenerationError

from ..utils.files import sha256_of
from .arguments import SPLITS, SourceArguments
from .rows import read_rows, wrap_read_errors
from .stored_rows import BATCH, Columns, StoredSplit

Batch = Mapping[str, Sequence[Any]]  # some rows, the values of each column


class TextFile:
    """A CSV, TSV, JSON or JSON Lines file, which is read once."""

    def __init__(self, name: str, path: str) -> None:
        self.name, self.title = name, path
        self._first: list[Mapping[str, Any]] = []
        self._rest = read_rows(path)

    def sample(self, size: int) -> Batch:
        """Return the first rows."""
        with wrap_read_errors(self.title):
            self._first = list(islice(self._rest, size))
        names = dict.fromkeys(name for row in self._first for name in row)
        return {name: [row.get(name) for row in self._first] for name in names}

    def read(self, columns: Columns) -> StoredSplit:
        """Store the wanted columns; where a row of a JSON file lacks one, the value is None."""
        with wrap_read_errors(self.title):
            split = StoredSplit(self.name, self.title, _source_of(self.title), columns)
            split.column_names = names = {}

            def batches() -> Iterator[Batch]:
                rows = chain(self._first, self._rest)
                while part := list(islice(rows, BATCH)):
                    for row in part:
                        names.update(dict.fromkeys(row))
                    yield {name: [row.get(name) for row in part] for name in sum(columns, ())}

            split.write(batches())
        return split


class ParquetFile:
    """A Parquet file, of which only the wanted columns are read."""

    def __init__(self, name: str, path: str) -> None:
        self.name, self.title = name, path

    def sample(self, size: int) -> Batch:
        """Return the first rows."""
        with wrap_read_errors(self.title), pq.ParquetFile(self.title) as file:
            return next((batch.to_pydict() for batch in file.iter_batches(size)), {})

    def read(self, columns: Columns) -> StoredSplit:
        """Store the wanted columns."""
        with wrap_read_errors(self.title), pq.ParquetFile(self.title) as file:
            split = StoredSplit(self.name, self.title, _source_of(self.title), columns)
            features = Features.from_arrow_schema(file.schema_arrow)
            wanted = [name for name in sum(columns, ()) if name in features]
            batches = (batch.to_pydict() for batch in file.iter_batches(BATCH, columns=wanted))
            _write_typed(split, batches, {name: features[name] for name in wanted})
            split.column_names, split.num_rows = features, file.metadata.num_rows
        return split


class DatasetSplit:
    """A split of a dataset on the Hub, or of a local folder of data files."""

    def __init__(self, name: str, title: str, source: dict[str, Any], rows: Dataset) -> None:
        self.name, self.title = name, title
        self._source, self._rows = source, rows

    def sample(self, size: int) -> Batch:
        """Return the first rows."""
        columns: Batch = self._rows.with_format("arrow")[:size].to_pydict()
        return columns

    def read(self, columns: Columns) -> StoredSplit:
        """Store the wanted columns."""
        split = StoredSplit(self.name, self.title, self._source, columns)
        wanted = sorted({*sum(columns, ())} & {*self._rows.column_names})
        rows = self._rows.select_columns(wanted)
        _write_typed(split, rows.iter(BATCH), rows.features)
        split.column_names, split.num_rows = self._rows.column_names, self._rows.num_rows
        return split


Source = TextFile | ParquetFile | DatasetSplit  # one split: a sample, then the wanted columns


def _write_typed(split: StoredSplit, batches: Iterable[Batch], features: Features) -> None:
    """Write rows whose columns have types; class ids become their names."""
    for name, feature in features.items():
        classes = getattr(feature, "feature", feature)
        if isinstance(classes, ClassLabel):
            split.class_names[name] = tuple(classes.names)

    def decoded(value: Any, names: tuple[str, ...] | None) -> Any:
        if names is None or value is None:
            return value
        if isinstance(value, list):
            return [decoded(item, names) for item in value]
        return None if value == -1 else names[value]

    split.write(
        {n: [decoded(value, split.class_names.get(n)) for value in batch[n]] for n in batch}
        for batch in batches
    )


@contextmanager
def open_sources(arguments: SourceArguments) -> Iterator[list[Source]]:
    """Give the source of each split that the flags name, in the order of `SPLITS`.

    Raises:
        ValueError: If both or neither of a dataset and files are given, the dataset cannot be read,
            or has none of `SPLITS`.
    """
    files = {name: getattr(arguments, f"{name}_file") for name in SPLITS}
    given = {name: os.fspath(path) for name, path in files.items() if path is not None}
    if (arguments.dataset_name is None) == (not given):
        raise ValueError(
            f"--dataset_name is {arguments.dataset_name!r} and the files are {given}; give either "
            "a dataset, or one or more of --train_file, --validation_file and --test_file"
        )
    if arguments.dataset_name is None:
        yield [
            (ParquetFile if path.lower().endswith(".parquet") else TextFile)(name, path)
            for name, path in given.items()
        ]
        return
    # The copy of a local folder that `datasets` makes goes with the block, not into its cache.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        yield _dataset_sources(arguments.dataset_name, arguments, scratch)


def _dataset_sources(path: str, arguments: SourceArguments, scratch: str) -> list[Source]:
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
        raise ValueError(
            f"cannot read the dataset {path}: {reason}; give its files, if it has any, by "
            "--train_file, --validation_file and --test_file"
        ) from error
    sources: list[Source] = []
    for split in filter(loaded.__contains__, SPLITS):
        commit = commit_of(loaded[split]) or revision
        source = {"dataset": name, "config": config, "revision": commit}
        sources.append(DatasetSplit(split, f"the {split} split of {name}", source, loaded[split]))
    if not sources:
        fault = f"{path!r} has the splits {list(loaded)}, but none of {list(SPLITS)}"
        raise ValueError(f"{fault}; save those you want as files and give these instead")
    return sources


def commit_of(dataset: Dataset) -> str | None:
    """Return the commit that a dataset was downloaded at, None if it is not from the Hub."""
    found = re.search(r"@([0-9a-f]{40})/", " ".join(dataset.info.download_checksums or ()))
    return found and found[1]


def _source_of(path: str) -> dict[str, Any]:
    """Return the name of a file and the digest of its content, for a record."""
    return {"file": os.path.basename(path), "sha256": sha256_of(path)}
