"""Embedded documents, and the checkpoint that ranks them for queries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from ..data.tokenizer import truncation
from ..embedding import Embedder
from ..embedding.embedder import Embeddings
from ..embedding.shards import COLUMN, list_shards, read_manifest
from ..models import unit_rows
from ..models.configuration_self_attentive import SelfAttentiveConfig
from ..models.text_limit import reads_apart
from ..utils.loading import attention_pipeline, load_ranker
from .ranking import best_documents


@dataclass(frozen=True)
class Ranking:
    """The best documents of a query, the best first: rows of the embedded corpus, from 0.

    `texts` is None if the corpus was embedded without its texts.
    """

    query: str
    documents: list[int]
    scores: list[float]
    texts: list[str] | None


class DocumentRanker:
    """A checkpoint of any head with a sentence matrix, and the documents that it embedded.

    The documents are the output of `embed_corpus` with this checkpoint, read into memory. The
    `score_mode` is "rows" or "flat", by default that of the checkpoint.

    Raises ValueError if another model embedded the documents, or shards are missing.
    """

    def __init__(self, checkpoint: str, folder: Path, score_mode: str | None = None) -> None:
        self.model, self.tokenizer = load_ranker(checkpoint)
        self.folder = folder
        self.model.config.score_mode = score_mode or self.model.config.score_mode
        if (manifest := read_manifest(folder, {})) is None:
            raise FileNotFoundError(f"there are no embeddings in {folder}; make them with embed.py")
        settings = manifest["settings"]
        self.max_seq_length: int | None = settings["max_seq_length"]
        self._embed = Embedder(checkpoint, max_seq_length=self.max_seq_length, device="cpu")
        way_out = "Name the checkpoint that embedded the documents, or embed them anew by embed.py"
        read_manifest(folder, {"model": self._embed.identity}, way_out)
        shards = list_shards(folder, manifest["rows"], settings["rows_per_shard"])
        if missing := [shard.path.name for shard in shards if not shard.is_finished()]:
            raise ValueError(f"{folder} lacks {missing[0]}; give the command of embed.py again")
        rows, texts = [], []
        for shard in shards:
            table = pq.read_table(shard.path)
            embeddings = table[COLUMN].combine_chunks().flatten().to_numpy()
            rows.append(self._unit_rows(embeddings, len(shard)))
            if settings["text_column_names"] in table.column_names:
                texts += table[settings["text_column_names"]].chunks
        self._rows = torch.cat(rows)
        self._texts = pa.chunked_array(texts) if texts else None

    def _unit_rows(self, embeddings: Embeddings, count: int) -> Tensor:
        """Return embeddings as rows of length 1, shape (count, r, H) or (count, 1, r * H)."""
        config = self.model.config
        assert isinstance(config, SelfAttentiveConfig)  # as that of every model that ranks
        return unit_rows(torch.tensor(embeddings).view(count, -1), config)

    def rank(self, queries: Sequence[str], top_k: int, block: int = 64) -> list[Ranking]:
        """Return the best `top_k` documents of each query; `block` queries are ranked at once."""
        rows = self._unit_rows(self._embed(queries), len(queries))
        found = []
        for start in range(0, len(queries), block):
            part = slice(start, start + block)
            best = best_documents(rows[part], self._rows, top_k)
            for query, scores, places in zip(queries[part], *best, strict=True):
                documents, texts = places.tolist(), None
                if self._texts is not None:  # `take` would join all chunks
                    texts = [self._texts[place].as_py() for place in documents]
                found.append(Ranking(query, documents, scores.tolist(), texts))
        return found

    def explain(self, ranking: Ranking) -> Iterator[dict[str, object]]:
        """Yield the pipeline's result for the pair of the query and each of its documents.

        A result holds the attention on both texts; its label is the document, with its score.
        Raises ValueError if the documents were embedded without their texts.
        """
        if ranking.texts is None:
            raise ValueError(f"{self.folder} holds no texts; make it again without --keep_columns")
        read = attention_pipeline(self.model, self.tokenizer)
        cut = truncation(self.tokenizer, self.max_seq_length)
        if cut and not reads_apart(self.model, self.tokenizer):  # the document alone
            cut["max_length"] += len(self.tokenizer(ranking.query).input_ids)
        for place, score, text in zip(
            ranking.documents, ranking.scores, ranking.texts, strict=True
        ):
            pair = {"text": ranking.query, "text_pair": text}
            result = read(pair, match_rows=True, **cut)
            label = f"document {place}"
            scores = {
                "kind": "similarity",
                "label": label,
                "score": score,
                "scores": {label: score},
            }
            yield {**result, **scores}
