"""The weights: their number, how they start and come back, and which of them never move."""

import math
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, SelfAttentiveModel
from sase_hf.models.modeling_self_attentive import SelfAttentivePreTrainedModel

HEADS = (SelfAttentiveForSequenceClassification, SelfAttentiveForNLI)
# Enough numbers in each matrix for the largest of them to come near its bound.
MANY = {"num_hops": 12, "num_labels": 6, "embedding_size": 12, "relation_hidden_size": 24}


def step(model: SelfAttentivePreTrainedModel) -> None:
    """Train once, with every id, padding beside the words, and weight decay on everything."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    words = list(range(1, tiny.VOCAB_SIZE))
    batch = tiny.pair_batch([(words, words[:count]) for count in range(1, 5)])
    batch["input_ids"][batch["attention_mask"] == 0] = 0
    outputs = model.train()(**batch)
    (outputs[0].square().sum() + outputs[1].square().sum()).backward()
    optimizer.step()


def assert_freshly_initialised(model: SelfAttentivePreTrainedModel, only: set[str]) -> None:
    """Check that the named weights are Glorot uniform, each matrix of a stack by its own sides."""
    for name, weight in model.named_parameters():
        if name not in only:
            continue
        if "bias" in name or name.startswith("linear_part"):
            assert weight.abs().max() == 0, name
        elif name.endswith("embeddings.weight"):
            assert weight[0].abs().max() == 0, "the row of padding"
            assert 0.5 < weight[1:].std() / model.config.initializer_range < 1.5, name
        else:  # every matrix of a stack has its own two sides
            bound = math.sqrt(6 / sum(weight.shape[-2:]))
            assert 0.8 * bound < weight.abs().max() <= bound, name


@tiny.every_model(tiny.OWN_MODELS)
def test_new_weights_and_those_of_other_shapes_start_glorot_uniform(
    model_class: type, fields: dict[str, Any], poisoned_memory: None
) -> None:
    """Every second weight of a state dict has another shape; at first it is bare memory."""
    fields = {**MANY, **fields}
    new = model_class(tiny.tiny_config(**fields))
    assert_freshly_initialised(new, set(dict(new.named_parameters())))
    saved = tiny.tiny_model(model_class, **fields)
    names = sorted(dict(saved.named_parameters()))
    for begun_anew in (set(names[::2]), set(names[1::2])):
        kept = {name: w for name, w in saved.state_dict().items() if name not in begun_anew}
        other_shapes = {name: torch.zeros(1, 2, 3, 4) for name in begun_anew}
        model = model_class.from_pretrained(
            None,
            config=saved.config,
            state_dict=kept | other_shapes,
            ignore_mismatched_sizes=True,
        )
        assert_freshly_initialised(model, begun_anew)
        for name, weight in kept.items():
            assert torch.equal(model.state_dict()[name], weight)


@pytest.mark.parametrize("head", HEADS)
def test_head_starts_from_a_base_model_and_gives_it_back(head: type, tmp_path: Path) -> None:
    """The weights of the encoder go both ways; the base model leaves the head's out unnoticed."""
    base = tiny.tiny_model(SelfAttentiveModel)
    base.save_pretrained(tmp_path / "base")
    model = head.from_pretrained(tmp_path / "base")
    model.save_pretrained(tmp_path / "head")
    again, loaded = SelfAttentiveModel.from_pretrained(tmp_path / "head", output_loading_info=True)
    assert not loaded["unexpected_keys"]
    for name, weight in base.state_dict().items():
        assert torch.equal(model.encoder.state_dict()[name], weight)
        assert torch.equal(again.state_dict()[name], weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@tiny.every_model(tiny.MODELS)
def test_loading_gives_back_what_was_saved(
    model_class: type, fields: dict[str, Any], dtype: torch.dtype, tmp_path: Path
) -> None:
    """Bit by bit, also what it computes, which depends on the addresses of weights in memory."""
    model = tiny.tiny_model(model_class, **fields).to(dtype)
    model.save_pretrained(tmp_path)
    modes = {(tmp_path / name).stat().st_mode for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1, "who may read the one may read the other"
    loaded = model_class.from_pretrained(tmp_path)
    assert (loaded.training, loaded.dtype) == (False, dtype)
    assert loaded.state_dict().keys() == load_file(tmp_path / "model.safetensors").keys()
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight)
        assert loaded.state_dict()[name].data_ptr() % 64 == 0, "torch aligns new weights so"


def word_vectors(model: SelfAttentivePreTrainedModel) -> nn.Parameter:
    return model.get_input_embeddings().weight


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("model_class", [SelfAttentiveModel, *HEADS])
def test_frozen_word_vectors_and_the_row_of_padding_stay_as_they_are(
    model_class: type, frozen: bool, tmp_path: Path
) -> None:
    """New and reloaded by class and by Auto class: no gradient, no step, no weight decay."""
    new = model_class(tiny.tiny_config(freeze_embeddings=frozen, num_labels=2))
    new.save_pretrained(tmp_path)
    auto = AutoModel if model_class is SelfAttentiveModel else AutoModelForSequenceClassification
    for model in (new, model_class.from_pretrained(tmp_path), auto.from_pretrained(tmp_path)):
        assert type(model) is model_class
        assert word_vectors(model).requires_grad is not frozen
        before = word_vectors(model).detach().clone()
        step(model)
        assert torch.equal(word_vectors(model)[1:], before[1:]) is frozen
        assert word_vectors(model)[0].abs().max() == 0
        assert all(p.requires_grad for p in model.parameters() if p is not word_vectors(model))


@pytest.mark.parametrize("new_size", [tiny.VOCAB_SIZE + 9, tiny.VOCAB_SIZE - 5])
@pytest.mark.parametrize(("model_class", "frozen"), [(SelfAttentiveModel, False), (HEADS[1], True)])
def test_the_vocabulary_can_be_resized_saved_and_loaded(
    model_class: type, frozen: bool, new_size: int, tmp_path: Path
) -> None:
    """Old words keep their vectors; frozen vectors and the row of padding stay so."""
    model = tiny.tiny_model(model_class, freeze_embeddings=frozen)
    kept = min(new_size, tiny.VOCAB_SIZE)
    before = word_vectors(model).detach().clone()
    model.resize_token_embeddings(new_size)
    assert model.config.vocab_size == new_size
    model.save_pretrained(tmp_path)
    loaded = model_class.from_pretrained(tmp_path)
    assert word_vectors(loaded).shape == (new_size, 6)
    assert torch.equal(word_vectors(loaded)[:kept], before[:kept])
    assert loaded.get_input_embeddings().padding_idx == 0
    assert word_vectors(loaded).requires_grad is word_vectors(model).requires_grad is not frozen
