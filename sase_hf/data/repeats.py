"""Texts that stand in several rows, and validation rows split off the training rows without them.

Two texts are equal here if they differ only in case, in blanks, or in two encodings of one
character.
"""

import logging
import unicodedata
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from datasets import Dataset
from pandas.util import hash_pandas_object

from .table import TEXT_COLUMNS, present

logger = logging.getLogger(__name__)

BATCH = 10_000  # rows held in memory at once


def text_digests(rows: Dataset) -> np.ndarray:
    """Return a digest of the texts of each of N rows: (N,), 8 bytes, equal for equal texts."""
    texts = rows.select_columns(present(TEXT_COLUMNS, rows))
    batches = texts.with_format("pandas").iter(BATCH)
    digests = [hash_pandas_object(batch.map(_comparable), index=False) for batch in batches]
    return np.concatenate(digests)


def _comparable(text: str) -> str:
    """Return a text in lower case, composed, with single blanks."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def warn_of_repeats(splits: Mapping[str, Dataset]) -> None:
    """Log how many texts stand in two splits."""
    for earlier, later in combinations(splits, 2):
        known, texts = (text_digests(splits[name]) for name in (earlier, later))
        if num_repeated := np.isin(texts, known).sum():
            logger.warning(
                f"{num_repeated:,} {later} texts are also in the {earlier} rows, so results look "
                "better than they are on new texts; delete these rows in one of the two"
            )


def hold_out(
    splits: dict[str, Dataset], sources: dict[str, Any], fraction: float | None, seed: int
) -> None:
    """Split validation rows off if it is asked for: no text on both sides, the labels alike.

    Adds the split to `splits`, and where its rows come from to `sources`.
    """
    if not fraction or "train" not in splits or "validation" in splits:
        return
    train = splits["train"]
    is_picked = _evenly_picked(train, fraction, seed)
    splits["train"] = train.select(np.flatnonzero(~is_picked))
    splits["validation"] = train.select(np.flatnonzero(is_picked))
    sources["validation"] = {**sources["train"], "split_off": fraction, "seed": seed}


def _evenly_picked(rows: Dataset, fraction: float, seed: int) -> np.ndarray:
    """Return whether each of N rows is picked: about a fraction, all rows of a text or none.

    The texts are sorted by the label of one of their rows, then by frequency, so that rare texts
    even out what a frequent one overshot, then at random. Evenly spaced places in this order have
    the proportions of the labels. A text is picked once half of its rows are due.

    scikit-learn's `StratifiedGroupKFold` takes no numbers, no lists, no labels that occur once and
    no fraction but 1 / n; a million rows take it three minutes, and this function two seconds.
    """
    digests = text_digests(rows)
    labels = rows["label"][:] if isinstance(rows[0].get("label"), int | float) else 0
    order = np.random.default_rng(seed).permutation(len(digests))
    texts = pd.DataFrame({"text": digests, "label": labels}).iloc[order]
    texts = texts.groupby("text", sort=False)["label"].agg(["first", "size"])
    texts = texts.sort_values(["first", "size"], ascending=[True, False], kind="stable")
    count = round(fraction * len(digests)) or 1
    texts["due"] = np.ceil(texts["size"].cumsum() * count / len(digests) - 0.5)
    picked = []
    num_picked = 0
    for text, _, size, num_due in texts.itertuples():
        if 2 * (num_due - num_picked) >= size:
            picked.append(text)
            num_picked += size
    return np.isin(digests, picked)
