"""The rows of a task: texts under standard names, and labels as a model takes them.

A fault names the source, the row and the column. Rows of a sheet are counted as a spreadsheet does,
other rows from 0.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Dataset, DatasetDict, List, Value, concatenate_datasets

from ..utils.errors import refusal
from ..utils.text import one_line
from .arguments import MAX_SAMPLES, SPLITS, DataArguments, SourceArguments
from .columns import FLAGS, MARKS, Columns, find_columns, parted, training_rows_of
from .labels import LabelColumn, is_unlabelled
from .marks import parse_spans, with_corrections, without_wrong_reasons
from .repeats import hold_out, warn_of_repeats
from .table import (
    PLACE,
    PROBABILITIES,
    SPLIT_NAMES,
    TEXT_COLUMNS,
    Origin,
    commit_of,
    first_number,
    holds_texts,
    load_splits,
    origin_of,
    place_of,
    present,
    table,
    usual_splits,
    with_column,
)

if TYPE_CHECKING:
    from ..models.answers import Answers  # imports torch, which takes seconds

logger = logging.getLogger(__name__)

TRANSLATION = "translation"
SAMPLE = 1000  # texts in which markup is looked for
SHOWN_ROWS = 3  # of those left out
TAG = re.compile(r"</?(a|b|br|div|em|h[1-6]|i|img|li|p|span|strong|table|td|tr|ul)\b[^<>]*>", re.I)
TAGS = "tags of HTML"
LEAST_TAGGED = 0.05  # of the texts
MOST_ALIKE = 0.9  # of the texts
FURTHER = ("corrections", "unlabelled")  # files of rows beside the splits
LABEL = "label"  # the column of labels in a file of corrections
TEXTS_ALONE = DataArguments(label_column_name="")


@dataclass(frozen=True)
class Rows:
    """A task's splits and the meaning of its labels.

    The splits are some of "train", "validation" and "test", with the columns `text`, for pairs
    `text_pair`, and `label`: by their `kind` a class id, a 0.0 or 1.0 for every class, or a
    number or list of numbers. Where labels are soft, the class id is that of the most probable
    class, and the train split has the `probabilities` to learn. Only a test split may come without
    `label`. Where texts are marked, `spans` holds the marks, and `spans_pair` those of the second
    text. A train split with labels has the number of each row in its source, `row`, and lacks the
    words that are no reason for a label (`marks`).

    sources: the origin of each split's rows, and their number.
    text_columns: the names in the source, one, or two for pairs.
    label_columns: the names in the source, none if no rows have labels.
    left_out: the words that the train split lacks, and that texts to predict have.
    unlabelled: more texts for the words and the word vectors of a new model, column `text`.
    test_table: the rows of the test split with all columns of their source.
    """

    splits: DatasetDict
    labels: LabelColumn
    sources: dict[str, Origin]
    text_columns: tuple[str, ...]
    label_columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    unlabelled: Dataset | None = None
    test_table: Dataset | None = None

    @property
    def kind(self) -> str:
        """The `problem_type` of transformers, or what pairs without labels are for."""
        return self.labels.kind

    @property
    def answers(self) -> "Answers":
        """What a model of these labels answers."""
        from ..models.answers import answers_of_kind

        return answers_of_kind(self.kind, self.label_names)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes in id order; for regression one name per output."""
        return self.labels.names

    def texts_to_learn_from(self) -> Iterable[str]:
        """Return the texts of the training rows and the unlabelled ones.

        The texts of pairs come row by row, so that any part has both languages of a translation.
        """
        train = self.splits["train"]
        if TEXT_COLUMNS[1] in train.column_names:
            return chain.from_iterable(zip(*(train[name] for name in TEXT_COLUMNS), strict=True))
        texts = [train.select_columns("text"), self.unlabelled]
        return concatenate_datasets([rows for rows in texts if rows is not None])["text"]


@dataclass
class Source:
    """The table of a split. The `title` stands in errors, the `origin` in a record."""

    name: str
    title: str
    table: Dataset
    origin: Origin

    def __post_init__(self) -> None:
        """Raise ValueError if there are no rows."""
        if not self.table.num_rows:
            raise refusal(f"{self.title} has no rows", "add some, or leave it out")

    def has(self, name: str) -> bool:
        """Return whether the table has all columns that a name means, parted by +."""
        names = self.table.column_names
        return {*parted(name, "+", names)} <= {*names}

    def columns(self, name: str) -> list[str]:
        """Return the columns that a name means, parted by +; ValueError if one is missing."""
        names = self.table.column_names
        if not self.has(name):
            listed = ", ".join(map(repr, names))
            raise refusal(f"{self.title} has no column {name!r}", f"it has {listed}; name another")
        return parted(name, "+", names)

    def texts(self, names: Sequence[str]) -> Dataset:
        """Return columns of texts by the names in `TEXT_COLUMNS`; ValueError for other values."""
        stored: pa.Table = self.table.with_format("arrow")[:]
        texts = {}
        for standard, name in zip(TEXT_COLUMNS, names, strict=False):
            own = self.columns(name)
            for column in own:
                if not holds_texts(self.table, column):
                    kind = stored.schema.field(column).type
                    what = f"column {column!r} of {self.title} holds values of type {kind}"
                    raise refusal(what, "texts are wanted there")
            texts[standard] = reduce(_joined, [stored[column] for column in own])
        # The fingerprint is random, because hashing all values takes long.
        return Dataset(pa.table(texts), fingerprint=uuid4().hex)

    def labels(self, names: Sequence[str]) -> list[Any]:
        """Return a cell for each row: None without a label, of several columns their numbers."""
        if not names or (self.name == "test" and not all(map(self.has, names))):
            return [None] * self.table.num_rows
        own = [*chain.from_iterable(map(self.columns, names))]
        if len(own) == 1:
            feature = self.table.features[own[0]]
            return [_decoded(feature, cell) for cell in self.table[own[0]]]
        rows = self.table.select_columns(own).to_list()
        return [None if any(map(is_unlabelled, row.values())) else row for row in rows]

    def encoded(self, column: str, encode: Callable[..., Any], *cells: Iterable[Any]) -> list[Any]:
        """Return what becomes of the cells of each row; ValueError names the first bad ones."""
        forms = {}
        values = []
        for row, arguments in enumerate(zip(*cells, strict=True)):
            form = repr(arguments)
            if form not in forms:
                try:
                    forms[form] = encode(*arguments)
                except ValueError as reason:
                    place = place_of(self.title, row)
                    raise ValueError(f"{place}, column {column!r}: {reason}") from None
            values.append(forms[form])
        return values

    def leave_out(self, is_left_out: np.ndarray) -> None:
        """Leave rows out, and log how many; ValueError if these are more than half of the rows."""
        rows = np.flatnonzero(is_left_out)
        what = f"{rows.size:,} of {self.table.num_rows:,} rows of {one_line(self.title)}"
        what += " have no text or no label"
        if 2 * rows.size > self.table.num_rows:
            raise refusal(what, f"name other columns with {FLAGS}")
        first = ", ".join(map(str, rows[:SHOWN_ROWS] + first_number(self.title)))
        logger.warning(f"{what} and are left out; the first: {first}")
        self.origin = {**self.origin, "left_out": rows.size}
        self.table = self.table.select(np.flatnonzero(~is_left_out))


def _joined(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the texts of two columns in one, each in its own line; blank ones are left out."""
    lines = pc.binary_join_element_wise(first, second, "\n")
    return pc.if_else(_are_blank(first), second, pc.if_else(_are_blank(second), first, lines))


def _are_blank(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether each text is missing or blank."""
    return pc.equal(pc.utf8_trim_whitespace(pc.fill_null(texts, "")), "")


def _decoded(feature: Any, cell: Any) -> Any:
    """Return a cell with names in place of class ids; None for -1, which stands for no label."""
    if isinstance(feature, ClassLabel):
        return None if cell is None or cell < 0 else feature.names[cell]
    if isinstance(cell, list):
        return [_decoded(feature.feature, entry) for entry in cell]
    return cell


def open_sources(
    arguments: SourceArguments, in_memory: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Source]:
    """Return the splits that the flags name, in the order of `SPLITS`, and further files of rows.

    A file takes the place of a split of the dataset, or of those `in_memory`. ValueError names all
    files that cannot be read.
    """
    config = arguments.dataset_config_name
    title, splits = "rows in memory", in_memory
    if arguments.dataset_name is not None:
        title, splits = arguments.dataset_name, load_splits(arguments.dataset_name, config)
        title = Path(title).resolve().name if Path(title).exists() else title.partition("@")[0]
    usual = usual_splits(splits)
    given: dict[str, Any] = {}
    for name in SPLITS:
        path = getattr(arguments, f"{name}_file")
        if path is not None or name in usual:
            given[name] = splits[usual[name]] if path is None else path
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
                origin: Origin = {"dataset": title, "config": config, "revision": commit_of(rows)}
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
    checkpoint: str | None = None,
    in_memory: Mapping[str, Any] = MappingProxyType({}),
) -> Rows:
    """Load the splits of a task and give its columns their standard names.

    The first split, "train" if there is one, decides the columns and the labels. A test split
    without any label is for prediction only. `shuffle_seed` is also the seed of
    `validation_fraction`, which keeps the proportions of the labels. Rows are labelled if the
    `arguments` are `DataArguments`; others are pairs, and `kind` says what for. Of a test split,
    these may lack the second text. ValueError names flags that contradict one another, a file that
    cannot be read, a missing column, a bad cell.

    Args:
        arguments: The flags of the rows.
        kind: What pairs without labels are for.
        checkpoint: Without a train split the columns are those that the model in this folder was
            trained on, if they are there.
        in_memory: Splits, by the names of `SPLITS`, in place of files.
    """
    sources = open_sources(arguments, in_memory)
    first = next(iter(sources.values()))
    columns = find_columns(
        first.title,
        first.table,
        arguments,
        labelled=first.name != "test",
        record={} if first.name == "train" else training_rows_of(checkpoint),
    )
    labels = LabelColumn(kind, ())
    if isinstance(arguments, DataArguments):
        labels = _learn(first, columns, arguments)
    read = {name: _read(source, columns, labels) for name, source in sources.items()}
    splits = {name: rows for name, rows in read.items() if name in SPLITS}
    further = {name: rows for name, rows in read.items() if name not in SPLITS}
    unlabelled = [rows for rows in further.values() if LABEL not in rows.column_names]
    for rows in further.values():
        if LABEL in rows.column_names:
            splits = with_corrections(splits, rows)
    origins = {name: source.origin for name, source in sources.items()}
    hold_out(splits, origins, arguments)
    for name, rows in splits.items():
        splits[name] = _chosen(name, rows, arguments)
    warn_of_repeats(splits)
    splits, left_out = without_wrong_reasons(splits)
    for name, rows in {**further, **splits}.items():
        origins[name] = {**origins[name], "rows": rows.num_rows}
    test_table = None
    if "test" in splits:
        test_table = sources["test"].table.select(range(splits["test"].num_rows))
    logger.info("%s, labels %s, read from %s", labels.kind, labels.names, origins)
    return Rows(
        DatasetDict(splits),
        labels,
        origins,
        columns.texts,
        columns.labels,
        left_out=tuple(dict.fromkeys(chain.from_iterable(left_out))),
        unlabelled=concatenate_datasets(unlabelled) if unlabelled else None,
        test_table=test_table,
    )


def _chosen(name: str, rows: Dataset, arguments: SourceArguments) -> Dataset:
    """Return the rows of a split that are read, in their order; ValueError if there are none.

    Markup in training rows is logged. Only these keep what is only to learn.
    """
    if name != "train":
        rows = rows.remove_columns(present((PROBABILITIES, PLACE), rows))
    else:
        most = arguments.max_train_words
        if most is not None:
            rows = rows.filter(lambda row: all(len(text.split()) <= most for text in row.values()))
        _warn_of_markup(rows[:SAMPLE]["text"])
        if arguments.shuffle_seed is not None:
            rows = rows.shuffle(arguments.shuffle_seed, keep_in_memory=True)
    limit = getattr(arguments, MAX_SAMPLES[name])
    if limit is not None:
        rows = rows.select(range(min(limit, rows.num_rows)))
    if not rows.num_rows:
        way_out = f"raise --{MAX_SAMPLES[name]}, or --max_train_words"
        raise refusal(f"the limits leave no {name} rows", way_out)
    return rows


def _learn(source: Source, columns: Columns, arguments: DataArguments) -> LabelColumn:
    """Learn the labels from the train split; without one, their names must be known."""
    names: Sequence[str] | None = arguments.label_names
    if names is None and source.name != "train":
        raise refusal("there is no train split to learn from", "list the --label_names")
    if names is None:
        feature = source.table.features.get(",".join(columns.labels))
        classes = getattr(getattr(feature, "feature", feature), "names", None)
        names = columns.labels if len(columns.labels) > 1 else classes
    cells = source.labels(columns.labels)
    return LabelColumn.learn(cells, arguments.problem_type, names, arguments.label_separator)


def _read(source: Source, columns: Columns, labels: LabelColumn) -> Dataset:
    """Check every row of a source and give its columns their standard names and types.

    Corrections have the columns that a page writes. Texts without labels are in the column of the
    training rows or, where a file has none of this name, in one that is found.
    """
    texts = columns.texts
    may_lack = source.name.startswith(("test", "unlabelled"))
    if source.name.startswith("corrections"):
        columns = Columns(TEXT_COLUMNS[: len(texts)], (LABEL,))
    elif source.name.startswith("unlabelled"):
        if not source.has(texts[0]):
            texts = find_columns(source.title, source.table, TEXTS_ALONE, labelled=False).texts
        columns = Columns(texts[:1], ())
    elif may_lack and not labels.names and not source.has(texts[-1]):
        columns = Columns(texts[:1], ())
    rows = source.texts(columns.texts)
    is_left_out = np.any([_are_blank(texts) for texts in rows.data.columns], axis=0)
    cells = source.labels(columns.labels)
    if labels.names and not (may_lack and all(map(is_unlabelled, cells))):
        encoded = source.encoded(",".join(columns.labels), labels.encode, cells)
        is_left_out |= np.array([label is None for label in encoded])
        if labels.soft:
            rows = with_column(rows, PROBABILITIES, encoded)
            encoded = [None if shares is None else int(np.argmax(shares)) for shares in encoded]
        rows = with_column(rows, LABEL, encoded, labels.feature)
        if source.name in SPLITS:
            first = first_number(source.title)
            rows = with_column(rows, PLACE, range(first, first + rows.num_rows))
    if labels.names and not may_lack:
        rows = _with_spans(rows, source)
    if is_left_out.any():
        source.leave_out(is_left_out)
        rows = rows.select(np.flatnonzero(~is_left_out))
    return rows


def _with_spans(rows: Dataset, source: Source) -> Dataset:
    """Check the marks on each text and add them."""
    for name, column in MARKS.items():
        text_name = TEXT_COLUMNS[name.endswith("_pair")]
        if source.has(column) and text_name in rows.column_names:
            cells = source.table[column], rows[text_name]
            spans = source.encoded(column, parse_spans, *cells)
            rows = with_column(rows, name, spans, List(List(Value("int64"))))
    return rows


def _warn_of_markup(texts: Sequence[str]) -> None:
    """Log that texts hold tags of HTML, and a line that nearly all texts have."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({*filter(str.strip, text.splitlines()[1:])})
        counts[TAGS] += TAG.search(text) is not None
    for found, count in counts.items():
        if count > (LEAST_TAGGED if found == TAGS else MOST_ALIKE) * len(texts):
            note = f"{count:,} of the first {len(texts):,} texts have {found!r:.80}"
            logger.warning(one_line(f"{note}, which is read; take it out"))
