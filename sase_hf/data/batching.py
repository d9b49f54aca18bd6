"""Rows as a model takes them: those of a file for a trained one, all as token ids, and in batches.

Which rows share a batch changes no prediction.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset, DatasetDict, interleave_datasets
from tokenizers import Encoding
from transformers import (
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.trainer_pt_utils import LengthGroupedSampler, get_length_grouped_indices

from ..models.answers import answers_of
from ..models.checked_model import first_places, readable
from ..utils.errors import refusal
from .arguments import DataArguments, SourceArguments
from .columns import SPAN_COLUMNS
from .marks import Marks, marked_tokens
from .rows import Rows, load_rows
from .table import PROBABILITIES, TEXT_COLUMNS, present, scratch_file, writing_rows

Batch = Mapping[str, Sequence[Any]]  # some rows, the values of each column


@dataclass
class TranslatedRows(SourceArguments):
    """The rows of a file to translate: of pairs, the first text."""

    numbers_of_texts: ClassVar[tuple[int, ...]] = (1,)


def rows_for_model(
    checkpoint: str,
    model: PreTrainedModel,
    file: str,
    text_column_names: list[str] | None = None,
    label_column_name: str | None = None,
) -> Rows:
    """Read the rows of a file for a model, as a test split, which may lack labels.

    Columns that are None are found by name; a `label_column_name` of "" reads no labels. Errors
    name the `checkpoint` of the model. Raises ValueError if the rows do not fit the model.
    """
    arguments: SourceArguments = TranslatedRows(test_file=file, text_column_names=text_column_names)
    if not model.can_generate():
        arguments = DataArguments(
            **vars(arguments),
            label_column_name=label_column_name,
            problem_type=model.config.problem_type,
            label_names=list(answers_of(model.config).names),
        )
    rows = load_rows(arguments, checkpoint=checkpoint)
    num_texts = 2 if model.reads_pairs else 1
    if len(rows.text_columns) != num_texts:
        raise refusal(
            f"{checkpoint} reads {num_texts} text(s) a row, not {','.join(rows.text_columns)}",
            "name one column, or two for a model of pairs: --text_column_names premise,hypothesis",
        )
    return rows


def encode_rows(
    rows: Rows, tokenizer: PreTrainedTokenizerBase, max_tokens: int = sys.maxsize
) -> DatasetDict:
    """Tokenize every split; rows keep their order, labels are `labels`, and marks `rationale`.

    Of each text the first `max_tokens` tokens are kept, by default all: a model reads no others
    than `config.max_tokens`. Marks are 1 on each token that a span touches, else 0. ValueError if
    the tokenizer does not tell the texts of a pair apart.
    """
    is_pair = any(TEXT_COLUMNS[1] in split.column_names for split in rows.splits.values())
    names = TEXT_COLUMNS[: 1 + is_pair]
    types_of_pair = tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]
    if is_pair and 1 not in types_of_pair:
        raise refusal(
            f"the {type(tokenizer).__name__} gives both texts of a pair the same token type",
            "take one of sase_hf.build_tokenizer",
        )

    def encode(batch: Batch) -> dict[str, Any]:
        encoded = tokenizer(
            *(list(map(readable, batch[name])) for name in names),
            # The collator adds the mask: rows that hold ids alone are encoded faster, and a third
            # smaller.
            return_attention_mask=False,
            return_token_type_ids=is_pair,
            verbose=False,  # no warning of a limit of the tokenizer
        )
        columns = dict(encoded)
        if any(name in batch for name in SPAN_COLUMNS):
            columns["rationale"] = [
                _marks(
                    encoding, [batch[name][row] if name in batch else None for name in SPAN_COLUMNS]
                )
                for row, encoding in enumerate(encoded.encodings)
            ]
        for row, ids in enumerate(columns["input_ids"]):
            if len(ids) > max_tokens:
                sides = columns["token_type_ids"][row] if is_pair else [0] * len(ids)
                kept = first_places(sides, max_tokens)
                for column in columns.values():
                    column[row] = [column[row][place] for place in kept]
        return columns

    return _tokenized(rows.splits, encode)


def _marks(encoding: Encoding, spans: Sequence[Marks | None]) -> list[int]:
    """Return for each token of a row whether it shares a character with a span of its text."""
    of_texts = [marked_tokens(encoding.offsets, of_text) for of_text in spans]
    sides = encoding.sequence_ids
    return [0 if side is None else of_texts[side][place] for place, side in enumerate(sides)]


def encode_pairs(
    rows: Rows,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    both_directions: bool = False,
) -> DatasetDict:
    """Tokenize every split; of each text the first tokens are kept, and targets are `labels`.

    With `both_directions`, each training pair is followed by itself with the texts exchanged.
    """
    splits = dict(rows.splits)
    if both_directions and "train" in splits:
        pairs = splits["train"]
        exchanged = pairs.rename_columns({"text": "text_pair", "text_pair": "text"})
        splits["train"] = interleave_datasets([pairs, exchanged.select_columns(list(TEXT_COLUMNS))])

    def encode(batch: Batch) -> dict[str, Any]:
        targets = list(map(readable, batch["text_pair"])) if "text_pair" in batch else None
        sources = list(map(readable, batch["text"]))
        encoded = tokenizer(sources, text_target=targets, verbose=False)
        return {name: [row[:max_tokens] for row in rows] for name, rows in encoded.items()}

    return _tokenized(splits, encode)


def _tokenized(
    splits: Mapping[str, Dataset], encode: Callable[[Batch], dict[str, Any]]
) -> DatasetDict:
    """Encode every split on disk; of the old columns keep only what is learnt."""
    tokens = {}
    for name, rows in splits.items():
        target = next(iter(present((PROBABILITIES, "label"), rows)), None)
        if target is not None:
            rows = rows.rename_column(target, "labels")
        with writing_rows():
            tokens[name] = rows.map(
                encode,
                batched=True,
                remove_columns=[column for column in rows.column_names if column != "labels"],
                # By default the cache would lie beside the user's own dataset files.
                cache_file_name=scratch_file(),
                load_from_cache_file=False,
                desc=f"Tokenizing {name}",
            )
    return DatasetDict(tokens)


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


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Return the numbers of rows by length: memory runs out in the first batch or never."""
    return np.argsort(lengths, kind="stable")[::-1].tolist()


def token_counts(dataset: Dataset) -> list[int]:
    """Count the tokens of every tokenized row from Arrow's offsets, without reading a row."""
    lists = dataset.with_format("arrow")[:]["input_ids"]
    counts: list[int] = pc.list_value_length(lists).to_pylist()
    return counts


def longest_sides(dataset: Dataset) -> Iterator[int]:
    """Yield the number of tokens of the longer text of every tokenized pair."""
    for types in dataset["token_type_ids"]:
        yield max(map(types.count, (0, 1)))


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


def batches_by_length(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of rows, the longest first, in batches of at most `max_tokens` tokens.

    Padding counts; a longer row is alone.
    """
    order = longest_first(lengths)
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
        marks = [mark for row in features for mark in row.pop("rationale", ())]
        batch: dict[str, Any] = super().__call__(features)
        if marks and self.weight:
            weights = torch.zeros(batch["input_ids"].shape)
            weights[batch["attention_mask"] != 0] = self.weight * torch.tensor(marks).float()
            batch["rationale"] = weights
        return batch
