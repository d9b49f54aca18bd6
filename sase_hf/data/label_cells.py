"""The labels that one cell of a column spells: one, a list of several, or none."""

import ast
import json
import re
import reprlib
from collections.abc import Iterable, Sequence
from contextlib import suppress

import regex

from ..models.answers import MULTI_LABEL, SINGLE_LABEL
from ..utils.errors import refusal
from .joined_labels import joined_labels, separator_of, several_in_one, split_at
from .label_values import class_name, is_like_missing, is_unlabelled, looks, numbers_with_commas

# What other programs write for a list: {fun,sad}, ('fun',), {'fun'}, <fun><sad>.
_BRACKETED = regex.compile(
    r"""\([^(),;|]*[,;|][^()]*\) | \{[^{},;|]*[,;|][^{}]*\} | [({](['"]).*\1[)}]
    | (<[^<>]+>){2,} | (\{[^{}]+\}){2,}""",
    flags=regex.VERBOSE | regex.DOTALL,
)
# numpy prints an array without commas; read as Python, 'a' 'b' would be 'ab'.
_ARRAY = re.compile(r"""\[.*['"]\s+['"].*\]|\[[\d.]+(\s+[\d.]+)+\s*\]""", flags=re.DOTALL)
_MAX_JOINED_TEXTS = 10_000  # no column has more labels, so that other texts cost no time


class CellFault(ValueError):
    """A cell that cannot be read; the arguments are its row and the reason."""


class CellReader:
    """Reads several labels in one text, so that they never become one class.

    A text such as `['a', 'b']`, in JSON or Python, is read as a list. In a multi-label problem any
    other text is split at the separator found in the `cells`; without one, it is split if its parts
    are labels that other cells hold alone. In a single-label
    problem every text is a class; a list of one item is this item. The texts of known `names` are
    never divided. `problem_type` is None if it is to be inferred.
    """

    def __init__(
        self, cells: Iterable[object], problem_type: str | None, names: Sequence[str]
    ) -> None:
        cells = list(cells)
        self.kind = problem_type
        self.names = names
        self.known = {*names, *map(str.strip, names)}
        texts = {cell.strip() for cell in cells if isinstance(cell, str)} - self.known
        texts = {text for text in texts if not (_is_in_brackets(text) or is_like_missing(text))}
        self.separator = separator_of(texts)
        self.labels: set[str] = set()  # that texts can consist of, by their `looks`
        if 0 < len(texts) <= _MAX_JOINED_TEXTS:
            numbers = {str(cell) for cell in cells if isinstance(cell, int)}
            self.labels = set(map(looks, texts | self.known | numbers))
        self.doubtful: dict[str, str] = {}  # texts that may be several labels -> the mark between
        if problem_type is None:
            self.doubtful = several_in_one(texts, self.labels)
        self.has_lists_of_one = _are_lists_of_one(cells)

    def read(self, cell: object) -> object:
        """Return the label or labels of a cell; ValueError for a text that may be several."""
        if self.kind == SINGLE_LABEL:
            return self._single(cell)
        if not isinstance(cell, str) or is_unlabelled(cell, self.names):
            return cell
        is_multi_label = self.kind == MULTI_LABEL
        text = cell.strip()
        if text in self.known:
            return [text] if is_multi_label else cell
        self._refuse_doubtful(text)
        items = _spelt_list(text)
        if items is not None:
            return items
        return self._divided(text) if is_multi_label else cell

    def read_all(self, cells: Iterable[object]) -> list[object]:
        """Return the label or labels of each cell; CellFault for a cell that cannot be read."""
        values = []
        for row, cell in enumerate(cells):
            try:
                value = self.read(cell)
                for item in value if isinstance(value, list) else [value]:
                    if isinstance(item, str):
                        class_name(item)  # a text that cannot be a name is refused with its row
            except ValueError as reason:
                raise CellFault(row, reason) from None
            values.append(value)
        return values

    def _single(self, cell: object) -> object:
        """Return the item of a list of one, None for an empty list; other cells as they are."""
        items = cell
        if isinstance(cell, str) and self.has_lists_of_one:
            items = _spelt_list(cell.strip())
        if not isinstance(items, list):
            return cell
        if self.has_lists_of_one and len(items) < 2:
            return items[0] if items else None
        if not any(isinstance(item, str) for item in items):
            return cell  # probabilities
        if len(items) == 1:
            return items[0]
        raise refusal(
            f"{reprlib.repr(items)} has {len(items)} labels, but --problem_type {SINGLE_LABEL} "
            "reads one a row",
            f"leave one, or give --problem_type {MULTI_LABEL}",
        )

    def _refuse_doubtful(self, text: str) -> None:
        as_class = f"--problem_type {SINGLE_LABEL} if it is one class"
        numbers = numbers_with_commas(text)
        if numbers and text in self.doubtful:
            raise refusal(
                f"{text!r} may be a number or several labels",
                f"write {' or '.join(numbers)} if it is a number, add --problem_type "
                f"{MULTI_LABEL} if it is the labels {' and '.join(text.split(','))}, or {as_class}",
            )
        if text in self.doubtful:
            raise refusal(
                f"{reprlib.repr(text)} looks like several labels, with {self.doubtful[text]!r} "
                "between",
                f"add --problem_type {MULTI_LABEL} if it is, or {as_class}",
            )
        if text.startswith("{") and ":" in text:
            raise refusal(
                f"{reprlib.repr(text)} looks like probabilities of labels",
                f"give these in JSON Lines or Parquet, or add {as_class}",
            )

    def _divided(self, text: str) -> list[str]:
        """Return the labels of a text in a multi-label problem."""
        if is_like_missing(text):
            return [text]  # n/a is not n and a
        if self.separator is not None:
            parts = split_at(text, self.separator)
        else:
            parts = joined_labels(text, self.labels)[::2] or [text]
        return [part.strip() for part in parts if part.strip()]


def _spelt_list(text: str) -> list[str | int | float] | None:
    """Return the list of texts and numbers that a text spells, None if it spells none."""
    if not _is_in_brackets(text):
        return None
    if _ARRAY.fullmatch(text):
        raise refusal(f"{reprlib.repr(text)} is a list without commas", "write ['a', 'b']")
    # (1,500) is no tuple, but how a spreadsheet writes -1500.
    types = (str, int, float) if text.startswith("[") else (str,)
    for parse in (json.loads, ast.literal_eval):  # true and false are JSON's alone
        with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            items = parse(text)
            if isinstance(items, dict | str):
                continue
            if all(isinstance(item, types) for item in items):
                return list(items)
    raise refusal(
        f"{reprlib.repr(text)} looks like a list, but cannot be read",
        f"write ['a', 'b'], or add --problem_type {SINGLE_LABEL} if it is one class",
    )


def _is_in_brackets(text: str) -> bool:
    """Return whether a text looks like a list; a single name may stand in ( ), { } or < >."""
    return text[:1] + text[-1:] == "[]" or _BRACKETED.fullmatch(text) is not None


def _are_lists_of_one(cells: Iterable[object]) -> bool:
    """Return whether all cells with a label are lists, of one item at most."""
    longest = 0
    for cell in cells:
        if is_unlabelled(cell):
            continue
        items = cell
        if isinstance(cell, str):
            items = None
            with suppress(ValueError):
                items = _spelt_list(cell.strip())
        if not isinstance(items, list) or len(items) > 1:
            return False
        longest = max(longest, len(items))
    return longest == 1
