"""Pairs of texts without labels, read, checked and tokenized."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from datasets import Dataset, DatasetDict, interleave_datasets
from transformers import BatchEncoding, PreTrainedTokenizerBase

from .arguments import MAX_SAMPLES, DataArguments, flag
from .files import read_splits
from .raw import RawSplit
from .task import TaskData, tokenized, truncation

TRANSLATION = "translation"
COLUMNS = ("text", "text_pair")  # source and target


@dataclass
class PairArguments(DataArguments):
    """Which pairs to train on, to evaluate on and to translate."""

    text_column_names: list[str] | None = field(
        default_factory=lambda: ["source,target"],
        metadata={"help": 'The columns of source and target: "en,fr".'},
    )
    max_train_words: int | None = flag(
        "Train only on pairs in which neither side has more words, counted between spaces."
    )
    both_directions: bool = flag(
        "Train on each pair twice, the second time with source and target exchanged.", False
    )
    # Flags of the tasks with labels.
    label_column_name: str | None = field(default="", init=False)
    problem_type: str | None = field(default=None, init=False)
    label_names: list[str] | None = field(default=None, init=False)
    drop_unlabelled: bool = field(default=False, init=False)
    validation_fraction: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Check what is given, as for every task."""
        super().__post_init__()
        if len(names := self.text_column_names or ()) != 2:
            raise ValueError(
                f"--text_column_names is {','.join(names)}; name two columns, such as en,fr"
            )
        if self.max_train_words is not None and self.max_train_words < 1:
            raise ValueError(f"--max_train_words is {self.max_train_words}; it must be 1 or more")


def load_pairs(arguments: PairArguments, problem_type: str = TRANSLATION) -> TaskData:
    """Load the splits of a task without labels, with the columns `text` and `text_pair`.

    A test split may come without the second.

    Raises:
        ValueError: If a file breaks its format, a column is missing, or a text is missing or blank.
    """
    splits, sources = {}, {}
    columns, raw = read_splits(arguments)
    for split in raw:
        rows = _checked(split, columns.texts)
        if split.name == "train":
            rows = _short_enough(rows, arguments.max_train_words)
            if arguments.both_directions:
                rows = _and_exchanged(rows)
            if arguments.shuffle_seed is not None:
                rows = rows.shuffle(seed=arguments.shuffle_seed, keep_in_memory=True)
        most = getattr(arguments, MAX_SAMPLES[split.name])
        splits[split.name] = rows if most is None else rows.select(range(min(most, len(rows))))
        if not len(splits[split.name]):
            raise ValueError(f"{split.title} has no rows left; add some, or leave it out")
        sources[split.name] = {**split.source, "rows": len(splits[split.name])}
    return TaskData(DatasetDict(splits), problem_type, (), sources, columns.texts, ())


def encode_pairs(task: TaskData, tokenizer: PreTrainedTokenizerBase) -> DatasetDict:
    """Tokenize every split; rows keep their order, and targets are `labels`.

    Each text is cut at the tokenizer's own limit.
    """
    options = truncation(tokenizer, None)

    def encode(batch: Mapping[str, list[str]]) -> BatchEncoding:
        return tokenizer(batch["text"], text_target=batch.get("text_pair"), **options)

    return tokenized(task.splits, encode)


def _short_enough(rows: Dataset, limit: int | None) -> Dataset:
    """Return the pairs of which neither side has more words."""
    if limit is None:
        return rows
    return rows.filter(lambda row: all(len(row[column].split()) <= limit for column in COLUMNS))


def _and_exchanged(rows: Dataset) -> Dataset:
    """Return each pair and, after it, the pair with its sides exchanged."""
    exchanged = rows.rename_columns(dict(zip(COLUMNS, reversed(COLUMNS), strict=True)))
    return interleave_datasets([rows, exchanged.select_columns(list(COLUMNS))])


def _checked(split: RawSplit, names: Sequence[str]) -> Dataset:
    """Return the texts of a split under their standard names, each checked."""
    columns = {}
    for column, name in zip(COLUMNS, names, strict=True):
        if name in split.column_names:
            columns[name] = column
        elif split.name != "test" or column == "text":
            raise split.missing_column(name, "--text_column_names")
    return split.named_texts(columns)
