"""The columns of a source that hold texts, labels and marks: by flag, else by their usual names."""

import json
import logging
import reprlib
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from datasets import Dataset

from ..utils.errors import refusal
from ..utils.text import one_line
from .arguments import DataArguments, SourceArguments, columns_in
from .table import holds_texts, usual_form

logger = logging.getLogger(__name__)

FLAGS = "--text_column_names and --label_column_name"
ROWS_NAME = "training_rows.json"  # in the folder of a run: where its training rows come from
SAMPLE = 1000  # rows whose lengths tell a text from a label

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
    ("text", "texts", "texte", "texto", "文本", "텍스트", "テキスト"),
    (
        *("sentence", "review", "content", "comment", "body", "message", "tweet", "document"),
        *("question", "utterance", "post", "article", "review_text", "review_body", "reviewtext"),
        *("comment_text", "tweet_text", "full_text"),
        *("satz", "kommentar", "rezension", "nachricht", "inhalt", "beitrag"),
        *("phrase", "commentaire", "avis", "contenu", "frase", "comentario", "reseña", "mensaje"),
        *(
            "评论",
            "内容",
            "句子",
            "正文",
            "리뷰",
            "문장",
            "댓글",
            "내용",
            "レビュー",
            "本文",
            "文章",
        ),
    ),
    ("description", "summary", "beschreibung", "descripción"),
    ("title", "headline", "subject", "titel", "titre", "título"),
)
LABELS = (
    ("label", "labels", "etikett", "étiquette", "etiqueta", "标签", "라벨", "레이블", "ラベル"),
    (
        *("class", "category", "target", "sentiment", "stars", "rating", "score", "emotion"),
        *("emotions", "intent", "topic", "gold_label", "star_rating", "polarity"),
        *("klasse", "kategorie", "bewertung", "sterne", "stimmung", "thema"),
        *("classe", "catégorie", "étoiles", "clase", "categoría", "calificación", "tema"),
        *(
            "类别",
            "分类",
            "情感",
            "评分",
            "분류",
            "감정",
            "평점",
            "カテゴリ",
            "分類",
            "感情",
            "評価",
        ),
    ),
)

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
MEASURED_MARKS = {"spans": "rationale", "against": "against"}  # in a file that measures

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
    that are not, the one with the longer texts is the text, and a single one is what is missing.
    `labelled`: the rows must have labels, or both texts of a task without labels. ValueError lists
    the columns, with an example of each, and the flags.
    """
    names = rows.column_names
    texts = arguments.asked_text_columns(names)
    asked = getattr(arguments, "label_column_name", None)
    labels = tuple(columns_in(asked, names)) if asked else ()
    by_flag = _own_names([*_parts(texts, names), *labels], names)
    _check_flags(title, by_flag, names, labelled)
    if not isinstance(arguments, DataArguments):
        return Columns(texts or find_texts(title, rows, 2 if labelled else 1, 2), ())
    sample = _sample(rows, [name for name in names if usual_form(name) not in MARKS.values()])
    columns = [name for name, values in sample.items() if {*map(str, values)} - {"None", ""}]
    by_length = sorted(columns, key=lambda name: -_mean_length(sample[name]))
    if asked is None:
        labels = tuple(_usual(columns, LABELS, by_flag))
    if not texts:
        texts = _usual_texts(columns, labels)
    rest = [name for name in by_length if name not in (*by_flag, *texts, *labels)]
    if not texts and (len(rest) == 1 or len(columns) == 2):
        texts = tuple(rest[:1])
        rest = rest[1:]
    if asked is None and labelled and not labels and len(rest) == 1:
        labels = tuple(rest)
    are_clear = len(labels) == 1 or asked is not None or not (labelled or labels)
    if not texts or not _is_clear(texts, arguments) or not are_clear:
        raise _unclear(title, sample, texts or by_length or names, labels or by_length[::-1])
    _doubt_names(title, rows, (*texts, *labels))
    return Columns(texts, labels)


def _check_flags(title: str, asked: Sequence[str], names: Sequence[str], labelled: bool) -> None:
    """Raise ValueError for a column that flags name twice, or that a labelled source lacks."""
    for name in asked:
        if labelled and name not in names:
            listed = ", ".join(map(repr, names))
            raise refusal(f"{title} has no column {name!r}", f"it has {listed}; name another")
    if len({*asked}) < len(asked):
        raise refusal(f"{title}: the flags name a column twice, {asked}", "name each once")


def find_texts(title: str, rows: Dataset, least: int, most: int) -> tuple[str, ...]:
    """Return the columns of texts without labels, by their usual names, or all.

    ValueError for less than the `least` number of them, or more than the `most`.
    """
    names = rows.column_names
    texts = _usual_texts(names, ())
    if not least <= len(texts) <= most:
        texts = tuple(names)
    if not least <= len(texts) <= most:
        wanted = "the text" if most == 1 else "the two texts"
        raise refusal(
            f"{title}: it is not clear which columns hold {wanted}. It has "
            f"{_listed(_sample(rows, names))}",
            "name them, such as --text_column_names " + ",".join(names[:most]),
        )
    _doubt_names(title, rows, texts)
    return texts


def _usual_texts(names: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Return the free columns with usual names of texts: a pair, one, or several to choose from."""
    for pair in PAIRS:
        present = _usual(names, [pair], labels)
        if len(present) == 2:
            return tuple(present)
    return tuple(_usual(names, TEXTS, labels))


def _usual(
    names: Sequence[str], groups: Sequence[Sequence[str]], taken: Collection[str]
) -> list[str]:
    """Return the free columns with a name of the first group that has any."""
    free = [name for name in reversed(names) if name not in taken]
    by_form = {**{usual_form(name): name for name in free}, **{name: name for name in free}}
    for group in groups:
        present = [by_form[form] for form in group if form in by_form]
        if present:
            return present
    return []


def _is_clear(texts: Sequence[str], arguments: SourceArguments) -> bool:
    """Return whether texts are one, a usual pair, or those that a flag names."""
    is_pair = tuple(map(usual_form, texts)) in PAIRS
    return len(texts) == 1 or is_pair or arguments.text_column_names is not None


def _parts(texts: Sequence[str], names: Collection[str]) -> list[str]:
    """Return the columns of texts, of which some may be joined by +."""
    return [part for text in texts for part in joined_columns(text, names)]


def _own_names(asked: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return names as the columns of a source are written, in the case of these."""
    by_form = {usual_form(name): name for name in names}
    return [name if name in names else by_form.get(usual_form(name), name) for name in asked]


def joined_columns(text: str, names: Collection[str]) -> list[str]:
    """Return the columns that a name of a text means: itself, or those between +."""
    return [text] if text in names else text.split("+")


def _sample(rows: Dataset, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the first cells of some columns, as they are stored."""
    first = rows.select_columns(list(names)).with_format("arrow")[:SAMPLE]
    sample: dict[str, list[Any]] = first.to_pydict()
    return sample


def _mean_length(values: Sequence[object]) -> float:
    """Return the mean number of characters of the texts of a column, 0 without texts."""
    lengths = [len(value) for value in values if isinstance(value, str)]
    return sum(lengths) / max(len(lengths), 1)


def _unclear(
    title: str, sample: Mapping[str, list[Any]], texts: Sequence[str], labels: Sequence[str]
) -> Exception:
    """Return the error of a source whose columns are not clear; the flags name likely ones."""
    label = next((name for name in labels if name != texts[0]), "NAME")
    flags = f"--text_column_names {shlex.quote(texts[0])} --label_column_name {shlex.quote(label)}"
    return refusal(
        f"{title}: it is not clear which columns hold the text and the label. It has "
        f"{_listed(sample)}",
        f"name them, such as {flags}",
    )


def _listed(sample: Mapping[str, list[Any]]) -> str:
    """Return the names of columns, with an example of each."""
    contents = []
    for name, values in sample.items():
        example = next((value for value in values if value not in (None, "")), None)
        shown = "empty" if example is None else f"such as {reprlib.repr(example)}"
        contents.append(f"{name!r} ({shown})")
    return ", ".join(contents)


def _doubt_names(title: str, rows: Dataset, names: Sequence[str]) -> None:
    """Warn where the name of a column is also one of its cells: a row in the line of names."""
    for name in names:
        if holds_texts(rows, name) and pa.compute.index(rows.data[name], name).as_py() >= 0:
            note = f"{title}: the column {name!r} holds its own name as a cell"
            logger.warning(one_line(f"{note}; a line of names stands twice, or is a row"))


# ---- the columns of a training -------------------------------------------------------------------


def with_trained_columns(
    arguments: _Arguments,
    checkpoint: str | None,
    title: str,
    names: Sequence[str],
) -> _Arguments:
    """Return arguments that name the columns of a checkpoint's training, if no flag names others.

    Args:
        arguments: The flags.
        checkpoint: A folder of a run, or a checkpoint in it; None if there is no model yet.
        title: The source of rows, for a warning that it lacks the first column of texts.
        names: The columns of the source.
    """
    record = training_rows_of(checkpoint)
    named: dict[str, Any] = {}
    for flag in ("text_column_names", "label_column_name"):
        found = [
            "+".join(_own_names(joined_columns(name, names), names))
            for name in record.get(flag) or ()
        ]
        if not found or getattr(arguments, flag, "") is not None:
            continue
        if {*_parts(found[:1], names)} <= {*names}:
            named[flag] = found if flag == "text_column_names" else ",".join(found)
        elif flag == "text_column_names":
            note = f"the model was trained on {','.join(found)}, which {title} does not have"
            logger.warning(one_line(f"{note}; --text_column_names chooses what is read"))
    return replace(arguments, **named)


def training_rows_of(checkpoint: str | None) -> Mapping[str, Any]:
    """Return the record of the rows that a checkpoint was trained on; empty if there is none."""
    if checkpoint is None:
        return {}
    for folder in (Path(checkpoint), Path(checkpoint).absolute().parent):
        try:
            record = json.loads((folder / ROWS_NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict):
            return record
    return {}
