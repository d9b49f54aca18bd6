"""Why a classifier gave its answer: what each hop and each word added to a logit.

The logit of a label is a function of the sentence matrix M, and row i of M is a sum over the tokens
j, M_i = sum_j A_ij h_j. On the straight path from the empty matrix to M, the logit therefore grows
by exactly sum_ij C_ij with C_ij = A_ij <G_i, h_j>, where G is the mean gradient of the logit on the
path: integrated gradients (Sundararajan et al., 2017) of the head alone. The units of the head are
ReLUs of polynomials of the path, of degree 2 at most, so G has a closed form.

The one row of another pooling takes each unit from states: all of it from the largest, say. There
C_j is the sum over the units of what they take from token j, times the slope of the unit.

A linear part adds to the logit what its words and pairs of words weigh: the words themselves,
beside the hops. Half of a pair is of each of its words. On a pretrained encoder it reads the mean
of the states, too, which is explained as a hop whose attention is even.

A state h_j also knows the words around j. `words` follows sum_ij C_ij, with A and G held fixed,
from the states back to the words. They answer which words matter, and with `rest` they sum to the
same; C answers what each hop added where it looked. The hops of a text add sum_j <s_j, h_j>, where
the slopes s_j are fixed numbers; this sum goes back through the encoder.

An LSTM is linear in its word vectors and its biases once some of its numbers are held fixed: the
three gates, and for each tanh the quotient q = tanh(z) / z, so that tanh(z) = q z. The candidate
z_t = W x_t + U h_(t-1) + b is then followed back through the steps without a remainder; what the
bias of a step adds is of the word of that step. (The rules of Arras et al., 2019, and of layer-wise
relevance propagation for LSTMs are of this family.) A ReLU is linear where it is held open or shut,
so a convolution needs no more than its gradient and the same rule for its biases.

A pretrained encoder and a relation network multiply what words say by what words say. There the
gradient alone is taken, and the words leave a rest; so does an LSTM that an adapter has wrapped.

Shapes: B texts or pairs, T tokens, S tokens of the longest (`Rows`), r hops, d width of the word
vectors, w width of what a layer reads, u LSTM units, H width of the states, W width of a row that
the classifier reads, b units of the classifier, L labels; a pair has sides, (B, 2, ...). Slopes are
zero on padding.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.functional import jvp, vjp
from transformers import PreTrainedModel

from .answers import answers_of
from .checkpoint import wide
from .layers_self_attentive import CLOSED_GATE, BiLSTMLayer, Rows, tokens_read

# ---- hops ----------------------------------------------------------------------------------------


# The sum of the sizes of what words added, over that of the hops. Trained models stay below 10; at
# this number float32 keeps four digits of the sum.
MAX_GROWTH = 1_000


class Contributions(NamedTuple):
    """What `explain` returns."""

    labels: Tensor  # the label that is explained, (B,)
    # C, zero on padding, (B, r, T), or (B, 2, r, T) for a pair. For one label per text, the logit
    # is that of the label minus the mean over all labels. On a pretrained encoder a linear part has
    # one more row: what the mean of the states added, through each state.
    contributions: Tensor
    # What each word added by itself in the linear part, zero without one, (B, T). The sum of
    # `contributions` and `linear` is the logit minus that of a text without tokens.
    linear: Tensor
    words: Tensor  # what each word added, in the hops and by itself, (B, T)
    # What the hops added beyond the words, (B,), or (B, 2) of a pair: zero but for rounding, unless
    # the encoder is a pretrained one or a relation network.
    rest: Tensor
    # Of the label that is explained, as it is explained, (B,). What it has beyond the words and
    # `rest` is that of a text without tokens.
    logit: Tensor


def explain(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    labels: Tensor | None = None,
    rivals: Tensor | None = None,
) -> Contributions:
    """Explain the answers of a classifier by a pass forward and one back.

    All is computed in float32 or wider: autocast is off inside, and of a model in half precision a
    copy is read.

    Args:
        model: A classifier of texts or pairs, in evaluation mode.
        input_ids: As the model reads them, shape (B, T), and so the mask and the token types.
        attention_mask: Shape (B, T).
        token_type_ids: Shape (B, T).
        labels: The ids of the labels to explain, one per text, shape (B,); by default those with
            the highest logits, or the first of several numbers.
        rivals: With `labels`, the ids of others, whose logits are subtracted, shape (B,).

    Raises:
        ValueError: If the model is no classifier or is in training mode, or if ids of labels have
            another shape.
        RuntimeError: If labels are no integers, or not ids of the model's.
    """
    check_explainable(model)
    if model.training:
        raise ValueError("the model is in training mode, where dropout is at work; call eval()")
    if labels is not None and labels.shape != (len(input_ids),):
        raise ValueError(
            f"labels has shape {tuple(labels.shape)}; it must have one id for each text, "
            f"({len(input_ids)},)"
        )
    device = input_ids.device
    inputs = (input_ids, attention_mask, token_type_ids)
    # Not every processor has an LSTM in the half precision of autocast.
    outside = torch.inference_mode(False)  # where a gradient can be taken
    with outside, torch.no_grad(), torch.autocast(device.type, enabled=False):
        if model.dtype.itemsize < 4:  # half precision
            model = deepcopy(model).float()
        read = model(
            input_ids,
            attention_mask,
            token_type_ids=token_type_ids,  # an adapter has another third argument
            output_attentions=True,
            output_hidden_states=True,
            return_dict=True,
        )
        matrices = read.sentence_embedding.unflatten(-1, (model.num_rows, -1))
        if labels is None:
            labels = answers_of(model.config).best(read.logits)
        labels = labels.to(device)
        weigh_labels = _weigh_labels(model, labels, rivals, read.penalty.dtype)
        gradient = mean_gradient(model, matrices, weigh_labels)  # (..., r, H)
        attention = read.attentions[0]  # (..., r, T)
        states = read.last_hidden_state
        # An adapter wraps the model, and another class than ours has its own `base_model`.
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        of_texts = tokens_read(model, *inputs).flatten(0, 1)  # two texts of a pair
        rows = Rows(of_texts)
        if model.config.has_hops:
            contributions = attention * (gradient @ states.mT)
            slopes = attention.mT @ gradient  # of the states, (..., T, H)
        else:
            of_rows = rows.left(states.flatten(0, -3))
            taken = plain.base_model.pooling.taken(of_rows, rows.real)
            slopes = rows.back(taken).view_as(states) * gradient
            contributions = (slopes * states).sum(-1).unsqueeze(-2)
        if model.reads_mean_state:
            # The gradient of a product grows on the path: on average it is half of that at the end.
            of_states = partial(model.linear_part.of_mean_state, inputs, share_of_products=0.5)
            _, of_mean = vjp(of_states, states, weigh_labels)
            slopes = slopes + of_mean
            added = (of_mean * states).sum(-1).unsqueeze(-2)
            contributions = torch.cat([contributions, added], -2)
        words = _words(plain, rows, read.hidden_states, slopes)
        linear = torch.zeros_like(input_ids, dtype=attention.dtype)
        if model.linear_part is not None:
            linear = model.linear_part.added(inputs, weigh_labels).to(linear)
    words = _bounded(words, contributions)
    rest = contributions.sum((-2, -1)) - words.sum(-1)
    if model.reads_pairs:
        words = words.sum(1)
    return Contributions(
        labels=labels,
        contributions=contributions,
        linear=linear,
        words=words + linear,
        rest=rest,
        logit=(read.logits * weigh_labels).sum(-1),
    )


def _words(model: Any, rows: Rows, levels: Sequence[Tensor], slopes: Tensor) -> Tensor:
    """Return what each token added through the encoder, (B, T), or (B, 2, T) of pairs.

    The levels are the word vectors and the states of each layer, (B, T, width) or (B, 2, T, width),
    and the slopes (B, T, H) or (B, 2, T, H) those of the last states.
    """
    encoder = model.base_model.token_encoder
    ones = torch.ones_like(slopes[..., :1])  # 0 on padding, once moved
    of_tokens = (ones, *levels, slopes)
    *levels, of_rows = (rows.left(part.flatten(0, -3)) for part in of_tokens)
    kind = model.config.encoder
    # An adapter hides what it adds to the weights, and a call may fetch them from a disk.
    if kind == "bilstm" and all(
        type(layer).__name__ == "BiLSTMLayer" and "forward" not in vars(layer)
        for layer in encoder.layers
    ):
        added = _through_lstms(encoder, levels, of_rows)
    else:
        added = _through_gradients(encoder, levels[1], rows, of_rows, kind in PIECEWISE_LINEAR)
    return rows.back(added).view(slopes.shape[:-1])


def _bounded(words: Tensor, contributions: Tensor) -> Tensor:
    """Return what words added, and in a text where that grows beyond all measure another answer.

    Held gates do not bound what goes back through hundreds of steps of an LSTM with large weights.
    There each word has what the hops added where they read it, which adds up as well. Words are
    (..., T), the contributions of hops (..., r, T).
    """
    most = MAX_GROWTH * contributions.abs().sum((-2, -1))
    is_bounded = words.abs().sum(-1) <= most  # False for NaN
    return torch.where(is_bounded.unsqueeze(-1), words, contributions.sum(-2))


def _weigh_labels(model: Any, labels: Tensor, rivals: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return the weight of each logit in what is explained for labels (B,): (B, L)."""
    if rivals is not None:
        of_both = F.one_hot(torch.stack([rivals, labels]), model.config.num_labels)
        return of_both.diff(dim=0)[0].to(dtype)
    weigh_labels = F.one_hot(labels, model.config.num_labels).to(dtype)
    if answers_of(model.config).has_one_label:
        weigh_labels = weigh_labels - 1 / model.config.num_labels
    return weigh_labels


def check_explainable(model: PreTrainedModel) -> None:
    """Raise ValueError unless a model is a classifier with plain weights."""
    if not hasattr(model, "neighbours"):
        raise ValueError(
            f"a {type(model).__name__} has no contributions; they need a classifier of texts or "
            "pairs"
        )
    for name, module in model.named_modules():
        is_read = {"classifier", "matching"} & set(name.split("."))
        is_adapted = hasattr(module, "base_layer")
        is_quantized = callable(getattr(module, "weight", None))
        if is_read and (is_adapted or is_quantized):
            raise ValueError(
                f"{name} is a {type(module).__name__}, whose weights contributions cannot read; "
                "merge an adapter (merge_and_unload), or explain the model that was quantized"
            )


def mean_gradient(model: Any, matrices: Tensor, weigh_labels: Tensor) -> Tensor:
    """Return G, the mean gradient of the logits, weighed (B, L), on the path to M.

    The path is that of the head, straight from the empty matrix to the matrices M (B, r, H), or
    (B, 2, r, H) of pairs, and so is the shape of G.
    """

    def grown_logits(matrices: Tensor) -> Tensor:
        linear, quadratic = _units(model, matrices)  # (B, b) each
        bias = model.classifier.bias().detach().to(matrices)
        first, second = active_shares(linear.detach(), quadratic.detach(), bias)
        # The gradient of a square grows along the path: on average it is half of that at the end.
        grown = first * linear + second / 2 * quadratic
        layer = model.classifier.output
        logits = F.linear(grown, layer.weight.to(grown.dtype))
        if layer.deviation is not None:
            logits = logits * logits.new_tensor(layer.deviation)
        return logits

    _, gradient = vjp(grown_logits, wide(matrices), weigh_labels)
    return gradient


def _units(model: Any, matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return the parts of the hidden units that grow linearly and by squares, (B, b) each."""
    units = model.classifier.units
    if not model.reads_pairs:
        linear = units(matrices)
        return linear, torch.zeros_like(linear)
    features = model.matching(*matrices.unbind(1))  # (B, r, W)
    columns = torch.arange(features.shape[-1], device=features.device)
    is_product = columns >= model.matching.linear_width
    return units(features.masked_fill(is_product, 0)), units(features.masked_fill(~is_product, 0))


def active_shares(linear: Tensor, quadratic: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return the integrals of 1 and of 2 a over all a from 0 to 1 where a unit is active.

    A unit is active where bias + a linear + a^2 quadratic > 0. Its ReLU grows from a = 0 to 1 by
    exactly linear times the first integral plus quadratic times the second.
    """
    root = (linear.square() - 4 * quadratic * bias).clamp(min=0).sqrt()
    half = -(linear + torch.where(linear < 0, -root, root)) / 2
    cuts = torch.stack([half / quadratic, bias / half]).nan_to_num(0).clamp(0, 1).sort(0).values
    low, high = cuts
    edges = torch.stack([torch.zeros_like(low), low, high, torch.ones_like(low)])
    middle = (edges[1:] + edges[:-1]) / 2
    active = bias + middle * (linear + middle * quadratic) > 0
    return (edges.diff(dim=0) * active).sum(0), (edges.square().diff(dim=0) * active).sum(0)


# ---- words ---------------------------------------------------------------------------------------


# Encoders whose states are piecewise linear in the word vectors, by their names in the config. An
# encoder is known by its name, because the code of a checkpoint can be loaded twice, and a class of
# one copy is not that of the other.
PIECEWISE_LINEAR = ("cnn", "dilated_cnn", "none")


# ---- LSTMs ---------------------------------------------------------------------------------------


def _through_lstms(encoder: Any, levels: list[Tensor], slopes: Tensor) -> Tensor:
    """Go back layer by layer and return what each token added, (B, S).

    The levels are 1 on tokens and 0 on padding, (B, S, 1), which biases weigh; the word vectors;
    and the states of each layer. The slopes are those of the last.
    """
    of_levels = [*map(torch.zeros_like, levels[:-1]), slopes]
    for number in range(len(encoder.layers), 0, -1):
        lowest = 1 if encoder.has_shortcuts else number
        below = [0, *range(lowest, number + 1)]
        x = torch.cat([levels[level] for level in below], -1)
        states = levels[number + 1]
        of_states = of_levels[number + 1]
        of_x = _through_layer(encoder.layers[number - 1], x, states, of_states)
        widths = [levels[level].shape[-1] for level in below]
        for level, of_level in zip(below, of_x.split(widths, -1), strict=True):
            of_levels[level] += of_level
    of_bias, of_vectors, *_ = of_levels
    of_words = (of_vectors * levels[1]).sum(-1)
    return of_bias.squeeze(-1) + of_words


def _through_layer(layer: BiLSTMLayer, x: Tensor, states: Tensor, slopes: Tensor) -> Tensor:
    """Return the slopes of x (B, S, w), whose first column is 1 on tokens and 0 on padding.

    The biases weigh that column. Both directions go back side by side, (2, B, S, ...), the second
    over rows from right to left.
    """
    pairs = zip(*layer.all_weights, strict=True)
    input_weight, recurrent_weight, input_bias, recurrent_bias = map(torch.stack, pairs)
    bias = (input_bias + recurrent_bias).unsqueeze(-1)
    weight = torch.cat([bias, input_weight, recurrent_weight], -1)
    after = _by_direction(*states.chunk(2, -1))
    before = F.pad(after, (0, 0, 1, -1))
    read = torch.cat([_by_direction(x, x), before], -1)
    of_all = torch.bmm(read.flatten(1, 2), weight.mT)
    sums = of_all.unflatten(1, x.shape[:2])
    is_padding = read[..., :1] == 0
    held = _hold(sums.masked_fill(is_padding, CLOSED_GATE))
    u = layer.hidden_size
    of_candidate_rows = weight[:, 2 * u : 3 * u]  # input gate, forget gate, candidate, output gate
    recurrent = of_candidate_rows[..., -u:]
    of_cell = of_candidate = torch.zeros_like(before[:, :, 0])
    of_candidates = []
    of_states = _by_direction(*slopes.chunk(2, -1))
    read_back = (of_states, *held)
    last_first = [values.flip(2).unbind(2) for values in read_back]
    for of_step, state_by_cell, cell_by_candidate, kept in zip(*last_first, strict=True):
        of_state = torch.baddbmm(of_step, of_candidate, recurrent)
        of_cell = torch.addcmul(of_cell, of_state, state_by_cell)
        of_candidate = of_cell * cell_by_candidate
        of_cell = of_cell * kept
        of_candidates.append(of_candidate)
    of_steps = torch.stack(of_candidates, 2).flip(2)
    input_columns = of_candidate_rows[..., :-u]
    of_read = torch.bmm(of_steps.flatten(1, 2), input_columns)
    left_to_right, right_to_left = of_read.unflatten(1, x.shape[:2])
    return left_to_right + right_to_left.flip(1)


def _by_direction(left_to_right: Tensor, right_to_left: Tensor) -> Tensor:
    """Return what each direction reads (B, S, ...) in its order, (2, B, S, ...)."""
    return torch.stack([left_to_right, right_to_left.flip(1)])


def _hold(sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return what is held fixed in an LSTM, given the sums at its gates (..., S, 4 u).

    Of what each number is a multiple, and how much, each (..., S, u): h_t = state_by_cell * c_t,
    and c_t = cell_by_candidate * z_t + kept * c_(t-1).
    """
    of_input, of_forget, candidate, of_output = sums.chunk(4, -1)
    input_gate = of_input.sigmoid()
    forget_gate = of_forget.sigmoid()
    new = input_gate * candidate.tanh()
    cell = torch.zeros_like(new[..., 0, :])
    cells = []
    for new_of_step, kept in zip(new.unbind(-2), forget_gate.unbind(-2), strict=True):
        cell = torch.addcmul(new_of_step, kept, cell)
        cells.append(cell)
    state_by_cell = of_output.sigmoid() * _tanh_quotient(torch.stack(cells, -2))
    cell_by_candidate = input_gate * _tanh_quotient(candidate)
    return state_by_cell, cell_by_candidate, forget_gate


def _tanh_quotient(z: Tensor) -> Tensor:
    """Return tanh(z) / z, 1 where z is 0."""
    return torch.where(z == 0, 1, z.tanh() / z)


# ---- other encoders ------------------------------------------------------------------------------


def _through_gradients(
    encoder: nn.Module,
    x: Tensor,
    rows: Rows,
    slopes: Tensor,
    are_piecewise_linear: bool,
) -> Tensor:
    """Take gradients times word vectors; where states are piecewise linear, add their biases.

    What such a state has beyond its gradient is of its word.
    """

    def read(vectors: Tensor) -> Any:
        return encoder(vectors, rows)[-1]

    _, of_x = vjp(read, x, slopes)
    added = (of_x * x).sum(-1)
    if not are_piecewise_linear:
        return added
    # Piecewise linear states are their derivative along x and what their biases add.
    states, linear = jvp(read, x, x)
    return added + ((states - linear) * slopes).sum(-1)
