"""A checkpoint and rows to look at it with, for scripts that measure what it attends to."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from torch import Tensor
from transformers import DataCollatorWithPadding, TokenizersBackend
from transformers.utils import SAFE_WEIGHTS_NAME, logging

from .arguments import DataArguments, ModelArguments
from .building import assemble
from .modeling_self_attentive import SelfAttentivePreTrainedModel
from .sources import SPLITS, FilePath, sha256_of

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Sample:
    """A model and rows as it reads them.

    Attributes:
        model: A head whose pooling is self-attention, in evaluation mode.
        tokenizer: The one that made the rows; it pads them.
        rows: Columns `input_ids`, `attention_mask` and, where the tokenizer makes them,
            `token_type_ids`.
        sources: Where the rows come from, as in `TaskData.sources`, but with no more than one
            split.
    """

    model: SelfAttentivePreTrainedModel
    tokenizer: TokenizersBackend
    rows: Dataset
    sources: dict[str, dict[str, Any]]

    def batches(self, batch_size: int, description: str) -> Iterator[tuple[list[int], Batch]]:
        """Yield all rows in padded batches, the longest first, under a progress bar.

        Args:
            batch_size: Rows in a batch.
            description: What the progress bar says.

        Yields:
            The numbers of the rows, and the batch on the model's device, tensors of shape (B, T).
        """
        lengths = [len(ids) for ids in self.rows["input_ids"]]
        longest_first = np.argsort([-length for length in lengths], kind="stable").tolist()
        collate, device = DataCollatorWithPadding(self.tokenizer), self.model.device
        with logging.tqdm(total=len(lengths), desc=description, unit=" rows") as bar:
            for start in range(0, len(lengths), batch_size):
                numbers = longest_first[start : start + batch_size]
                padded = collate(self.rows.select(numbers).to_list())
                # A batch of empty texts comes back as floats.
                batch = {name: part.long().to(device) for name, part in padded.items()}
                yield numbers, batch
                bar.update(len(numbers))


def add_sample_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which rows are read; `read_sample` takes what they give.

    Args:
        parser: The parser of a script.
    """
    add = parser.add_argument
    add("--file", required=True, help="CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet")
    add(
        "--split",
        choices=SPLITS,
        default="validation",
        help="what the record calls the rows; it changes nothing else (default: %(default)s)",
    )
    add(
        "--text_column_names",
        nargs="+",
        default=["text"],
        help='one text column, or two for pairs: "premise,hypothesis" (default: text)',
    )
    add(
        "--label_column_name",
        default="label",
        help="the column of labels, which may be missing (default: %(default)s)",
    )
    add("--max_seq_length", type=int, help="tokens after which a text, or a pair, is cut")
    add("--max_samples", type=int, help="read only so many rows, drawn at random")
    add("--seed", type=int, default=42, help="of everything drawn (default: %(default)s)")
    add(
        "--per_device_eval_batch_size",
        type=int,
        default=32,
        help="rows in a batch (default: %(default)s)",
    )


def given_flags(parser: argparse.ArgumentParser, flags: argparse.Namespace) -> dict[str, Any]:
    """Return the flags that differ from their defaults, for a record.

    Args:
        parser: The parser that read them.
        flags: What it returned.
    """
    return {name: value for name, value in vars(flags).items() if value != parser.get_default(name)}


def read_sample(checkpoint: str, flags: argparse.Namespace) -> Sample:
    """Load a checkpoint, and rows of a file for it.

    Labels are checked if there are any, and used for nothing.

    Args:
        checkpoint: A folder or a name on the Hub.
        flags: What `add_sample_flags` gave.

    Returns:
        The model and the rows, in an order drawn by the seed.

    Raises:
        ValueError: If the model has no attention, or the rows do not fit it.
        OSError: If there is no such file or checkpoint.
    """
    if flags.max_samples is not None and flags.max_samples < 1:
        raise ValueError(f"--max_samples is {flags.max_samples}; it must be 1 or more")
    if flags.per_device_eval_batch_size < 1:
        raise ValueError(
            f"--per_device_eval_batch_size is {flags.per_device_eval_batch_size}; it must be 1 or "
            "more"
        )
    data_args = DataArguments(
        test_file=flags.file,  # the only split that may come without labels
        text_column_names=flags.text_column_names,
        label_column_name=flags.label_column_name,
        max_seq_length=flags.max_seq_length,
    )
    parts = assemble(ModelArguments(model_name_or_path=checkpoint), data_args)
    if parts.model.config.pooling != "self_attention":
        raise ValueError(
            f"{checkpoint} has pooling={parts.model.config.pooling!r}, which attends to nothing; "
            "name a checkpoint with pooling='self_attention'"
        )
    rows = parts.rows["test"]
    order = np.random.default_rng(flags.seed).permutation(rows.num_rows)[: flags.max_samples]
    rows = rows.select(order).remove_columns({"labels"} & set(rows.column_names))
    source = {**parts.task.sources["test"], "rows": rows.num_rows}
    return Sample(parts.model.eval(), parts.tokenizer, rows, {flags.split: source})


def describe_checkpoint(checkpoint: FilePath) -> dict[str, str]:
    """Name a checkpoint in a record, with the SHA-256 of its weights if it is a folder.

    Args:
        checkpoint: A folder or a name on the Hub.

    Returns:
        `name`, and for a folder `sha256`.
    """
    weights = Path(checkpoint, SAFE_WEIGHTS_NAME)
    digest = {"sha256": sha256_of(weights)} if weights.is_file() else {}
    return {"name": str(checkpoint), **digest}


__all__ = [
    "Batch",
    "Sample",
    "add_sample_flags",
    "describe_checkpoint",
    "given_flags",
    "read_sample",
]
