"""The training rows with doubtful labels: a file of them, and the first ones in the report."""

import logging
from functools import partial
from pathlib import Path

import pandas as pd

from ...data.marks import ORIGINAL
from ...data.table import PLACE
from ...evaluation.doubtful_labels import doubtful_rows
from ...evaluation.linear_part import chosen_by_hops
from ...training.task import TrainingSetup
from ...utils.files import write_text
from ...utils.text import Table, one_line, shortened
from ...visualization.attended_text import label_text

logger = logging.getLogger(__name__)

DOUBTFUL_NAME = "doubtful.csv"
NUM_SHOWN = 10  # on the page
MAX_CHARACTERS = 1000  # of a text in the file
MAX_SHOWN = 160  # on the page


def write_doubtful(folder: Path, setup: TrainingSetup) -> list[Table]:
    """Write the training rows with doubtful labels to `doubtful.csv`, the most doubtful first.

    Which and how many these are, `evaluation.doubtful_labels` says. The columns: `row`, the number
    in the training file, as a spreadsheet counts the rows of a sheet without empty lines, and from
    0 for others, empty in a row that is a correction; the `text`, cut after `MAX_CHARACTERS`;
    `label`; `suggested_label`; its `probability` and the `label_probability`.

    Returns a table of the first rows for the page; none, and no file, if no label is doubtful, or
    if rows have pairs of texts, several labels or numbers, which are not looked at.
    """
    path = folder / DOUBTFUL_NAME
    path.unlink(missing_ok=True)  # that of a former run in this folder
    rows, tokens = setup.rows, setup.tokens
    if not rows.answers.has_one_label or len(rows.text_columns) > 1:
        return []
    train = rows.splits["train"]
    choose = partial(chosen_by_hops, setup.model)
    found = []
    for doubt in doubtful_rows(train, tokens["train"], tokens["validation"], rows.answers, choose):
        row = train[doubt.row]
        found.append(
            {
                PLACE: row[PLACE],
                "text": shortened(row.get(ORIGINAL) or row["text"], MAX_CHARACTERS),
                "label": label_text(rows.labels.decode(row["label"])),
                "suggested_label": label_text(rows.labels.decode(doubt.suggested)),
                "probability": f"{doubt.probability:.4f}",
                "label_probability": f"{doubt.label_probability:.4f}",
            }
        )
    logger.info(one_line(f"doubtful labels: {len(found):,} training rows in {path}"))
    if not found:
        return []
    cells = pd.DataFrame(found, dtype=object)
    write_text(path, cells.to_csv(index=False))
    first = cells[:NUM_SHOWN].fillna("").map(lambda cell: one_line(shortened(str(cell), MAX_SHOWN)))
    title = f"Doubtful labels of training rows: the first {len(first)} of {len(cells):,}"
    return [Table(f"{title} in {DOUBTFUL_NAME}", [*cells.columns], first.to_numpy().tolist())]
