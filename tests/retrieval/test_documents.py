"""Which embedded documents a checkpoint ranks."""

from pathlib import Path
from typing import Any

import pytest
from checkpoints import TEXTS, save_checkpoint
from rows import write_jsonl
from transformers import pipeline

from sase_hf.embedding import EmbeddingJob, embed_corpus
from sase_hf.retrieval.documents import DocumentRanker


def test_document_ranker_refuses_missing_shards_and_another_model(tmp_path: Path) -> None:
    """A ranking of incomplete documents, or by other vectors, would be wrong in silence."""
    own, other = (save_checkpoint(tmp_path / f"{hops}", num_hops=hops) for hops in (3, 2))
    rows, folder = write_jsonl(tmp_path / "r.jsonl", [{"text": t} for t in TEXTS]), tmp_path / "out"
    embed_corpus(EmbeddingJob(own, folder, (str(rows),), rows_per_shard=4))
    ranker = DocumentRanker(own, folder)
    [best] = ranker.rank([TEXTS[4]], top_k=1)
    assert (best.documents, best.texts) == ([4], [TEXTS[4]])
    [best] = ranker.rank([TEXTS[0]], top_k=9)
    task: Any = "self-attention"
    read = pipeline(task, model=ranker.model, tokenizer=ranker.tokenizer)
    hops = read([{"text": TEXTS[0], "text_pair": text} for text in best.texts or ()])
    shown = [result["attention"] for result in ranker.explain(best)]
    assert shown != [result["attention"] for result in hops], "but the rows that met"
    ranker.tokenizer.model_max_length = int(1e30)  # of a tokenizer without a limit
    assert len([*ranker.explain(best)]) == len(TEXTS)
    message = r"with other settings: model\.config_sha256 was .*\. Name the checkpoint that embed"
    with pytest.raises(ValueError, match=message):
        DocumentRanker(other, folder)
    (folder / "embeddings-00001-of-00002.parquet").unlink()
    with pytest.raises(ValueError, match=r"lacks embeddings-00001-of-00002\.parquet; give the c"):
        DocumentRanker(own, folder)
