"""Validation rows that are split off the training rows: no text on both sides, the labels alike.

scikit-learn's `StratifiedGroupKFold` takes no numbers, no lists, no labels that occur once and no
fraction but 1 / n; a million rows take it three minutes, and this file two seconds.
"""

import numpy as np
import pandas as pd
from datasets import Dataset

from ..utils.errors import refusal
from .arguments import SourceArguments
from .repeats import text_digests
from .table import PLACE, PROBABILITIES, TEXT_COLUMNS, Origin, present

ONLY_TO_LEARN = (PROBABILITIES, PLACE)  # columns that validation rows lack


def hold_out(
    splits: dict[str, Dataset], sources: dict[str, Origin], arguments: SourceArguments
) -> None:
    """Split validation rows off if it is asked for: no text on both sides, the labels alike.

    Adds the split to `splits`, and where its rows come from to `sources`.
    """
    fraction = arguments.validation_fraction
    seed = arguments.shuffle_seed or 0
    if not fraction or "train" not in splits or "validation" in splits:
        return
    train = splits["train"]
    is_picked = _evenly_picked(train, max(round(fraction * train.num_rows), 1), seed)
    if is_picked.all() or not is_picked.any():
        raise refusal(
            f"--validation_fraction {fraction} of {train.num_rows} train rows leaves none to train "
            "on or none to validate with",
            "add rows with other texts, as equal ones stay together, or give --validation_file",
        )
    validation = train.select(np.flatnonzero(is_picked))
    splits["train"] = train.select(np.flatnonzero(~is_picked))
    splits["validation"] = validation.remove_columns(present(ONLY_TO_LEARN, validation))
    sources["validation"] = {**sources["train"], "split_off": fraction, "seed": seed}


def _evenly_picked(rows: Dataset, count: int, seed: int) -> np.ndarray:
    """Return whether each of N rows is picked: about `count` rows, all rows of a text or none.

    The texts are sorted by the label of one of their rows, then by frequency, so that rare texts
    even out what a frequent one overshot, then at random. Evenly spaced places in this order have
    the proportions of the labels. A text is picked once half of its rows are due.
    """
    frame = pd.DataFrame({"text": text_digests(rows, present(TEXT_COLUMNS, rows)), "label": 0})
    if "label" in rows.column_names:
        labels = np.array(rows["label"][:])
        if labels.ndim == 1:  # one label or number a row
            frame["label"] = labels
    shuffled = frame.iloc[np.random.default_rng(seed).permutation(rows.num_rows)]
    texts = shuffled.groupby("text", sort=False)["label"].agg(["first", "size"])
    texts = texts.sort_values(["first", "size"], ascending=[True, False], kind="stable")
    due_rows = ((np.arange(count) + 0.5) * rows.num_rows / count).astype(int)
    num_due_up_to = np.searchsorted(due_rows, texts["size"].cumsum())
    picked = []
    num_picked = 0
    for text, size, num_due in zip(texts.index, texts["size"], num_due_up_to, strict=True):
        if 2 * (num_due - num_picked) >= size:
            picked.append(text)
            num_picked += size
    return frame["text"].isin(picked).to_numpy()
