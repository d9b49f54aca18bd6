"""Texts to embeddings, by batches of columns; embedded documents, ranked for queries."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import torch
from datasets import Dataset
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..data.batching import batches_by_length
from ..data.columns import TextArguments, find_columns, training_rows_of
from ..data.table import holds_texts, table
from ..models import row_scores, unit_rows
from ..models.checkpoint import readable
from ..utils.files import FilePath, check_readable
from ..utils.loading import (
    attention_pipeline,
    load,
    load_config,
    load_encoder,
    retrieval_head,
    to_device,
)
from ..utils.text import refusal

COLUMN = "embedding"
# On a CPU larger batches do not fit the caches, smaller ones call the LSTM more often. A GPU is
# faster with more.
DEFAULT_BATCH_TOKENS = 4_096
PRECISIONS = {"float32": torch.float32, "bf16": torch.bfloat16}


class Embedder:
    """The base model of a checkpoint, which adds the column `embedding` to batches of columns.

    `Dataset.map(Embedder(checkpoint), batched=True)` of `datasets` calls it, and `map_batches` of
    Ray Data, which makes one in each worker.

    The model computes in the `precision` "float32" or "bf16", by default on an accelerator if there
    is one, and reads at most `batch_tokens` tokens at once, padding included. ValueError: the
    checkpoint cannot be used.
    """

    def __init__(
        self,
        checkpoint: FilePath,
        *,
        text_column_names: str = "text",
        precision: str = "float32",
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        device: str | None = None,
    ) -> None:
        self.model, self.tokenizer = load_encoder(checkpoint)
        self.text_column_names = text_column_names
        self.batch_tokens = batch_tokens
        weights = hashlib.sha256()
        for _, weight in sorted(self.model.state_dict().items()):
            weights.update(weight.contiguous().numpy())
        self.model_sha256 = weights.hexdigest()
        torch.nn.Module.to(self.model, PRECISIONS[precision])
        to_device(self.model, device)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of a batch, and the embeddings of its texts."""
        return {**batch, COLUMN: self.embed(list(batch[self.text_column_names]))}

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return the embeddings of texts, in their order, shape (texts, width)."""
        embeddings = torch.empty(len(texts), self.model.config.projection_dim)
        if not texts:  # which a tokenizer refuses
            return embeddings.numpy()
        limit = self.model.config.max_tokens
        rows = self.tokenizer(list(map(readable, texts)), verbose=False)["input_ids"]
        ids = [torch.tensor(row[:limit], dtype=torch.int32) for row in rows]
        for batch in batches_by_length(list(map(len, ids)), self.batch_tokens):
            padded = pad_sequence([ids[row] for row in batch], batch_first=True, padding_value=-1)
            padded = padded.to(self.model.device)
            output = self.model(input_ids=padded.clamp(min=0), attention_mask=padded >= 0)
            embeddings[batch] = output.sentence_embedding.float().cpu()
        return embeddings.numpy()


def open_rows(
    file: str, names: list[str] | None = None, checkpoint: FilePath | None = None
) -> tuple[Dataset, str]:
    """Return the rows of a file, mapped from the disk, and the column of texts.

    Without a name in `names` it is the one that a checkpoint was trained on, else that which
    `find_columns` finds. Raises ValueError if there is none, or a row has no text, or another kind
    of value; an empty text is one.
    """
    rows = table(file)
    arguments = TextArguments(text_column_names=names)
    record = training_rows_of(checkpoint)
    if len(record.get("text_column_names", ())) > 1:
        record = {}
    [column], _ = find_columns(
        file, rows, arguments, labelled=False, record=record, may_differ=True
    )
    if not (rows.num_rows and holds_texts(rows, column)) or rows.data[column].null_count:
        raise refusal(
            f"{file} has no rows, or no column {column!r} with a text in each",
            f"choose one of {', '.join(map(repr, rows.column_names))} with --text_column_names, or "
            "leave out the rows without a text",
        )
    return rows, column


# ---- rank documents for queries, and measure the rank of the right one ---------------------------
# Shapes: Q queries, D documents, r rows of width H, or one of width r * H for flat scores. Both
# sides are as `unit_rows` returns them. Documents of equal scores stay in their order.


MAX_COSINES = 2**24  # between rows, in memory at once: 64 MiB
BLOCK = 64  # queries whose scores are in memory at once


def best_documents(queries: Tensor, documents: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Return scores and numbers (Q, min(top_k, D)) of the documents, the best of a query first."""
    found = [
        (scores[:, :top_k], places[:, :top_k]) for scores, places in _sorted(queries, documents)
    ]
    scores, places = map(torch.cat, zip(*found, strict=True))
    return scores, places


def ranks_of_own(queries: Tensor, documents: Tensor) -> Tensor:
    """Return the rank, from 1, of document i among all documents for query i, shape (Q,)."""
    numbers = torch.arange(len(queries)).unsqueeze(1).split(BLOCK)
    blocks = zip(_sorted(queries, documents), numbers, strict=True)
    return torch.cat([1 + (places == own).nonzero()[:, 1] for (_, places), own in blocks])


def _sorted(queries: Tensor, documents: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield scores and numbers (BLOCK, D) of the documents, for some queries at once.

    There are as many documents at once as there is memory for.
    """
    size = max(MAX_COSINES // (BLOCK * queries.shape[1] * documents.shape[1]), 1)
    for block in queries.split(BLOCK):
        scores = torch.cat([row_scores(block, part) for part in documents.split(size)], 1)
        yield scores.sort(dim=1, descending=True, stable=True)


def ranking_metrics(ranks: Tensor) -> dict[str, float]:
    """Return the mean reciprocal rank and the share of queries with a rank up to 1 and up to 10."""
    reciprocal_ranks = 1 / ranks.sort().values.double()  # rounded alike in any order
    metrics = {"mrr": reciprocal_ranks.mean().item()}
    for k in (1, 10):
        metrics[f"recall_at_{k}"] = (ranks <= k).double().mean().item()
    return metrics


# ---- embedded documents, and the checkpoint that ranks them --------------------------------------


# What the schema of an embedded file says: the weights of the model, and the column of the texts.
MODEL_KEY, TEXT_KEY = b"sase_hf.model_sha256", b"sase_hf.text_column"


def facts_of(embedder: Embedder) -> dict[bytes, bytes]:
    """Return what the schema of an embedded file says of the embedder."""
    return {
        MODEL_KEY: embedder.model_sha256.encode(),
        TEXT_KEY: embedder.text_column_names.encode(),
    }


class Ranking(NamedTuple):
    """The best documents of a query, the best first: rows of the embedded file, from 0."""

    query: str
    documents: list[int]
    scores: list[float]
    texts: list[str]


class DocumentRanker:
    """A checkpoint of any head with a sentence matrix, and the documents that it embedded.

    The documents are a file that `sase_hf embed` wrote with this checkpoint, read into memory.

    Raises ValueError if another model embedded the documents.
    """

    model: Any  # a ranker

    def __init__(self, checkpoint: FilePath, file: Path) -> None:
        config = load_config(checkpoint)
        self.model, self.tokenizer = load(retrieval_head(checkpoint, config), checkpoint, config)
        self._embedder = Embedder(checkpoint)
        check_readable(file)
        table = pq.read_table(file)
        facts = table.schema.metadata or {}
        if facts.get(MODEL_KEY) != facts_of(self._embedder)[MODEL_KEY]:
            raise refusal(
                f"{file} does not hold embeddings by the weights of {checkpoint}",
                "name the checkpoint that embedded the documents, or embed them by sase_hf embed",
            )
        values = torch.tensor(table[COLUMN].combine_chunks().flatten().to_numpy())
        embeddings = values.view(len(table), -1)
        self._rows = unit_rows(embeddings, self.model.config)
        self._texts = table[facts[TEXT_KEY].decode()]

    def rank(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """Return the best `top_k` documents of each query."""
        rows = unit_rows(torch.from_numpy(self._embedder.embed(queries)), self.model.config)
        best = (numbers.tolist() for numbers in best_documents(rows, self._rows, top_k))
        return [
            Ranking(query, places, scores, self._texts.take(places).to_pylist())
            for query, scores, places in zip(queries, *best, strict=True)
        ]

    def explain(self, ranking: Ranking) -> Iterator[dict[str, object]]:
        """Yield the pipeline's result for the pair of the query and each of its documents.

        A result holds the attention on both texts; its label is the document, with its score.
        """
        read = attention_pipeline(self.model, self.tokenizer)
        for place, score, text in zip(*ranking[1:], strict=True):
            result = read({"text": ranking.query, "text_pair": text}, match_rows=True)
            label = f"document {place}"
            answer = {"kind": "similarity", "label": label, "score": score}
            yield {**result, **answer, "scores": {label: score}}
