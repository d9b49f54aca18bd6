"""The rows of a word-vector file: a word and its d numbers, one row at a time.

Such files come from anywhere, so they are read as words and numbers and nothing else, and what
they may cost is limited: one row is in memory at a time, and unpacking stops where it grows absurd.
"""

import gzip
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader, FileIO
from itertools import chain
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from transformers.utils import logging

# Limits that no honest file reaches, so that a hostile one can fill neither memory nor a day.
MAX_ROW_BYTES = 1 << 20
MAX_WIDTH = 10_000
MAX_EXPANSION = 100  # unpacked bytes for each packed one; of vectors as text, three to five
FREE_BYTES = 64 << 20  # what any file may unpack to

Vectors = npt.NDArray[np.float32]
Row = tuple[int, str, bytes]
Stream = FileIO | gzip.GzipFile | IO[bytes]

_HEADER = re.compile(rb"(\d{1,12}) (\d{1,12})\s*")
_NOT_TEXT = re.compile(rb"[^\t\n\r\x20-\x7e]")
# What the unpackers of the standard library raise for data that is not whole.
_BROKEN = (EOFError, OSError, lzma.LZMAError, zipfile.BadZipFile, zlib.error)


class _Unpacked:
    """The unpacked bytes of a file, with a progress bar and within the limits above."""

    def __init__(self, name: str, packed: FileIO, stream: Stream, size: int, bar: Any) -> None:
        self.name = name
        self.lines = 0
        self._packed, self._shown = packed, packed.tell()
        self._stream = BufferedReader(stream, MAX_ROW_BYTES)  # type: ignore[type-var]
        self._bar = bar
        self._bytes = self._bytes_when_shown = 0
        self._limit = max(FREE_BYTES, MAX_EXPANSION * size)

    def readline(self) -> bytes:
        """Return the next line with its end, or nothing at the end of the file."""
        line = self._stream.readline(MAX_ROW_BYTES)
        self.lines += bool(line)
        if len(line) == MAX_ROW_BYTES:
            raise ValueError(
                f"{self.name}, line {self.lines}: longer than {MAX_ROW_BYTES - 1} bytes; a line "
                "must be a word and its numbers"
            )
        return self._counted(line)

    def read(self) -> bytes:
        """Return some more bytes, or nothing at the end of the file."""
        return self._counted(self._stream.read(MAX_ROW_BYTES))

    def peek(self) -> bytes:
        """Return some of the bytes to come, and leave them there."""
        return self._stream.peek()

    def _counted(self, data: bytes) -> bytes:
        """Return the bytes after they have been counted and shown."""
        self._bytes += len(data)
        if self._bytes > self._limit:
            raise ValueError(
                f"{self.name} unpacks to more than {MAX_EXPANSION} times its size, as vectors "
                "never do; if you trust it, unpack it yourself"
            )
        if self._bytes - self._bytes_when_shown >= MAX_ROW_BYTES:
            self._bytes_when_shown = self._bytes
            position = self._packed.tell()
            self._bar.update(position - self._shown)
            self._shown = position
        return data


class Rows:
    """The rows of a file: iterate over (number, word, bytes of its numbers).

    Attributes:
        name: The file.
        unit: What `number` counts from 1: lines of text, or rows of binary data.
        width: d, the numbers of each row.
    """

    unit: str

    def __init__(self, file: _Unpacked, width: int) -> None:
        self.name, self.width = file.name, width
        self._file = file

    def __iter__(self) -> Iterator[Row]:
        raise NotImplementedError

    def parse(self, numbers: bytes) -> Vectors:
        """Return the vector, shape (d,), that the bytes of a row's numbers stand for.

        Raises:
            ValueError: If they are not numbers.
        """
        raise NotImplementedError

    def refusal(self, number: int, what: str) -> ValueError:
        """Return an error that names a row and what is wrong with it."""
        return ValueError(f"{self.name}, {self.unit} {number}: {what}")

    def _decoded(self, number: int, word: bytes) -> str:
        try:
            return word.decode()
        except UnicodeDecodeError as error:
            raise self.refusal(number, f"the word {word!r:.80} is not UTF-8") from error


class _TextRows(Rows):
    """Lines of a word and its numbers, with single spaces between."""

    unit = "line"

    def __init__(self, file: _Unpacked, width: int, count: int | None, first: list[bytes]) -> None:
        super().__init__(file, width)
        self._count, self._first = count, first

    def __iter__(self) -> Iterator[Row]:
        for line in chain(self._first, iter(self._file.readline, b"")):
            number = self._file.lines
            word, numbers = self._split(number, line.rstrip(b" \r\n"))
            yield number, self._decoded(number, word), numbers
        rows = self._file.lines - 1
        if self._count not in (None, rows):
            raise ValueError(
                f"{self.name}: its first line promises {self._count} words, {rows} follow; "
                "is the file whole?"
            )

    def _split(self, number: int, line: bytes) -> tuple[bytes, bytes]:
        """Part a word from its numbers; some words of GloVe files have spaces in them."""
        spaces = line.count(b" ")
        if spaces == self.width:
            word, _, numbers = line.partition(b" ")
            return word, numbers
        if spaces > self.width:
            *words, numbers = line.split(b" ", spaces - self.width + 1)
            if not _is_number(words[-1]):
                return b" ".join(words), numbers
        raise self.refusal(
            number, f"{spaces} numbers follow the word; by line 1 there must be {self.width}"
        )

    def parse(self, numbers: bytes) -> Vectors:
        with np.errstate(over="ignore"):  # what overflows becomes infinite, which a caller sees
            return np.array(numbers.split(b" "), np.float32)


class _BinaryRows(Rows):
    """word2vec's binary form: a word, a space, d little-endian floats, perhaps a line feed."""

    unit = "row"

    def __init__(self, file: _Unpacked, width: int, count: int) -> None:
        super().__init__(file, width)
        self._count = count

    def __iter__(self) -> Iterator[Row]:
        size = 4 * self.width
        buffer, start = b"", 0
        for number in range(1, self._count + 1):
            while (end := buffer.find(b" ", start)) < 0 or len(buffer) <= end + size:
                if len(buffer) - start > 2 * MAX_ROW_BYTES:
                    raise self.refusal(number, f"no word ends within {MAX_ROW_BYTES} bytes")
                if not (more := self._file.read()):
                    raise self.refusal(
                        number, f"the file ends here; its first line promises {self._count} rows"
                    )
                buffer, start = buffer[start:] + more, 0
            word = buffer[start:end].lstrip(b"\n")
            start = end + 1 + size
            yield number, self._decoded(number, word), buffer[end + 1 : start]
        if (buffer[start:] + self._file.read()).strip(b"\n"):
            raise ValueError(f"{self.name}: bytes follow the {self._count} rows of its first line")

    def parse(self, numbers: bytes) -> Vectors:
        return np.frombuffer(numbers, "<f4")


@contextmanager
def open_rows(path: str | os.PathLike[str], member: str | None = None) -> Iterator[Rows]:
    """Open a file of word vectors, in any form that `load_word_vectors` describes.

    Args:
        path: The file.
        member: The file to read in a zip archive that holds several.

    Yields:
        Its rows.

    Raises:
        ValueError: If the file cannot be unpacked, unpacks to far too much, is empty, or a row that
            is read is malformed.
    """
    name, file = os.fspath(path), None
    with ExitStack() as stack:
        packed = stack.enter_context(open(path, "rb", buffering=0))
        try:
            stream, size = _unpack(stack, packed, name, member)
            bar = logging.tqdm(
                total=size, desc="Reading vectors", unit="B", unit_scale=True, delay=1
            )
            file = _Unpacked(name, packed, stream, size, stack.enter_context(bar))
            yield _rows(file)
        except _BROKEN as error:
            place = f" beyond line {file.lines}" if file else ""
            raise ValueError(f"{name} cannot be unpacked{place}: {error}; is it whole?") from error


def _unpack(stack: ExitStack, packed: FileIO, name: str, member: str | None) -> tuple[Stream, int]:
    """Return the unpacked stream of a file, and the bytes of the file that it takes."""
    magic = packed.read(4)
    packed.seek(0)
    if magic in (b"PK\x03\x04", b"PK\x05\x06"):
        try:
            archive = stack.enter_context(zipfile.ZipFile(packed))
            info = _member(archive, name, member)
            return stack.enter_context(archive.open(info)), info.compress_size
        except RuntimeError as error:  # encrypted, or packed by a method that Python lacks
            raise ValueError(f"{name} cannot be unpacked: {error}; unpack it yourself") from error
    if member is not None:
        raise ValueError(f"{name} is no zip archive, so it has no member {member!r}; leave it out")
    size = os.fstat(packed.fileno()).st_size
    if magic[:2] == b"\x1f\x8b":
        return stack.enter_context(gzip.GzipFile(fileobj=packed)), size
    return packed, size


def _member(archive: zipfile.ZipFile, name: str, member: str | None) -> zipfile.ZipInfo:
    """Return the entry to read, if there is no doubt which."""
    files = [
        info
        for info in archive.infolist()
        if not info.is_dir() and not info.filename.startswith("__MACOSX/")
    ]
    for info in files:
        folders = re.split(r"[/\\]", info.filename)
        if ".." in folders or folders[0] == "" or ":" in folders[0]:
            raise ValueError(f"{name} holds {info.filename!r}, which leads out of it; refused")
    chosen = [info for info in files if member in (None, info.filename)]
    if len(chosen) != 1:
        held = ", ".join(repr(info.filename) for info in files[:20]) or "no file"
        raise ValueError(f"{name} holds {held}; name the one to read with member=, not {member!r}")
    return chosen[0]


def _rows(file: _Unpacked) -> Rows:
    """Return the rows in the form that the first bytes show."""
    first = file.readline()
    if not first:
        raise ValueError(f"{file.name} is empty; it must hold a word and its numbers a line")
    header = _HEADER.fullmatch(first)
    count = int(header[1]) if header else None
    width = int(header[2]) if header else first.rstrip(b" \r\n").count(b" ")
    if not 1 <= width <= MAX_WIDTH:
        raise ValueError(
            f"{file.name}, line 1: {width} numbers a word; it must be a word and 1 to {MAX_WIDTH} "
            "numbers with single spaces between, or two counts: words and numbers of each"
        )
    if count is None:
        return _TextRows(file, width, None, [first])
    _, _, numbers = file.peek().partition(b" ")
    row, _, _ = numbers[: 4 * width].partition(b"\n")  # the next row's word may not be ASCII
    is_cut = len(row) < 4 * width and not all(map(_is_number, row.split() or [row]))
    if _NOT_TEXT.search(row) or is_cut:
        return _BinaryRows(file, width, count)
    return _TextRows(file, width, count, [])


def _is_number(text: bytes) -> bool:
    """Tell whether a field of a line is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
