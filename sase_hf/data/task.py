"""Data for training and evaluation, from the Hub or from files, with known columns and labels.

Everything is checked once, here, so that a bad row is named by split, row and column and never
surfaces as a tensor error. Rows are counted from 0, a header line not included, as in
`datasets.Dataset`. Splits are held in memory; nothing but what the Hub sends is cached.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict, Features, Value
from transformers import BatchEncoding, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import LARGE_INTEGER

from .arguments import MAX_SAMPLES, DataArguments
from .labels import REGRESSION, LabelError, LabelScheme, is_unlabelled, learn_labels
from .row_files import text_fault
from .sources import SPLITS, Part, read_parts

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskData:
    """A task's splits and what its labels mean.

    Attributes:
        splits: Some of "train", "validation" and "test", with the columns `text`, for pairs
            `text_pair`, and `label`. Only a test split may come without `label`.
        problem_type: "single_label_classification" (`label` is a class id),
            "multi_label_classification" (a 0.0 or 1.0 for every class) or "regression" (a number,
            or a list of them).
        label_names: In id order; for regression one name per output.
        sources: For every split where its rows come from and how many are used, for a record of
            what was measured.
    """

    splits: DatasetDict
    problem_type: str
    label_names: tuple[str, ...]
    sources: dict[str, dict[str, Any]]


def load_task(arguments: DataArguments) -> TaskData:
    """Load the splits of a task and give its columns their standard names.

    Labels are texts, numbers, class ids, lists of those, or lists of 0 and 1. `learn_labels` says
    how their kind is inferred and how they are ordered. They are learnt from the whole train split;
    the other splits may hold no others. A test split without any label is for prediction only.

    Rows without a label, which `drop_unlabelled` leaves out, hold None, NaN, a blank text or "-",
    and -1 where the classes are known. `shuffle_seed` is also the seed of `validation_fraction`,
    which keeps the proportions of the labels.

    Args:
        arguments: Which rows.

    Returns:
        The task.

    Raises:
        ValueError: If the arguments contradict one another, a file breaks its format, a column is
            missing, or a row has no text, no label, or an unknown one.
    """
    texts, label = arguments.text_column_names, arguments.label_column_name
    files = {name: getattr(arguments, f"{name}_file") for name in SPLITS}
    parts = read_parts(
        arguments.dataset_name,
        files,
        (*texts, label),
        config_name=arguments.dataset_config_name,
        revision=arguments.dataset_revision,
        cache_dir=arguments.cache_dir,
        token=arguments.token,
    )
    for part in parts:
        part.require(texts if part.name == "test" else (*texts, label))
    labels = _learn(parts[0], label, arguments.problem_type, arguments.label_names)
    splits = {
        part.name: _checked(part, texts, label, labels, arguments.drop_unlabelled) for part in parts
    }
    sources = {part.name: part.source for part in parts}
    seed = arguments.shuffle_seed
    if arguments.validation_fraction is not None:
        _split_validation(splits, sources, arguments.validation_fraction, seed or 0)
    if seed is not None and "train" in splits:
        splits["train"] = splits["train"].shuffle(seed=seed)
    for name, split in splits.items():
        limit = getattr(arguments, MAX_SAMPLES[name])
        if limit is not None:
            splits[name] = split.select(range(min(limit, split.num_rows)))
    used = {name: {**sources[name], "rows": split.num_rows} for name, split in splits.items()}
    logger.info("%s, labels %s, read from %s", labels.problem_type, labels.names, used)
    return TaskData(DatasetDict(splits), labels.problem_type, labels.names, used)


def encode_task(
    task: TaskData, tokenizer: PreTrainedTokenizerBase, max_seq_length: int | None = None
) -> DatasetDict:
    """Tokenize every split; rows keep their order.

    Args:
        task: What `load_task` returned.
        tokenizer: Any tokenizer; for pairs one that marks the second text by token types.
        max_seq_length: Tokens after which a row is cut, of a pair both texts together, the longer
            one first; None for the tokenizer's own limit.

    Returns:
        The splits with `input_ids`, `attention_mask`, `token_type_ids` if the tokenizer makes them
        or the task has pairs, and `labels` where there are labels. They are held in memory.

    Raises:
        ValueError: If `max_seq_length` is below 1, or pairs are given to a tokenizer that gives
            both texts the same token type.
    """
    if max_seq_length is not None and max_seq_length < 1:
        raise ValueError(f"--max_seq_length is {max_seq_length}; it must be 1 or more")
    is_pair = any("text_pair" in split.column_names for split in task.splits.values())
    if is_pair and 1 not in tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]:
        raise ValueError(
            f"the {type(tokenizer).__name__} gives the second text of a pair no token type of its "
            "own, so a model could not tell the two apart; sase_hf.build_tokenizer makes one that "
            "does"
        )
    options: dict[str, Any] = {"return_token_type_ids": True} if is_pair else {}
    limit = max_seq_length or tokenizer.model_max_length
    if limit < LARGE_INTEGER:
        options |= {"truncation": True, "max_length": limit}

    def encode(batch: Mapping[str, list[str]]) -> BatchEncoding:
        pair = batch["text_pair"] if is_pair else None
        encoding: BatchEncoding = tokenizer(batch["text"], pair, **options)
        return encoding

    encoded = {}
    for name, split in task.splits.items():
        if "label" in split.column_names:
            split = split.rename_column("label", "labels")
        encoded[name] = split.map(
            encode,
            batched=True,
            remove_columns=[column for column in split.column_names if column != "labels"],
            keep_in_memory=True,
            desc=f"Tokenizing {name}",
        )
    return DatasetDict(encoded)


def _learn(
    part: Part, column: str, problem_type: str | None, label_names: Sequence[str] | None
) -> LabelScheme:
    """Learn the labels from the train split, or without one from the names that are known."""
    class_names = part.class_names.get(column)
    known = None if problem_type == REGRESSION else label_names or class_names
    if part.name != "train" and not known and problem_type != REGRESSION:
        raise ValueError(
            "there is no train split to learn the labels from; give label_names in id order"
        )
    values = part.columns.get(column, [])
    rows = [row for row, value in enumerate(values) if not is_unlabelled(value, known)]
    try:
        return learn_labels([values[row] for row in rows], problem_type, label_names, class_names)
    except LabelError as reason:
        raise ValueError(part.at(rows[reason.index], column, str(reason))) from None


def _checked(
    part: Part,
    text_columns: Sequence[str],
    label_column: str,
    labels: LabelScheme,
    drop_unlabelled: bool,
) -> Dataset:
    """Check every row of a part and give its columns their standard names and types."""
    rows, encoded = _encoded_labels(part, label_column, labels, drop_unlabelled)
    columns: dict[str, list[Any]] = {}
    for name, column in zip(("text", "text_pair"), text_columns, strict=False):
        values = part.columns[column]
        for row in rows:
            if reason := _fault(values[row]):
                raise ValueError(part.at(row, column, reason))
        columns[name] = [values[row] for row in rows]
    # The offsets of plain `string` end at 2 GiB of text.
    features = {name: Value("large_string") for name in columns}
    if encoded is not None:
        columns["label"], features["label"] = encoded, labels.feature
    return Dataset.from_dict(columns, features=Features(features))


def _encoded_labels(
    part: Part, column: str, labels: LabelScheme, drop_unlabelled: bool
) -> tuple[list[int], list[Any] | None]:
    """Return the rows to use and their labels, None for a test split without any."""
    values = part.columns.get(column, [None] * part.num_rows)
    unlabelled = [row for row, value in enumerate(values) if is_unlabelled(value, labels.classes)]
    if part.name == "test" and len(unlabelled) == part.num_rows:
        return unlabelled, None
    if unlabelled and not drop_unlabelled:
        reason = (
            f"{values[unlabelled[0]]!r} is no label; give every row one, or leave rows without a "
            "label out with drop_unlabelled"
        )
        raise ValueError(part.at(unlabelled[0], column, reason))
    if len(unlabelled) == part.num_rows:
        raise ValueError(f"{part} has no row with a label in {column!r}; leave the split out")
    if unlabelled:
        logger.warning("left %d rows without a label out of %s", len(unlabelled), part)
    rows = sorted(set(range(part.num_rows)).difference(unlabelled))
    try:
        return rows, labels.encode_all(values[row] for row in rows)
    except LabelError as reason:
        raise ValueError(part.at(rows[reason.index], column, str(reason))) from None


def _fault(text: Any) -> str | None:
    """Return what is wrong with a text, None for a good one."""
    if isinstance(text, str) and not text.strip():
        return "the text is blank; write one, or take the row out"
    return text_fault(text)


def _split_validation(
    splits: dict[str, Dataset], sources: dict[str, dict[str, Any]], fraction: float, seed: int
) -> None:
    """Split a validation split off the train split."""
    if "validation" in splits or "train" not in splits:
        raise ValueError(
            f"validation_fraction splits train rows off where there is no validation split; the "
            f"splits are {', '.join(splits)}. Leave it out, or leave the validation split out"
        )
    train = splits["train"]
    count = round(fraction * train.num_rows)
    if not 0 < count < train.num_rows:
        raise ValueError(
            f"validation_fraction {fraction} of {train.num_rows} train rows leaves one of the two "
            "splits without any; add rows, or choose another fraction"
        )
    order = np.random.default_rng(seed).permutation(train.num_rows)
    labels = np.array(train["label"][:])
    if labels.ndim == 1:
        order = order[np.argsort(labels[order], kind="stable")]
    # Evenly spaced picks from rows in the order of their labels have the labels' proportions.
    picked = order[((np.arange(count) + 0.5) * train.num_rows / count).astype(int)]
    splits["train"] = train.select(np.setdiff1d(order, picked))
    splits["validation"] = train.select(np.sort(picked))
    sources["validation"] = {**sources["train"], "split_off": fraction, "seed": seed}
