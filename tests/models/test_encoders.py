"""The encoders: padding, pairs of tokens, memory and gradient checkpointing."""

import random

import pytest
import tiny
import torch
from torch import Tensor, nn

from sase_hf import SelfAttentiveForNLI, SelfAttentiveModel
from sase_hf.models import layers_self_attentive, relation_network_self_attentive


@pytest.mark.parametrize("window", [None, 1])
@pytest.mark.parametrize("relation_weights", ["sigmoid", "softmax"])
def test_relation_network_blocks_change_no_state_and_no_gradient(
    monkeypatch: pytest.MonkeyPatch, relation_weights: str, window: int | None
) -> None:
    """Blocks bound the memory: 400 numbers are two tokens of five texts with five partners."""
    monkeypatch.setattr(relation_network_self_attentive, "SMALLEST_BLOCK", 5)
    fields = {"relation_weights": relation_weights, "relation_window": window}
    model = tiny.tiny_model(SelfAttentiveModel, encoder="relation_network", **fields)
    embeds, probe = torch.randn(5, 5, 6, requires_grad=True), torch.randn(5, 5, 8)
    outcomes = []
    for block_size in (2**22, 400, 1):
        monkeypatch.setattr(relation_network_self_attentive, "BLOCK_SIZE", block_size)
        model.zero_grad()
        embeds.grad = None
        states = model(inputs_embeds=embeds, attention_mask=tiny.MASK).last_hidden_state
        (states * probe).sum().backward()
        gradients = [p.grad for p in model.token_encoder.parameters()]
        outcomes.append([states, embeds.grad, *gradients])
    for outcome in outcomes[1:]:
        torch.testing.assert_close(outcome, outcomes[0], **tiny.TOLERANCE)


def _gradients(model: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    model.zero_grad()
    model(**batch, labels=torch.tensor([0, 1, 1])).loss.backward()
    return {name: p.grad for name, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "relation_network"])
def test_gradient_checkpointing_runs_layers_twice_for_the_same_gradients(
    monkeypatch: pytest.MonkeyPatch, encoder: str
) -> None:
    monkeypatch.setattr(layers_self_attentive, "CHECKPOINTED_STEPS", 3)
    model = tiny.tiny_model(SelfAttentiveForNLI, encoder=encoder, num_lstm_layers=2).train()
    runs: list[nn.Module] = []
    read = nn.LSTM.forward
    monkeypatch.setattr(nn.LSTM, "forward", lambda *args: runs.append(args[0]) or read(*args))
    for module in model.encoder.token_encoder.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda module, *_: runs.append(module))
    rng = random.Random(0)
    batch = tiny.pair_batch([tiny.random_pair(rng) for _ in range(3)], "holed", rng, extra=2)
    plain, runs_once = _gradients(model, batch), len(runs)
    # Its name up to transformers 5.22 was `gradient_checkpointing_enable`.
    names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
    next(getattr(model, name) for name in names if hasattr(model, name))()
    runs.clear()
    checkpointed = _gradients(model, batch)
    assert len(runs) > runs_once
    torch.testing.assert_close(checkpointed, plain, rtol=1e-4, atol=1e-7)
