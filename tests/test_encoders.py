"""The encoder: padding moved out of the way, and two one-way LSTMs that are exactly one BiLSTM."""

import random

import pytest
import tiny
import torch
from torch import Tensor, nn

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    encoders_self_attentive,
)
from sase_hf.encoders_self_attentive import BiLSTMEncoder, Packing, dense_blocks

# Prices of a call: at 0 every ended sentence begins a block, at the other there is only one.
COSTS = (0, 10**6)

# Rows: full, right-padded, left-padded, holed, empty.
MASK = torch.tensor(
    [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]]
).bool()


def test_a_block_ends_where_the_padding_saved_pays_for_another_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By hand: going on from length 1 to 4 reads 3 positions of padding, and to 9 another 15."""
    lengths = [9, 4, 4, 1, 0]
    expected = {
        0: [(1, 4), (3, 3), (5, 1)],
        17: [(4, 4), (5, 1)],
        18: [(9, 4)],
    }
    for cost, blocks in expected.items():
        monkeypatch.setattr(encoders_self_attentive, "CALL_IN_TOKENS", cost)
        assert dense_blocks(lengths) == blocks


def test_blocks_cover_every_token_and_little_more() -> None:
    """Padding that is read costs at most a call for each block; the rest is real tokens."""
    rng = random.Random(0)
    for _ in range(200):
        lengths = sorted((rng.randrange(400) for _ in range(rng.randint(1, 70))), reverse=True)
        blocks = dense_blocks(lengths)
        read = [rows for steps, rows in blocks for _ in range(steps)]
        assert len(read) == max(lengths[0], 1)
        assert all(
            rows >= sum(length > step for length in lengths) for step, rows in enumerate(read)
        )
        wasted = sum(read) - sum(lengths)
        assert wasted <= encoders_self_attentive.CALL_IN_TOKENS * len(blocks)


@pytest.mark.parametrize("cost", COSTS)
def test_packing_reads_all_sentences_step_by_step_longest_first(
    monkeypatch: pytest.MonkeyPatch, cost: int
) -> None:
    """The order in which an LSTM can read them as dense blocks; ended sentences drop out."""
    monkeypatch.setattr(encoders_self_attentive, "CALL_IN_TOKENS", cost)
    x = torch.arange(25).view(5, 5, 1)
    packing = Packing(MASK)
    packed = packing.pack(x).flatten().tolist()
    if cost == 0:
        assert packing.blocks == [(2, 4), (1, 3), (2, 1)]
        assert packed == [0, 12, 16, 5, 1, 13, 18, 6, 2, 14, 19, 3, 4]
    else:  # sentences that have ended repeat their last token
        assert packing.blocks == [(5, 4)]
        expected = [[0, 12, 16, 5], [1, 13, 18, 6], [2, 14, 19, 6], [3, 14, 19, 6], [4, 14, 19, 6]]
        assert packed == [token for step in expected for token in step]


@pytest.mark.parametrize("cost", COSTS)
def test_unpacking_aligns_to_the_left_and_restoring_puts_every_token_back(
    monkeypatch: pytest.MonkeyPatch, cost: int
) -> None:
    """Callers get their tokens back where they put them, with zeros on padding."""
    monkeypatch.setattr(encoders_self_attentive, "CALL_IN_TOKENS", cost)
    x = torch.randn(5, 5, 3)
    packing = Packing(MASK)
    rows = packing.unpack(packing.pack(x))
    assert packing.real.tolist() == [[n > s for s in range(5)] for n in (5, 2, 3, 3, 0)]
    for aligned, row, real in zip(rows, x, MASK, strict=True):
        assert torch.equal(aligned[: real.sum()], row[real])
    assert torch.equal(packing.restore(rows), x * MASK.unsqueeze(-1))


@pytest.mark.parametrize("cost", COSTS)
def test_the_mirror_turns_each_sentence_within_its_own_length(
    monkeypatch: pytest.MonkeyPatch, cost: int
) -> None:
    """The backward LSTM must start at the last word and not in the padding behind it."""
    monkeypatch.setattr(encoders_self_attentive, "CALL_IN_TOKENS", cost)
    x = torch.randn(5, 5, 2)
    packing = Packing(MASK)
    mirrored = packing.unpack(packing.pack(x)[packing.mirror])
    for turned, row, real in zip(mirrored, x, MASK, strict=True):
        assert torch.equal(turned[: real.sum()], row[real].flip(0))


def test_rows_are_as_long_as_the_longest_text() -> None:
    """Padding shared by all rows costs no step of the LSTM."""
    packing = Packing(MASK[1:4])
    assert packing.real.shape == (3, 3)
    assert sum(steps for steps, _ in packing.blocks) == 3


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


@pytest.mark.parametrize("cost", [*COSTS, 3])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_states_and_gradients_equal_torchs_packed_bilstm(
    monkeypatch: pytest.MonkeyPatch, num_layers: int, cost: int
) -> None:
    """`pack_padded_sequence` is the known exact way; the encoder must lose nothing against it."""
    monkeypatch.setattr(encoders_self_attentive, "CALL_IN_TOKENS", cost)
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


def test_a_poisoned_padding_vector_reaches_no_state() -> None:
    """NaN on padding, the strictest neighbour, must leave every real token's state finite."""
    model = tiny.tiny_model(SelfAttentiveModel, num_lstm_layers=2)
    embeds = torch.randn(5, 5, 6).masked_fill(~MASK.unsqueeze(-1), float("nan"))
    outputs = model(inputs_embeds=embeds, attention_mask=MASK, output_attentions=True)
    for tensor in (outputs.last_hidden_state, outputs.sentence_embedding, outputs.attentions[0]):
        assert tensor.isfinite().all()


def _gradients(
    model: nn.Module, batch: dict[str, Tensor], labels: Tensor
) -> dict[str, Tensor | None]:
    model.zero_grad()
    model(**batch, labels=labels).loss.backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


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
    # Its name up to transformers 5.22 was `gradient_checkpointing_enable`.
    names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
    next(getattr(model, name) for name in names if hasattr(model, name))(options)
    checkpointed = _gradients(model, batch, labels)

    sides = model_class is SelfAttentiveForNLI
    real = batch["attention_mask"].bool()
    lengths = [(real & (batch["token_type_ids"] == side)).sum(1) for side in (0, 1)]
    steps = int(torch.cat(lengths).max() if sides else sum(lengths).max())
    assert max(runs) <= 3, "a few steps at a time"
    assert sum(runs) > 1.5 * 2 * num_layers * steps, "the premise is that they were run twice"
    assert plain.keys() == checkpointed.keys()
    for name, gradient in plain.items():
        if gradient is None:
            assert freeze_embeddings
            assert name == "encoder.embeddings.weight"
        else:
            torch.testing.assert_close(checkpointed[name], gradient, rtol=0, atol=1e-7)
