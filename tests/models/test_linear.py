"""The linear part of a classifier: with another vocabulary, and where a config leaves it out."""

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from sase_hf import SelfAttentiveForSequenceClassification


def linear_model() -> Any:
    fields = {"linear_part": "words_and_pairs", "num_labels": 3}
    return tiny.tiny_model(SelfAttentiveForSequenceClassification, **fields)


def test_linear_part_keeps_its_weights_when_the_vocabulary_grows() -> None:
    """New words weigh nothing, so the old texts keep their answers; lost words are lost here."""
    model = linear_model()
    batch = tiny.text_batch([[4, 9, 2, 17, 5], [2, 2, 2]])
    before = model(**batch).logits
    model.resize_token_embeddings(tiny.VOCAB_SIZE + 2)
    assert torch.equal(model(**batch).logits, before)
    assert not model.linear_part.word_weight[:, tiny.VOCAB_SIZE :].any()
    model.resize_token_embeddings(10)
    assert model.linear_part.word_weight.shape == (1, 10, 3)


def test_checkpoint_with_a_linear_part_is_not_loaded_without_it(tmp_path: Path) -> None:
    """The answers would be others, and nothing would say so."""
    linear_model().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="linear_part"):
        SelfAttentiveForSequenceClassification.from_pretrained(tmp_path, linear_part="none")
