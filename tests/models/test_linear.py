"""The linear part of a classifier: the reference's sums, and what it needs to be read."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import reference
import tiny
import torch

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
)

TEXTS = [[4, 9, 2, 17, 5], [3], [11, 5, 20, 6, 2, 7, 8], [2, 2, 2]]
PAIRS = [([4, 9, 2, 9, 5], [9, 3, 4, 9]), ([3], [3]), ([11, 5, 20], [2, 7])]
KINDS = ("words", "words_and_pairs")


def linear_model(
    kind: str = "words_and_pairs",
    head: type[Any] = SelfAttentiveForSequenceClassification,
    **fields: Any,
) -> Any:
    return tiny.tiny_model(
        head,
        linear_part=kind,
        num_labels=3,
        **{"problem_type": "single_label_classification", **fields},
    )


def added_by(model: Any, texts: list[tiny.Ids]) -> torch.Tensor:
    """Return what the linear part of a model of texts adds to the logits of each text."""
    return model.linear_part(**tiny.text_batch(texts), token_type_ids=None)


def assert_is_reference(
    model: Any, batch: dict[str, torch.Tensor], classify: Callable[..., Any], rows: list[Any]
) -> None:
    """Compare logits and gradients with those of the loops."""
    weights = tiny.reference_weights(model)
    predictions = [classify(model.config, weights, *row) for row in rows]
    labels = [0, 2, 1, 1][: len(rows)]
    outputs = model(**batch, labels=torch.tensor(labels))
    outputs.loss.backward()
    reference.loss(model.config, predictions, labels).backward()
    tiny.assert_agree(outputs.logits, torch.stack([logits for logits, _ in predictions]))
    tiny.assert_gradients_agree(model, weights)


@pytest.mark.parametrize("padding", tiny.PADDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_model_with_a_linear_part_is_the_reference(kind: str, padding: str) -> None:
    """With pairs of neighbours across holes of padding."""
    batch = tiny.text_batch(TEXTS, padding, random.Random(1), extra=2)
    rows = [(text,) for text in TEXTS]
    assert_is_reference(linear_model(kind).double(), batch, reference.classify_text, rows)


@pytest.mark.parametrize("padding", tiny.PADDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_model_of_pairs_with_a_linear_part_is_the_reference(kind: str, padding: str) -> None:
    """Words of both texts, of one, and twice in one."""
    model = linear_model(kind, SelfAttentiveForNLI).double()
    batch = tiny.pair_batch(PAIRS, padding, random.Random(1), extra=2)
    assert_is_reference(model, batch, reference.classify_pair, PAIRS)


def test_linear_part_of_a_new_model_adds_nothing() -> None:
    with_part = SelfAttentiveForSequenceClassification(tiny.tiny_config(linear_part="words"))
    added = added_by(with_part, TEXTS)
    assert torch.equal(added, torch.zeros(len(TEXTS), 2))


def test_linear_part_adds_nothing_to_an_empty_text() -> None:
    assert not added_by(linear_model(), [[4, 9], []])[1].any()


def test_model_with_a_linear_part_refuses_word_vectors_in_place_of_ids() -> None:
    model = linear_model()
    vectors = torch.zeros(2, 3, model.config.embedding_size)
    with pytest.raises(AttributeError):
        model(inputs_embeds=vectors)


def test_linear_part_keeps_its_weights_when_the_vocabulary_grows() -> None:
    """New words weigh nothing, so the old texts keep their answers; lost words are lost here."""
    model = linear_model()
    batch = tiny.text_batch(TEXTS)
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


def test_linear_part_of_other_words_than_the_encoder_is_refused() -> None:
    model = linear_model()
    model.encoder.resize_token_embeddings(tiny.VOCAB_SIZE + 2)
    with pytest.raises(IndexError, match="out of range"):
        model(torch.tensor([[tiny.VOCAB_SIZE + 1]]))
    model = linear_model(head=SelfAttentiveForNLI)
    model.encoder.resize_token_embeddings(tiny.VOCAB_SIZE + 2)
    with pytest.raises(RuntimeError, match="out of bounds"):
        model(**tiny.pair_batch([([3], [tiny.VOCAB_SIZE + 1])]))


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft reads it
def test_linear_part_reads_words_beside_adapted_word_vectors() -> None:
    """An adapter wraps the word vectors, and changes no word that the linear part weighs."""
    model = linear_model()
    config = peft.LoraConfig(r=2, target_modules=["embeddings"], init_lora_weights=False)
    adapted = peft.get_peft_model(model, config).eval()
    batch = tiny.text_batch(TEXTS)
    logits = adapted(**batch).logits
    merged = adapted.merge_and_unload()
    torch.testing.assert_close(logits, merged(**batch).logits)
