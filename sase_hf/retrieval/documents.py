"""Embedded documents, and the checkpoint that ranks them for queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import torch
from torch import Tensor

from ..models import unit_rows
from ..models.configuration_self_attentive import SelfAttentiveConfig
from ..utils.errors import refusal
from ..utils.files import check_readable
from ..utils.loading import attention_pipeline, load_ranker
from .embed import COLUMN, MODEL_KEY, TEXT_KEY, Embedder
from .ranking import best_documents


@dataclass(frozen=True)
class Ranking:
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
        self._embed = Embedder(checkpoint, device="cpu")
        check_readable(file)
        table = pq.read_table(file)
        facts = table.schema.metadata or {}
        if facts.get(MODEL_KEY) != self._embed.model_sha256.encode():
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

    def rank(self, queries: Sequence[str], top_k: int, block: int = 64) -> list[Ranking]:
        """Return the best `top_k` documents of each query; `block` queries are ranked at once."""
        rows = self._unit_rows(torch.from_numpy(self._embed.embed(queries)))
        found = []
        for start in range(0, len(queries), block):
            part = slice(start, start + block)
            best = best_documents(rows[part], self._rows, top_k)
            for query, scores, places in zip(queries[part], *best, strict=True):
                documents = places.tolist()
                texts = [self._texts[place].as_py() for place in documents]
                found.append(Ranking(query, documents, scores.tolist(), texts))
        return found

    def explain(self, ranking: Ranking) -> Iterator[dict[str, object]]:
        """Yield the pipeline's result for the pair of the query and each of its documents.

        A result holds the attention on both texts; its label is the document, with its score.
        """
        read = attention_pipeline(self.model, self.tokenizer)
        for place, score, text in zip(
            ranking.documents, ranking.scores, ranking.texts, strict=True
        ):
            pair = {"text": ranking.query, "text_pair": text}
            result = read(pair, match_rows=True)
            label = f"document {place}"
            scores = {
                "kind": "similarity",
                "label": label,
                "score": score,
                "scores": {label: score},
            }
            yield {**result, **scores}
