"""The rows of a task: texts under standard names, and labels as a model takes them.

A fault names the source, the row and the column. Rows of a sheet are counted as a spreadsheet does,
other rows from 0.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from .columns import (
    FLAGS,
    MARKS,
    Columns,
    find_columns,
    parted,
    training_rows_of,
    with_trained_columns,
)
from .labels import REGRESSION, LabelColumn, is_unlabelled
from .marks import parse_spans, with_corrections, without_wrong_reasons
from .repeats import hold_out, warn_of_repeats
from .table import (
    PLACE,
    PROBABILITIES,
    TEXT_COLUMNS,
    Origin,
    commit_of,
    first_number,
    holds_texts,
    load_splits,
    numbered,
    origin_of,
    place_of,
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
LEAST_TAGGED = 0.05  # of the texts
MOST_ALIKE = 0.9  # of the texts
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
        return self.labels.answers

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
            return chain.from_iterable(zip(*(train[name][:] for name in TEXT_COLUMNS), strict=True))
        texts = [train.select_columns("text"), self.unlabelled]
        # A list, because `datasets` takes long for each text that it is asked for alone.
        return concatenate_datasets([rows for rows in texts if rows is not None])["text"][:]


@dataclass
class Source:
    """The table of a split. The `title` stands in errors, the `origin` in a record.

    places: the numbers (N,) of the rows, for errors and records.
    """

    name: str
    title: str
    table: Dataset
    origin: Origin
    places: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        """Number the rows; ValueError if there are none."""
        if not self.table.num_rows:
            raise refusal(f"{self.title} has no rows", "add some, or leave it out")
        self.places = np.arange(self.table.num_rows)

    def has(self, name: str) -> bool:
        """Return whether the table has all columns that a name means, parted by +."""
        names = self.table.column_names
        return {*parted([name], "+", names)} <= {*names}

    def columns(self, name: str) -> list[str]:
        """Return the columns that a name means, parted by +; ValueError if one is missing."""
        names = self.table.column_names
        own = parted([name], "+", names)
        for missing in {*own} - {*names}:
            listed = ", ".join(map(repr, names))
            raise refusal(
                f"{self.title} has no column {missing!r}", f"it has {listed}; name another"
            )
        return own

    def cells(self, name: str) -> list[Any]:
        """Return the cells of a column, with names in place of class ids."""
        [own] = self.columns(name)
        return _decoded(self.table.features[own], self.table[own][:])

    def texts(self, names: Sequence[str]) -> Dataset:
        """Return columns of texts by the names in `TEXT_COLUMNS`; ValueError for other values."""
        stored: pa.Table = self.table.with_format("arrow")[:]
        texts = {}
        for standard, name in zip(TEXT_COLUMNS, names, strict=False):
            parts = stored.select(self.columns(name))
            for column, kind in zip(parts.column_names, parts.schema.types, strict=True):
                if not (holds_texts(self.table, column) or pa.types.is_null(kind)):
                    what = f"column {column!r} of {self.title} holds values of type {kind}"
                    raise refusal(what, "texts are wanted there")
            texts[standard] = reduce(_joined, [part.cast(pa.string()) for part in parts.columns])
        # The fingerprint is random, because hashing all values takes long.
        return Dataset(pa.table(texts), fingerprint=uuid4().hex)

    def encoded(self, column: str, cells: Iterable[Any], encode: Callable[[Any], Any]) -> list[Any]:
        """Return what becomes of each cell of a column; ValueError names the first bad one."""
        forms = {}
        values = []
        for row, cell in enumerate(cells):
            form = repr(cell)
            if form not in forms:
                try:
                    forms[form] = encode(cell)
                except ValueError as reason:
                    place = place_of(self.title, self.places[row])
                    raise ValueError(f"{place}, column {column!r}: {reason}") from None
            values.append(forms[form])
        return values

    def leave_out(self, is_left_out: np.ndarray) -> None:
        """Leave rows out, and log how many; ValueError if these are more than half of the rows."""
        rows = np.flatnonzero(is_left_out)
        if not rows.size:
            return
        what = f"{rows.size:,} of {self.table.num_rows:,} rows of {one_line(self.title)}"
        what += " have no text or no label"
        if 2 * rows.size > self.table.num_rows:
            raise refusal(what, f"name other columns with {FLAGS}")
        first = ", ".join(map(str, rows[:SHOWN_ROWS] + first_number(self.title)))
        logger.warning(f"{what} and are left out; the first: {first}")
        self.origin = {**self.origin, "left_out": rows.size}
        self.places = np.flatnonzero(~is_left_out)
        self.table = self.table.select(self.places)


def _joined(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the texts of two columns in one, each in its own line; blank ones are left out."""
    lines = (pc.if_else(_are_blank(texts), None, texts) for texts in (first, second))
    return pc.binary_join_element_wise(*lines, "\n", null_handling="skip")


def _are_blank(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether each text is missing or blank."""
    return pc.equal(pc.utf8_trim_whitespace(pc.fill_null(texts, "")), "")


def _decoded(feature: Any, values: Sequence[Any]) -> list[Any]:
    """Return values with names in place of class ids; None for -1, which stands for no label."""
    if isinstance(feature, ClassLabel):
        return [None if x is None or x < 0 else feature.names[x] for x in values]
    if isinstance(getattr(feature, "feature", None), ClassLabel):
        return [None if row is None else _decoded(feature.feature, row) for row in values]
    return list(values)


def open_sources(
    arguments: SourceArguments, in_memory: Mapping[str, Any] = MappingProxyType({})
) -> list[Source]:
    """Return the splits that the flags name, in the order of `SPLITS`.

    Splits `in_memory` take the place of all flags. ValueError names all files that cannot be read.
    """
    files = {name: path for name in SPLITS if (path := arguments.file_of(name)) is not None}
    title, config = arguments.dataset_name, arguments.dataset_config_name
    revision = None
    splits: Mapping[str, Any] = files
    if in_memory:
        title, splits = "rows in memory", in_memory
    elif (title is None) == (not files):
        raise refusal(
            f"--dataset_name is {title!r} and the files are {files}",
            "give either a dataset, or files by --train_file, --validation_file and --test_file",
        )
    elif title is not None:
        title, revision = _at_revision(title)
        splits = load_splits(title, config, revision)
        title = Path(title).resolve().name if Path(title).is_dir() else title
    sources = []
    faults = []
    for split, own_split in usual_splits(title or "the files", splits).items():
        try:
            if splits is files:
                sources.append(source_of_file(split, str(files[own_split])))
            else:
                rows = table(splits[own_split])
                facts = {"config": config, "revision": commit_of(rows) or revision}
                facts = {"fingerprint": rows._fingerprint} if in_memory else facts
                shown = f"the {own_split} split of {title}"
                sources.append(Source(split, shown, rows, {"dataset": title, **facts}))
        except (ValueError, OSError) as fault:
            faults.append(fault)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise ValueError(". Also: ".join(map(str, faults)))
    return sources


def _at_revision(name: str) -> tuple[str, str | None]:
    """Return the name of a dataset, and the revision that stands behind it; a folder has none."""
    if Path(name).exists():
        return name, None
    name, _, revision = name.partition("@")
    return name, revision or None


def source_of_file(name: str, path: str) -> Source:
    """Return the rows of a file as a split of this name."""
    return Source(name, path, table(path), origin_of(path))


def load_rows(
    arguments: SourceArguments,
    *,
    kind: str = "",
    with_marks: bool = False,
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
        with_marks: Whether marks of test rows are read.
        checkpoint: Without a train split the columns are those that the model in this folder was
            trained on, if they are there.
        in_memory: Splits, by the names of `SPLITS`, in place of files.
    """
    sources = open_sources(arguments, in_memory)
    first = sources[0]
    record = training_rows_of(checkpoint) if first.name != "train" else {}
    arguments = with_trained_columns(arguments, record, first.table.column_names)
    labelled = first.name != "test"
    columns = find_columns(first.title, first.table, arguments, labelled=labelled)
    trained = record.get("text_column_names")
    if trained and arguments.text_column_names is None:
        note = f"{first.title}: the texts are read from {','.join(columns.texts)}"
        logger.warning(one_line(f"{note}; the model was trained on {','.join(trained)}"))
    if with_marks:
        first.columns(MARKS["spans"])
    labels = LabelColumn(kind, ())
    if isinstance(arguments, DataArguments):
        labels = _learn(first, columns, arguments)
    splits = {source.name: _read(source, columns, labels, with_marks) for source in sources}
    origins = {source.name: source.origin for source in sources}
    texts = []
    if isinstance(arguments, DataArguments):
        for source, rows in _read_more(arguments, columns, labels):
            origins[source.name] = {**source.origin, "rows": rows.num_rows}
            if LABEL in rows.column_names:
                splits = with_corrections(splits, rows, len(labels.names))
            else:
                texts.append(rows)
    hold_out(splits, origins, arguments)
    if "train" in splits:
        splits["train"] = _chosen(splits["train"], arguments)
    for name, rows in splits.items():
        limit = getattr(arguments, MAX_SAMPLES[name], None) or rows.num_rows
        splits[name] = rows.select(range(min(limit, rows.num_rows)))
    warn_of_repeats(splits, TEXT_COLUMNS)
    splits, left_out = without_wrong_reasons(splits)
    for name, rows in splits.items():
        origins[name] = {**origins[name], "rows": rows.num_rows}
    test_table = None
    if "test" in splits:
        test_table = sources[-1].table.select(range(splits["test"].num_rows))
    return Rows(
        DatasetDict(splits),
        labels,
        origins,
        columns.texts,
        columns.labels,
        left_out=tuple(dict.fromkeys(chain.from_iterable(left_out))),
        unlabelled=concatenate_datasets(texts) if texts else None,
        test_table=test_table,
    )


def _chosen(rows: Dataset, arguments: SourceArguments) -> Dataset:
    """Return the training rows that are read, in their order; log markup in them."""
    max_words = getattr(arguments, "max_train_words", None)
    if max_words is not None:
        rows = rows.filter(lambda row: all(len(text.split()) <= max_words for text in row.values()))
        if not rows.num_rows:
            raise refusal(f"--max_train_words {max_words} leaves no rows", "give a larger number")
    _warn_of_markup(rows)
    if arguments.shuffle_seed is None:
        return rows
    return rows.shuffle(arguments.shuffle_seed, keep_in_memory=True)


def _learn(source: Source, columns: Columns, arguments: DataArguments) -> LabelColumn:
    """Learn the labels from the train split, or without one from the names that are known."""
    names: Sequence[str] | None = columns.labels if len(columns.labels) > 1 else None
    if len(columns.labels) == 1:
        feature = source.table.features[source.columns(columns.labels[0])[0]]
        names = getattr(getattr(feature, "feature", feature), "names", None)
    are_known = arguments.label_names or names or arguments.problem_type == REGRESSION
    if source.name != "train" and not are_known:
        raise refusal("there is no train split to learn from", "list the --label_names")
    cells = _label_cells(source, columns.labels)
    known, separator = arguments.label_names, arguments.label_separator
    try:
        return LabelColumn.learn(cells, arguments.problem_type, known, names, separator)
    except ValueError as reason:
        what = f"{source.title}, column {','.join(columns.labels)!r}"
        raise ValueError(f"{what}: {reason}") from None


def _label_cells(source: Source, columns: Sequence[str]) -> list[Any]:
    """Return a cell for each row: None without a label, of several columns a tuple of numbers."""
    if not columns or (source.name == "test" and not all(map(source.has, columns))):
        return [None] * source.table.num_rows
    of_columns = [source.cells(name) for name in columns]
    if len(columns) == 1:
        return of_columns[0]
    return source.encoded(",".join(columns), zip(*of_columns, strict=True), _numbers)


def _numbers(cells: Sequence[Any]) -> tuple[float, ...] | None:
    """Return the labels in several columns of a row; None where one is missing."""
    try:
        return None if any(map(is_unlabelled, cells)) else tuple(map(float, cells))
    except (TypeError, ValueError):
        allowed = "several columns of labels hold 0 and 1, or fractions that sum to 1"
        raise refusal(f"{cells!r:.80}", allowed) from None


def _read(
    source: Source, columns: Columns, labels: LabelColumn, with_marks: bool = False
) -> Dataset:
    """Check every row of a split and give its columns their standard names and types.

    Marks of test rows are read only `with_marks`: those of people, which measure.
    """
    is_test = source.name == "test"
    has_labels = bool(labels.names)
    has_one_text = not has_labels and is_test and not source.has(columns.texts[-1])
    rows = source.texts(columns.texts[:1] if has_one_text else columns.texts)
    is_left_out = np.any([_are_blank(texts) for texts in rows.data.columns], axis=0)
    cells = _label_cells(source, columns.labels) if has_labels else []
    if not all(map(is_unlabelled, cells)) or (cells and not is_test):
        encoded = source.encoded(",".join(columns.labels), cells, labels.encode)
        is_left_out |= np.array([label is None for label in encoded])
        if labels.soft:
            if source.name == "train":
                rows = with_column(rows, PROBABILITIES, encoded)
            encoded = [None if shares is None else int(np.argmax(shares)) for shares in encoded]
        rows = with_column(rows, LABEL, encoded, labels.feature)
    if has_labels and source.name == "train":
        first = first_number(source.title)
        rows = with_column(rows, PLACE, range(first, first + rows.num_rows))
    source.leave_out(is_left_out)
    if len(source.places) < rows.num_rows:
        rows = rows.select(source.places)
    if has_labels and (not is_test or with_marks):
        rows = _with_spans(rows, source)
    return rows


def _with_spans(rows: Dataset, source: Source) -> Dataset:
    """Check the marks on each text and add them."""
    for name, column in MARKS.items():
        text_name = TEXT_COLUMNS[name.endswith("_pair")]
        if source.has(column) and text_name in rows.column_names:
            cells = zip(source.cells(column), rows[text_name], strict=True)
            spans = source.encoded(column, cells, lambda marked: parse_spans(*marked))
            rows = with_column(rows, name, spans, List(List(Value("int64"))))
    return rows


def _warn_of_markup(rows: Dataset) -> None:
    """Log texts that hold tags of HTML, and a line that nearly all texts have."""
    texts = rows[:SAMPLE]["text"]
    shown = f"of the first {len(texts):,} texts"
    num_tagged = sum(TAG.search(text) is not None for text in texts)
    if num_tagged > LEAST_TAGGED * len(texts):
        logger.warning(f"{num_tagged:,} {shown} hold tags of HTML, which are read; take them out")
    lines = Counter(
        line for text in texts for line in dict.fromkeys(text.splitlines()[1:]) if line.strip()
    )
    for line, count in lines.most_common(1):
        if count > MOST_ALIKE * len(texts):
            note = f"{count:,} {shown} have the line {line!r:.80}, which is read; take it out"
            logger.warning(one_line(note))


def _read_more(
    arguments: DataArguments, columns: Columns, labels: LabelColumn
) -> Iterator[tuple[Source, Dataset]]:
    """Yield each file of corrections, and of texts without labels, with its rows.

    Corrections have the columns that a page writes. Other texts are in the column of the training
    rows or, where a file has none of this name, in one that is found.
    """
    corrections = Columns(TEXT_COLUMNS[: len(columns.texts)], (LABEL,))
    for number, path in enumerate(arguments.corrections_file or (), start=1):
        source = source_of_file(numbered("corrections", number), path)
        if source.has(TEXT_COLUMNS[1]) > (len(columns.texts) > 1):
            what = f"{path} has corrections of pairs, and the rows have one text"
            raise refusal(what, f"delete its column {TEXT_COLUMNS[1]}")
        yield source, _read(source, corrections, labels)
    for number, path in enumerate(arguments.unlabelled_file or (), start=1):
        if len(columns.texts) > 1:
            raise refusal(
                f"--unlabelled_file is {path}, and the rows are pairs of texts",
                "leave it out; only a new model of single texts reads it",
            )
        source = source_of_file(numbered("unlabelled", number), path)
        texts = columns.texts
        if arguments.text_column_names is None and not source.has(*texts):
            texts = find_columns(path, source.table, TEXTS_ALONE, labelled=False).texts[:1]
            logger.warning(one_line(f"{path}: the texts are read from column {texts[0]!r}"))
        yield source, _read(source, Columns(texts, ()), LabelColumn("", ()))
