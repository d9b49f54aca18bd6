"""Data for training and evaluation, from the Hub or from files, with known columns and labels.

Every row is checked here, so that a bad one is named by file or split, row and column. Rows are
counted from 0 below a header line. Texts and tokens are on disk, in a temporary folder; only
downloads are cached.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np
from datasets import Dataset, DatasetDict
from transformers import BatchEncoding, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import LARGE_INTEGER

from .arguments import MAX_SAMPLES, DataArguments
from .columns import Columns
from .files import read_splits
from .labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    LabelScheme,
    cell_reader,
    given_labels,
    is_unlabelled,
    learn_labels,
    truth_of,
)
from .raw import BATCH, RawSplit, scratch_file, writing_rows

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskData:
    """A task's splits and what its labels mean.

    The splits are some of "train", "validation" and "test", with the columns `text`, for pairs
    `text_pair`, and `label`: by `problem_type` a class id, a 0.0 or 1.0 for every class, or a
    number or list of numbers. Only a test split may come without `label`.
    """

    splits: DatasetDict
    problem_type: str  # one of `labels.PROBLEM_TYPES`
    label_names: tuple[str, ...]  # in id order; for regression one name per output
    sources: dict[str, dict[str, Any]]  # of each split: where its rows come from, and how many
    text_columns: tuple[str, ...]  # what the columns were called: one, or two for pairs
    label_columns: tuple[str, ...]  # none if no rows have labels

    def readable_label(self, label: Any) -> Any:
        """Return a name for a class id, a list of names for zeros and ones, numbers as they are."""
        if self.problem_type == SINGLE_LABEL:
            return self.label_names[label]
        if self.problem_type == MULTI_LABEL:
            return [n for n, applies in zip(self.label_names, label, strict=True) if applies]
        return label


def load_task(arguments: DataArguments) -> TaskData:
    """Load the splits of a task and give its columns their standard names.

    Labels are texts, numbers, class ids, lists of those, or lists of 0 and 1; see `learn_labels`.
    They are learnt from the whole train split, and the other splits may hold no others. A test
    split without any label is for prediction only. `shuffle_seed` is also the seed of
    `validation_fraction`, which keeps the proportions of the labels.

    Raises:
        ValueError: If the arguments contradict one another, a file breaks its format, a column is
            missing, or a row has no text, no label, or an unknown one.
    """
    columns, raw = read_splits(arguments)
    for split in raw:
        if split.num_rows == 0:
            raise ValueError(f"{split.title} has no rows; add some, or leave it out")
        for column in columns.texts if split.name == "test" else sum(columns, ()):
            if column not in split.column_names:
                flags = "--text_column_names and --label_column_name"
                raise split.missing_column(column, flags)
    raw = _with_labels_read(raw, columns, arguments)
    labels = _learn(raw[0], columns.label, arguments)
    if arguments.label_column_name is None and raw[0].name == "test":
        columns = _without_other_labels(raw[0], columns, labels)
    splits = {split.name: _checked(split, columns, arguments, labels) for split in raw}
    sources = {split.name: split.source for split in raw}
    seed = arguments.shuffle_seed
    if arguments.validation_fraction and "train" in splits and "validation" not in splits:
        _split_validation(splits, sources, arguments.validation_fraction, seed or 0)
    if seed is not None and "train" in splits:
        splits["train"] = splits["train"].shuffle(seed=seed, keep_in_memory=True)
    for name, rows in splits.items():
        limit = getattr(arguments, MAX_SAMPLES[name])
        if limit is not None:
            splits[name] = rows.select(range(min(limit, rows.num_rows)))
    used = {name: {**sources[name], "rows": rows.num_rows} for name, rows in splits.items()}
    logger.info("%s, labels %s, read from %s", labels.problem_type, labels.names, used)
    return TaskData(DatasetDict(splits), labels.problem_type, labels.names, used, *columns)


def encode_task(
    task: TaskData, tokenizer: PreTrainedTokenizerBase, max_seq_length: int | None = None
) -> DatasetDict:
    """Tokenize every split; rows keep their order, and labels are `labels`.

    A row, or both texts of a pair together, is cut after `max_seq_length` tokens, by default the
    tokenizer's own limit.

    Raises:
        ValueError: If a tokenizer gives both texts of a pair the same token type.
    """
    is_pair = any("text_pair" in split.column_names for split in task.splits.values())
    if is_pair and 1 not in tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]:
        raise ValueError(
            f"the {type(tokenizer).__name__} gives both texts of a pair the same token type; take "
            "one of sase_hf.build_tokenizer"
        )
    # The collator adds the mask: rows that hold ids alone are encoded faster, and a third smaller.
    options = {"return_attention_mask": False, "return_token_type_ids": is_pair}
    options |= truncation(tokenizer, max_seq_length)

    def encode(batch: Mapping[str, list[str]]) -> BatchEncoding:
        return tokenizer(batch["text"], batch["text_pair"] if is_pair else None, **options)

    splits = {
        name: split.rename_column("label", "labels") if "label" in split.column_names else split
        for name, split in task.splits.items()
    }
    return tokenized(splits, encode)


def truncation(tokenizer: PreTrainedTokenizerBase, max_seq_length: int | None) -> dict[str, Any]:
    """Return the options that cut after `max_seq_length` tokens, by default the tokenizer's own."""
    limit = max_seq_length or tokenizer.model_max_length
    return {"truncation": True, "max_length": limit} if limit < LARGE_INTEGER else {}


def tokenized(splits: Mapping[str, Dataset], encode: Callable[..., BatchEncoding]) -> DatasetDict:
    """Encode every split, on disk if it is there; of its own columns only `labels` stay."""
    with writing_rows():
        return DatasetDict(
            {
                name: split.map(
                    encode,
                    batched=True,
                    remove_columns=[column for column in split.column_names if column != "labels"],
                    # Not beside the files of a dataset that is the user's own.
                    cache_file_name=scratch_file() if split.cache_files else None,
                    load_from_cache_file=False,
                    desc=f"Tokenizing {name}",
                )
                for name, split in splits.items()
            }
        )


def _with_labels_read(
    raw: list[RawSplit], wanted: Columns, arguments: DataArguments
) -> list[RawSplit]:
    """Return the splits with one column of labels, each cell as the label or labels it holds."""
    column = wanted.label
    if len(wanted.labels) > 1:
        return [_with_joined_labels(split, wanted) for split in raw]
    names = arguments.label_names or raw[0].class_names.get(column)
    read = cell_reader(raw[0].labels.get(column, ()), arguments.problem_type, names)
    splits = []
    for split in raw:
        values, labels = split.labels.get(column, []), {}
        for text in dict.fromkeys(value for value in values if isinstance(value, str)):
            try:
                labels[text] = read(text)
            except ValueError as reason:
                raise split.cell_error(values.index(text), column, str(reason)) from None
        cells = [labels[value] if isinstance(value, str) else value for value in values]
        splits.append(replace(split, labels={column: cells} if values else {}))
    return splits


def _with_joined_labels(split: RawSplit, wanted: Columns) -> RawSplit:
    """Return a split whose columns of 0 and 1 are one, of the lists of the names that apply.

    A row that lacks a value has no label; a split that lacks a column has none.
    """
    if any(name not in split.labels for name in wanted.labels):
        return split
    rows: list[Any] = []
    for cells in zip(*(split.labels[name] for name in wanted.labels), strict=True):
        truths = dict(zip(wanted.labels, map(truth_of, cells), strict=True))
        for (name, truth), cell in zip(truths.items(), cells, strict=True):
            if truth is None and not is_unlabelled(cell, None):
                fault = f"{cell!r} is not 0 or 1, true or false, yes or no"
                reason = f"{fault}, as in each of several columns of labels"
                raise split.cell_error(len(rows), name, reason)
        is_known = None not in truths.values()
        rows.append([name for name, truth in truths.items() if truth] if is_known else None)
    names = {wanted.label: wanted.labels}
    return replace(split, labels={wanted.label: rows}, class_names=names)


def _without_other_labels(split: RawSplit, columns: Columns, labels: LabelScheme) -> Columns:
    """Drop a label column that no flag names if none of its values is a known label."""
    values = split.labels.get(columns.label, [])
    for value in values:
        try:
            labels.encode(value)
            return columns
        except ValueError:
            continue
    if values:
        logger.warning(
            f"column {columns.label!r} of {split.title} holds none of the labels of the model; "
            "it is not read"
        )
    return columns._replace(labels=())


def _learn(split: RawSplit, column: str, arguments: DataArguments) -> LabelScheme:
    """Learn the labels from the train split, or without one from the names that are known."""
    names = arguments.label_names
    class_names = split.class_names.get(column)
    is_regression = arguments.problem_type == REGRESSION
    known = None if is_regression else names or class_names
    if split.name != "train" and not known and not is_regression:
        raise ValueError("there is no train split to learn from; list the --label_names")
    values = given_labels(split.labels.get(column, []), known)
    return learn_labels(values, arguments.problem_type, names, class_names)


def _checked(
    split: RawSplit, wanted: Columns, arguments: DataArguments, labels: LabelScheme
) -> Dataset:
    """Check every row of a split and give its columns their standard names and types."""
    column = wanted.label
    values = split.labels.get(column, [None] * split.num_rows)
    classes = None if labels.problem_type == REGRESSION else labels.names
    unlabelled = [row for row, value in enumerate(values) if is_unlabelled(value, classes)]
    has_labels = split.name != "test" or len(unlabelled) < split.num_rows
    # Without rows to learn from, whose labels the flag would leave out too.
    is_alone = split.name == "test" and not (arguments.train_file or arguments.dataset_name)
    unread = "; to predict without labels, add --label_column_name ''" if is_alone else ""
    if has_labels and unlabelled:
        if not arguments.drop_unlabelled:
            way_out = "label the row, or leave all such rows out with --drop_unlabelled"
            value = values[unlabelled[0]]
            if classes and str(value).strip() == "-":
                way_out += "; if '-' is a class, list it in --label_names, with all others"
            raise split.cell_error(
                unlabelled[0], column, f"{value!r} is not a label; {way_out}{unread}"
            )
        if len(unlabelled) == split.num_rows:
            raise ValueError(f"{split.title} has no row with a label in {column!r}; leave it out")
        logger.warning("left %d rows without a label out of %s", len(unlabelled), split.title)
    left_out = set(unlabelled) if has_labels else set()
    texts = zip(wanted.texts, ("text", "text_pair"), strict=False)
    rows = split.named_texts(dict(texts), left_out)
    if not has_labels:
        return rows
    encoded: list[Any] = [None] * split.num_rows
    for row, value in enumerate(values):
        if row not in left_out:
            try:
                encoded[row] = labels.encode(value)
            except ValueError as reason:
                raise split.cell_error(row, column, f"{reason}{unread}") from None
    # A fingerprint of its own, as that of all labels takes long.
    rows = rows.add_column("label", encoded, feature=labels.feature, new_fingerprint=uuid4().hex)
    return rows.select(np.setdiff1d(np.arange(split.num_rows), unlabelled))


def _split_validation(
    splits: dict[str, Dataset], sources: dict[str, dict[str, Any]], fraction: float, seed: int
) -> None:
    """Split a validation split off the train split, with the labels in the same proportions.

    Rows of equal texts stay together: what was trained on cannot be validated with.
    `train_test_split(stratify_by_column=)` refuses labels that occur once, numbers and lists.
    """
    train = splits["train"]
    is_picked = _evenly_picked(train, max(round(fraction * train.num_rows), 1), seed)
    if is_picked.all() or not is_picked.any():
        use = "train on" if is_picked.all() else "validate with"
        fault = f"--validation_fraction {fraction} of {train.num_rows} train rows leaves none to"
        advice = "add rows with other texts, as equal ones stay together, or give --validation_file"
        raise ValueError(f"{fault} {use}; {advice}")
    splits["train"] = train.select(np.flatnonzero(~is_picked))
    splits["validation"] = train.select(np.flatnonzero(is_picked))
    sources["validation"] = {**sources["train"], "split_off": fraction, "seed": seed}


def _evenly_picked(rows: Dataset, count: int, seed: int) -> np.ndarray:
    """Say of each row whether it is picked: about `count`, all rows of a text or none.

    Evenly spaced picks from rows in the order of their labels have the labels' proportions. Within
    a label, frequent texts come first: rare ones then make up for what these have too much.
    """
    columns = [name for name in ("text", "text_pair") if name in rows.column_names]
    digests = (
        hashlib.blake2b("\0".join(row).encode(), digest_size=8).digest()
        for batch in rows.iter(BATCH)
        for row in zip(*(batch[name] for name in columns), strict=True)
    )
    texts = np.unique(np.fromiter(digests, "V8").view(np.uint64), return_inverse=True)[1]
    sizes = np.bincount(texts)
    order = np.random.default_rng(seed).permutation(rows.num_rows)
    order = order[np.sort(np.unique(texts[order], return_index=True)[1])]  # a row of each text
    labels = np.array(rows["label"][:])[order]
    keys = (-sizes[texts[order]], *([labels] if labels.ndim == 1 else []))
    order = texts[order[np.lexsort(keys)]]
    places = ((np.arange(count) + 0.5) * rows.num_rows / count).astype(int)
    due = np.searchsorted(places, np.cumsum(sizes[order]))
    is_picked, taken = np.zeros(len(sizes), dtype=bool), 0
    for text, wanted in zip(order, due, strict=True):
        # A text is picked once half of its rows are due, which keeps to the count.
        if 2 * (wanted - taken) >= sizes[text]:
            is_picked[text] = True
            taken += sizes[text]
    return is_picked[texts]
