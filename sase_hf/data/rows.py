"""The rows of a task: texts under standard names, and labels as a model takes them.

A fault names the source, the row and the column. Rows are counted from 0.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Dataset, DatasetDict, concatenate_datasets

from ..utils.files import FilePath
from ..utils.text import refusal
from .columns import (
    MAX_SAMPLES,
    SPLITS,
    DataArguments,
    Names,
    SourceArguments,
    find_columns,
    parted,
    training_rows_of,
)
from .labels import LabelColumn, is_unlabelled
from .marks import SIDES, parse_spans, with_corrections, without_wrong_reasons
from .table import (
    PLACE,
    PROBABILITIES,
    SPLIT_NAMES,
    TEXT_COLUMNS,
    Record,
    hold_out,
    holds_texts,
    load_splits,
    origin_of,
    present,
    table,
    warn_of_repeats,
)

logger = logging.getLogger(__name__)

TRANSLATION = "translation"
FURTHER = ("corrections", "unlabelled")  # files of rows beside the splits
LABEL = "label"  # the column of labels in a file of corrections


@dataclass(frozen=True)
class Rows:
    """A task's splits and the meaning of its labels.

    The splits are some of "train", "validation" and "test", with the columns `text`, for pairs
    `text_pair`, and `label`: by their `kind` a class id, a 0.0 or 1.0 for every class, or a
    number or list of numbers. Where labels are soft, the class id is that of the most probable
    class, and the train split has the `probabilities` to learn. Only a test split may come without
    `label`. Where texts are marked, `rationale` holds the marks, and `rationale_pair` those of the
    second text. A train split with labels has the number of each row in its source, `row`, and
    lacks the words that are no reason for a label (`marks`).

    sources: the origin of each split's rows, and their number.
    text_columns: the names in the source, one, or two for pairs.
    label_columns: the names in the source, none if no rows have labels.
    left_out: the words that the train split lacks, and that texts to predict have.
    unlabelled: more texts for the words and the word vectors of a new model, column `text`.
    test_table: the rows of the test split, also beyond a limit, with all columns of their source.
    """

    splits: DatasetDict
    labels: LabelColumn
    sources: dict[str, Record]
    text_columns: Names
    label_columns: Names = ()
    left_out: tuple[str, ...] = ()
    unlabelled: Dataset | None = None
    test_table: Dataset | None = None

    @property
    def kind(self) -> str:
        """What the labels are, as transformers names it, or what pairs without labels are for."""
        return self.labels.kind

    @property
    def answers(self) -> Any:
        """What a model of these labels answers, `models.answers.Answers`."""
        from ..models.answers import answers_of_kind  # imports torch, which takes seconds

        return answers_of_kind(self.kind, self.label_names)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes in id order; for regression one name per output."""
        return self.labels.names

    def is_measured(self) -> list[bool]:
        """Return of each test row whether it has a label, or the target of a translation."""
        test = self.splits["test"]
        if self.kind == TRANSLATION:
            return [text.strip() != "" for text in test["text_pair"]]
        return [label is not None for label in test["label"]]

    def texts_to_learn_from(self) -> list[str]:
        """Return the texts of the training rows and the unlabelled ones, of pairs both texts."""
        names = present(TEXT_COLUMNS, self.splits["train"])
        parts = [self.splits["train"], self.unlabelled]
        rows = concatenate_datasets([part.select_columns(names) for part in parts if part])
        return [text for name in names for text in rows[name][:]]


@dataclass
class Source:
    """The table of a split. The `title` stands in errors, the `origin` in a record."""

    name: str
    title: str
    table: Dataset
    origin: Record

    def texts(self, names: Names) -> pa.Table:
        """Return columns of texts by the names in `TEXT_COLUMNS`; ValueError for other values."""
        texts = {}
        for standard, name in zip(TEXT_COLUMNS, names, strict=False):
            parts = parted(name, "+", self.table.column_names)
            for part in parts:
                if not holds_texts(self.table, part):
                    raise refusal(
                        f"of the columns {self.table.column_names}, {part!r} holds "
                        f"{self.table.features.get(part, 'nothing')}",
                        "texts are wanted there, by a flag or as in the training; "
                        "--text_column_names names other columns",
                    )
            stored: pa.Table = self.table.select_columns(parts).with_format("arrow")[:]
            texts[standard] = reduce(_joined, [cells.cast("string") for cells in stored.columns])
        return pa.table(texts)

    def labels(self, names: Names) -> list[Any]:
        """Return a cell for each row: None without a label, a tuple of several columns."""
        is_labelled = {*names} <= {*self.table.column_names}
        if not names or (self.name == "test" and not is_labelled):
            return [None] * self.table.num_rows
        own = self.table.select_columns([*names])
        if len(names) == 1:
            kind = own.features[names[0]]
            return [_decoded(kind, cell) for cell in own[names[0]]]
        rows = zip(*(own[name][:] for name in names), strict=True)
        return [None if any(map(is_unlabelled, row)) else row for row in rows]

    def encoded(self, column: str, encode: Callable[..., Any], *cells: Iterable[Any]) -> list[Any]:
        """Return what becomes of the cells of each row; ValueError names the first bad ones."""
        known = {}
        encoded = []
        for row, arguments in enumerate(zip(*cells, strict=True)):
            form = repr(arguments)
            try:
                if form not in known:
                    known[form] = encode(*arguments)
            except ValueError as reason:
                what = f"row {row} (counted from 0), column {column!r}: {reason}"
                raise ValueError(what) from None
            encoded.append(known[form])
        return encoded

    def leave_out(self, is_kept: np.ndarray) -> None:
        """Keep some rows, and log how many not; ValueError if these are more than half of them."""
        left_out = np.flatnonzero(~is_kept)
        what = f"{left_out.size:,} of {is_kept.size:,} rows have no text or no label"
        if 2 * left_out.size > is_kept.size:
            raise refusal(
                what, "name other columns with --text_column_names and --label_column_name"
            )
        logger.warning(
            f"{self.title}: {what} and are left out; the first, counted from 0: "
            f"{left_out[:3].tolist()}"
        )
        self.origin["left_out"] = left_out.size
        self.table = self.table.select(np.flatnonzero(is_kept))


def _joined(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the texts of two columns in one, each in its own line."""
    filled = (pc.fill_null(texts, "") for texts in (first, second))
    return pc.utf8_trim_whitespace(pc.binary_join_element_wise(*filled, "\n"))


def _decoded(feature: Any, cell: Any) -> Any:
    """Return a cell with names in place of class ids; None for -1, which stands for no label."""
    if isinstance(feature, ClassLabel):
        return None if cell is None or cell < 0 else feature.names[cell]
    if isinstance(cell, list):
        return [_decoded(feature.feature, entry) for entry in cell]
    return cell


def open_sources(
    arguments: SourceArguments, in_memory: Mapping[str, Any] | None = None
) -> dict[str, Source]:
    """Return the splits that the flags name, in the order of `SPLITS`, and further files of rows.

    A file takes the place of a split of the dataset, or of those `in_memory`. ValueError names all
    files that cannot be read.
    """
    config = arguments.dataset_config_name
    title, splits = "rows in memory", in_memory or {}
    if arguments.dataset_name is not None:
        title, splits = arguments.dataset_name, load_splits(arguments.dataset_name, config)
    given: dict[str, Any] = {}
    for name in SPLITS:
        usual = filter(splits.__contains__, SPLIT_NAMES[name])
        rows = getattr(arguments, f"{name}_file") or splits.get(next(usual, ""))
        if rows is not None:
            given[name] = rows
    if not given:
        raise refusal(
            f"--dataset_name is {arguments.dataset_name}, with the splits {[*splits]}",
            f"give --train_file, or the splits one of these names: {SPLIT_NAMES}",
        )
    for kind in FURTHER:
        for number, path in enumerate(getattr(arguments, f"{kind}_file", None) or (), start=1):
            given[f"{kind}_{number}"] = path
    sources = {}
    faults = []
    for name, rows in given.items():
        try:
            if isinstance(rows, Dataset):
                origin: Record = {"dataset": title.partition("@")[0], "config": config}
                # The commit of a dataset of the Hub.
                urls = " ".join(rows.info.download_checksums or ())
                origin["revision"] = next(iter(re.findall(r"@([0-9a-f]{40})/", urls)), None)
                if in_memory:
                    origin["fingerprint"] = rows._fingerprint
                sources[name] = Source(name, f"the {name} split of {title}", table(rows), origin)
            else:
                sources[name] = Source(name, str(rows), table(rows), origin_of(rows))
        except (ValueError, OSError) as fault:
            faults.append(fault)
    if faults:
        raise type(faults[0])(". Also: ".join(map(str, faults)))
    return sources


def load_rows(
    arguments: SourceArguments,
    *,
    kind: str = "",
    checkpoint: FilePath | None = None,
    text_columns: Names | None = None,
    in_memory: Mapping[str, Any] | None = None,
) -> Rows:
    """Load the splits of a task and give its columns their standard names.

    The first split, "train" if there is one, decides the columns and the labels. A test split
    without any label is for prediction only. `shuffle_seed` is also the seed of
    `validation_fraction`, which keeps the proportions of the labels. Rows are labelled if the
    `arguments` are `DataArguments`; others are pairs, and `kind` says what for. Rows to
    translate may lack the second text. ValueError names flags that contradict one another, a file
    that cannot be read, a missing column, a bad cell.

    Args:
        arguments: The flags of the rows.
        kind: What pairs without labels are for.
        checkpoint: The columns are those that the model in this folder was trained on, and labels
            of the same names are parted as theirs. A train split may have other columns.
        text_columns: Those of texts, where the folder does not say them.
        in_memory: Splits, by the names of `SPLITS`, in place of files.
    """
    sources = open_sources(arguments, in_memory)
    first = next(iter(sources.values()))
    record = {"text_column_names": text_columns or (), **training_rows_of(checkpoint)}
    texts, label_columns = find_columns(
        first.title,
        first.table,
        arguments,
        labelled=first.name != "test",
        record=record,
        may_differ=first.name == "train",
    )
    labels = LabelColumn(kind, ())
    if isinstance(arguments, DataArguments):
        labels = _learn(first, label_columns, arguments, record)
    if len(label_columns) > 1:
        label_columns = labels.names  # in the order of a trained model
    splits: dict[str, Dataset] = {}
    unlabelled = []
    for name, source in sources.items():
        try:
            rows = _read(source, texts, label_columns, labels)
        except ValueError as reason:
            raise ValueError(f"{source.title}: {reason}") from reason
        source.origin["rows"] = rows.num_rows
        if name in SPLITS:
            splits[name] = rows
        elif LABEL in rows.column_names:
            splits = with_corrections(splits, rows)
        else:
            unlabelled.append(rows)
    origins = {name: source.origin for name, source in sources.items()}
    hold_out(splits, origins, arguments.validation_fraction, arguments.shuffle_seed or 0)
    for name, rows in splits.items():
        splits[name] = _chosen(name, rows, arguments)
    warn_of_repeats(splits)
    splits, left_out = without_wrong_reasons(splits)
    for name, rows in splits.items():
        origins[name]["rows"] = rows.num_rows
    return Rows(
        DatasetDict(splits),
        labels,
        origins,
        texts,
        label_columns,
        left_out=tuple(dict.fromkeys(chain.from_iterable(left_out))),
        unlabelled=concatenate_datasets(unlabelled) if unlabelled else None,
        test_table=sources["test"].table if "test" in sources else None,
    )


def _chosen(name: str, rows: Dataset, arguments: SourceArguments) -> Dataset:
    """Return the rows of a split that are read, in their order; ValueError if there are none.

    Only training rows keep what is only to learn.
    """
    if name != "train":
        rows = rows.remove_columns(present((PROBABILITIES, PLACE), rows))
    else:
        most = arguments.max_train_words
        if most is not None:
            rows = rows.filter(lambda row: all(len(text.split()) <= most for text in row.values()))
        if arguments.shuffle_seed is not None:
            rows = rows.shuffle(arguments.shuffle_seed, keep_in_memory=True)
    limit = getattr(arguments, MAX_SAMPLES[name])
    if limit is not None:
        rows = rows.select(range(min(limit, rows.num_rows)))
    if not rows.num_rows:
        raise refusal(
            f"the file or the flags leave no {name} rows",
            f"give more rows or texts (equal ones are never parted), a --{MAX_SAMPLES[name]} or "
            "--max_train_words of more, or a --validation_fraction below 1",
        )
    return rows


def _learn(source: Source, columns: Names, arguments: DataArguments, record: Record) -> LabelColumn:
    """Learn the labels from the train split; without one, their names must be known."""
    names: Names | None = arguments.label_names
    if names is None:
        if source.name != "train":
            raise refusal("there is no train split to learn from", "list the --label_names")
        feature = source.table.features.get(",".join(columns))
        classes = getattr(getattr(feature, "feature", feature), "names", None)
        names = columns if len(columns) > 1 else classes
    cells = source.labels(columns)
    separator = arguments.label_separator
    if arguments.label_names and len(columns) == 1:
        separator = separator or record.get("label_separator")
    return LabelColumn.learn(cells, arguments.problem_type, names, separator)


def _columns_of(
    source: Source, texts: Names, label_columns: Names, *, is_translated: bool
) -> tuple[Names, Names]:
    """Return the columns of texts and labels in a source: corrections have those of a page.

    Rows to translate may lack their translations.
    """
    if source.name.startswith("corrections"):
        return TEXT_COLUMNS[: len(texts)], (LABEL,)
    if source.name.startswith("unlabelled"):
        return texts, ()
    targets = parted(texts[-1], "+", source.table.column_names)
    cells = [source.table.data[name] for name in present(targets, source.table)]
    if is_translated and all(column.null_count == len(column) for column in cells):
        return texts[:1], label_columns
    return texts, label_columns


def _read(source: Source, texts: Names, label_columns: Names, labels: LabelColumn) -> Dataset:
    """Check every row of a source and give its columns their standard names and types."""
    may_lack = source.name.startswith(("test", "unlabelled"))
    is_translated = source.name == "test" and labels.kind in ("", TRANSLATION)
    texts, label_columns = _columns_of(source, texts, label_columns, is_translated=is_translated)
    given = source.texts(texts)
    rows = pa.table([pc.fill_null(cells, "") for cells in given.columns], given.column_names)
    needed = rows.columns[:1] if is_translated else rows.columns
    trimmed = map(pc.utf8_trim_whitespace, needed)
    is_kept = np.all([pc.not_equal(cells, "") for cells in trimmed], axis=0)
    cells = source.labels(label_columns)
    if labels.names and not (may_lack and all(map(is_unlabelled, cells))):
        encoded = source.encoded(",".join(label_columns), labels.encode, cells)
        if labels.soft:
            rows = rows.append_column(PROBABILITIES, [encoded])
            encoded = [None if shares is None else int(np.argmax(shares)) for shares in encoded]
        rows = rows.append_column(LABEL, [encoded])
        if not may_lack:
            is_kept &= rows[LABEL].is_valid()
        if source.name in SPLITS:
            rows = rows.append_column(PLACE, [np.arange(rows.num_rows)])
    if labels.names and not may_lack:
        rows = _with_spans(rows, source)
    if not is_kept.all():
        source.leave_out(is_kept)
        rows = rows.filter(is_kept)
    # The fingerprint is random, because hashing all values takes long.
    return Dataset(rows, fingerprint=uuid4().hex)


def _with_spans(rows: pa.Table, source: Source) -> pa.Table:
    """Check the marks on each text and add them."""
    for text_name, *columns in SIDES:
        for name in present(columns, source.table):
            texts = rows[text_name].to_pylist()
            spans = source.encoded(name, parse_spans, source.table[name], texts)
            rows = rows.append_column(name, pa.array(spans, pa.list_(pa.list_(pa.int64()))))
    return rows
