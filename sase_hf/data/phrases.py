"""Phrases that are no reason for a label, and training rows without them.

Whoever marks the words of ten rows as no reason means all rows with these words. A model that reads
the words even in a few rows takes them for a reason, and one that is told to attend to other words
takes them in through its states. So they are left out wherever they stand in the training rows.

A phrase is a sequence of words, in any case of letters, in any encoding of a character and with any
blanks between them. A mark on a part of a word is one on the word.
"""

import logging
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import regex
from datasets import Dataset

from ..models.pipeline_self_attentive import UNSPACED
from ..utils.errors import refusal
from ..utils.text import one_line
from .columns import AGAINST_COLUMNS, SPAN_COLUMNS
from .rationales import Span
from .repeats import text_digests
from .sources import TEXT_COLUMNS, present, scratch_file, writing_rows

logger = logging.getLogger(__name__)

# From how many rows on a mark against speaks of the words, and not of one row alone.
LEAST_MARKED = 2

# A word, or a single character of punctuation or of a script without blanks between words. Marks
# behind a character are a part of it, as in its composed form.
_WORD = regex.compile(rf"[[\p{{L}}\p{{M}}\p{{N}}]--{UNSPACED}]+|\S\p{{M}}*", regex.VERSION1)
_SAYS_SOMETHING = regex.compile(r"[^\p{P}\s]")  # what is no punctuation

Phrase = tuple[str, ...]  # words as `_form` returns them
Place = Sequence[int]  # a span, also one that a dataset holds
Row = Mapping[str, Any]


class Word(NamedTuple):
    """A word of a text, as `_form` returns it, and its span."""

    text: str
    start: int
    end: int


def words_in(text: str) -> list[Word]:
    """Return the words of a text, each character of punctuation one of its own."""
    return [Word(_form(found[0]), *found.span()) for found in _WORD.finditer(text)]


def _form(text: str) -> str:
    """Return a text in lower case, its characters composed."""
    return unicodedata.normalize("NFC", text.casefold())


class Phrases:
    """Phrases that are looked for in texts."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self._by_first_word: dict[str, list[Phrase]] = defaultdict(list)
        for phrase in phrases:
            self._by_first_word[phrase[0]].append(phrase)

    def found_in(self, text: str) -> Iterator[tuple[Phrase, Span]]:
        """Yield each phrase and its span, for all places where it stands."""
        # Most texts end here, before the slower search for places.
        if self._by_first_word.keys().isdisjoint(_WORD.findall(_form(text))):
            return
        words = words_in(text)
        for place, word in enumerate(words):
            for phrase in self._by_first_word.get(word.text, ()):
                stretch = words[place : place + len(phrase)]
                if tuple(other.text for other in stretch) == phrase:
                    yield phrase, (word.start, stretch[-1].end)


def without_wrong_reasons(splits: Mapping[str, Dataset]) -> tuple[dict[str, Dataset], list[Phrase]]:
    """Return splits whose training rows lack the words that are no reason for a label, and these.

    These are the marks against, and their phrases wherever else they stand, if `LEAST_MARKED` rows
    have such marks, validation rows included. What is marked as a reason in a row stays in it. A
    row goes if nothing or only punctuation is left of one of its texts: it would teach that
    punctuation is the reason. The log lists the phrases. Other rows do not change, but only
    validation rows keep their marks against, which a report shows.
    """
    changed = dict(splits)
    left_out: dict[Phrase, int] = {}
    if "train" in splits:
        marked = marked_against(splits.values())
        left_out = {phrase: count for phrase, count in marked.items() if count >= LEAST_MARKED}
        num_alone = len(marked) - len(left_out)
        if num_alone:
            noun = "phrase" if num_alone == 1 else "phrases"
            logger.info(f"left out of one row each, which marks them against: {num_alone:,} {noun}")
        if marked:
            changed["train"] = _without_phrases(splits["train"], left_out)
    for name, rows in changed.items():
        if name != "validation":
            changed[name] = rows.remove_columns(present(AGAINST_COLUMNS, rows))
    return changed, list(left_out)


def marked_against(splits: Iterable[Dataset]) -> Counter[Phrase]:
    """Count the rows in which each phrase is marked against.

    Rows with equal texts count once, since a correction replaces all of them. A mark against that
    overlaps a reason of its row does not count, which the log says.
    """
    digests_of_phrase: dict[Phrase, set[int]] = defaultdict(set)
    num_overlapping = 0
    for rows in splits:
        names = present(AGAINST_COLUMNS, rows)
        if not names:
            continue
        texts = present(TEXT_COLUMNS, rows)
        columns = [*texts, *names, *present(SPAN_COLUMNS, rows)]
        phrases_of_row: dict[int, set[Phrase]] = {}
        for number, row in enumerate(rows.select_columns(columns)):
            phrases, num_overlapping_of_row = _phrases_against(row)
            num_overlapping += num_overlapping_of_row
            if phrases:
                phrases_of_row[number] = phrases
        digests = text_digests(rows.select([*phrases_of_row]), texts).tolist()
        for digest, phrases in zip(digests, phrases_of_row.values(), strict=True):
            for phrase in phrases:
                digests_of_phrase[phrase].add(digest)
    if num_overlapping:
        logger.warning(
            "marks against that overlap a reason in the same row, and are not read: "
            f"{num_overlapping:,}"
        )
    return Counter({phrase: len(digests) for phrase, digests in digests_of_phrase.items()})


def _phrases_against(row: Row) -> tuple[set[Phrase], int]:
    """Return the phrases that a row marks against, and the number of those that are reasons."""
    phrases = set()
    num_overlapping = 0
    for name, spans, against in zip(TEXT_COLUMNS, SPAN_COLUMNS, AGAINST_COLUMNS, strict=True):
        if name not in row:
            continue
        text = row[name]
        for start, end in _whole(text, row.get(against, ())):
            if _is_touched((start, end), row.get(spans, ())):
                num_overlapping += 1
            else:
                phrases.add(_words_of(text[start:end]))
    return phrases, num_overlapping


def _words_of(text: str) -> Phrase:
    return tuple(word.text for word in words_in(text))


def _whole(text: str, spans: Iterable[Place]) -> Iterator[Span]:
    """Yield the spans of the words that each of some spans touches; none for blanks."""
    words = words_in(text) if spans else []
    for span in spans:
        touched = [word for word in words if _is_touched((word.start, word.end), [span])]
        if touched:
            yield touched[0].start, touched[-1].end


def _is_touched(place: Place, spans: Iterable[Place]) -> bool:
    """Return whether a span shares a character with one of the others."""
    first, last = place
    return any(max(first, start) < min(last, end) for start, end in spans)


# ---- leaving out ---------------------------------------------------------------------------------


def _without_phrases(rows: Dataset, left_out: Mapping[Phrase, int]) -> Dataset:
    """Return rows without what is marked against, and without phrases that many rows mark so."""
    phrases = Phrases(left_out)
    num_rows: Counter[Phrase] = Counter()
    have_text = []

    def leave_out(row: dict[str, Any]) -> dict[str, Any]:
        changed, standing = _row_without(row, phrases)
        num_rows.update(standing)
        have_text.append(_has_text(row, changed))
        return changed

    with writing_rows():
        rows = rows.map(
            leave_out,
            features=rows.features,
            cache_file_name=scratch_file() if rows.cache_files else None,
            load_from_cache_file=False,
            desc="Leaving out phrases",
        )
    for phrase, count in left_out.items():
        words = " ".join(phrase)
        message = f'left out of {num_rows[phrase]:,} training rows: "{words}", marked against in '
        logger.info(one_line(f"{message}{count:,} rows"))
    if not any(have_text):
        raise refusal(
            "the training rows hold nothing but what is marked against",
            "mark fewer words, or give --rationale_against_column_name ''",
        )
    num_empty = have_text.count(False)
    if not num_empty:
        return rows
    logger.info(f"training rows left out whole, since no other word is in a text: {num_empty:,}")
    return rows.select(np.flatnonzero(have_text))


def _has_text(row: Row, changed: Row) -> bool:
    """Return whether more than punctuation is left of each text of a row, or a mark of a reason."""
    for text, spans in zip(TEXT_COLUMNS, SPAN_COLUMNS, strict=True):
        if text not in row or changed[text] == row[text] or row.get(spans):
            continue
        if not _SAYS_SOMETHING.search(changed[text]):
            return False
    return True


def _row_without(row: Row, phrases: Phrases) -> tuple[dict[str, Any], set[Phrase]]:
    """Return a row without what is marked against and without phrases, and which of these it had.

    What is marked as a reason stays.
    """
    changed = dict(row)
    standing = set()
    for text, spans, against in zip(TEXT_COLUMNS, SPAN_COLUMNS, AGAINST_COLUMNS, strict=True):
        if text not in row:
            continue
        cuts = list(_whole(row[text], row.get(against, ())))
        for phrase, span in phrases.found_in(row[text]):
            standing.add(phrase)
            cuts.append(span)
        marks = row.get(spans, ())
        cuts = [cut for cut in cuts if not _is_touched(cut, marks)]
        if cuts:
            changed[text], moved = cut_out(row[text], cuts, marks)
            if spans in row:
                changed[spans] = moved
    return changed, standing


def cut_out(text: str, cuts: Iterable[Place], marks: Iterable[Place]) -> tuple[str, list[Span]]:
    """Return a text without some spans, and where the marks on it are then.

    Blanks behind a span go with it; where none is before it, one takes its place.
    """
    is_cut = [False] * len(text)
    for start, end in cuts:
        while end < len(text) and text[end].isspace():
            end += 1
        is_cut[start:end] = [True] * (end - start)
    kept: list[str] = []
    places = []  # of each character in the new text
    for character, is_left_out in zip(text, is_cut, strict=True):
        places.append(len(kept))
        if not is_left_out:
            kept.append(character)
        elif kept and not kept[-1].isspace():
            kept.append(" ")
    places.append(len(kept))
    return "".join(kept), [(places[start], places[end]) for start, end in marks]
