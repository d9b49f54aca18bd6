"""The training rows with doubtful labels: a file of them, and the first ones in the report."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import regex
from datasets import Dataset
from torch import Tensor
from transformers import (
    PreTrainedTokenizerBase,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from ...data.label_values import NUMBER
from ...data.repeats import text_digests
from ...data.rows import CsvForm
from ...data.sources import PLACE_COLUMNS, TEXT_COLUMNS, present
from ...data.splits import Rows
from ...data.tokenizer import cut_texts, truncation
from ...evaluation.doubtful_labels import Doubt, doubtful_rows
from ...evaluation.linear_part import logits_of
from ...models.pipeline_self_attentive import words_of_tokens
from ...training.predictions import write_csv
from ...training.task import TrainingSetup
from ...training.trainer import SelfAttentiveTrainer
from ...utils.files import atomic_write
from ...utils.text import Table, one_line
from ...visualization.attended_text import label_text, shortened, whole_words

logger = logging.getLogger(__name__)

DOUBTFUL_NAME = "doubtful.csv"
# After which epochs a model is asked about its training rows: as good as after all of them, since
# later it knows the wrong labels by heart.
READ_EPOCHS = (2, 3)
MAX_OPINIONS = 50_000_000  # rows times labels, in 200 megabytes
NUM_SHOWN = 10  # on the page
NUM_WORDS = 5  # that speak for a suggestion
LEAST_OF_STRONGEST = 0.25  # what such a word says at least, as a share of the strongest one
MAX_CHARACTERS = 1000  # of a text in the file
DIGITS = 4  # of numbers and probabilities in the file
FORM = CsvForm(separator=",", line_end="\n", encoding="utf-8", above="", text_quotes=None)
STARTS_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r")

_MARKS = regex.compile(r"\p{P}+")

Row = dict[str, Any]


class ReadsTrainingRows(TrainerCallback):
    """Asks a model about its training rows after the `READ_EPOCHS`, before it knows them by heart.

    opinions: the mean log of the probability of each label, (N, L); None before the first.
    """

    def __init__(self, rows: Dataset) -> None:
        self.rows = rows
        self.opinions: Tensor | None = None
        self._num_read = 0

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Read the rows if it is time; the training does not change."""
        if round(state.epoch or 0) not in READ_EPOCHS:
            return
        opinions = logits_of(kwargs["model"], self.rows).log_softmax(-1)
        self._num_read += 1
        if self.opinions is not None:
            opinions = self.opinions + (opinions - self.opinions) / self._num_read
        self.opinions = opinions


def reader_of_training_rows(setup: TrainingSetup, num_processes: int) -> ReadsTrainingRows | None:
    """Return what reads the training rows in a training; None where they are not read.

    That is so for several labels per row and for numbers, for which it was not measured, in several
    processes, which hold parts of the model or of the rows, and for too many rows and labels.
    """
    rows = setup.tokens["train"]
    answers = setup.rows.answers
    num_opinions = rows.num_rows * len(answers.names)
    if not answers.has_one_label or num_processes > 1 or num_opinions > MAX_OPINIONS:
        return None
    return ReadsTrainingRows(rows)


def opinions_of(trainer: SelfAttentiveTrainer) -> Tensor | None:
    """Return what a model said about its training rows, (N, L), if it was asked; call it once."""
    reader = trainer.pop_callback(ReadsTrainingRows)
    return reader.opinions if isinstance(reader, ReadsTrainingRows) else None


def write_doubtful(
    folder: Path, setup: TrainingSetup, opinions: Tensor | None = None
) -> Table | None:
    """Write the training rows with doubtful labels to `doubtful.csv`, the most doubtful first.

    The file has at most `MAX_ROWS` rows, and `MAX_SHARE` of all (`evaluation.doubtful_labels`). Its
    columns: `row`, the number in the training file, as a spreadsheet counts the rows of CSV files
    and from 0 for others; `file`, if there are several; both are empty in a row that a correction
    added; the texts, cut after `MAX_CHARACTERS`; `label`; `suggested_label`; its `probability` and
    the `label_probability`, or for numbers the error in `deviations`; and `why`, the words that
    speak most for the suggestion and against the label. A cell that a spreadsheet would compute
    begins with an apostrophe. `opinions` are those that `ReadsTrainingRows` has collected.

    Returns a table of the first rows for the page; None, and no file, if no label is doubtful.
    """
    train = setup.rows.splits["train"]
    columns = present(TEXT_COLUMNS, train)
    doubts = doubtful_rows(
        setup.tokens["train"],
        text_digests(train, columns),
        setup.rows.answers,
        len(setup.tokenizer),
        opinions=opinions,
    )
    rows = list(_rows_of(doubts, setup.rows, setup.tokenizer))
    path = folder / DOUBTFUL_NAME
    if not rows:
        path.unlink(missing_ok=True)  # that of a former run in this folder
        logger.info("doubtful labels: none among the training rows")
        return None
    cells = ({name: _as_text(cell) for name, cell in row.items()} for row in rows)
    with atomic_write(path) as draft, draft.open("w", encoding=FORM.encoding, newline="") as file:
        write_csv(file, cells, FORM)
    noun = "row" if len(rows) == 1 else "rows"
    logger.info(one_line(f"doubtful labels: {len(rows):,} training {noun} in {path}"))
    return _table_of(rows)


def _rows_of(
    doubts: Sequence[Doubt], rows: Rows, tokenizer: PreTrainedTokenizerBase
) -> Iterator[Row]:
    """Yield the row of the file for each doubt."""
    train = rows.splits["train"].select([doubt.row for doubt in doubts])
    texts = [list(train[name]) for name in present(TEXT_COLUMNS, train)]
    reasons = _reasons(doubts, texts, tokenizer)
    for doubt, row, why in zip(doubts, train, reasons, strict=True):
        cells = {name: row[name] for name in reversed(PLACE_COLUMNS) if name in row}
        for name in TEXT_COLUMNS:
            if name in row:
                cells[name] = shortened(row[name], MAX_CHARACTERS)
        cells["label"] = label_text(rows.labels.decode(row["label"]))
        cells["suggested_label"] = label_text(_decoded(doubt.suggested, rows))
        if doubt.probability is None or doubt.label_probability is None:
            cells["deviations"] = round(doubt.doubt, DIGITS)
        else:
            cells["probability"] = round(doubt.probability, DIGITS)
            cells["label_probability"] = round(doubt.label_probability, DIGITS)
        cells["why"] = ", ".join(why)
        yield cells


def _decoded(label: Tensor, rows: Rows) -> Any:
    """Return a label in the form of `Answers.labels` as the file of the rows has it."""
    if rows.answers.has_labels:
        return rows.labels.decode(label.tolist())
    numbers = [float(f"{number:.{DIGITS}g}") for number in label.tolist()]
    return numbers if len(numbers) > 1 else numbers[0]


def _reasons(
    doubts: Sequence[Doubt], texts: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase
) -> Iterator[list[str]]:
    """Yield for each doubt the words that speak for the suggestion, the strongest first.

    `texts` are one column, or two of pairs.
    """
    if not doubts:
        return
    cut = cut_texts(tokenizer, texts)
    options = {"return_offsets_mapping": True, **truncation(tokenizer, None)}
    encoded = tokenizer(*cut, **options)
    for number, doubt in enumerate(doubts):
        offsets = encoded["offset_mapping"][number]
        word_ids = encoded.word_ids(number)
        sides = encoded.sequence_ids(number)
        spoken: dict[str, float] = {}
        for side, column in enumerate(texts):
            tokens = [token for token, of_side in enumerate(sides) if of_side == side]
            words = _words_of(
                column[number],
                [offsets[token] for token in tokens],
                [word_ids[token] for token in tokens],
                [doubt.spoken[token] for token in tokens],
            )
            for word, amount in words:
                spoken[word] = spoken.get(word, 0.0) + amount
        yield _strongest(spoken)


def _strongest(spoken: Mapping[str, float]) -> list[str]:
    """Return the words that say most, the strongest first, without punctuation marks."""
    words = {word: amount for word, amount in spoken.items() if not _MARKS.fullmatch(word)}
    strongest = sorted(words, key=lambda word: -words[word])[:NUM_WORDS]
    least = LEAST_OF_STRONGEST * max(words.values(), default=0.0)
    return [word for word in strongest if words[word] > max(least, 0.0)]


def _words_of(
    text: str,
    offsets: list[list[int]],
    word_ids: list[int | None],
    spoken: Sequence[float],
) -> Iterator[tuple[str, float]]:
    """Yield each word of a text in lower case, and how much its tokens spoke."""
    numbers = words_of_tokens(text, offsets, word_ids)
    for tokens, (start, end) in zip(*whole_words(text, offsets, numbers), strict=True):
        yield text[start:end].lower(), sum(spoken[token] for token in tokens)


def _as_text(cell: object) -> object:
    """Return a cell that no spreadsheet takes for a formula."""
    if not isinstance(cell, str) or NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}" if cell.startswith(STARTS_OF_FORMULAS) else cell


def _table_of(rows: Sequence[Row]) -> Table:
    """Return the table of the first rows for the page."""
    shown = rows[:NUM_SHOWN]
    title = f"Doubtful labels of training rows: the first {len(shown)} of {len(rows):,}"
    likelihood = "probability" if "probability" in rows[0] else "deviations"
    lines = []
    for row in shown:
        parts = [row.get(name) for name in ("file", "row")]
        place = " ".join(str(part) for part in parts if part is not None)
        texts = [shortened(row[name], 160) for name in TEXT_COLUMNS if name in row]
        cells = [" / ".join(texts), row["label"], row["suggested_label"]]
        cells += [f"{row[likelihood]:.2f}", row["why"]]
        lines.append([place, *map(one_line, cells)])
    heads = ["row", "text", "label", "suggested", likelihood, "why"]
    return Table(f"{title} in {DOUBTFUL_NAME}", heads, lines)
