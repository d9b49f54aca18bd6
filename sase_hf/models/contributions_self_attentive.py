"""Why a classifier gave its answer: what each hop and each word added to a logit.

The logit of a label is a function of the sentence matrix M, and row i of M is a sum over the tokens
j, M_i = sum_j A_ij h_j. On the straight path from the empty matrix to M, the logit therefore grows
by exactly sum_ij C_ij with C_ij = A_ij <G_i, h_j>, where G is the mean gradient of the logit on the
path: integrated gradients (Sundararajan et al., 2017) of the head alone. The units of the head are
ReLUs of polynomials of the path, of degree 2 at most, so G has a closed form.

A linear part adds to the logit what its words and pairs of words weigh: the words themselves,
beside the hops. Half of a pair is of each of its words. On a pretrained encoder it reads the mean
of the states, too, which is explained as a hop whose attention is even.

A state h_j also knows the words around j. `words` follows sum_ij C_ij, with A and G held fixed,
from the states back to the words (`words_self_attentive.py`). They answer which words matter, and
with `rest` they sum to the same; C answers what each hop added where it looked.

Shapes: B texts or pairs, T tokens, r hops, H width of the states, W width of a row that the
classifier reads, b units of the classifier, L labels; a pair has sides, (B, 2, ...).
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from .answers import answers_of
from .checked_model import first_tokens
from .rows_self_attentive import Rows, real_tokens, tokens_of_sides
from .words_self_attentive import added_by_words

HALF_PRECISION = (torch.bfloat16, torch.float16)
Inputs = tuple[Tensor, Tensor | None, Tensor | None]  # ids, mask and token types

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


def explain(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    labels: Tensor | None = None,
) -> Contributions:
    """Explain the answers of a classifier by a pass forward and one back.

    All is computed in float32 or wider: autocast is off inside, and of a model in half precision a
    copy is read.

    Args:
        model: A classifier of texts or pairs with attention, in evaluation mode.
        input_ids: As the model reads them, shape (B, T), and so the mask and the token types.
        attention_mask: Shape (B, T).
        token_type_ids: Shape (B, T).
        labels: The ids of the labels to explain, one per text, shape (B,); by default those with
            the highest logits.

    Raises:
        ValueError: If the model is no classifier, has no attention, or is in training mode, or if
            ids of labels have another shape or type, or are not among the model's.
    """
    check_explainable(model)
    if model.training:
        raise ValueError("the model is in training mode, where dropout is at work; call eval()")
    if labels is not None:
        check_label_ids(labels, model, len(input_ids))
    if model.dtype in HALF_PRECISION:
        model = deepcopy(model).float()
    device = input_ids.device
    inputs = (input_ids, attention_mask, token_type_ids)
    # cuDNN's LSTM has no gradient in evaluation mode, and in the half precision of autocast there
    # is no LSTM on processors without AVX-512.
    no_autocast = torch.autocast(device.type, enabled=False)
    with torch.no_grad(), no_autocast, torch.backends.cudnn.flags(enabled=False):
        read = model.read(*inputs, None, output_attentions=True, output_hidden_states=True)
        matrices = read.sentence_embedding.unflatten(-1, (model.config.num_rows, -1))
        if labels is None:
            labels = model.classify(matrices, *inputs, read.last_hidden_state).argmax(-1)
        labels = labels.to(device).long()
        gradient = mean_gradient(model, matrices, labels)  # (..., r, H)
        attention = read.attentions[0]  # (..., r, T)
        states = read.last_hidden_state
        contributions = attention * (gradient @ states.mT)
        slopes = attention.mT @ gradient  # of the states, (..., T, H)
        if model.reads_mean_state:
            of_mean = _slopes_of_mean_state(model, inputs, states, labels)
            slopes = slopes + of_mean
            added = (of_mean * states).sum(-1).unsqueeze(-2)
            contributions = torch.cat([contributions, added], -2)
        words = _words(model, inputs, read.hidden_states, slopes)
        linear = _linear_part(model, inputs, labels, attention.dtype)
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
    )


def _words(model: Any, inputs: Inputs, levels: Sequence[Tensor], slopes: Tensor) -> Tensor:
    """Return what each token added through the encoder, (B, T), or (B, 2, T) of pairs.

    The levels are the word vectors and the states of each layer, (B, T, width) or (B, 2, T, width),
    and the slopes (B, T, H) or (B, 2, T, H) those of the last states.
    """
    rows = Rows(_read_tokens(model, inputs), limit=model.config.max_tokens)
    vectors, *layers = [rows.left(level.flatten(0, -3)) for level in levels]
    # An adapter wraps the model, and another class than ours has its own `base_model`.
    plain = model.get_base_model() if hasattr(model, "get_base_model") else model
    encoder = plain.base_model.token_encoder
    of_rows = rows.left(slopes.flatten(0, -3))
    added = added_by_words(encoder, model.config.encoder, vectors, layers, rows, of_rows)
    return rows.back(added).view(slopes.shape[:-1])


def _read_tokens(model: Any, inputs: Inputs) -> Tensor:
    """Return True on the real tokens of each text that the encoder reads, (B, T) or (2 B, T)."""
    input_ids, attention_mask, token_type_ids = inputs
    real = real_tokens(input_ids, attention_mask)
    if model.reads_pairs:
        assert token_type_ids is not None  # checked where pairs are encoded
        real = tokens_of_sides(real, token_type_ids).flatten(0, 1)
    return first_tokens(real, model.config.max_tokens)


def _bounded(words: Tensor, contributions: Tensor) -> Tensor:
    """Return what words added, and in a text where that grows beyond all measure another answer.

    Held gates do not bound what goes back through hundreds of steps of an LSTM with large weights.
    There each word has what the hops added where they read it, which adds up as well. Words are
    (..., T), the contributions of hops (..., r, T).
    """
    most = MAX_GROWTH * contributions.abs().sum((-2, -1))
    is_bounded = words.abs().sum(-1) <= most  # False for NaN
    return torch.where(is_bounded.unsqueeze(-1), words, contributions.sum(-2))


def _linear_part(model: Any, inputs: Inputs, labels: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what each word added by itself to the logits of labels (B,), shape (B, T)."""
    if model.linear_part is None:
        return torch.zeros(inputs[0].shape, dtype=dtype, device=labels.device)
    added: Tensor = model.linear_part.added(*inputs, _weigh_labels(model, labels, dtype))
    return added.to(dtype)


def _weigh_labels(model: Any, labels: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the weight of each logit in what is explained: (B, L)."""
    weigh_labels = F.one_hot(labels, model.config.num_labels).to(dtype)
    if answers_of(model.config).has_one_label:
        weigh_labels = weigh_labels - 1 / model.config.num_labels
    return weigh_labels


def _slopes_of_mean_state(model: Any, inputs: Inputs, states: Tensor, labels: Tensor) -> Tensor:
    """Return the mean gradient of what the mean state adds, on the straight path to the states.

    They and the gradient are (B, T, H), or (B, 2, T, H) of pairs.
    """
    states = states.detach().requires_grad_()
    with torch.enable_grad():
        # The gradient of a product grows along the path: on average it is half of that at the end.
        added = model.linear_part.of_mean_state(inputs, states, share_of_products=0.5)
        total = (added * _weigh_labels(model, labels, added.dtype)).sum()
        (gradient,) = torch.autograd.grad(total, states)
    return gradient


def check_explainable(model: PreTrainedModel) -> None:
    """Raise ValueError unless a model is a classifier with attention and plain weights."""
    if not (hasattr(model, "classify") and model.config.has_attention):
        raise ValueError(
            f"a {type(model).__name__} with pooling={model.config.pooling!r} has no contributions; "
            "they need a classifier of texts or pairs with pooling='self_attention'"
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


def check_label_ids(labels: Tensor, model: Any, num_texts: int) -> None:
    """Raise ValueError unless labels are ids of the labels of a model, one for each text, (B,)."""
    num_labels = model.config.num_labels
    is_integer = isinstance(labels, Tensor) and "int" in str(labels.dtype)
    is_one_each = is_integer and labels.shape == (num_texts,)
    if not is_one_each or {*labels.tolist()} - {*range(num_labels)}:
        raise ValueError(
            f"labels is {labels!r:.200}; it must be a tensor of one label per text, shape "
            f"({num_texts},), of integers from 0 to {num_labels - 1}"
        )


def mean_gradient(model: Any, matrices: Tensor, labels: Tensor) -> Tensor:
    """Return G, the mean gradient of the logits of labels (B,) on the path to M.

    The path is that of the head, straight from the empty matrix to the matrices M (B, r, H), or
    (B, 2, r, H) of pairs, and so is the shape of G.
    """
    wide = torch.promote_types(matrices.dtype, torch.float32)
    matrices = matrices.detach().to(wide).requires_grad_()
    with torch.enable_grad():
        linear, quadratic = _units(model, matrices)  # (B, b) each
        bias = model.classifier.bias().detach().to(wide)
        first, second = active_shares(linear.detach(), quadratic.detach(), bias)
        # The gradient of a square grows along the path: on average it is half of that at the end.
        grown = first * linear + second / 2 * quadratic
        logits = (grown * _output_weights(model, labels, wide)).sum()
        (gradient,) = torch.autograd.grad(logits, matrices)
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


def _output_weights(model: Any, labels: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the weights of the hidden units for labels (B,): (B, b).

    Where a text has one label, they are those of the logit minus the mean of all logits.
    """
    layer = model.classifier.output
    weight = layer.weight.detach()  # (L, b)
    chosen = weight[labels].to(dtype)
    if layer.deviation is not None:
        chosen = chosen * chosen.new_tensor(layer.deviation)[labels].unsqueeze(-1)
    if answers_of(model.config).has_one_label:
        return chosen - weight.mean(0, dtype=dtype)
    return chosen


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
