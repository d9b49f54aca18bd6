"""Texts that hold several labels: the marks between these, and the evidence that they divide."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from enum import Enum, auto
from itertools import chain

import regex

from .label_values import NUMBER, is_like_missing, looks, numbers_with_commas


class Evidence(Enum):
    """What shows that a mark is no part of a name."""

    NO_NAME_HAS_IT = auto()
    A_PART_RECURS = auto()
    ALL_PARTS_RECUR = auto()


# Marks between the labels of one cell, equal ones together, and their evidence. Each mark of the
# first groups divides the cells of a multi-label problem.
_SEPARATORS = {
    ";\uff1b\u061b": Evidence.NO_NAME_HAS_IT,  # also full-width and Arabic
    "|\uff5c\xa6": Evidence.NO_NAME_HAS_IT,
    "\n\r": Evidence.NO_NAME_HAS_IT,
    "\t": Evidence.NO_NAME_HAS_IT,
    ",\uff0c\u3001\u060c": Evidence.A_PART_RECURS,
    "/\uff0f": Evidence.A_PART_RECURS,
    "#\uff03": Evidence.ALL_PARTS_RECUR,
    "~\uff5e": Evidence.ALL_PARTS_RECUR,
    "\\": Evidence.ALL_PARTS_RECUR,
    "^": Evidence.ALL_PARTS_RECUR,
    # Dots in the middle of a line.
    "\u2022\xb7\u30fb\u25cf\u25a0\u25c6": Evidence.ALL_PARTS_RECUR,
}
# Between words, numbers and emoji.
_GAP = regex.compile(r"(?:[^\p{L}\p{M}\p{N}\p{So}]|[\u25cf\u25a0\u25c6])+")
# Marks that names rarely have: no blanks, dashes, brackets and apostrophes.
_MARK = regex.compile(r"[^\p{L}\p{M}\p{N}\p{So}\s\p{Pd}\p{Ps}\p{Pe}_.'\u2019]+")
_MAX_JOINED_LENGTH = 200  # no label is longer, so that other texts cost no time


def split_at(text: str, marks: str) -> list[str]:
    """Return the parts of a text between any of the marks."""
    return re.split(f"[{re.escape(marks)}]", text)


def separator_of(texts: Collection[str]) -> str | None:
    """Return the first marks that divide the cells of a multi-label problem, None for none."""
    for marks, evidence in _SEPARATORS.items():
        if evidence is Evidence.ALL_PARTS_RECUR:
            divides = any(_divisible(texts, marks, evidence))
        else:
            divides = any(not set(marks).isdisjoint(text) for text in texts)
        if divides:
            return marks
    return None


def several_in_one(texts: Collection[str], labels: Collection[str]) -> dict[str, str]:
    """Return the texts that may be several labels, with the mark between these.

    The evidence depends on the mark (`_SEPARATORS`). With some it is enough that they occur, with
    others a part must occur in another text; for a comma with a space, as in "Korea, South", or a
    mark such as #, every part must. Whatever else stands between, even a blank or a word, a text
    is several labels if it consists of those that other cells hold alone: "fun and sad" beside
    "fun" and "sad". Thus "New York" beside "York", "C#" beside "C" and "not-funny" beside "funny"
    are classes.
    """
    mark_of: dict[str, str] = {}
    for marks, evidence in _SEPARATORS.items():
        for text in _divisible(texts, marks, evidence):
            mark_of.setdefault(text, next(mark for mark in text if mark in marks))
    for text in texts:
        if numbers_with_commas(text):
            mark_of[text] = ","
        elif text not in mark_of and not NUMBER.fullmatch(text):
            pieces = joined_labels(text, labels)
            if pieces:
                mark_of[text] = pieces[1].strip() or " "
    return mark_of


def _divisible(texts: Collection[str], marks: str, evidence: Evidence) -> Iterator[str]:
    """Yield the texts that these marks divide, where there is enough evidence."""
    parts_of = {}
    for text in texts:
        if not set(marks).isdisjoint(text):
            parts_of[text] = {part.strip() for part in split_at(text, marks)} - {""}
    counts = Counter(chain.from_iterable(parts_of.values()))
    for text, parts in parts_of.items():
        recur = [counts[part] > 1 or part in texts for part in parts]
        if evidence is Evidence.NO_NAME_HAS_IT:
            is_enough = True
        elif evidence is Evidence.ALL_PARTS_RECUR:
            is_enough = all(recur)
        elif ", " in text:
            is_enough = all(recur) or not parts.isdisjoint(texts)
        else:
            is_enough = any(recur)
        if is_enough and len(parts) > 1:
            yield text


def joined_labels(
    text: str, labels: Collection[str], dead_ends: set[str] | None = None
) -> list[str]:
    """Return the labels of which a text consists, and what stands between: label, mark, label.

    The `labels` are in the form of `looks`. Without such labels the list is empty. `dead_ends` are
    the texts that are known to have none.
    """
    if dead_ends is None:
        dead_ends = set()
    if not labels or len(text) > _MAX_JOINED_LENGTH or text in dead_ends:
        return []
    if len(set(text)) == 1:
        return []  # $$$ and *** are grades
    for cut, begins in _cuts(text):
        first = looks(text[:cut])
        if first not in labels:
            continue
        for begin in begins:
            rest = text[begin:]
            rest_form = looks(rest)
            if rest_form == first:
                continue
            more = [rest]
            if rest_form not in labels:
                more = joined_labels(rest, labels, dead_ends)
            if more:
                return [text[:cut], text[cut:begin], *more]
    dead_ends.add(text)
    return []


def _cuts(text: str) -> Iterator[tuple[int, list[int]]]:
    """Yield each place where a first label may end, and those where the rest may then begin.

    Between the two is a mark, with one word at most.
    """
    gaps = [match.span() for match in _GAP.finditer(text)]
    for number, (start, stop) in enumerate(gaps):
        begins = list(range(start + 1, stop + 1))
        if number + 1 < len(gaps):
            next_start, next_stop = gaps[number + 1]
            begins += range(next_start + 1, next_stop + 1)
        for cut in range(start, stop):
            yield cut, [begin for begin in begins if begin > cut]


def names_with_others(names: Sequence[str]) -> list[str]:
    """Return the names that hold another one beside a mark, as fun#sad beside fun."""
    labels = set(map(looks, names))
    holders = []
    for name in names:
        if is_like_missing(name):
            continue
        parts = {part.strip() for part in _MARK.split(name)} - {""}
        has_other = len(parts) > 1 and not labels.isdisjoint(map(looks, parts))
        if has_other or joined_labels(name, labels):
            holders.append(name)
    return holders
