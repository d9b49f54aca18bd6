"""The encoder: padding moved out of the way, and two one-way LSTMs that are exactly one BiLSTM."""

import random

import pytest
import tiny
import torch
from torch import Tensor, nn

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, SelfAttentiveModel
from sase_hf.encoders_self_attentive import Alignment, BiLSTMEncoder, BiLSTMLayer, take_tokens

# Rows: full, right-padded, left-padded, holed, empty.
MASK = torch.tensor(
    [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]]
).bool()


def test_alignment_moves_real_tokens_to_the_left_in_their_order() -> None:
    """After it every kind of padding is right padding, the one case the layers know."""
    positions = torch.arange(5.0).expand(5, 5).unsqueeze(-1)
    alignment = Alignment(MASK)
    aligned = alignment.align(positions).squeeze(-1)

    assert alignment.lengths.tolist() == [5, 2, 3, 3, 0]
    assert alignment.real.tolist() == [[n > s for s in range(5)] for n in (5, 2, 3, 3, 0)]
    real = [row[:n].tolist() for row, n in zip(aligned, alignment.lengths, strict=True)]
    assert real == [[0, 1, 2, 3, 4], [0, 1], [2, 3, 4], [1, 3, 4], []]


def test_restoring_undoes_the_alignment_with_zeros_on_padding() -> None:
    """Callers get their tokens back where they put them."""
    x = torch.randn(5, 5, 3)
    alignment = Alignment(MASK)
    assert torch.equal(alignment.restore(alignment.align(x)), x * MASK.unsqueeze(-1))


def test_aligned_rows_are_as_long_as_the_longest_text() -> None:
    """Padding shared by all rows costs no step of the LSTM."""
    alignment = Alignment(MASK[1:4])
    x = torch.randn(3, 5, 2)
    assert alignment.align(x).shape == (3, 3, 2)
    assert alignment.restore(alignment.align(x)).shape == (3, 5, 2)


def test_reversal_turns_each_row_within_its_own_length() -> None:
    """The backward LSTM must start at the last word and not in the padding behind it."""
    alignment = Alignment(MASK)
    assert alignment.reversal.tolist() == [
        [4, 3, 2, 1, 0],
        [1, 0, 2, 3, 4],
        [2, 1, 0, 3, 4],
        [2, 1, 0, 3, 4],
        [0, 1, 2, 3, 4],
    ]
    x = torch.randn(5, 5, 2)
    twice = take_tokens(take_tokens(x, alignment.reversal), alignment.reversal)
    assert torch.equal(twice, x)


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


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_states_and_gradients_equal_torchs_packed_bilstm(num_layers: int) -> None:
    """`pack_padded_sequence` is the known exact way; the encoder must lose nothing against it."""
    encoder = BiLSTMEncoder(tiny.tiny_config(num_lstm_layers=num_layers))
    lstm = _torch_bilstm(encoder, width=6, units=4)
    mask = torch.arange(9) < torch.tensor([[9], [1], [4], [6]])
    alignment = Alignment(mask)
    x = torch.randn(4, 9, 6)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()

    states = encoder(ours, alignment)[-1]
    expected = _packed(lstm, theirs, alignment.lengths)
    torch.testing.assert_close(states, expected, **tiny.TOLERANCE)

    probe = torch.randn_like(states)
    (states * probe).sum().backward()
    (expected * probe).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, **tiny.TOLERANCE)
    for number, layer in enumerate(encoder.layers):
        for name, weight in layer.backward_lstm.named_parameters():
            packed_weight = getattr(lstm, name.replace("l0", f"l{number}_reverse"))
            torch.testing.assert_close(weight.grad, packed_weight.grad, **tiny.TOLERANCE)


def test_states_of_every_layer_are_zero_on_padding() -> None:
    """The next layer and the pooling may then read all positions."""
    encoder = BiLSTMEncoder(tiny.tiny_config(num_lstm_layers=2))
    alignment = Alignment(MASK)
    for states in encoder(torch.randn(5, 5, 6), alignment):
        assert states[~alignment.real].abs().max() == 0
        assert states[alignment.real].abs().min() > 0, "the premise needs states that are not zero"


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


@pytest.mark.parametrize("freeze_embeddings", [False, True])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize(
    "model_class", [SelfAttentiveForSequenceClassification, SelfAttentiveForNLI]
)
def test_gradient_checkpointing_gives_the_same_gradients(
    model_class: type, num_layers: int, freeze_embeddings: bool
) -> None:
    """It trades time for memory and nothing else; each layer is run once more for it."""
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

    runs = []
    for module in model.modules():
        if isinstance(module, BiLSTMLayer):
            module.forward_lstm.register_forward_hook(lambda *_: runs.append(1))
    # Its name up to transformers 5.22 was `gradient_checkpointing_enable`.
    names = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
    next(getattr(model, name) for name in names if hasattr(model, name))()
    checkpointed = _gradients(model, batch, labels)

    assert len(runs) == 2 * num_layers, "the premise is that checkpointing really happened"
    assert plain.keys() == checkpointed.keys()
    for name, gradient in plain.items():
        if gradient is None:
            assert freeze_embeddings
            assert name == "encoder.embeddings.weight"
        else:
            torch.testing.assert_close(checkpointed[name], gradient, rtol=0, atol=1e-7)
