"""The flags of rows, and the columns of texts, labels and marks: by flag, else by usual names."""

import json
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from datasets import Dataset

from ..utils.text import refusal
from .table import TEXT_COLUMNS, holds_texts, usual_form

SPLITS = ("train", "validation", "test")
MAX_SAMPLES = {  # the flag that limits the rows of each split
    "train": "max_train_samples",
    "validation": "max_eval_samples",
    "test": "max_predict_samples",
}


def flag(text: str, default: Any = None, **metadata: object) -> Any:
    """Return a dataclass field that is also a flag of the scripts, with this help."""
    return field(default=default, metadata={"help": text, **metadata})


@dataclass
class SourceArguments:
    """The rows of any task; alone, the pairs of one without labels."""

    _argument_group_name: ClassVar[str] = "data"
    numbers_of_texts: ClassVar[tuple[int, ...]] = (2,)

    dataset_name: str | None = flag(
        "A dataset on the Hub, OWNER/NAME or OWNER/NAME@REVISION, or a folder of data files."
    )
    dataset_config_name: str | None = flag("Configuration of the dataset on the Hub.")
    train_file: str | None = flag("CSV, TSV, JSON, JSON Lines (all also .gz), Excel or Parquet.")
    validation_file: str | None = flag("Rows to evaluate on.")
    test_file: str | None = flag("Rows to predict; labels may be missing.")
    text_column_names: list[str] | None = flag(
        'One text column, or two for pairs: "premise,hypothesis"; "title+body" joins two into one '
        "text. By default found by their usual names."
    )
    max_train_samples: int | None = flag("Train only on this number of rows, the first ones.")
    max_eval_samples: int | None = flag(
        "Evaluate only on this number of validation rows, the first ones."
    )
    max_predict_samples: int | None = flag("Predict only this number of test rows, the first ones.")
    max_train_words: int | None = flag(
        "Train only on pairs in which neither side has more words, counted between spaces.",
    )
    validation_fraction: float | None = flag(
        "Share of the training rows to evaluate on, if there is no validation split; 0 for none."
    )
    shuffle_seed: int | None = flag("Shuffle the training rows before any are left out.")


@dataclass
class TextArguments(SourceArguments):
    """The rows of texts alone, such as those to translate: of pairs, the first text."""

    numbers_of_texts: ClassVar[tuple[int, ...]] = (1,)


@dataclass
class DataArguments(SourceArguments):
    """The rows of a task with labels."""

    numbers_of_texts: ClassVar[tuple[int, ...]] = (1, 2)

    unlabelled_file: list[str] | None = flag(
        "Files of more texts, whose labels are not read: a new model takes words and word vectors "
        "from them, too."
    )
    corrections_file: list[str] | None = flag(
        "Files of corrections that people downloaded from a page or a report. They take the place "
        "of the training and validation rows with the same texts; those of other texts are more "
        "training rows."
    )
    label_column_name: list[str] | None = flag(
        'The column of labels, or several columns that are labels: "fun,sad,angry". They hold 0 '
        "and 1, or fractions that sum to 1, the probabilities to learn. By "
        'default found by its usual name; "" ignores the labels of rows to predict.'
    )
    problem_type: str | None = flag(
        "Kind of the labels; by default inferred from the column.",
        choices=["single_label_classification", "multi_label_classification", "regression"],
    )
    label_names: list[str] | None = flag(
        "The labels in id order; by default in the order that the data give. Needed where there is "
        "no train split."
    )
    label_separator: str | None = flag(
        'What stands between several labels of one cell, such as ";"; for a trained model, by '
        "default that of its training."
    )


Names = Sequence[str]

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
        "sentence review content comment body message tweet document question query utterance post "
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
SPAN_COLUMNS = ("rationale", "rationale_pair")
AGAINST_COLUMNS = ("rationale_against", "rationale_against_pair")


def find_columns(
    title: str,
    rows: Dataset,
    arguments: SourceArguments,
    *,
    labelled: bool,
    record: Mapping[str, Names],
    may_differ: bool = False,
) -> tuple[Names, Names]:
    """Return the columns of texts, and of labels, that flags name, or find them in a source.

    A column that no flag names is that of a training. Without one, or where `text` is not there, it
    is found by its usual name, in any case of letters. Of two columns that with the longer texts is
    the text; of a task without labels, both are the texts. The last one that is left has the
    labels. Of texts there are one, or two for pairs; "title+body" joins two columns into one text.
    Of labels there are one, several of numbers, or none where rows have no label. ValueError lists
    the columns, with an example of each, and the flags.

    Args:
        title: What errors call the source.
        rows: All rows of the source.
        arguments: The flags.
        labelled: Whether the rows must have labels.
        record: The columns of a training, as `training_rows_of` returns them.
        may_differ: Whether the record counts only for columns that are there.
    """
    numbers = arguments.numbers_of_texts
    number = min(numbers)  # where no flag names them, nor usual names of pairs
    texts, labels = _asked(arguments, record, rows.column_names, may_differ)
    must_find_labels = labels is None and labelled
    sample = _sample(rows)
    free = _without(sample, _joined_in(texts, rows.column_names))
    if labels is None:
        labels = _usual_labels(free, arguments)
    free = _without(free, labels)
    if number == 1:
        free.sort(key=lambda name: (holds_texts(rows, name), len(str(sample[name]))), reverse=True)
    few = free[:number] if len(sample) <= max(numbers) else []
    texts = texts or _usual(free, PAIRS, 2) or _usual(free, TEXTS, number) or few
    free = _without(free, texts)
    if must_find_labels and len(free) == 1:
        labels = labels or free
    has_texts = len(texts) in numbers
    if not has_texts or (must_find_labels and not labels):
        missing = "labels" if has_texts else "texts"
        raise refusal(
            f"{title}: it is not clear which columns are the {missing}. It has {_shown(sample)}",
            "name them by --text_column_names, and where there are labels by --label_column_name",
        )
    return tuple(texts), tuple(labels)


def _shown(sample: Mapping[str, Sequence[Any]]) -> str:
    """Return the columns as an error lists them, each with an example."""
    shown = [f"{name!r} (such as {reprlib.repr(cells[0])})" for name, cells in sample.items()]
    return ", ".join(shown) or "no cells"


def _asked(
    arguments: SourceArguments, record: Mapping[str, Names], names: Names, may_differ: bool
) -> tuple[Names, Names | None]:
    """Return the columns that flags name, else those of a training; None for labels to find."""

    def named(flag: str, known: Any) -> Any:
        words = getattr(arguments, flag, [])
        if words is None:
            return known
        return [name for word in words if word for name in parted(word, ",", names)]

    texts = record.get("text_column_names", [])[: max(arguments.numbers_of_texts)]
    may_lack = may_differ or {*texts} <= {*TEXT_COLUMNS}  # lists have these names
    are_missing = may_lack and _without(_joined_in(texts, names), names)
    if are_missing or len(texts) < min(arguments.numbers_of_texts):
        texts = []
    labels = record.get("label_column_name", [])
    if may_differ and _without(labels, names):
        labels = []
    return named("text_column_names", texts), named("label_column_name", labels or None)


def parted(word: str, sign: str, names: Names) -> list[str]:
    """Return the columns that a word names, parted by a sign, unless one of the `names` has it."""
    return [word] if word in names else [*map(str.strip, word.split(sign))]


def _joined_in(texts: Names, names: Names) -> list[str]:
    """Return the columns that are joined in texts such as "title+body"; `names` are all columns."""
    return [*chain.from_iterable(parted(text, "+", names) for text in texts)]


def _without(names: Iterable[str], taken: Names) -> list[str]:
    return [name for name in names if name not in taken]


def _usual(names: Names, groups: Sequence[Names], number: int) -> list[str]:
    """Return the columns with names of the first group that has so many; none if it has more."""
    for group in groups:
        found = [name for form in group for name in names if usual_form(name) == form]
        if len(found) >= number:
            return found if len(found) == number else []
    return []


def _usual_labels(names: Names, arguments: SourceArguments) -> list[str]:
    """Return the column of labels by its usual name, or several by the names of the labels."""
    labels = [*map(usual_form, getattr(arguments, "label_names", None) or ())]
    return _usual(names, LABELS, 1) or _usual(names, [labels], max(len(labels), 2))


def _sample(rows: Dataset) -> dict[str, list[Any]]:
    """Return the first cells of the columns that hold any, but marks."""
    return {
        name: cells
        for name, cells in rows.with_format("arrow")[:SAMPLE].to_pydict().items()
        if usual_form(name) not in SPAN_COLUMNS + AGAINST_COLUMNS
        and {*map(str, cells)} - {"None", ""}
    }


def training_rows_of(checkpoint: Any) -> dict[str, Any]:
    """Return the record of the rows that a checkpoint was trained on; empty if there is none.

    The `checkpoint` is the folder of a run, or one in it.
    """
    if checkpoint is not None:
        folder = Path(checkpoint).absolute()
        for path in (folder / ROWS_NAME, folder.with_name(ROWS_NAME)):
            if path.is_file():
                return dict(json.loads(path.read_text(encoding="utf-8")))
    return {}
