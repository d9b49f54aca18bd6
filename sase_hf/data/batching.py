"""Choose which rows share a batch, and how much of a batch is in memory at once.

The choice changes no result, except for dropout: the parts of a batch have the loss of the batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset
from torch import Tensor
from transformers import DataCollatorWithPadding
from transformers.trainer_pt_utils import LengthGroupedSampler, get_length_grouped_indices


class LengthGroupedOrder(LengthGroupedSampler):
    """Rows in random order, those of similar lengths together; seed and epoch decide the order.

    The stock sampler of `group_by_length` draws from the global random state, which a resumed run
    finds changed. `batches` are sorted together; None lets transformers choose their number.
    """

    def __init__(self, lengths: list[int], batch_size: int, seed: int, batches: int | None) -> None:
        super().__init__(batch_size, lengths=lengths)
        self.batches = batches
        self.seed = seed
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        rows = get_length_grouped_indices(
            self.lengths, self.batch_size, self.batches, generator=generator
        )
        return iter(rows)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next order."""
        self.epoch = epoch


def longest_first(dataset: Dataset) -> list[int]:
    """Return tokenized rows by length: memory runs out in the first batch or never."""
    return _falling_order(token_counts(dataset))


def _falling_order(lengths: Sequence[int]) -> list[int]:
    """Return the indices of lengths, the longest first."""
    return np.argsort(lengths, kind="stable")[::-1].tolist()


def token_counts(dataset: Dataset) -> list[int]:
    """Count the tokens of every tokenized row from Arrow's offsets, without reading a row."""
    lists = dataset.with_format("arrow")[:]["input_ids"]
    counts: list[int] = pc.list_value_length(lists).to_pylist()
    return counts


def longest_sides(dataset: Dataset) -> Iterator[int]:
    """Yield the number of tokens of the longer text of every tokenized pair."""
    for types in dataset["token_type_ids"]:
        seconds = sum(types)
        yield max(seconds, len(types) - seconds)


def numbers_of_lists(dataset: Dataset, column: str) -> Iterator[np.ndarray]:
    """Yield the numbers of all lists of a column, chunk by chunk of Arrow's memory."""
    for chunk in dataset.with_format("arrow")[:][column].chunks:
        yield chunk.flatten().to_numpy(zero_copy_only=False)


def share_of_token(dataset: Dataset, token_id: int | None) -> float:
    """Return the share of a token, from 0 to 1, or the larger one of texts and targets."""
    table = dataset.with_format("arrow")[:]
    largest = 0.0
    for field in table.schema:
        if field.name in ("input_ids", "labels") and str(field.type).startswith("list<item: int"):
            is_token = pc.equal(pc.list_flatten(table[field.name]), token_id)
            largest = max(largest, pc.mean(is_token).as_py() or 0.0)
    return largest


def parts_of_batch(batch: Mapping[str, Tensor], max_tokens: int | None) -> list[dict[str, Tensor]]:
    """Split a batch into parts of whole rows with at most `max_tokens` tokens, padding included.

    The batch holds tensors of B rows, among them `input_ids`, shape (B, T). A longer row is a part
    of its own; None leaves the batch whole.
    """
    if max_tokens is None:
        return [dict(batch)]
    length = max(batch["input_ids"].shape[1], 1)
    rows_a_part = max(max_tokens // length, 1)
    parts = zip(*(tensor.split(rows_a_part) for tensor in batch.values()), strict=True)
    return [dict(zip(batch, part, strict=True)) for part in parts]


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of rows, the longest first, in batches of at most `max_tokens` tokens.

    Padding counts; a longer row is alone.
    """
    order = _falling_order(lengths)
    start = 0
    while start < len(order):
        longest = max(lengths[order[start]], 1)
        size = max(max_tokens // longest, 1)
        yield order[start : start + size]
        start += size


@dataclass
class RationaleCollator(DataCollatorWithPadding):
    """Pads rows, and the marks of those that have a column `rationale`.

    `weight` is that of a marked row in the loss. The loss is a mean over all rows; as weight, the
    number of rows for each marked one makes the cost of marks a mean over the marked rows; 0 leaves
    marks out.
    """

    weight: float = 1.0

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch of rows; `rationale` is the weight on marked tokens, else 0, (B, T)."""
        marks = []
        rows = []
        for features_of_row in features:
            row = dict(features_of_row)
            rows.append(row)
            if "rationale" in row:
                marks.append(torch.tensor(row.pop("rationale")).float())
        batch: dict[str, Any] = super().__call__(rows)
        if marks and self.weight:
            weights = torch.zeros(batch["input_ids"].shape)
            weights[batch["attention_mask"] != 0] = self.weight * torch.cat(marks)
            batch["rationale"] = weights
        return batch
