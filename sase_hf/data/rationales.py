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

Span = tuple[int, int]


def parse_spans(cell: Any, text: str) -> list[Span]:
    """Return the spans of a cell: a list of pairs, or JSON of one; none if the cell is empty.

    ValueError says what came and what is allowed.
    """
    spans = cell
    if isinstance(cell, str):
        with suppress(ValueError, RecursionError):  # a cell that is no JSON is refused below
            spans = json.loads(cell.strip() or "null")
    for span in spans or () if isinstance(spans, list | None) else [cell]:
        is_pair = isinstance(span, list) and [*map(type, span)] == [int, int]
        if not is_pair or not 0 <= span[0] < span[1] <= len(text):
            allowed = f"[[start, end], ...], whole numbers with 0 <= start < end <= {len(text)}"
            fault = f"{reprlib.repr(span)} is no mark on the text; allowed are {allowed}"
            raise ValueError(f"{fault}, or an empty cell for no marks")
    return [(_start_of_character(text, start), end) for start, end in spans or ()]


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
    return [
        int(any(max(start, first) < min(end, last) for first, last in spans))
        for start, end in offsets
    ]


def count_marked(rows: Dataset | None) -> int | None:
    """Count the tokenized rows with a marked token; None if they have no column of marks."""
    if rows is None or "rationale" not in rows.column_names:
        return None
    batches = rows.select_columns("rationale").iter(1000)
    return sum(any(marks) for batch in batches for marks in batch["rationale"])


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
        marks = [torch.tensor(row["rationale"]).float() for row in features if "rationale" in row]
        rows = [{k: v for k, v in row.items() if k != "rationale"} for row in features]
        batch: dict[str, Any] = super().__call__(rows)
        if marks and self.weight:
            batch["rationale"] = torch.zeros(batch["input_ids"].shape)
            batch["rationale"][batch["attention_mask"] != 0] = self.weight * torch.cat(marks)
        return batch
