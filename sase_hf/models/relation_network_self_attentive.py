"""The relation network as an encoder: every state sums the relations of a token to all tokens.

Shapes: B sentences, S tokens after left-alignment, P positions after packing, d width of the word
vectors, H width of the states; within a block n sentences, q asking tokens and s partners.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.import_utils import is_tracing

from .configuration_self_attentive import SelfAttentiveConfig
from .packing_self_attentive import Packing

# Numbers in the largest tensor of a block, n * q * s * H; a block has four to eight such tensors.
BLOCK_SIZE = 2**22

# A block has as many asking tokens as the window reaches to either side, but at least this number.
SMALLEST_BLOCK = 16

# Sentences share a block if the shortest has at least this share of the tokens of the longest.
LIKE_LENGTH = 0.8


def groups_of_like_length(lengths: list[int], most: int) -> list[tuple[int, int]]:
    """Cut sentences, longest first, into groups that waste little when padded to their longest.

    A group has at most `most` tokens with padding, or one sentence. The result has the
    sentences of each group and the tokens of its longest sentence, at least 1.
    """
    groups: list[tuple[int, int]] = []
    for length in lengths:
        size, longest = groups[-1] if groups else (0, 0)
        if groups and length >= LIKE_LENGTH * longest and (size + 1) * longest <= most:
            groups[-1] = (size + 1, longest)
        else:
            groups.append((1, max(length, 1)))
    return groups


class Block(NamedTuple):
    """Pairs computed at once: the indices of asking tokens and partners in rows (B, S, width)."""

    asking: tuple[Tensor, slice]  # n sentences, and q of their tokens
    partners: tuple[Tensor, slice]  # the same sentences, and s tokens

    def cut(self, halves: Sequence[Tensor]) -> list[Tensor]:
        """Return this block of the halves, which belong to asking tokens and partners by turns."""
        return [half[self[i % 2]] for i, half in enumerate(halves)]


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
        """Return the first layer of word vectors (P, d) as first and as second token of a pair.

        A linear map of [x_t; x_t'] is the sum of one of x_t and one of x_t', so the first layer is
        computed once per token: two of shape (P, H), then two of shape (P, 1) if there is a gate.
        """
        if self.weights == "sigmoid":
            return self.first(x), self.second(x), self.first_gate(x), self.second_gate(x)
        return self.first(x), self.second(x)

    def forward(self, mask: Tensor, block: Block | None, *halves: Tensor) -> Tensor:
        """Return `relate`; transformers checkpoints this method, but not `relate`."""
        return self.relate(mask, block, *halves)

    def relate(self, mask: Tensor, block: Block | None, *halves: Tensor) -> Tensor:
        """Return the weighted sum of the relations of every asking token, shape (n, q, H).

        `mask` is True where a partner is real and within reach, shape (n, q, s). The halves are
        rows (B, S, width), of which the block cuts its own; without a block all tokens ask all.
        """
        first, second, *gates = block.cut(halves) if block else halves
        pairs = F.relu(first.unsqueeze(2) + second.unsqueeze(1))
        relations = F.relu(self.output(pairs))  # (n, q, s, H)
        weights = self._weigh(mask, pairs, *gates).to(relations.dtype)
        return (weights.unsqueeze(2) @ relations).squeeze(2)

    def attend(self, mask: Tensor, block: Block | None, *halves: Tensor) -> Tensor:
        """Return the weights of the pairs alone, (n, q, s); the arguments are those of `relate`."""
        first, second, *gates = block.cut(halves) if block else halves
        pairs = F.relu(first.unsqueeze(2) + second.unsqueeze(1))
        return self._weigh(mask, pairs, *gates)

    def _weigh(self, mask: Tensor, pairs: Tensor, *gates: Tensor) -> Tensor:
        """Return the weights (n, q, s) of pairs (n, q, s, H), in at least float32 for a softmax."""
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

    def forward(self, x: Tensor, packing: Packing) -> list[Tensor]:
        """Return the states, one (P, H), from word vectors (P, d)."""
        halves = [packing.unpack(half) for half in self.pair.halves(x)]
        real = packing.real
        if is_tracing(real):
            return [packing.pack_rows(self.pair(self._mask(real), None, *halves))]
        # If all pairs of a batch fit into one block, the backward pass keeps them; otherwise it
        # computes them again.
        is_small = real.shape[0] * real.shape[1] ** 2 * self.width <= BLOCK_SIZE
        states = torch.zeros_like(halves[0])
        for block, mask in self._blocks(packing):
            inputs = (mask, block, *halves)  # whole: cuts are copies, which would stay in memory
            if is_small:
                states[block.asking] = self.pair(*inputs)
            else:
                related = checkpoint(self.pair.relate, *inputs, use_reentrant=False)
                states[block.asking] = related
        return [packing.pack_rows(states)]

    def attend(self, x: Tensor, packing: Packing) -> Tensor:
        """Return alpha from word vectors (P, d): t down, t' across, as rows (B, S, S).

        The weights are 0 where t' is padding, and unspecified where t is padding.
        """
        halves = [packing.unpack(half) for half in self.pair.halves(x)]
        real = packing.real
        if is_tracing(real):
            return self.pair.attend(self._mask(real), None, *halves)
        dtype = torch.promote_types(x.dtype, torch.float32)
        weights = x.new_zeros((*real.shape, real.shape[1]), dtype=dtype)
        for block, mask in self._blocks(packing):
            sentences, asking = block.asking
            _, partners = block.partners
            weights_of_block = self.pair.attend(mask, block, *halves)
            weights[sentences, asking, partners] = weights_of_block.to(dtype)
        return weights

    def _mask(
        self, real: Tensor, asking: slice = slice(None), partners: slice = slice(None)
    ) -> Tensor:
        """Return where partners are real and within the window, (n, q, s), from real (n, S)."""
        places = torch.arange(real.shape[1], device=real.device)
        distances = places[asking].unsqueeze(1) - places[partners]
        mask = real[:, partners].unsqueeze(1)
        if self.window is not None:
            return mask & (distances.abs() <= self.window)
        return mask.expand(-1, distances.shape[0], -1)

    def _blocks(self, packing: Packing) -> Iterator[tuple[Block, Tensor]]:
        """Yield blocks of at most `BLOCK_SIZE` pairs, or of one asking token, and their masks."""
        batch, steps = packing.real.shape
        groups = [(batch, steps)]  # a single one where the lengths are unknown
        if packing.lengths is not None:
            groups = groups_of_like_length(packing.lengths, BLOCK_SIZE // self.width)
        rank = 0
        for size, length in groups:
            sentences = packing.order[rank : rank + size]
            each = max(1, size * length * self.width)  # 1 in a batch of nothing
            asking = max(1, BLOCK_SIZE // each)
            reach = length if self.window is None else self.window
            asking = min(asking, max(reach, SMALLEST_BLOCK))
            for first in range(0, length, asking):
                last = min(first + asking, length)
                partners = slice(max(first - reach, 0), min(last + reach, length))
                block = Block((sentences, slice(first, last)), (sentences, partners))
                yield block, self._mask(packing.real[sentences], slice(first, last), partners)
            rank += size
