"""Rows that people corrected in a page, and the rows of a task with these in their places."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from datasets import Dataset, Features, concatenate_datasets

from ..utils.errors import refusal
from .repeats import text_digests
from .table import PLACE, PROBABILITIES, TEXT_COLUMNS, present

if TYPE_CHECKING:  # which imports torch
    from ..models.answers import Answers

logger = logging.getLogger(__name__)

Row = dict[str, Any]


def with_corrections(
    splits: Mapping[str, Dataset], corrections: Dataset, answers: "Answers"
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
    new = corrections.to_list()
    if PROBABILITIES in splits["train"].column_names:
        for row in new:
            row[PROBABILITIES] = np.eye(len(answers.names))[row["label"]]
    texts = present(TEXT_COLUMNS, corrections)
    of_text = dict(zip(text_digests(corrections, texts).tolist(), new, strict=True))
    added = dict(of_text)  # those of no row
    changed = dict(splits)
    for name in ("validation", "train"):
        if name in splits:
            rows = splits[name]
            corrected = {}
            for number, text in enumerate(text_digests(rows, texts).tolist()):
                if text in of_text:
                    added.pop(text, None)
                    place = {PLACE: rows[number].get(PLACE)}
                    corrected[number] = {**of_text[text], **place}
            if name == "train":
                corrected |= enumerate(added.values(), start=rows.num_rows)
            changed[name] = with_rows(rows, corrected, corrections.features)
    logger.info(f"corrections: {len(of_text):,} texts, training rows added: {len(added):,}")
    return changed


def with_rows(rows: Dataset, changed: Mapping[int, Row], features: Mapping[str, Any]) -> Dataset:
    """Return rows with others in the place of some; those with higher numbers are added.

    They may have more columns, of which `features` are the types. What a row lacks is None.
    """
    if not changed:
        return rows
    types = Features({**features, **rows.features})
    columns = {name: [row.get(name) for row in changed.values()] for name in types}
    order = np.arange(max(rows.num_rows, max(changed) + 1))
    order[[*changed]] = rows.num_rows + np.arange(len(changed))
    return concatenate_datasets([rows, Dataset.from_dict(columns, types)]).select(order)
