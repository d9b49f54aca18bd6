"""Files of rows -> Parquet files that can be read from any row on.

Text files have no rows to jump to, so they are copied once, into Parquet files in a hidden folder
beside the embeddings, and every row is checked on the way.
"""

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..data.files import read_rows, wrap_read_errors
from ..data.tokenizer import text_fault
from ..utils.files import sha256_of

logger = logging.getLogger(__name__)

COPY_PREFIX = ".input-"
ROWS_PER_PART = 50_000  # so many rows are in memory as Python objects at a time
_FOOTER_TAIL = 8  # a Parquet file ends in the size of its footer, 4 bytes, and "PAR1"

Row = Mapping[str, Any]


def identify(file: str) -> dict[str, Any]:
    """Return what tells the content of a file from another's.

    Args:
        file: A text file, known by its SHA-256; or a Parquet file, of which there may be too much
            to read twice, known by its size and the SHA-256 of its footer, which holds the place,
            size and bounds of every piece of every column.

    Raises:
        ValueError: If it has none of `row_files.ENDINGS`, or is no Parquet file.
        OSError: If it cannot be read.
    """
    name = os.path.basename(file)
    with wrap_read_errors(file):
        if not file.lower().endswith(".parquet"):
            return {"file": name, "sha256": sha256_of(file)}
        pq.read_metadata(file)  # fails on what is no Parquet file
        with open(file, "rb") as handle:
            size = handle.seek(-_FOOTER_TAIL, os.SEEK_END) + _FOOTER_TAIL
            footer = int.from_bytes(handle.read(4), "little") + _FOOTER_TAIL
            handle.seek(-footer, os.SEEK_END)
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        return {"file": name, "size": size, "footer_sha256": digest}


def parquet_files(
    files: Sequence[str],
    identities: Sequence[Mapping[str, Any]],
    folder: Path,
    text_column: str,
    keep_columns: Sequence[str] | None,
    *,
    is_first: bool,
) -> list[tuple[str, str]]:
    """Return Parquet files with the rows of files in their order; text files are copied first.

    Args:
        files: Files with one of `row_files.ENDINGS`.
        identities: What `identify` says of each.
        folder: Where the copies go.
        text_column: A column that must hold a text in every row.
        keep_columns: The other columns that are wanted, None for all.
        is_first: Whether this process copies; others wait until the copy is there.

    Returns:
        For each Parquet file its path, and the file its rows come from.

    Raises:
        ValueError: If a file breaks its format, a row has no text, or the values of a column do not
            go together; names file, row and column.
    """
    wanted = None if keep_columns is None else list(dict.fromkeys([text_column, *keep_columns]))
    found = []
    for file, identity in zip(files, identities, strict=True):
        if file.lower().endswith(".parquet"):
            found.append((file, file))
            continue
        request = json.dumps([identity, text_column, wanted])
        copy = folder / f"{COPY_PREFIX}{hashlib.sha256(request.encode()).hexdigest()[:16]}"
        if is_first and not copy.exists():
            _copy(file, copy, text_column, wanted)
        while not copy.exists():
            time.sleep(0.1)
        found += [(str(part), file) for part in sorted(copy.iterdir())]
    return found


def _copy(file: str, copy: Path, text_column: str, wanted: Sequence[str] | None) -> None:
    """Write the rows of a text file as Parquet files, which appear all at once."""
    logger.info("checking and copying the rows of %s", file)
    unfinished = copy.with_name(f"{copy.name}.{os.getpid()}.tmp")
    unfinished.mkdir(parents=True)
    try:
        with wrap_read_errors(file):
            rows = _checked(read_rows(file), text_column)
            for number, part in enumerate(iter(lambda: list(islice(rows, ROWS_PER_PART)), [])):
                first = number * ROWS_PER_PART
                place = f"rows {first} to {first + len(part) - 1}"
                table = _table(part, wanted, place)
                try:
                    pq.write_table(table, unfinished / f"part-{number:07}.parquet")
                except pa.ArrowException as reason:
                    raise ValueError(
                        f"{place} (counted from 0): Parquet cannot hold a column ({reason}); leave "
                        "it out with --keep_columns"
                    ) from None
        unfinished.rename(copy)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _checked(rows: Iterator[Row], text_column: str) -> Iterator[Row]:
    """Yield the rows, and stop at one that has no text."""
    for number, row in enumerate(rows):
        if text_column not in row:
            fault = f"there is none; there are {', '.join(map(repr, row))}. Choose with "
            fault += "--text_column_names"
        else:
            fault = text_fault(row[text_column]) or ""
        if fault:
            raise ValueError(f"row {number} (counted from 0), column {text_column!r}: {fault}")
        yield row


def _table(rows: Sequence[Row], wanted: Sequence[str] | None, place: str) -> pa.Table:
    """Turn rows into columns; those that no row has are left out."""
    seen = dict.fromkeys(column for row in rows for column in row)
    columns = {}
    for column in seen if wanted is None else (name for name in wanted if name in seen):
        try:
            columns[column] = pa.array([row.get(column) for row in rows])
        except (pa.ArrowException, ValueError, OverflowError) as reason:
            raise ValueError(
                f"{place} (counted from 0), column {column!r}: the values have no common type "
                f"({reason}); leave the column out with --keep_columns"
            ) from None
    return pa.table(columns)


__all__ = ["COPY_PREFIX", "identify", "parquet_files"]
