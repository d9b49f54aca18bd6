"""A corpus -> shards of embeddings, each of which is either whole or not there.

The output folder holds `manifest.json`, which says what the embeddings were made from and how, and
Parquet files such as `embeddings-00002-of-00012.parquet`. Every one is written under another name
and renamed, so that whoever starts again has to make only those that are missing. Processes share
the work by the numbers of the shards, without a word to each other.
"""

import json
import logging
import os
import reprlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Features, List, Value

from .embedder import Embeddings

logger = logging.getLogger(__name__)

COLUMN = "embedding"
MANIFEST_NAME = "manifest.json"
MOST_ROWS = 100_000  # of a shard
MOST_BYTES = 2**28  # of the embeddings of a shard


@dataclass(frozen=True)
class Shard:
    """One file of the output and its rows, from `start` on, up to `stop`."""

    path: Path
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def usual_rows(bytes_per_row: int) -> int:
    """Return how many rows a shard has unless told otherwise.

    Args:
        bytes_per_row: Those of an embedding.
    """
    return max(min(MOST_ROWS, MOST_BYTES // bytes_per_row), 1)


def list_shards(folder: Path, num_rows: int, rows_per_shard: int) -> list[Shard]:
    """Return all shards of a corpus.

    Args:
        folder: The output folder.
        num_rows: Rows of the corpus.
        rows_per_shard: Rows of each shard but the last.
    """
    starts = range(0, num_rows, rows_per_shard)
    width = max(5, len(str(len(starts))))  # so that the names sort as the rows do
    return [
        Shard(
            folder / f"embeddings-{number:0{width}}-of-{len(starts):0{width}}.parquet",
            start,
            min(start + rows_per_shard, num_rows),
        )
        for number, start in enumerate(starts)
    ]


def is_finished(shard: Shard) -> bool:
    """Say whether a shard is there and whole; a damaged one is named in the log.

    Args:
        shard: The shard.
    """
    try:
        rows = pq.read_metadata(shard.path).num_rows
    except FileNotFoundError:
        return False
    except (pa.ArrowException, OSError) as reason:
        logger.warning("%s is damaged and made anew: %s", shard.path.name, reason)
        return False
    if rows != len(shard):
        logger.warning(
            "%s has %d rows instead of %d and is made anew", shard.path.name, rows, len(shard)
        )
    return rows == len(shard)


def write_shard(shard: Shard, kept: pa.Table, embeddings: Embeddings) -> None:
    """Write the embeddings of a shard and the columns that go with them.

    Args:
        shard: Where to.
        kept: The columns of the input that are kept.
        embeddings: One for each row.

    Raises:
        OSError: If they cannot be written.
    """
    size = embeddings.shape[1]
    column = pa.FixedSizeListArray.from_arrays(pa.array(embeddings.reshape(-1)), size)
    names = kept.column_names
    table = kept.append_column(COLUMN, column) if names else pa.table({COLUMN: column})
    schema = kept.schema
    metadata = None
    if b"huggingface" in (schema.metadata or {}):  # what `datasets` knows of the columns goes along
        features = Features.from_arrow_schema(schema)
        features[COLUMN] = List(Value(embeddings.dtype.name), length=size)
        metadata = features.arrow_schema.metadata
    with _all_at_once(shard.path) as unfinished, unfinished.open("wb") as handle:
        pq.write_table(
            table.replace_schema_metadata(metadata),
            handle,
            use_dictionary=names or False,  # embeddings do not repeat
            write_page_checksum=True,
        )
        handle.flush()
        os.fsync(handle.fileno())


@contextmanager
def _all_at_once(path: Path) -> Iterator[Path]:
    """Give a name to write under, and rename what was written."""
    # Of this process alone: even of two runs that make the same file, each makes a whole one.
    unfinished = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}.tmp")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return what a folder's manifest says, None if there is none.

    Args:
        folder: The output folder.

    Raises:
        ValueError: If it cannot be read, or there are embeddings without a manifest.
    """
    path = folder / MANIFEST_NAME
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if any(folder.glob("embeddings-*.parquet")):
            raise ValueError(
                f"{folder} holds embeddings without {MANIFEST_NAME}, so nobody knows of what; name "
                "another --output, or empty the folder"
            ) from None
        return None
    except ValueError as reason:
        raise ValueError(f"{path} is damaged: {reason}; name another --output") from reason
    return manifest


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder.

    Args:
        folder: The output folder.
        manifest: What it says.
    """
    with _all_at_once(folder / MANIFEST_NAME) as unfinished:
        unfinished.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def check_same(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise ValueError if a folder holds embeddings of other settings.

    Args:
        folder: The output folder.
        found: Its manifest.
        wanted: What must be the same in it.
    """
    differences = [
        f"{name} was {reprlib.repr(_at(found, name))} and is {reprlib.repr(_at(wanted, name))}"
        for name in _names(wanted)
        if _at(found, name) != _at(wanted, name)
    ]
    if differences:
        raise ValueError(
            f"{folder} was begun with other settings: {'; '.join(differences)}. Give the same "
            "ones to go on, or name another --output to start anew"
        )


def _names(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of all entries, those of an inner mapping as `outer.inner`."""
    for name, value in manifest.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name


def _at(manifest: Mapping[str, Any], name: str) -> Any:
    outer, _, inner = name.partition(".")
    value = manifest.get(outer)
    return value.get(inner) if inner and isinstance(value, Mapping) else value


__all__ = [
    "COLUMN",
    "Shard",
    "check_same",
    "is_finished",
    "list_shards",
    "read_manifest",
    "usual_rows",
    "write_manifest",
    "write_shard",
]
