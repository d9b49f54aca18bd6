"""Encoders: from word vectors to the states H that the pooling reads.

Shapes: B sentences, T tokens as they came, S tokens after left-alignment (S <= T), d width of the
word vectors, u LSTM units per direction, H = 2u width of the states.

Padding never enters a recurrent state. Each batch is aligned once (`Alignment`): real tokens move
to the left in their order, so right, left and holed masks become the same rows. A bidirectional
layer is then two one-way LSTMs, the second reading every row reversed within its own length. That
is exact like `pack_padded_sequence`, several times faster in training on unequal lengths, and,
unlike it, passes through `torch.export` and ONNX.
"""

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.import_utils import is_tracing

from .configuration_self_attentive import SelfAttentiveConfig


def take_tokens(x: Tensor, index: Tensor) -> Tensor:
    """Pick tokens by position: `x[b, index[b, s]]`.

    Args:
        x: Shape (B, T, width).
        index: Positions, shape (B, S).

    Returns:
        Shape (B, S, width).
    """
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


class Alignment:
    """Where the real tokens of each row are, and the way to the left and back.

    Args:
        mask: True on real tokens, shape (B, T), T >= 1.

    Attributes:
        lengths: Real tokens per row, shape (B,).
        real: True on real tokens after alignment, shape (B, S).
        reversal: For every aligned row the positions of its real tokens in reverse, padding left
            where it is; its own inverse. Shape (B, S).
    """

    def __init__(self, mask: Tensor) -> None:
        counts = mask.long()
        positions = torch.arange(mask.shape[1], device=mask.device)
        self.mask = mask
        self.lengths = counts.sum(1)
        # Real tokens get the ranks 0, 1, ...; padding the ranks after them. (A stable argsort would
        # say the same, but has no ONNX operator.)
        padding_rank = self.lengths.unsqueeze(1) + (1 - counts).cumsum(1) - 1
        self.rank = torch.where(mask, counts.cumsum(1) - 1, padding_rank)  # (B, T)
        order = torch.zeros_like(self.rank).scatter(1, self.rank, positions.expand_as(self.rank))
        steps = self._steps()
        self.order = order[:, :steps]
        self.real = positions[:steps] < self.lengths.unsqueeze(1)
        mirrored = self.lengths.unsqueeze(1) - 1 - positions[:steps]
        self.reversal = torch.where(mirrored >= 0, mirrored, positions[:steps])

    def _steps(self) -> int:
        """Return S: the longest real length where reading it is free, else T.

        On an accelerator the read would wait for the device at every step, and a traced or
        compiled graph must not depend on the values of a mask.
        """
        if is_tracing(self.mask) or self.mask.device.type != "cpu" or self.mask.shape[0] == 0:
            return self.mask.shape[1]
        return max(1, int(self.lengths.max()))

    def align(self, x: Tensor) -> Tensor:
        """Move real tokens to the left: (B, T, width) -> (B, S, width)."""
        return take_tokens(x, self.order)

    def restore(self, x: Tensor) -> Tensor:
        """Undo `align`, with zeros on padding: (B, S, width) -> (B, T, width)."""
        rank = self.rank.clamp(max=x.shape[1] - 1)
        return take_tokens(x, rank).masked_fill(~self.mask.unsqueeze(-1), 0)


class BiLSTMLayer(GradientCheckpointingLayer):
    """One bidirectional LSTM layer over left-aligned rows (section 2.1 of the paper)."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.forward_lstm = nn.LSTM(input_size, units, batch_first=True)
        self.backward_lstm = nn.LSTM(input_size, units, batch_first=True)

    def forward(self, x: Tensor, reversal: Tensor) -> Tensor:
        """Return the states of both directions.

        Args:
            x: Left-aligned inputs, shape (B, S, width).
            reversal: `Alignment.reversal`, shape (B, S).

        Returns:
            Shape (B, S, H), unspecified on padding.
        """
        left_to_right, _ = self.forward_lstm(x)
        right_to_left, _ = self.backward_lstm(take_tokens(x, reversal))
        return torch.cat([left_to_right, take_tokens(right_to_left, reversal)], dim=-1)


class BiLSTMEncoder(nn.Module):
    """A stack of bidirectional LSTM layers."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        widths = [config.embedding_size] + [config.hidden_size] * (config.num_lstm_layers - 1)
        self.layers = nn.ModuleList(BiLSTMLayer(width, config.lstm_hidden_size) for width in widths)

    def forward(self, x: Tensor, alignment: Alignment) -> list[Tensor]:
        """Return the states of every layer, lowest first.

        Args:
            x: Left-aligned word vectors, shape (B, S, d).
            alignment: The alignment that made them.

        Returns:
            One tensor of shape (B, S, H) per layer, zero on padding.
        """
        padding = ~alignment.real.unsqueeze(-1)
        states = []
        for layer in self.layers:
            x = layer(x, alignment.reversal).masked_fill(padding, 0)
            states.append(x)
        return states


__all__ = ["Alignment", "BiLSTMEncoder", "BiLSTMLayer", "take_tokens"]
