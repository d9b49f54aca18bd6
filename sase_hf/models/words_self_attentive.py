"""What each word added through the encoder, so that the words add up to what the hops added.

The hops of a text add sum_j <s_j, h_j> to a logit: h_j are the states, and the slopes s_j are fixed
numbers (`contributions_self_attentive.py`). Here this sum goes back from the states to the words.

An LSTM is linear in its word vectors and its biases once some of its numbers are held fixed: the
three gates, and for each tanh the quotient q = tanh(z) / z, so that tanh(z) = q z. The candidate
z_t = W x_t + U h_(t-1) + b is then followed back through the steps without a remainder; what the
bias of a step adds is of the word of that step. (The rules of Arras et al., 2019, and of layer-wise
relevance propagation for LSTMs are of this family.) A ReLU is linear where it is held open or shut,
so a convolution needs no more than its gradient and the same rule for its biases.

A pretrained encoder and a relation network multiply what words say by what words say. There the
gradient alone is taken, and the words leave a rest; so does an LSTM that an adapter has wrapped.

Shapes: B texts, S tokens of the longest (`Rows`), d width of the word vectors, w width of what a
layer reads, u LSTM units, H width of the states. Slopes are zero on padding.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .encoders_self_attentive import BiLSTMLayer
from .rows_self_attentive import Rows

# Encoders whose states are piecewise linear in the word vectors, by their names in the config. An
# encoder is known by its name, because the code of a checkpoint can be loaded twice, and a class of
# one copy is not that of the other.
PIECEWISE_LINEAR = ("cnn", "dilated_cnn", "none")


def added_by_words(
    encoder: nn.Module,
    kind: str,
    x: Tensor,
    layers: Sequence[Tensor],
    rows: Rows,
    slopes: Tensor,
) -> Tensor:
    """Return what each token adds to the sum of the states times their slopes: (B, S).

    Args:
        encoder: The encoder, in evaluation mode.
        kind: Its name in the config.
        x: The word vectors that it read, (B, S, d).
        layers: The states that it returned, (B, S, H) each, the last ones those of the slopes.
        rows: The rows of all of them.
        slopes: Those of the states, (B, S, H).
    """
    if kind == "bilstm" and _has_plain_lstms(encoder):
        return _through_lstms(encoder, [x, *layers], rows, slopes)
    are_piecewise_linear = kind in PIECEWISE_LINEAR
    return _through_gradients(encoder, x, rows, slopes, are_piecewise_linear)


def _has_plain_lstms(encoder: Any) -> bool:
    """Return whether the weights of LSTMs can be read: an adapter would hide what it adds."""
    lstms: list[object] = []
    for layer in encoder.layers:
        lstms += [layer.forward_lstm, layer.backward_lstm]
    return all(isinstance(lstm, nn.LSTM) for lstm in lstms)


# ---- LSTMs ---------------------------------------------------------------------------------------


@torch.no_grad()
def _through_lstms(encoder: Any, levels: list[Tensor], rows: Rows, slopes: Tensor) -> Tensor:
    """Go back layer by layer; the levels are the word vectors and the states of each layer."""
    of_levels = [torch.zeros_like(level) for level in levels[:-1]]
    of_levels.append(slopes)
    added = slopes.new_zeros(slopes.shape[:2])
    for number in range(len(encoder.layers), 0, -1):
        lowest = 0 if encoder.has_shortcuts else number - 1
        below = levels[lowest:number]
        of_biases, of_below = _through_layer(
            encoder.layers[number - 1],
            torch.cat(below, dim=-1),
            levels[number],
            of_levels[number],
            rows,
        )
        added += of_biases
        widths = [level.shape[2] for level in below]
        for level, of_level in enumerate(of_below.split(widths, dim=-1), start=lowest):
            of_levels[level] += of_level
    return added + (of_levels[0] * levels[0]).sum(-1)


def _through_layer(
    layer: BiLSTMLayer, x: Tensor, states: Tensor, slopes: Tensor, rows: Rows
) -> tuple[Tensor, Tensor]:
    """Return what the biases of a layer add at each token (B, S), and the slopes of x (B, S, w)."""
    forward_states, backward_states = states.chunk(2, -1)
    forward_slopes, backward_slopes = slopes.chunk(2, -1)
    of_biases, of_x = _through_lstm(layer.forward_lstm, x, forward_states, forward_slopes)
    mirrored_of_biases, mirrored_of_x = _through_lstm(
        layer.backward_lstm, *map(rows.mirror, (x, backward_states, backward_slopes))
    )
    return of_biases + rows.mirror(mirrored_of_biases), of_x + rows.mirror(mirrored_of_x)


def _through_lstm(lstm: Any, x: Tensor, states: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """Go back through one LSTM in its reading direction; as `_through_layer`.

    Its states and their slopes are (B, S, u).
    """
    u = states.shape[2]
    of_candidate_rows = slice(2 * u, 3 * u)  # of the weights: input, forget, candidate, output
    recurrent = lstm.weight_hh_l0[of_candidate_rows]
    of_cell = of_candidate = torch.zeros_like(slopes[:, 0])
    of_candidates: list[Tensor] = []
    by_step = [values.unbind(1) for values in (slopes, *_hold(lstm, x, states))]
    for of_step, state_by_cell, cell_by_candidate, kept in reversed(
        list(zip(*by_step, strict=True))
    ):
        of_state = torch.addmm(of_step, of_candidate, recurrent)
        of_cell = torch.addcmul(of_cell, of_state, state_by_cell)
        of_candidate = of_cell * cell_by_candidate
        of_cell = of_cell * kept
        of_candidates.append(of_candidate)
    slopes_of_candidates = torch.stack(of_candidates[::-1], 1)  # (B, S, u)
    bias = lstm.bias_ih_l0 + lstm.bias_hh_l0
    of_biases = slopes_of_candidates @ bias[of_candidate_rows]
    return of_biases, slopes_of_candidates @ lstm.weight_ih_l0[of_candidate_rows]


class _Held(NamedTuple):
    """What is held fixed in an LSTM, (B, S, u): of what each number is a multiple, and how much.

    state_by_cell: h_t = state_by_cell * c_t.
    cell_by_candidate: c_t = cell_by_candidate * z_t + kept * c_(t-1).
    """

    state_by_cell: Tensor
    cell_by_candidate: Tensor
    kept: Tensor


def _hold(lstm: Any, x: Tensor, states: Tensor) -> _Held:
    """Return what is held fixed in an LSTM that read x (B, S, w) and returned states (B, S, u)."""
    before = F.pad(states, (0, 0, 1, -1))
    sums = F.linear(x, lstm.weight_ih_l0, lstm.bias_ih_l0)
    sums = sums + F.linear(before, lstm.weight_hh_l0, lstm.bias_hh_l0)
    of_input, of_forget, candidate, of_output = sums.chunk(4, -1)
    input_gate = of_input.sigmoid()
    forget_gate = of_forget.sigmoid()
    new = input_gate * candidate.tanh()
    cell = torch.zeros_like(new[:, 0])
    cells = []
    for new_of_step, kept in zip(new.unbind(1), forget_gate.unbind(1), strict=True):
        cell = torch.addcmul(new_of_step, kept, cell)
        cells.append(cell)
    return _Held(
        state_by_cell=of_output.sigmoid() * _tanh_quotient(torch.stack(cells, 1)),
        cell_by_candidate=input_gate * _tanh_quotient(candidate),
        kept=forget_gate,
    )


def _tanh_quotient(z: Tensor) -> Tensor:
    """Return tanh(z) / z, 1 where z is 0."""
    return torch.where(z == 0, 1, z.tanh() / z)


# ---- other encoders ------------------------------------------------------------------------------


def _through_gradients(
    encoder: nn.Module, x: Tensor, rows: Rows, slopes: Tensor, are_piecewise_linear: bool
) -> Tensor:
    """Take gradients times word vectors; where states are piecewise linear, add their biases.

    What such a state has beyond its gradient is of its word.
    """
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        states = encoder(leaf, rows)[-1]
        total = (states * slopes).sum()
        (of_x,) = torch.autograd.grad(total, leaf, retain_graph=are_piecewise_linear)
        added = (of_x * x).sum(-1)
        if not are_piecewise_linear:
            return added
        linear = _directional_derivative(states, leaf)
    return added + ((states.detach() - linear) * slopes).sum(-1)


def _directional_derivative(states: Tensor, x: Tensor) -> Tensor:
    """Return how fast states (B, S, H) grow with all word vectors (B, S, d) that they read.

    Piecewise linear states are this and what their biases add. Forward mode would do the same, but
    torch loads deprecated code for it.
    """
    weights = torch.zeros_like(states, requires_grad=True)  # the gradient is linear in them
    (of_x,) = torch.autograd.grad(states, x, weights, create_graph=True)
    (derivative,) = torch.autograd.grad(of_x, weights, x.detach())
    return derivative
