"""Packing: the real tokens of a batch in one sequence without padding, and the way there and back.

This is `pack_padded_sequence` with exact gradients in a graph that can be exported; it does not put
several texts into one row of a language model.

Shapes: B sentences, T tokens as they came, S tokens of the longest sentence after left-alignment,
P positions after packing; S and P include the spare ones of `LENGTHS_PER_OCTAVE`, if any.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.utils.import_utils import is_tracing

# Another call of the LSTM costs about as much as reading this many tokens, so a block reads up to
# this much padding before a new block begins. On a CPU, values from 25 to 80 take the same time.
CALL_IN_TOKENS = 25
# In half precision oneDNN compiles code for each new number of rows of a product and never frees
# it, up to a MiB each time. A packed sequence therefore has one of this many lengths from n to 2 n.
LENGTHS_PER_OCTAVE = 16
COMPILED = (torch.bfloat16, torch.float16)


def dense_blocks(lengths: list[int]) -> list[tuple[int, int]]:
    """Cut the steps of a batch where enough sentences have ended to pay for another LSTM call.

    `lengths` holds the tokens of each sentence, longest first. The result has the steps and the
    sentences of each block, in order; the blocks hold at least one position.
    """
    blocks: list[tuple[int, int]] = []
    done = 0
    rows = len(lengths) - lengths.count(0)
    padding = 0  # positions of padding if the block went on to the end of the current row
    for row in range(rows - 1, 0, -1):
        reached = lengths[row]
        longer = lengths[row - 1]
        padding += (rows - row) * (longer - reached)
        if padding > CALL_IN_TOKENS and reached > done:
            blocks.append((reached - done, rows))
            done = reached
            rows = row
            padding = 0
    blocks.append((max(lengths[0] - done, 1), max(rows, 1)))
    return blocks


def _spare(positions: int) -> int:
    """Return how many positions are missing to the next length that a packed sequence may have."""
    unit = 1 << max(positions.bit_length() - LENGTHS_PER_OCTAVE.bit_length(), 0)
    return -positions % unit


def _precision(dtype: torch.dtype) -> torch.dtype:
    """Return the precision in which a CPU reads tensors of a type: under autocast, that of it."""
    return torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else dtype


def real_tokens(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    """Return True on real tokens, (B, T); without a mask every token is real."""
    if attention_mask is None:
        return torch.ones_like(input_ids, dtype=torch.bool)
    return attention_mask != 0


def tokens_of_sides(real: Tensor, token_type_ids: Tensor) -> Tensor:
    """Return which real tokens (B, T) are of the first text of a pair and of the second: (B, 2, T).

    Token types are 0 on the first text and 1 on the second, (B, T).
    """
    return torch.stack([token_type_ids == 0, token_type_ids == 1], 1) & real.unsqueeze(1)


def columns_of_tokens(mask: Tensor, lengths: Tensor) -> Tensor:
    """Return where in its row the n-th real token of each sentence is, those of padding last.

    Mask and result have the shape (B, T), the lengths (B,) are the real tokens of each sentence.
    """
    counts = mask.long()
    columns = torch.arange(mask.shape[1], device=mask.device).expand_as(counts)
    # Real tokens get the ranks 0, 1, ...; padding the ranks after them. (A stable argsort would
    # give the same, but has no ONNX operator.)
    padding_rank = lengths.unsqueeze(1) + (1 - counts).cumsum(1) - 1
    rank = torch.where(mask, counts.cumsum(1) - 1, padding_rank)
    return torch.zeros_like(rank).scatter(1, rank, columns)


class Packing:
    """The positions of the real tokens in the packed sequence, and the way there and back.

    The packed sequence holds the first tokens of all sentences, the longest sentence first, then
    their second tokens, and so on. It falls into blocks in which the number of sentences stays the
    same, so that an LSTM reads each as a dense batch. A sentence that ends within a block repeats
    its last token to the end of the block, and spare positions behind the last block hold the first
    token of the longest sentence; the results of these repetitions are never read.

    Args:
        mask: True on real tokens, anywhere in a row, shape (B, T), T >= 1.
        dtype: The precision of the packed tensors; under autocast, the precision of autocast.
        limit: The most real tokens of a row, if that is known.

    Attributes:
        blocks: Steps and sentences of each block; without spare positions, their steps sum to S and
            their products to P.
        spare: The number of spare positions of P.
        order: The sentences by rank, longest first, shape (B,).
        lengths: Tokens of each sentence by rank, or None where reading them would cost too much.
        real: True on the real tokens of left-aligned rows, shape (B, S).
    """

    def __init__(
        self, mask: Tensor, dtype: torch.dtype = torch.float32, limit: int | None = None
    ) -> None:
        self.mask = mask
        batch, length = mask.shape
        lengths = mask.sum(1)
        sentences = self.order = torch.arange(batch, device=mask.device)
        self.lengths: list[int] | None = None
        # On an accelerator, reading the lengths would wait for the device at every step, and a
        # traced or compiled graph must not depend on the values of a mask: one block for all.
        if is_tracing(mask) or mask.device.type != "cpu" or batch == 0:
            steps = length if limit is None or is_tracing(mask) else min(length, limit)
            self.blocks = [(steps, batch)]
        else:
            sorted_lengths, self.order = lengths.sort(descending=True, stable=True)
            self.lengths = sorted_lengths.tolist()
            self.blocks = dense_blocks(self.lengths)
        self.spare = spare_steps = 0
        if self.lengths is not None and _precision(dtype) in COMPILED:
            self.spare = _spare(sum(steps * rows for steps, rows in self.blocks))
            spare_steps = _spare(sum(steps for steps, _ in self.blocks))
        first, step, self._rank = self._positions()
        self._first = F.pad(first, (0, spare_steps))

        sentence = self.order[self._rank]
        self._last = (lengths[sentence] - 1).clamp(min=0)
        self._step = step.minimum(self._last)
        self._step_of_position = step
        self._tokens = sentence * length + columns_of_tokens(mask, lengths)[sentence, self._step]
        self._reverse_index = self._first[(self._last - step).clamp(min=0)] + self._rank

        steps = self._first.shape[0]
        self.real = torch.arange(steps, device=mask.device) < lengths.unsqueeze(1)
        rank_of_sentence = torch.zeros_like(self.order).scatter(0, self.order, sentences)
        rows = self._first * self.real + rank_of_sentence.unsqueeze(1)
        self._rows = rows.flatten().clamp(max=self._rank.shape[0] - 1)
        self._step_of_token = (mask.cumsum(1) - 1) * mask
        self._places = (self._step_of_token + sentences.unsqueeze(1) * steps).flatten()

    @property
    def repeats(self) -> Tensor:
        """True on positions that repeat the last token of a sentence, shape (P,)."""
        return self._step_of_position > self._last

    def _positions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return each step's first position, and each position's step and rank in its block."""
        firsts = []
        steps = []
        ranks = []
        num_steps = 0  # of the blocks before this one
        num_positions = 0
        for length, rows in self.blocks:
            within = torch.arange(length, device=self.mask.device)
            rank = torch.arange(rows, device=self.mask.device)
            firsts.append(num_positions + within * rows)
            steps.append((num_steps + within).unsqueeze(1).expand(-1, rows).flatten())
            ranks.append(rank.expand(length, -1).flatten())
            num_steps += length
            num_positions += length * rows
        step = F.pad(torch.cat(steps), (0, self.spare))
        rank = F.pad(torch.cat(ranks), (0, self.spare))
        return torch.cat(firsts), step, rank

    def pack(self, x: Tensor) -> Tensor:
        """Put the real tokens into the packed sequence: (B, T, width) -> (P, width)."""
        return x.flatten(0, 1).index_select(0, self._tokens)

    def unpack(self, packed: Tensor) -> Tensor:
        """Put the packed tokens into left-aligned rows: (P, width) -> (B, S, width).

        Padding holds a token of the same sentence, or of any sentence if it has no tokens.
        """
        return packed.index_select(0, self._rows).unflatten(0, tuple(self.real.shape))

    def mirror(self, packed: Tensor) -> Tensor:
        """Read every sentence backwards, the last token first: (P, width) -> (P, width)."""
        return packed.index_select(0, self._reverse_index)

    def pack_rows(self, rows: Tensor) -> Tensor:
        """Put left-aligned rows into the packed sequence: (B, S, width) -> (P, width)."""
        positions = self.order[self._rank] * rows.shape[1] + self._step
        return rows.flatten(0, 1).index_select(0, positions)

    def restore(self, rows: Tensor) -> Tensor:
        """Put tokens back where they were, zeros on padding: (B, S, width) -> (B, T, width)."""
        tokens = rows.flatten(0, 1).index_select(0, self._places)
        return tokens.unflatten(0, tuple(self.mask.shape)).masked_fill(~self.mask.unsqueeze(-1), 0)

    def restore_pairs(self, weights: Tensor) -> Tensor:
        """Put weights of pairs of tokens back, zeros on padding: (B, S, S) -> (B, T, T)."""
        sentences = torch.arange(self.mask.shape[0], device=self.mask.device).view(-1, 1, 1)
        first = self._step_of_token.unsqueeze(2)
        second = self._step_of_token.unsqueeze(1)
        is_pair = self.mask.unsqueeze(2) & self.mask.unsqueeze(1)
        return weights[sentences, first, second].masked_fill(~is_pair, 0)

    def windows(self, packed: Tensor, offsets: Sequence[int]) -> Tensor:
        """Gather neighbours of every token in its sentence, zeros beyond either end.

        `packed` is (P, width); an offset is the distance to a neighbour, in tokens, negative
        before the token. The result is (P, offsets, width).
        """
        positions = []
        for offset in offsets:
            there = self._step + offset
            inside = (there >= 0) & (there <= self._last)
            position = self._first[there.clamp(0, self._first.shape[0] - 1)] + self._rank
            positions.append((position + 1).masked_fill(~inside, 0))
        with_zeros = F.pad(packed, (0, 0, 1, 0))  # row 0 is for neighbours outside the sentence
        chosen = with_zeros.index_select(0, torch.stack(positions, 1).flatten())
        return chosen.unflatten(0, (-1, len(offsets)))


class DensePacking(Packing):
    """The packing of a batch without padding, T > 0: each step has all sentences in their order.

    Its results are those of `Packing`. Where no position needs an index, a single text is read
    without the many small operations that find them.
    """

    def __init__(self, mask: Tensor) -> None:
        batch, length = mask.shape
        self.mask = mask
        self.real = mask
        self.order = torch.arange(batch, device=mask.device)
        self.lengths = [length] * batch
        self.blocks = [(length, batch)]
        self.spare = 0

    @property
    def repeats(self) -> Tensor:
        """As that of `Packing`: no position repeats a token."""
        return torch.zeros_like(self.mask).flatten()

    def pack(self, x: Tensor) -> Tensor:
        """As `Packing.pack`."""
        return x.transpose(0, 1).flatten(0, 1)

    def unpack(self, packed: Tensor) -> Tensor:
        """As `Packing.unpack`; S is T."""
        return packed.unflatten(0, self.blocks[0]).transpose(0, 1)

    def mirror(self, packed: Tensor) -> Tensor:
        """As `Packing.mirror`."""
        return packed.unflatten(0, self.blocks[0]).flip(0).flatten(0, 1)

    def pack_rows(self, rows: Tensor) -> Tensor:
        """As `Packing.pack_rows`."""
        return self.pack(rows)

    def restore(self, rows: Tensor) -> Tensor:
        """As `Packing.restore`."""
        return rows

    def restore_pairs(self, weights: Tensor) -> Tensor:
        """As `Packing.restore_pairs`."""
        return weights

    def windows(self, packed: Tensor, offsets: Sequence[int]) -> Tensor:
        """As `Packing.windows`."""
        steps = packed.unflatten(0, self.blocks[0])  # (T, B, width)
        neighbours = []
        for offset in offsets:
            before = max(-offset, 0)
            after = max(offset, 0)
            with_zeros = F.pad(steps, (0, 0, 0, 0, before, after))
            neighbours.append(with_zeros[after : after + len(steps)])
        return torch.stack(neighbours, 2).flatten(0, 1)


def has_no_padding(mask: Tensor) -> bool:
    """Return True for a mask (B, T), not empty, that is True everywhere.

    This is asked only where the answer costs nothing, on a CPU and in no graph; elsewhere the
    answer is False.
    """
    has_values = mask.device.type == "cpu" and not is_tracing(mask)
    return has_values and mask.numel() > 0 and bool(mask.all())


def packing_of(
    mask: Tensor, dtype: torch.dtype = torch.float32, limit: int | None = None
) -> Packing:
    """Return the packing of a batch; the arguments are those of `Packing`."""
    is_half = _precision(dtype) in COMPILED
    if not is_half and has_no_padding(mask):
        return DensePacking(mask)
    return Packing(mask, dtype, limit)
