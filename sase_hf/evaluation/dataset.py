"""A checkpoint with rows of a file to measure it on, and the flags that choose both."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from torch import Tensor
from transformers import DataCollatorWithPadding, PreTrainedModel, TokenizersBackend
from transformers.utils import SAFE_WEIGHTS_NAME, logging

from ..data.arguments import SPLITS, DataArguments
from ..data.batching import longest_first
from ..data.task import TaskData, encode_task, load_task
from ..utils.cli import add_text_column_names, positive_int
from ..utils.files import FilePath, sha256_of
from ..utils.loading import load_checkpoint
from .records import measured_record

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class EvaluationDataset:
    """A model and rows that its tokenizer has encoded.

    Attributes:
        model: A head with self-attention, in evaluation mode.
        tokenizer: The tokenizer of the rows; it pads them.
        rows: Columns `input_ids` and, for pairs, `token_type_ids`.
        sources: The origin of the rows, as in `TaskData.sources`, for one split.
    """

    model: PreTrainedModel
    tokenizer: TokenizersBackend
    rows: Dataset
    sources: dict[str, dict[str, Any]]

    def batches(self, batch_size: int, description: str) -> Iterator[tuple[list[int], Batch]]:
        """Yield the numbers of rows and their padded batch, shape (B, T), the longest rows first.

        `description` is the label of the progress bar.
        """
        order = longest_first(self.rows)
        collate, device = DataCollatorWithPadding(self.tokenizer), self.model.device
        with logging.tqdm(total=len(order), desc=description, unit=" rows") as bar:
            for start in range(0, len(order), batch_size):
                numbers = order[start : start + batch_size]
                padded = collate(self.rows.select(numbers).to_list())
                # A batch of empty texts comes back as floats.
                batch = {name: part.long().to(device) for name, part in padded.items()}
                yield numbers, batch
                bar.update(len(numbers))

    def record(
        self,
        *,
        name: str,
        checkpoint: str,
        metrics: Mapping[str, float],
        flags: argparse.Namespace,
        arguments: Mapping[str, Any],
        wall_seconds: float,
    ) -> dict[str, Any]:
        """Return the `measured_record` of a script with the flags of `add_dataset_flags`."""
        record = measured_record(
            name=name,
            metrics=metrics,
            split=flags.split,
            sources=self.sources,
            seed=flags.seed,
            arguments=arguments,
            config=self.model.config,
            num_parameters=self.model.num_parameters(),
            wall_seconds=wall_seconds,
        )
        return {**record, "checkpoint": describe_checkpoint(checkpoint)}


def add_dataset_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that choose the rows; `load_evaluation_dataset` takes their values."""
    add = parser.add_argument
    add("--file", required=True, help="CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet")
    add(
        "--split",
        choices=SPLITS,
        default="validation",
        help="the name of the rows in the record; changes nothing else (default: %(default)s)",
    )
    add_text_column_names(parser)
    add("--label_column_name", help="of labels, may be missing (default: found by name)")
    add("--max_seq_length", type=positive_int, help="tokens after which a text, or a pair, is cut")
    add("--max_samples", type=positive_int, help="read only this number of rows, drawn at random")
    add("--seed", type=int, default=42, help="of all random draws (default: %(default)s)")
    batch_size = "--per_device_eval_batch_size"
    add(batch_size, type=positive_int, default=32, help="rows in a batch (default: %(default)s)")


def read_file(checkpoint: str, model: PreTrainedModel, flags: argparse.Namespace) -> TaskData:
    """Read the rows of `flags.file` for a model, as a test split, which may lack labels.

    Raises:
        ValueError: If the rows do not fit the model, or the file breaks its format.
        OSError: If there is no such file.
    """
    labels: Any = model.config.id2label
    task = load_task(
        DataArguments(
            test_file=flags.file,
            text_column_names=flags.text_column_names,
            label_column_name=flags.label_column_name,
            problem_type=model.config.problem_type,
            label_names=[name for _, name in sorted(labels.items())],
        )
    )
    if model.reads_pairs and len(task.text_columns) != 2:
        raise ValueError(
            f"{checkpoint} compares two texts; name two columns, such as "
            "--text_column_names premise,hypothesis"
        )
    return task


def load_evaluation_dataset(checkpoint: str, flags: argparse.Namespace) -> EvaluationDataset:
    """Load a checkpoint, and rows of a file in an order drawn with the seed; labels are dropped.

    Raises as `load_checkpoint` and `read_file` do.
    """
    model, tokenizer = load_checkpoint(checkpoint, must_attend=True)
    task = read_file(checkpoint, model, flags)
    rows = encode_task(task, tokenizer, flags.max_seq_length)["test"]
    order = np.random.default_rng(flags.seed).permutation(rows.num_rows)[: flags.max_samples]
    rows = rows.select(order).remove_columns({"labels"} & set(rows.column_names))
    source = {**task.sources["test"], "rows": rows.num_rows}
    return EvaluationDataset(model, tokenizer, rows, {flags.split: source})


def describe_checkpoint(checkpoint: FilePath) -> dict[str, str]:
    """Return the `name` of a checkpoint, and for a folder the `sha256` of its weights."""
    weights = Path(checkpoint, SAFE_WEIGHTS_NAME)
    digest = {"sha256": sha256_of(weights)} if weights.is_file() else {}
    return {"name": str(checkpoint), **digest}


__all__ = [
    "Batch",
    "EvaluationDataset",
    "add_dataset_flags",
    "describe_checkpoint",
    "load_evaluation_dataset",
    "read_file",
]
