"""The rows of a task: texts under standard names, and labels as a model takes them.

A fault names the source, the row and the column. Rows of a sheet are counted as a spreadsheet does,
other rows from 0.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from datasets import (
    ClassLabel,
    Dataset,
    DatasetDict,
    List,
    Value,
    concatenate_datasets,
    interleave_datasets,
)

from ..utils.errors import refusal
from ..utils.text import one_line
from .arguments import MAX_SAMPLES, SPLITS, DataArguments, PairArguments, SourceArguments
from .columns import (
    FLAGS,
    MARKS,
    MEASURED_MARKS,
    Columns,
    find_columns,
    find_texts,
    joined_columns,
    with_trained_columns,
)
from .corrections import with_corrections
from .held_out import hold_out
from .labels import REGRESSION, EncodedLabel, LabelColumn, is_unlabelled
from .marks import Span, parse_spans, without_wrong_reasons
from .repeats import warn_of_repeats
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
    present,
    table,
    usual_form,
    usual_splits,
    with_column,
)

if TYPE_CHECKING:
    from ..models.answers import Answers  # imports torch, which takes seconds

logger = logging.getLogger(__name__)

TRANSLATION = "translation"
BATCH = 1000  # rows whose texts are in memory at once
SHOWN_ROWS = 3  # of those left out
TAG = re.compile(r"</?(a|b|br|div|em|h[1-6]|i|img|li|p|span|strong|table|td|tr|ul)\b[^<>]*>", re.I)
LEAST_TAGGED = 0.05  # of the texts
MOST_ALIKE = 0.9  # of the texts
LABEL = "label"  # the column of labels in a file of corrections


@dataclass(frozen=True)
class Rows:
    """A task's splits and the meaning of its labels.

    The splits are some of "train", "validation" and "test", with the columns `text`, for pairs
    `text_pair`, and `label`: by their `kind` a class id, a 0.0 or 1.0 for every class, or a
    number or list of numbers. Where labels are soft, the class id is that of the most probable
    class, and the train split has the `probabilities` to learn. Only a test split may come without
    `label`. Where texts are marked, `spans` holds the marks, `spans_pair` those of the second text,
    and `against`, where it was asked for, those of one text that speak against the label. A train
    split with labels has the number of each row in its source, `row`, and lacks the words that are
    no reason for a label (`marks`).

    sources: the origin of each split's rows, and their number.
    text_columns: the names in the source, one, or two for pairs.
    label_columns: the names in the source, none if no rows have labels.
    left_out: the words that the train split lacks, and that texts to predict have.
    unlabelled: more texts for the words and the word vectors of a new model, column `text`.
    has_exchanged: whether each training pair is followed by itself with the texts exchanged.
    test_table: the rows of the test split with all columns of their source.
    """

    splits: DatasetDict
    labels: LabelColumn
    sources: dict[str, Origin]
    text_columns: tuple[str, ...]
    label_columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    unlabelled: Dataset | None = None
    has_exchanged: bool = False
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
        """Return the texts of each training row once, and the unlabelled ones.

        The texts of pairs come row by row, so that any part has both languages of a translation.
        """
        train = self.splits["train"]
        if self.has_exchanged:
            train = train.select(range(0, train.num_rows, 2))
        columns = [train[name] for name in present(TEXT_COLUMNS, train)]
        if len(columns) > 1:
            return chain.from_iterable(zip(*columns, strict=True))
        if self.unlabelled is None:
            return columns[0]
        texts = [train.select_columns(TEXT_COLUMNS[0]), self.unlabelled]
        return concatenate_datasets(texts)[TEXT_COLUMNS[0]]


@dataclass
class Source:
    """The table of a split. The `title` stands in errors, the `origin` in a record.

    kept: the rows (N,) that are read, by their number in the table.
    """

    name: str
    title: str
    table: Dataset
    origin: Origin
    kept: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        """Keep all rows; ValueError if there are none."""
        if not self.table.num_rows:
            raise refusal(f"{self.title} has no rows", "add some, or leave it out")
        self.kept = np.arange(self.table.num_rows)

    def has(self, name: str) -> bool:
        """Return whether the table has a column, of this name or of one in another case."""
        return usual_form(name) in map(usual_form, self.table.column_names)

    def column(self, name: str) -> str:
        """Return the table's own name of a column; ValueError if it has none."""
        names = self.table.column_names
        alike = [other for other in names if usual_form(other) == usual_form(name)]
        if name in names:
            return name
        if len(alike) != 1:
            listed = ", ".join(map(repr, names))
            raise refusal(f"{self.title} has no column {name!r}", f"it has {listed}; name another")
        return alike[0]

    def cells(self, name: str) -> list[Any]:
        """Return the cells of a column, with names in place of class ids."""
        own = self.column(name)
        return _decoded(self.table.features[own], self.table[own][:])

    def texts(self, columns: Sequence[str]) -> Dataset:
        """Return columns of texts by the names in `TEXT_COLUMNS`; ValueError for other values."""
        own = []
        for name in columns:
            parts = [self.column(part) for part in joined_columns(name, self.table.column_names)]
            for part in parts:
                _check_texts(self.table, part, self.title)
            own.append(parts)
        if all(len(parts) == 1 for parts in own):
            names = dict(zip(chain.from_iterable(own), TEXT_COLUMNS, strict=False))
            return self.table.select_columns(list(names)).rename_columns(names)
        joined = {}
        for standard, parts in zip(TEXT_COLUMNS, own, strict=False):
            rows = zip(*(self.table[part][:] for part in parts), strict=True)
            joined[standard] = ["\n".join(filter(None, row)) for row in rows]
        return Dataset.from_dict(joined)

    def error(self, row: int, column: str, reason: object) -> ValueError:
        """Return an error that names a cell and its fault."""
        return ValueError(f"{place_of(self.title, row)}, column {column!r}: {reason}")

    def leave_out(self, is_left_out: np.ndarray, columns: Columns) -> None:
        """Leave rows out, and log how many; ValueError if these are more than half of the rows."""
        self.kept = np.flatnonzero(~is_left_out)
        rows = np.flatnonzero(is_left_out)
        if not rows.size:
            return
        first = ", ".join(str(row + first_number(self.title)) for row in rows[:SHOWN_ROWS])
        note = (
            f"{rows.size:,} of {self.table.num_rows:,} rows of {one_line(self.title)} have no text "
            f"or no label and are left out; the first: {first}"
        )
        if 2 * rows.size > self.table.num_rows:
            read = f"{','.join(columns.texts)} and {','.join(columns.labels) or '(none)'}"
            raise refusal(note, f"name other columns with {FLAGS}, which are now {read}")
        self.origin = {**self.origin, "left_out": rows.size}
        logger.warning(note)


def _check_texts(rows: Dataset, name: str, title: str) -> None:
    """Raise ValueError if a column holds something else than texts, or nothing."""
    kind = rows.data.schema.field(name).type
    if not (holds_texts(rows, name) or pa.types.is_null(kind)):
        raise refusal(
            f"column {name!r} of {title} holds values of type {kind}", "texts are wanted there"
        )


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
    files = {name: str(path) for name in SPLITS if (path := arguments.file_of(name)) is not None}
    name = arguments.dataset_name
    if in_memory:
        return _sources_of_splits("rows in memory", in_memory, {})
    if (name is None) == (not files):
        raise refusal(
            f"--dataset_name is {name!r} and the files are {files}",
            "give either a dataset, or files by --train_file, --validation_file and --test_file",
        )
    if name is not None:
        config, revision = arguments.dataset_config_name, arguments.dataset_revision
        loaded = load_splits(name, config, revision, arguments.cache_dir, arguments.token)
        shown = Path(name).resolve().name if Path(name).is_dir() else name
        return _sources_of_splits(shown, loaded, {"config": config, "revision": revision})
    sources = []
    faults = []
    for split, path in files.items():
        try:
            sources.append(source_of_file(split, path))
        except (ValueError, OSError) as fault:
            faults.append(fault)
    if len(faults) > 1:
        raise ValueError(". Also: ".join(map(str, faults)))
    if faults:
        raise faults[0]
    return sources


def source_of_file(split: str, path: str) -> Source:
    """Return the rows of a file as a split of this name."""
    rows = table(path)
    return Source(split, path, rows, origin_of(path))


def _sources_of_splits(title: str, splits: Mapping[str, Any], facts: Origin) -> list[Source]:
    """Return those splits of a dataset that are read; the `facts` are more of their origins."""
    sources = []
    for split, own_name in usual_splits(title, splits).items():
        rows = table(splits[own_name])
        origin: Origin = {"dataset": title, **facts}
        if facts:
            origin["revision"] = commit_of(rows) or facts["revision"]
        else:
            origin["fingerprint"] = rows._fingerprint
        sources.append(Source(split, f"the {own_name} split of {title}", rows, origin))
    return sources


def load_rows(
    arguments: DataArguments,
    *,
    against: bool = False,
    checkpoint: str | None = None,
    in_memory: Mapping[str, Any] = MappingProxyType({}),
) -> Rows:
    """Load the splits of a task and give its columns their standard names.

    The first split, "train" if there is one, decides the columns and the labels. A test split
    without any label is for prediction only. `shuffle_seed` is also the seed of
    `validation_fraction`, which keeps the proportions of the labels. Marks of test rows are read
    only with `against`. Without a train split the columns are those that the model in the folder
    `checkpoint` was trained on, if they are there. Splits `in_memory`, by the names of `SPLITS`,
    take the place of files. ValueError names flags that contradict one another, a file that cannot
    be read, a missing column, a bad cell.
    """
    sources, splits, labels, columns = read_splits(
        arguments, against=against, checkpoint=checkpoint, in_memory=in_memory
    )
    assert labels is not None
    splits, origins_of_corrections = _corrected(splits, columns, labels, arguments)
    origins = {source.name: source.origin for source in sources}
    hold_out(splits, origins, arguments)
    if "train" in splits:
        _warn_of_markup(splits["train"])
    rows = _limited(splits, labels, origins, columns, arguments)
    unlabelled, more_origins = _load_unlabelled(arguments, columns.texts)
    rows = replace(
        rows,
        unlabelled=unlabelled,
        sources={**rows.sources, **origins_of_corrections, **more_origins},
        test_table=_test_table(sources[-1], rows.splits),
    )
    logger.info("%s, labels %s, read from %s", labels.kind, labels.names, rows.sources)
    return rows


def load_pairs(
    arguments: PairArguments,
    kind: str = TRANSLATION,
    max_train_words: int | None = None,
    both_directions: bool = False,
    checkpoint: str | None = None,
) -> Rows:
    """Load the splits of a task without labels, with the columns `text` and `text_pair`.

    A test split may come without the second. Training pairs in which a side has more than
    `max_train_words` words, between spaces, are dropped; `both_directions` adds each that is left
    once more, with the texts exchanged. `checkpoint` and the errors are as in `load_rows`.
    """
    sources, splits, _, columns = read_splits(arguments, checkpoint=checkpoint)
    origins = {source.name: source.origin for source in sources}
    hold_out(splits, origins, arguments)
    exchanges = both_directions and "train" in splits
    if max_train_words is not None and "train" in splits:
        splits["train"] = _short_pairs(splits["train"], sources[0].title, max_train_words)
    labels = LabelColumn(kind, ())
    rows = _limited(splits, labels, origins, columns, arguments, exchanges=exchanges)
    return replace(rows, test_table=_test_table(sources[-1], splits))


def read_splits(
    arguments: SourceArguments,
    *,
    against: bool = False,
    checkpoint: str | None = None,
    in_memory: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[list[Source], dict[str, Dataset], LabelColumn | None, Columns]:
    """Read and check all rows, as `load_rows` and `load_pairs` do.

    Also returns the meaning of the labels, None for pairs without labels, and the columns.
    """
    sources = open_sources(arguments, in_memory)
    first = sources[0]
    if first.name != "train":
        names = first.table.column_names
        arguments = with_trained_columns(arguments, checkpoint, first.title, names)
    labelled = first.name != "test"
    columns = find_columns(first.title, first.table, arguments, labelled=labelled)
    if against:
        first.column(MEASURED_MARKS["spans"])
    labels = None
    if isinstance(arguments, DataArguments):
        labels = _learn(first, columns, arguments)
    splits = {source.name: _read(source, columns, labels, against) for source in sources}
    return sources, splits, labels, columns


def _test_table(last: Source, splits: Mapping[str, Dataset]) -> Dataset | None:
    """Return the rows of the test split, the last one, with all columns of their source."""
    if last.name != "test":
        return None
    return last.table.select(last.kept[: splits["test"].num_rows])


def _short_pairs(pairs: Dataset, title: str, max_words: int) -> Dataset:
    """Drop the training pairs that are too long; ValueError if none is left."""
    short = pairs.filter(lambda row: all(len(text.split()) <= max_words for text in row.values()))
    if not short.num_rows:
        raise refusal(f"{title} has no rows left", "add some, or leave it out")
    return short


def _with_exchanged(pairs: Dataset) -> Dataset:
    """Add to each pair, behind it, the pair with its texts exchanged."""
    exchanged = pairs.rename_columns({"text": "text_pair", "text_pair": "text"})
    return interleave_datasets([pairs, exchanged.select_columns(list(TEXT_COLUMNS))])


def _limited(
    splits: dict[str, Dataset],
    labels: LabelColumn,
    sources: Mapping[str, Origin],
    columns: Columns,
    arguments: SourceArguments,
    *,
    exchanges: bool = False,
) -> Rows:
    """Shuffle the train split, keep the first rows of each split, and log texts that repeat.

    With `exchanges`, each training pair that is kept is also read the other way round.
    """
    if arguments.shuffle_seed is not None and "train" in splits:
        seed = arguments.shuffle_seed
        splits["train"] = splits["train"].shuffle(seed=seed, keep_in_memory=True)
    for name, rows in splits.items():
        limit = getattr(arguments, MAX_SAMPLES[name], None)
        if limit is not None:
            splits[name] = rows.select(range(min(limit, rows.num_rows)))
    if exchanges:
        splits["train"] = _with_exchanged(splits["train"])
    warn_of_repeats(splits, TEXT_COLUMNS)
    splits, left_out = without_wrong_reasons(splits)
    used = {name: {**sources[name], "rows": rows.num_rows} for name, rows in splits.items()}
    return Rows(
        DatasetDict(splits),
        labels,
        used,
        columns.texts,
        columns.labels,
        left_out=tuple(dict.fromkeys(chain.from_iterable(left_out))),
        has_exchanged=exchanges,
    )


def _learn(source: Source, columns: Columns, arguments: DataArguments) -> LabelColumn:
    """Learn the labels from the train split, or without one from the names that are known."""
    names: Sequence[str] | None = columns.labels if len(columns.labels) > 1 else None
    if len(columns.labels) == 1:
        feature = source.table.features[source.column(columns.labels[0])]
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
    rows: list[Any] = []
    for row, cells in enumerate(zip(*of_columns, strict=True)):
        try:
            rows.append(None if any(map(is_unlabelled, cells)) else tuple(map(float, cells)))
        except (TypeError, ValueError):
            allowed = "several columns of labels hold 0 and 1, or fractions that sum to 1"
            raise source.error(row, ",".join(columns), f"{cells!r:.80}; {allowed}") from None
    return rows


def _read(
    source: Source, columns: Columns, labels: LabelColumn | None, against: bool = False
) -> Dataset:
    """Check every row of a split and give its columns their standard names and types.

    Marks of test rows are read only with `against`: those of people, which measure.
    """
    has_one_text = labels is None and source.name == "test" and not source.has(columns.texts[-1])
    rows = source.texts(columns.texts[:1] if has_one_text else columns.texts)
    is_left_out = _are_blank(rows)
    encoded = None if labels is None else _encoded_labels(source, columns, labels)
    if labels is not None and encoded is not None:
        is_left_out |= np.array([label is None for label in encoded])
        if labels.soft:
            if source.name == "train":
                rows = with_column(rows, PROBABILITIES, encoded)
            encoded = [None if shares is None else int(np.argmax(shares)) for shares in encoded]
        rows = with_column(rows, "label", encoded, labels.feature)
    source.leave_out(is_left_out, columns)
    if labels is not None and (source.name != "test" or against):
        rows = _with_spans(rows, source, MEASURED_MARKS if against else MARKS)
    if labels is not None and source.name == "train":
        first = first_number(source.title)
        rows = with_column(rows, PLACE, range(first, first + rows.num_rows))
    return _kept(rows, source)


def _kept(rows: Dataset, source: Source) -> Dataset:
    """Return the rows that are not left out."""
    return rows if len(source.kept) == rows.num_rows else rows.select(source.kept)


def _warn_of_markup(rows: Dataset) -> None:
    """Log texts that hold tags of HTML, and a line that nearly all texts have."""
    texts = rows[:BATCH]["text"]
    num_tagged = sum(TAG.search(text) is not None for text in texts)
    if num_tagged > LEAST_TAGGED * len(texts):
        note = f"{num_tagged:,} of the first {len(texts):,} texts hold tags of HTML"
        logger.warning(f"{note}, which are read as words; take them out")
    lines = Counter(
        line for text in texts for line in dict.fromkeys(text.splitlines()[1:]) if line.strip()
    )
    for line, count in lines.most_common(1):
        if count > MOST_ALIKE * len(texts):
            note = f"{count:,} of the first {len(texts):,} texts have the line {line!r:.80}"
            logger.warning(one_line(f"{note}, which is read, too; take it out"))


def _are_blank(rows: Dataset) -> np.ndarray:
    """Return whether a text of each of N rows is missing or blank, (N,)."""
    is_blank = [
        any(text is None or not text.strip() for text in texts)
        for batch in rows.iter(BATCH)
        for texts in zip(*batch.values(), strict=True)
    ]
    return np.array(is_blank)


def _encoded_labels(
    source: Source, columns: Columns, labels: LabelColumn
) -> list[EncodedLabel | None] | None:
    """Return the label of each row as a model takes it, None without one.

    Of rows to predict, which need no labels, None alone if none has one.
    """
    cells = _label_cells(source, columns.labels)
    if source.name == "test" and all(map(is_unlabelled, cells)):
        return None
    known: dict[str, EncodedLabel | None] = {}
    keys = list(map(repr, cells))
    for row, key in enumerate(keys):
        if key not in known:
            try:
                known[key] = labels.encode(cells[row])
            except ValueError as reason:
                raise source.error(row, ",".join(columns.labels), reason) from None
    return [known[key] for key in keys]


def _with_spans(rows: Dataset, source: Source, marks: Mapping[str, str]) -> Dataset:
    """Check the marks on each text and add them; `marks` are their columns by standard names."""
    for name, column in marks.items():
        text_name = "text_pair" if name.endswith("_pair") else "text"
        if not source.has(column) or text_name not in rows.column_names:
            continue
        cells = source.cells(column)
        texts = rows[text_name]
        spans: list[list[Span]] = [[]] * rows.num_rows
        for row in source.kept:
            try:
                spans[row] = parse_spans(cells[row], texts[int(row)])
            except ValueError as reason:
                raise source.error(int(row), column, reason) from None
        rows = with_column(rows, name, spans, List(List(Value("int64"))))
    return rows


def _corrected(
    splits: dict[str, Dataset], columns: Columns, labels: LabelColumn, arguments: DataArguments
) -> tuple[dict[str, Dataset], dict[str, Origin]]:
    """Return splits with the rows of `--corrections_file`, and the origin of each file.

    Each file also replaces corrections of those before it. Several labels are a list of names, as
    the page writes them, or have the form of the training rows. So have the columns.
    """
    origins: dict[str, Origin] = {}
    own = Columns(TEXT_COLUMNS[: len(columns.texts)], (LABEL,))
    for number, path in enumerate(arguments.corrections_file or [], start=1):
        source = source_of_file("corrections", path)
        if len(own.texts) == 1 and source.has(TEXT_COLUMNS[1]):
            raise refusal(
                f"{path} has corrections of pairs, and the rows have one text",
                f"name two --text_column_names, or delete its column {TEXT_COLUMNS[1]}",
            )
        rows = _read(source, own, labels)
        splits = with_corrections(splits, rows, labels.answers)
        origins[numbered("corrections", number)] = {**source.origin, "rows": rows.num_rows}
    return splits, origins


def _load_unlabelled(
    arguments: DataArguments, text_columns: Sequence[str]
) -> tuple[Dataset | None, dict[str, Origin]]:
    """Return the texts of `--unlabelled_file`, column `text`, and the origin of each file's rows.

    The column is that of the training rows or, where a file has none of that name and no flag
    names it, the one with a usual name, or the only one. Rows without a text are left out.
    ValueError: the training rows are pairs.
    """
    files = arguments.unlabelled_file or []
    if files and len(text_columns) > 1:
        raise refusal(
            f"--unlabelled_file is {' '.join(files)}, but the rows are pairs of texts, "
            f"{','.join(text_columns)}",
            "leave it out; only a new model of single texts reads it",
        )
    texts = []
    origins: dict[str, Origin] = {}
    for number, path in enumerate(files, start=1):
        source = source_of_file("unlabelled", path)
        column = text_columns[0]
        parts = joined_columns(column, source.table.column_names)
        if arguments.text_column_names is None and not all(map(source.has, parts)):
            [column] = find_texts(path, source.table, 1, 1)
            logger.warning(one_line(f"{path}: the texts are read from column {column!r}"))
        texts.append(_read(source, Columns((column,), ()), None))
        origins[numbered("unlabelled", number)] = {**source.origin, "rows": len(source.kept)}
    return (concatenate_datasets(texts) if texts else None), origins
