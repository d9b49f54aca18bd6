"""The relation network as an encoder: every state sums what a token has to do with each other one.

Shapes: B sentences, S tokens after left-alignment, P positions after packing, d width of the word
vectors, H width of the states; within a block n sentences, q asking tokens and s partners.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
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
        batch, steps = packing.real.shape
        groups = [(batch, steps)]  # one where lengths are not looked at
        if packing.lengths is not None:
            groups = groups_of_like_length(packing.lengths, BLOCK_SIZE // self.width)
        states, starts, rank, done = [], [], 0, 0
        for size, length in groups:
            sentences = packing.order[rank : rank + size]
            real, *chosen = (
                rows.index_select(0, sentences)[:, :length] for rows in (packing.real, *halves)
            )
            states.append(self._relate(real, chosen).flatten(0, 1))
            starts.append(done + length * torch.arange(size, device=x.device))
            rank, done = rank + size, done + size * length
        positions = torch.cat(starts)[packing.rank] + packing.step
        return [torch.cat(states).index_select(0, positions)]

    def _relate(self, real: Tensor, halves: list[Tensor]) -> Tensor:
        """Return (n, s, H) for a group of sentences, block by block."""
        size, length = real.shape
        first, second, *gates = halves
        if is_tracing(real) or size * length**2 * self.width <= BLOCK_SIZE:
            return self.pair(real, first, second, *gates)
        asking = max(1, BLOCK_SIZE // (size * length * self.width))
        # Nothing here is random, so there is no state of a generator to keep.
        relate = partial(
            checkpoint, self.pair.relate, use_reentrant=False, preserve_rng_state=False
        )
        blocks = []
        for tokens, *gate in zip(*(half.split(asking, 1) for half in halves[::2]), strict=True):
            inputs = (real, tokens, second, *gate, *gates[1:])
            blocks.append(relate(*inputs) if torch.is_grad_enabled() else self.pair(*inputs))
        return torch.cat(blocks, dim=1)


__all__ = ["PairFunction", "RelationNetworkEncoder", "groups_of_like_length"]
