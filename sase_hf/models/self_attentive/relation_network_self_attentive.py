"""The relation network as an encoder: every state sums the relations of a token to all others.

Shapes: B sentences, S tokens after left-alignment, P positions after packing, d width of the word
vectors, H width of the states; within a block n sentences, q asking tokens and s partners.
"""

from collections.abc import Sequence
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

# Sentences share a block if the shortest has at least this share of the tokens of the longest.
LIKE_LENGTH = 0.8


def groups_of_like_length(lengths: list[int], most: int) -> list[tuple[int, int]]:
    """Cut sentences, longest first, into groups that waste little when padded to their longest.

    A group has at most `most` tokens with padding, or one sentence. Returned are the sentences of
    each group and the tokens of its longest, at least 1.
    """
    groups: list[tuple[int, int]] = []
    for length in lengths:
        size, longest = groups[-1] if groups else (0, 0)
        if groups and length >= LIKE_LENGTH * longest and (size + 1) * longest <= most:
            groups[-1] = (size + 1, longest)
        else:
            groups.append((1, max(length, 1)))
    return groups


class PairFunction(GradientCheckpointingLayer):
    """The relations of the asking tokens to all their partners, summed."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        d, width = config.embedding_size, config.hidden_size
        self.first = nn.Linear(d, width)
        self.second = nn.Linear(d, width, bias=False)
        self.output = nn.Linear(width, width)
        self.has_gate = config.relation_gate
        if self.has_gate:
            self.first_gate = nn.Linear(d, 1)
            self.second_gate = nn.Linear(d, 1, bias=False)

    def halves(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the first layer of word vectors (P, d) as first and as second token of a pair.

        A linear map of [x_t; x_t'] is the sum of one of x_t and one of x_t', so the first layer is
        computed once per token: two of shape (P, H), then two of shape (P, 1) if there is a gate.
        """
        halves = self.first(x), self.second(x)
        return (*halves, self.first_gate(x), self.second_gate(x)) if self.has_gate else halves

    def forward(self, real: Tensor, first: Tensor, second: Tensor, *gates: Tensor) -> Tensor:
        """Return `relate`; transformers checkpoints this method, but not `relate`."""
        return self.relate(real, first, second, *gates)

    def relate(self, real: Tensor, first: Tensor, second: Tensor, *gates: Tensor) -> Tensor:
        """Relate every asking token to every real partner.

        Args:
            real: True on real partners, shape (n, s).
            first: Halves of the asking tokens, shape (n, q, H).
            second: Halves of the partners, shape (n, s, H).
            *gates: The same halves of the gate, if there is one, (n, q, 1) and (n, s, 1).

        Returns:
            Shape (n, q, H).
        """
        pairs = F.relu(first.unsqueeze(2) + second.unsqueeze(1))
        relations = F.relu(self.output(pairs))  # (n, q, s, H)
        weights = real.unsqueeze(1).to(relations.dtype).expand(relations.shape[:3])
        if gates:
            weights = weights * (gates[0] + gates[1].mT).sigmoid()
        return (weights.unsqueeze(2) @ relations).squeeze(2)


class Block(NamedTuple):
    """Pairs computed at once: the indices of asking tokens and partners in rows (B, S, width)."""

    asking: tuple[Tensor, slice]  # n sentences, and q of their tokens
    partners: tuple[Tensor, slice]  # the same sentences, and s tokens

    def cut(self, halves: Sequence[Tensor]) -> list[Tensor]:
        """Return this block of the halves, which belong to asking tokens and partners by turns."""
        return [half[self[i % 2]] for i, half in enumerate(halves)]


class RelationNetworkEncoder(nn.Module):
    """h_t = sum over t' of g(x_t, x_t') f(x_t, x_t'), over all ordered pairs of a sentence.

    f has two ReLU layers (Santoro et al., 2017). g is 1, or, with `relation_gate`, the sigmoid of
    a linear map of the pair. The time is quadratic in the length: a text of 1,000 tokens has a
    million pairs. The memory is not, because pairs are computed block by block, in training twice
    (`torch.utils.checkpoint`); only traced and compiled graphs hold all pairs of a batch at once.

    The second time reads the weights of the module itself: after `torch.func.functional_call` with
    other weights, the gradients of a batch with more than one block are wrong.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.width = config.hidden_size
        self.pair = PairFunction(config)

    def forward(self, x: Tensor, packing: Packing) -> list[Tensor]:
        """Return the states, one (P, H), from word vectors (P, d)."""
        halves = [packing.unpack(half) for half in self.pair.halves(x)]
        return [packing.pack_rows(self._relate(packing, halves))]

    def _relate(self, packing: Packing, halves: list[Tensor]) -> Tensor:
        """Return the states as rows (B, S, H) from halves (B, S, width)."""
        real = packing.real
        if is_tracing(real):
            return self.pair(real, *halves)
        # A gradient keeps all pairs of a batch as small as one block.
        is_small = real.shape[0] * real.shape[1] ** 2 * self.width <= BLOCK_SIZE
        states = torch.zeros_like(halves[0])
        for block in self._blocks(packing):
            if is_small:
                states[block.asking] = self.pair(real[block.partners], *block.cut(halves))
            else:  # the halves go in whole: cuts of them are copies, which would stay in memory
                states[block.asking] = checkpoint(
                    self._relate_block, block, real, *halves, use_reentrant=False
                )
        return states

    def _relate_block(self, block: Block, real: Tensor, *halves: Tensor) -> Tensor:
        """Return the states (n, q, H) of one block."""
        return self.pair.relate(real[block.partners], *block.cut(halves))

    def _blocks(self, packing: Packing) -> list[Block]:
        """Cut the pairs of a batch into blocks of at most `BLOCK_SIZE`, or of one asking token."""
        batch, steps = packing.real.shape
        groups = [(batch, steps)]  # a single one where the lengths are unknown
        if packing.lengths is not None:
            groups = groups_of_like_length(packing.lengths, BLOCK_SIZE // self.width)
        blocks, rank = [], 0
        for size, length in groups:
            sentences = packing.order[rank : rank + size]
            each = max(1, size * length * self.width)  # 1 in a batch of nothing
            asking = max(1, BLOCK_SIZE // each)
            partners = sentences, slice(length)
            for first in range(0, length, asking):
                last = min(first + asking, length)
                blocks.append(Block((sentences, slice(first, last)), partners))
            rank += size
        return blocks


__all__ = ["RelationNetworkEncoder"]
