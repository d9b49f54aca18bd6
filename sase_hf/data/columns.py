"""The columns of a source that hold texts, labels and marks: by flag, else by their usual names."""

import json
import logging
import reprlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from datasets import Dataset

from ..utils.errors import refusal
from ..utils.text import one_line
from .arguments import DataArguments, SourceArguments
from .table import usual_form

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


class Columns(NamedTuple):
    """The columns of a task, by the names of the first split."""

    texts: tuple[str, ...]  # one, or two for pairs; "title+body" joins two columns into one text
    labels: tuple[str, ...]  # one; several of numbers, each a label; none where rows have no label


def find_columns(
    title: str,
    rows: Dataset,
    arguments: SourceArguments,
    *,
    labelled: bool,
    record: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Columns:
    """Return the columns that the flags name, or find them in the rows of a source.

    A column that no flag names is that of a training, else it is found by its usual name, in any
    case of letters. Of two columns that are not, the one with the longer texts is the text, and a
    single one is what is missing; of a task without labels, both are the texts. ValueError lists
    the columns, with an example of each, and the flags.

    Args:
        title: What errors call the source.
        rows: All rows of the source.
        arguments: The flags.
        labelled: Whether the rows must have labels, or both texts.
        record: The columns of a training, as `training_rows_of` returns them.
    """
    names = rows.column_names
    label = getattr(arguments, "label_column_name", "")
    labels = _asked(label if label is None else [label], record.get("label_column_name"), names)
    trained = record.get("text_column_names", ())[: max(arguments.numbers_of_texts)]
    texts = _asked(arguments.text_column_names, trained, names)
    taken = [*labels, *chain.from_iterable(parted(text, "+", names) for text in texts)]
    if len({*taken}) < len(taken) or len(texts) not in (0, *arguments.numbers_of_texts):
        raise refusal(
            f"--text_column_names is {texts}, --label_column_name {labels}",
            "name one column of texts, or two for pairs, such as en,fr, and each column once",
        )
    sample = _sample(rows)
    free = [name for name in sample if name not in taken]
    finds_labels = label is None and not labels
    labels = labels or (_usual(free, LABELS) if finds_labels else [])
    free = [name for name in free if name not in labels]
    most = min(arguments.numbers_of_texts)  # where no flag names them, nor usual names of pairs
    least = most if labelled else 1
    texts = texts or _usual(free, PAIRS, least=2)
    is_clear = texts != []
    if not is_clear:
        rest = free[:1] if len(free) == 1 or len(sample) == 2 else []
        rest = rest if isinstance(arguments, DataArguments) else names
        texts = _usual(free, TEXTS, least) or rest
        is_clear = least <= len(texts) <= most
    free = [name for name in free if name not in texts]
    if finds_labels:
        labels = labels or (free if labelled and len(free) == 1 else [])
        is_clear = is_clear and labelled <= len(labels) <= 1
    if not is_clear:
        label = [*labels, *free[::-1], "NAME"][0] if finds_labels else None
        raise _unclear(title, sample, [*texts, *free, "NAME"][:most], label)
    if trained and arguments.text_column_names is None and [*texts] != [*trained]:
        note = f"{title}: the texts are read from {','.join(texts)}"
        logger.warning(one_line(f"{note}; the model was trained on {','.join(trained)}"))
    return Columns(tuple(texts), tuple(labels))


def _asked(
    words: Iterable[str] | None, trained: Sequence[str] | None, names: Sequence[str]
) -> Sequence[str]:
    """Return the columns that the words of a flag name, else those of a training that are there."""
    if words is None and trained and {*parted(trained[0], "+", names)} <= {*names}:
        return trained
    parts = (parted(word, ",", names) for word in words or ())
    return [*filter(None, chain.from_iterable(parts))]


def parted(word: str, sign: str, names: Sequence[str]) -> list[str]:
    """Return the columns that a word names, parted by a sign, unless one of the `names` has it."""
    return [word] if word in names else [*map(str.strip, word.split(sign))]


def _usual(names: Sequence[str], groups: Sequence[Sequence[str]], least: int = 1) -> list[str]:
    """Return the columns with names of the first group that as many columns have as is needed."""
    for group in groups:
        found = [name for form in group for name in names if usual_form(name) == form]
        if len(found) >= least:
            return found
    return []


def _sample(rows: Dataset) -> dict[str, list[Any]]:
    """Return the first cells of the columns that hold any, but marks; the longest texts first."""
    lengths = {}
    sample = rows.with_format("arrow")[:SAMPLE].to_pydict()
    for name, cells in sample.items():
        if usual_form(name) not in MARKS.values() and {*map(str, cells)} - {"None", ""}:
            lengths[name] = sum(len(cell) for cell in cells if isinstance(cell, str))
    return {name: sample[name] for name in sorted(lengths, key=lengths.__getitem__, reverse=True)}


def _unclear(
    title: str, sample: Mapping[str, list[Any]], texts: Sequence[str], label: str | None
) -> Exception:
    """Return the error of a source whose columns are not clear; its flags name likely ones."""
    examples = (f"{name!r} (such as {reprlib.repr(cells[0])})" for name, cells in sample.items())
    flags = f"--text_column_names {shlex.quote(','.join(texts))}"
    if label is not None:
        flags += f" --label_column_name {shlex.quote(label)}"
    what = f"{title}: it is not clear which columns are the texts or the labels"
    return refusal(f"{what}. It has {', '.join(examples)}", f"name them, such as {flags}")


def training_rows_of(checkpoint: str | Path | None) -> dict[str, Any]:
    """Return the record of the rows that a checkpoint was trained on; empty if there is none.

    The `checkpoint` is the folder of a run, or one in it.
    """
    record: dict[str, Any] = {}
    if checkpoint is not None:
        for folder in (Path(checkpoint).absolute().parent, Path(checkpoint)):
            path = folder / ROWS_NAME
            if path.is_file():
                record = json.loads(path.read_text(encoding="utf-8"))
    return record
