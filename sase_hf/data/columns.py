"""Which columns of a source hold the texts and the labels, where no flag names them."""

import reprlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .arguments import DataArguments
from .labels import given_labels, is_number, truth_of

SAMPLE_ROWS = 1000  # the first rows, by whose values a column is judged

PAIRS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("question1", "question2"),
    ("question", "answer"),
    ("query", "document"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("text_a", "text_b"),
    ("text", "text_pair"),
)
# Groups of usual names: one of a group is taken, two of it leave the choice to the user, and a
# later group counts where the file has no name of the earlier ones.
TEXTS = (
    ("text", "texts"),
    (
        *("sentence", "review", "content", "comment", "body", "message", "tweet", "document"),
        *("question", "utterance", "post", "article", "review_text", "review_body"),
        *("reviewtext", "comment_text", "tweet_text", "full_text"),
    ),
    ("title", "headline", "subject", "summary"),
)
LABELS = (
    ("label", "labels"),
    (
        *("class", "category", "target", "sentiment", "stars", "rating", "score", "emotion"),
        *("emotions", "intent", "topic", "gold_label", "star_rating", "polarity"),
    ),
)

TRUTHS, TEXT, LISTS, OTHER = "0 or 1", "texts", "lists", "other values"


class Columns(NamedTuple):
    """The columns of a task."""

    texts: tuple[str, ...]  # one, or two for pairs
    labels: tuple[str, ...]  # one; several of 0 and 1, each a label; none where rows have no label

    @property
    def label(self) -> str:
        """The name of the labels, which come from several columns as from one."""
        return ",".join(self.labels)

    def within(self, names: Container[str]) -> "Columns":
        """Return those that are among some names."""
        return Columns(*(tuple(name for name in part if name in names) for part in self))


def find_columns(
    title: str, sample: Mapping[str, Sequence[Any]], arguments: DataArguments, *, labelled: bool
) -> Columns:
    """Return the columns that the flags name, or find them.

    What no flag names is found by its usual name, in any case of letters; else it is the only
    column whose values can be it: texts are long and vary, labels are few and repeat. Two text
    columns are found by the usual names of pairs only. One of several columns of 0 and 1 is the
    label only if it is called so.

    Args:
        title: The source, for errors.
        sample: Its first rows, the values of each column.
        arguments: Their `text_column_names` and `label_column_name` may be None.
        labelled: Whether the rows must have labels. If not, labels are found by name only.

    Raises:
        ValueError: If what no flag names is not found; lists the columns and what they hold.
    """
    names = {name.strip().lower().replace(" ", "_"): name for name in reversed(list(sample))}
    columns = {name: _Column(values) for name, values in sample.items()}
    texts, label = arguments.text_column_names, arguments.label_column_name
    labels = _named(label, sample)
    if not any(sample.values()):  # refused where the rows are read
        return Columns(tuple(texts or ()), tuple(labels))
    if label is None:
        labels = _usual(names, LABELS, texts or ())
    has_texts = texts is not None
    if texts is None:
        pair = next((pair for pair in PAIRS if names.keys() >= set(pair)), ())
        texts, has_texts = [names[name] for name in pair], bool(pair)
    if not texts:
        texts = _usual(names, TEXTS, labels)
        texts = texts or [n for n, c in columns.items() if c.can_be_text and n not in labels]
    if label is None and labelled and not labels:
        labels = [n for n, c in columns.items() if c.can_be_label and n not in texts]
    plain = [names[name] for name in LABELS[0] if name in names]
    if label is None and labelled and len(labels) == 1 and labels[0] not in plain:
        # One column of 0 and 1 among several, some of them perhaps constant, is one label of many.
        truths = [n for n, c in columns.items() if c.kind == TRUTHS and n not in texts]
        labels = truths if labels[0] in truths else labels
    has_texts = has_texts or len(texts) == 1
    has_labels = label is not None or len(labels) == 1 or not (labels or labelled)
    if has_texts and has_labels:
        return Columns(tuple(texts), tuple(labels))
    missing = [
        f"the {what}" + (f" ({' or '.join(map(repr, could_be))})" if could_be else "")
        for what, is_known, could_be in (
            ("texts", has_texts, texts),
            ("labels", has_labels, labels),
        )
        if not is_known
    ]
    advice = "--text_column_names and --label_column_name"
    if not has_labels and labels and all(columns[name].kind == TRUTHS for name in labels):
        advice += f"; if each of these is a label, --label_column_name {','.join(labels)}"
    raise ValueError(
        f"{title}: it is not clear which column holds {' and which '.join(missing)}. It has "
        f"{', '.join(f'{name!r} ({column})' for name, column in columns.items())}. Choose with "
        f"{advice}"
    )


class _Column:
    """What the first values of a column are like."""

    def __init__(self, values: Sequence[Any]) -> None:
        given = given_labels(values, None)
        self.example = given[0] if given else None
        self.kind = _kind_of(given)
        if self.kind == LISTS:
            given = [item for row in given for item in row]
        self.distinct = len(set(map(repr, given)))
        words = sum(len(text.split()) for text in given) if self.kind == TEXT else 0
        self.can_be_text = words >= 3 * len(given) > 0 and 2 * self.distinct > len(given)
        is_of_labels = self.kind != OTHER and not self.can_be_text
        self.can_be_label = is_of_labels and 2 <= self.distinct <= len(given) // 2 + 1

    def __str__(self) -> str:
        if self.example is None:
            return "empty"
        return f"{self.kind} such as {reprlib.repr(self.example)}, {self.distinct} distinct"


def _kind_of(values: Sequence[Any]) -> str:
    if not values:
        return OTHER
    if all(truth_of(value) is not None for value in values):
        return TRUTHS
    if all(map(is_number, values)):
        return "numbers"
    if all(isinstance(value, str) for value in values):
        return TEXT
    return LISTS if all(isinstance(value, list) for value in values) else OTHER


def _named(label: str | None, sample: Container[str]) -> list[str]:
    """Return the columns that a flag names: one, or several with commas between."""
    if not label:
        return []
    return [label] if label in sample else [name.strip() for name in label.split(",")]


def _usual(
    names: Mapping[str, str], groups: Iterable[Iterable[str]], taken: Container[str]
) -> list[str]:
    """Return the columns with a usual name of the first group of which there are any."""
    found = ([names[n] for n in group if n in names and names[n] not in taken] for group in groups)
    return next(filter(None, found), [])
