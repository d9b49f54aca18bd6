"""Which embedded documents a checkpoint ranks."""

from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import TEXTS, save_checkpoint
from rows import write_jsonl
from tiny import BERT, ON_BERT, tiny_model
from tokenizers.processors import TemplateProcessing
from transformers import pipeline

from sase_hf import SelfAttentiveForRetrieval, build_tokenizer
from sase_hf.commands.predict import predict
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


# What tokenizers put around a pair of texts: with token types as BERT, without as RoBERTa.
PAIRS_WITH_MARKS = ["[CLS] $A [SEP] $B:1 [SEP]:1", "[CLS] $A [SEP] [SEP] $B [SEP]"]


def save_ranker_with_marks(folder: Path, pair: str) -> str:
    """Save a ranker on an encoder of transformers, whose texts are cut at 9 tokens."""
    tokenizer = build_tokenizer(TEXTS, model_max_length=9)
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]"})
    marks = [(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in ("[CLS]", "[SEP]")]
    processor = TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=marks)
    backend: Any = tokenizer.backend_tokenizer
    backend.post_processor = processor
    encoder = {**ON_BERT, "encoder_config": {**BERT, "vocab_size": len(tokenizer)}}
    model = tiny_model(SelfAttentiveForRetrieval, vocab_size=len(tokenizer), **encoder)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "LayerNorm" in name:  # random ones would make all texts alike
                parameter.fill_(1.0 if name.endswith("weight") else 0.0)
    for trained in (model, tokenizer):
        trained.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("pair", PAIRS_WITH_MARKS)
def test_document_ranker_with_special_tokens_scores_as_the_pipelines(
    tmp_path: Path, pair: str
) -> None:
    """A document is embedded alone: a pair that is cut and marked as one has another score."""
    checkpoint = save_ranker_with_marks(tmp_path / "ranker", pair)
    rows, folder = write_jsonl(tmp_path / "r.jsonl", [{"text": t} for t in TEXTS]), tmp_path / "out"
    embed_corpus(EmbeddingJob(checkpoint, folder, (str(rows),), precision="float32"))
    ranker = DocumentRanker(checkpoint, folder)
    [best] = ranker.rank([TEXTS[0]], top_k=9)
    assert max(best.scores) - min(best.scores) > 0.1, "the premise: they differ"
    given = [{"text": TEXTS[0], "text_pair": text} for text in best.texts or ()]
    reader: Any = pipeline("self-attention", model=checkpoint)
    read = reader(given)
    scores = [
        [result["score"] for result in read],
        [result["score"] for result in pipeline("text-classification", model=checkpoint)(given)],
    ]
    lines = [f"{TEXTS[0]}\t{text}" for text in best.texts or ()]
    predicted = predict(ranker.model, ranker.tokenizer, [lines])
    scores.append([row["predicted_score"] for row in predicted])
    for found in scores:
        assert found == pytest.approx(best.scores, abs=1e-5)
    shown = [*ranker.explain(best)]
    assert [result["tokens"] for result in shown] == [result["tokens"] for result in read]
    for result in shown:
        assert sum(map(sum, result["attention"][1])) > 1, "the document is read"
