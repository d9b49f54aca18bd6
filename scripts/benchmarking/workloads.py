"""Texts of random token ids, as long as tweets, reviews or documents, and batches of them.

Shapes: B texts, T tokens.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Batch = dict[str, Tensor]

REVIEW_MEAN, REVIEW_SPREAD = 120, 0.6


@dataclass(frozen=True)
class Workload:
    """How long texts are and how many go into a batch.

    Attributes:
        name: What the lengths are like.
        batch_size: Texts in a batch.
        num_batches: Batches in a pass of the full benchmark.
        draw: Number of texts -> their lengths, from torch's random state.
    """

    name: str
    batch_size: int
    num_batches: int
    draw: Callable[[int], Tensor]


def _tweets(count: int) -> Tensor:
    return (15 + 6 * torch.randn(count)).round().clamp(1, 40)


def _reviews(count: int) -> Tensor:
    center = math.log(REVIEW_MEAN) - REVIEW_SPREAD**2 / 2
    return (center + REVIEW_SPREAD * torch.randn(count)).exp().round().clamp(1, 500)


def _documents(count: int) -> Tensor:
    return torch.randint(1000, 4001, (count,))


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("tweets", 64, 8, _tweets),
        Workload("reviews", 32, 4, _reviews),
        Workload("documents", 4, 1, _documents),
    )
}


def draw_texts(
    lengths: Sequence[int] | Tensor, vocab_size: int, num_labels: int
) -> list[tuple[Tensor, int]]:
    """Draw a text and a label for every length.

    Args:
        lengths: Tokens of each text.
        vocab_size: Ids are from 1, since 0 is padding, to one below it.
        num_labels: Labels are below it.

    Returns:
        Ids of shape (T,) and a label, for each text.
    """
    labels = torch.randint(num_labels, (len(lengths),)).tolist()
    texts = [torch.randint(1, vocab_size, (int(length),)) for length in lengths]
    return list(zip(texts, labels, strict=True))


def batches_of(
    texts: Sequence[tuple[Tensor, int]],
    batch_size: int,
    *,
    grouped: bool,
    device: torch.device,
) -> list[Batch]:
    """Cut texts into batches, padded on the right.

    Args:
        texts: What `draw_texts` returned.
        batch_size: Texts in a batch.
        grouped: Put texts of like length together instead of taking them as they come.
        device: Where the batches go.

    Returns:
        Batches as the models take them; each text is in one of them.
    """
    if grouped:
        texts = sorted(texts, key=lambda text: len(text[0]), reverse=True)
    chunks = (texts[start : start + batch_size] for start in range(0, len(texts), batch_size))
    return [_pad(chunk, device) for chunk in chunks]


def _pad(texts: Sequence[tuple[Tensor, int]], device: torch.device) -> Batch:
    ids = torch.nn.utils.rnn.pad_sequence([text for text, _ in texts], batch_first=True)
    labels = torch.tensor([label for _, label in texts])
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}
    return {name: tensor.to(device) for name, tensor in batch.items()}


def real_tokens(batches: Sequence[Batch]) -> int:
    """Return the number of tokens that are no padding."""
    return sum(int(batch["attention_mask"].sum()) for batch in batches)


def padding_factor(batches: Sequence[Batch]) -> float:
    """Return positions per real token: 1 is without padding."""
    return sum(batch["input_ids"].numel() for batch in batches) / real_tokens(batches)
