"""Where splits come from: text files, Parquet files, datasets of the Hub and local folders."""

import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, Features, load_dataset
from datasets.exceptions import DatasetGenerationError

from ..utils.files import sha256_of
from .arguments import SPLITS, SourceArguments
from .rows import read_rows, wrap_read_errors
from .stored_rows import BATCH, Batch, StoredSplit


class TextFile(StoredSplit):
    """A CSV, TSV, JSON or JSON Lines file."""

    def __init__(self, name: str, path: str, features: Mapping[str, Any] | None = None) -> None:
        with wrap_read_errors(path):
            source = {"file": Path(path).name, "sha256": sha256_of(path)}
        super().__init__(name, path, source, features or {})

    def batches(self, wanted: Collection[str] = ()) -> Iterator[Batch]:
        """Yield all rows, and collect the names of their columns."""
        with wrap_read_errors(self.title):
            rows = read_rows(self.title)
            while part := list(islice(rows, BATCH)):
                for row in part:
                    self.column_names.update(dict.fromkeys(row))
                names = wanted or self.column_names
                yield {name: [row.get(name) for row in part] for name in names}


class ParquetFile(TextFile):
    """A Parquet file; only the wanted columns are read."""

    def __init__(self, name: str, path: str) -> None:
        with wrap_read_errors(path):
            super().__init__(name, path, Features.from_arrow_schema(pq.read_schema(path)))

    def batches(self, wanted: Collection[str] = ()) -> Iterator[Batch]:
        """Yield all rows."""
        names = wanted or self.column_names
        held = [name for name in names if name in self.column_names]
        with wrap_read_errors(self.title), pq.ParquetFile(self.title) as file:
            for rows in file.iter_batches(BATCH, columns=held):
                yield _values(rows, names)


class DatasetSplit(StoredSplit):
    """A split of a dataset on the Hub, or of a local folder of data files."""

    def __init__(self, name: str, source: dict[str, Any], rows: Dataset) -> None:
        super().__init__(name, f"the {name} split of {source['dataset']}", source, rows.features)
        self._rows = rows.with_format("arrow")

    def batches(self, wanted: Collection[str] = ()) -> Iterator[Batch]:
        """Yield all rows."""
        names = wanted or self.column_names
        held = self._rows.select_columns([name for name in names if name in self.column_names])
        for rows in held.iter(BATCH):
            yield _values(rows, names)


def _values(rows: pa.Table | pa.RecordBatch, names: Collection[str]) -> Batch:
    values = rows.to_pydict()
    return {name: values.get(name) or [None] * rows.num_rows for name in names}


@contextmanager
def open_sources(arguments: SourceArguments) -> Iterator[list[StoredSplit]]:
    """Give the splits that the flags name, to be read, in the order of `SPLITS`.

    Raises:
        ValueError: If both or neither of a dataset and files are given, the dataset cannot be read,
            or has none of `SPLITS`.
    """
    files = {name: arguments.file_of(name) for name in SPLITS}
    given = {name: os.fspath(path) for name, path in files.items() if path is not None}
    if (arguments.dataset_name is None) == (not given):
        raise ValueError(
            f"--dataset_name is {arguments.dataset_name!r} and the files are {given}; give either "
            "a dataset, or one or more of --train_file, --validation_file and --test_file"
        )
    # The copy of a local folder that `datasets` makes goes with the block, not into its cache.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        if arguments.dataset_name is not None:
            yield _dataset_splits(arguments.dataset_name, arguments, scratch)
        else:
            yield [
                (ParquetFile if path.lower().endswith(".parquet") else TextFile)(name, path)
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
        raise ValueError(
            f"cannot read the dataset {path}: {reason}; give its files, if it has any, by "
            "--train_file, --validation_file and --test_file"
        ) from error
    splits = [split for split in SPLITS if split in loaded]
    if not splits:
        fault = f"{path!r} has the splits {list(loaded)}, but none of {list(SPLITS)}"
        raise ValueError(f"{fault}; save those you want as files and give these instead")
    commits = [commit_of(loaded[split]) or revision for split in splits]
    origins = [{"dataset": name, "config": config, "revision": commit} for commit in commits]
    return [DatasetSplit(s, origin, loaded[s]) for s, origin in zip(splits, origins, strict=True)]


def commit_of(dataset: Dataset) -> str | None:
    """Return the commit that a dataset was downloaded at, None if it is not from the Hub."""
    found = re.search(r"@([0-9a-f]{40})/", " ".join(dataset.info.download_checksums or ()))
    return found and found[1]
