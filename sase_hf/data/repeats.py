"""Texts that stand in several rows: in two splits, or with two labels.

Two texts are equal here if they differ only in case, in blanks, or in two encodings of one
character.
"""

import logging
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from datasets import Dataset

logger = logging.getLogger(__name__)

BATCH = 1000  # rows held in memory at once
SHOWN_NAMES = {"train": "training"}  # of splits, in the log


def text_digests(rows: Dataset, columns: Sequence[str]) -> np.ndarray:
    """Return a digest of the texts of each of N rows: (N,), equal for equal texts.

    It has 8 bytes, which differ from process to process.
    """
    digests = (
        hash(texts)
        for batch in rows.select_columns([*columns]).iter(BATCH)
        for texts in zip(*(map(_comparable, batch[name]) for name in columns), strict=True)
    )
    return np.fromiter(digests, np.int64).view(np.uint64)


def _comparable(text: str) -> str:
    """Return a text in lower case, composed, with single blanks."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def warn_of_repeats(splits: Mapping[str, Dataset], text_columns: Sequence[str]) -> None:
    """Log how many texts stand in two splits, and how many have several labels in one split.

    Only the text columns that all splits have are compared.
    """
    are_shared = set(text_columns).intersection(*(rows.column_names for rows in splits.values()))
    columns = [name for name in text_columns if name in are_shared]
    digests = {}
    for name, rows in splits.items():
        shown = SHOWN_NAMES.get(name, name)
        digests[shown] = frame = pd.DataFrame({"text": text_digests(rows, columns)})
        if "label" in rows.column_names:
            frame["label"] = [repr(label) for label in rows["label"][:]]
        num_labels = frame.drop_duplicates()["text"].value_counts()
        num_contradicting = (num_labels > 1).sum()
        if num_contradicting:
            logger.warning(
                f"{num_contradicting:,} of {len(num_labels):,} different texts in the {shown} rows "
                "have more than one label; correct the labels, or delete such rows"
            )
    for (earlier, known), (later, frame) in combinations(digests.items(), 2):
        repeated = frame[frame["text"].isin(known["text"])]
        if repeated.empty:
            continue
        note = f"{len(repeated):,} of {len(frame):,} {later} texts are also in the {earlier} rows"
        if "label" in known and "label" in frame:
            num_changed = len(repeated) - len(repeated.merge(known.drop_duplicates()))
            if num_changed:
                note += f", {num_changed:,} of them with another label"
        logger.warning(
            f"{note}: results on the {later} rows look better than they are on new texts; "
            "delete these rows in one of the two"
        )
