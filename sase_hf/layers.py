"""The attention as a layer for other models: states and a mask in, sentence matrix out.

Shapes: B sentences, T tokens, H width of the states, r hops.
"""

from typing import Any

import torch
from torch import Tensor, nn

from .models.checkpoint import real_tokens
from .models.configuration_self_attentive import SelfAttentiveConfig
from .models.layers_self_attentive import Rows, SelfAttentionPooling, init_glorot_uniform


class SelfAttention(nn.Module):
    """Attention of several hops over the states of any model (Lin et al., 2017): M = A H.

    By default A is the entmax of W_s2 tanh(W_s1 H^T) with normalised states H. The paper's takes
    `attention_function="softmax", normalize_states=False, penalty="frobenius"`.

    Args:
        hidden_size: H.
        attention_size: A field of `SelfAttentiveConfig`, as are all others.
        num_hops: r.
        **choices: `attention_function`, `normalize_states` and `penalty`.
    """

    def __init__(
        self, hidden_size: int, attention_size: int = 150, num_hops: int = 10, **choices: Any
    ) -> None:
        super().__init__()
        self.config = SelfAttentiveConfig(
            encoder="none",
            embedding_size=hidden_size,
            attention_size=attention_size,
            num_hops=num_hops,
            **choices,
        )
        self.pooling = SelfAttentionPooling(self.config)
        with torch.no_grad():
            self.pooling.apply(init_glorot_uniform)

    def forward(
        self, states: Tensor, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return M (B, r, H), A (B, r, T) in at least float32, and the penalty (B,).

        The penalty is for a loss: `coefficient * penalty.mean()`. A is zero on padding; a row
        without tokens has zeros.

        States (B, T, H), T >= 1, are never read on padding. The mask (B, T) is nonzero on real
        tokens, anywhere in a row; without it every token is real. Raises ValueError if it has
        another shape, and what torch raises for other states.
        """
        rows = Rows(real_tokens(states, attention_mask), states.dtype)
        matrix, attention, penalty, _ = self.pooling(rows.left(states), rows)
        return matrix, rows.back(attention.mT).mT, penalty
