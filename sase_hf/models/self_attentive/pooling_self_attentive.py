"""Poolings: from the states H to the sentence matrix M.

Shapes: B sentences, S tokens after left-alignment, P positions after packing (see `Packing`), H
width of the states, a attention size, r hops (rows of M). Every pooling takes the states twice, as
rows (B, S, H), unspecified on padding, and packed (P, H), and the packing; it returns M (B, r, H),
the attention A (B, r, S) or None, and the penalty (B,).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configuration_self_attentive import SelfAttentiveConfig
from .packing_self_attentive import Packing


def attention_penalty(attention: Tensor) -> Tensor:
    """Return ||A A^T - I||_F^2 per sentence, summed over r x r (equation 8).

    Args:
        attention: A in float32 or wider, shape (B, r, S).

    Returns:
        Shape (B,), in the precision of A even under autocast.
    """
    identity = torch.eye(attention.shape[1], dtype=attention.dtype, device=attention.device)
    return (_inner_products(attention) - identity).square().sum((1, 2))


def _inner_products(rows: Tensor) -> Tensor:
    """Return R R^T of rows (..., r, n) in their precision, even under autocast: (..., r, r)."""
    if torch.is_autocast_enabled(rows.device.type):
        with torch.autocast(rows.device.type, enabled=False):
            return rows @ rows.mT
    return rows @ rows.mT


class SelfAttention(nn.Module):
    """A = softmax(W_s2 tanh(W_s1 H^T)), M = A H, without biases (equations 6 and 7)."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.projection = nn.Linear(config.hidden_size, config.attention_size, bias=False)  # W_s1
        self.hops = nn.Linear(config.attention_size, config.num_hops, bias=False)  # W_s2

    def forward(
        self, states: Tensor, packed: Tensor, packing: Packing
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return the sentence matrix, the attention and the penalty.

        Args:
            states: H, unspecified on padding, shape (B, S, H).
            packed: H without padding, shape (P, H).
            packing: The packing of the batch.

        Returns:
            M (B, r, H), A (B, r, S) in at least float32, penalty (B,).
        """
        scores = self.hops(torch.tanh(self.projection(packed)))  # (P, r)
        attention = _softmax_over_tokens(scores, packing).mT
        matrix = attention.to(states.dtype) @ states
        return _zero_if_empty(matrix, packing), attention, attention_penalty(attention)


class GeneralizedPooling(nn.Module):
    """Attention with a weight for every feature of a token (Chen, Ling and Zhu, 2018).

    Hop i weighs the tokens by A_i = softmax(W_i2 ReLU(W_i1 H^T + b_i1)), H x S, separately for each
    of the H features, so that the plain attention is the case in which all rows of A_i are equal.
    (A bias of W_i2, the same for all tokens, would cancel in the softmax.) The memory grows with
    T * r * H, so long texts with many hops need much of it.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        r, a, width = config.num_hops, config.attention_size, config.hidden_size
        self.hidden_weight = nn.Parameter(torch.empty(r, width, a))  # W_i1
        self.hidden_bias = nn.Parameter(torch.empty(r, a))  # b_i1
        self.feature_weight = nn.Parameter(torch.empty(r, a, width))  # W_i2

    def forward(
        self, states: Tensor, packed: Tensor, packing: Packing
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return the sentence matrix, the attention and the penalty.

        Args:
            states: H, unspecified on padding, shape (B, S, H).
            packed: H without padding, shape (P, H).
            packing: The packing of the batch.

        Returns:
            M (B, r, H), the mean of A over the features (B, r, S) in at least float32, and the
            penalty (B,), the same for every sentence.
        """
        hidden = F.relu(torch.einsum("ph,rha->pra", packed, self.hidden_weight) + self.hidden_bias)
        scores = torch.einsum("pra,rah->prh", hidden, self.feature_weight)
        attention = _softmax_over_tokens(scores.flatten(1), packing)
        attention = attention.unflatten(2, scores.shape[1:])  # (B, S, r, H)
        matrix = torch.einsum("bsrh,bsh->brh", attention.to(states.dtype), states)
        penalty = self.penalty().expand(states.shape[0])
        return _zero_if_empty(matrix, packing), attention.mean(-1).mT, penalty

    def penalty(self) -> Tensor:
        """Return sum over i < j of max(0, 1 - ||W_i1 - W_j1||_F^2).

        It acts only on hops whose weights are closer than 1; freshly initialised ones are not.

        Returns:
            A scalar in float32 or wider.
        """
        weight = self.hidden_weight.to(torch.promote_types(self.hidden_weight.dtype, torch.float32))
        # By inner products, because the differences of all pairs would take r / 2 times the memory
        # of the weights. Subtracting the mean leaves distances as they are and keeps precision.
        rows = weight.flatten(1) - weight.flatten(1).mean(0)
        products = _inner_products(rows)
        squares = products.diagonal()
        distances = squares.unsqueeze(1) + squares - 2 * products
        i, j = torch.triu_indices(len(weight), len(weight), 1, device=weight.device)
        return (1 - distances[i, j]).clamp(min=0).sum()


class BaselinePooling(nn.Module):
    """Poolings without attention or parameters, as sentence matrices of one row."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.pool = {"max": self._max, "mean": self._mean, "last": self._last}[config.pooling]

    def forward(
        self, states: Tensor, packed: Tensor, packing: Packing
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return M (B, 1, H), no attention, and a penalty (B,) of zeros."""
        penalty = torch.zeros(states.shape[0], device=states.device)
        pooled = self.pool(states, packing.real.unsqueeze(-1))
        return _zero_if_empty(pooled.unsqueeze(1), packing), None, penalty

    @staticmethod
    def _max(states: Tensor, real: Tensor) -> Tensor:
        return states.masked_fill(~real, torch.finfo(states.dtype).min).amax(1)

    @staticmethod
    def _mean(states: Tensor, real: Tensor) -> Tensor:
        # In float32, because a thousand states can sum to more than float16 holds.
        dtype = torch.promote_types(states.dtype, torch.float32)
        total = states.masked_fill(~real, 0).sum(1, dtype=dtype)
        return (total / real.sum(1).clamp(min=1)).to(states.dtype)

    @staticmethod
    def _last(states: Tensor, real: Tensor) -> Tensor:
        """Take the final state of each direction: at the last token, and back at the first."""
        forward_states, backward_states = states.chunk(2, dim=-1)
        last = (real.sum(1, keepdim=True) - 1).clamp(min=0).expand(-1, -1, forward_states.shape[-1])
        return torch.cat([forward_states.gather(1, last)[:, 0], backward_states[:, 0]], dim=-1)


def _softmax_over_tokens(scores: Tensor, packing: Packing) -> Tensor:
    """Return weights that sum to 1 over the tokens of a sentence: (P, width) -> (B, S, width).

    They are in at least float32 and zero on padding.
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    real = packing.real.unsqueeze(-1)  # (B, S, 1)
    scores = torch.where(real, packing.unpack(scores), torch.finfo(scores.dtype).min)
    # Padding gets exactly 0 from the softmax; the product is for sentences without tokens.
    return scores.softmax(1) * real


def _zero_if_empty(matrix: Tensor, packing: Packing) -> Tensor:
    """Return M with zeros for sentences without tokens, whose states are those of padding."""
    if not packing.has_empty:
        return matrix
    return matrix.masked_fill(~packing.real.any(1).view(-1, 1, 1), 0)


POOLINGS: dict[str, type[nn.Module]] = {
    "self_attention": SelfAttention,
    "generalized": GeneralizedPooling,
    "max": BaselinePooling,
    "mean": BaselinePooling,
    "last": BaselinePooling,
}


__all__ = [
    "POOLINGS",
    "BaselinePooling",
    "GeneralizedPooling",
    "SelfAttention",
    "attention_penalty",
]
