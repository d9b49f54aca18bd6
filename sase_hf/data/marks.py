"""What people mark and correct: the reasons for a label, words that are none, and other labels.

A mark is a span [start, end], counted in characters (code points) of the text as it stands in the
file, from 0, the end exclusive, as in `text[start:end]`.

Whoever marks the words of ten rows as no reason means all rows with these words. A model that reads
the words even in a few rows takes them for a reason, and one that is told to attend to other words
takes them in through its states. So they are left out wherever they stand in the training rows.

A phrase is a sequence of words, in any case of letters, in any encoding of a character and with any
blanks between them. A mark on a part of a word is one on the word.
"""

import json
import logging
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, compress
from typing import Any

import regex
from datasets import Dataset, concatenate_datasets

from ..utils.text import UNSPACED, refusal
from .columns import AGAINST_COLUMNS, SPAN_COLUMNS
from .table import TEXT_COLUMNS, present, text_digests

logger = logging.getLogger(__name__)

# From how many rows on a mark against speaks of the words, and not of one row alone.
LEAST_MARKED = 2

# A word, or a single character of punctuation or of a script without blanks between words. Marks
# behind a character are a part of it, as in its composed form.
_WORD = regex.compile(rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]+|\S\p{{M}}*", regex.VERSION1)

ORIGINAL = "original"  # the column of the first texts from which words are left out, as they were

# The columns of each text, of the reasons in it, and of the words that are none.
SIDES = tuple(zip(TEXT_COLUMNS, SPAN_COLUMNS, AGAINST_COLUMNS, strict=True))

Span = tuple[int, int]
Marks = Sequence[Sequence[int]]  # spans, also those that a dataset holds
Phrase = tuple[str, ...]  # words, as `words_in` returns them


def parse_spans(cell: Any, text: str) -> list[Span]:
    """Return the spans of a cell: a list of pairs, or JSON of one; none if the cell is empty.

    ValueError says what came and what is allowed.
    """
    spans = json.loads(cell.strip() or "null") if isinstance(cell, str) else cell
    if spans is None:
        return []
    for span in spans if isinstance(spans, list) else [spans]:
        match span:
            case [int(start), int(end)] if 0 <= start < end <= len(text):
                continue
        raise refusal(
            f"{span!r:.80} is no mark on the text",
            f"allowed are [[start, end], ...] with 0 <= start < end <= {len(text)}",
        )
    return spans


def marked_tokens(offsets: Iterable[Sequence[int]], spans: Marks | None) -> list[int]:
    """Return 1 for each token that shares a character with a span, else 0.

    `offsets` are the start and end of each token in the text; an empty token is never marked.
    """
    return [
        int(any(max(start, first) < min(end, last) for first, last in spans or ()))
        for start, end in offsets
    ]


def with_corrections(splits: Mapping[str, Dataset], corrections: Dataset) -> dict[str, Dataset]:
    """Return splits with corrections in place of the rows that have the same texts.

    Test rows stay as they are. Corrections of other texts become training rows. Texts are the same
    as in `table`; of two corrections of one text the later counts. ValueError is raised without
    a train split.
    """
    if "train" not in splits:
        raise refusal(
            "--corrections_file is given, but there are no training rows",
            "add --train_file, or leave it out",
        )
    numbers = {text: number for number, text in enumerate(text_digests(corrections))}
    new = {*numbers.values()}
    changed = dict(splits)
    for name in ("validation", "train"):
        if name not in splits:
            continue
        rows = splits[name]
        places = enumerate(text_digests(rows), start=corrections.num_rows)
        order = [numbers.get(text, place) for place, text in places]
        new -= {*order}
        if name == "train":
            order += sorted(new)
        changed[name] = concatenate_datasets([corrections, rows]).select(order)
    logger.info(f"corrections: {len(numbers):,} texts, training rows added: {len(new):,}")
    return changed


def without_wrong_reasons(splits: Mapping[str, Dataset]) -> tuple[dict[str, Dataset], list[Phrase]]:
    """Return splits whose training rows lack the words that are no reason for a label, and these.

    These are the marks against, and their phrases wherever else they stand, if `LEAST_MARKED` rows
    have such marks, validation rows included. The log lists the phrases; the column `ORIGINAL` has
    the first text of each row as it was.
    """
    # Rows with equal texts are one, since a correction replaces all of them.
    texts_of: dict[Phrase, set[tuple[str, ...]]] = defaultdict(set)
    marked = (rows for rows in splits.values() if present(AGAINST_COLUMNS, rows))
    for row in chain.from_iterable(marked):
        texts = tuple(row[name] for name in TEXT_COLUMNS if name in row)
        for text, against in zip(texts, AGAINST_COLUMNS, strict=False):
            words = words_in(text)
            for span in row.get(against) or ():
                phrase = tuple(compress(words.values(), marked_tokens(words, [span])))
                texts_of[phrase].add(texts)
    if not texts_of or "train" not in splits:
        return dict(splits), []
    phrases = [phrase for phrase, texts in texts_of.items() if len(texts) >= LEAST_MARKED]

    def blanked(row: dict[str, Any]) -> dict[str, Any]:
        row[ORIGINAL] = row["text"]
        for name, _, against in SIDES:
            if name in row:
                row[name] = without_words(row[name], phrases, row.get(against))
        return row

    rows = splits["train"]
    left = rows.map(blanked, remove_columns=present(AGAINST_COLUMNS, rows), keep_in_memory=True)
    if phrases:
        left_out = list(map(" ".join, phrases))
        logger.info(f"words marked against are left out of the training rows: {left_out}")
    return {**splits, "train": left}, phrases


def words_in(text: str) -> dict[Span, str]:
    """Return the words of a text in lower case, composed, by their places.

    Each character of punctuation is a word of its own.
    """
    return {
        word.span(): unicodedata.normalize("NFC", word[0].casefold())
        for word in _WORD.finditer(text)
    }


def without_words(text: str, phrases: Collection[Phrase], against: Marks | None) -> str:
    """Return a text with blanks for phrases and the words that marks against touch.

    Each character becomes a blank, so that marks stay right.
    """
    places = words_in(text)
    words = tuple(places.values())
    is_cut = marked_tokens(places, against)
    for length in set(map(len, phrases)):
        for first in range(len(words) - length + 1):
            last = first + length
            if words[first:last] in phrases:
                is_cut[first:last] = [1] * length
    characters = list(text)
    for start, end in compress(places, is_cut):
        characters[start:end] = " " * (end - start)
    return "".join(characters)
