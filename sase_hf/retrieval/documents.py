"""Embedded documents, and the checkpoint that ranks them for queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor
from transformers import pipeline

from ..embedding import Embedder
from ..embedding.shards import COLUMN, list_shards, read_manifest
from ..models import FAMILIES, unit_rows
from ..utils.loading import load_ranker
from .ranking import best_documents

QUERIES_AT_ONCE = 64


@dataclass(frozen=True)
class Ranking:
    """The documents that fit a query best, the best first, with their scores.

    `documents` are rows of the embedded corpus, from 0; `texts` is None if the corpus was embedded
    without its texts.
    """

    query: str
    documents: list[int]
    scores: list[float]
    texts: list[str] | None


class DocumentRanker:
    """A checkpoint with a sentence matrix, and the documents that it embedded, in memory.

    Args:
        checkpoint: A folder or a name on the Hub, of any head.
        folder: The output of `embed_corpus` with this checkpoint.
        score_mode: "rows" or "flat"; None for that of the checkpoint.

    Raises:
        ValueError: If another model embedded the documents, or shards are missing.
        OSError: If there is no such checkpoint or folder.
    """

    def __init__(self, checkpoint: str, folder: Path, score_mode: str | None = None) -> None:
        self.model, self.tokenizer = load_ranker(checkpoint)
        if score_mode is not None:
            self.model.config.score_mode = score_mode
        if (manifest := read_manifest(folder, {})) is None:
            raise FileNotFoundError(f"there are no embeddings in {folder}; make them by embed.py")
        self.max_seq_length: int | None = manifest["settings"]["max_seq_length"]
        self._embed = Embedder(checkpoint, max_seq_length=self.max_seq_length, device="cpu")
        read_manifest(folder, {"model": self._embed.identity})
        self._rows, self._texts = self._read(folder, manifest)

    def _read(self, folder: Path, manifest: dict[str, Any]) -> tuple[Tensor, Any]:
        """Return what scores compare, as `unit_rows` does, and the texts if there are any."""
        settings = manifest["settings"]
        shards = list_shards(folder, manifest["rows"], settings["rows_per_shard"])
        if missing := [shard.path.name for shard in shards if not shard.is_finished()]:
            raise ValueError(f"{folder} lacks {missing[0]}; give the command of embed.py again")
        rows, texts = None, []
        for shard in shards:
            table = pq.read_table(shard.path)
            part = self._unit_rows(table[COLUMN].combine_chunks().flatten().to_numpy(), len(shard))
            if rows is None:
                rows = part.new_empty(manifest["rows"], *part.shape[1:])
            rows[shard.start : shard.stop] = part
            if settings["text_column_names"] in table.column_names:
                texts += table[settings["text_column_names"]].chunks
        assert rows is not None  # a corpus has rows
        return rows, pa.chunked_array(texts) if texts else None

    def _unit_rows(self, embeddings: Any, count: int) -> Tensor:
        """Return embeddings as rows of length 1, shape (count, r, H) or (count, 1, r * H)."""
        config = self.model.config
        return unit_rows(torch.tensor(embeddings).view(count, -1), config, config.score_mode)

    def rank(self, queries: Sequence[str], top_k: int) -> list[Ranking]:
        """Return the best `top_k` documents of each query."""
        rows = self._unit_rows(self._embed(queries), len(queries))
        found = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            part = slice(start, start + QUERIES_AT_ONCE)
            best = best_documents(rows[part], self._rows, top_k)
            for query, scores, places in zip(queries[part], *best, strict=True):
                documents, texts = places.tolist(), None
                if self._texts is not None:
                    texts = [self._texts[place].as_py() for place in documents]
                found.append(Ranking(query, documents, scores.tolist(), texts))
        return found

    def explain(self, ranking: Ranking) -> Iterator[dict[str, Any]]:
        """Yield the pipeline's result for the pair of the query and each document with a text.

        A result holds the attention on both texts; its label is the document, with its score.
        """
        task: Any = FAMILIES[self.model.config.model_type].pipeline_task
        read = pipeline(task, model=self.model, tokenizer=self.tokenizer)
        limit = self.max_seq_length or self.tokenizer.model_max_length
        longest = limit + len(self.tokenizer(ranking.query).input_ids)  # cuts the document alone
        rows = zip(ranking.documents, ranking.scores, ranking.texts or [], strict=False)
        for place, score, text in rows:
            pair = {"text": ranking.query, "text_pair": text}
            label = f"document {place}"
            shown = {"label": label, "score": score, "scores": {label: score}}
            yield {**read(pair, max_length=longest), **shown}


__all__ = ["DocumentRanker", "Ranking"]
