"""A corpus for tests, its embeddings one text at a time, and the files of a run."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from checkpoints import TEXTS
from transformers import AutoModel, AutoTokenizer

from sase_hf.embedding import EmbeddingJob, embed_corpus

ROWS_PER_SHARD = 7
NUM_ROWS = 31
NUM_SHARDS = 5
Row = dict[str, Any]


def make_corpus() -> list[Row]:
    """Return texts of very unequal lengths in no order; some are empty or have no known word."""
    rng = random.Random(0)
    words = " ".join(TEXTS).split()
    texts = [" ".join(rng.choices(words, k=rng.choice([0, 1, 2, 9, 30]))) for _ in range(NUM_ROWS)]
    texts[3], texts[4] = "", "zzz unheard of"
    return [{"id": number, "text": text} for number, text in enumerate(texts)]


def one_by_one(checkpoint: str, texts: Sequence[str]) -> np.ndarray:
    """Return the embeddings that a reader of the README gets, one text at a time."""
    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint)
    model: Any = AutoModel.from_pretrained(checkpoint).eval()
    with torch.no_grad():
        rows = [model(**tokenizer([text], return_tensors="pt")) for text in texts]
    return torch.cat([row.sentence_embedding for row in rows]).numpy()


def write_parquet(path: Path, rows: Sequence[Row], **options: Any) -> str:
    pq.write_table(pa.Table.from_pylist(list(rows)), path, **{"row_group_size": 4, **options})
    return str(path)


def embed(checkpoint: str, file: str | Sequence[str], output: Path, **settings: Any) -> pa.Table:
    """Embed files in this process; return all shards as one table, in the order of their names.

    The precision is float32, whatever is faster on the machine of the test.
    """
    files = (file,) if isinstance(file, str) else tuple(file)
    defaults = {"inputs": files, "rows_per_shard": ROWS_PER_SHARD, "precision": "float32"}
    embed_corpus(EmbeddingJob(checkpoint, output, **{**defaults, **settings}))
    return pa.concat_tables([pq.read_table(path) for path in shard_files(output)])


def shard_files(output: Path) -> list[Path]:
    return sorted(output.glob("embeddings-*.parquet"))


def contents(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(output.iterdir())}


def embeddings_of(table: pa.Table) -> np.ndarray:
    return np.array(table["embedding"].to_pylist())
