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
    if not isinstance(arguments, DataArguments):
        least, most = min(arguments.numbers_of_texts), max(arguments.numbers_of_texts)
        return Columns(given.texts or _texts_alone(title, rows, least if labelled else 1, most), ())
    finds_labels = arguments.label_column_name is None
    sample = _sample(rows)
    taken = _parts(given.texts, rows.column_names)
    free = [name for name in sample if name not in (*taken, *given.labels)]
    labels = _usual(free, LABELS) if finds_labels else given.labels
    free = [name for name in free if name not in labels]
    takes_longest = len(free) == 1 or len(sample) == 2
    texts = given.texts or _usual_texts(free) or tuple(free[:1] if takes_longest else ())
    free = [name for name in free if name not in texts]
    if finds_labels and labelled and not labels and len(free) == 1:
        labels = tuple(free)
    found = Columns(texts, labels)
    is_unlabelled = not (labelled or labels)
    if not (_are_clear(found, given) and (not finds_labels or is_unlabelled or len(labels) == 1)):
        text, label = [*texts, *free, *sample, "NAME"][0], [*labels, *free[::-1], "NAME"][0]
        raise _unclear(title, sample, (text,), label)
    _doubt_names(title, rows, texts + labels)
    return found


def _given_columns(arguments: SourceArguments, names: Sequence[str]) -> Columns:
    """Return the columns that flags name; ValueError for a name twice, or too many texts."""
    asked = getattr(arguments, "label_column_name", None)
    labels = tuple(own_name(name, names) for name in _named([asked] if asked else (), names))
    asked_texts = _named(arguments.text_column_names or (), names)
    texts = tuple("+".join(joined_columns(name, names)) for name in asked_texts)
    by_flag = [*labels, *_parts(texts, names)]
    if len({*by_flag}) < len(by_flag) or (texts and len(texts) not in arguments.numbers_of_texts):
        raise refusal(
            f"--text_column_names is {[*texts]}, --label_column_name {[*labels]}",
            "name one column of texts, or two for pairs, such as en,fr, and each column once",
        )
    return Columns(texts, labels)


def _parts(texts: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the columns of texts, of which some may be joined by +."""
    return [part for text in texts for part in joined_columns(text, names)]


def _are_clear(found: Columns, given: Columns) -> bool:
    """Return whether the texts that were found are one, a usual pair, or given."""
    is_pair = [*map(usual_form, found.texts)] in PAIRS
    return len(found.texts) == 1 or is_pair or found.texts == given.texts != ()


def _texts_alone(title: str, rows: Dataset, least: int, most: int) -> tuple[str, ...]:
    """Return the texts of a task without labels: by their usual names, else all columns."""
    texts = _usual_texts(rows.column_names)
    if not least <= len(texts) <= most:
        texts = tuple(rows.column_names)
    if not least <= len(texts) <= most:
        raise _unclear(title, _sample(rows), texts[:most])
    _doubt_names(title, rows, texts)
    return texts


def _usual_texts(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns with usual names of texts: a pair, or those of the first group."""
    pairs = (_usual(names, [[first]]) + _usual(names, [[second]]) for first, second in PAIRS)
    return next((pair for pair in pairs if len(pair) == 2), _usual(names, TEXTS))


def _usual(names: Sequence[str], groups: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the columns with a name of the first group that any column has one of."""
    of_groups = ([name for form in group for name in _alike(form, names)] for group in groups)
    return tuple(next(filter(None, of_groups), ()))


def _alike(name: str, names: Sequence[str]) -> list[str]:
    """Return the column of this name, or else those of this name in another case."""
    if name in names:
        return [name]
    return [other for other in names if usual_form(other) == usual_form(name)]


def own_name(name: str, names: Sequence[str]) -> str:
    """Return a name as a source writes it; as it is where the source has none alike, or several."""
    alike = _alike(name, names)
    return alike[0] if len(alike) == 1 else name.strip()


def _named(words: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the columns that the words of a flag name, parted by commas."""
    parted = ([word] if _alike(word, names) else word.split(",") for word in words)
    return list(chain.from_iterable(parted))


def joined_columns(text: str, names: Sequence[str]) -> list[str]:
    """Return the columns that the name of a text means, as a source writes them, parted by +."""
    parts = [text] if _alike(text, names) else text.split("+")
    return [own_name(part, names) for part in parts]


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
        if not is_asked and {*joined_columns(columns[0], names)} <= {*names}:
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
