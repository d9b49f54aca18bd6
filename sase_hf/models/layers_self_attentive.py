"""The layers of a sentence encoder and of a linear part, to be read from top to bottom.

Shapes: B texts or pairs, T tokens as they came, S tokens of the longest text, at least 1, d width
of the word vectors, u LSTM units per direction, H width of the states, a attention size, r hops
(rows of M), V words, L labels, n parts of the words: 1 of a text, 3 of a pair.

Rows have the real tokens of each text at the left end.

Encoders lead from word vectors (B, S, d), zero on padding, and the rows to the states (B, S, H) of
each layer, lowest first, unspecified on padding. Padding does not reach a state that is used. In an
LSTM it closes all gates, so that the state behind one place of padding is 0 in either direction.
That is exact like `pack_padded_sequence` for finite numbers, and several times faster in training.
Short texts can share a row, with padding between them: on a CPU an LSTM reads N rows, at most B. A
convolution is a product with the windows of all tokens, which end at the ends of their text.

Poolings lead from the states (B, S, H), finite on padding, and the rows to the sentence matrix M
(B, r, H), the attention A (B, r, S), and the penalty (B,); with the marks of people, `rationale`
(B, S), also to the `rationale_cost` (B,), else None.

The linear part is what the words themselves add to the logits. Each word has a weight for each
label, and so has each pair of neighbouring words; pairs share `num_pairs` rows of weights by a
hash. The sum over a text, divided by the square root of its number of tokens, is added to the
logits of the hops. What two texts say about one another is in the words that they share: those of a
pair of texts are in three parts, each with weights of its own: what only the second text has, what
both have (where it stands in the second), and what only the first has. Neighbours are words that
follow one another in a part. On a pretrained encoder the mean of its states has weights, too; of a
pair the two means, how far they are apart, and their product: F numbers, H of a text, 4 H of a
pair. The weights of a new model are zero: `sase_hf.fit_linear_part` finds them after training.
"""

import heapq
import math
import sys
from collections.abc import Sequence
from copy import copy
from itertools import count
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector
from transformers import AutoModel
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.import_utils import is_tracing

from .checkpoint import first_tokens, real_tokens, wide
from .configuration_self_attentive import SelfAttentiveConfig

# ---- rows ----------------------------------------------------------------------------------------


# In half precision oneDNN compiles code for each new number of rows of a product and never frees
# it, up to a MiB each time. On a CPU the length of rows, and the number of those that texts share,
# is therefore rounded up to this many bits: one of 16 numbers from n to 2 n.
BITS_OF_SIZE = 5
PLACES_FOR_PART = 1_000  # padding that takes about as long as another pass of the model


def tokens_read(
    reader: Any, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Any
) -> Tensor:
    """Return True on the first tokens of each text, which a model or its linear part reads.

    Ids, mask and token types are (B, T); the result is (B, 1, T), or (B, 2, T) of pairs.
    """
    real = real_tokens(input_ids, attention_mask)
    sides = real.unsqueeze(1)
    if reader.reads_pairs:
        sides = tokens_of_sides(real, token_type_ids)
    return first_tokens(sides, reader.config.max_tokens)


def tokens_of_sides(real: Tensor, token_type_ids: Tensor) -> Tensor:
    """Return which real tokens (B, T) are of the first text of a pair and of the second: (B, 2, T).

    Token types are 0 on the first text and 1 on the second, (B, T).
    """
    return torch.stack([token_type_ids == 0, token_type_ids == 1], 1) & real.unsqueeze(1)


class Rows:
    """Where the real tokens of a batch stand, and the rows (N, S) that they are moved to.

    Each text has a row of its own, N = B, unless rows are `packed`.

    Args:
        mask: True on real tokens, anywhere in a row, shape (B, T).
        dtype: The precision of what is moved.
        limit: The most tokens of a text that are read, the first; the rest counts as padding.

    Attributes:
        real: True on the real tokens of the rows, shape (N, S).
        is_traced: Whether a graph is made, which must not depend on values.
        is_full: Whether every place is known to hold a real token; then nothing is moved.
    """

    def __init__(
        self, mask: Tensor, dtype: torch.dtype = torch.float32, limit: int = sys.maxsize
    ) -> None:
        self.real = mask
        self.is_traced = is_tracing(mask)
        # Reading values on an accelerator would wait for it; a subclass may not have any.
        has_values = mask.device.type == "cpu" and type(mask) is Tensor
        self._is_known = has_values and not self.is_traced and len(mask) > 0
        self._is_half = torch.is_autocast_enabled("cpu") or dtype.itemsize < 4
        steps = mask.shape[1]
        may_be_full = self._is_known and 0 < steps <= limit and not self._is_half
        self.is_full = may_be_full and bool(mask.all())
        self._packed: Rows | None = None
        self._slots: Tensor | None = None  # where each token goes, padding to the place after all
        if self.is_full:
            return
        counts = mask.cumsum(1)
        mask = mask & (counts <= limit)
        self._lengths = mask.sum(1, keepdim=True)
        if self._is_known:
            steps = int(self._lengths.max())
            if self._is_half:
                steps = _with_few_bits(steps)
        if not self.is_traced:
            steps = max(min(steps, limit), 1)
        self._places = torch.arange(steps, device=mask.device)
        self.real = self._places < self._lengths
        texts = torch.arange(mask.shape[0], device=mask.device)
        self._firsts = texts.unsqueeze(1) * steps
        # A stable argsort has no ONNX operator.
        slots = self._firsts + counts - 1
        self._end = mask.shape[0] * steps
        self._slots = slots.where(mask, self._end)

    @property
    def packed(self) -> "Rows":
        """Rows that texts share where they fit, with padding between them, on a CPU.

        Tokens move there from these rows, (B, S, ...) -> (N, S, ...), and `back`.
        """
        if self._packed is not None:
            return self._packed
        packed = self._packed = copy(self)
        packed._slots = None
        if self.is_full or not self._is_known:
            return packed
        steps = len(self._places)
        firsts, num_rows = _places_of_texts(self._lengths.flatten().tolist(), steps)
        if self._is_half:
            num_rows = _with_few_bits(num_rows)
        if num_rows < len(firsts):
            slots = self._firsts.new_tensor(firsts).unsqueeze(1) + self._places
            packed._end = num_rows * steps
            packed._slots = slots.where(self.real, packed._end)
            packed.real = packed.left(self.real)
        return packed

    def parts(self) -> tuple[Tensor, ...]:
        """Return the longer and the shorter texts, on a CPU, if that spares `PLACES_FOR_PART`.

        A hook on an encoder or a pooling is then called for each part, in another order of texts;
        one on the layers of the attention sees rows that texts share.
        """
        if self.is_full or not self._is_known:
            return ()
        lengths, order = self._lengths.flatten().sort(descending=True)
        num_shorter = torch.arange(len(lengths), 0, -1)
        spared = (lengths[0] - lengths) * num_shorter
        if spared.max() < PLACES_FOR_PART:
            return ()
        return order.tensor_split([int(spared.argmax())])

    def left(self, x: Tensor) -> Tensor:
        """Move the real tokens to the rows, zeros on padding: (B, T, ...) -> (N, S, ...)."""
        if self._slots is None:
            return x
        rows = x.new_zeros(self._end + 1, *x.shape[2:])
        moved = rows.index_copy(0, self._slots.flatten(), x.flatten(0, 1))
        return moved[:-1].unflatten(0, (-1, self._places.shape[0]))

    def back(self, x: Tensor) -> Tensor:
        """Move tokens back where they were, zeros on padding: (N, S, ...) -> (B, T, ...)."""
        if self._slots is None:
            return x
        after_last = [0, 0] * (x.ndim - 2) + [0, 1]
        with_zero = F.pad(x.flatten(0, 1), after_last)
        return _take(with_zero, self._slots)

    def mirror(self, x: Tensor) -> Tensor:
        """Read every text backwards, the last token first, and padding after it, (B, S, ...)."""
        last_first = self._lengths - 1 - self._places
        # A remainder would do the same, but has no ONNX operator for sizes that vary.
        places = last_first.where(self.real, last_first + x.shape[1])
        return _take(x.flatten(0, 1), self._firsts + places)

    def windows(self, x: Tensor, offsets: Sequence[int]) -> Tensor:
        """Return neighbours of every token in its text, zeros beyond either end.

        An offset is the distance to a neighbour, in tokens, negative before the token:
        (B, S, width) -> (B, S, offsets, width).
        """
        if not self.is_full:
            x = x.masked_fill(~self.real.unsqueeze(-1), 0)
        farthest = max(map(abs, offsets))
        with_zeros = F.pad(x, (0, 0, farthest, farthest))
        neighbours = [with_zeros.narrow(1, farthest + offset, x.shape[1]) for offset in offsets]
        return torch.stack(neighbours, 2)


def _take(rows: Tensor, places: Tensor) -> Tensor:
    """Return rows (N, ...) at places (B, K), shape (B, K, ...)."""
    return rows.index_select(0, places.flatten()).unflatten(0, places.shape)


def _with_few_bits(number: int) -> int:
    """Round a number up to one whose bits are 0 behind the first `BITS_OF_SIZE`."""
    return number + -number % (1 << max(number.bit_length() - BITS_OF_SIZE, 0))


def _places_of_texts(lengths: list[int], steps: int) -> tuple[list[int], int]:
    """Return where texts start in rows of so many steps, and how many rows they need.

    The longest are placed first, each in the row with the most room, or in a new one. Places are
    numbered through all rows.
    """
    firsts = [0] * len(lengths)
    ends: list[tuple[int, int]] = []  # of each row: the next place of a text, and its number
    for length, text in sorted(zip(lengths, count()), reverse=True):
        if not ends or ends[0][0] + length > steps:
            heapq.heappush(ends, (0, len(ends)))
        end, row = ends[0]
        heapq.heapreplace(ends, (end + length + 1, row))
        firsts[text] = row * steps + end
    return firsts, len(ends)


# ---- encoders ------------------------------------------------------------------------------------


CLOSED_GATE = -3e4  # within float16


class BiLSTMLayer(GradientCheckpointingLayer, nn.LSTM):
    """One bidirectional LSTM layer (section 2.1 of the paper)."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__(input_size, units, bidirectional=True)

    def forward(self, x: Tensor, rows: Rows) -> Tensor:  # type: ignore[override]
        """Return the states of both directions, (N, S, H), from inputs (N, S, width)."""
        self.check_input(x, None)  # torch.lstm itself reads beyond the weights
        ways: list[list[Any]] = self.all_weights
        left_to_right, right_to_left = ways
        if rows.is_traced:  # a quantizer scales a matrix by its largest weight, such as CLOSED_GATE
            states = self._read(x, left_to_right)
            mirrored = self._read(rows.mirror(x), right_to_left)
            return torch.cat([states, rows.mirror(mirrored)], dim=-1)
        if not rows.is_full:
            # One more input tells padding, and closes all gates there: states and gradients are 0.
            is_padding = (~rows.real).to(x.dtype).unsqueeze(-1)
            x = torch.cat([x, is_padding], dim=-1)
            for weights in ways:
                weights[0] = F.pad(weights[0], (0, 1), value=CLOSED_GATE)
        if x.is_cuda and not torch.is_autocast_enabled("cuda"):  # autocast does this itself
            return self._read(x, _in_one_piece(left_to_right, right_to_left))
        return self._read(x, left_to_right + right_to_left)

    def _read(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        """Run one LSTM, or both, given the weights: (N, S, width) -> (N, S, u), or (N, S, H)."""
        before = x.new_zeros(len(weights) // 4, x.shape[0], self.hidden_size)
        states, _, _ = torch.lstm(
            x,
            (before, before),
            weights,
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=torch.is_grad_enabled(),  # cuDNN then keeps what a gradient needs
            bidirectional=len(before) == 2,
            batch_first=True,
        )
        # In a graph torch takes the number of steps for a constant; the view makes it that of x.
        return states.flatten(0, 1).unflatten(0, tuple(x.shape[:2]))


def _in_one_piece(
    left_to_right: list[Tensor],
    right_to_left: list[Tensor],
) -> list[Tensor]:
    """Return weights that lie in memory as cuDNN reads them: matrices first, then the biases."""
    matrices = left_to_right[:2] + right_to_left[:2]
    biases = left_to_right[2:] + right_to_left[2:]
    weights = matrices + biases
    pieces = parameters_to_vector(weights).split([weight.numel() for weight in weights])
    parts = [piece.view_as(weight) for piece, weight in zip(pieces, weights, strict=True)]
    return parts[:2] + parts[4:6] + parts[2:4] + parts[6:]


class BiLSTMEncoder(nn.Module):
    """A stack of bidirectional LSTM layers, plain or with shortcuts (Nie and Bansal, 2017)."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.has_shortcuts = config.lstm_shortcuts
        self.layers = nn.ModuleList()
        below = [config.embedding_size]
        for _ in range(config.num_lstm_layers):
            width = sum(below) if self.has_shortcuts else below[-1]
            self.layers.append(BiLSTMLayer(width, config.lstm_hidden_size))
            below.append(config.hidden_size)

    def forward(self, x: Tensor, rows: Rows) -> list[Tensor]:
        """Return the states of every layer, (B, S, H), from word vectors (B, S, d)."""
        packed = rows.packed
        states = [packed.left(x)]
        for layer in self.layers:
            below = torch.cat(states, dim=-1) if self.has_shortcuts else states[-1]
            states.append(layer(below, packed))
        return [packed.back(of_layer) for of_layer in states[1:]]


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
        states = [x]
        for first in range(0, len(self.convolutions), len(self.sizes)):
            states_of_widths = []
            for number, size in enumerate(self.sizes, start=first):
                offsets = range(-((size - 1) // 2), size // 2 + 1)
                window = rows.windows(states[-1], offsets).flatten(2)
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
        window = rows.windows(x, self.offsets).flatten(2)
        return x + F.relu(self.convolution(window))


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
        self.model.set_input_embeddings(None)
        self.model.pooler = None
        longest = getattr(inner, "max_position_embeddings", config.max_tokens)
        # RoBERTa and its relatives count positions from the one after that of padding.
        for name, module in self.model.named_modules():
            padding = getattr(module, "padding_idx", None)
            if name.endswith("position_embeddings") and padding is not None:
                longest -= padding + 1
        config.max_tokens = min(config.max_tokens, longest)

    def train(self, mode: bool = True) -> "AutoModelEncoder":
        """Set the mode of training, in which a frozen encoder never is."""
        return super().train(mode and not self.config.freeze_embeddings)

    def forward(self, x: Tensor, rows: Rows) -> list[Tensor]:
        """Return the last states (B, S, H) from word vectors (B, S, d)."""
        if x.shape[0] == 0:  # which not every model can reshape
            return [x[..., :1].expand(-1, -1, self.config.hidden_size)]
        # A text without tokens reads one position of padding: no row of weights is empty.
        mask = rows.real | (torch.arange(x.shape[1], device=x.device) == 0)
        outputs = self.model(inputs_embeds=x, attention_mask=mask.long(), return_dict=True)
        return [outputs.last_hidden_state]


# `relation_network_self_attentive.py` adds its own.
ENCODERS: dict[str, type[nn.Module]] = {
    "bilstm": BiLSTMEncoder,
    "cnn": CNNEncoder,
    "dilated_cnn": DilatedCNNEncoder,
    "none": WordVectors,
    "auto_model": AutoModelEncoder,
}


# ---- poolings ------------------------------------------------------------------------------------


# M, A, penalty, cost of the marks
Pooled = tuple[Tensor, Tensor, Tensor, Tensor | None]
# Where entmax or sparsemax gives all marked tokens exactly 0, the logarithm of their weight has no
# gradient. This share of the weight is a softmax of the same scores, which gives no token 0.
SOFTMAX_SHARE = 0.01


def init_glorot_uniform(module: nn.Module) -> None:
    """Start the own matrices of a module, single or stacked, Glorot uniform and biases at zero."""
    for name, parameter in module.named_parameters(recurse=False):
        if name.endswith("bias"):
            init.zeros_(parameter)
        else:  # each matrix of a stack has its own fans
            bound = math.sqrt(6 / sum(parameter.shape[-2:]))
            init.uniform_(parameter, -bound, bound)


def attention_penalty(attention: Tensor) -> Tensor:
    """Return ||A A^T - I||_F^2 per sentence (equation 8), shape (B,).

    A (B, r, S) is in float32 or wider here and below; the result has its precision, even under
    autocast.
    """
    identity = torch.eye(attention.shape[1], dtype=attention.dtype, device=attention.device)
    return (exact_product(attention, attention.mT) - identity).square().sum((1, 2))


def cosine_penalty(attention: Tensor) -> Tensor:
    """Return the mean cosine between two hops per sentence, from 0, no shared token, to 1: (B,).

    The mean cosine means the same for any number of tokens and hops. Equation 8, by contrast, falls
    for even attention with the length of the text and grows with the square of the hops.
    One hop or no tokens give 0.
    """
    hops = attention.shape[1]
    # A zero vector, of a sentence without tokens, stays zero.
    directions = F.normalize(attention, dim=-1, eps=torch.finfo(attention.dtype).tiny)
    cosines = exact_product(directions, directions.mT)
    return cosines.triu(1).sum((1, 2)) * (2 / max(hops * (hops - 1), 1))


PENALTIES = {"frobenius": attention_penalty, "cosine": cosine_penalty}


def rationale_cost(
    weights: Tensor,
    scores: Tensor,
    rationale: Tensor | None,
) -> Tensor | None:
    """Return -log of the mean weight of the marked tokens, times the mark: 0 without marks, (B,).

    `weights` and `scores` have the shape (B, S, r); `rationale` (B, S) is 0 on other tokens and on
    padding. The cost is least where all hops lie on marked tokens.
    """
    if rationale is None:
        return None
    marks = rationale.to(weights.dtype)
    mixed = torch.lerp(weights, scores.softmax(1), SOFTMAX_SHARE).mean(2)  # (B, S)
    mass = (mixed * (marks != 0)).sum(1)
    return marks.amax(1) * -mass.clamp(min=torch.finfo(mass.dtype).tiny).log()


def exact_product(first: Tensor, second: Tensor) -> Tensor:
    """Return the product of two matrices in their precision, even under autocast."""
    with torch.autocast(first.device.type, enabled=False):
        return first @ second


class SelfAttentionPooling(nn.Module):
    """A = softmax(W_s2 tanh(W_s1 H^T)), M = A H, without biases (equations 6 and 7).

    The config may put another function in the place of the softmax, and the normalised states in
    the place of H in A; M always holds the states themselves.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.config = config
        self.projection = nn.Linear(config.hidden_size, config.attention_size, bias=False)  # W_s1
        self.hops = nn.Linear(config.attention_size, config.num_hops, bias=False)  # W_s2

    def forward(
        self,
        states: Tensor,
        rows: Rows,
        rationale: Tensor | None = None,
    ) -> Pooled:
        """Return M, A in at least float32, the penalty, and the cost of the marks."""
        read = rows.packed.left(states)  # with little padding
        if self.config.normalize_states:
            read = F.layer_norm(read, read.shape[-1:])
        packed_scores = self.hops(torch.tanh(self.projection(read)))  # (N, S, r)
        scores = wide(rows.packed.back(packed_scores))  # (B, S, r)
        if not rows.is_full:
            real = rows.real.unsqueeze(-1)
            scores = scores.masked_fill(~real, torch.finfo(scores.dtype).min)
        weights = attend(scores, self.config.attention_function)
        if not rows.is_full:  # matters for texts without tokens alone
            weights = weights * real
        attention = weights.mT
        matrix = attention.to(states.dtype) @ states
        penalty = PENALTIES[self.config.penalty](attention)
        return matrix, attention, penalty, rationale_cost(weights, scores, rationale)


class BaselinePooling(nn.Module):
    """Poolings without parameters, as sentence matrices of one row.

    Each unit of the row is taken from states: the largest, all alike, or the last of the direction.
    As attention they have the share of the units that they take from each token.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        self.pooling = config.pooling

    def forward(
        self,
        states: Tensor,
        rows: Rows,
        rationale: Tensor | None = None,
    ) -> Pooled:
        """Return M (B, 1, H), the shares of the tokens, a penalty of zeros, no cost of marks."""
        taken = self.taken(wide(states.detach()), rows.real)
        matrix = (taken * states).sum(1, keepdim=True).to(states.dtype)
        penalty = torch.zeros(states.shape[0], device=states.device)
        return matrix, taken.mean(-1).unsqueeze(1), penalty, None

    def taken(self, states: Tensor, real: Tensor) -> Tensor:
        """Return which share of each unit is taken from which state, (B, S, H), zero on padding."""
        of_tokens = real.unsqueeze(-1).expand_as(states)
        if self.pooling == "max":
            read = states.masked_fill(~of_tokens, torch.finfo(states.dtype).min)
            # The same word twice may have states that differ in their last digit.
            of_tokens = of_tokens & torch.isclose(read, read.amax(1, keepdim=True), atol=1e-6)
        elif self.pooling == "last":  # of each direction: at the last token, and back at the first
            places, places_back = of_tokens.cumsum(1).chunk(2, -1)
            is_end = torch.cat(
                [
                    places == places[:, -1:],
                    places_back == 1,
                ],
                -1,
            )
            of_tokens = of_tokens & is_end
        shares = of_tokens.to(states.dtype)
        return shares / shares.sum(1, keepdim=True).clamp(min=1)


class _SparseWeights(torch.autograd.Function):
    """Sparsemax and 1.5-entmax along the last dimension, exact, by sorting.

    Both are [(alpha - 1) z - tau]_+^(1 / (alpha - 1)), alpha 2 and 1.5, with the one tau for which
    the weights sum to 1 (Martins and Astudillo, 2016; Peters, Niculae and Martins, 2019). The
    gradient needs only the weights.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, alpha: float) -> Tensor:
        """Return the weights of scores whose largest is 0, shape (..., S)."""
        weights = _sparse_weights(scores, alpha)
        ctx.save_for_backward(weights)
        ctx.alpha = alpha
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the scores: s (g - s . g / sum s) with s = p^(2 - alpha)."""
        (weights,) = ctx.saved_tensors
        (gradient,) = gradients
        slope = (weights > 0).to(weights.dtype)
        if ctx.alpha == 1.5:  # a root of 0 would have no second gradient
            slope = slope * weights.masked_fill(weights == 0, 1).sqrt()
        total = slope.sum(-1, keepdim=True).clamp(min=1)  # below 1 only without tokens
        mean = (slope * gradient).sum(-1, keepdim=True) / total
        return slope * (gradient - mean), None


def _sparse_weights(scores: Tensor, alpha: float) -> Tensor:
    """Return sparsemax (alpha 2) or 1.5-entmax of scores whose largest is 0, shape (..., S)."""
    # The support lies within 1 of the largest: cutting there keeps the sums below small for texts
    # of any length, and the cut scores never belong to it. In float32, the widest type of MPS, sums
    # and the root of their small difference would be off by more than the least weights.
    z = (scores * (alpha - 1)).clamp(min=-1)
    ordered = z.sort(dim=-1, descending=True).values
    ordered = ordered if z.device.type == "mps" else ordered.double()
    count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=ordered.dtype)
    mean = ordered.cumsum(-1) / count
    if alpha == 2:
        threshold = mean - 1 / count
    else:
        # For the k largest, sum (z - tau)^2 = 1, so tau = mean - sqrt(1 / k - variance).
        variance = (ordered.square().cumsum(-1) / count - mean.square()).clamp(min=0)
        # A root of 0 has an infinite slope.
        threshold = mean - (1 / count - variance).clamp(min=1e-30).sqrt()
    support = ((threshold <= ordered) & (ordered > -1)).sum(-1, keepdim=True).clamp(min=1)
    weights = (z - threshold.gather(-1, support - 1)).relu().to(z.dtype)
    return weights if alpha == 2 else weights.square()


def attend(scores: Tensor, function: str) -> Tensor:
    """Return weights (B, S, r) that sum to 1 over the tokens, given the scores of each.

    Padding with the lowest score gets the weight 0, except in a text without tokens.
    """
    if function == "softmax":
        return scores.softmax(1)
    alpha = 1.5 if function == "entmax15" else 2.0
    shifted = (scores - scores.detach().amax(1, keepdim=True)).mT  # (B, r, S)
    has_gradient = scores.requires_grad and not is_tracing(scores)
    weigh = _SparseWeights.apply if has_gradient else _sparse_weights
    return weigh(shifted, alpha).mT


# ---- linear part ---------------------------------------------------------------------------------


# Of pairs of words, in 8 megabytes: reviews have a million pairs, and two that share weights
# seldom say the same.
PAIR_WEIGHTS = 2**21
FEWEST_PAIRS = 2**16
# The product with an id stays below 2^53, so that the script of a page computes the same.
HASH_FACTOR = 1_000_003
NUM_PARTS_OF_PAIR = 3
Inputs = tuple[Tensor, Tensor | None, Tensor | None]  # ids, mask and token types
FEATURES_OF_PAIR = 4  # of each unit of the states


class Aligned(NamedTuple):
    """The words of each part of each text on the left, as rows of the weights."""

    scale: Tensor  # 1 / sqrt(number of tokens) of each text, (B, 1)
    rows: Rows  # of the parts of all texts, (B n, S)
    of_words: Tensor  # rows of the weights, (B n, S)
    of_pairs: Tensor  # those of each word and the next one, (B n, S - 1)


class LinearPart(nn.Module):
    """A linear model over words, pairs of words and mean states: it is added to the logits."""

    def __init__(self, config: SelfAttentiveConfig, *, reads_pairs: bool) -> None:
        super().__init__()
        num_labels = len(config.id2label or {})
        self.config = config
        self.reads_pairs = reads_pairs
        self.num_parts = NUM_PARTS_OF_PAIR if reads_pairs else 1
        self.num_pairs = num_pairs(self.num_parts * num_labels)
        shape = (self.num_parts, config.vocab_size, num_labels)
        self.word_weight = nn.Parameter(torch.zeros(shape))
        self.pair_weight: Any = None
        if config.linear_part == "words_and_pairs":
            self.pair_weight = nn.Parameter(torch.zeros(self.num_parts, self.num_pairs, num_labels))
        self.state_weight: Any = None
        if config.encoder == "auto_model":
            width = config.hidden_size * (FEATURES_OF_PAIR if reads_pairs else 1)
            self.state_weight = nn.Parameter(torch.zeros(width, num_labels))
        self.bias = nn.Parameter(torch.zeros(num_labels))

    def forward(self, inputs: Inputs, states: Any = None) -> Tensor:
        """Return what the words and the mean state add to the logits (B, L), in float32 or wider.

        The inputs (B, T) are those of the model; without a mask every token is real.
        The states (B, T, H), or (B, 2, T, H) of pairs, are those of a pretrained encoder.
        """
        texts = self.aligned(inputs)
        total = _sum_over(self._of_words(texts), 1)
        if self.pair_weight is not None:
            total = total + _sum_over(self._of_pairs(texts), 1)
        of_texts = total.unflatten(0, (-1, self.num_parts)).sum(1)  # (B, L)
        added = of_texts * texts.scale + wide(self.bias)
        if self.state_weight is None:
            return added
        return added + self.of_mean_state(inputs, states)

    def of_mean_state(
        self,
        inputs: Inputs,
        states: Tensor,
        share_of_products: float = 1.0,
    ) -> Tensor:
        """Return what the `features` of inputs and states add to the logits, (B, L)."""
        features = self.features(inputs, states, share_of_products)
        return exact_product(features, self.state_weight.to(features))

    def features(
        self,
        inputs: Inputs,
        states: Tensor,
        share_of_products: float = 1.0,
    ) -> Tensor:
        """Return what has weights in the mean state, or in two of a pair, (B, F).

        The states are zero on padding; the products of two means count by a share.
        """
        read = tokens_read(self, *inputs)
        lengths = read.sum(-1).view(*states.shape[:-2], 1)
        means = _sum_over(states, -2) / lengths.clamp(min=1)
        if not self.reads_pairs:
            return means
        first, second = means.unbind(1)
        products = share_of_products * first * second
        return torch.cat([first, second, (first - second).abs(), products], -1)

    def added(self, inputs: Inputs, weigh_labels: Tensor) -> Tensor:
        """Return what each token adds to a weighted sum of the logits, zero on padding: (B, T).

        The weights of the labels are (B, L), such as 1 for one label and 0 for all others. Half of
        what a pair of neighbours adds is of each of the two.
        """
        texts = self.aligned(inputs)
        weigh_labels = weigh_labels.repeat_interleave(self.num_parts, 0)
        added = _weighted(self._of_words(texts), weigh_labels)
        if self.pair_weight is not None:
            half = _weighted(self._of_pairs(texts), weigh_labels) / 2
            of_first_words = F.pad(half, (0, 1))
            of_second_words = F.pad(half, (1, 0))
            added = added + of_first_words + of_second_words
        of_parts = texts.rows.back(added).unflatten(0, (-1, self.num_parts))  # (B, n, T)
        return of_parts.sum(1) * texts.scale

    def resize(self, num_words: int) -> None:
        """Keep the weights of the first words, and give new words the weight 0."""
        old = self.word_weight
        kept = old.detach()[:, :num_words]
        resized = F.pad(kept, (0, 0, 0, num_words - kept.shape[1]))
        self.word_weight = nn.Parameter(resized, requires_grad=old.requires_grad)

    def _of_words(self, texts: Aligned) -> Tensor:
        """Return the weights of the words, zero on padding, (B n, S, L)."""
        return _rows_of(self.word_weight, texts.of_words, texts.rows.real)

    def _of_pairs(self, texts: Aligned) -> Tensor:
        """Return the weights of the pairs of words, zero on padding, (B n, S - 1, L)."""
        return _rows_of(self.pair_weight, texts.of_pairs, texts.rows.real[:, 1:])

    def _parts(self, input_ids: Tensor, read: Tensor) -> Tensor:
        """Return which tokens each part of a text has, (B, n, T), of those of each text."""
        if not self.reads_pairs:
            return read
        is_first, is_second = read.unbind(1)
        in_first = self._are_among(input_ids, is_first)
        in_second = self._are_among(input_ids, is_second)
        only_second = is_second & ~in_first
        shared = is_second & in_first
        only_first = is_first & ~in_second
        return torch.stack([only_second, shared, only_first], 1)

    def _are_among(self, input_ids: Tensor, chosen: Tensor) -> Tensor:
        """Return which ids (B, T) are among the chosen ones of their row."""
        ids = input_ids.long()
        no_word = self.word_weight.shape[1]
        are_chosen = chosen.new_zeros(ids.shape[0], no_word + 1)
        return are_chosen.scatter(1, ids.where(chosen, no_word), True).gather(1, ids)

    def aligned(self, inputs: Inputs) -> Aligned:
        """Return which rows of the weights the texts of a batch (B, T) read, on the left."""
        input_ids, *_ = inputs
        read = tokens_read(self, *inputs)
        parts = self._parts(input_ids, read)  # (B, n, T)
        rows = Rows(parts.flatten(0, 1))
        ids = rows.left(input_ids.long().unsqueeze(1).expand_as(parts).flatten(0, 1))
        # The weights of all parts lie one below the other.
        part = torch.arange(self.num_parts, device=ids.device).repeat(parts.shape[0]).unsqueeze(1)
        hashes = ids[:, :-1] * HASH_FACTOR + ids[:, 1:]
        lengths = read.flatten(1).sum(1, keepdim=True)
        return Aligned(
            scale=lengths.clamp(min=1).float().rsqrt(),
            rows=rows,
            of_words=ids + part * self.word_weight.shape[1],
            of_pairs=hashes % self.num_pairs + part * self.num_pairs,
        )


def num_pairs(num_weights: int) -> int:
    """Return how many rows of so many weights pairs of words share: a power of 2."""
    return max(2 ** int(math.log2(PAIR_WEIGHTS / num_weights)), FEWEST_PAIRS)


def _rows_of(tables: Tensor, rows: Tensor, are_real: Tensor) -> Tensor:
    """Return the rows (N, K) of tables (n, ..., L), one below the other, or zeros: (N, K, L)."""
    weights = wide(F.embedding(rows, tables.flatten(0, 1)))
    return weights.masked_fill(~are_real.unsqueeze(-1), 0)


def _sum_over(values: Tensor, dim: int) -> Tensor:
    """Return a sum in float32 or wider, to each digit of it."""
    values = wide(values)
    # Padding changes the order of the sum. In float64 no order moves a digit of float32.
    has_float64 = values.device.type != "mps"
    return values.sum(dim, dtype=torch.float64 if has_float64 else None).to(values.dtype)


def _weighted(weights: Tensor, weigh_labels: Tensor) -> Tensor:
    """Return the sum over the labels of weights (N, K, L) times those of labels (N, L): (N, K)."""
    return torch.einsum("bnl,bl->bn", weights, weigh_labels.to(weights.dtype))
