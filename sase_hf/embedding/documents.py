"""Documents that were embedded, read to be ranked for queries."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from ..models import unit_rows
from .embedder import Embedder
from .shards import COLUMN, list_shards, read_manifest


@dataclass(frozen=True)
class Documents:
    """D documents in memory.

    Attributes:
        rows: What scores compare, as `unit_rows` returns it, shape (D, r, H) or (D, 1, r * H).
        texts: The texts, None if the shards were written without them.
    """

    rows: Tensor
    texts: pa.ChunkedArray | None


def read_documents(folder: Path, embedder: Embedder, score_mode: str) -> Documents:
    """Read what `embed_corpus` wrote with the model of an embedder.

    Raises:
        ValueError: If it was another model, or shards are missing.
        OSError: If there is no such folder.
    """
    manifest = read_manifest(folder, {"model": embedder.identity})
    if manifest is None:
        raise FileNotFoundError(f"there are no embeddings in {folder}; make them by embed.py")
    settings = manifest["settings"]
    shards = list_shards(folder, manifest["rows"], settings["rows_per_shard"])
    if missing := [shard.path.name for shard in shards if not shard.is_finished()]:
        raise ValueError(f"{folder} lacks {missing[0]}; give the command of embed.py again")
    config = embedder.model.config
    rows = None
    texts: list[pa.ChunkedArray] = []
    for shard in shards:
        table = pq.read_table(shard.path)
        numbers = table[COLUMN].combine_chunks().flatten().to_numpy()
        part = unit_rows(torch.tensor(numbers).view(len(shard), -1), config, score_mode)
        if rows is None:
            rows = part.new_empty(manifest["rows"], *part.shape[1:])
        rows[shard.start : shard.stop] = part
        if settings["text_column_names"] in table.column_names:
            texts += table[settings["text_column_names"]].chunks
    assert rows is not None  # a corpus has rows
    return Documents(rows, pa.chunked_array(texts) if texts else None)
