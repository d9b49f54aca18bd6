"""Encoders: from word vectors to the states H that the pooling reads.

Shapes: B texts, S tokens of the longest (see `Rows`), d width of the word vectors, u LSTM units per
direction, H width of the states. Every encoder takes word vectors (B, S, d), zero on padding, and
the rows, and returns the states (B, S, H) of each of its layers, lowest first; they are unspecified
on padding.

Padding never enters a state that is used. A bidirectional LSTM is two one-way LSTMs, the second of
which reads every text from its own last token. That is exact like `pack_padded_sequence`, several
times faster in training, and, unlike it, passes through `torch.export` and ONNX. A convolution is a
product with the windows of all tokens, which end at the ends of their text.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.import_utils import is_tracing

from .configuration_self_attentive import SelfAttentiveConfig
from .relation_network_self_attentive import RelationNetworkEncoder
from .rows_self_attentive import Rows

# Gradient checkpointing holds the inner states of this number of LSTM steps in memory at a time.
CHECKPOINTED_STEPS = 256


class StepsLSTM(GradientCheckpointingLayer, nn.LSTM):
    """One LSTM in one direction; gradient checkpointing runs each call of it twice."""

    def forward(  # type: ignore[override]  # checkpointing ignores tensors in tuples
        self, x: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the states of some steps (steps, B, u), and the last two.

        `hidden` and `cell`, the states before these steps, are (1, B, u).
        """
        output, (hidden, cell) = nn.LSTM.forward(self, x, (hidden, cell))
        return output, hidden, cell


class BiLSTMLayer(nn.Module):
    """One bidirectional LSTM layer (section 2.1 of the paper)."""

    gradient_checkpointing = False  # set by transformers, as in both LSTMs

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.units = units  # read here and not of an LSTM, which an adapter may wrap
        self.forward_lstm = StepsLSTM(input_size, units)
        self.backward_lstm = StepsLSTM(input_size, units)

    def forward(self, x: Tensor, rows: Rows) -> Tensor:
        """Return the states of both directions, (B, S, H), from inputs (B, S, width)."""
        is_checkpointed = self.gradient_checkpointing and self.training
        lstms = (self.forward_lstm, self.backward_lstm)
        if rows.is_full and not is_checkpointed and all(map(_is_plain, lstms)):
            return self._read_both(x)
        steps = CHECKPOINTED_STEPS if is_checkpointed else None
        left_to_right = self._read(self.forward_lstm, x, steps)
        right_to_left = self._read(self.backward_lstm, rows.mirror(x), steps)
        return torch.cat([left_to_right, rows.mirror(right_to_left)], dim=-1)

    def _read(self, lstm: nn.Module, x: Tensor, steps: int | None) -> Tensor:
        """Run one LSTM from left to right, some steps a call: (B, S, width) -> (B, S, u)."""
        by_step = x.transpose(0, 1)
        hidden = cell = x.new_zeros(1, x.shape[0], self.units)
        outputs = []
        for part in [by_step] if steps is None else by_step.split(steps):
            output, hidden, cell = lstm(part, hidden, cell)
            outputs.append(output)
        joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        # In a graph torch takes the number of steps for a constant; the view makes it that of x.
        joined = joined.flatten(0, 1).unflatten(0, tuple(by_step.shape[:2]))
        wide = torch.promote_types(joined.dtype, x.dtype)  # autocast may narrow it
        return joined.transpose(0, 1).to(wide)

    def _read_both(self, x: Tensor) -> Tensor:
        """Run both LSTMs over texts without padding as one of torch's, which is faster."""
        weights: list[Tensor] = []
        for lstm in (self.forward_lstm, self.backward_lstm):
            weights += lstm.all_weights[0]
        before = x.new_zeros(2, x.shape[0], self.units)
        output, _, _ = torch.lstm(
            x,
            (before, before),
            weights,
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=self.training,
            bidirectional=True,
            batch_first=True,
        )
        return output


def _is_plain(lstm: nn.Module) -> bool:
    """Return whether the weights of an LSTM can be read without a call of it.

    An adapter hides what it adds, and weights on a disk are fetched by the call.
    """
    return type(lstm) is StepsLSTM and "forward" not in vars(lstm)


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

    def forward(self, x: Tensor, rows: Rows) -> list[Tensor]:
        """Return the states of every layer, (B, S, H), from word vectors (B, S, d)."""
        states = [x]
        for layer in self.layers:
            below = states if self.has_shortcuts else states[-1:]
            states.append(layer(torch.cat(below, dim=-1), rows))
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

    def forward(self, x: Tensor, rows: Rows) -> tuple[Tensor, ...]:
        """Return the states of every layer, (B, S, H), in order of the widths, from (B, S, d)."""
        reach = max(self.sizes)
        before = (reach - 1) // 2
        states = [x]
        for first in range(0, len(self.convolutions), len(self.sizes)):
            windows = rows.windows(states[-1], range(-before, reach // 2 + 1))
            states_of_widths = []
            for number, size in enumerate(self.sizes, start=first):
                start = before - (size - 1) // 2
                window = windows[:, :, start : start + size].flatten(2)
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

    def forward(self, x: Tensor, rows: Rows) -> Tensor:
        """Return the states above (B, S, H) from those below (B, S, H)."""
        return x + F.relu(self.convolution(rows.windows(x, self.offsets).flatten(2)))


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

    def forward(self, x: Tensor, rows: Rows) -> list[Tensor]:
        """Return the states of every layer, (B, S, H), from word vectors (B, S, d)."""
        states = [self.projection(x)]
        for layer in self.layers:
            states.append(layer(states[-1], rows))
        return states[1:]


class WordVectors(nn.Module):
    """No encoder: the states are the word vectors, so that the sentence is a bag of vectors."""

    gradient_checkpointing = False  # transformers may set it; there is nothing to recompute

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()

    def forward(self, x: Tensor, rows: Rows) -> list[Tensor]:
        """Return the word vectors (B, S, d)."""
        return [x]


class AutoModelEncoder(nn.Module):
    """A text encoder of transformers, such as BERT, under the attention.

    The encoder reads word vectors, which the outer model looks up, in left-aligned rows, so padding
    does not shift positions. A pooler is left out, because nothing would read its output. A frozen
    encoder drops nothing in training.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.config = config
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

    def train(self, mode: bool = True) -> "AutoModelEncoder":
        """Set the mode of training, in which a frozen encoder never is."""
        return super().train(mode and not self.config.freeze_embeddings)

    def forward(self, x: Tensor, rows: Rows) -> list[Tensor]:
        """Return the last states (B, S, H) from word vectors (B, S, d).

        Raises:
            ValueError: If a text has more tokens than the model has positions.
        """
        steps = x.shape[1]
        if self.longest and not is_tracing(x) and steps > self.longest:
            raise ValueError(
                f"rows have {steps} tokens, but this encoder reads {self.longest}; "
                f"set config.max_tokens to {self.longest}"
            )
        if x.shape[0] == 0:  # which not every model can reshape
            return [x.new_zeros(*x.shape[:2], self.width)]
        # A text without tokens reads one position of padding: no row of weights is empty.
        mask = rows.real | (torch.arange(steps, device=x.device) == 0)
        outputs = self.model(inputs_embeds=x, attention_mask=mask.long(), return_dict=True)
        return [outputs.last_hidden_state]


ENCODERS: dict[str, type[nn.Module]] = {
    "bilstm": BiLSTMEncoder,
    "cnn": CNNEncoder,
    "dilated_cnn": DilatedCNNEncoder,
    "relation_network": RelationNetworkEncoder,
    "none": WordVectors,
    "auto_model": AutoModelEncoder,
}
