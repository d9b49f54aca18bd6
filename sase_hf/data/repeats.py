"""Texts that stand in several rows: in two splits, or with two labels.

Two texts are equal here if they differ only in case, in blanks, or in two encodings of one
character. A row is kept as two digests of 8 bytes, so that a million rows take 16 MB.
"""

import hashlib
import logging
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations

import numpy as np
from datasets import Dataset

logger = logging.getLogger(__name__)

BATCH = 1000  # rows held in memory at once
SHOWN_NAMES = {"train": "training"}  # of splits, in the log
MIXER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying by it loses nothing


def text_digests(rows: Dataset, columns: Sequence[str]) -> np.ndarray:
    """Return a digest of the texts of each of N rows: (N,), equal for equal texts."""
    return _digests(
        "\0".join(map(_comparable, texts))
        for batch in rows.select_columns(list(columns)).iter(BATCH)
        for texts in zip(*(batch[name] for name in columns), strict=True)
    )


def warn_of_repeats(splits: Mapping[str, Dataset], text_columns: Sequence[str]) -> None:
    """Log how many texts stand in two splits, and how many have several labels in one split.

    Only the text columns that both of two splits have are compared.
    """
    known = [_Split(SHOWN_NAMES.get(name, name), rows) for name, rows in splits.items()]
    for split in known:
        _warn_of_contradictions(split, split.columns_of(text_columns))
    for earlier, later in combinations(known, 2):
        _warn_of_overlap(earlier, later, later.columns_of(earlier.columns_of(text_columns)))


class _Split:
    """The rows of a split, each text and label digested once."""

    def __init__(self, name: str, rows: Dataset) -> None:
        self.name = name
        self.rows = rows
        self.has_labels = "label" in rows.column_names
        self._texts: dict[tuple[str, ...], np.ndarray] = {}

    def columns_of(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those of the columns that the split has."""
        return tuple(name for name in names if name in self.rows.column_names)

    def texts(self, columns: tuple[str, ...]) -> np.ndarray:
        """Return a digest of the texts of each of N rows: (N,)."""
        if columns not in self._texts:
            self._texts[columns] = text_digests(self.rows, columns)
        return self._texts[columns]

    def labelled_texts(self, columns: tuple[str, ...]) -> np.ndarray:
        """Return a digest of the texts and the label of each of N rows: (N,)."""
        return self.texts(columns) ^ (self._labels * MIXER)

    @cached_property
    def _labels(self) -> np.ndarray:
        labels = self.rows.select_columns("label")
        return _digests(repr(label) for batch in labels.iter(BATCH) for label in batch["label"])


def _warn_of_contradictions(split: _Split, columns: tuple[str, ...]) -> None:
    if not split.has_labels:
        return
    _, first_rows = np.unique(split.labelled_texts(columns), return_index=True)
    _, num_labels = np.unique(split.texts(columns)[first_rows], return_counts=True)
    num_contradicting = int((num_labels > 1).sum())
    if num_contradicting:
        logger.warning(
            f"{num_contradicting:,} of {len(num_labels):,} different texts in the {split.name} "
            "rows have more than one label; correct the labels, or delete such rows"
        )


def _warn_of_overlap(earlier: _Split, later: _Split, columns: tuple[str, ...]) -> None:
    is_known = np.isin(later.texts(columns), earlier.texts(columns))
    num_known = int(is_known.sum())
    if num_known == 0:
        return
    note = (
        f"{num_known:,} of {len(is_known):,} {later.name} texts are also in the {earlier.name} rows"
    )
    if earlier.has_labels and later.has_labels:
        is_same = np.isin(later.labelled_texts(columns), earlier.labelled_texts(columns))
        num_changed = int((is_known & ~is_same).sum())
        if num_changed:
            note += f", {num_changed:,} of them with another label"
    logger.warning(
        f"{note}: results on the {later.name} rows look better than they are on new texts; "
        "delete these rows in one of the two"
    )


def _digests(parts: Iterable[str]) -> np.ndarray:
    """Return a digest of each part: (N,), uint64."""
    return np.fromiter(_digests_of(parts), "V8").view(np.uint64)


def _digests_of(parts: Iterable[str]) -> Iterator[bytes]:
    for part in parts:
        yield hashlib.blake2b(part.encode(), digest_size=8).digest()


def _comparable(text: str) -> str:
    """Return a text in lower case, composed, with single blanks."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
