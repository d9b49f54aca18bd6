"""Rows as a model takes them: those of a file for a trained one, all as token ids, and in batches.

Which rows share a batch changes no prediction.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset, DatasetDict
from tokenizers import Encoding
from transformers import (
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.trainer_pt_utils import LengthGroupedSampler, get_length_grouped_indices

from ..models.answers import answers_of
from ..models.checkpoint import check_tells_apart, readable
from ..utils.files import FilePath, scratch_file
from ..utils.text import refusal
from .columns import SPAN_COLUMNS, DataArguments, SourceArguments, TextArguments
from .marks import Marks, marked_tokens
from .rows import TRANSLATION, Rows, load_rows
from .table import PROBABILITIES, TEXT_COLUMNS, present

Batch = Mapping[str, Sequence[Any]]  # some rows, the values of each column


def rows_for_model(
    checkpoint: FilePath,
    model: PreTrainedModel,
    file: str,
    text_column_names: list[str] | None = None,
    label_column_name: list[str] | None = None,
) -> Rows:
    """Read the rows of a file for a model, as a test split, which may lack labels.

    Columns that are None are found by name; an empty `label_column_name` reads no labels. Errors
    name the `checkpoint` of the model. Raises ValueError if the rows do not fit the model.
    """
    arguments: SourceArguments = TextArguments(test_file=file, text_column_names=text_column_names)
    if not model.can_generate():
        arguments = DataArguments(
            **vars(arguments),
            label_column_name=label_column_name,
            problem_type=model.config.problem_type,
            label_names=list(answers_of(model.config).names),
        )
    columns = getattr(model.config, "text_columns", None)
    rows = load_rows(arguments, checkpoint=checkpoint, text_columns=columns)
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
    than `config.max_tokens`. Marks are 1 on each token that a span touches, else 0. In rows to
    translate, the tokens of the second text are `labels`. ValueError if the tokenizer does not tell
    the texts of another pair apart.
    """
    is_pair = len(rows.text_columns) > 1 and rows.kind != TRANSLATION
    arguments = ("text", "text_pair" if is_pair else "text_target")
    if is_pair:
        check_tells_apart(tokenizer)

    def encode(batch: Batch) -> dict[str, Any]:
        texts = (list(map(readable, batch[name])) for name in TEXT_COLUMNS if name in batch)
        encoded = tokenizer(
            **dict(zip(arguments, texts, strict=False)),
            # The collator adds the mask: rows that hold ids alone are encoded faster, and a third
            # smaller.
            return_attention_mask=False,
            return_token_type_ids=is_pair,
            verbose=False,  # no warning of a limit of the tokenizer
        )
        columns = dict(encoded)
        spans = [batch.get(name) for name in SPAN_COLUMNS]
        if any(spans):
            of_texts = (of_text or repeat(None) for of_text in spans)
            columns["rationale"] = list(map(_marks, encoded.encodings, *of_texts))
        starts: Iterable[int] = repeat(sys.maxsize)  # of the second texts
        if is_pair:
            starts = [types.count(0) for types in columns["token_type_ids"]]
        for name, column in columns.items():
            columns[name] = [
                row[:start][:max_tokens] + row[start:][:max_tokens]
                for row, start in zip(column, starts, strict=False)
            ]
        return columns

    return _tokenized(rows, encode)


def _marks(encoding: Encoding, *spans: Marks | None) -> list[int]:
    """Return for each token of a row whether it shares a character with a span of its text."""
    of_texts = [marked_tokens(encoding.offsets, of_text) for of_text in spans]
    # A special token is of no text, and empty.
    sides = enumerate(encoding.sequence_ids)
    return [of_texts[side or 0][place] for place, side in sides]


def _tokenized(rows: Rows, encode: Callable[[Batch], dict[str, Any]]) -> DatasetDict:
    """Encode every split on disk; of the old columns keep only what is learnt."""
    tokens = DatasetDict()
    for name, split in rows.splits.items():
        for target in present((PROBABILITIES, "label"), split)[:1]:
            split = split.rename_column(target, "labels")
        tokens[name] = split.map(
            encode,
            batched=True,
            remove_columns=[column for column in split.column_names if column != "labels"],
            # By default the cache would lie beside the user's own dataset files.
            cache_file_name=scratch_file(),
            load_from_cache_file=False,
            desc=f"Tokenizing {name}",
        )
    return tokens


@dataclass(eq=False)
class LengthGroupedOrder(LengthGroupedSampler):
    """Rows in random order, those of similar lengths together; seed and epoch decide the order.

    The stock sampler of `group_by_length` draws from the global random state, which a resumed run
    finds changed. `batches` are sorted together; None lets transformers choose their number.
    """

    lengths: list[int]
    batch_size: int
    seed: int
    batches: int | None
    epoch: int = 0

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return iter(
            get_length_grouped_indices(
                self.lengths, self.batch_size, self.batches, generator=generator
            )
        )

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next order."""
        self.epoch = epoch


def longest_first(lengths: Sequence[int]) -> list[int]:
    """Return the numbers of rows by length: memory runs out in the first batch or never."""
    return np.argsort(lengths, kind="stable")[::-1].tolist()


def token_counts(dataset: Dataset) -> list[int]:
    """Count the tokens of every tokenized row from Arrow's offsets, without reading a row."""
    return pc.list_value_length(dataset.with_format("arrow")[:]["input_ids"]).to_pylist()


def share_of_token(dataset: Dataset, token_id: int | None) -> float:
    """Return the share of a token among those of all texts, from 0 to 1; of targets not."""
    tokens = pc.list_flatten(dataset.with_format("arrow")[:]["input_ids"]).to_numpy()
    return np.count_nonzero(tokens == token_id) / max(tokens.size, 1)


def batches_by_length(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield the indices of rows, the longest first, in batches of at most `most` tokens.

    Or characters, as the lengths are. Padding counts; a longer row is alone.
    """
    order = longest_first(lengths)
    while order:
        size = max(most // max(lengths[order[0]], 1), 1)
        yield order[:size]
        order = order[size:]


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
            is_real = batch["attention_mask"] != 0
            weights = self.weight * torch.tensor(marks).float()
            batch["rationale"] = torch.zeros(is_real.shape).masked_scatter(is_real, weights)
        return batch
