"""Validation rows that are split off the training rows: no text on both sides, the labels alike.

scikit-learn's `StratifiedGroupKFold` takes no numbers, no lists, no labels that occur once and no
fraction but 1 / n; a million rows take it three minutes, and this file two seconds.
"""

import numpy as np
from datasets import Dataset

from ..utils.errors import refusal
from .arguments import SourceArguments
from .repeats import text_digests
from .sources import PLACE_COLUMNS, PROBABILITIES, TEXT_COLUMNS, Origin, present

ONLY_TO_LEARN = (PROBABILITIES, *PLACE_COLUMNS)  # columns that validation rows lack


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
        use = "train on" if is_picked.all() else "validate with"
        raise refusal(
            f"--validation_fraction {fraction} of {train.num_rows} train rows leaves none to {use}",
            "add rows with other texts, as equal ones stay together, or give --validation_file",
        )
    validation = train.select(np.flatnonzero(is_picked))
    splits["train"] = train.select(np.flatnonzero(~is_picked))
    splits["validation"] = validation.remove_columns(present(ONLY_TO_LEARN, validation))
    sources["validation"] = {**sources["train"], "split_off": fraction, "seed": seed}


def _evenly_picked(rows: Dataset, count: int, seed: int) -> np.ndarray:
    """Return whether each of N rows is picked: about `count` rows, all rows of a text or none.

    The U texts are sorted by label, then by frequency, so that rare texts even out what a frequent
    one overshot. Evenly spaced places in this order have the proportions of the labels. A text is
    picked once half of its rows are due.
    """
    text_of_row, size_of_text = _texts_of(rows)
    texts = _sorted_texts(rows, text_of_row, size_of_text, seed)
    due_rows = ((np.arange(count) + 0.5) * rows.num_rows / count).astype(int)
    num_due_up_to = np.searchsorted(due_rows, np.cumsum(size_of_text[texts]))
    is_text_picked = np.zeros(len(size_of_text), dtype=bool)
    num_picked = 0
    for text, num_due in zip(texts, num_due_up_to, strict=True):
        if 2 * (num_due - num_picked) >= size_of_text[text]:
            is_text_picked[text] = True
            num_picked += size_of_text[text]
    return is_text_picked[text_of_row]


def _texts_of(rows: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the id of the text of each of N rows, (N,), and the rows of each of U texts, (U,)."""
    columns = present(TEXT_COLUMNS, rows)
    _, text_of_row, size_of_text = np.unique(
        text_digests(rows, columns), return_inverse=True, return_counts=True
    )
    return text_of_row, size_of_text


def _sorted_texts(
    rows: Dataset, text_of_row: np.ndarray, size_of_text: np.ndarray, seed: int
) -> np.ndarray:
    """Return the ids of the texts (U,) by label, then frequent ones first, then at random."""
    shuffled_rows = np.random.default_rng(seed).permutation(rows.num_rows)
    _, first_places = np.unique(text_of_row[shuffled_rows], return_index=True)
    example_rows = shuffled_rows[np.sort(first_places)]  # (U,): a row of each text, at random
    texts = text_of_row[example_rows]
    sort_keys = [-size_of_text[texts]]
    if "label" in rows.column_names:
        labels = np.array(rows["label"][:])
        if labels.ndim == 1:  # one label or number a row
            sort_keys.append(labels[example_rows])  # lexsort takes the last key first
    return texts[np.lexsort(sort_keys)]
