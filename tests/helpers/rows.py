"""Data files for tests, written from rows."""

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

REVIEWS = [
    {"text": "The soup was cold.", "label": "bad"},
    {"text": "A warm, friendly place.", "label": "good"},
    {"text": "Nothing to remember.", "label": "fair"},
    {"text": "We waited for an hour.", "label": "bad"},
]

PAIRS = [
    {"premise": "Two dogs sleep.", "hypothesis": "No dog is awake.", "gold": "neutral"},
    {"premise": "A man sings.", "hypothesis": "Someone sings.", "gold": "entailment"},
    {"premise": "A child runs.", "hypothesis": "Nobody moves.", "gold": "contradiction"},
]


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write one object a line, packed if the name ends in `.gz`."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], separator: str = ",") -> Path:
    """Write a header and a line a row, packed if the name ends in `.gz`."""
    frame = pd.DataFrame(rows, dtype=object)
    frame.to_csv(path, sep=separator, index=False, lineterminator="\r\n")
    return path
