"""The retrieval head: scores by rows and flat, in-batch negatives, the words that met."""

import random
from pathlib import Path
from typing import Any

import pytest
import reference
import tiny
import torch
from transformers import AutoModel, AutoModelForSequenceClassification

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForRetrieval

PAIRS = [([1, 2, 3], [4, 5, 6, 7]), ([8, 9], [10, 11, 12]), ([13], [14, 15, 1])]


@pytest.mark.parametrize("padding", tiny.PADDINGS)
@pytest.mark.parametrize("pooling", ["self_attention", "generalized", "mean"])
@pytest.mark.parametrize("score_mode", ["rows", "flat"])
def test_retrieval_head_is_the_reference(score_mode: str, pooling: str, padding: str) -> None:
    """Scores of all pairs, of the own pairs, loss and every gradient."""
    rng = random.Random(f"{score_mode} {pooling} {padding}")
    fields = {"score_mode": score_mode, "pooling": pooling, "score_temperature": 0.3}
    model = tiny.tiny_model(SelfAttentiveForRetrieval, penalty_coef=0.7, **fields)
    weights = tiny.reference_weights(model)
    outputs = model(**tiny.pair_batch(PAIRS, padding, rng, extra=2), return_loss=True)
    outputs.loss.backward()
    scores, loss = reference.rank(model.config, weights, PAIRS)
    loss.backward()
    tiny.assert_agree(outputs.logits, scores.diagonal().unsqueeze(1))
    embeddings = outputs.query_embedding, outputs.document_embedding
    tiny.assert_agree(model.score(*embeddings), scores)
    tiny.assert_agree(outputs.loss, loss)
    tiny.assert_gradients_agree(model, weights)


def test_retrieval_head_shows_the_document_row_that_each_query_row_met() -> None:
    """Row i of the second attention is that of the document row nearest to query row i."""
    model = tiny.tiny_model(SelfAttentiveForRetrieval)
    batch = tiny.pair_batch(PAIRS[:1])
    outputs = model(**batch, output_attentions=True)
    plain = tiny.tiny_model(SelfAttentiveForNLI)
    plain.encoder.load_state_dict(model.encoder.state_dict())
    query, document = plain(**batch, output_attentions=True).attentions[0][0]
    q, d = (
        one.view(3, -1).double() for one in (outputs.query_embedding, outputs.document_embedding)
    )
    nearest = [
        max(range(3), key=lambda j: torch.cosine_similarity(q[i], d[j], 0)) for i in range(3)
    ]
    assert nearest != [0, 1, 2], "the premise: rows meet others than their own"
    assert torch.equal(outputs.attentions[0][0, 0], query)
    assert torch.equal(outputs.attentions[0][0, 1], document[nearest])
    model.config.score_mode = "flat"  # each row meets its own
    assert torch.equal(model(**batch, output_attentions=True).attentions[0][0, 1], document)


@pytest.mark.parametrize(
    "pair", [([1], [2] * 4000), ([], [2, 3]), ([1], [])], ids=lambda p: str(len(p[1]))
)
def test_retrieval_head_reads_texts_of_any_length(pair: tuple[tiny.Ids, tiny.Ids]) -> None:
    """An empty text is like nothing: its score is 0."""
    batch = tiny.pair_batch([pair, PAIRS[0]])
    outputs = tiny.tiny_model(SelfAttentiveForRetrieval)(**batch, return_loss=True)
    assert outputs.loss.isfinite()
    assert (outputs.logits[0].item() == 0) is (not all(pair))


def test_retrieval_head_loads_from_its_own_and_any_other_checkpoint(tmp_path: Path) -> None:
    """As a head with one output; the base model, which embeds, by AutoModel."""
    tiny.tiny_model(SelfAttentiveForNLI, num_labels=3).save_pretrained(tmp_path / "nli")
    model = SelfAttentiveForRetrieval.from_pretrained(tmp_path / "nli").eval()
    assert model.config.id2label == {0: "score"}
    model.save_pretrained(tmp_path / "ranker")
    loaded: Any = AutoModelForSequenceClassification.from_pretrained(tmp_path / "ranker")
    assert type(loaded) is SelfAttentiveForRetrieval
    batch = tiny.pair_batch(PAIRS)
    expected = model(**batch)
    assert torch.equal(loaded(**batch).logits, expected.logits)
    texts = tiny.text_batch([query for query, _ in PAIRS])
    embedding = AutoModel.from_pretrained(tmp_path / "ranker")(**texts).sentence_embedding
    torch.testing.assert_close(embedding, expected.query_embedding, rtol=1e-5, atol=1e-6)
