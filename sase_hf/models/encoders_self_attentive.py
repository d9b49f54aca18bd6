"""Encoders: from word vectors to the states H that the pooling reads.

Shapes: P positions of the packed batch (see `Packing`), d width of the word vectors, u LSTM units
per direction, H width of the states. Every encoder takes packed word vectors (P, d) and the packing
and returns the packed states (P, H) of each of its layers, lowest first.

Padding never enters a state that is used, and little padding is read. For a bidirectional LSTM the
packed batch is read by two one-way LSTMs, the second from every sentence's own last token. That is
exact like `pack_padded_sequence`, several times faster in training, linear in the length, and,
unlike it, passes through `torch.export` and ONNX. A convolution is a product with the windows of
all tokens, which end at the ends of their sentence.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.import_utils import is_tracing

from .configuration_self_attentive import SelfAttentiveConfig
from .packing_self_attentive import Packing
from .relation_network_self_attentive import RelationNetworkEncoder

# Gradient checkpointing holds the inner states of this number of LSTM steps in memory at a time.
CHECKPOINTED_STEPS = 256


class BlockLSTM(GradientCheckpointingLayer, nn.LSTM):
    """One LSTM in one direction; gradient checkpointing runs each call of it twice."""

    def forward(  # type: ignore[override]  # checkpointing ignores tensors in tuples
        self, x: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states of all steps of a block (steps, sentences, width), and the last two.

        `hidden` and `cell`, the states before the block, are (1, sentences, u).
        """
        output, (hidden, cell) = nn.LSTM.forward(self, x, (hidden, cell))
        return output, hidden, cell


class BiLSTMLayer(nn.Module):
    """One bidirectional LSTM layer over a packed sequence (section 2.1 of the paper)."""

    gradient_checkpointing = False  # set by transformers, as in both LSTMs

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.units = units  # read here and not of an LSTM, which an adapter may wrap
        self.forward_lstm = BlockLSTM(input_size, units)
        self.backward_lstm = BlockLSTM(input_size, units)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Return the states of both directions, (P, H), from packed inputs (P, width)."""
        mirrored = packing.mirror(x)
        left_to_right = self._read(self.forward_lstm, x, packing)
        right_to_left = self._read(self.backward_lstm, mirrored, packing)
        right_to_left = packing.mirror(right_to_left)
        return torch.cat([left_to_right, right_to_left], dim=-1)

    def _read(self, lstm: BlockLSTM, x: Tensor, packing: Packing) -> Tensor:
        """Run one LSTM over the blocks, carrying its state along: (P, width) -> (P, u)."""
        blocks = packing.blocks
        if self.gradient_checkpointing and self.training:
            blocks = _short_blocks(blocks)
        if len(blocks) == 1 and packing.spare == 0:  # nothing to split and to join
            before = x.new_zeros(1, blocks[0][1], self.units)
            output, _, _ = lstm(x.unflatten(0, blocks[0]), before, before)
            wide = torch.promote_types(output.dtype, x.dtype)  # autocast may narrow it
            return output.flatten(0, 1).to(wide)
        # One split: with a slice for each block, the backward pass would fill all of x per block.
        sizes = [steps * rows for steps, rows in blocks]
        *parts, spare = x.split([*sizes, packing.spare])
        outputs: list[Tensor] = []
        hidden = cell = x.new_zeros(1, blocks[0][1], self.units)
        for part, (steps, rows) in zip(parts, blocks, strict=True):
            part = part.unflatten(0, (steps, rows))
            output, hidden, cell = lstm(part, hidden[:, :rows], cell[:, :rows])
            outputs.append(output.flatten(0, 1))
        return torch.cat([*outputs, spare.new_zeros(len(spare), self.units)])


def _short_blocks(blocks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Divide blocks, steps and sentences of each, into those of `CHECKPOINTED_STEPS` at most."""
    short_blocks = []
    for steps, rows in blocks:
        for done in range(0, steps, CHECKPOINTED_STEPS):
            short_blocks.append((min(CHECKPOINTED_STEPS, steps - done), rows))
    return short_blocks


class BiLSTMEncoder(nn.Module):
    """A stack of bidirectional LSTM layers, plain or with shortcuts (Nie and Bansal, 2017)."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.has_shortcuts = config.lstm_shortcuts
        widths = [config.embedding_size]
        for num_below in range(1, config.num_lstm_layers):
            if self.has_shortcuts:
                widths.append(config.embedding_size + num_below * config.hidden_size)
            else:
                widths.append(config.hidden_size)
        self.layers = nn.ModuleList(BiLSTMLayer(width, config.lstm_hidden_size) for width in widths)

    def forward(self, x: Tensor, packing: Packing) -> list[Tensor]:
        """Return the states of every layer, (P, H), from word vectors (P, d)."""
        states = [x]
        for layer in self.layers:
            below = states if self.has_shortcuts else states[-1:]
            states.append(layer(torch.cat(below, dim=-1), packing))
        return states[1:]


class CNNEncoder(GradientCheckpointingLayer):
    """Convolutions of several widths side by side with ReLU (Kim, 2014), one state per token.

    Width k reads the (k - 1) // 2 tokens before a token, the token, and the k // 2 after it. A
    second layer reads the states of the first, and so on.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.sizes = config.cnn_kernel_sizes
        self.convolutions = nn.ModuleList()  # of the first layer in order of the widths, and so on
        width = config.embedding_size
        for _ in range(config.cnn_num_layers):
            for size in self.sizes:
                self.convolutions.append(nn.Linear(size * width, config.cnn_num_filters))
            width = config.hidden_size

    def forward(self, x: Tensor, packing: Packing) -> tuple[Tensor, ...]:
        """Return the states of every layer, (P, H), in order of the widths, from vectors (P, d)."""
        reach = max(self.sizes)
        before = (reach - 1) // 2
        states = [x]
        for first in range(0, len(self.convolutions), len(self.sizes)):
            windows = packing.windows(states[-1], range(-before, reach // 2 + 1))
            states_of_widths = []
            for number, size in enumerate(self.sizes, start=first):
                start = before - (size - 1) // 2
                window = windows[:, start : start + size].flatten(1)
                states_of_widths.append(F.relu(self.convolutions[number](window)))
            states.append(torch.cat(states_of_widths, dim=-1))
        return tuple(states[1:])  # reentrant checkpointing ignores tensors in lists


class DilatedCNNLayer(GradientCheckpointingLayer):
    """x + ReLU(convolution(x)); the window has gaps of `dilation` - 1 tokens."""

    def __init__(self, config: SelfAttentiveConfig, dilation: int) -> None:
        super().__init__()
        size = config.dilated_cnn_kernel_size
        width = config.hidden_size
        self.offsets = [dilation * (place - (size - 1) // 2) for place in range(size)]
        self.convolution = nn.Linear(size * width, width)

    def forward(self, x: Tensor, packing: Packing) -> Tensor:
        """Return the states above (P, H) from those below (P, H)."""
        return x + F.relu(self.convolution(packing.windows(x, self.offsets).flatten(1)))


class DilatedCNNEncoder(nn.Module):
    """A residual stack of convolutions whose dilation doubles from layer to layer: 1, 2, 4, ...

    With kernel size k and L layers a state reads 1 + (k - 1) (2^L - 1) tokens: 31 by default. The
    word vectors are first projected to the width of the states.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.projection = nn.Linear(config.embedding_size, config.hidden_size)
        self.layers = nn.ModuleList(
            DilatedCNNLayer(config, 2**number) for number in range(config.dilated_cnn_num_layers)
        )

    def forward(self, x: Tensor, packing: Packing) -> list[Tensor]:
        """Return the states of every layer, (P, H), from word vectors (P, d)."""
        states = [self.projection(x)]
        for layer in self.layers:
            states.append(layer(states[-1], packing))
        return states[1:]


class WordVectors(nn.Module):
    """No encoder: the states are the word vectors, so that the sentence is a bag of vectors."""

    gradient_checkpointing = False  # transformers may set it; there is nothing to recompute

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()

    def forward(self, x: Tensor, packing: Packing) -> list[Tensor]:
        """Return the word vectors (P, d)."""
        return [x]


class AutoModelEncoder(nn.Module):
    """A text encoder of transformers, such as BERT, under the attention.

    The encoder reads word vectors, which the outer model looks up, in left-aligned rows, so padding
    does not shift positions. A pooler is left out, because nothing would read its output.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        inner = config.encoder_config
        self.model = AutoModel.from_config(inner, trust_remote_code=False)
        width = self.model.get_input_embeddings().weight.shape[1]
        if width != config.embedding_size:
            raise ValueError(
                f"embedding_size is {config.embedding_size}, but encoder_config has word vectors "
                f"that are {width} wide"
            )
        self.model.set_input_embeddings(None)
        if getattr(self.model, "pooler", None) is not None:
            self.model.pooler = None
        self.width = config.hidden_size
        self.longest: int | None = getattr(inner, "max_position_embeddings", None)
        # RoBERTa and its relatives count positions from the one after that of padding.
        for name, module in self.model.named_modules():
            padding = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and padding is not None and self.longest:
                self.longest -= padding + 1
        if self.longest is not None:
            config.max_tokens = min(config.max_tokens, self.longest)

    def forward(self, x: Tensor, packing: Packing) -> list[Tensor]:
        """Return the last states (P, H) from word vectors (P, d).

        Raises:
            ValueError: If a text has more tokens than the model has positions.
        """
        rows = packing.unpack(x)
        if packing.lengths is not None:
            rows = rows[:, : max(packing.lengths[0], 1)]  # no position for a spare step
        if self.longest and not is_tracing(rows) and rows.shape[1] > self.longest:
            raise ValueError(
                f"a text has {rows.shape[1]} tokens, but this encoder reads {self.longest}; "
                f"set config.max_tokens to {self.longest}"
            )
        if rows.shape[0] == 0:  # which not every model can reshape
            return [x.new_zeros(x.shape[0], self.width)]
        # A sentence without tokens reads one position of padding: no row of weights is empty.
        steps = rows.shape[1]
        mask = packing.real[:, :steps] | (torch.arange(steps, device=x.device) == 0)
        outputs = self.model(inputs_embeds=rows, attention_mask=mask.long(), return_dict=True)
        return [packing.pack_rows(outputs.last_hidden_state)]


ENCODERS: dict[str, type[nn.Module]] = {
    "bilstm": BiLSTMEncoder,
    "cnn": CNNEncoder,
    "dilated_cnn": DilatedCNNEncoder,
    "relation_network": RelationNetworkEncoder,
    "none": WordVectors,
    "auto_model": AutoModelEncoder,
}
