"""Embedded documents, and the checkpoint that ranks them for queries."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import torch

from ..models import unit_rows
from ..utils.errors import refusal
from ..utils.files import check_readable
from ..utils.loading import attention_pipeline, load_ranker
from .embed import COLUMN, Embedder, best_documents

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

    def __init__(self, checkpoint: str, file: Path) -> None:
        self.model, self.tokenizer = load_ranker(checkpoint)
        self._config: Any = self.model.config
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
        self._rows = unit_rows(embeddings, self._config)  # type: ignore[arg-type]
        self._texts = table[facts[TEXT_KEY].decode()]

    def rank(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """Return the best `top_k` documents of each query."""
        rows = unit_rows(torch.from_numpy(self._embedder.embed(queries)), self._config)
        found = []
        scores, places = (best.tolist() for best in best_documents(rows, self._rows, top_k))
        for query, own_places, own_scores in zip(queries, places, scores, strict=True):
            texts = self._texts.take(own_places).to_pylist()
            found.append(Ranking(query, own_places, own_scores, texts))
        return found

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
