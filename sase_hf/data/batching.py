"""Choose which rows share a batch, and how much of a batch is in memory at once.

The choice changes no result, except for dropout: the parts of a batch have the loss of the batch.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices


class LengthGroupedOrder(Sampler[int]):
    """Rows in random order, those of similar lengths together; seed and epoch decide the order.

    The stock sampler of `group_by_length` draws from the global random state, which a resumed run
    finds changed. `batches` are sorted together; None lets transformers choose their number.
    """

    def __init__(
        self, lengths: Sequence[int], batch_size: int, seed: int, batches: int | None = None
    ) -> None:
        self.lengths, self.batch_size, self.batches = lengths, batch_size, batches
        self.seed, self.epoch = seed, 0

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[int]:
        options = {"generator": torch.Generator().manual_seed(self.seed + self.epoch)}
        rows = get_length_grouped_indices(self.lengths, self.batch_size, self.batches, **options)
        return iter(rows)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next order."""
        self.epoch = epoch


def longest_first(dataset: Dataset) -> list[int]:
    """Return tokenized rows by length: memory runs out in the first batch or never."""
    return np.argsort(token_counts(dataset), kind="stable")[::-1].tolist()


def token_counts(dataset: Dataset) -> list[int]:
    """Count the tokens of every tokenized row from Arrow's offsets, without reading a row."""
    column = dataset.with_format("arrow")[:]["input_ids"]
    return [count for chunk in column.chunks for count in chunk.value_lengths().to_pylist()]


def share_of_token(dataset: Dataset, token_id: int | None) -> float:
    """Return the share of a token, from 0 to 1, or the larger one of texts and targets."""
    table, shares = dataset.with_format("arrow")[:], [0.0]
    for name in ("input_ids", "labels"):
        if name in table.column_names and "list<item: int" in str(table.schema.field(name).type):
            ids = [chunk.flatten().to_numpy() for chunk in table[name].chunks]
            count = sum(int((chunk == token_id).sum()) for chunk in ids)
            shares.append(count / max(sum(map(len, ids)), 1))
    return max(shares)


def parts_of_batch(batch: Mapping[str, Tensor], max_tokens: int | None) -> list[dict[str, Tensor]]:
    """Split a batch into parts of whole rows with at most `max_tokens` tokens, padding included.

    The batch holds tensors of B rows, among them `input_ids`, shape (B, T), or `inputs_embeds`,
    shape (B, T, d). A longer row is a part of its own; None leaves the batch whole.
    """
    rows, length = batch["input_ids" if "input_ids" in batch else "inputs_embeds"].shape[:2]
    if max_tokens is None or rows * length <= max_tokens:
        return [dict(batch)]
    size = max(max_tokens // length, 1)
    cut = {name: tensor.split(size) for name, tensor in batch.items()}
    return [dict(zip(cut, part, strict=True)) for part in zip(*cut.values(), strict=True)]


def batches_by_length(
    lengths: Sequence[int], max_tokens: int, least: int = 1
) -> Iterator[list[int]]:
    """Yield the indices of rows, the longest first, in batches of at most `max_tokens` tokens.

    Padding counts; a longer row is alone. A row counts as at least `least` tokens, since its result
    takes memory too.
    """
    order = np.argsort(lengths, kind="stable")[::-1].tolist()
    start = 0
    while start < len(order):
        size = max(max_tokens // max(lengths[order[start]], least), 1)
        yield order[start : start + size]
        start += size
