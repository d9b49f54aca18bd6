"""Encoders: from word vectors to the states H that the pooling reads.

Shapes: B sentences, T tokens as they came, S tokens after left-alignment (S <= T), P positions
after packing, d width of the word vectors, u LSTM units per direction, H = 2u width of the states.

Padding never enters a state that is used, and little of it is read. Each batch is packed once
(`Packing`): the real tokens of all sentences go into one flat sequence, step by step, and sentences
that have ended drop out. A bidirectional layer is then two one-way LSTMs, the second reading every
sentence from its own last token. That is exact like `pack_padded_sequence`, several times faster in
training, linear in the length, and, unlike it, passes through `torch.export` and ONNX.
"""

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.import_utils import is_tracing

from .configuration_self_attentive import SelfAttentiveConfig

# One more call of the LSTM costs about as much as so many tokens or a few more, so up to here a
# block rather reads padding. Measured on a CPU: between 25 and 80 the time is the same.
CALL_IN_TOKENS = 25

# Under gradient checkpointing, the steps whose inner states are in memory at a time.
CHECKPOINTED_STEPS = 256


def dense_blocks(lengths: list[int]) -> list[tuple[int, int]]:
    """Cut the steps of a batch where enough sentences have ended to pay for another LSTM call.

    Args:
        lengths: Tokens of each sentence, longest first.

    Returns:
        Steps and sentences of each block, in order, with at least one position in all.
    """
    blocks: list[tuple[int, int]] = []
    done, rows = 0, len(lengths) - lengths.count(0)
    padding = 0  # what reading on to the end of the last row looked at would waste
    for row in range(rows - 1, 0, -1):
        reached, longer = lengths[row], lengths[row - 1]
        padding += (rows - row) * (longer - reached)
        if padding > CALL_IN_TOKENS and reached > done:
            blocks.append((reached - done, rows))
            done, rows, padding = reached, row, 0
    return [*blocks, (max(lengths[0] - done, 1), max(rows, 1))]


class Packing:
    """Where the real tokens stand in the packed sequence, and the way there and back.

    The packed sequence holds the first tokens of all sentences, the longest sentence first, then
    their second tokens, and so on. It falls into blocks in which the number of sentences stays the
    same, so that an LSTM reads each as a dense batch. A sentence that ends within a block repeats
    its last token to the end of it; what comes of these repetitions is never read.

    Args:
        mask: True on real tokens, in any place of a row, shape (B, T), T >= 1.

    Attributes:
        mask: As given.
        blocks: Steps and sentences of each block; their steps sum to S, their products to P.
        mirror: For every position the one of the same sentence that is as far from the sentence's
            end as this one is from its start, shape (P,).
        real: True on the real tokens of left-aligned rows, shape (B, S).
        has_empty: Whether there may be sentences without tokens.
    """

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask
        batch, length = mask.shape
        lengths = mask.sum(1)
        sentences = order = torch.arange(batch, device=mask.device)
        # On an accelerator, reading the lengths would wait for the device at every step, and a
        # traced or compiled graph must not depend on the values of a mask: one block for all.
        if is_tracing(mask) or mask.device.type != "cpu" or batch == 0:
            self.blocks, self.has_empty = [(length, batch)], True
        else:
            sorted_lengths, order = lengths.sort(descending=True, stable=True)
            self.blocks = dense_blocks(sorted_lengths.tolist())
            self.has_empty = bool(sorted_lengths[-1] == 0)
        first, step, rank = self._positions()

        sentence = order[rank]
        last = (lengths[sentence] - 1).clamp(min=0)
        self._tokens = sentence * length + self._columns(lengths)[sentence, step.minimum(last)]
        self.mirror = first[(last - step).clamp(min=0)] + rank

        steps = first.shape[0]
        self.real = torch.arange(steps, device=mask.device) < lengths.unsqueeze(1)
        rank_of_sentence = torch.zeros_like(order).scatter(0, order, sentences)
        rows = first * self.real + rank_of_sentence.unsqueeze(1)
        self._rows = rows.flatten().clamp(max=rank.shape[0] - 1)
        step_of_token = (mask.cumsum(1) - 1) * mask
        self._places = (step_of_token + sentences.unsqueeze(1) * steps).flatten()

    def _positions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return each step's first position, and each position's step and rank in its block."""
        firsts, steps, ranks = [], [], []
        done = packed = 0
        for length, rows in self.blocks:
            within = torch.arange(length, device=self.mask.device)
            rank = torch.arange(rows, device=self.mask.device)
            firsts.append(packed + within * rows)
            steps.append((done + within).unsqueeze(1).expand(-1, rows).flatten())
            ranks.append(rank.expand(length, -1).flatten())
            done, packed = done + length, packed + length * rows
        return torch.cat(firsts), torch.cat(steps), torch.cat(ranks)

    def _columns(self, lengths: Tensor) -> Tensor:
        """Return where in its row the n-th real token of each sentence is, shape (B, T)."""
        counts = self.mask.long()
        columns = torch.arange(self.mask.shape[1], device=self.mask.device).expand_as(counts)
        # Real tokens get the ranks 0, 1, ...; padding the ranks after them. (A stable argsort would
        # say the same, but has no ONNX operator.)
        padding_rank = lengths.unsqueeze(1) + (1 - counts).cumsum(1) - 1
        rank = torch.where(self.mask, counts.cumsum(1) - 1, padding_rank)
        return torch.zeros_like(rank).scatter(1, rank, columns)

    def pack(self, x: Tensor) -> Tensor:
        """Put the real tokens into the packed sequence: (B, T, width) -> (P, width)."""
        return x.flatten(0, 1).index_select(0, self._tokens)

    def unpack(self, packed: Tensor) -> Tensor:
        """Put the packed tokens into left-aligned rows: (P, width) -> (B, S, width).

        On padding stands a token of the same sentence, or, if it has none, of any.
        """
        return packed.index_select(0, self._rows).unflatten(0, tuple(self.real.shape))

    def restore(self, rows: Tensor) -> Tensor:
        """Put tokens back where they were, zeros on padding: (B, S, width) -> (B, T, width)."""
        tokens = rows.flatten(0, 1).index_select(0, self._places)
        return tokens.unflatten(0, tuple(self.mask.shape)).masked_fill(~self.mask.unsqueeze(-1), 0)


class BlockLSTM(GradientCheckpointingLayer, nn.LSTM):
    """One LSTM in one direction; what gradient checkpointing runs twice is one call of it."""

    def forward(  # type: ignore[override]  # checkpointing follows no tensors in tuples
        self, x: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read a dense block, going on from the states before it.

        Args:
            x: Inputs, shape (steps, sentences, width).
            hidden: Shape (1, sentences, u).
            cell: Likewise.

        Returns:
            The states of all steps, and `hidden` and `cell` after the last.
        """
        output, (hidden, cell) = nn.LSTM.forward(self, x, (hidden, cell))
        return output, hidden, cell


class BiLSTMLayer(nn.Module):
    """One bidirectional LSTM layer over a packed sequence (section 2.1 of the paper)."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.forward_lstm = BlockLSTM(input_size, units)
        self.backward_lstm = BlockLSTM(input_size, units)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Return the states of both directions.

        Args:
            x: Packed inputs, shape (P, width).
            packing: What packed them.

        Returns:
            Shape (P, H).
        """
        left_to_right = self._read(self.forward_lstm, x, packing)
        right_to_left = self._read(self.backward_lstm, x.index_select(0, packing.mirror), packing)
        return torch.cat([left_to_right, right_to_left.index_select(0, packing.mirror)], dim=-1)

    @staticmethod
    def _read(lstm: BlockLSTM, x: Tensor, packing: Packing) -> Tensor:
        """Run one LSTM over the blocks, (P, width) -> (P, u), each going on from the one before."""
        blocks = packing.blocks
        if lstm.gradient_checkpointing and lstm.training:
            blocks = [
                (min(CHECKPOINTED_STEPS, steps - done), rows)
                for steps, rows in blocks
                for done in range(0, steps, CHECKPOINTED_STEPS)
            ]
        # One split, because a slice for each block would make the backward pass fill all of x anew
        # for each.
        parts = x.split([steps * rows for steps, rows in blocks]) if len(blocks) > 1 else (x,)
        outputs: list[Tensor] = []
        hidden = cell = x.new_zeros(1, blocks[0][1], lstm.hidden_size)
        for part, (steps, rows) in zip(parts, blocks, strict=True):
            part = part.unflatten(0, (steps, rows))
            output, hidden, cell = lstm(part, hidden[:, :rows], cell[:, :rows])
            outputs.append(output.flatten(0, 1))
        return torch.cat(outputs)


class BiLSTMEncoder(nn.Module):
    """A stack of bidirectional LSTM layers."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        widths = [config.embedding_size] + [config.hidden_size] * (config.num_lstm_layers - 1)
        self.layers = nn.ModuleList(BiLSTMLayer(width, config.lstm_hidden_size) for width in widths)

    def forward(self, x: Tensor, packing: Packing) -> list[Tensor]:
        """Return the states of every layer, lowest first.

        Args:
            x: Packed word vectors, shape (P, d).
            packing: What packed them.

        Returns:
            One packed tensor of shape (P, H) per layer.
        """
        states = []
        for layer in self.layers:
            x = layer(x, packing)
            states.append(x)
        return states


__all__ = ["BiLSTMEncoder", "BiLSTMLayer", "BlockLSTM", "Packing", "dense_blocks"]
