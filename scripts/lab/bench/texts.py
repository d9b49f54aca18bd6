"""Texts of random token ids, as long as tweets, reviews or documents, and batches of them."""

import math
from collections.abc import Callable, Sequence
from itertools import islice, product
from string import ascii_lowercase

import torch
from torch import Tensor
from torch.distributions import LogNormal
from torch.nn.utils.rnn import pad_sequence

Batch = dict[str, Tensor]
Texts = list[tuple[Tensor, int]]  # the ids of a text, shape (T,), and its label
Draw = Callable[[int], Tensor]  # number of texts -> their lengths
REVIEWS = LogNormal(math.log(120) - 0.6**2 / 2, 0.6)  # of mean 120


def lengths_of_tweets(count: int) -> Tensor:
    """Draw lengths of 15 ± 6 tokens, at most 40."""
    lengths = 15 + 6 * torch.randn(count)
    return lengths.round().clamp(1, 40)


def lengths_of_reviews(count: int) -> Tensor:
    """Draw lengths of a long tail, at most 500 tokens."""
    return REVIEWS.sample((count,)).round().clamp(1, 500)


def lengths_of_documents(count: int) -> Tensor:
    """Draw lengths from 1,000 to 4,000 tokens."""
    return torch.randint(1000, 4001, (count,))


# Texts in a batch of training, batches in a pass of the full benchmark, and the lengths.
WORKLOADS: dict[str, tuple[int, int, Draw]] = {
    "tweets": (64, 8, lengths_of_tweets),
    "reviews": (32, 4, lengths_of_reviews),
    "documents": (4, 1, lengths_of_documents),
}
# Different words of four letters, which no tokenizer splits.
WORDS = ["".join(word) for word in islice(product(ascii_lowercase, repeat=4), 20_000)]


def draw_texts(lengths: Sequence[int] | Tensor, vocab_size: int, num_labels: int) -> Texts:
    """Draw a text, without the id 0 of padding, and a label for every length."""
    labels = torch.randint(num_labels, (len(lengths),)).tolist()
    texts = [torch.randint(1, vocab_size, (int(length),)) for length in lengths]
    return list(zip(texts, labels, strict=True))


def batches_of(
    texts: Texts, batch_size: int, *, grouped: bool = False, device: str = "cpu"
) -> list[Batch]:
    """Cut texts into batches (B, T), padded on the right; `grouped` sorts them by length first."""
    if grouped:
        texts = sorted(texts, key=lambda text: len(text[0]), reverse=True)
    batches = []
    for start in range(0, len(texts), batch_size):
        sequences, labels = zip(*texts[start : start + batch_size], strict=True)
        ids = pad_sequence(list(sequences), batch_first=True).to(device)
        batch = {
            "input_ids": ids,
            "attention_mask": (ids != 0).long(),
            "labels": torch.tensor(labels, device=device),
        }
        batches.append(batch)
    return batches
