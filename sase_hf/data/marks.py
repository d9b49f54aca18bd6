"""Marks of people on texts: the reasons for a label, and words that are none.

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
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import compress

import numpy as np
import regex
from datasets import Dataset

from ..utils.errors import refusal
from ..utils.text import UNSPACED, one_line
from .columns import AGAINST_COLUMNS, SPAN_COLUMNS
from .corrections import Row, with_rows
from .table import TEXT_COLUMNS, present

logger = logging.getLogger(__name__)

# From how many rows on a mark against speaks of the words, and not of one row alone.
LEAST_MARKED = 2

# A word, or a single character of punctuation or of a script without blanks between words. Marks
# behind a character are a part of it, as in its composed form.
_WORD = regex.compile(rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{UNSPACED}]]+|\S\p{{M}}*", regex.VERSION1)
_CUT = regex.compile(r"\s*\0[\0\s]*")  # NUL stands for each character that is cut
_SAYS_SOMETHING = regex.compile(r"[^\p{P}\s]")  # what is no punctuation

ORIGINAL = "original"  # the column of the first texts from which words are left out, as they were

# The columns of each text, of the reasons in it, and of the words that are none.
SIDES = tuple(zip(TEXT_COLUMNS, SPAN_COLUMNS, AGAINST_COLUMNS, strict=True))

Span = tuple[int, int]
Marks = Sequence[Sequence[int]]  # spans, also those that a dataset holds
Phrase = tuple[str, ...]  # words, as `words_in` returns them


def parse_spans(cell: object, text: str) -> list[Span]:
    """Return the spans of a cell: a list of pairs, or JSON of one; none if the cell is empty.

    ValueError says what came and what is allowed.
    """
    value = cell
    if isinstance(cell, str):
        with suppress(ValueError):  # a cell that is no JSON is refused below
            value = json.loads(cell.strip() or "null")
    if value is None:
        return []
    spans = []
    for span in value if isinstance(value, list) else [value]:
        match span:
            case [int(start), int(end)] if 0 <= start < end <= len(text):
                spans.append((start, end))
            case _:
                raise refusal(
                    f"{reprlib.repr(span)} is no mark on the text",
                    "allowed are [[start, end], ...], whole numbers with 0 <= start < end <= "
                    f"{len(text)}, or an empty cell for no marks",
                )
    return spans


def marked_tokens(offsets: Iterable[Sequence[int]], spans: Marks | None) -> list[int]:
    """Return 1 for each token that shares a character with a span, else 0.

    `offsets` are the start and end of each token in the text; an empty token is never marked.
    """
    marks = []
    for start, end in offsets:
        is_marked = any(max(start, first) < min(end, last) for first, last in spans or ())
        marks.append(int(is_marked))
    return marks


def count_marked(rows: Dataset | None) -> int | None:
    """Count the tokenized rows with a marked token; None if they have no column of marks."""
    if rows is None or "rationale" not in rows.column_names:
        return None
    batches = rows.select_columns("rationale").iter(1000)
    return sum(any(marks) for batch in batches for marks in batch["rationale"])


def without_wrong_reasons(splits: Mapping[str, Dataset]) -> tuple[dict[str, Dataset], list[Phrase]]:
    """Return splits whose training rows lack the words that are no reason for a label, and these.

    These are the marks against, and their phrases wherever else they stand, if `LEAST_MARKED` rows
    have such marks, validation rows included. What is marked as a reason in a row stays in it. A
    row goes if nothing or only punctuation is left of one of its texts: it would teach that
    punctuation is the reason. The log lists the phrases; the column `ORIGINAL` has the first text
    of each row that changes, as it was.
    """
    # Rows with equal texts are one, since a correction replaces all of them.
    marked = dict.fromkeys(_marked_against(splits.values()))
    if not marked or "train" not in splits:
        return dict(splits), []
    num_rows = Counter(phrase for phrase, *_ in marked)
    phrases = [phrase for phrase, count in num_rows.items() if count >= LEAST_MARKED]
    return {**splits, "train": _without_phrases(splits["train"], phrases)}, phrases


def _marked_against(splits: Iterable[Dataset]) -> Iterator[tuple[Phrase, str, str | None]]:
    """Yield each phrase that is marked against, and the texts of its row."""
    for rows in splits:
        if present(AGAINST_COLUMNS, rows):
            for row in rows:
                for name, _, against in SIDES:
                    for span in row.get(against) or ():
                        words = words_in(row[name])
                        phrase = tuple(compress(words.values(), marked_tokens(words, [span])))
                        if phrase:  # else the mark is on blanks
                            yield phrase, row["text"], row.get("text_pair")


def _without_phrases(rows: Dataset, phrases: Sequence[Phrase]) -> Dataset:
    """Return rows without what is marked against and without phrases; the log says of how many."""
    known = set(phrases)
    changed: dict[int, Row] = {}
    empty = []
    for number, row in enumerate(rows):
        row[ORIGINAL] = row["text"]
        for name, spans, against in SIDES:
            text = row.get(name, "")
            marks = [row.get(column) or () for column in (against, spans)]
            row[name], row[spans] = without_words(text, known, *marks)
            if row[name] != text:
                changed[number] = row
                if not _SAYS_SOMETHING.search(row[name]):
                    empty.append(number)
    words = ", ".join(f'"{" ".join(phrase)}"' for phrase in phrases)
    logger.info(
        f"words marked against: left out of {len(changed):,} training rows, {len(empty):,} rows "
        f"held no others; of all rows: {one_line(words)}"
    )
    left = with_rows(rows, changed, {ORIGINAL: rows.features["text"]})
    left = left.select(np.delete(np.arange(rows.num_rows), empty))
    return left.remove_columns(present(AGAINST_COLUMNS, left))


def words_in(text: str) -> dict[Span, str]:
    """Return the words of a text in lower case, composed, by their places.

    Each character of punctuation is a word of its own.
    """
    return {
        word.span(): unicodedata.normalize("NFC", word[0].casefold())
        for word in _WORD.finditer(text)
    }


def without_words(
    text: str, phrases: set[Phrase], against: Marks, reasons: Marks
) -> tuple[str, Marks]:
    """Return a text without phrases and the words that marks against touch, and its reasons.

    These stay, and move with their words. One blank takes the place of neighbours that are cut.
    """
    places = words_in(text)
    words = tuple(places.values())
    is_cut = marked_tokens(places, against)
    for length in {len(phrase) for phrase in phrases}:
        for first in range(len(words) - length + 1):
            last = first + length
            if words[first:last] in phrases:
                is_cut[first:last] = [1] * length
    if not any(is_cut):
        return text, reasons
    characters = list(text)
    for start, end in compress(places, is_cut):
        characters[start:end] = "\0" * (end - start)
    for start, end in reasons:
        characters[start:end] = text[start:end]
    cut = "".join(characters)
    moved = [(len(_joined(cut[:start])), len(_joined(cut[:end]))) for start, end in reasons]
    return _joined(cut), moved


def _joined(text: str) -> str:
    """Return a text without the characters that are NUL."""
    return _CUT.sub(" ", text).lstrip()
