"""Find the columns of a source that hold texts, labels and marks, if no flag names them."""

import logging
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence

import regex

from ..utils.errors import refusal
from ..utils.text import one_line
from .arguments import RATIONALE, RATIONALE_AGAINST, DataArguments
from .labels import given_labels, is_number, truth_of
from .rows import NAMES_ABOVE, is_sheet
from .sources import Batch, Columns, usual_form

logger = logging.getLogger(__name__)

FLAGS = "--text_column_names and --label_column_name"
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
# Groups of usual names. A later group counts only if no column has a name of an earlier group. One
# column of a group is taken; if two fit, the user chooses.
TEXTS = (
    ("text", "texts"),
    (
        "sentence",
        "review",
        "content",
        "comment",
        "body",
        "message",
        "tweet",
        "document",
        "question",
        "utterance",
        "post",
        "article",
        "review_text",
        "review_body",
        "reviewtext",
        "comment_text",
        "tweet_text",
        "full_text",
    ),
    ("description", "summary"),
    ("title", "headline", "subject"),
)
LABELS = (
    ("label", "labels"),
    (
        "class",
        "category",
        "target",
        "sentiment",
        "stars",
        "rating",
        "score",
        "emotion",
        "emotions",
        "intent",
        "topic",
        "gold_label",
        "star_rating",
        "polarity",
    ),
)

TRUTHS = "0 or 1"
TEXT = "texts"
LISTS = "lists"
OTHER = "other values"
# The kind of a column is the first entry that accepts all of its values.
KINDS: dict[str, Callable[[object], bool]] = {
    TRUTHS: lambda value: truth_of(value) is not None,
    "numbers": is_number,
    TEXT: lambda value: isinstance(value, str),
    LISTS: lambda value: isinstance(value, list),
    OTHER: lambda value: True,
}

# The names of marks on the texts, and of those on what is no reason.
SPAN_COLUMNS = ("spans", "spans_pair")
AGAINST_COLUMNS = ("spans_against", "spans_against_pair")
# The flags of their columns, and the defaults of these.
MARKS = (
    ("rationale_column_name", RATIONALE, SPAN_COLUMNS),
    ("rationale_against_column_name", RATIONALE_AGAINST, AGAINST_COLUMNS),
)

# A name with more is rather a text.
LONG_NAME = 80  # characters
MANY_WORDS = 4

# Letters of scripts that put no blanks between words, and how many of them are some word.
_UNSPACED = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
)
CHARACTERS_A_WORD = 2

Names = Mapping[str, str]  # a name in lower case, with _ for each space -> the name
Choices = list[tuple[str, ...]]  # the columns that could be the texts, or the labels


def find_columns(
    title: str, sample: Batch, arguments: DataArguments, *, labelled: bool, against: bool = False
) -> Columns:
    """Return the columns that the flags name, or find them in a sample of the rows of a source.

    A column that no flag names is found by its usual name, in any case of letters; else it is the
    only column whose values fit: texts are long and vary, labels are few and repeat. Two text
    columns are found by the usual names of pairs only. One of several columns of 0 and 1 is the
    label only if its name is "label" or "labels". `labelled`: the rows must have labels, so these
    are also found by their values. Columns of marks are found by name only. `against`: also look
    for marks against the label. ValueError lists the columns and what they hold.
    """
    asked_texts = arguments.asked_text_columns(sample)
    asked_labels = _split_names(arguments.label_column_name, sample)
    has_label_flag = arguments.label_column_name is not None
    if not any(sample.values()):  # refused where the rows are read
        return Columns(asked_texts, asked_labels)
    names = _by_usual_form(sample)
    marks = _find_marks(names, arguments, against, (*asked_texts, *asked_labels))
    columns = {name: _Column(sample[name]) for name in sample if name not in marks.values()}
    names = {form: name for form, name in names.items() if name in columns}
    texts = [asked_texts]
    labels = [asked_labels]
    likely_labels = list(asked_labels) if has_label_flag else _usual(names, LABELS, asked_texts)
    if not asked_texts:
        texts = _find_texts(names, columns, likely_labels)
    if not has_label_flag:
        labels = _find_labels(columns, likely_labels, _names_in(texts), labelled)
    if len(texts) != 1 or len(labels) != 1:
        raise _unclear(title, columns, texts, labels)
    chosen = Columns(texts[0], labels[0], marks)
    if not asked_texts:
        _name_unread_texts(chosen, columns)
    by_flag = {*asked_texts, *asked_labels}
    _doubt_header(title, columns, (*chosen.texts, *chosen.labels), by_flag)
    return chosen


def _split_names(flag: str | None, sample: Batch) -> tuple[str, ...]:
    """Return the columns that --label_column_name names: one, or several between commas."""
    if not flag:
        return ()
    if flag in sample:
        return (flag,)
    return tuple(name.strip() for name in flag.split(","))


def finds_labels_by_values(sample: Batch, arguments: DataArguments) -> bool:
    """Return whether neither a flag nor a usual name says which column holds the labels.

    The first rows do not say it either where a file is sorted by label: they all have one label.
    """
    taken = arguments.asked_text_columns(sample)
    is_named = arguments.label_column_name is not None
    return not is_named and not _usual(_by_usual_form(sample), LABELS, taken)


def _find_marks(
    names: Names, arguments: DataArguments, against: bool, others: Collection[str]
) -> dict[str, str]:
    """Return the columns of marks by kind; ValueError if a flag names one of the `others`."""
    spans = arguments.rationale_column_name
    if against:
        wanted = {"spans": spans, "against": "against"}
        return _marks_apart(names, wanted, "rationale_column_name", spans, others)
    marks: dict[str, str] = {}
    for flag, default, kinds in MARKS:
        name = getattr(arguments, flag)
        if name:
            first, second = kinds
            wanted = {first: name, second: f"{name}_pair"}
            asked = None if name == default else name
            marks |= _marks_apart(names, wanted, flag, asked, others)
    if len({*marks.values()}) < len(marks):
        raise refusal(
            f"--rationale_column_name and --rationale_against_column_name are both {spans}",
            "give one of them another column",
        )
    return marks


def _marks_apart(
    names: Names, wanted: Mapping[str, str], flag: str, asked: str | None, others: Collection[str]
) -> dict[str, str]:
    """Return columns of marks by kind, none if one is among the `others`.

    ValueError if the flag, by which they are `asked` for, names one of these.
    """
    marks = {kind: names.get(name, name) for kind, name in wanted.items()}
    if {*marks.values()}.isdisjoint(others):
        return marks
    if asked is not None:
        raise ValueError(f"--{flag} is {asked}, which holds texts or labels")
    return {}


def _name_unread_texts(chosen: Columns, columns: Mapping[str, "_Column"]) -> None:
    """Warn of columns that could be texts and are not read."""
    taken = {*chosen.texts, *chosen.labels}
    texts = [name for name, column in columns.items() if column.can_be_text]
    unread = " and ".join(repr(name) for name in texts if name not in taken)
    read = " and ".join(map(repr, chosen.texts))
    if not unread:
        return
    if len(chosen.texts) == 2:
        note = f"columns {read} are read as the texts, not {unread}"
        advice = "--text_column_names FIRST,SECOND reads others"
    else:
        note = f"column {read} is read as the text, not {unread}"
        advice = "--text_column_names NAME reads others"
    logger.warning(one_line(f"{note}; {advice}"))


def find_pair(title: str, sample: Batch, least: int) -> tuple[str, ...]:
    """Return the two columns of a pair of texts; with `least` 1, one column is enough.

    They are found by usual names, or they are the only texts. ValueError lists the columns.
    """
    columns = {name: _Column(values) for name, values in sample.items()}
    names = _by_usual_form(sample)
    texts = _names_in(_find_texts(names, columns, ()))
    if len(texts) != 2:
        texts = [name for name, column in columns.items() if column.can_be_text]
    if sample and not least <= len(texts) <= 2:
        raise _refusal(
            title, "two columns hold the texts", columns, "--text_column_names FIRST,SECOND"
        )
    _doubt_header(title, columns, texts)
    return tuple(texts)


def find_text(title: str, sample: Batch) -> str:
    """Return the column of single texts, by its usual name, or the only texts.

    ValueError lists the columns.
    """
    columns = {name: _Column(values) for name, values in sample.items()}
    texts = _usual(_by_usual_form(sample), TEXTS, ())
    if not texts and len(columns) == 1:
        texts = list(columns)
    elif not texts:
        texts = [name for name, column in columns.items() if column.can_be_text]
    if len(texts) != 1:
        raise _refusal(title, "column holds the texts", columns, f"the name {TEXTS[0][0]!r} for it")
    _doubt_header(title, columns, texts)
    return texts[0]


def _doubt_header(
    title: str,
    columns: Mapping[str, "_Column"],
    names: Collection[str],
    by_flag: Collection[str] = (),
) -> None:
    """Warn where names in the header line of a CSV file, unless by flag, are like the values."""
    odd = []
    for name in names:
        if name not in by_flag and columns[name].could_hold(name):
            odd.append(reprlib.repr(name))
    if odd and is_sheet(title):
        note = f"the header line names {', '.join(odd)}, like the values of a row"
        logger.warning(one_line(f"{note}; if it is a row, {NAMES_ABOVE}"))


def _by_usual_form(sample: Batch) -> dict[str, str]:
    """Return the names of columns by their form in lower case; the first of equal ones counts."""
    return {usual_form(name): name for name in reversed(list(sample))}


def _names_in(choices: Choices) -> list[str]:
    return [name for names in choices for name in names]


def _find_texts(names: Names, columns: Mapping[str, "_Column"], labels: Sequence[str]) -> Choices:
    """Return the columns that could be the texts, each alone or the one pair."""
    for pair in PAIRS:
        present = _present(names, pair, labels)
        if len(present) == 2:
            return [tuple(present)]
    texts = _usual(names, TEXTS, labels)
    if not texts:
        for name, column in columns.items():
            if column.can_be_text and name not in labels:
                texts.append(name)
    return [(name,) for name in texts]


def _find_labels(
    columns: Mapping[str, "_Column"],
    usual: list[str],
    texts: Sequence[str],
    labelled: bool,
) -> Choices:
    """Return the columns that could be the labels, or none if the rows need not be labelled."""
    if not labelled:
        return [(name,) for name in usual] or [()]
    others = {name: column for name, column in columns.items() if name not in texts}
    labels = usual
    if not labels:
        labels = [name for name, column in others.items() if column.can_be_label]
    is_alone = len(labels) == 1 and usual_form(labels[0]) not in LABELS[0]  # "label", "labels"
    if is_alone and others[labels[0]].kind == TRUTHS:
        # One column of 0 and 1 among several, some of them perhaps constant, is one label of many.
        labels = [name for name, column in others.items() if column.kind == TRUTHS]
    return [(name,) for name in labels]


def _unclear(
    title: str, columns: Mapping[str, "_Column"], texts: Choices, labels: Choices
) -> ValueError:
    """Return the error of a source with several columns, or none, for its texts or labels."""
    unclear = []
    for what, choices in (("the texts", texts), ("the labels", labels)):
        names = " or ".join(map(repr, _names_in(choices)))
        if len(choices) != 1:
            unclear.append(f"{what} ({names})" if names else what)
    advice = FLAGS
    label_names = _names_in(labels)
    if len(labels) > 1 and all(columns[name].kind == TRUTHS for name in label_names):
        advice += f"; if each of these is a label, --label_column_name {','.join(label_names)}"
    return _refusal(title, f"column holds {' and which '.join(unclear)}", columns, advice)


def _refusal(title: str, unclear: str, columns: Mapping[str, "_Column"], advice: str) -> ValueError:
    contents = ", ".join(f"{name!r} ({column})" for name, column in columns.items())
    if is_sheet(title):
        advice += f"; if its first line is a row, {NAMES_ABOVE}"
    return ValueError(
        f"{title}: it is not clear which {unclear}. It has {contents}. Choose with {advice}"
    )


def _usual(names: Names, groups: Sequence[Sequence[str]], taken: Sequence[str]) -> list[str]:
    """Return the free columns with a name of the first group that has any."""
    for group in groups:
        present = _present(names, group, taken)
        if present:
            return present
    return []


def _present(names: Names, forms: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return the free columns that have one of these names."""
    return [names[form] for form in forms if form in names and names[form] not in taken]


def _num_words(text: str) -> int:
    """Return the number of words, estimated where a script has no blanks between them."""
    num_unspaced = len(_UNSPACED.findall(text))
    return len(text.split()) + num_unspaced // CHARACTERS_A_WORD


def _kind_of(values: Sequence[object]) -> str:
    """Return the first of `KINDS` that accepts all values; there is none of no values."""
    for kind, fits in KINDS.items():
        if values and all(map(fits, values)):
            return kind
    return OTHER


class _Column:
    """The kind of the first values of a column, and whether they can be texts or labels."""

    def __init__(self, values: Sequence[object]) -> None:
        given = given_labels(values)
        self.example = given[0] if given else None
        self.kind = _kind_of(given)
        items = given
        num_words = 0
        if self.kind == LISTS:
            items = [item for row in given if isinstance(row, list) for item in row]
        elif self.kind == TEXT:
            num_words = sum(_num_words(str(text)) for text in given)
        self.distinct = len(set(map(repr, items)))
        self.values = {str(value).strip().lower() for value in items}
        has_sentences = num_words >= 3 * len(items) > 0
        self.can_be_text = has_sentences and 2 * self.distinct > len(items)
        is_of_labels = self.kind != OTHER and not self.can_be_text
        self.can_be_label = is_of_labels and 2 <= self.distinct <= len(items) // 2 + 1

    def could_hold(self, name: str) -> bool:
        """Return whether a name is like a value: a number, a long text, or one of the values."""
        is_text = len(name) > LONG_NAME or _num_words(name) > MANY_WORDS
        return is_text or is_number(name) or name.strip().lower() in self.values

    def __str__(self) -> str:
        if self.example is None:
            return "empty"
        return f"{self.kind} such as {reprlib.repr(self.example)}, {self.distinct} distinct"
