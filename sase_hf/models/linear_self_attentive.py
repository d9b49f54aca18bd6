"""The linear part of a classifier: what the words themselves add to its logits.

Each word has a weight for each label, and so has each pair of neighbouring words; pairs share
`NUM_PAIRS` rows of weights by a hash. The sum over a text, divided by the square root of its number
of tokens, is added to the logits of the hops.

What two texts say about one another is in the words that they share. The words of a pair of texts
are therefore in three parts, each with weights of its own: what only the second text has, what both
have (where it stands in the second), and what only the first has. Neighbours are words that follow
one another in a part.

On a pretrained encoder the mean of its states has weights, too; of a pair the two means, how far
they are apart, and their product.

The weights of a new model are zero: `sase_hf.fit_linear_part` finds them after training.

Shapes: B texts or pairs, T tokens, V words, L labels, H width of the states, n parts: 1 of a text,
3 of a pair, F numbers that mean states give: H of a text, 4 H of a pair.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .checked_model import first_tokens
from .configuration_self_attentive import SelfAttentiveConfig
from .rows_self_attentive import Rows, real_tokens, tokens_of_sides

NUM_PAIRS = 2**16
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

    @property
    def is_word(self) -> Tensor | None:
        """Return where there is a word (B n, S); None: everywhere."""
        return None if self.rows.is_full else self.rows.real

    @property
    def is_pair(self) -> Tensor | None:
        """Return where there is a pair (B n, S - 1); None: everywhere."""
        return None if self.rows.is_full else self.rows.real[:, 1:]


class LinearPart(nn.Module):
    """A linear model over words, pairs of words and mean states: it is added to the logits."""

    def __init__(self, config: SelfAttentiveConfig, *, reads_pairs: bool) -> None:
        super().__init__()
        num_labels = len(config.id2label or {})
        self.config = config
        self.reads_pairs = reads_pairs
        self.num_parts = NUM_PARTS_OF_PAIR if reads_pairs else 1
        shape = (self.num_parts, config.vocab_size, num_labels)
        self.word_weight = nn.Parameter(torch.zeros(shape))
        self.pair_weight: nn.Parameter | None = None
        if config.linear_part == "words_and_pairs":
            self.pair_weight = nn.Parameter(torch.zeros(self.num_parts, NUM_PAIRS, num_labels))
        self.state_weight: nn.Parameter | None = None
        if config.encoder == "auto_model":
            width = config.hidden_size * (FEATURES_OF_PAIR if reads_pairs else 1)
            self.state_weight = nn.Parameter(torch.zeros(width, num_labels))

    @property
    def num_words(self) -> int:
        """V."""
        return self.word_weight.shape[1]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        states: Tensor | None = None,
    ) -> Tensor:
        """Return what the words and the mean state add to the logits (B, L), in float32 or wider.

        Ids, mask and token types (B, T) are those of the model; without a mask every token is real.
        The states (B, T, H), or (B, 2, T, H) of pairs, are those of a pretrained encoder.
        """
        texts = self.aligned(input_ids, attention_mask, token_type_ids)
        total = _sum_of(self.word_weight, texts.of_words, texts.is_word)
        if self.pair_weight is not None:
            total = total + _sum_of(self.pair_weight, texts.of_pairs, texts.is_pair)
        of_parts = total.unflatten(0, (-1, self.num_parts))  # (B, n, L)
        added = (of_parts * texts.scale.unsqueeze(1)).sum(1)
        if self.state_weight is None:
            return added
        assert states is not None  # a classifier asks its encoder for them
        return added + self.of_mean_state((input_ids, attention_mask, token_type_ids), states)

    def of_mean_state(
        self, inputs: Inputs, states: Tensor, share_of_products: float = 1.0
    ) -> Tensor:
        """Return what the `features` of ids, mask, types and states add to the logits, (B, L)."""
        assert self.state_weight is not None  # on a pretrained encoder alone
        features = self.features(*inputs, states, share_of_products)
        with torch.autocast(features.device.type, enabled=False):
            return features @ self.state_weight.to(features)

    def features(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        states: Tensor,
        share_of_products: float = 1.0,
    ) -> Tensor:
        """Return what has weights in the mean state, or in two of a pair, (B, F).

        The states are zero on padding; the products of two means count by a share.
        """
        read = self._tokens_read(input_ids, attention_mask, token_type_ids)
        if self.reads_pairs:
            assert token_type_ids is not None  # checked where pairs are encoded
            read = tokens_of_sides(read, token_type_ids)
        means = _sum_over(states, -2) / read.sum(-1, keepdim=True).clamp(min=1)
        if not self.reads_pairs:
            return means
        first, second = means.unbind(1)
        products = share_of_products * first * second
        return torch.cat([first, second, (first - second).abs(), products], -1)

    def added(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        weigh_labels: Tensor,
    ) -> Tensor:
        """Return what each token adds to a weighted sum of the logits, zero on padding: (B, T).

        The weights of the labels are (B, L), such as 1 for one label and 0 for all others. Half of
        what a pair of neighbours adds is of each of the two.
        """
        texts = self.aligned(input_ids, attention_mask, token_type_ids)
        weigh_labels = weigh_labels.repeat_interleave(self.num_parts, 0)
        added = _weighted(self.word_weight, texts.of_words, texts.is_word, weigh_labels)
        if self.pair_weight is not None:
            of_pairs = _weighted(self.pair_weight, texts.of_pairs, texts.is_pair, weigh_labels)
            half = of_pairs / 2
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

    def _tokens_read(
        self, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None
    ) -> Tensor:
        """Return True on the real tokens up to the limit of the model, (B, T)."""
        real = real_tokens(input_ids, attention_mask)
        if not self.reads_pairs:
            return first_tokens(real, self.config.max_tokens)
        assert token_type_ids is not None  # checked where pairs are encoded
        sides = tokens_of_sides(real, token_type_ids)
        return first_tokens(sides, self.config.max_tokens).any(1)

    def _parts(self, input_ids: Tensor, real: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """Return which tokens each part of a text has, (B, n, T)."""
        if not self.reads_pairs:
            return real.unsqueeze(1)
        assert token_type_ids is not None  # checked where pairs are encoded
        is_first, is_second = tokens_of_sides(real, token_type_ids).unbind(1)
        in_first = self._are_among(input_ids, is_first)
        in_second = self._are_among(input_ids, is_second)
        only_second = is_second & ~in_first
        shared = is_second & in_first
        only_first = is_first & ~in_second
        return torch.stack([only_second, shared, only_first], 1)

    def _are_among(self, input_ids: Tensor, chosen: Tensor) -> Tensor:
        """Return which ids (B, T) are among the chosen ones of their row."""
        ids = input_ids.long()
        counts = torch.zeros(ids.shape[0], self.num_words, dtype=torch.long, device=ids.device)
        counts = counts.scatter_add(1, ids, chosen.long())
        return counts.gather(1, ids) > 0

    def aligned(
        self, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None
    ) -> Aligned:
        """Return which rows of the weights the texts of a batch (B, T) read, on the left."""
        real = self._tokens_read(input_ids, attention_mask, token_type_ids)
        parts = self._parts(input_ids, real, token_type_ids)  # (B, n, T)
        rows = Rows(parts.flatten(0, 1))
        scale = _scale(real)
        ids = input_ids.long()
        if not self.reads_pairs:
            ids = rows.left(ids)
            return Aligned(scale, rows, ids, pair_ids(ids[:, :-1], ids[:, 1:]))
        ids = rows.left(ids.repeat_interleave(self.num_parts, 0))
        # The weights of all parts lie one below the other.
        number = torch.arange(self.num_parts, device=ids.device)
        part = number.expand(parts.shape[0], -1).reshape(-1, 1)
        of_pairs = pair_ids(ids[:, :-1], ids[:, 1:]) + part * NUM_PAIRS
        return Aligned(scale, rows, ids + part * self.num_words, of_pairs)


def pair_ids(first: Tensor, second: Tensor) -> Tensor:
    """Return the row of the weights of pairs of words, given the ids of both, of the same shape."""
    return (first * HASH_FACTOR + second) % NUM_PAIRS


def _scale(real: Tensor) -> Tensor:
    """Return 1 / sqrt(number of tokens) of each text, (B, 1)."""
    lengths = real.sum(1, keepdim=True)
    return lengths.clamp(min=1).float().rsqrt()


def _wide(weights: Tensor) -> Tensor:
    return weights.to(torch.promote_types(weights.dtype, torch.float32))


def _sum_of(tables: Tensor, rows: Tensor, are_real: Tensor | None) -> Tensor:
    """Return the sum of the real rows (N, K) of tables (n, ..., L), one below the other: (N, L)."""
    weights = _wide(F.embedding(rows, tables.flatten(0, 1)))
    if are_real is not None:
        weights = weights.masked_fill(~are_real.unsqueeze(-1), 0)
    return _sum_over(weights, 1)


def _sum_over(values: Tensor, dim: int) -> Tensor:
    """Return a sum in float32 or wider, to each digit of it."""
    wide = _wide(values)
    # Padding changes the order of the sum. In float64 no order moves a digit of float32.
    has_float64 = wide.device.type != "mps"
    return wide.sum(dim, dtype=torch.float64 if has_float64 else None).to(wide.dtype)


def _weighted(
    tables: Tensor, rows: Tensor, are_real: Tensor | None, weigh_labels: Tensor
) -> Tensor:
    """Return the weighted sum over the labels of the real rows (N, K) of tables: (N, K)."""
    weights = _wide(F.embedding(rows, tables.flatten(0, 1)))
    weighted = torch.einsum("bnl,bl->bn", weights, weigh_labels.to(weights.dtype))
    return weighted if are_real is None else weighted.masked_fill(~are_real, 0)
