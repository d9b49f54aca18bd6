"""The linear part of a classifier: what the words themselves add to its logits.

Each word has a weight for each label, and so has each pair of neighbouring words; pairs share
`NUM_PAIRS` rows of weights by a hash. The sum over a text, divided by the square root of its number
of tokens, is added to the logits of the hops. The weights of a new model are zero:
`sase_hf.fit_linear_part` finds them after training, by logistic regression.

Shapes: B texts, T tokens, V words, L labels.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configuration_self_attentive import SelfAttentiveConfig
from .packing_self_attentive import columns_of_tokens

NUM_PAIRS = 2**16
# Below 2^53 for every id, so that a script of a page computes the same in float64.
HASH_FACTOR = 1_000_003


class _Aligned(NamedTuple):
    """Texts with their real tokens on the left."""

    word_ids: Tensor  # (B, T)
    pair_ids: Tensor  # of each token and the next one, (B, T - 1)
    is_word: Tensor  # (B, T)
    is_pair: Tensor  # (B, T - 1)
    scale: Tensor  # 1 / sqrt(number of tokens), float32, (B, 1)


class LinearPart(nn.Module):
    """A linear model over words and pairs of words, whose outputs are added to the logits."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        num_labels = len(config.id2label or {})
        self.word_weight = nn.Parameter(torch.zeros(config.vocab_size, num_labels))
        self.pair_weight: nn.Parameter | None = None
        if config.linear_part == "words_and_pairs":
            self.pair_weight = nn.Parameter(torch.zeros(NUM_PAIRS, num_labels))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Return what the words add to the logits (B, L), in float32 or wider.

        Ids and mask (B, T) are those of the model; without a mask every token is real.
        """
        texts = _aligned(input_ids, attention_mask)
        total = _sum_of(self.word_weight, texts.word_ids, texts.is_word)
        if self.pair_weight is not None:
            total = total + _sum_of(self.pair_weight, texts.pair_ids, texts.is_pair)
        return total * texts.scale

    def added(
        self, input_ids: Tensor, attention_mask: Tensor | None, weigh_labels: Tensor
    ) -> Tensor:
        """Return what each token adds to a weighted sum of the logits, zero on padding: (B, T).

        The weights of the labels are (B, L), such as 1 for one label and 0 for all others. Half of
        what a pair adds is of each of its two words.
        """
        texts = _aligned(input_ids, attention_mask)
        added = _weighted(self.word_weight, texts.word_ids, texts.is_word, weigh_labels)
        if self.pair_weight is not None:
            of_pairs = _weighted(self.pair_weight, texts.pair_ids, texts.is_pair, weigh_labels)
            added = added + F.pad(of_pairs, (0, 1)) / 2 + F.pad(of_pairs, (1, 0)) / 2
        added = added * texts.scale
        if attention_mask is None:
            return added
        # Back to the places of the tokens.
        real = attention_mask != 0
        place = (real.cumsum(1) - 1).clamp(min=0)
        return added.gather(1, place).masked_fill(~real, 0)

    def resize(self, num_words: int) -> None:
        """Keep the weights of the first words, and give new words the weight 0."""
        old = self.word_weight
        kept = old.detach()[:num_words]
        resized = F.pad(kept, (0, 0, 0, num_words - len(kept)))
        self.word_weight = nn.Parameter(resized, requires_grad=old.requires_grad)


def pair_ids(first: Tensor, second: Tensor) -> Tensor:
    """Return the row of the weights of pairs of words, given the ids of both, of the same shape."""
    return (first * HASH_FACTOR + second) % NUM_PAIRS


def _aligned(input_ids: Tensor, attention_mask: Tensor | None) -> _Aligned:
    if attention_mask is None:
        real = torch.ones_like(input_ids, dtype=torch.bool)
    else:
        real = attention_mask != 0
    lengths = real.sum(1)
    word_ids = input_ids.long().gather(1, columns_of_tokens(real, lengths))
    place = torch.arange(input_ids.shape[1], device=input_ids.device)
    is_word = place < lengths.unsqueeze(1)
    return _Aligned(
        word_ids=word_ids,
        pair_ids=pair_ids(word_ids[:, :-1], word_ids[:, 1:]),
        is_word=is_word,
        is_pair=is_word[:, 1:],
        scale=lengths.clamp(min=1).unsqueeze(1).float().rsqrt(),
    )


def _wide(weights: Tensor) -> Tensor:
    return weights.to(torch.promote_types(weights.dtype, torch.float32))


def _sum_of(table: Tensor, ids: Tensor, are_real: Tensor) -> Tensor:
    """Return the sum of the rows of a table (rows, L) with real ids (B, N): (B, L)."""
    weights = _wide(F.embedding(ids, table)).masked_fill(~are_real.unsqueeze(-1), 0)
    # Padding changes the order of the sum. In float64 no order moves a digit of float32.
    has_float64 = weights.device.type != "mps"
    total = weights.sum(1, dtype=torch.float64 if has_float64 else None)
    return total.to(weights.dtype)


def _weighted(table: Tensor, ids: Tensor, are_real: Tensor, weigh_labels: Tensor) -> Tensor:
    """Return the weighted sum over the labels of each row of a table with a real id: (B, N)."""
    weights = _wide(F.embedding(ids, table))
    weighted = torch.einsum("bnl,bl->bn", weights, weigh_labels.to(weights.dtype))
    return weighted.masked_fill(~are_real, 0)
