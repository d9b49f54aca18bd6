"""Simple models beside a trained one: the most frequent label, and a linear model over words.

They need no scikit-learn. Shapes: B rows, C labels or outputs, V words.
"""

from collections.abc import Callable

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from torch.nn import functional as F

from ..data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL

LOSSES: dict[str, Callable[..., Tensor]] = {
    SINGLE_LABEL: F.cross_entropy,
    MULTI_LABEL: F.binary_cross_entropy_with_logits,
    REGRESSION: F.mse_loss,
}
MIN_STEPS = 200
EPOCHS, BATCH_SIZE, LEARNING_RATE, WEIGHT_DECAY = 8, 256, 0.05, 6e-3


def label_tensor(rows: Dataset, problem_type: str, num_labels: int) -> Tensor:
    """Return the labels of rows: ids of the (most probable) class (B,), or floats (B, C)."""
    labels = torch.tensor(rows["labels"][:])
    if problem_type == SINGLE_LABEL:
        return labels if labels.ndim == 1 else labels.argmax(1)
    return labels.float().view(-1, num_labels)


def most_frequent(train: Dataset, num_rows: int, problem_type: str, num_labels: int) -> Tensor:
    """Return logits (B, C), the same in each row, that predict from the training labels alone.

    The prediction is the most frequent label; for sets of labels, the labels that most rows have;
    for numbers, their mean.
    """
    labels = label_tensor(train, problem_type, num_labels)
    if problem_type == SINGLE_LABEL:
        logits = labels.bincount(minlength=num_labels).float()
    else:
        logits = labels.mean(0) - (0.5 if problem_type == MULTI_LABEL else 0)
    return logits.expand(num_rows, -1)


def bag_of_words(
    train: Dataset, rows: Dataset, vocab_size: int, problem_type: str, num_labels: int
) -> Tensor:
    """Return the logits (B, C) of a linear model over TF-IDF word counts for `rows`.

    The two texts of a pair have separate counts. Settings are fixed, not tuned on the evaluated
    rows; a fixed seed draws the order of the batches.
    """
    bags = _Bags(train, vocab_size)
    weights = torch.zeros(len(bags.idf), num_labels, requires_grad=True)
    bias = torch.zeros(num_labels, requires_grad=True)
    labels = label_tensor(train, problem_type, num_labels)
    center, scale = torch.zeros(num_labels), torch.ones(num_labels)
    if problem_type == REGRESSION:  # few steps do not reach targets such as 1000
        center, scale = labels.mean(0), labels.std(0, correction=0)
        scale[scale == 0] = 1
        labels = (labels - center) / scale
    per_epoch = -(-train.num_rows // BATCH_SIZE)
    epochs = max(EPOCHS, MIN_STEPS // per_epoch)
    optimizer = torch.optim.Adam([weights, bias], LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, epochs * per_epoch)
    order = np.random.default_rng(0)
    for _ in range(epochs):
        for numbers in np.array_split(order.permutation(train.num_rows), per_epoch):
            logits = bags.logits(numbers, weights, bias)
            loss = LOSSES[problem_type](logits, labels[torch.from_numpy(numbers)])
            optimizer.zero_grad()
            (loss + WEIGHT_DECAY * weights.square().sum() / BATCH_SIZE).backward()
            optimizer.step()
            schedule.step()
    others = _Bags(rows, vocab_size, bags.idf)
    parts = np.split(np.arange(rows.num_rows), range(1024, rows.num_rows, 1024))
    with torch.no_grad():
        logits = torch.cat([others.logits(part, weights, bias) for part in parts])
    return logits * scale + center


class _Bags:
    """The distinct words of all rows, row by row, and their TF-IDF weights of length 1 per row."""

    def __init__(self, rows: Dataset, vocab_size: int, idf: np.ndarray | None = None) -> None:
        """Weigh the words by `idf` (V,), or by the IDF of these rows."""
        ids = rows["input_ids"][:]
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        words = np.fromiter((word for row in ids for word in row), np.int64, int(lengths.sum()))
        width = vocab_size
        if "token_type_ids" in rows.column_names:
            sides = (side for row in rows["token_type_ids"][:] for side in row)
            words += vocab_size * np.fromiter(sides, np.int64, len(words))
            width *= 2
        keys = np.repeat(np.arange(len(ids)), lengths) * width + words
        keys, counts = np.unique(keys, return_counts=True)
        numbers, self.words = np.divmod(keys, width)
        self.starts = np.searchsorted(numbers, np.arange(len(ids) + 1))
        frequency = np.bincount(self.words, minlength=width)
        self.idf = np.log((1 + len(ids)) / (1 + frequency)) + 1 if idf is None else idf
        weights = (1 + np.log(counts)) * self.idf[self.words]
        squares = np.bincount(numbers, weights**2, minlength=len(ids))
        self.weights = weights / np.sqrt(squares)[numbers]

    def logits(self, numbers: np.ndarray, weights: Tensor, bias: Tensor) -> Tensor:
        """Return the logits (B, C) of some rows, by their numbers (B,)."""
        starts, lengths = self.starts[numbers], np.diff(self.starts)[numbers]
        offsets = np.concatenate([[0], lengths.cumsum()[:-1]])
        places = np.repeat(starts - offsets, lengths) + np.arange(lengths.sum())
        words, first = torch.from_numpy(self.words[places]), torch.from_numpy(offsets)
        own = torch.from_numpy(self.weights[places].astype(np.float32))
        return F.embedding_bag(words, weights, first, mode="sum", per_sample_weights=own) + bias
