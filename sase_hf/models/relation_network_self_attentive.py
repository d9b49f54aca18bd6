"""The relation network as an encoder: every state sums the relations of a token to all tokens.

Shapes: B texts, S tokens of the longest (see `Rows`), d width of the word vectors, H width of the
states; within a block q asking tokens and s partners.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.import_utils import is_tracing

from .configuration_self_attentive import SelfAttentiveConfig
from .rows_self_attentive import Rows

# Numbers in the largest tensor of a block, B * q * s * H; a block has four to eight such tensors.
BLOCK_SIZE = 2**22

# A block has as many asking tokens as the window reaches to either side, but at least this number.
SMALLEST_BLOCK = 16


class PairFunction(GradientCheckpointingLayer):
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
        """Return `relate`; transformers checkpoints this method, but not `relate`."""
        return self.relate(mask, *halves)

    def relate(self, mask: Tensor, *halves: Tensor) -> Tensor:
        """Return the weighted sum of the relations of every asking token, shape (B, q, H).

        `mask` is True where a partner is real and within reach, shape (B, q, s). The halves are
        (B, q, width) of the asking tokens and (B, s, width) of the partners, by turns.
        """
        first, second, *gates = halves
        pairs = F.relu(first.unsqueeze(2) + second.unsqueeze(1))
        relations = F.relu(self.output(pairs))  # (B, q, s, H)
        weights = self._weigh(mask, pairs, *gates).to(relations.dtype)
        return (weights.unsqueeze(2) @ relations).squeeze(2)

    def attend(self, mask: Tensor, *halves: Tensor) -> Tensor:
        """Return the weights of the pairs alone, (B, q, s); the arguments are those of `relate`."""
        first, second, *gates = halves
        pairs = F.relu(first.unsqueeze(2) + second.unsqueeze(1))
        return self._weigh(mask, pairs, *gates)

    def _weigh(self, mask: Tensor, pairs: Tensor, *gates: Tensor) -> Tensor:
        """Return the weights (B, q, s) of pairs (B, q, s, H), in at least float32 for a softmax."""
        if self.weights == "softmax":
            scores = self.score(pairs).squeeze(-1)
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
            lowest = torch.finfo(scores.dtype).min
            return scores.masked_fill(~mask, lowest).softmax(-1) * mask
        weights = mask.to(pairs.dtype)
        if self.weights == "sigmoid":
            first_gate, second_gate = gates
            return weights * (first_gate + second_gate.mT).sigmoid()
        return weights


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

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.width = config.hidden_size
        self.window = config.relation_window
        self.pair = PairFunction(config)

    def forward(self, x: Tensor, rows: Rows) -> list[Tensor]:
        """Return the states, one (B, S, H), from word vectors (B, S, d)."""
        halves = self.pair.halves(x)
        # If all pairs of a batch fit into one block, the backward pass keeps them; otherwise it
        # computes them again.
        is_small = is_tracing(x) or x.shape[0] * x.shape[1] ** 2 * self.width <= BLOCK_SIZE
        states = []
        for asking, partners in self._blocks(x):
            inputs = (self._mask(rows.real, asking, partners), *_cut(halves, asking, partners))
            if is_small:
                states.append(self.pair(*inputs))
            else:
                states.append(checkpoint(self.pair.relate, *inputs, use_reentrant=False))
        return [torch.cat(states, 1)]

    def attend(self, x: Tensor, rows: Rows) -> Tensor:
        """Return alpha from word vectors (B, S, d): t down, t' across, as rows (B, S, S).

        The weights are 0 where t' is padding, and unspecified where t is padding.
        """
        halves = self.pair.halves(x)
        weights = []
        for asking, partners in self._blocks(x):
            mask = self._mask(rows.real, asking, partners)
            of_block = self.pair.attend(mask, *_cut(halves, asking, partners))
            not_reached = (partners.start, x.shape[1] - partners.stop)
            weights.append(F.pad(of_block, not_reached))
        return torch.cat(weights, 1)

    def _mask(self, real: Tensor, asking: slice, partners: slice) -> Tensor:
        """Return where partners are real and within the window, (B, q, s), from real (B, S)."""
        places = torch.arange(real.shape[1], device=real.device)
        distances = places[asking].unsqueeze(1) - places[partners]
        mask = real[:, partners].unsqueeze(1)
        if self.window is not None:
            return mask & (distances.abs() <= self.window)
        return mask.expand(-1, distances.shape[0], -1)

    def _blocks(self, x: Tensor) -> Iterator[tuple[slice, slice]]:
        """Yield asking tokens and partners with at most `BLOCK_SIZE` pairs, or one asking token."""
        batch, steps, _ = x.shape
        if is_tracing(x):
            yield slice(0, steps), slice(0, steps)
            return
        reach = steps if self.window is None else self.window
        asking = max(1, BLOCK_SIZE // max(1, batch * steps * self.width))  # 1 for no texts
        asking = min(asking, max(reach, SMALLEST_BLOCK))
        for first in range(0, steps, asking):
            last = min(first + asking, steps)
            yield slice(first, last), slice(max(first - reach, 0), min(last + reach, steps))


def _cut(halves: Sequence[Tensor], asking: slice, partners: slice) -> list[Tensor]:
    """Return the halves (B, S, width), which are of asking tokens and of partners by turns."""
    return [half[:, partners if place % 2 else asking] for place, half in enumerate(halves)]
