"""The lines of a text file, packed by gzip or not, read in bounded memory."""

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A text file exceeds these limits only by mistake, or to fill its reader's memory.
MAX_LINE = 2**26  # characters in a line, except a JSON array, which is held whole
MAX_EXPANSION = 100  # characters per byte of a packed file, where these are more than a line


def ending_of(path: str) -> str:
    """Return the ending of a file name in lower case, without `.gz`."""
    return Path(path.lower().removesuffix(".gz")).suffix


@contextmanager
def open_lines(
    path: str, max_line: int = MAX_LINE, encoding: str = "utf-8-sig"
) -> Iterator[Iterator[str]]:
    """Open a file and give its lines with their ends; a line above `max_line` comes in pieces.

    ValueError is raised for a file that unpacks to more than both limits.
    """
    opener = gzip.open if path.lower().endswith(".gz") else open
    with opener(path, "rt", encoding=encoding, newline="") as file:
        limit = max(max_line, MAX_EXPANSION * os.path.getsize(path))

        def pieces() -> Iterator[str]:
            size = 0
            while piece := file.readline(max_line):
                size += len(piece)
                if size > limit:
                    fault = f"more than {limit:,} characters, {MAX_EXPANSION} for each byte"
                    raise ValueError(f"it unpacks to {fault}; if that is right, unpack it first")
                yield piece

        yield pieces()


def whole_line(number: int, piece: str, max_line: int) -> str:
    """Return a piece that is a line; ValueError if the line is longer."""
    if len(piece) < max_line:
        return piece
    raise ValueError(f"line {number} has {max_line:,} characters or more; are line ends missing?")
