"""The columns of a source that hold texts, labels and marks: by flag, else by their usual names."""

import json
import logging
import reprlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow.compute as pc
from datasets import Dataset

from ..utils.errors import refusal
from ..utils.text import one_line
from .arguments import DataArguments, SourceArguments
from .table import holds_texts, usual_form

logger = logging.getLogger(__name__)

FLAGS = "--text_column_names and --label_column_name"
ROWS_NAME = "training_rows.json"  # in the folder of a run: where its training rows come from
SAMPLE = 1000  # rows whose lengths tell a text from a label

PAIRS = [
    pair.split()
    for pair in (
        "premise hypothesis",
        "sentence1 sentence2",
        "sentence_1 sentence_2",
        "sentence_a sentence_b",
        "question1 question2",
        "question answer",
        "query document",
        "text1 text2",
        "text_1 text_2",
        "text_a text_b",
        "text text_pair",
    )
]
# Groups of usual names. A later group counts only if no column has a name of an earlier group. One
# column of a group is taken; if two fit, the user chooses.
TEXTS = [
    group.split()
    for group in (
        "text texts texte texto 文本 텍스트 テキスト",
        "sentence review content comment body message tweet document question utterance post "
        "article review_text review_body reviewtext comment_text tweet_text full_text "
        "satz kommentar rezension nachricht inhalt beitrag phrase commentaire avis contenu "
        "frase comentario reseña mensaje "
        "评论 内容 句子 正文 리뷰 문장 댓글 내용 レビュー 本文 文章",
        "description summary beschreibung descripción",
        "title headline subject titel titre título",
    )
]
LABELS = [
    group.split()
    for group in (
        "label labels etikett étiquette etiqueta 标签 라벨 레이블 ラベル",
        "class category target sentiment stars rating score emotion emotions intent topic "
        "gold_label star_rating polarity klasse kategorie bewertung sterne stimmung thema "
        "classe catégorie étoiles clase categoría calificación tema "
        "类别 分类 情感 评分 분류 감정 평점 カテゴリ 分類 感情 評価",
    )
]

# The names of marks on the texts, and of those on what is no reason.
SPAN_COLUMNS = ("spans", "spans_pair")
AGAINST_COLUMNS = ("spans_against", "spans_against_pair")
# The columns of marks in a file, by what they are called here.
MARKS = {
    "spans": "rationale",
    "spans_pair": "rationale_pair",
    "spans_against": "rationale_against",
    "spans_against_pair": "rationale_against_pair",
}

_Arguments = TypeVar("_Arguments", bound=SourceArguments)


class Columns(NamedTuple):
    """The columns of a task, by the names of the first split."""

    texts: tuple[str, ...]  # one, or two for pairs; "title+body" joins two columns into one text
    labels: tuple[str, ...]  # one; several of numbers, each a label; none where rows have no label


def find_columns(
    title: str, rows: Dataset, arguments: SourceArguments, *, labelled: bool
) -> Columns:
    """Return the columns that the flags name, or find them in the rows of a source.

    A column that no flag names is found by its usual name, in any case of letters. Of two columns
    that are not, the one with the longer texts is the text, and a single one is what is missing;
    of a task without labels, both are the texts. `labelled`: the rows must have labels, or both
    texts. ValueError lists the columns, with an example of each, and the flags.
    """
    given = _given_columns(arguments, rows.column_names)
    if isinstance(arguments, DataArguments):
        finds_labels = arguments.label_column_name is None
        found = _with_labels(title, rows, given, finds_labels, labelled)
    else:
        found = Columns(given.texts or _texts_alone(title, rows, labelled), ())
    _doubt_names(title, rows, found.texts + found.labels)
    return found


def _with_labels(
    title: str, rows: Dataset, given: Columns, finds_labels: bool, labelled: bool
) -> Columns:
    """Return the columns of texts and labels of rows, of which some are given."""
    sample = _sample(rows)
    taken = (*parted(given.texts, "+", rows.column_names), *given.labels)
    free = [name for name in sample if name not in taken]
    labels = _usual(free, LABELS) if finds_labels else given.labels
    free = [name for name in free if name not in labels]
    only = tuple(free[:1]) if len(free) == 1 or len(sample) == 2 else ()
    texts = given.texts or _usual_texts(free) or only
    free = [name for name in free if name not in texts]
    if finds_labels and labelled and not labels and len(free) == 1:
        labels = tuple(free)
    is_pair = [*map(usual_form, texts)] in PAIRS
    has_labels = len(labels) == 1 or not (labels or labelled)
    if (len(texts) == 1 or is_pair or given.texts) and (has_labels or not finds_labels):
        return Columns(texts, labels)
    text, label = [*texts, *free, *sample, "NAME"][0], [*labels, *free[::-1], "NAME"][0]
    raise _unclear(title, sample, (text,), label)


def _texts_alone(title: str, rows: Dataset, both: bool) -> tuple[str, ...]:
    """Return the texts of a task without labels: by their usual names, else all columns."""
    names = rows.column_names
    for texts in (_usual_texts(names), tuple(names)):
        if both < len(texts) <= 2:
            return texts
    raise _unclear(title, _sample(rows), names[:2])


def _given_columns(arguments: SourceArguments, names: Sequence[str]) -> Columns:
    """Return the columns that flags name; ValueError for a name twice, or too many texts."""
    asked = getattr(arguments, "label_column_name", None)
    labels = tuple(parted([asked] if asked else (), ",", names))
    texts = parted(arguments.text_column_names or (), ",", names)
    texts = ["+".join(parted([text], "+", names)) for text in texts]
    by_flag = [*labels, *parted(texts, "+", names)]
    if len({*by_flag}) < len(by_flag) or (texts and len(texts) not in arguments.numbers_of_texts):
        raise refusal(
            f"--text_column_names is {texts}, --label_column_name {[*labels]}",
            "name one column of texts, or two for pairs, such as en,fr, and each column once",
        )
    return Columns(tuple(texts), labels)


def parted(words: Iterable[str], sign: str, names: Sequence[str]) -> list[str]:
    """Return the columns that words name, parted by a sign, as a source of `names` writes them.

    The letters may have another case. A column with the sign in its name is one.
    """
    forms = [*map(usual_form, names)]
    parts = ([word] if usual_form(word) in forms else word.split(sign) for word in words)
    own = []
    for name in chain.from_iterable(parts):
        is_respelt = name not in names and forms.count(usual_form(name)) == 1
        own.append(names[forms.index(usual_form(name))] if is_respelt else name)
    return own


def _usual_texts(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns with usual names of texts: a pair, or those of the first group."""
    pairs = (_usual(names, [[first]]) + _usual(names, [[second]]) for first, second in PAIRS)
    return next((pair for pair in pairs if len(pair) == 2), _usual(names, TEXTS))


def _usual(names: Sequence[str], groups: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the columns with a name of the first group that any column has one of."""
    for group in groups:
        if found := [name for form in group for name in names if usual_form(name) == form]:
            return tuple(found)
    return ()


def _sample(rows: Dataset) -> dict[str, list[Any]]:
    """Return the first cells of the columns that hold any, but marks; the longest texts first."""
    filled = {
        name: cells
        for name, cells in rows.with_format("arrow")[:SAMPLE].to_pydict().items()
        if usual_form(name) not in MARKS.values() and {*map(str, cells)} - {"None", ""}
    }
    return dict(sorted(filled.items(), key=lambda column: -_mean_length(column[1])))


def _mean_length(cells: Sequence[object]) -> float:
    """Return the mean number of characters of the texts of a column, 0 without texts."""
    lengths = [len(cell) for cell in cells if isinstance(cell, str)]
    return sum(lengths) / max(len(lengths), 1)


def _unclear(
    title: str, sample: Mapping[str, list[Any]], texts: Sequence[str], label: str | None = None
) -> Exception:
    """Return the error of a source whose columns are not clear; its flags name likely ones."""
    cells = {
        name: next(cell for cell in column if cell not in (None, ""))
        for name, column in sample.items()
    }
    listed = ", ".join(f"{name!r} (such as {reprlib.repr(cell)})" for name, cell in cells.items())
    flags = f"--text_column_names {shlex.quote(','.join(texts))}"
    if label is not None:
        flags += f" --label_column_name {shlex.quote(label)}"
    what = f"{title}: it is not clear which columns are the texts or the labels. It has {listed}"
    return refusal(what, f"name them, such as {flags}")


def _doubt_names(title: str, rows: Dataset, names: Sequence[str]) -> None:
    """Warn where the name of a column is also one of its cells: a row in the line of names."""
    for name in names:
        if holds_texts(rows, name) and pc.index(rows.data[name], name).as_py() >= 0:
            note = f"{title}: the column {name!r} holds its own name as a cell"
            logger.warning(one_line(f"{note}; a line of names stands twice, or is a row"))


# ---- the columns of a training -------------------------------------------------------------------


def with_trained_columns(
    arguments: _Arguments, record: Mapping[str, Any], names: Sequence[str]
) -> _Arguments:
    """Return arguments that name the columns of a training, if no flag names others.

    The `record` is that of `training_rows_of`. What is not among the `names` of the columns of a
    source stays unnamed.
    """
    named: dict[str, Any] = {}
    for flag in ("text_column_names", "label_column_name"):
        columns = record.get(flag) or [""]
        is_asked = getattr(arguments, flag, "") is not None
        if not is_asked and {*parted(columns[:1], "+", names)} <= {*names}:
            texts = columns[: max(arguments.numbers_of_texts)]
            named[flag] = texts if flag == "text_column_names" else ",".join(columns)
    return replace(arguments, **named)


def training_rows_of(checkpoint: str | Path | None) -> dict[str, Any]:
    """Return the record of the rows that a checkpoint was trained on; empty if there is none.

    The `checkpoint` is the folder of a run, or one in it.
    """
    if checkpoint is None:
        return {}
    for folder in (Path(checkpoint), Path(checkpoint).absolute().parent):
        with suppress(FileNotFoundError, NotADirectoryError):
            record: dict[str, Any] = json.loads((folder / ROWS_NAME).read_text(encoding="utf-8"))
            return record
    return {}
