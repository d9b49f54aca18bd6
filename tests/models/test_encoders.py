"""The encoders: LSTMs that are exactly one BiLSTM, what a state reads, and what it costs."""

import platform
import random
import subprocess
import sys
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor, nn

from sase_hf import (
    SelfAttentiveConfig,
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
)
from sase_hf.models.self_attentive import (
    encoders_self_attentive,
    packing_self_attentive,
    relation_network_self_attentive,
)
from sase_hf.models.self_attentive.encoders_self_attentive import BiLSTMEncoder, DilatedCNNEncoder
from sase_hf.models.self_attentive.packing_self_attentive import Packing
from sase_hf.models.self_attentive.relation_network_self_attentive import (
    PairFunction,
    groups_of_like_length,
)


def _torch_bilstm(encoder: BiLSTMEncoder, width: int, units: int) -> nn.LSTM:
    """Return torch's own bidirectional LSTM with the weights of an encoder."""
    lstm = nn.LSTM(width, units, len(encoder.layers), batch_first=True, bidirectional=True)
    with torch.no_grad():
        for number, layer in enumerate(encoder.layers):
            for name, weight in layer.forward_lstm.named_parameters():
                getattr(lstm, name.replace("l0", f"l{number}")).copy_(weight)
            for name, weight in layer.backward_lstm.named_parameters():
                getattr(lstm, name.replace("l0", f"l{number}_reverse")).copy_(weight)
    return lstm


def _packed(lstm: nn.LSTM, x: Tensor, lengths: Tensor) -> Tensor:
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    unpacked, _ = nn.utils.rnn.pad_packed_sequence(
        lstm(packed)[0], batch_first=True, total_length=x.shape[1]
    )
    return unpacked


@pytest.mark.parametrize("cost", [*tiny.COSTS, 3])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_bilstm_states_and_gradients_equal_torchs_packed_lstm(
    monkeypatch: pytest.MonkeyPatch, num_layers: int, cost: int
) -> None:
    """`pack_padded_sequence` is the known exact way; the encoder must lose nothing against it."""
    monkeypatch.setattr(packing_self_attentive, "CALL_IN_TOKENS", cost)
    encoder = BiLSTMEncoder(tiny.tiny_config(num_lstm_layers=num_layers))
    lstm = _torch_bilstm(encoder, width=6, units=4)
    lengths = torch.tensor([9, 1, 4, 6, 4])
    packing = Packing(torch.arange(9) < lengths.unsqueeze(1))
    x = torch.randn(5, 9, 6)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()

    states = packing.restore(packing.unpack(encoder(packing.pack(ours), packing)[-1]))
    expected = _packed(lstm, theirs, lengths)
    torch.testing.assert_close(states, expected, **tiny.TOLERANCE)

    probe = torch.randn_like(states)
    (states * probe).sum().backward()
    (expected * probe).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, **tiny.TOLERANCE)
    for number, layer in enumerate(encoder.layers):
        for suffix, half in (("", layer.forward_lstm), ("_reverse", layer.backward_lstm)):
            for name, weight in half.named_parameters():
                packed_weight = getattr(lstm, name.replace("l0", f"l{number}{suffix}"))
                torch.testing.assert_close(weight.grad, packed_weight.grad, **tiny.TOLERANCE)


@pytest.mark.parametrize("encoder", tiny.ENCODERS, ids=tiny.name_of)
def test_encoders_never_read_padding(encoder: dict[str, Any]) -> None:
    """NaN on padding, the strictest neighbour, must leave every real token's state finite."""
    model = tiny.tiny_model(SelfAttentiveModel, **{**encoder, "num_lstm_layers": 2})
    embeds = torch.randn(5, 5, 6).masked_fill(~tiny.MASK.unsqueeze(-1), float("nan"))
    outputs = model(inputs_embeds=embeds, attention_mask=tiny.MASK, output_attentions=True)
    for tensor in (outputs.last_hidden_state, outputs.sentence_embedding, outputs.attentions[0]):
        assert tensor.isfinite().all()


# Convolutions


@pytest.mark.parametrize(("size", "num_layers"), [(3, 4), (2, 3), (4, 2), (1, 2), (5, 1)])
def test_dilated_cnn_reads_as_far_as_the_formula(size: int, num_layers: int) -> None:
    """1 + (k - 1) (2^L - 1) tokens, an even k one step farther ahead; 15 each way by default.

    Nothing cancels where all numbers are positive, so a gradient of zero is a token not read.
    """
    sizes = {"dilated_cnn_kernel_size": size, "dilated_cnn_num_layers": num_layers}
    encoder = DilatedCNNEncoder(tiny.tiny_config(encoder="dilated_cnn", **sizes))
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.uniform_(0.01, 0.1)
    x = torch.rand(41, 6, requires_grad=True)
    encoder(x, Packing(torch.ones(1, 41).bool()))[-1][20].sum().backward()
    steps = 2**num_layers - 1
    read = range(20 - (size - 1) // 2 * steps, 20 + size // 2 * steps + 1)
    assert len(read) == 1 + (size - 1) * steps
    assert x.grad.any(1).nonzero().flatten().tolist() == list(read)


def test_dilated_cnn_defaults_read_15_tokens_each_way() -> None:
    """The premise of the formula's example: these are the sizes that a new model has."""
    config = SelfAttentiveConfig(encoder="dilated_cnn")
    assert (config.dilated_cnn_kernel_size, config.dilated_cnn_num_layers) == (3, 4)


# The relation network


def test_groups_of_like_length_waste_little_padding() -> None:
    """By hand: 8 has the share of 10 that is allowed and 7 has not; an empty one takes a token."""
    lengths = [10, 8, 7, 5, 4, 1, 0]
    assert groups_of_like_length(lengths, 99) == [(2, 10), (1, 7), (2, 5), (1, 1), (1, 1)]


def test_groups_of_like_length_are_bounded() -> None:
    """Many long texts in a batch must not take more memory than the blocks of one."""
    assert groups_of_like_length([10] * 5, 20) == [(2, 10), (2, 10), (1, 10)]
    assert groups_of_like_length([10] * 2, 3) == [(1, 10), (1, 10)]


@pytest.mark.parametrize("gate", [False, True])
def test_relation_network_blocks_change_no_state_and_no_gradient(
    monkeypatch: pytest.MonkeyPatch, gate: bool
) -> None:
    """Blocks bound the memory and nothing else: same states, same gradients, with and without."""
    model = tiny.tiny_model(SelfAttentiveModel, encoder="relation_network", relation_gate=gate)
    embeds, probe = torch.randn(5, 5, 6, requires_grad=True), torch.randn(5, 5, 8)
    asked: list[int] = []
    relate = PairFunction.relate

    def noted(self: PairFunction, *inputs: Tensor) -> Tensor:
        asked.append(inputs[1].shape[1])
        return relate(self, *inputs)

    monkeypatch.setattr(PairFunction, "relate", noted)
    outcomes = []
    # 100 numbers are room for two tokens of the longest sentence that ask five partners each.
    for block_size in (2**22, 100, 1):
        monkeypatch.setattr(relation_network_self_attentive, "BLOCK_SIZE", block_size)
        model.zero_grad()
        embeds.grad = None
        asked.clear()
        states = model(inputs_embeds=embeds, attention_mask=tiny.MASK).last_hidden_state
        assert max(asked) == {2**22: 5, 100: 2, 1: 1}[block_size]
        with torch.no_grad():
            alone = model(inputs_embeds=embeds, attention_mask=tiny.MASK).last_hidden_state
        torch.testing.assert_close(states, alone, rtol=0, atol=0)
        (states * probe).sum().backward()
        gradients = [p.grad for p in model.token_encoder.parameters()]
        outcomes.append([states, embeds.grad, *gradients])
    assert len(outcomes[0]) == 2 + (8 if gate else 5)
    for outcome in outcomes[1:]:
        torch.testing.assert_close(outcome, outcomes[0], **tiny.TOLERANCE)


@pytest.mark.parametrize("is_trained", [False, True])
def test_relation_network_blocks_keep_autocast_and_frozen_weights(
    monkeypatch: pytest.MonkeyPatch, is_trained: bool
) -> None:
    """The gradient makes pairs again in the precision they had, as near to float32 as that is."""
    model = tiny.tiny_model(SelfAttentiveModel, encoder="relation_network", relation_gate=True)
    pair = model.token_encoder.pair
    pair.output.requires_grad_(is_trained)
    embeds, outcomes = torch.randn(5, 5, 6), []
    for block_size, is_bfloat16 in ((2**22, False), (100, True)):
        monkeypatch.setattr(relation_network_self_attentive, "BLOCK_SIZE", block_size)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, is_bfloat16):
            states = model(inputs_embeds=embeds, attention_mask=tiny.MASK).last_hidden_state
        states.float().square().sum().backward()
        gradients = {name: p.grad for name, p in pair.named_parameters() if p.grad is not None}
        assert len(gradients) == (8 if is_trained else 6)
        outcomes.append(gradients)
    for name, exact in outcomes[0].items():
        assert (outcomes[1][name] - exact).abs().max() < 0.02 * exact.abs().max(), name


LONG_TEXT = """
import resource, torch
from sase_hf import SelfAttentiveConfig, SelfAttentiveModel
config = SelfAttentiveConfig(vocab_size=9, encoder="relation_network", pooling="max")
model = SelfAttentiveModel(config).train()
ids = torch.arange(1000).remainder(9).unsqueeze(0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model(ids).sentence_embedding.sum().backward()
assert model.token_encoder.pair.first.weight.grad.any()
print(config.hidden_size, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="memory is measured with glibc")
def test_relation_network_trains_on_a_thousand_tokens_without_a_tensor_of_all_pairs() -> None:
    """The million pairs take 512 MB in each tensor that holds them all, and a gradient needs four.

    What training adds to the process is less than one of them; all of it is less than 2 GB.
    """
    done = subprocess.run([sys.executable, "-c", LONG_TEXT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    width, before, after = map(int, done.stdout.split())  # memory in KiB
    pairs = 1000 * 1000 * width * 4 / 1024
    assert after - before < pairs
    assert after < 2 * 2**20


# Gradient checkpointing


def _gradients(
    model: nn.Module, batch: dict[str, Tensor], labels: Tensor
) -> dict[str, Tensor | None]:
    model.zero_grad()
    model(**batch, labels=labels).loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def _enable_checkpointing(model: nn.Module, options: dict[str, bool] | None) -> None:
    # Its name up to transformers 5.22 was `gradient_checkpointing_enable`.
    names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
    next(getattr(model, name) for name in names if hasattr(model, name))(options)


def _assert_same_gradients(
    actual: dict[str, Tensor | None], expected: dict[str, Tensor | None], frozen: bool
) -> None:
    """Compare all gradients; only frozen word vectors have none."""
    assert [name for name, gradient in expected.items() if gradient is None] == (
        ["encoder.embeddings.weight"] if frozen else []
    )
    for name, gradient in expected.items():
        if gradient is None:
            assert actual[name] is None
        else:
            torch.testing.assert_close(actual[name], gradient, rtol=0, atol=1e-7)


@pytest.mark.parametrize("options", [None, {"use_reentrant": True}])
@pytest.mark.parametrize("freeze_embeddings", [False, True])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize(
    "model_class", [SelfAttentiveForSequenceClassification, SelfAttentiveForNLI]
)
def test_gradient_checkpointing_gives_the_same_gradients(
    monkeypatch: pytest.MonkeyPatch,
    model_class: type,
    num_layers: int,
    freeze_embeddings: bool,
    options: dict[str, bool] | None,
) -> None:
    """It trades time for memory and nothing else: a few steps at a time are run once more."""
    monkeypatch.setattr(encoders_self_attentive, "CHECKPOINTED_STEPS", 3)
    model = tiny.tiny_model(
        model_class,
        num_lstm_layers=num_layers,
        num_labels=3,
        freeze_embeddings=freeze_embeddings,
    ).train()
    rng = random.Random(0)
    batch = tiny.pair_batch([tiny.random_pair(rng) for _ in range(3)], "holed", rng, extra=2)
    labels = torch.tensor([0, 1, 2])
    plain = _gradients(model, batch, labels)

    runs: list[int] = []
    read = nn.LSTM.forward
    monkeypatch.setattr(nn.LSTM, "forward", lambda *args: runs.append(len(args[1])) or read(*args))
    _enable_checkpointing(model, options)
    checkpointed = _gradients(model, batch, labels)

    sides = model_class is SelfAttentiveForNLI
    real = batch["attention_mask"].bool()
    lengths = [(real & (batch["token_type_ids"] == side)).sum(1) for side in (0, 1)]
    steps = int(torch.cat(lengths).max() if sides else sum(lengths).max())
    assert max(runs) <= 3, "a few steps at a time"
    assert sum(runs) > 1.5 * 2 * num_layers * steps, "the premise is that they were run twice"
    _assert_same_gradients(checkpointed, plain, freeze_embeddings)


@pytest.mark.parametrize("options", [None, {"use_reentrant": True}])
@pytest.mark.parametrize("freeze_embeddings", [False, True])
@pytest.mark.parametrize(
    ("encoder", "block_size"),
    [("cnn", 0), ("dilated_cnn", 0), ("relation_network", 2**22), ("relation_network", 1)],
)
def test_gradient_checkpointing_of_the_other_encoders(
    monkeypatch: pytest.MonkeyPatch,
    encoder: str,
    block_size: int,
    freeze_embeddings: bool,
    options: dict[str, bool] | None,
) -> None:
    """All their layers but projections are run twice; blocks of pairs are so anyway, once each."""
    monkeypatch.setattr(relation_network_self_attentive, "BLOCK_SIZE", block_size)
    fields = {"encoder": encoder, "freeze_embeddings": freeze_embeddings}
    model = tiny.tiny_model(SelfAttentiveForSequenceClassification, **fields).train()
    runs: list[nn.Module] = []
    for name, module in model.encoder.token_encoder.named_modules():
        is_once = name in ("projection", "pair.first", "pair.second")  # for a token, not a pair
        if isinstance(module, nn.Linear) and not is_once:
            module.register_forward_hook(lambda module, *_: runs.append(module))
    batch = tiny.text_batch([[1, 2, 3], [4, 5, 6, 7]], "holed", extra=2)
    plain = _gradients(model, batch, torch.tensor([0, 1]))
    plain_runs = len(runs)
    _enable_checkpointing(model, options)
    checkpointed = _gradients(model, batch, torch.tensor([0, 1]))
    assert len(runs) - plain_runs == plain_runs * (1 if block_size == 1 else 2) > 0
    _assert_same_gradients(checkpointed, plain, freeze_embeddings)
