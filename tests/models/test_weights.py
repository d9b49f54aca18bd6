"""The weights: their number, how they start and come back, and which of them never move."""

import math
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file

from sase_hf import SelfAttentiveForNLI
from sase_hf.models.modeling_self_attentive import SelfAttentivePreTrainedModel

# Enough numbers in each matrix for the largest of them to come near its bound.
MANY = {"num_hops": 12, "num_labels": 6, "embedding_size": 12, "relation_hidden_size": 24}


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


@tiny.every_model(tiny.MODELS)
def test_loading_gives_back_what_was_saved(
    model_class: type, fields: dict[str, Any], tmp_path: Path
) -> None:
    """Bit by bit, also what it computes, which depends on the addresses of weights in memory."""
    model = tiny.tiny_model(model_class, **fields).to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    loaded = model_class.from_pretrained(tmp_path)
    assert (loaded.training, loaded.dtype) == (False, torch.bfloat16)
    assert loaded.state_dict().keys() == load_file(tmp_path / "model.safetensors").keys()
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight)
        assert loaded.state_dict()[name].data_ptr() % 64 == 0, "torch aligns new weights so"


@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_word_vectors_and_the_row_of_padding_stay_as_they_are(
    frozen: bool, tmp_path: Path
) -> None:
    """New and reloaded: no gradient, no step, no weight decay."""
    new = SelfAttentiveForNLI(tiny.tiny_config(freeze_embeddings=frozen))
    new.save_pretrained(tmp_path)
    words = list(range(1, tiny.VOCAB_SIZE))
    batch = tiny.pair_batch([(words, words[:count]) for count in range(1, 5)])
    batch["input_ids"][batch["attention_mask"] == 0] = 0
    for model in (new, SelfAttentiveForNLI.from_pretrained(tmp_path)):
        vectors = model.get_input_embeddings().weight
        before = vectors.detach().clone()
        model.train()(**batch).logits.square().sum().backward()
        torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1).step()
        assert torch.equal(vectors[1:], before[1:]) is frozen
        assert vectors[0].abs().max() == 0
        assert all(p.requires_grad for p in model.parameters() if p is not vectors)
