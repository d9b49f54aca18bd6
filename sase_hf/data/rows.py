"""The rows of a text file: CSV, TSV, JSON and JSON Lines.

The builders of `datasets` guess: the JSON text `2020-01-01 00:00:00` becomes a timestamp, a missing
CSV field a blank text. Here a CSV cell is a text, a JSON value is what it says, and a line that
breaks its format is named.
"""

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

from .csv_rows import CSV_ENDINGS, csv_rows
from .text_lines import MAX_LINE, ending_of, open_lines, whole_line

TEXT_ENDINGS = (*CSV_ENDINGS, ".json", ".jsonl")
ENDINGS = (*TEXT_ENDINGS, *(f"{ending}.gz" for ending in TEXT_ENDINGS), ".parquet")


def read_rows(path: str, max_line: int = MAX_LINE) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a text file in UTF-8; call it inside `wrap_read_errors`.

    CSV and TSV have a header line, and fields may be in quotes; where these would join the rows of
    a TSV file, they are text. A `.json` file holds an array of objects, which is held in memory, or
    one object per line, as `.jsonl` does. ValueError names a line that breaks the format.
    """
    if ending_of(path) in CSV_ENDINGS:
        yield from csv_rows(path, max_line)
    else:
        with open_lines(path, max_line) as pieces:
            yield from _json_rows(pieces, max_line)


@contextmanager
def wrap_read_errors(path: str) -> Iterator[None]:
    """Raise ValueError that names the file for a fault in it, or a name with none of `ENDINGS`."""
    if not path.lower().endswith(ENDINGS):
        raise ValueError(f"{path!r} has an unknown ending; allowed are {', '.join(ENDINGS)}")
    try:
        yield
    except ValueError as reason:
        advice = "; save it as UTF-8" if isinstance(reason, UnicodeDecodeError) else ""
        raise ValueError(f"cannot read {path!r}: {reason}{advice}") from reason
    except (EOFError, OSError, zlib.error) as reason:
        if getattr(reason, "errno", None) is not None:
            raise  # from the file system; gzip and Parquet set no number
        raise ValueError(f"cannot read {path!r}: {reason}; is the file complete?") from reason


def _json_rows(pieces: Iterator[str], max_line: int) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of an array, or of one object per line."""
    for number, piece in enumerate(pieces, start=1):
        if not piece.strip():
            continue
        try:
            if piece.lstrip().startswith("["):
                rows = json.loads("".join(chain([piece], pieces)))
            else:
                rows = [json.loads(whole_line(number, piece, max_line).rstrip())]
        except json.JSONDecodeError as reason:
            place = f"line {number + reason.lineno - 1}, character {reason.colno}: {reason.msg}"
            form = "a JSON file holds one object per line, or an array of objects"
            raise ValueError(f"{place}; {form}") from None
        except RecursionError:
            raise ValueError(f"line {number}: brackets are nested too deeply") from None
        for row in rows:
            if not isinstance(row, dict):
                fault = f"a row of type {type(row).__name__}; it must be an object"
                raise ValueError(f"line {number}: {fault}")
            yield row
