"""Why a classifier gave its answer: what each hop and each word added to a logit.

The logit of a label is a function of the sentence matrix M, and row i of M is a sum over the tokens
j, M_i = sum_j A_ij h_j. On the straight path from the empty matrix to M, the logit therefore grows
by exactly sum_ij C_ij with C_ij = A_ij <G_i, h_j>, where G is the mean gradient of the logit on the
path: integrated gradients (Sundararajan et al., 2017) of the head alone. The units of the head are
ReLUs of polynomials of the path, of degree 2 at most, so G has a closed form.

A state h_j also knows the words around j. `words` follows the contributions from the states to the
word vectors: the gradient of sum_ij C_ij with A and G held fixed, times the word vectors. They
answer which words matter; C answers what each hop added where it looked.

Shapes: B texts or pairs, T tokens, r hops, H width of the states, W width of a row that the
classifier reads, b units of the classifier, L labels; a pair has sides, (B, 2, ...).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Contributions(NamedTuple):
    """What `explain` returns."""

    labels: Tensor  # the label that is explained, (B,)
    # C, zero on padding, (B, r, T), or (B, 2, r, T) for a pair. For one label per text, the logit
    # is that of the label minus the mean over all labels.
    contributions: Tensor
    words: Tensor  # what each word added, (B, T)
    hops: Tensor  # what each hop added to each label, (B, L, r), or (B, L, 2, r)


def explain(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    labels: Tensor | None = None,
) -> Contributions:
    """Explain the answers of a classifier by one pass forward and one back.

    The model is a classifier of texts or pairs with attention, in evaluation mode. The labels (B,)
    are those to explain, by default those with the highest logits; other arguments are the model's.

    Raises:
        ValueError: If the model is no classifier, has no attention, or is in training mode.
    """
    check_explainable(model)
    if model.training:
        raise ValueError("the model is in training mode, where dropout is at work; call eval()")
    # The gradient of cuDNN's LSTM exists in training mode only.
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        vectors = model.base_model.embed(input_ids, None).detach().requires_grad_()
        read = model.read(None, attention_mask, token_type_ids, vectors, output_attentions=True)
        matrices = read.sentence_embedding.detach().unflatten(-1, (model.config.num_rows, -1))
        labels = model.classify(matrices).argmax(-1) if labels is None else labels
        weights: Tensor = read.attentions[0].unsqueeze(-1)  # (..., r, T, 1 or H)
        if model.config.pooling == "generalized":
            is_real = read.attentions[0].sum(-2) > 0  # (..., T)
            pooling = model.base_model.pooling
            weights = pooling.feature_attention(read.last_hidden_state, is_real)
        weights = weights.detach()
        states = read.last_hidden_state.to(weights.dtype).unsqueeze(-3)  # (..., 1, T, H)
        every = path_gradients(model, matrices)
        gradient = every[torch.arange(len(labels)), labels]
        contributions = (weights * states * gradient.unsqueeze(-2)).sum(-1)
        (slope,) = torch.autograd.grad(contributions.sum(), vectors)
    return Contributions(
        labels=labels,
        contributions=contributions.detach(),
        words=(slope.to(weights.dtype) * vectors).sum(-1).detach(),
        hops=(matrices.unsqueeze(1) * every).sum(-1),
    )


def check_explainable(model: Any) -> None:
    """Raise ValueError unless a model is a classifier with attention."""
    if not (hasattr(model, "classify") and model.config.has_attention):
        raise ValueError(
            f"a {type(model).__name__} with pooling={model.config.pooling!r} has no contributions; "
            "they need a classifier of texts or pairs with pooling self_attention or generalized"
        )


def path_gradients(model: Any, matrices: Tensor) -> Tensor:
    """Return G, the mean gradient of each logit on the path to the matrices (B, r, H).

    The result is (B, L, r, H), or (B, L, 2, r, H) for pairs (B, 2, r, H), in float32 or wider.
    """
    wide = torch.promote_types(matrices.dtype, torch.float32)
    matrices = matrices.detach().to(wide).requires_grad_()
    classifier, matching = model.classifier, getattr(model, "matching", None)
    output = classifier.output.weight.to(matrices.dtype)  # (L, b)
    if classifier.output.deviation is not None:
        output = output * output.new_tensor(classifier.output.deviation).unsqueeze(1)
    if model.config.problem_type not in ("regression", "multi_label_classification"):
        output = output - output.mean(0)
    with torch.enable_grad(), torch.autocast(matrices.device.type, enabled=False):
        parts = (matrices, torch.zeros_like(matrices))  # (B, r, W) each
        if matching is not None:
            features = matching(*matrices.unbind(1))
            columns = torch.arange(matching.row_width, device=features.device)
            is_product = columns >= matching.linear_width
            parts = features.masked_fill(is_product, 0), features.masked_fill(~is_product, 0)
        linear, quadratic = map(classifier.units, parts)  # (B, b) each
        with torch.no_grad():
            first, second = active_shares(linear, quadratic, classifier.bias().to(wide))
        # The gradient of a square grows along the path: on average it is half of that at the end.
        logits = (first * linear + second / 2 * quadratic) @ output.T  # (B, L)
        each = (torch.autograd.grad(one.sum(), matrices, retain_graph=True) for one in logits.T)
        return torch.stack([gradient for (gradient,) in each], 1)


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
