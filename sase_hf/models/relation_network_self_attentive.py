"""The relation network as an encoder: every state sums the relations of a token to all tokens.

A checkpoint with this encoder brings this file, which its config names in place of the modeling
file. So do a ranker and an encoder, because the names below bring the rows of a ranker.

Shapes: B texts, S tokens of the longest (see `Rows`), d width of the word vectors, H width of the
states; within a block q asking tokens and s partners.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.utils.import_utils import is_tracing

from .checkpoint import wide
from .configuration_self_attentive import SelfAttentiveConfig
from .layers_self_attentive import ENCODERS, Rows
from .modeling_self_attentive import (  # noqa: F401 (a config names them here)
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
)

if TYPE_CHECKING:  # transformers copies every file that an import names; a ranker needs it
    from .multi_vector_self_attentive import SentenceRows  # noqa: F401

# Numbers in the largest tensor of a block, B * q * s * H; a block has four to eight such tensors.
BLOCK_SIZE = 2**22

# A block has as many asking tokens as the window reaches to either side, but at least this number.
SMALLEST_BLOCK = 16


class PairFunction(nn.Module):
    """The relations of the asking tokens to their partners, weighed and summed."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        d, width = config.embedding_size, config.hidden_size
        self.first = nn.Linear(d, width)
        self.second = nn.Linear(d, width, bias=False)
        self.output = nn.Linear(width, width)
        self.weights = config.relation_weights
        if self.weights == "sigmoid":
            self.first_gate = nn.Linear(d, 1)
            self.second_gate = nn.Linear(d, 1, bias=False)
        elif self.weights == "softmax":
            # The hidden layer of the pair is scored: in a linear score of [x_t; x_t'] the part of
            # x_t cancels in the softmax, and all tokens would get the same weights.
            self.score = nn.Linear(width, 1, bias=False)

    def halves(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the first layer of word vectors (B, S, d) as first and as second token of a pair.

        A linear map of [x_t; x_t'] is the sum of one of x_t and one of x_t', so the first layer is
        computed once per token: two (B, S, H), then two (B, S, 1) if there is a gate.
        """
        if self.weights == "sigmoid":
            return self.first(x), self.second(x), self.first_gate(x), self.second_gate(x)
        return self.first(x), self.second(x)

    def forward(self, mask: Tensor, *halves: Tensor) -> Tensor:
        """Return the weighted sum of the relations of every asking token, shape (B, q, H).

        `mask` is True where a partner is real and within reach, shape (B, q, s). The halves are
        (B, q, width) of the asking tokens and (B, s, width) of the partners, by turns.
        """
        first, second, *gates = halves
        pairs = F.relu(first.unsqueeze(2) + second.unsqueeze(1))  # (B, q, s, H)
        relations = F.relu(self.output(pairs))
        weights = mask.to(pairs.dtype)
        if self.weights == "softmax":  # in at least float32
            scores = wide(self.score(pairs).squeeze(-1))
            lowest = torch.finfo(scores.dtype).min
            weights = scores.masked_fill(~mask, lowest).softmax(-1) * mask
        elif self.weights == "sigmoid":
            first_gate, second_gate = gates
            weights = weights * (first_gate + second_gate.mT).sigmoid()
        return (weights.to(relations.dtype).unsqueeze(2) @ relations).squeeze(2)


class RelationNetworkEncoder(nn.Module):
    """h_t = sum over t' of alpha(x_t, x_t') f(x_t, x_t'), over all t' of a sentence, t too.

    f has two ReLU layers (Santoro et al., 2017). alpha is 1; or, by `relation_weights`, the sigmoid
    of a linear map of the pair; or the softmax over t' of a linear map of the hidden layer of f, so
    that it sums to 1. With `relation_window` k, only |t - t'| <= k counts.

    Without a window the time is quadratic in the length: a text of 1,000 tokens has a million
    pairs. The memory is not quadratic, because pairs are computed block by block, in training twice
    (`torch.utils.checkpoint`); only traced and compiled graphs hold all pairs of a batch at once.
    The second time reads the weights of the module itself: after `torch.func.functional_call` with
    other weights, the gradients of a batch with more than one block are wrong.
    """

    gradient_checkpointing = False  # set by transformers

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.width = config.hidden_size
        self.window = config.relation_window
        self.pair = PairFunction(config)

    def forward(self, x: Tensor, rows: Rows) -> list[Tensor]:
        """Return the states, one (B, S, H), from word vectors (B, S, d)."""
        # If all pairs of a batch fit into one block, the backward pass keeps them; otherwise it
        # computes them again.
        is_small = is_tracing(x) or x.shape[0] * x.shape[1] ** 2 * self.width <= BLOCK_SIZE
        is_kept = is_small and not (self.gradient_checkpointing and self.training)
        states = []
        for block in self._blocks(x, rows.real):
            if is_kept:
                states.append(self.pair(*block))
            else:
                states.append(checkpoint(self.pair, *block, use_reentrant=False))
        return [torch.cat(states, 1)]

    def _blocks(self, x: Tensor, real: Tensor) -> Iterator[list[Tensor]]:
        """Yield what `PairFunction` reads of each block of asking tokens.

        A block has at most `BLOCK_SIZE` pairs, or one asking token.
        """
        batch, steps, _ = x.shape
        halves = self.pair.halves(x)
        reach = steps if self.window is None else self.window
        size = steps
        if not is_tracing(x):
            size = max(1, BLOCK_SIZE // max(1, batch * steps * self.width))  # 1 for no texts
            size = min(size, max(reach, SMALLEST_BLOCK))
        places = torch.arange(steps, device=x.device)
        for first in [0] if is_tracing(x) else range(0, steps, size):
            asking = slice(first, first + size)
            partners = slice(max(first - reach, 0), first + size + reach)
            distances = places[asking].unsqueeze(1) - places[partners]
            mask = real[:, partners].unsqueeze(1) & (distances.abs() <= reach)  # (B, q, s)
            # The halves are of asking tokens and of partners by turns.
            yield [mask, *(half[:, partners if n % 2 else asking] for n, half in enumerate(halves))]


ENCODERS["relation_network"] = RelationNetworkEncoder
