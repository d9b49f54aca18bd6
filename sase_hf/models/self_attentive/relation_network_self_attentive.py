"""The relation network as an encoder: every state sums what a token has to do with each other one.

Shapes: B sentences, S tokens after left-alignment, P positions after packing, d width of the word
vectors, H width of the states; within a block n sentences, q asking tokens and s partners.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.import_utils import is_tracing

from .configuration_self_attentive import SelfAttentiveConfig
from .packing_self_attentive import Packing

# Numbers in the largest tensor of a block, n * q * s * H; a block holds four to eight of this size.
BLOCK_SIZE = 2**22

# Sentences are related together if the shortest has this share of the tokens of the longest.
LIKE_LENGTH = 0.8


def groups_of_like_length(lengths: list[int], most: int) -> list[tuple[int, int]]:
    """Cut sentences, longest first, into runs that waste little when padded to their longest.

    Args:
        lengths: Tokens of each sentence, longest first.
        most: Tokens of a group, padding included, unless a single sentence has more.

    Returns:
        How many sentences each group has, and the tokens of its longest, at least 1.
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
    """What the asking tokens get from all their partners, summed."""

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
        """Return what each token adds to a pair as its first and as its second member.

        A linear map of [x_t; x_t'] is the sum of one of x_t and one of x_t', so that the first
        layer is computed once for a token and not once for a pair.

        Args:
            x: Word vectors, shape (P, d).

        Returns:
            Two of shape (P, H), then two of shape (P, 1) if there is a gate.
        """
        halves = self.first(x), self.second(x)
        return (*halves, self.first_gate(x), self.second_gate(x)) if self.has_gate else halves

    def forward(self, real: Tensor, first: Tensor, second: Tensor, *gates: Tensor) -> Tensor:
        """Return what `relate` does; transformers checkpoints this method, and not that one."""
        return self.relate(real, first, second, *gates)

    def relate(
        self,
        real: Tensor,
        first: Tensor,
        second: Tensor,
        *gates: Tensor,
        output: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Relate every asking token to every real partner.

        Args:
            real: True on real partners, shape (n, s).
            first: Halves of the asking tokens, shape (n, q, H).
            second: Halves of the partners, shape (n, s, H).
            *gates: The same halves of the gate, if there is one, (n, q, 1) and (n, s, 1).
            output: What stands in for the second layer.

        Returns:
            Shape (n, q, H).
        """
        pairs = F.relu(first.unsqueeze(2) + second.unsqueeze(1))
        relations = F.relu((output or self.output)(pairs))  # (n, q, s, H)
        weights = real.unsqueeze(1).to(relations.dtype).expand(relations.shape[:3])
        if gates:
            weights = weights * (gates[0] + gates[1].mT).sigmoid()
        return (weights.unsqueeze(2) @ relations).squeeze(2)


class Block(NamedTuple):
    """Pairs made at once: where rows (B, S, width) hold the asking tokens and their partners."""

    asking: tuple[Tensor, slice]  # n sentences, and q of their tokens
    partners: tuple[Tensor, slice]  # the same sentences, and s tokens

    def cut(self, halves: Sequence[Tensor]) -> list[Tensor]:
        """Return this block of halves, which are of asking tokens and of partners by turns."""
        return [half[self[i % 2]] for i, half in enumerate(halves)]


def relate_all(
    relate: Callable[..., Tensor], blocks: list[Block], real: Tensor, halves: Sequence[Tensor]
) -> Tensor:
    """Return the states as rows (B, S, H), anything on padding, from halves (B, S, width)."""
    states = torch.zeros_like(halves[0])
    for block in blocks:
        states[block.asking] = relate(real[block.partners], *block.cut(halves))
    return states


class RelationInBlocks(torch.autograd.Function):
    """Relate all tokens a block at a time, and make every block once more for its gradient.

    What lives on is made before the first block. `torch.utils.checkpoint` would do the same but for
    that: the states of a block would then lie where the one before was freed, and so leave no room
    there for the next. Gradients of gradients are refused.
    """

    @staticmethod
    def forward(
        ctx: Any,
        pair: PairFunction,
        blocks: list[Block],
        names: list[str],
        real: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        """Return the states, shape (B, S, H), anything on padding.

        Args:
            ctx: What autograd hands to `backward`.
            pair: Relates the tokens of a block.
            blocks: All pairs, each once.
            names: Those of the weights of `pair.output` that are trained.
            real: True on real tokens, shape (B, S).
            *tensors: What `PairFunction.halves` returns, as rows (B, S, width), and these weights.
        """
        device = real.device.type
        ctx.autocast = device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
        ctx.pair, ctx.blocks, ctx.names = pair, blocks, names
        ctx.save_for_backward(real, *tensors)
        halves = tensors[: len(tensors) - len(names)]
        return relate_all(pair.relate, blocks, real, halves)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the halves and the weights."""
        real, *tensors = ctx.saved_tensors
        count = len(tensors) - len(ctx.names)
        # Copies, because hooks on the weights themselves are for their whole gradient.
        halves, weights = tensors[:count], [w.detach().requires_grad_() for w in tensors[count:]]
        named = dict(zip(ctx.names, weights, strict=True))
        output = partial(functional_call, ctx.pair.output, named)
        # In float32, because each sums over all blocks.
        sums = [
            torch.zeros_like(t, dtype=torch.promote_types(t.dtype, torch.float32)) for t in tensors
        ]
        device, dtype, is_enabled = ctx.autocast
        for block in ctx.blocks:
            inputs = [half.detach().requires_grad_() for half in block.cut(halves)]
            with torch.enable_grad(), torch.autocast(device, dtype, is_enabled):
                states = ctx.pair.relate(real[block.partners], *inputs, output=output)
            parts = torch.autograd.grad(states, (*inputs, *weights), gradient[block.asking])
            for i, part in enumerate(parts[:count]):
                sums[i][block[i % 2]] += part
            for total, part in zip(sums[count:], parts[count:], strict=True):
                total += part
        gradients = (total.to(t.dtype) for total, t in zip(sums, tensors, strict=True))
        return None, None, None, None, *gradients


class RelationNetworkEncoder(nn.Module):
    """h_t = sum over t' of g(x_t, x_t') f(x_t, x_t'), over all ordered pairs of a sentence.

    f has two ReLU layers (Santoro et al., 2017). g is 1, or, with `relation_gate`, the sigmoid of
    a linear map of the pair. The time is quadratic in the length: a text of 1,000 tokens has a
    million pairs. The memory is not, because pairs are made a block at a time, in training once
    more for the gradient; only traced and compiled graphs hold all pairs of a batch at once.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.width = config.hidden_size
        self.pair = PairFunction(config)

    def forward(self, x: Tensor, packing: Packing) -> list[Tensor]:
        """Return the states, one (P, H), from word vectors (P, d)."""
        halves = [packing.unpack(half) for half in self.pair.halves(x)]
        states = self._relate(packing, halves)
        positions = packing.order[packing.rank] * states.shape[1] + packing.step
        return [states.flatten(0, 1).index_select(0, positions)]

    def _relate(self, packing: Packing, halves: list[Tensor]) -> Tensor:
        """Return the states as rows (B, S, H) from halves (B, S, width)."""
        if is_tracing(packing.real):
            return self.pair(packing.real, *halves)
        blocks = self._blocks(packing)
        batch, steps = packing.real.shape
        if batch * steps**2 * self.width <= BLOCK_SIZE:  # so little that the gradient keeps it all
            return relate_all(self.pair, blocks, packing.real, halves)
        weights = {n: w for n, w in self.pair.output.named_parameters() if w.requires_grad}
        fixed = self.pair, blocks, list(weights), packing.real
        return RelationInBlocks.apply(*fixed, *halves, *weights.values())

    def _blocks(self, packing: Packing) -> list[Block]:
        """Cut the pairs of a batch into blocks of at most `BLOCK_SIZE`, or of one asking token."""
        batch, steps = packing.real.shape
        groups = [(batch, steps)]  # one where lengths are not looked at
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


__all__ = [
    "Block",
    "PairFunction",
    "RelationInBlocks",
    "RelationNetworkEncoder",
    "groups_of_like_length",
]
