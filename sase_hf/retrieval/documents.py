"""Embedded documents, and the checkpoint that ranks them for queries."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import torch
from torch import Tensor

from ..models import unit_rows
from ..models.configuration_self_attentive import SelfAttentiveConfig
from ..utils.errors import refusal
from ..utils.files import check_readable
from ..utils.loading import attention_pipeline, load_ranker
from .embed import COLUMN, Embedder
from .ranking import best_documents

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

    The documents are a file that `sase_hf embed` wrote with this checkpoint, read into memory. The
    `score_mode` is "rows" or "flat", by default that of the checkpoint.

    Raises ValueError if another model embedded the documents.
    """

    def __init__(self, checkpoint: str, file: Path, score_mode: str | None = None) -> None:
        self.model, self.tokenizer = load_ranker(checkpoint)
        self.model.config.score_mode = score_mode or self.model.config.score_mode
        self._embedder = Embedder(checkpoint)
        check_readable(file)
        table = pq.read_table(file)
        facts = table.schema.metadata or {}
        if facts.get(MODEL_KEY) != facts_of(self._embedder)[MODEL_KEY]:
            raise refusal(
                f"{file} does not hold embeddings by the weights of {checkpoint}",
                "name the checkpoint that embedded the documents, or embed them by sase_hf embed",
            )
        embeddings = table[COLUMN].combine_chunks().flatten().to_numpy()
        self._rows = self._unit_rows(torch.tensor(embeddings).view(len(table), -1))
        self._texts = table[facts[TEXT_KEY].decode()]

    def _unit_rows(self, embeddings: Tensor) -> Tensor:
        """Return embeddings as rows of length 1, shape (count, r, H) or (count, 1, r * H)."""
        config = self.model.config
        assert isinstance(config, SelfAttentiveConfig)  # as that of every model that ranks
        return unit_rows(embeddings, config)

    def rank(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """Return the best `top_k` documents of each query."""
        rows = self._unit_rows(torch.from_numpy(self._embedder.embed(queries)))
        found = []
        best = best_documents(rows, self._rows, top_k)
        for query, scores, places in zip(queries, *best, strict=True):
            texts = self._texts.take(places.numpy()).to_pylist()
            found.append(Ranking(query, places.tolist(), scores.tolist(), texts))
        return found

    def explain(self, ranking: Ranking) -> Iterator[dict[str, object]]:
        """Yield the pipeline's result for the pair of the query and each of its documents.

        A result holds the attention on both texts; its label is the document, with its score.
        """
        read = attention_pipeline(self.model, self.tokenizer)
        _, *of_documents = ranking
        for place, score, text in zip(*of_documents, strict=True):
            result = read({"text": ranking.query, "text_pair": text}, match_rows=True)
            label = f"document {place}"
            answer = {"kind": "similarity", "label": label, "score": score}
            yield {**result, **answer, "scores": {label: score}}
