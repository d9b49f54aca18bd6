"""The training rows with doubtful labels: a file of them, and the first ones in the report."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...data.labels import NUMBER
from ...data.marks import ORIGINAL
from ...data.rows import Rows
from ...data.table import PLACE
from ...evaluation.doubtful_labels import Doubt, doubtful_rows
from ...evaluation.linear_part import chosen_by_hops
from ...training.predictions import write_csv
from ...training.task import TrainingSetup
from ...utils.files import atomic_write
from ...utils.text import Table, one_line
from ...visualization.attended_text import label_text, shortened

logger = logging.getLogger(__name__)

DOUBTFUL_NAME = "doubtful.csv"
NUM_SHOWN = 10  # on the page
MAX_CHARACTERS = 1000  # of a text in the file
MAX_SHOWN = 160  # on the page
DIGITS = 4  # of numbers and probabilities in the file
STARTS_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r")

Row = dict[str, Any]


def write_doubtful(folder: Path, setup: TrainingSetup) -> Table | None:
    """Write the training rows with doubtful labels to `doubtful.csv`, the most doubtful first.

    Which and how many these are, `evaluation.doubtful_labels` says. The columns: `row`, the number
    in the training file, as a spreadsheet counts the rows of a sheet without empty lines, and from
    0 for others, empty in a row that is a correction; the `text`, cut after `MAX_CHARACTERS`;
    `label`; `suggested_label`; its `probability` and the `label_probability`. A cell that a
    spreadsheet would compute begins with an apostrophe.

    Returns a table of the first rows for the page; None, and no file, if no label is doubtful, or
    if rows have pairs of texts, several labels or numbers, which are not looked at.
    """
    path = folder / DOUBTFUL_NAME
    path.unlink(missing_ok=True)  # that of a former run in this folder
    answers = setup.rows.answers
    if not answers.has_one_label or len(setup.rows.text_columns) > 1:
        return None
    train = setup.rows.splits["train"]
    tokens = setup.tokens
    choose = partial(chosen_by_hops, setup.model)
    doubts = doubtful_rows(train, tokens["train"], tokens["validation"], answers, choose)
    rows = [_cells_of(train[doubt.row], doubt, setup.rows) for doubt in doubts]
    logger.info(one_line(f"doubtful labels: {len(rows):,} training rows in {path}"))
    if not rows:
        return None
    cells = [{name: _as_text(cell) for name, cell in row.items()} for row in rows]
    with atomic_write(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        write_csv(file, cells)
    return _table_of(rows)


def _cells_of(row: Row, doubt: Doubt, rows: Rows) -> Row:
    """Return the row of the file for a doubt."""
    return {
        PLACE: row[PLACE],
        "text": shortened(row.get(ORIGINAL) or row["text"], MAX_CHARACTERS),
        "label": label_text(rows.labels.decode(row["label"])),
        "suggested_label": label_text(rows.labels.decode(doubt.suggested)),
        "probability": round(doubt.probability, DIGITS),
        "label_probability": round(doubt.label_probability, DIGITS),
    }


def _as_text(cell: object) -> object:
    """Return a cell that no spreadsheet takes for a formula."""
    if not isinstance(cell, str) or NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}" if cell.startswith(STARTS_OF_FORMULAS) else cell


def _table_of(rows: Sequence[Row]) -> Table:
    """Return the table of the first rows for the page."""
    shown = rows[:NUM_SHOWN]
    title = f"Doubtful labels of training rows: the first {len(shown)} of {len(rows):,}"
    lines = [
        ["" if cell is None else one_line(shortened(str(cell), MAX_SHOWN)) for cell in row.values()]
        for row in shown
    ]
    return Table(f"{title} in {DOUBTFUL_NAME}", list(rows[0]), lines)
