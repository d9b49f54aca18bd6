"""The output folder: shards of embeddings, and a manifest of their model, input and settings.

A shard is a Parquet file such as `embeddings-00002-of-00012.parquet`. It is written under another
name and renamed, so it is either whole or missing, and a run that starts again makes only the
missing ones. Processes share the work by the numbers of the shards.
"""

import json
import logging
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Features, List, Value

from ..utils.files import atomic_write
from .embedder import Embeddings

logger = logging.getLogger(__name__)

COLUMN = "embedding"
MANIFEST_NAME = "manifest.json"
ROWS_READ_AT_ONCE = 1_024  # many more than that outgrow the caches of a CPU and are slower


class Settings(TypedDict):
    """The settings that a run which continues a folder must repeat; `EmbeddingJob` has them too."""

    text_column_names: str
    keep_columns: list[str] | None
    max_seq_length: int | None
    normalize: bool
    dtype: str
    precision: str
    rows_per_shard: int


class Manifest(TypedDict):
    """What a folder holds.

    rows: of the input.
    embedding_size: numbers of an embedding.
    checkpoint: its name and revision.
    model: as `Embedder.identity`.
    input: what distinguishes its rows from others.
    settings: those of the first run.
    """

    rows: int
    embedding_size: int
    checkpoint: Mapping[str, str | None]
    model: Mapping[str, str]
    input: Mapping[str, object]
    settings: Settings


@dataclass(frozen=True)
class Shard:
    """One file of the output, with the rows start, ..., stop - 1."""

    path: Path
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def is_finished(self) -> bool:
        """Return whether the file exists and is whole; name a damaged file in the log."""
        try:
            rows = pq.read_metadata(self.path).num_rows
        except FileNotFoundError:
            return False
        except (pa.ArrowException, OSError) as reason:
            logger.warning("%s is damaged and made again: %s", self.path.name, reason)
            return False
        if rows != len(self):
            logger.warning("%s has %d rows and is made again", self.path.name, rows)
        return rows == len(self)

    def is_intact(self) -> bool:
        """Return whether the file is finished and holds the bytes that were written.

        It is read whole, about 500 MB a second on a core.
        """
        if not self.is_finished():
            return False
        try:
            with pq.ParquetFile(self.path, page_checksum_verification=True) as file:
                for _ in file.iter_batches(ROWS_READ_AT_ONCE):
                    pass
        except (pa.ArrowException, OSError) as reason:
            logger.warning("%s is damaged and made again: %s", self.path.name, reason)
            return False
        return True

    def write(self, kept: pa.Table, embeddings: Embeddings) -> None:
        """Write the kept columns of the input and the embeddings (len(shard), size), atomically."""
        size, names, metadata = embeddings.shape[1], kept.column_names, None
        column = pa.FixedSizeListArray.from_arrays(pa.array(embeddings.reshape(-1)), size)
        table = kept.append_column(COLUMN, column) if names else pa.table({COLUMN: column})
        if b"huggingface" in (kept.schema.metadata or {}):  # such as the names of classes
            features = Features.from_arrow_schema(kept.schema)
            features[COLUMN] = List(Value(embeddings.dtype.name), length=size)
            metadata = features.arrow_schema.metadata
        table = table.replace_schema_metadata(metadata)
        repeating = names or False  # embeddings do not repeat
        with atomic_write(self.path) as draft:
            pq.write_table(table, draft, use_dictionary=repeating, write_page_checksum=True)


def list_shards(folder: Path, num_rows: int, rows_per_shard: int) -> list[Shard]:
    """Return all shards of a corpus, finished or not; the last one may have fewer rows."""
    starts = range(0, num_rows, rows_per_shard)
    width = max(5, len(str(len(starts))))  # so that the names sort like the rows
    names = (f"embeddings-{n:0{width}}-of-{len(starts):0{width}}.parquet" for n in count())
    return [
        Shard(folder / name, start, min(start + rows_per_shard, num_rows))
        for name, start in zip(names, starts, strict=False)
    ]


def read_manifest(
    folder: Path,
    wanted: Mapping[str, Mapping[str, object]],
    way_out: str = "Give the same ones, or name another --output",
) -> Manifest | None:
    """Return the manifest of a folder, None if the folder holds no embeddings yet.

    Raises ValueError if the manifest is damaged, differs from a section that is wanted, or is
    missing beside embeddings.
    """
    path = folder / MANIFEST_NAME
    try:
        manifest: Manifest = json.loads(path.read_text(encoding="utf-8"))
        sections: dict[str, Any] = dict(manifest)
    except FileNotFoundError:
        if not any(folder.glob("embeddings-*.parquet")):
            return None
        reason = f"{folder} holds embeddings without {MANIFEST_NAME}"
        raise ValueError(f"{reason}; name another --output") from None
    except (TypeError, ValueError) as reason:
        raise ValueError(f"{path} is damaged: {reason}; name another --output") from reason
    differences = [
        f"{section}.{name} was {reprlib.repr(old)} and is {reprlib.repr(value)}"
        for section, values in wanted.items()
        for name, value in json.loads(json.dumps(values)).items()  # tuples become lists
        if (old := sections.get(section, {}).get(name)) != value
    ]
    if differences:
        raise ValueError(
            f"{folder} was begun with other settings: {'; '.join(differences)}. {way_out}"
        )
    return manifest


def write_manifest(folder: Path, manifest: Mapping[str, object]) -> None:
    """Write the manifest of a folder, whole or not at all, unless another process was first."""
    with atomic_write(folder / MANIFEST_NAME, is_first_kept=True) as draft:
        draft.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
