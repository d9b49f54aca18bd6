"""Marks of people on texts, the reasons for a label, as spans of characters.

A span is [start, end], counted in characters (code points) of the text as it stands in the file,
from 0, the end exclusive, as in `text[start:end]`.
"""

import json
import reprlib
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import regex
import torch
from datasets import Dataset
from transformers import DataCollatorWithPadding

from ..utils.errors import refusal

Span = tuple[int, int]


def parse_spans(cell: object, text: str) -> list[Span]:
    """Return the spans of a cell: a list of pairs, or JSON of one; none if the cell is empty.

    ValueError says what came and what is allowed.
    """
    spans = cell
    if isinstance(cell, str):
        with suppress(ValueError, RecursionError):  # a cell that is no JSON is refused below
            spans = json.loads(cell.strip() or "null")
    if spans is None:
        return []
    if not isinstance(spans, list):
        raise _no_mark(cell, text)
    marks = []
    for span in spans:
        is_pair = isinstance(span, list) and [type(place) for place in span] == [int, int]
        if not is_pair:
            raise _no_mark(span, text)
        start, end = span
        if not 0 <= start < end <= len(text):
            raise _no_mark(span, text)
        marks.append((_start_of_character(text, start), end))
    return marks


def _no_mark(value: object, text: str) -> Exception:
    """Return the error for a value that is no span of a text."""
    return refusal(
        f"{reprlib.repr(value)} is no mark on the text",
        f"allowed are [[start, end], ...], whole numbers with 0 <= start < end <= {len(text)}, or "
        "an empty cell for no marks",
    )


def _start_of_character(text: str, place: int) -> int:
    """Return where the character at a place begins, if code points before it compose with it.

    A tokenizer composes them, and its token then ends before the code points that follow the first.
    """
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return place
    for character in regex.finditer(r"\X", text):
        if character.start() <= place < character.end():
            is_composed = not unicodedata.is_normalized("NFC", character[0])
            return character.start() if is_composed else place
    return place


def marked_tokens(offsets: Iterable[Sequence[int]], spans: Sequence[Span]) -> list[int]:
    """Return 1 for each token that shares a character with a span, else 0.

    `offsets` are the start and end of each token in the text; an empty token is never marked.
    """
    marks = []
    for start, end in offsets:
        is_marked = any(max(start, first) < min(end, last) for first, last in spans)
        marks.append(int(is_marked))
    return marks


def count_marked(rows: Dataset | None) -> int | None:
    """Count the tokenized rows with a marked token; None if they have no column of marks."""
    if rows is None or "rationale" not in rows.column_names:
        return None
    count = 0
    for batch in rows.select_columns("rationale").iter(1000):
        count += sum(map(any, batch["rationale"]))
    return count


@dataclass
class RationaleCollator(DataCollatorWithPadding):
    """Pads rows, and the marks of those that have a column `rationale`.

    `weight` is that of a marked row in the loss. The loss is a mean over all rows; as weight, the
    number of rows for each marked one makes the cost of marks a mean over the marked rows; 0 leaves
    marks out.
    """

    weight: float = 1.0

    def __call__(self, features: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch of rows; `rationale` is the weight on marked tokens, else 0, (B, T)."""
        marks = []
        rows = []
        for features_of_row in features:
            row = dict(features_of_row)
            rows.append(row)
            if "rationale" in row:
                marks.append(torch.tensor(row.pop("rationale")).float())
        batch: dict[str, Any] = super().__call__(rows)
        if marks and self.weight:
            weights = torch.zeros(batch["input_ids"].shape)
            weights[batch["attention_mask"] != 0] = self.weight * torch.cat(marks)
            batch["rationale"] = weights
        return batch
