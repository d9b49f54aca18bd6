"""The splits of a task: texts under standard names, labels as a model takes them, and token ids.

Every row is checked here, so that a bad one is named by file or split, row and column. Rows of a
CSV file are counted as a spreadsheet does, other rows from 0.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
from datasets import Dataset, DatasetDict, List, Value, interleave_datasets
from transformers import BatchEncoding, PreTrainedTokenizerBase

from ..utils.text import one_line
from .arguments import MAX_SAMPLES, RATIONALE, DataArguments, PairArguments, SourceArguments
from .columns import FLAGS, find_columns, find_pair
from .labels import MULTI_LABEL, REGRESSION, CellFault, LabelColumn, is_unlabelled, truth_of
from .rationales import marked_tokens, parse_spans
from .repeats import text_digests, warn_of_repeats
from .sources import Columns, StoredSplit, open_sources, scratch_file, writing_rows
from .tokenizer import cut_texts, truncation
from .trained_columns import with_trained_columns

logger = logging.getLogger(__name__)

TRANSLATION = "translation"
TEXT_COLUMNS = ("text", "text_pair")
PROBABILITIES = "probabilities"  # of the classes, in a train split
SPAN_COLUMNS = ("spans", "spans_pair")  # the marks on each text


@dataclass(frozen=True)
class Rows:
    """A task's splits and the meaning of its labels.

    The splits are some of "train", "validation" and "test", with the columns `text`, for pairs
    `text_pair`, and `label`: by `problem_type` a class id, a 0.0 or 1.0 for every class, or a
    number or list of numbers. Where labels are soft, the class id is that of the most probable
    class, and the train split has the `probabilities` to learn. Only a test split may come without
    `label`. Where texts are marked, `spans` holds the marks, `spans_pair` those of the second text,
    and `against`, where it was asked for, those of one text that speak against the label.
    """

    splits: DatasetDict
    labels: LabelColumn
    sources: dict[str, dict[str, Any]]  # the origin of each split's rows, and their number
    text_columns: tuple[str, ...]  # the names in the source: one, or two for pairs
    label_columns: tuple[str, ...]  # none if no rows have labels

    @property
    def problem_type(self) -> str:
        """One of `labels.PROBLEM_TYPES`, or the kind of pairs that have no labels."""
        return self.labels.problem_type

    @property
    def label_names(self) -> tuple[str, ...]:
        """The classes in id order; for regression one name per output."""
        return self.labels.names


def load_rows(
    arguments: DataArguments, *, against: bool = False, checkpoint: str | None = None
) -> Rows:
    """Load the splits of a task and give its columns their standard names.

    The first split, "train" if there is one, decides the columns and the labels. A test split
    without any label is for prediction only. `shuffle_seed` is also the seed of
    `validation_fraction`, which keeps the proportions of the labels. ValueError names flags
    that contradict one another, a line that breaks its format, a missing column, a bad cell.
    Marks of test rows are read only with those `against` their labels. Without a train split the
    columns are those that the model in the folder `checkpoint` was trained on, if they are there.
    """
    with open_sources(arguments) as stored:
        first = stored[0]
        is_test = first.name == "test"
        sample = next(first.batches(), {})
        if first.name != "train":
            arguments = with_trained_columns(arguments, checkpoint, first.title, sample)
        asked = {"labelled": not is_test, "against": against}
        columns = find_columns(first.title, sample, arguments, **asked)
        for split in stored:
            split.adopt_names((*columns.texts, *columns.labels, *columns.marks.values()))
            split.read(columns)
    for split in stored:
        is_labelled = split.name != "test"
        split.require(columns.texts + columns.labels * is_labelled, FLAGS)
    if against or (arguments.rationale_column_name != RATIONALE and not is_test):
        first.require([*columns.marks.values()][:1], "--rationale_column_name")
    cells = {split.name: _label_cells(split, columns.labels) for split in stored}
    labels = _learn(first, cells[first.name], columns, arguments)
    if is_test and arguments.label_column_name is None and columns.labels:
        columns = _without_other_labels(first, cells["test"], columns, labels)
    splits = {s.name: _checked(s, cells[s.name], columns, labels, arguments) for s in stored}
    origins = {split.name: split.source for split in stored}
    _hold_out(splits, origins, arguments)
    task = _task(splits, labels, origins, columns, arguments)
    logger.info("%s, labels %s, read from %s", labels.problem_type, labels.names, task.sources)
    return task


def load_pairs(
    arguments: PairArguments,
    problem_type: str = TRANSLATION,
    max_train_words: int | None = None,
    both_directions: bool = False,
    checkpoint: str | None = None,
) -> Rows:
    """Load the splits of a task without labels, with the columns `text` and `text_pair`.

    A test split may come without the second. Training pairs in which a side has more than
    `max_train_words` words, between spaces, are dropped; `both_directions` adds each once more,
    with the texts exchanged. `checkpoint` and the errors are as in `load_rows`.
    """
    with open_sources(arguments) as stored:
        first, least = stored[0], 1 if stored[0].name == "test" else 2
        sample = next(first.batches(), {})
        if first.name != "train":
            arguments = with_trained_columns(
                arguments, checkpoint, first.title, sample, num_texts=least
            )
        names = arguments.text_column_names or list(find_pair(first.title, sample, least))
        columns = Columns(tuple(names), ())
        for split in stored:
            split.adopt_names(columns.texts)
            split.read(columns)
    splits = {}
    for split in stored:
        texts = columns.texts
        if split.name == "test":
            texts = (texts[0], *(name for name in texts[1:] if name in split.column_names))
        split.require(texts, "--text_column_names")
        splits[split.name] = split.named_texts(dict(zip(texts, TEXT_COLUMNS, strict=False)))
    origins = {split.name: split.source for split in stored}
    _hold_out(splits, origins, arguments)
    if "train" in splits:
        splits["train"] = _training_pairs(
            splits["train"], first.title, max_train_words, both_directions
        )
    return _task(splits, LabelColumn(problem_type, ()), origins, columns, arguments)


def _training_pairs(
    pairs: Dataset, title: str, max_words: int | None, both_directions: bool
) -> Dataset:
    """Return the pairs that are not too long, if asked for each once more with texts exchanged."""
    if max_words is not None:
        pairs = pairs.filter(
            lambda row: all(len(text.split()) <= max_words for text in row.values())
        )
        if not pairs.num_rows:
            raise ValueError(f"{title} has no rows left; add some, or leave it out")
    if not both_directions:
        return pairs
    exchanged = pairs.rename_columns(dict(zip(TEXT_COLUMNS, TEXT_COLUMNS[::-1], strict=True)))
    return interleave_datasets([pairs, exchanged.select_columns(list(TEXT_COLUMNS))])


def _task(
    splits: dict[str, Dataset],
    labels: LabelColumn,
    sources: Mapping[str, dict[str, Any]],
    columns: Columns,
    arguments: SourceArguments,
) -> Rows:
    """Shuffle the train split, keep the first rows of each split, and log texts that repeat."""
    if arguments.shuffle_seed is not None and "train" in splits:
        seed = arguments.shuffle_seed
        splits["train"] = splits["train"].shuffle(seed=seed, keep_in_memory=True)
    for name, rows in splits.items():
        if (limit := getattr(arguments, MAX_SAMPLES[name], None)) is not None:
            splits[name] = rows.select(range(min(limit, rows.num_rows)))
    warn_of_repeats(splits, TEXT_COLUMNS)
    used = {name: {**sources[name], "rows": rows.num_rows} for name, rows in splits.items()}
    return Rows(DatasetDict(splits), labels, used, columns.texts, columns.labels)


def _label_cells(split: StoredSplit, columns: Sequence[str]) -> list[Any]:
    """Return a cell for each row: None without a label, a list of names for several columns."""
    if not columns or any(name not in split.column_names for name in columns):
        return [None] * split.num_rows
    if len(columns) == 1:
        return split.labels[columns[0]]
    rows: list[Any] = []
    for cells in zip(*(split.labels[name] for name in columns), strict=True):
        truths = dict(zip(columns, map(truth_of, cells), strict=True))
        for (name, truth), cell in zip(truths.items(), cells, strict=True):
            if truth is None and not is_unlabelled(cell):
                fault = f"{cell!r} is not 0 or 1, true or false, yes or no"
                reason = f"{fault}, as in each of several columns of labels"
                raise split.cell_error(len(rows), name, reason)
        true = [name for name, truth in truths.items() if truth]
        rows.append(None if None in truths.values() else true)
    return rows


def _learn(
    split: StoredSplit, cells: list[Any], columns: Columns, arguments: DataArguments
) -> LabelColumn:
    """Learn the labels from the train split, or without one from the names that are known."""
    names, kind = arguments.label_names, arguments.problem_type
    several = columns.labels if len(columns.labels) > 1 else None
    class_names = several or split.class_names.get(",".join(columns.labels))
    if split.name != "train" and not names and not class_names and kind != REGRESSION:
        raise ValueError("there is no train split to learn from; list the --label_names")
    try:
        return LabelColumn.learn(cells, kind, names, class_names)
    except CellFault as fault:
        row, reason = fault.args
        raise split.cell_error(row, ",".join(columns.labels), str(reason)) from None


def _without_other_labels(
    split: StoredSplit, cells: list[Any], columns: Columns, labels: LabelColumn
) -> Columns:
    """Drop a label column that no flag names if none of its cells is a known label."""
    for cell in cells:
        with suppress(ValueError):
            if labels.encode(cell) is not None:
                return columns
    column = f"column {','.join(columns.labels)!r} of {one_line(split.title)}"
    logger.warning(f"{column} holds none of the labels of the model; it is not read")
    return columns._replace(labels=())


def _checked(
    split: StoredSplit,
    cells: list[Any],
    columns: Columns,
    labels: LabelColumn,
    arguments: DataArguments,
) -> Dataset:
    """Check every row of a split and give its columns their standard names and types."""
    column = ",".join(columns.labels)
    texts = dict(zip(columns.texts, TEXT_COLUMNS, strict=False))
    # If there are rows to learn from, the flag would leave out their labels, too.
    is_alone = split.name == "test" and not (arguments.train_file or arguments.dataset_name)
    unread = "; to predict without labels, add --label_column_name ''" if is_alone else ""
    encoded: list[Any] = [None] * split.num_rows
    for row, cell in enumerate(cells if columns.labels else ()):
        try:
            encoded[row] = labels.encode(cell)
        except ValueError as reason:
            raise split.cell_error(row, column, f"{reason}{unread}") from None
    unlabelled = [row for row, label in enumerate(encoded) if label is None]
    if split.name == "test" and len(unlabelled) == split.num_rows:
        return _with_spans(split.named_texts(texts), split, columns, ())
    if labels.problem_type == MULTI_LABEL and arguments.drop_unlabelled is False:
        for row in unlabelled:
            encoded[row] = [0.0] * len(labels.names)
        unlabelled = []
    if unlabelled and not arguments.drop_unlabelled:
        ways_out = f"{_ways_to_label(cells[unlabelled[0]], labels, arguments)}{unread}"
        fault = f"{cells[unlabelled[0]]!r} is not a label; {ways_out}"
        raise split.cell_error(unlabelled[0], column, fault)
    if len(unlabelled) == split.num_rows:
        raise ValueError(f"{split.title} has no row with a label in {column!r}; leave it out")
    rows = split.named_texts(texts, left_out=set(unlabelled))
    if labels.soft and split.name == "train":
        rows = rows.add_column(PROBABILITIES, encoded, new_fingerprint=uuid4().hex)
    if labels.soft:
        encoded = [shares and int(np.argmax(shares)) for shares in encoded]
    # The fingerprint is random, because hashing all labels takes long.
    rows = rows.add_column("label", encoded, feature=labels.feature, new_fingerprint=uuid4().hex)
    if unlabelled:
        where = one_line(split.title)
        logger.warning("left %d rows without a label out of %s", len(unlabelled), where)
    rows = _with_spans(rows, split, columns, set(unlabelled))
    return rows.select(np.setdiff1d(np.arange(split.num_rows), unlabelled))


def _ways_to_label(cell: Any, labels: LabelColumn, arguments: DataArguments) -> str:
    """Return what can be done about a cell without a label."""
    ways = "label the row"
    if labels.problem_type == MULTI_LABEL:
        ways += ", with [] if none of the labels applies"
    if not arguments.advises_flags:
        return ways
    if labels.problem_type == MULTI_LABEL:
        ways += " (--drop_unlabelled false reads all such cells so)"
    ways += ", or leave all such rows out with --drop_unlabelled"
    if labels.problem_type != REGRESSION and str(cell).strip() == "-":
        ways += "; if '-' is a class, list it in --label_names, with all others"
    return ways


def _with_spans(
    rows: Dataset, split: StoredSplit, columns: Columns, left_out: Collection[int]
) -> Dataset:
    """Add the marks on each text, checked, none for rows left out; those of test rows go unread."""
    is_measured = "against" in columns.marks
    for name, column in columns.marks.items() if is_measured or split.name != "test" else ():
        text_name = "text_pair" if name == "spans_pair" else "text"
        if column in split.column_names and text_name in rows.column_names:
            spans: list[Any] = []
            for cell, text in zip(split.labels[column], rows[text_name], strict=True):
                try:
                    spans.append([] if len(spans) in left_out else parse_spans(cell, text))
                except ValueError as reason:
                    way_out = "; to ignore the column, give --rationale_column_name ''"
                    fault = f"{reason}{way_out * (not is_measured)}"
                    raise split.cell_error(len(spans), column, fault) from None
            kind = {"feature": List(List(Value("int64"))), "new_fingerprint": uuid4().hex}
            rows = rows.add_column(name, spans, **kind)
    return rows


def _hold_out(
    splits: dict[str, Dataset], sources: dict[str, dict[str, Any]], arguments: SourceArguments
) -> None:
    """Split validation rows off if it is asked for: no text on both sides, the labels alike.

    `train_test_split(stratify_by_column=)` refuses labels that occur once, numbers and lists.
    """
    fraction, seed = arguments.validation_fraction, arguments.shuffle_seed or 0
    if not fraction or "train" not in splits or "validation" in splits:
        return
    train = splits["train"]
    is_picked = _evenly_picked(train, max(round(fraction * train.num_rows), 1), seed)
    if is_picked.all() or not is_picked.any():
        use = "train on" if is_picked.all() else "validate with"
        fault = f"--validation_fraction {fraction} of {train.num_rows} train rows leaves none to"
        advice = "add rows with other texts, as equal ones stay together, or give --validation_file"
        raise ValueError(f"{fault} {use}; {advice}")
    for name, chosen in (("train", ~is_picked), ("validation", is_picked)):
        splits[name] = train.select(np.flatnonzero(chosen))
    if PROBABILITIES in train.column_names:
        splits["validation"] = splits["validation"].remove_columns(PROBABILITIES)
    sources["validation"] = {**sources["train"], "split_off": fraction, "seed": seed}


def _evenly_picked(rows: Dataset, count: int, seed: int) -> np.ndarray:
    """Return whether each of N rows is picked: about `count` rows, all rows of a text or none.

    The U texts are ordered by label, then frequent ones first: the rare ones balance a count that a
    frequent one has overshot. Evenly spaced places in this order have the proportions of the
    labels. A text is picked once half of its rows are due.
    """
    columns = [name for name in TEXT_COLUMNS if name in rows.column_names]
    _, text_of_row, size_of_text = np.unique(  # (N,) and (U,)
        text_digests(rows, columns), return_inverse=True, return_counts=True
    )
    shuffled = np.random.default_rng(seed).permutation(rows.num_rows)
    first_places = np.sort(np.unique(text_of_row[shuffled], return_index=True)[1])
    example_of_text = shuffled[first_places]  # (U,): a row of each text, at random
    sizes = size_of_text[text_of_row[example_of_text]]
    labels = np.array(rows["label"][:] if "label" in rows.column_names else [[]])
    sort_keys = (-sizes, labels[example_of_text]) if labels.ndim == 1 else (-sizes,)
    texts = text_of_row[example_of_text[np.lexsort(sort_keys)]]  # (U,); the last key comes first
    due_rows = ((np.arange(count) + 0.5) * rows.num_rows / count).astype(int)
    num_due = np.searchsorted(due_rows, np.cumsum(size_of_text[texts]))
    is_text_picked, num_picked = np.zeros(len(size_of_text), dtype=bool), 0
    for text, due in zip(texts, num_due, strict=True):
        if 2 * (due - num_picked) >= size_of_text[text]:
            is_text_picked[text] = True
            num_picked += size_of_text[text]
    return is_text_picked[text_of_row]


def encode_rows(
    task: Rows,
    tokenizer: PreTrainedTokenizerBase,
    max_seq_length: int | None = None,
    *,
    apart: bool = False,
) -> DatasetDict:
    """Tokenize every split; rows keep their order, labels are `labels`, and marks `rationale`.

    A row, or both texts of a pair together, is cut after `max_seq_length` tokens, by default the
    tokenizer's own limit. Marks are 1 on each token that a span touches, else 0. ValueError if the
    tokenizer does not tell the texts of a pair apart. With `apart`, each text of a pair is
    tokenized and cut as if it were alone.
    """
    is_pair = any("text_pair" in split.column_names for split in task.splits.values())
    types_of_pair = tokenizer("a", "b", return_token_type_ids=True)["token_type_ids"]
    if is_pair and not apart and 1 not in types_of_pair:
        fault = f"the {type(tokenizer).__name__} gives both texts of a pair the same token type"
        raise ValueError(f"{fault}; take one of sase_hf.build_tokenizer")
    # The collator adds the mask: rows that hold ids alone are encoded faster, and a third smaller.
    options = {"return_attention_mask": False, "return_token_type_ids": is_pair}
    options |= truncation(tokenizer, max_seq_length)

    def encode(batch: Mapping[str, list[Any]]) -> BatchEncoding:
        if not apart:
            names = TEXT_COLUMNS if is_pair else TEXT_COLUMNS[:1]
            texts = cut_texts(tokenizer, [batch[name] for name in names], max_seq_length)
            is_marked = any(name in batch for name in SPAN_COLUMNS)
            encoded = tokenizer(*texts, return_offsets_mapping=is_marked, **options)
            if is_marked:
                encoded["rationale"] = list(_marks(encoded, batch))
                del encoded["offset_mapping"]
            return encoded
        sides = []
        for name in TEXT_COLUMNS:
            texts = cut_texts(tokenizer, [batch[name]], max_seq_length)
            sides.append(tokenizer(*texts, **options)["input_ids"])
        pairs = list(zip(*sides, strict=True))
        types = [[0] * len(first) + [1] * len(second) for first, second in pairs]
        ids = [first + second for first, second in pairs]
        return BatchEncoding({"input_ids": ids, "token_type_ids": types})

    return _tokenized(task, encode)


def _marks(encoded: BatchEncoding, batch: Mapping[str, list[Any]]) -> Iterator[list[int]]:
    """Yield for each row 1 on its marked tokens and 0 on the others."""
    for row, offsets in enumerate(encoded["offset_mapping"]):
        sides: Any = encoded.sequence_ids(row)  # of each token: 0, 1, None for a special token
        spans = [batch[name][row] if name in batch else [] for name in SPAN_COLUMNS]
        marks = [[0] * len(offsets), *(marked_tokens(offsets, of_side) for of_side in spans)]
        yield [marks[0 if side is None else side + 1][n] for n, side in enumerate(sides)]


def encode_pairs(task: Rows, tokenizer: PreTrainedTokenizerBase) -> DatasetDict:
    """Tokenize every split; each text is cut at the tokenizer's limit, and targets are `labels`."""
    options = truncation(tokenizer, None)

    def encode(batch: Mapping[str, list[str]]) -> BatchEncoding:
        names = [name for name in TEXT_COLUMNS if name in batch]
        texts = [cut_texts(tokenizer, [batch[name]])[0] for name in names]
        return tokenizer(texts[0], text_target=texts[1] if texts[1:] else None, **options)

    return _tokenized(task, encode)


def _tokenized(task: Rows, encode: Callable[..., BatchEncoding]) -> DatasetDict:
    """Encode every split, on disk if it is there; of the old columns keep only what is learnt."""
    splits = {}
    for name, split in task.splits.items():
        targets = [one for one in (PROBABILITIES, "label") if one in split.column_names]
        rows = split.rename_column(targets[0], "labels") if targets else split
        with writing_rows():
            splits[name] = rows.map(
                encode,
                batched=True,
                remove_columns=[column for column in rows.column_names if column != "labels"],
                # By default the cache would lie beside the user's own dataset files.
                cache_file_name=scratch_file() if rows.cache_files else None,
                load_from_cache_file=False,
                desc=f"Tokenizing {name}",
            )
    return DatasetDict(splits)
