"""Why a classifier gave its answer: what each hop and each word added to a logit.

The logit of a label is a function of the sentence matrix M, and row i of M is a sum over the tokens
j, M_i = sum_j A_ij h_j. On the straight path from the empty matrix to M, the logit therefore grows
by exactly sum_ij C_ij with C_ij = A_ij <G_i, h_j>, where G is the mean gradient of the logit on the
path: integrated gradients (Sundararajan et al., 2017) of the head alone. The units of the head are
ReLUs of polynomials of the path, of degree 2 at most, so G has a closed form.

A linear part adds to the logit what its words and pairs of words weigh: the words themselves,
beside the hops. Half of a pair is of each of its words.

A state h_j also knows the words around j. `words` follows sum_ij C_ij, with A and G held fixed,
from the states back to the words (`words_self_attentive.py`). They answer which words matter, and
with `rest` they sum to the same; C answers what each hop added where it looked.

Shapes: B texts or pairs, T tokens, r hops, H width of the states, W width of a row that the
classifier reads, b units of the classifier, L labels, K of them; a pair has sides, (B, 2, ...).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from .answers import answers_of
from .checked_model import first_tokens
from .rows_self_attentive import Rows, real_tokens, tokens_of_sides
from .words_self_attentive import added_by_words

HALF_PRECISION = (torch.bfloat16, torch.float16)
Inputs = tuple[Tensor, Tensor | None, Tensor | None]  # ids, mask and token types

# The sum of the sizes of what words added, over that of the hops. Trained models stay below 10; at
# this number float32 keeps four digits of the sum.
MAX_GROWTH = 1_000

# Labels whose hops are computed if none are asked for. A model of more labels gets those of the
# label that is explained and of the likeliest others: nobody reads a thousand rows of numbers.
MAX_HOP_LABELS = 100

# Numbers in the largest tensor of the hops of some texts, c * max(r, K) * b.
BLOCK_SIZE = 2**22


class Contributions(NamedTuple):
    """What `explain` returns."""

    labels: Tensor  # the label that is explained, (B,)
    # C, zero on padding, (B, r, T), or (B, 2, r, T) for a pair. For one label per text, the logit
    # is that of the label minus the mean over all labels.
    contributions: Tensor
    # What each word added by itself in the linear part, zero without one, (B, T). The sum of
    # `contributions` and `linear` is the logit minus that of a text without tokens.
    linear: Tensor
    words: Tensor  # what each word added, in the hops and by itself, (B, T)
    # What the hops added beyond the words, (B,), or (B, 2) of a pair: zero but for rounding, unless
    # the encoder is a pretrained one or a relation network.
    rest: Tensor
    hop_labels: Tensor  # the K labels of `hops` and `linear_of_labels`, (B, K)
    hops: Tensor  # what each hop added to each of these labels, (B, K, r), or (B, K, 2, r)
    # What the words added by themselves to each of these labels, (B, K), or (B, K, 2) of a pair.
    linear_of_labels: Tensor


def explain(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    labels: Tensor | None = None,
    hop_labels: Tensor | None = None,
) -> Contributions:
    """Explain the answers of a classifier by a pass forward and one back, for any L.

    All is computed in float32 or wider: autocast is off inside, and of a model in half precision a
    copy is read.

    Args:
        model: A classifier of texts or pairs with attention, in evaluation mode.
        input_ids: As the model reads them, shape (B, T), and so the mask and the token types.
        attention_mask: Shape (B, T).
        token_type_ids: Shape (B, T).
        labels: The ids of the labels to explain, one per text, shape (B,); by default those with
            the highest logits.
        hop_labels: The ids of the labels for which `hops` is computed, the same for all texts,
            shape (K,). By default all, in their order; of more than `MAX_HOP_LABELS` = 100 the
            explained label, then those with the highest logits.

    Raises:
        ValueError: If the model is no classifier, has no attention, or is in training mode, or if
            ids of labels have another shape or type, or are not among the model's.
    """
    check_explainable(model)
    if model.training:
        raise ValueError("the model is in training mode, where dropout is at work; call eval()")
    if labels is not None:
        check_label_ids("labels", labels, model, num_texts=len(input_ids))
    if hop_labels is not None:
        check_label_ids("hop_labels", hop_labels, model)
    if model.dtype in HALF_PRECISION:
        model = deepcopy(model).float()
    device = input_ids.device
    inputs = (input_ids, attention_mask, token_type_ids)
    with torch.no_grad(), backward_in_evaluation_mode(device):
        read = model.read(*inputs, None, output_attentions=True, output_hidden_states=True)
        matrices = read.sentence_embedding.unflatten(-1, (model.config.num_rows, -1))
        logits = model.classify(matrices, *inputs)
        labels = logits.argmax(-1) if labels is None else labels.to(device).long()
        path = HeadPath(model, matrices)
        gradient = path.gradient(labels)  # (..., r, H)
        attention = read.attentions[0]  # (..., r, T)
        contributions = attention * (gradient @ read.last_hidden_state.mT)
        slopes = attention.mT @ gradient  # of the states, (..., T, H)
        words = _words(model, inputs, read.hidden_states, slopes)
    words = _bounded(words, contributions)
    rest = contributions.sum((-2, -1)) - words.sum(-1)
    if model.reads_pairs:
        words = words.sum(1)
    if hop_labels is None:
        hop_labels = _labels_of_interest(logits, labels)
    else:
        hop_labels = hop_labels.to(device).long().expand(len(labels), -1)
    linear, linear_of_labels = _linear_part(model, inputs, labels, hop_labels, attention.dtype)
    return Contributions(
        labels=labels,
        contributions=contributions,
        linear=linear,
        words=words + linear,
        rest=rest,
        hop_labels=hop_labels,
        hops=path.hops(hop_labels),
        linear_of_labels=linear_of_labels,
    )


def _words(model: Any, inputs: Inputs, levels: Sequence[Tensor], slopes: Tensor) -> Tensor:
    """Return what each token added through the encoder, (B, T), or (B, 2, T) of pairs.

    The levels are the word vectors and the states of each layer, (B, T, width) or (B, 2, T, width),
    and the slopes (B, T, H) or (B, 2, T, H) those of the last states.
    """
    rows = Rows(_read_tokens(model, inputs), limit=model.config.max_tokens)
    vectors, *layers = [rows.left(level.flatten(0, -3)) for level in levels]
    # An adapter wraps the model, and another class than ours has its own `base_model`.
    plain = model.get_base_model() if hasattr(model, "get_base_model") else model
    encoder = plain.base_model.token_encoder
    of_rows = rows.left(slopes.flatten(0, -3))
    added = added_by_words(encoder, model.config.encoder, vectors, layers, rows, of_rows)
    return rows.back(added).view(slopes.shape[:-1])


def _read_tokens(model: Any, inputs: Inputs) -> Tensor:
    """Return True on the real tokens of each text that the encoder reads, (B, T) or (2 B, T)."""
    input_ids, attention_mask, token_type_ids = inputs
    real = real_tokens(input_ids, attention_mask)
    if model.reads_pairs:
        assert token_type_ids is not None  # checked where pairs are encoded
        real = tokens_of_sides(real, token_type_ids).flatten(0, 1)
    return first_tokens(real, model.config.max_tokens)


def _bounded(words: Tensor, contributions: Tensor) -> Tensor:
    """Return what words added, and in a text where that grows beyond all measure another answer.

    Held gates do not bound what goes back through hundreds of steps of an LSTM with large weights.
    There each word has what the hops added where they read it, which adds up as well. Words are
    (..., T), the contributions of hops (..., r, T).
    """
    most = MAX_GROWTH * contributions.abs().sum((-2, -1))
    is_bounded = words.abs().sum(-1) <= most  # False for NaN
    return torch.where(is_bounded.unsqueeze(-1), words, contributions.sum(-2))


@torch.no_grad()
def _linear_part(
    model: Any,
    inputs: Inputs,
    labels: Tensor,
    hop_labels: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Return what each word added by itself to labels (B,), and all words to labels (B, K).

    These are (B, T), and (B, K) or, of pairs, (B, K, 2). `inputs` are the ids, the mask and the
    token types.
    """
    if model.linear_part is None:
        shape = (*hop_labels.shape, 2) if model.reads_pairs else hop_labels.shape
        zeros = torch.zeros(inputs[0].shape, dtype=dtype, device=labels.device)
        return zeros, zeros.new_zeros(shape)
    weigh_labels = F.one_hot(labels, model.config.num_labels).to(dtype)
    of_sides = model.linear_part.of_sides(*inputs).to(dtype)  # (B, 1 or 2, L)
    if answers_of(model.config).has_one_label:
        weigh_labels = weigh_labels - 1 / model.config.num_labels
        of_sides = of_sides - of_sides.mean(2, keepdim=True)
    added = model.linear_part.added(*inputs, weigh_labels)
    of_labels = of_sides.mT.take_along_dim(hop_labels.unsqueeze(2), 1)  # (B, K, 1 or 2)
    return added.to(dtype), of_labels if model.reads_pairs else of_labels.squeeze(2)


@contextmanager
def backward_in_evaluation_mode(device: torch.device) -> Iterator[None]:
    """Compute with kernels that have a gradient outside of training, on every processor.

    cuDNN's LSTM has none in evaluation mode, and in the half precision of autocast there is no LSTM
    on processors without AVX-512.
    """
    with torch.autocast(device.type, enabled=False), torch.backends.cudnn.flags(enabled=False):
        yield


def check_explainable(model: PreTrainedModel) -> None:
    """Raise ValueError unless a model is a classifier with attention and plain weights."""
    if not (hasattr(model, "classify") and model.config.has_attention):
        raise ValueError(
            f"a {type(model).__name__} with pooling={model.config.pooling!r} has no contributions; "
            "they need a classifier of texts or pairs with pooling='self_attention'"
        )
    for name, module in model.named_modules():
        is_read = {"classifier", "matching"} & set(name.split("."))
        is_adapted = hasattr(module, "base_layer")
        is_quantized = callable(getattr(module, "weight", None))
        if is_read and (is_adapted or is_quantized):
            raise ValueError(
                f"{name} is a {type(module).__name__}, whose weights contributions cannot read; "
                "merge an adapter (merge_and_unload), or explain the model that was quantized"
            )


def check_label_ids(name: str, labels: Tensor, model: Any, num_texts: int | None = None) -> None:
    """Raise ValueError unless labels are ids of the labels of a model, in one dimension.

    With `num_texts` there must be one for each text: a single one would count for all of them.
    """
    num_labels = model.config.num_labels
    if not isinstance(labels, Tensor):
        raise ValueError(
            f"{name} is a {type(labels).__name__}; it must be a tensor of label ids, such as "
            "torch.tensor([0, 2])"
        )
    is_integer = labels.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    if not is_integer:
        raise ValueError(
            f"{name} is of type {labels.dtype}; it must hold label ids, integers from 0 to "
            f"{num_labels - 1}"
        )
    expected = "one dimension" if num_texts is None else f"one label per text, ({num_texts},)"
    if labels.ndim != 1 or num_texts not in (None, len(labels)):
        raise ValueError(f"{name} has shape {tuple(labels.shape)}; it must have {expected}")
    unknown = labels[(labels < 0) | (labels >= num_labels)]
    if len(unknown):
        raise ValueError(
            f"{name} holds {int(unknown[0])}; the labels of the model are 0 to {num_labels - 1}"
        )


def _labels_of_interest(logits: Tensor, labels: Tensor) -> Tensor:
    """Return all labels in order, or the explained ones (B,) and then the likeliest: (B, K)."""
    num_labels = logits.shape[1]
    if num_labels <= MAX_HOP_LABELS:
        return torch.arange(num_labels, device=logits.device).expand(len(logits), -1)
    explained_first = logits.scatter(1, labels.unsqueeze(1), torch.inf)
    return explained_first.topk(MAX_HOP_LABELS).indices


class HeadPath:
    """The straight path of the head from the empty matrix to the matrices of B texts.

    Args:
        model: A classifier.
        matrices: M (B, r, H), or (B, 2, r, H) of pairs.
    """

    def __init__(self, model: Any, matrices: Tensor) -> None:
        wide = torch.promote_types(matrices.dtype, torch.float32)
        self.model = model
        self.classifier = model.classifier
        self.matching: Any = getattr(model, "matching", None)
        self.matrices = matrices.detach().to(wide).requires_grad_()
        with torch.enable_grad(), torch.autocast(matrices.device.type, enabled=False):
            linear, quadratic = self._units()  # (B, b) each
            with torch.no_grad():
                bias = self.classifier.bias().to(wide)
                self.first, self.second = active_shares(linear, quadratic, bias)
            # The gradient of a square grows along the path: on average it is half of that at the
            # end.
            self.grown = self.first * linear + self.second / 2 * quadratic

    def gradient(self, labels: Tensor) -> Tensor:
        """Return G, the mean gradient of the logits of labels (B,): (B, r, H) or (B, 2, r, H)."""
        with torch.enable_grad(), torch.autocast(self.matrices.device.type, enabled=False):
            logits = (self.grown * self._output(labels)).sum()
            (gradient,) = torch.autograd.grad(logits, self.matrices)
        return gradient

    @torch.no_grad()
    def hops(self, labels: Tensor) -> Tensor:
        """Return what each row of M added to the logits of labels (B, K): sum_h M_ih G_ih.

        The result is (B, K, r), or (B, K, 2, r) of pairs. What a row adds to a unit does not depend
        on the label, so that no label needs a gradient of its own.
        """
        rows_or_labels = max(self.matrices.shape[-2], labels.shape[1])
        texts_at_once = max(1, BLOCK_SIZE // (rows_or_labels * self.first.shape[1]))
        blocks = []
        with torch.autocast(self.matrices.device.type, enabled=False):
            for start in range(0, max(len(labels), 1), texts_at_once):
                texts = slice(start, start + texts_at_once)
                blocks.append(self._hops_of(texts, labels))
        return torch.cat(blocks)

    def _hops_of(self, texts: slice, labels: Tensor) -> Tensor:
        """Return `hops` of some of the texts."""
        first = self.first[texts]
        second = self.second[texts]
        output = self._output(labels[texts])  # (c, K, b)
        matrices = self.matrices[texts]
        if self.matching is None:
            added = first.unsqueeze(1) * self.classifier.units_by_row(matrices)  # (c, r, b)
            return output @ added.mT
        by_side = []
        for shares in self.matching.shares(*matrices.unbind(1)):  # (c, r, W) of each side
            straight, product = self._by_degree(shares)
            added = first.unsqueeze(1) * self.classifier.units_by_row(straight)
            added += second.unsqueeze(1) / 2 * self.classifier.units_by_row(product)
            by_side.append(output @ added.mT)
        return torch.stack(by_side, 2)

    def _units(self) -> tuple[Tensor, Tensor]:
        """Return the parts of the hidden units that grow linearly and by squares, (B, b) each."""
        if self.matching is None:
            linear = self.classifier.units(self.matrices)
            return linear, torch.zeros_like(linear)
        straight, product = self._by_degree(self.matching(*self.matrices.unbind(1)))
        return self.classifier.units(straight), self.classifier.units(product)

    def _by_degree(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Split features (..., W) of pairs into those of the first degree and those of the second.

        Each part has zeros in place of the other.
        """
        columns = torch.arange(features.shape[-1], device=features.device)
        is_product = columns >= self.matching.linear_width
        return features.masked_fill(is_product, 0), features.masked_fill(~is_product, 0)

    def _output(self, labels: Tensor) -> Tensor:
        """Return the weights of the hidden units for labels (...): (..., b).

        Where a text has one label, they are those of the logit minus the mean of all logits.
        """
        layer = self.classifier.output
        weight = layer.weight.detach()  # (L, b)
        chosen = weight[labels].to(self.matrices.dtype)
        if layer.deviation is not None:
            chosen = chosen * chosen.new_tensor(layer.deviation)[labels].unsqueeze(-1)
        if answers_of(self.model.config).has_one_label:
            return chosen - weight.mean(0, dtype=self.matrices.dtype)
        return chosen


def active_shares(linear: Tensor, quadratic: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return the integrals of 1 and of 2 a over all a from 0 to 1 where a unit is active.

    A unit is active where bias + a linear + a^2 quadratic > 0. Its ReLU grows from a = 0 to 1 by
    exactly linear times the first integral plus quadratic times the second.
    """
    root = (linear.square() - 4 * quadratic * bias).clamp(min=0).sqrt()
    half = -(linear + torch.where(linear < 0, -root, root)) / 2
    cuts = torch.stack([half / quadratic, bias / half]).nan_to_num(0).clamp(0, 1).sort(0).values
    low, high = cuts
    edges = torch.stack([torch.zeros_like(low), low, high, torch.ones_like(low)])
    middle = (edges[1:] + edges[:-1]) / 2
    active = bias + middle * (linear + middle * quadratic) > 0
    return (edges.diff(dim=0) * active).sum(0), (edges.square().diff(dim=0) * active).sum(0)
