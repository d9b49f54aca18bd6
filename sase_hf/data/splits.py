"""The splits of a task: texts under standard names, labels as a model takes them, and token ids.

Every row is checked here, so that a bad one is named by file or split, row and column. Rows of a
CSV file are counted as a spreadsheet does, other rows from 0.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
from datasets import (
    Dataset,
    DatasetDict,
    List,
    Value,
    concatenate_datasets,
    interleave_datasets,
)
from transformers import BatchEncoding, PreTrainedTokenizerBase

from ..models.answers import REGRESSION, Answers
from ..models.checked_model import first_places, readable
from ..utils.errors import refusal
from ..utils.text import one_line
from .arguments import MAX_SAMPLES, DataArguments, PairArguments, SourceArguments
from .columns import FLAGS, MARKS, SPAN_COLUMNS, find_columns, find_pair, finds_labels_by_values
from .corrections import open_corrections, with_corrections
from .held_out import hold_out
from .labels import EncodedLabel, LabelColumn, is_number, is_unlabelled
from .marks import Span, marked_tokens, parse_spans, without_wrong_reasons
from .repeats import text_digests, warn_of_repeats
from .sources import (
    PROBABILITIES,
    TEXT_COLUMNS,
    Batch,
    Columns,
    Origin,
    StoredSplit,
    numbered,
    open_sources,
    present,
    scratch_file,
    with_column,
    writing_rows,
)
from .trained_columns import with_trained_columns
from .unlabelled import load_unlabelled

logger = logging.getLogger(__name__)

TRANSLATION = "translation"
NO_DIGESTS = np.empty(0, dtype=np.uint64)
SHOWN_ROWS = 3  # of those left out


@dataclass(frozen=True)
class Rows:
    """A task's splits and the meaning of its labels.

    The splits are some of "train", "validation" and "test", with the columns `text`, for pairs
    `text_pair`, and `label`: by their `kind` a class id, a 0.0 or 1.0 for every class, or a
    number or list of numbers. Where labels are soft, the class id is that of the most probable
    class, and the train split has the `probabilities` to learn. Only a test split may come without
    `label`. Where texts are marked, `spans` holds the marks, `spans_pair` those of the second text,
    and `against`, where it was asked for, those of one text that speak against the label. A train
    split with labels says in `sources.PLACE_COLUMNS` where its rows stand in their file, and lacks
    the words that are no reason for a label (`marks`).

    sources: the origin of each split's rows, and their number.
    text_columns: the names in the source, one, or two for pairs.
    label_columns: the names in the source, none if no rows have labels.
    left_out: the words that the train split lacks, and that texts to predict have.
    unlabelled: more texts for the words and the word vectors of a new model, column `text`.
    has_exchanged: whether each training pair is followed by itself with the texts exchanged.
    """

    splits: DatasetDict
    labels: LabelColumn
    sources: dict[str, Origin]
    text_columns: tuple[str, ...]
    label_columns: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    unlabelled: Dataset | None = None
    has_exchanged: bool = False

    @property
    def kind(self) -> str:
        """One of `labels.PROBLEM_TYPES`, or what pairs without labels are for."""
        return self.labels.kind

    @property
    def answers(self) -> Answers:
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


def load_rows(
    arguments: DataArguments,
    *,
    against: bool = False,
    checkpoint: str | None = None,
    in_memory: Mapping[str, Dataset] = MappingProxyType({}),
) -> Rows:
    """Load the splits of a task and give its columns their standard names.

    The first split, "train" if there is one, decides the columns and the labels. A test split
    without any label is for prediction only. `shuffle_seed` is also the seed of
    `validation_fraction`, which keeps the proportions of the labels. ValueError names flags
    that contradict one another, a line that breaks its format, a missing column, a bad cell.
    Marks of test rows are read only with `against`. Without a train split the
    columns are those that the model in the folder `checkpoint` was trained on, if they are there.
    Splits `in_memory`, by the names of `SPLITS`, take the place of files and are read as these are.
    """
    with open_sources(arguments, in_memory) as stored:
        first = stored[0]
        is_test = first.name == "test"
        sample = next(first.batches(), {})
        if first.name != "train":
            arguments = with_trained_columns(arguments, checkpoint, first.title, sample)
        if not is_test and finds_labels_by_values(sample, arguments):
            sample = first.spread_sample()
        columns = find_columns(
            first.title, sample, arguments, labelled=not is_test, against=against
        )
        for split in stored:
            split.adopt_names((*columns.texts, *columns.labels, *columns.marks.values()))
            split.read(columns)
    _require_columns(stored, columns, arguments, against)
    cells = {split.name: _label_cells(split, columns.labels) for split in stored}
    labels = _learn(first, cells[first.name], columns, arguments)
    if is_test and arguments.label_column_name is None and columns.labels:
        columns = _without_foreign_labels(first, cells["test"], columns, labels)
    splits = {}
    for split in stored:
        splits[split.name] = _checked(split, cells[split.name], columns, labels, arguments)
    origins = {split.name: split.source for split in stored}
    splits, origins_of_corrections, corrected = _corrected(splits, columns, labels, arguments)
    hold_out(splits, origins, arguments)
    rows = _limited(splits, labels, origins, columns, arguments, corrected)
    unlabelled, more_origins = load_unlabelled(arguments, columns.texts)
    sources = {**rows.sources, **origins_of_corrections, **more_origins}
    rows = replace(rows, unlabelled=unlabelled, sources=sources)
    logger.info("%s, labels %s, read from %s", labels.kind, labels.names, rows.sources)
    return rows


def _require_columns(
    stored: Sequence[StoredSplit], columns: Columns, arguments: DataArguments, against: bool
) -> None:
    """Raise ValueError if a split lacks a column that it must have."""
    for split in stored:
        split.require(columns.texts, FLAGS)
        if split.name != "test":
            split.require(columns.labels, FLAGS)
    first = stored[0]
    for flag, default, kinds in MARKS:
        column = columns.marks.get(kinds[0])
        is_named = getattr(arguments, flag) != default and first.name != "test"
        if column is not None and (against or is_named):
            first.require([column], f"--{flag}")


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
    with open_sources(arguments) as stored:
        first = stored[0]
        least_texts = 1 if first.name == "test" else 2
        sample = next(first.batches(), {})
        if first.name != "train":
            arguments = with_trained_columns(
                arguments, checkpoint, first.title, sample, num_texts=least_texts
            )
        names = arguments.asked_text_columns(sample) or find_pair(first.title, sample, least_texts)
        columns = Columns(tuple(names), ())
        for split in stored:
            split.adopt_names(columns.texts)
            split.read(columns)
    splits = {}
    for split in stored:
        texts = columns.texts
        if split.name == "test" and texts[-1] not in split.column_names:
            texts = texts[:1]
        split.require(texts, "--text_column_names")
        splits[split.name] = split.named_texts(dict(zip(texts, TEXT_COLUMNS, strict=False)))
    origins = {split.name: split.source for split in stored}
    hold_out(splits, origins, arguments)
    exchanges = both_directions and "train" in splits
    if max_train_words is not None and "train" in splits:
        splits["train"] = _short_pairs(splits["train"], first.title, max_train_words)
    labels = LabelColumn(kind, ())
    return _limited(splits, labels, origins, columns, arguments, exchanges=exchanges)


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
    corrected: np.ndarray = NO_DIGESTS,
    *,
    exchanges: bool = False,
) -> Rows:
    """Shuffle the train split, keep the first rows of each split, and log texts that repeat.

    `corrected` are the digests of the texts that people corrected; the log says if some go. With
    `exchanges`, each training pair that is kept is also read the other way round.
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
    words = tuple(dict.fromkeys(chain.from_iterable(left_out)))
    return Rows(
        DatasetDict(splits),
        labels,
        used,
        columns.texts,
        columns.labels,
        left_out=words,
        has_exchanged=exchanges,
    )


def _label_cells(split: StoredSplit, columns: Sequence[str]) -> list[object]:
    """Return a cell for each row: None without a label, of several columns a tuple of numbers."""
    if not columns or any(name not in split.column_names for name in columns):
        return [None] * split.num_rows
    if len(columns) == 1:
        return split.labels[columns[0]]
    rows: list[object] = []
    for row, cells in enumerate(zip(*(split.labels[name] for name in columns), strict=True)):
        for name, cell in zip(columns, cells, strict=True):
            if not (is_number(cell) or isinstance(cell, bool) or is_unlabelled(cell)):
                raise split.cell_error(
                    row,
                    name,
                    f"{cell!r} is not a number; several columns of labels hold 0 and 1, or "
                    "fractions that sum to 1",
                )
        is_missing = any(map(is_unlabelled, cells))
        rows.append(None if is_missing else tuple(float(cell) for cell in cells))
    return rows


def _learn(
    split: StoredSplit, cells: list[object], columns: Columns, arguments: DataArguments
) -> LabelColumn:
    """Learn the labels from the train split, or without one from the names that are known."""
    column = ",".join(columns.labels)
    class_names = columns.labels if len(columns.labels) > 1 else split.class_names.get(column)
    are_known = arguments.label_names or class_names or arguments.problem_type == REGRESSION
    if split.name != "train" and not are_known:
        raise refusal("there is no train split to learn from", "list the --label_names")
    return LabelColumn.learn(
        cells,
        arguments.problem_type,
        arguments.label_names,
        class_names,
        arguments.label_separator,
    )


def _without_foreign_labels(
    split: StoredSplit, cells: list[object], columns: Columns, labels: LabelColumn
) -> Columns:
    """Drop a label column that no flag names if none of its cells is a known label."""
    if any(_is_known(cell, labels) for cell in cells):
        return columns
    logger.warning(
        f"column {','.join(columns.labels)!r} of {one_line(split.title)} holds none of the labels "
        "of the model; it is not read"
    )
    return columns._replace(labels=())


def _checked(
    split: StoredSplit,
    cells: list[object],
    columns: Columns,
    labels: LabelColumn,
    arguments: DataArguments,
) -> Dataset:
    """Check every row of a split and give its columns their standard names and types."""
    texts = dict(zip(columns.texts, TEXT_COLUMNS, strict=False))
    left_out = set(chain.from_iterable(map(split.rows_without_text, columns.texts)))
    known = () if labels.kind == REGRESSION else labels.names
    is_unread = split.name == "test" and (
        not columns.labels or all(is_unlabelled(cell, known) for cell in cells)
    )
    encoded: list[EncodedLabel | None] = [None] * split.num_rows
    if not is_unread:
        encoded = _encoded_labels(split, cells, columns, labels, arguments)
        left_out |= {row for row, label in enumerate(encoded) if label is None}
    _count_left_out(split, left_out, columns)
    rows = split.named_texts(texts, left_out=left_out)
    if not is_unread:
        if labels.soft:
            if split.name == "train":
                rows = with_column(rows, PROBABILITIES, encoded)
            encoded = [None if shares is None else int(np.argmax(shares)) for shares in encoded]
        rows = with_column(rows, "label", encoded, labels.feature)
    rows = _with_spans(rows, split, columns, left_out)
    if split.name == "train":
        for name, places in split.places().items():
            rows = with_column(rows, name, places)
    if not left_out:
        return rows
    return rows.select(np.setdiff1d(np.arange(split.num_rows), [*left_out]))


def _count_left_out(split: StoredSplit, left_out: Collection[int], columns: Columns) -> None:
    """Log how many rows are left out; ValueError if these are more than half of the rows."""
    if not left_out:
        return
    numbers = split.places()["row"]
    first = ", ".join(str(numbers[row]) for row in sorted(left_out)[:SHOWN_ROWS])
    note = (
        f"{len(left_out):,} of {split.num_rows:,} rows of {one_line(split.title)} have no text or "
        f"no label and are left out; the first: {first}"
    )
    if 2 * len(left_out) > split.num_rows:
        raise refusal(
            note,
            f"name other columns with {FLAGS}, which are now "
            f"{','.join(columns.texts)} and {','.join(columns.labels) or '(none)'}",
        )
    split.source = {**split.source, "left_out": len(left_out)}
    logger.warning(note)


def _corrected(
    splits: dict[str, Dataset], columns: Columns, labels: LabelColumn, arguments: DataArguments
) -> tuple[dict[str, Dataset], dict[str, Origin], np.ndarray]:
    """Return splits with the rows of `--corrections_file`, their origins, and their digests.

    The origins are one a file, the digests those of the texts of all corrections. Each file also
    replaces corrections of those before it. Several labels are a list of names, as the page writes
    them, or have the form of the training rows.
    """
    origins: dict[str, Origin] = {}
    digests = [NO_DIGESTS]
    for number, path in enumerate(arguments.corrections_file or [], start=1):
        split, own = open_corrections(path, len(columns.texts), arguments)
        cells = _label_cells(split, own.labels)
        rows = _checked(split, cells, own, labels, arguments)
        splits = with_corrections(splits, rows, labels.answers)
        origins[numbered("corrections", number)] = {**split.source, "rows": rows.num_rows}
        digests.append(text_digests(rows, TEXT_COLUMNS[: len(columns.texts)]))
    return splits, origins, np.concatenate(digests)


def _encoded_labels(
    split: StoredSplit,
    cells: list[object],
    columns: Columns,
    labels: LabelColumn,
    arguments: DataArguments,
) -> list[EncodedLabel | None]:
    """Return the label of each row as a model takes it, None without one."""
    if not columns.labels:
        return [None] * split.num_rows
    encoded = []
    for row, cell in enumerate(cells):
        try:
            encoded.append(labels.encode(cell))
        except ValueError as reason:
            raise split.cell_error(
                row, ",".join(columns.labels), f"{reason}{_advice_to_predict(split, arguments)}"
            ) from None
    return encoded


def _advice_to_predict(split: StoredSplit, arguments: DataArguments) -> str:
    """Return what to do about labels of rows to predict; nothing if the run also learns."""
    # If there are rows to learn from, the flag would leave out their labels, too.
    if split.name != "test" or arguments.train_file or arguments.dataset_name:
        return ""
    return "; to predict without labels, add --label_column_name ''"


def _is_known(cell: object, labels: LabelColumn) -> bool:
    """Return whether a cell holds a label of the model."""
    try:
        return not is_unlabelled(cell) and labels.encode(cell) is not None
    except ValueError:
        return False


def _with_spans(
    rows: Dataset, split: StoredSplit, columns: Columns, left_out: Collection[int]
) -> Dataset:
    """Check the marks on each text and add them; rows left out get none.

    Marks of test rows are read only with marks against the label, which measure.
    """
    is_measured = "against" in columns.marks
    if split.name == "test" and not is_measured:
        return rows
    feature = List(List(Value("int64")))
    for name, column in columns.marks.items():
        text_name = "text_pair" if name.endswith("_pair") else "text"
        if column not in split.column_names or text_name not in rows.column_names:
            continue
        spans: list[list[Span]] = []
        for cell, text in zip(split.labels[column], rows[text_name], strict=True):
            row = len(spans)
            try:
                spans.append([] if row in left_out else parse_spans(cell, text))
            except ValueError as reason:
                message = str(reason)
                if not is_measured:
                    message += f"; to ignore the column, give --{_flag_of_marks(name)} ''"
                raise split.cell_error(row, column, message) from None
        rows = with_column(rows, name, spans, feature)
    return rows


def _flag_of_marks(kind: str) -> str:
    """Return the flag that names the column of marks of a kind."""
    return next(flag for flag, _, kinds in MARKS if kind in kinds)


def encode_rows(
    rows: Rows,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int | None = None,
) -> DatasetDict:
    """Tokenize every split; rows keep their order, labels are `labels`, and marks `rationale`.

    Of each text the first `max_tokens` tokens are kept, by default all: a model reads no others
    than `config.max_tokens`. Marks are 1 on each token that a span touches, else 0. ValueError if
    the tokenizer does not tell the texts of a pair apart.
    """
    is_pair = any("text_pair" in split.column_names for split in rows.splits.values())
    types_of_pair = tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]
    if is_pair and 1 not in types_of_pair:
        raise refusal(
            f"the {type(tokenizer).__name__} gives both texts of a pair the same token type",
            "take one of sase_hf.build_tokenizer",
        )
    options = {
        # The collator adds the mask: rows that hold ids alone are encoded faster, and a third
        # smaller.
        "return_attention_mask": False,
        "return_token_type_ids": is_pair,
        "verbose": False,  # no warning of a limit of the tokenizer
    }

    def encode(batch: Batch) -> dict[str, Any]:
        names = TEXT_COLUMNS if is_pair else TEXT_COLUMNS[:1]
        is_marked = any(name in batch for name in SPAN_COLUMNS)
        texts = [list(map(readable, batch[name])) for name in names]
        encoded = tokenizer(*texts, return_offsets_mapping=is_marked, **options)
        if is_marked:
            encoded["rationale"] = list(_marks(encoded, batch))
            del encoded["offset_mapping"]
        return _first_tokens(encoded, max_tokens)

    return _tokenized(rows, encode)


def _first_tokens(encoded: BatchEncoding, max_tokens: int | None) -> dict[str, Any]:
    """Keep the first tokens of each text of the rows, as `encode_rows` does."""
    columns = dict(encoded)
    for row, ids in enumerate(columns["input_ids"]):
        if max_tokens is None or len(ids) <= max_tokens:
            continue
        one_text = [0] * len(ids)
        sides = columns["token_type_ids"][row] if "token_type_ids" in columns else one_text
        kept = first_places(sides, max_tokens)
        for column in columns.values():
            column[row] = [column[row][place] for place in kept]
    return columns


def _marks(encoded: BatchEncoding, batch: Batch) -> Iterator[list[int]]:
    """Yield for each row 1 on its marked tokens and 0 on the others."""
    for row, offsets in enumerate(encoded["offset_mapping"]):
        marks_of_side = []
        for name in SPAN_COLUMNS:
            spans = batch[name][row] if name in batch else []
            marks_of_side.append(marked_tokens(offsets, spans))
        marks = []
        for token, side in enumerate(encoded.sequence_ids(row)):
            if side is None:  # a special token
                marks.append(0)
            else:
                marks.append(marks_of_side[side][token])
        yield marks


def encode_pairs(rows: Rows, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> DatasetDict:
    """Tokenize every split; of each text the first tokens are kept, and targets are `labels`."""

    def encode(batch: Batch) -> dict[str, Any]:
        targets = list(map(readable, batch["text_pair"])) if "text_pair" in batch else None
        sources = list(map(readable, batch["text"]))
        encoded = tokenizer(sources, text_target=targets, verbose=False)
        return {name: [row[:max_tokens] for row in rows] for name, rows in encoded.items()}

    return _tokenized(rows, encode)


def _tokenized(rows: Rows, encode: Callable[..., dict[str, Any]]) -> DatasetDict:
    """Encode every split, on disk if it is there; of the old columns keep only what is learnt."""
    splits = {}
    for name, split in rows.splits.items():
        for target in (PROBABILITIES, "label"):
            if target in split.column_names:
                split = split.rename_column(target, "labels")
                break
        with writing_rows():
            splits[name] = split.map(
                encode,
                batched=True,
                remove_columns=[column for column in split.column_names if column != "labels"],
                # By default the cache would lie beside the user's own dataset files.
                cache_file_name=scratch_file() if split.cache_files else None,
                load_from_cache_file=False,
                desc=f"Tokenizing {name}",
            )
    return DatasetDict(splits)
