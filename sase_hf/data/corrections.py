"""Rows that people corrected in a page, and the rows of a task with these in their places."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np
from datasets import Dataset, concatenate_datasets

from ..models.answers import Answers
from ..utils.errors import refusal
from .arguments import DataArguments
from .columns import MARKS
from .repeats import text_digests
from .sources import (
    PLACE_COLUMNS,
    PROBABILITIES,
    TEXT_COLUMNS,
    Columns,
    FileSplit,
    present,
    with_column,
)

logger = logging.getLogger(__name__)

LABEL = "label"  # the name of the column of labels in a file of corrections


def open_corrections(
    path: str, num_texts: int, arguments: DataArguments
) -> tuple[FileSplit, Columns]:
    """Read a file of corrections, and return its rows and columns.

    The columns have the names that the page writes, whatever those of the training rows are. Marks
    of which the flag is "" are not read.
    """
    marks: dict[str, str] = {}
    for flag, default, (first, second) in MARKS:
        if getattr(arguments, flag):
            marks |= {first: default, second: f"{default}_pair"}
    columns = Columns(TEXT_COLUMNS[:num_texts], (LABEL,), marks)
    split = FileSplit.of_file("corrections", path)
    split.read(columns)
    if num_texts == 1 and TEXT_COLUMNS[1] in split.column_names:
        raise refusal(
            f"{split.title} has corrections of pairs, and the rows have one text",
            f"name two --text_column_names, or delete its column {TEXT_COLUMNS[1]}",
        )
    names = (*columns.texts, LABEL)
    split.require(names, f"the names {', '.join(names)}, as the page writes them")
    return split, columns


def with_corrections(
    splits: Mapping[str, Dataset], corrections: Dataset, answers: Answers
) -> dict[str, Dataset]:
    """Return splits with corrections in place of the rows that have the same texts.

    Test rows stay as they are. Corrections of other texts become training rows. Texts are the same
    as in `repeats`; of two corrections of one text the later counts. ValueError is raised without
    a train split.
    """
    if "train" not in splits:
        raise refusal(
            "--corrections_file is given, but there are no training rows",
            "add --train_file, or leave it out",
        )
    texts = present(TEXT_COLUMNS, corrections)
    digests_of_corrections = text_digests(corrections, texts).tolist()
    numbers = {digest: number for number, digest in enumerate(digests_of_corrections)}
    changed = dict(splits)
    found: set[int] = set()
    num_replaced = 0
    chosen = {}
    for name in ("train", "validation"):
        if name in splits:
            digests = text_digests(splits[name], texts).tolist()
            chosen[name] = [numbers.get(digest) for digest in digests]
            found.update(number for number in chosen[name] if number is not None)
            num_replaced += len(digests) - chosen[name].count(None)
    added = [number for number in numbers.values() if number not in found]
    for name, numbers_of_rows in chosen.items():
        more = added if name == "train" else []
        changed[name] = _replaced(splits[name], corrections, numbers_of_rows, more, answers)
    logger.info(
        f"corrections: {len(numbers):,} texts, rows replaced: {num_replaced:,}, training rows "
        f"added: {len(added):,}"
    )
    return changed


def _replaced(
    rows: Dataset,
    corrections: Dataset,
    numbers: Sequence[int | None],
    added: Sequence[int],
    answers: Answers,
) -> Dataset:
    """Return rows with a correction in the place of each that has a number, and with added ones."""
    replaced = []
    chosen = []
    for row, number in enumerate(numbers):
        if number is not None:
            replaced.append(row)
            chosen.append(number)
    new = corrections.select([*chosen, *added])
    if not new.num_rows:
        return rows
    for name in new.column_names:
        if name not in rows.column_names:  # marks
            rows = with_column(rows, name, [[]] * rows.num_rows, new.features[name])
    for name in rows.column_names:
        if name in PLACE_COLUMNS:  # a row that is replaced keeps its place
            places = [*rows.select(replaced)[name], *[None] * len(added)]
            new = with_column(new, name, places, rows.features[name])
        elif name == PROBABILITIES:
            certain = np.eye(len(answers.names))[new[LABEL][:]]
            new = with_column(new, name, certain.tolist(), rows.features[name])
        elif name not in new.column_names:  # marks
            new = with_column(new, name, [[]] * new.num_rows, rows.features[name])
    order = np.arange(rows.num_rows + len(added))
    order[rows.num_rows :] += len(replaced)  # the added ones stand behind those that replace
    if replaced:
        order[replaced] = rows.num_rows + np.arange(len(replaced))
    return concatenate_datasets([rows, new.select_columns(rows.column_names)]).select(order)


def warn_of_lost_corrections(rows: Dataset, limit: int, corrected: np.ndarray) -> None:
    """Log how many corrected training rows `--max_train_samples` leaves out.

    `corrected` (N,) are the digests of the texts of all corrections.
    """
    if not corrected.size:
        return
    texts = present(TEXT_COLUMNS, rows)
    is_corrected = np.isin(text_digests(rows, texts), corrected)
    num_lost = int(is_corrected[limit:].sum())
    if num_lost:
        logger.warning(
            f"--max_train_samples {limit} leaves out {num_lost:,} of {int(is_corrected.sum()):,} "
            "corrected training rows; give a larger number, or leave it out"
        )
