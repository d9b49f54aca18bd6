"""What the scripts that show or measure share: flags, a checkpoint with rows, output files."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from torch import Tensor
from transformers import DataCollatorWithPadding, TokenizersBackend
from transformers.utils import SAFE_WEIGHTS_NAME, logging

from ..data.arguments import DataArguments
from ..data.files import SPLITS
from ..data.task import TaskData, encode_task, load_task
from ..models.self_attentive.modeling_self_attentive import SelfAttentivePreTrainedModel
from ..utils.files import FilePath, sha256_of
from ..utils.loading import load_checkpoint

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
    add_column_flag(parser)
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


def add_column_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names the columns of texts; it gives a list of one or two names.

    Args:
        parser: The parser of a script.
    """
    parser.add_argument(
        "--text_column_names",
        type=column_names,
        default=["text"],
        metavar="NAMES",
        help='one text column, or two for pairs: "premise,hypothesis" (default: text)',
    )


def column_names(given: str) -> list[str]:
    """Split the names of text columns at the comma.

    Args:
        given: One name, or two.

    Raises:
        ArgumentTypeError: If there are more, or one is empty; argparse shows the message.
    """
    names = [name.strip() for name in given.split(",")]
    if len(names) > 2 or not all(names):
        raise argparse.ArgumentTypeError(
            f"{given!r} must name one column, or two for pairs: premise,hypothesis"
        )
    return names


def require_positive(flags: argparse.Namespace, *names: str) -> None:
    """Raise ValueError if one of these flags was given and is below 1."""
    for name in names:
        value = getattr(flags, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} is {value}; it must be 1 or more")


def given_flags(parser: argparse.ArgumentParser, flags: argparse.Namespace) -> dict[str, Any]:
    """Return the flags that differ from their defaults, for a record.

    Args:
        parser: The parser that read them.
        flags: What it returned.
    """
    return {name: value for name, value in vars(flags).items() if value != parser.get_default(name)}


def read_file(
    checkpoint: str, model: SelfAttentivePreTrainedModel, flags: argparse.Namespace
) -> TaskData:
    """Read the rows of a file for a model, as a test split: the one that may lack labels.

    Args:
        checkpoint: What an error calls the model.
        model: The head; its labels are those that the file may hold.
        flags: `file`, `text_column_names` and `label_column_name`.

    Raises:
        ValueError: If the rows do not fit the model, or the file breaks its format.
        OSError: If there is no such file.
    """
    if not Path(flags.file).is_file():
        raise FileNotFoundError(f"there is no file {flags.file}")
    if model.reads_pairs and len(flags.text_column_names) != 2:
        raise ValueError(
            f"{checkpoint} compares two texts; name two columns, such as "
            "--text_column_names premise,hypothesis"
        )
    labels: Any = model.config.id2label
    return load_task(
        DataArguments(
            test_file=flags.file,
            text_column_names=flags.text_column_names,
            label_column_name=flags.label_column_name,
            problem_type=model.config.problem_type,
            label_names=[name for _, name in sorted(labels.items())],
        )
    )


def read_sample(checkpoint: str, flags: argparse.Namespace) -> Sample:
    """Load a checkpoint, and rows of a file for it.

    Labels are checked if there are any, and used for nothing.

    Args:
        checkpoint: A folder or a name on the Hub.
        flags: What `add_sample_flags` gave.

    Returns:
        The model and the rows, in an order drawn by the seed.

    Raises:
        ValueError: If the model cannot be used, a flag is out of range, or the rows do not fit.
        OSError: If there is no such file or checkpoint.
    """
    require_positive(flags, "max_samples", "max_seq_length", "per_device_eval_batch_size")
    model, tokenizer = load_checkpoint(checkpoint, must_attend=True)
    task = read_file(checkpoint, model, flags)
    rows = encode_task(task, tokenizer, flags.max_seq_length)["test"]
    order = np.random.default_rng(flags.seed).permutation(rows.num_rows)[: flags.max_samples]
    rows = rows.select(order).remove_columns({"labels"} & set(rows.column_names))
    source = {**task.sources["test"], "rows": rows.num_rows}
    return Sample(model, tokenizer, rows, {flags.split: source})


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


def check_output(path: Path | None) -> None:
    """Raise if a file cannot be written, before the work whose result it would hold.

    Args:
        path: The file, whose folders need not be there; None for no file.

    Raises:
        OSError: If it is a folder, or no file can be made or changed there.
    """
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"cannot write {path}: {nearest} is no folder; name another file")
    if not os.access(path if path.exists() else nearest, os.W_OK):
        raise PermissionError(f"cannot write {path}: this is not allowed there; name another file")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in words which file could not be written, and why.

    Args:
        path: The file that is written meanwhile.

    Raises:
        OSError: If it could not.
    """
    try:
        yield
    except OSError as reason:
        why = reason.strerror or str(reason)
        raise OSError(f"cannot write {path}: {why}; name another file") from reason


__all__ = [
    "Batch",
    "Sample",
    "add_column_flag",
    "add_sample_flags",
    "check_output",
    "describe_checkpoint",
    "given_flags",
    "read_file",
    "read_sample",
    "require_positive",
    "writing",
]
