"""The encoders: padding, pairs of tokens, memory and gradient checkpointing."""

import random
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor, nn

from sase_hf import SelfAttentiveForNLI, SelfAttentiveModel
from sase_hf.models import relation_network_self_attentive
from sase_hf.models.layers_self_attentive import BiLSTMLayer, _in_one_piece
from sase_hf.models.relation_network_self_attentive import PairFunction


def test_weights_in_one_piece_are_equal() -> None:
    """Only a GPU reads them so: all biases behind all matrices."""
    forward, backward = BiLSTMLayer(3, 2).all_weights
    parts = _in_one_piece(forward, backward)
    torch.testing.assert_close(parts, forward + backward)
    assert parts[2].storage_offset() == 80


@pytest.mark.parametrize("window", [None, 1])
@pytest.mark.parametrize("relation_weights", ["none", "sigmoid", "softmax"])
def test_relation_network_blocks_change_no_state_and_no_gradient(
    monkeypatch: pytest.MonkeyPatch, relation_weights: str, window: int | None
) -> None:
    """Blocks bound the memory: of 400 numbers, two tokens of five texts ask five partners each."""
    monkeypatch.setattr(relation_network_self_attentive, "SMALLEST_BLOCK", 5)
    fields = {"relation_weights": relation_weights, "relation_window": window}
    model = tiny.tiny_model(SelfAttentiveModel, encoder="relation_network", **fields)
    embeds, probe = torch.randn(5, 5, 6, requires_grad=True), torch.randn(5, 5, 8)
    asked = []
    relate = PairFunction.forward
    monkeypatch.setattr(
        PairFunction,
        "forward",
        lambda self, mask, *inputs: asked.append(mask.shape[1]) or relate(self, mask, *inputs),
    )
    outcomes = []
    for block_size, most in ((2**22, 5), (400, 2), (1, 1)):
        monkeypatch.setattr(relation_network_self_attentive, "BLOCK_SIZE", block_size)
        model.zero_grad()
        embeds.grad = None
        asked.clear()
        states = model(inputs_embeds=embeds, attention_mask=tiny.MASK).last_hidden_state
        assert max(asked) == most
        (states * probe).sum().backward()
        gradients = [p.grad for p in model.token_encoder.parameters()]
        outcomes.append([states, embeds.grad, *gradients])
    for outcome in outcomes[1:]:
        torch.testing.assert_close(outcome, outcomes[0], **tiny.TOLERANCE)


def _gradients(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    model.zero_grad()
    model(**batch, labels=torch.tensor([0, 1, 1])).loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize(
    ("options", "freeze_embeddings"), [(None, True), ({"use_reentrant": True}, False)]
)
@pytest.mark.parametrize(
    ("encoder", "block_size"),
    [
        ({"encoder": "bilstm", "num_lstm_layers": 2}, 0),
        ({"encoder": "cnn"}, 0),
        ({"encoder": "relation_network"}, 2**22),
        ({"encoder": "relation_network"}, 1),
    ],
    ids=str,
)
def test_gradient_checkpointing_runs_layers_twice_for_the_same_gradients(
    monkeypatch: pytest.MonkeyPatch,
    encoder: dict[str, Any],
    block_size: int,
    freeze_embeddings: bool,
    options: dict[str, bool] | None,
) -> None:
    """Blocks of pairs are recomputed with or without it."""
    monkeypatch.setattr(relation_network_self_attentive, "BLOCK_SIZE", block_size)
    fields = {"freeze_embeddings": freeze_embeddings, **encoder}
    model = tiny.tiny_model(SelfAttentiveForNLI, **fields).train()
    steps = []
    read = torch.lstm
    monkeypatch.setattr(torch, "lstm", lambda *x, **way: steps.append(len(x[0])) or read(*x, **way))
    for name, module in model.encoder.token_encoder.named_modules():
        is_once = name in ("projection", "pair.first", "pair.second")  # for a token, not a pair
        if isinstance(module, nn.Linear) and not is_once:
            module.register_forward_hook(lambda module, inputs, _: steps.append(len(inputs[0])))
    rng = random.Random(0)
    batch = tiny.pair_batch(tiny.random_pairs(rng, 3), "holed", rng, extra=2)
    plain = _gradients(model, batch)
    steps_once = sum(steps)
    steps.clear()
    # Its name up to transformers 5.22 was `gradient_checkpointing_enable`.
    enable = getattr(model, "activation_checkpointing_enable", None)
    (enable or model.gradient_checkpointing_enable)(options)
    checkpointed = _gradients(model, batch)

    assert sum(steps) == steps_once * (1 if block_size == 1 else 2)
    assert steps
    torch.testing.assert_close(checkpointed, plain, rtol=1e-4, atol=1e-7)
