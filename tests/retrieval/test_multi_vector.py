"""Rankers as a `MultiVectorEncoder` of sentence-transformers."""

from pathlib import Path
from typing import Any

import pytest
import sentence_transformers.multi_vector_encoder as late
import torch
from checkpoints import TEXTS
from tiny import tiny_model

from sase_hf import SelfAttentiveForRetrieval, build_tokenizer
from sase_hf.models.modeling_self_attentive import row_scores, unit_rows

ASKED = [*TEXTS, "", "zebra"]
TOKENIZER = build_tokenizer(TEXTS)


def save_ranker(folder: Path, **fields: Any) -> Any:
    fields["vocab_size"] = len(TOKENIZER)
    tiny_model(SelfAttentiveForRetrieval, **fields).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return late.MultiVectorEncoder(str(folder), device="cpu", trust_remote_code=True)


def assert_scores_are_those_by_rows(encoder: Any, folder: Path) -> None:
    """Compare with `score` times r, each text embedded by itself."""
    model = SelfAttentiveForRetrieval.from_pretrained(folder)
    batches = [TOKENIZER(text, return_tensors="pt") for text in ASKED]
    with torch.no_grad():
        rows = torch.cat([model.encoder(**batch).sentence_embedding for batch in batches])
    model.config.score_mode = "rows"
    vectors = unit_rows(rows, model.config)
    expected = row_scores(vectors, vectors) * model.config.num_rows
    documents = encoder.encode_document(ASKED, batch_size=3)
    assert {len(vectors) for vectors in documents} == {model.config.num_rows}
    scores = encoder.similarity(encoder.encode_query(ASKED), documents)
    torch.testing.assert_close(scores, expected, rtol=0, atol=3e-6)


@pytest.mark.parametrize("fields", [{}, {"score_mode": "flat"}, {"pooling": "max"}], ids=str)
def test_multi_vector_encoder_gives_the_scores_by_rows(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    encoder = save_ranker(tmp_path, **fields)
    assert encoder.get_embedding_dimension() == encoder.encode(["soup"])[0].shape[1]
    assert_scores_are_those_by_rows(encoder, tmp_path)
