"""Poolings: from the states H to the sentence matrix M.

Shapes: B texts, S tokens, H width of the states, a attention size, r hops (rows of M). Every
pooling takes the states (B, S, H), finite on padding, and where tokens are real (B, S), None if all
are; where marks are learnt also the `rationale` (B, S). It returns M (B, r, H), the attention A
(B, r, S) or None, the penalty (B,), and the `rationale_cost` (B,) or None.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import initialization as init
from transformers.utils.import_utils import is_tracing

from .configuration_self_attentive import SelfAttentiveConfig

# M, A, penalty, cost of the marks
Pooled = tuple[Tensor, Tensor | None, Tensor, Tensor | None]
# Where entmax or sparsemax gives all marked tokens exactly 0, the logarithm of their weight has no
# gradient. This share of the weight is a softmax of the same scores, which gives no token 0.
SOFTMAX_SHARE = 0.01
ALPHAS = {"entmax15": 1.5, "sparsemax": 2.0}


def init_glorot_uniform(module: nn.Module) -> None:
    """Start the own matrices of a module, single or stacked, Glorot uniform and biases at zero."""
    for name, parameter in module.named_parameters(recurse=False):
        if name.endswith("bias"):
            init.zeros_(parameter)
        else:  # each matrix of a stack has its own fans
            bound = math.sqrt(6 / sum(parameter.shape[-2:]))
            init.uniform_(parameter, -bound, bound)


def attention_penalty(attention: Tensor) -> Tensor:
    """Return ||A A^T - I||_F^2 per sentence (equation 8), shape (B,).

    A (B, r, S) is in float32 or wider here and below; the result has its precision, even under
    autocast.
    """
    identity = torch.eye(attention.shape[1], dtype=attention.dtype, device=attention.device)
    return (_inner_products(attention) - identity).square().sum((1, 2))


def cosine_penalty(attention: Tensor) -> Tensor:
    """Return the mean cosine between two hops per sentence, from 0, no shared token, to 1: (B,).

    The mean cosine means the same for any number of tokens and hops. Equation 8, by contrast, falls
    for even attention with the length of the text and grows with the square of the hops.
    One hop or no tokens give 0.
    """
    hops = attention.shape[1]
    # A zero vector, of a sentence without tokens, stays zero.
    directions = F.normalize(attention, dim=-1, eps=torch.finfo(attention.dtype).tiny)
    cosines = _inner_products(directions)
    return cosines.triu(1).sum((1, 2)) * (2 / max(hops * (hops - 1), 1))


def kl_penalty(attention: Tensor, log_attention: Tensor) -> Tensor:
    """Return minus the mean Kullback-Leibler divergence between two hops, per sentence: (B,).

    Section 2.2 of the paper names this alternative and rejects it: the divergence grows without
    bound where hops differ. `log_attention` is any finite number where A is zero. One hop gives 0.
    """
    hops = attention.shape[1]
    with torch.autocast(attention.device.type, enabled=False):
        cross = attention @ log_attention.mT  # (B, r, r)
    entropies = cross.diagonal(dim1=1, dim2=2)  # minus the entropy of each hop
    divergences = hops * entropies.sum(1) - cross.sum((1, 2))
    return -divergences / max(hops * (hops - 1), 1)


PENALTIES = {"frobenius": attention_penalty, "cosine": cosine_penalty}


def rationale_cost(weights: Tensor, scores: Tensor, rationale: Tensor | None) -> Tensor | None:
    """Return -log of the mean weight of the marked tokens, times the mark: 0 without marks, (B,).

    `weights` and `scores` have the shape (B, S, r); `rationale` (B, S) is 0 on other tokens and on
    padding. The cost is least where all hops lie on marked tokens.
    """
    if rationale is None:
        return None
    marks = rationale.to(weights.dtype)
    mixed = torch.lerp(weights, scores.softmax(1), SOFTMAX_SHARE).mean(2)  # (B, S)
    mass = (mixed * (marks != 0)).sum(1)
    return marks.amax(1) * -mass.clamp(min=torch.finfo(mass.dtype).tiny).log()


def _inner_products(rows: Tensor) -> Tensor:
    """Return R R^T of rows (..., r, n) in their precision, even under autocast: (..., r, r)."""
    with torch.autocast(rows.device.type, enabled=False):
        return rows @ rows.mT


class SelfAttentionPooling(nn.Module):
    """A = softmax(W_s2 tanh(W_s1 H^T)), M = A H, without biases (equations 6 and 7).

    The config may put another function in the place of the softmax, and the normalised states in
    the place of H in A; M always holds the states themselves.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.config = config
        self.projection = nn.Linear(config.hidden_size, config.attention_size, bias=False)  # W_s1
        self.hops = nn.Linear(config.attention_size, config.num_hops, bias=False)  # W_s2

    def forward(
        self,
        states: Tensor,
        real: Tensor | None,
        rationale: Tensor | None = None,
    ) -> Pooled:
        """Return M, A in at least float32, the penalty, and the cost of the marks."""
        read = states
        if self.config.normalize_states:
            read = F.layer_norm(states, states.shape[-1:])
        scores = self.hops(torch.tanh(self.projection(read)))  # (B, S, r)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if real is not None:
            real = real.unsqueeze(-1)  # (B, S, 1)
            scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
        weights = attend(scores, self.config.attention_function)
        if real is not None:  # matters for texts without tokens alone
            weights = weights * real
        attention = weights.mT
        matrix = attention.to(states.dtype) @ states
        if self.config.penalty == "kl":
            log_weights = scores.log_softmax(1)
            if real is not None:
                log_weights = log_weights * real
            penalty = kl_penalty(attention, log_weights.mT)
        else:
            penalty = PENALTIES[self.config.penalty](attention)
        return matrix, attention, penalty, rationale_cost(weights, scores, rationale)


class BaselinePooling(nn.Module):
    """Poolings without attention or parameters, as sentence matrices of one row."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.pooling = config.pooling

    def forward(
        self,
        states: Tensor,
        real: Tensor | None,
        rationale: Tensor | None = None,
    ) -> Pooled:
        """Return M (B, 1, H), no attention, a penalty (B,) of zeros, and no cost of marks."""
        if real is None:
            real = states.new_ones(states.shape[:2], dtype=torch.bool)
        penalty = torch.zeros(states.shape[0], device=states.device)
        padding = ~real.unsqueeze(-1)
        if self.pooling == "max":
            pooled = states.masked_fill(padding, torch.finfo(states.dtype).min).amax(1)
        elif self.pooling == "mean":
            # The sum is in float32, because a thousand states can exceed the range of float16.
            dtype = torch.promote_types(states.dtype, torch.float32)
            total = states.masked_fill(padding, 0).sum(1, dtype=dtype)
            pooled = (total / real.sum(1, keepdim=True).clamp(min=1)).to(states.dtype)
        else:  # the final state of each direction: at the last token, and back at the first
            forward_states, backward_states = states.chunk(2, dim=-1)
            last = (real.sum(1) - 1).clamp(min=0).view(-1, 1, 1)
            last = last.expand(-1, -1, forward_states.shape[-1])
            pooled = torch.cat([forward_states.gather(1, last)[:, 0], backward_states[:, 0]], -1)
        matrix = pooled.masked_fill(~real.any(1, keepdim=True), 0).unsqueeze(1)
        return matrix, None, penalty, None


class _SparseWeights(torch.autograd.Function):
    """Sparsemax and 1.5-entmax along the last dimension, exact, by sorting.

    Both are [(alpha - 1) z - tau]_+^(1 / (alpha - 1)), alpha 2 and 1.5, with the one tau for which
    the weights sum to 1 (Martins and Astudillo, 2016; Peters, Niculae and Martins, 2019). The
    gradient needs only the weights.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, alpha: float) -> Tensor:
        """Return the weights of scores whose largest is 0, shape (..., S)."""
        weights = _sparse_weights(scores, alpha)
        ctx.save_for_backward(weights)
        ctx.alpha = alpha
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the scores: s (g - s . g / sum s) with s = p^(2 - alpha)."""
        (weights,) = ctx.saved_tensors
        (gradient,) = gradients
        slope = (weights > 0).to(weights.dtype)
        if ctx.alpha == 1.5:  # a root of 0 would have no second gradient
            slope = slope * weights.masked_fill(weights == 0, 1).sqrt()
        total = slope.sum(-1, keepdim=True).clamp(min=1)  # below 1 only without tokens
        mean = (slope * gradient).sum(-1, keepdim=True) / total
        return slope * (gradient - mean), None


def _sparse_weights(scores: Tensor, alpha: float) -> Tensor:
    """Return sparsemax (alpha 2) or 1.5-entmax of scores whose largest is 0, shape (..., S)."""
    # The support lies within 1 of the largest: cutting there keeps the sums below small for texts
    # of any length, and the cut scores never belong to it. In float32, the widest type of MPS, sums
    # and the root of their small difference would be off by more than the least weights.
    z = (scores * (alpha - 1)).clamp(min=-1)
    ordered = z.sort(dim=-1, descending=True).values
    ordered = ordered if z.device.type == "mps" else ordered.double()
    count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=ordered.dtype)
    mean = ordered.cumsum(-1) / count
    if alpha == 2:
        threshold = mean - 1 / count
    else:
        # For the k largest, sum (z - tau)^2 = 1, so tau = mean - sqrt(1 / k - variance).
        variance = (ordered.square().cumsum(-1) / count - mean.square()).clamp(min=0)
        threshold = mean - (1 / count - variance).clamp(min=0).sqrt()
    support = ((threshold <= ordered) & (ordered > -1)).sum(-1, keepdim=True).clamp(min=1)
    weights = (z - threshold.gather(-1, support - 1)).clamp(min=0).to(z.dtype)
    return weights if alpha == 2 else weights.square()


def attend(scores: Tensor, function: str) -> Tensor:
    """Return weights (B, S, r) that sum to 1 over the tokens, given the scores of each.

    Padding with the lowest score gets the weight 0, except in a text without tokens.
    """
    if function == "softmax":
        return scores.softmax(1)
    alpha = ALPHAS[function]
    shifted = (scores - scores.detach().amax(1, keepdim=True)).mT  # (B, r, S)
    has_gradient = torch.is_grad_enabled() and scores.requires_grad
    weigh = _SparseWeights.apply if has_gradient and not is_tracing(scores) else _sparse_weights
    return weigh(shifted, alpha).mT


POOLINGS: dict[str, type[nn.Module]] = {
    "self_attention": SelfAttentionPooling,
    "max": BaselinePooling,
    "mean": BaselinePooling,
    "last": BaselinePooling,
}
