"""The rows of CSV, TSV, JSON and JSON Lines files, packed by gzip or not.

The text formats are read here and not by the builders of `datasets`, because those guess: the text
`2020-01-01 00:00:00` in a JSON file becomes a timestamp, a row of a CSV file that lacks a field
becomes a blank text, and a first row with a field too many shifts every column. Here a CSV cell is
a text, a JSON value is what it says, and a line that breaks its format is named.
"""

import csv
import gzip
import json
import reprlib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from datasets.exceptions import DatasetsError

TEXT_ENDINGS = (".csv", ".tsv", ".json", ".jsonl")
ENDINGS = (*TEXT_ENDINGS, *(f"{ending}.gz" for ending in TEXT_ENDINGS), ".parquet")

# The csv module refuses longer fields; its own limit of 128 KiB is shorter than a long document.
MAX_FIELD_SIZE = 2**31 - 1


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Say in words what is wrong with a file that is read meanwhile.

    Args:
        path: The file.

    Raises:
        ValueError: If it has none of `ENDINGS` or breaks its format.
    """
    if not path.lower().endswith(ENDINGS):
        raise ValueError(f"{path!r} has no known ending; allowed are {', '.join(ENDINGS)}")
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as reason:
        raise ValueError(f"cannot unpack {path!r}: {reason}; is it a whole gzip file?") from reason
    except UnicodeDecodeError as reason:
        raise ValueError(f"cannot read {path!r}: {reason}; save it as UTF-8") from reason
    except (ValueError, DatasetsError) as reason:
        # `datasets` wraps what went wrong in an error that does not say it.
        raise ValueError(f"cannot read {path!r}: {reason.__cause__ or reason}") from reason


def text_fault(value: Any) -> str | None:
    """Return why a value is no text that can be encoded, None for one that is.

    Args:
        value: A cell of a column of texts.
    """
    if not isinstance(value, str):
        return f"{reprlib.repr(value)} is a {type(value).__name__}, not a text"
    try:
        value.encode()
    except UnicodeEncodeError:
        return f"{reprlib.repr(value)} holds half of a surrogate pair, which is no character"
    return None


def read_rows(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a CSV, TSV, JSON or JSON Lines file, packed by gzip or not.

    Only an array in a JSON file is held in memory as a whole.

    Args:
        path: The file; `readable` says what its errors mean.
    """
    packed = path.lower().endswith(".gz")
    ending = Path(path.lower().removesuffix(".gz")).suffix
    opener = gzip.open if packed else open
    with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
        if ending == ".csv":
            yield from _csv_rows(file, ",")
        elif ending == ".tsv":
            yield from _csv_rows(file, "\t")
        else:
            yield from _json_rows(file)


def _csv_rows(file: TextIO, separator: str) -> Iterator[Mapping[str, str]]:
    """Yield the rows below the header line; cells stay the texts they are."""
    usual_limit = csv.field_size_limit(MAX_FIELD_SIZE)
    reader = csv.reader(file, delimiter=separator, strict=True)
    try:
        header = next(reader, [])
        if len(set(header)) < len(header):
            raise ValueError(f"the header names a column twice: {header}")
        blank_line = None
        for cells in reader:
            if not cells:
                blank_line = blank_line or reader.line_num
                continue
            if blank_line is not None:
                raise ValueError(f"line {blank_line} is blank; only the last ones may be")
            if len(cells) != len(header):
                raise ValueError(
                    f"the row that ends in line {reader.line_num} has {len(cells)} fields and the "
                    f"header {len(header)}; a field that holds a separator needs quotes around it"
                )
            yield dict(zip(header, cells, strict=True))
    except csv.Error as reason:
        raise ValueError(
            f"line {reader.line_num}: {reason}; quotes inside a quoted field must be doubled, and "
            "the last one closed"
        ) from None
    finally:
        csv.field_size_limit(usual_limit)


def _json_rows(file: TextIO) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of an array, or of one object a line."""
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            is_array = line.lstrip().startswith("[")
            rows = json.loads(line + file.read()) if is_array else [json.loads(line)]
        except json.JSONDecodeError as reason:
            raise ValueError(
                f"line {number + reason.lineno - 1}, character {reason.colno}: "
                f"{reason.msg.removesuffix(' at')}; a JSON file holds one object a line, or an "
                "array of objects"
            ) from None
        for row in rows:
            if not isinstance(row, dict):
                raise ValueError(
                    f"line {number}: a row of type {type(row).__name__}; it must be an object, "
                    'such as {"text": "...", "label": "..."}'
                )
            yield row


__all__ = ["ENDINGS", "read_rows", "readable", "text_fault"]
