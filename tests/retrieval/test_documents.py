"""Which embedded documents a checkpoint ranks."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from checkpoints import TEXTS, change_weights, save_checkpoint
from rows import write_jsonl
from tiny import BERT, ON_BERT, tiny_model
from tokenizers.processors import TemplateProcessing
from transformers import pipeline

from sase_hf import SelfAttentiveForRetrieval, build_tokenizer
from sase_hf.commands import embed
from sase_hf.commands.predict import predict
from sase_hf.data.tokenizer import with_texts_apart
from sase_hf.retrieval.embed import DocumentRanker


def embed_texts(checkpoint: str, folder: Path) -> Path:
    rows, output = (
        write_jsonl(folder / "r.jsonl", [{"text": t} for t in TEXTS]),
        folder / "e.parquet",
    )
    embed.main([checkpoint, str(rows), "--output", str(output), "--precision", "float32"])
    return output


def test_document_ranker_refuses_another_model(tmp_path: Path) -> None:
    """A ranking by other vectors would be wrong in silence."""
    own, other = save_checkpoint(tmp_path / "own"), save_checkpoint(tmp_path / "other")
    change_weights(Path(other), lambda weights: weights["encoder.embeddings.weight"].mul_(2))
    documents = embed_texts(own, tmp_path)
    ranker = DocumentRanker(own, documents)
    [best] = ranker.rank([TEXTS[4]], top_k=1)
    assert (best.documents, best.texts) == ([4], [TEXTS[4]])
    plain = tmp_path / "plain.parquet"
    pq.write_table(pq.read_table(documents).replace_schema_metadata(None), plain)
    for checkpoint, file in ((other, documents), (own, plain)):
        with pytest.raises(
            ValueError, match=r"not hold embeddings by the weights .*; name the che"
        ):
            DocumentRanker(checkpoint, file)


# What tokenizers put around a pair of texts: with token types as BERT, without as RoBERTa.
PAIRS_WITH_MARKS = ["[CLS] $A [SEP] $B:1 [SEP]:1", "[CLS] $A [SEP] [SEP] $B [SEP]"]


def save_ranker_with_marks(folder: Path, pair: str) -> str:
    """Save a ranker on an encoder of transformers, which reads 9 tokens of a text."""
    tokenizer = build_tokenizer(TEXTS)
    tokenizer.add_special_tokens({"cls_token": "[CLS]", "sep_token": "[SEP]"})
    marks = [(mark, tokenizer.convert_tokens_to_ids(mark)) for mark in ("[CLS]", "[SEP]")]
    processor = TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=marks)
    backend: Any = tokenizer.backend_tokenizer
    backend.post_processor = processor
    tokenizer = with_texts_apart(tokenizer)
    encoder = {**ON_BERT, "encoder_config": {**BERT, "vocab_size": len(tokenizer)}}
    model = tiny_model(
        SelfAttentiveForRetrieval, vocab_size=len(tokenizer), max_tokens=9, **encoder
    )
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
    ranker = DocumentRanker(checkpoint, embed_texts(checkpoint, tmp_path))
    [best] = ranker.rank([TEXTS[0]], top_k=9)
    assert max(best.scores) - min(best.scores) > 0.1, "the premise: they differ"
    given = [{"text": TEXTS[0], "text_pair": text} for text in best.texts or ()]
    reader: Any = pipeline("self-attention", model=checkpoint)
    read = reader(given)
    scores = [
        [result["score"] for result in read],
        [result["score"] for result in pipeline("text-classification", model=checkpoint)(given)],
    ]
    predicted = predict(ranker.model, ranker.tokenizer, given)
    scores.append([answer["predicted_score"] for answer in predicted])
    for found in scores:
        assert found == pytest.approx(best.scores, abs=1e-5)
    shown = [*ranker.explain(best)]
    assert [result["tokens"] for result in shown] == [result["tokens"] for result in read]
    for result in shown:
        assert sum(map(sum, result["attention"][1])) > 1, "the document is read"
