"""Word vectors from GloVe, word2vec and fastText files: an embedding matrix for a tokenizer."""

import gzip
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import TokenizersBackend
from transformers.utils import logging

from ..utils.files import FilePath

logger = logging.get_logger(__name__)

MAX_WIDTH = 10_000  # a first line that promises more numbers per word is not one of word vectors

Vectors = npt.NDArray[np.float32]
Row = tuple[int, str, bytes]  # number, word, the bytes of the word's numbers

_BUFFER_BYTES = 1 << 20
_HEADER = re.compile(rb"(\d{1,12}) (\d{1,12})\s*")
_NOT_TEXT = re.compile(rb"[^\t\n\r\x20-\x7e]")
# What the standard library raises for archives that are cut, damaged or encrypted.
_UNPACKING_ERRORS = (
    EOFError,
    OSError,
    RuntimeError,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)


def load_word_vectors(
    path: FilePath, tokenizer: TokenizersBackend, *, member: str | None = None, seed: int = 0
) -> tuple[Tensor, float]:
    """Read the vectors of a tokenizer's words from a file.

    The file is text, a word and its d numbers per line, with a header line of two counts (word2vec,
    fastText) or without (GloVe), or word2vec's binary form; it is plain, gzip or zip. The content
    decides which, not the name. Only the rows of words in the vocabulary are parsed and kept.

    A word takes the row that spells it exactly. Failing that, it takes the first row whose word
    the tokenizer's normalizer turns into it: "the" takes "The" if the tokenizer lower-cases. Of
    several rows with one spelling the first counts.

    A word without a row is drawn from a normal distribution with the mean and the standard
    deviation of the rows found, per dimension, so that it looks like any other word. The row of
    the padding token is zero.

    Args:
        path: The file.
        tokenizer: A word-level tokenizer, as `build_tokenizer` makes it.
        member: The file to read in a zip archive that holds several.
        seed: Decides the rows that are drawn.

    Returns:
        The matrix, float32, shape (vocab, d), and the share of the vocabulary found in the file,
        special tokens not counted.

    Raises:
        ValueError: If the file cannot be unpacked, a row is malformed (named by its number), the
            header promises another number of rows, or no word is found.
    """
    specials = set(tokenizer.all_special_tokens)
    wanted = {word: i for word, i in tokenizer.get_vocab().items() if word not in specials}
    normalizer = tokenizer.backend_tokenizer.normalizer
    with _open_rows(path, member) as file:
        vectors = np.zeros((len(tokenizer), file.width), np.float32)
        found = _collect(file, wanted, normalizer.normalize_str if normalizer else str, vectors)
    if not found:
        raise ValueError(
            f"{file.name} has none of the tokenizer's {len(wanted)} words; are both of the same "
            "language, and is the tokenizer lower-cased if the file is?"
        )
    share = len(found) / len(wanted)
    logger.info(f"{file.name} has {len(found)} of {len(wanted)} words ({share:.1%})")
    matrix = torch.from_numpy(vectors)
    _draw_missing(matrix, found, seed)
    if tokenizer.pad_token_id is not None:
        matrix[tokenizer.pad_token_id] = 0
    return matrix, share


def read_words(path: FilePath, *, member: str | None = None) -> Iterator[str]:
    """Yield the words of a vector file in its order, which mostly is that of their frequency.

    Given to `build_tokenizer` as `extra_words`, they let a vocabulary hold words with vectors that
    the training texts lack.

    Args:
        path: The file, in any form that `load_word_vectors` reads.
        member: The file to read in a zip archive that holds several.

    Yields:
        The words as the file spells them.

    Raises:
        ValueError: If the file cannot be unpacked, or a row that is read is malformed.
    """
    with _open_rows(path, member) as file:
        for _, word, _ in file.rows:
            yield word


def _collect(
    file: "_VectorFile",
    wanted: dict[str, int],
    normalize: Callable[[str], str],
    vectors: Vectors,
) -> list[int]:
    """Copy the rows of wanted words into `vectors`, and return the indices of those found."""
    exact: set[int] = set()
    alike: set[int] = set()
    for number, word, numbers in logging.tqdm(
        file.rows, desc="Reading vectors", unit=" words", delay=1
    ):
        index = wanted.get(word)
        if index is None:
            index = wanted.get(normalize(word))
            if index is None or index in exact or index in alike:
                continue
            alike.add(index)
        elif index in exact:
            continue
        else:
            exact.add(index)
        try:
            vectors[index] = file.parse(numbers)
        except ValueError as error:
            raise file.error(number, f"{word!r} needs {file.width} numbers: {error}") from error
        if not np.isfinite(vectors[index]).all():
            raise file.error(number, f"{word!r} has a number that is not finite in float32")
    return sorted(exact | alike)


def _draw_missing(matrix: Tensor, found: list[int], seed: int) -> None:
    """Fill the rows of (vocab, d) that were not found with numbers like those of the others."""
    std, mean = torch.std_mean(matrix[found], dim=0, correction=0)
    missing = torch.ones(len(matrix), dtype=torch.bool)
    missing[found] = False
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(int(missing.sum()), matrix.shape[1], generator=generator)
    matrix[missing] = noise.mul_(std).add_(mean)


@dataclass
class _VectorFile:
    """The rows of a file, one in memory at a time.

    Attributes:
        stream: The unpacked bytes after the header.
        name: The file's path.
        width: d, the numbers of each row.
        count: The rows that the header promises, None without a header.
        first: The first row, if the line that shows the width is one.
        is_binary: Whether this is word2vec's binary form.
    """

    stream: BufferedReader
    name: str
    width: int
    count: int | None
    first: list[bytes]
    is_binary: bool

    @property
    def unit(self) -> str:
        """What the rows' numbers count, from 1."""
        return "row" if self.is_binary else "line"

    @property
    def rows(self) -> Iterator[Row]:
        for number, word, numbers in self._binary_rows() if self.is_binary else self._text_rows():
            try:
                yield number, word.decode(), numbers
            except UnicodeDecodeError as error:
                raise self.error(number, f"the word {word!r:.80} is not UTF-8") from error

    def parse(self, numbers: bytes) -> Vectors:
        """Return the vector, shape (d,), of a row's numbers; ValueError if they are not numbers."""
        if self.is_binary:
            return np.frombuffer(numbers, "<f4")
        with np.errstate(over="ignore"):  # what overflows becomes infinite, which a caller sees
            return np.array(numbers.split(b" "), np.float32)

    def error(self, number: int, reason: str) -> ValueError:
        """Return an error that names a row and what is wrong with it."""
        return ValueError(f"{self.name}, {self.unit} {number}: {reason}")

    def _text_rows(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Take the last d fields of a line as numbers: some words of GloVe hold spaces."""
        header_lines = number = 0 if self.first else 1
        for number, line in enumerate(chain(self.first, self.stream), header_lines + 1):
            line = line.rstrip(b" \r\n")
            spaces = line.count(b" ")
            word, *numbers = line.rsplit(b" ", self.width)
            if spaces != self.width and (spaces < self.width or _is_number(word.split(b" ")[-1])):
                raise self.error(
                    number, f"{spaces} numbers follow the word; there must be {self.width}"
                )
            yield number, word, b" ".join(numbers)
        if self.count not in (None, number - header_lines):
            raise ValueError(
                f"{self.name}: the first line promises {self.count} words, "
                f"{number - header_lines} follow; is the file complete?"
            )

    def _binary_rows(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Read words, spaces, and d little-endian floats each, with or without line feeds."""
        assert self.count is not None
        for number in range(1, self.count + 1):
            word = bytearray()
            while (byte := self.stream.read(1)) not in (b" ", b""):
                word += byte
            numbers = self.stream.read(4 * self.width)
            if len(numbers) < 4 * self.width:
                raise self.error(
                    number, f"the file ends here; its first line promises {self.count} rows"
                )
            yield number, bytes(word.lstrip(b"\n")), numbers
        if self.stream.read(2).strip(b"\n"):
            raise ValueError(f"{self.name}: bytes follow the {self.count} rows of its first line")


@contextmanager
def _open_rows(path: FilePath, member: str | None) -> Iterator[_VectorFile]:
    """Open a file of word vectors in any form that `load_word_vectors` describes."""
    name = os.fspath(path)
    with ExitStack() as stack:
        packed = stack.enter_context(open(path, "rb"))
        try:
            stream = _unpack(stack, packed, name, member)
            yield _detect_form(BufferedReader(stream, _BUFFER_BYTES), name)
        except _UNPACKING_ERRORS as error:
            raise ValueError(
                f"{name} cannot be unpacked: {error}; is it complete and not encrypted?"
            ) from error


def _unpack(stack: ExitStack, packed: BufferedReader, name: str, member: str | None) -> Any:
    """Return the stream of a file's content, after its first bytes: zip, gzip or plain."""
    magic = packed.peek(4)[:4]
    if magic in (b"PK\x03\x04", b"PK\x05\x06"):
        archive = stack.enter_context(zipfile.ZipFile(packed))
        held = [
            info.filename
            for info in archive.infolist()
            if not info.is_dir() and not info.filename.startswith("__MACOSX/")
        ]
        chosen = [file for file in held if member in (None, file)]
        if len(chosen) != 1:
            raise ValueError(
                f"{name} holds {', '.join(map(repr, held[:20])) or 'no file'}; name the one to "
                f"read with --word_vectors_member, not {member!r}"
            )
        return stack.enter_context(archive.open(chosen[0]))
    if member is not None:
        raise ValueError(f"{name} is not a zip archive; leave out --word_vectors_member {member}")
    if magic[:2] == b"\x1f\x8b":
        return stack.enter_context(gzip.GzipFile(fileobj=packed))
    return packed


def _detect_form(stream: BufferedReader, name: str) -> _VectorFile:
    """Read the first line, and tell text from binary by the row after a header."""
    first = stream.readline()
    header = _HEADER.fullmatch(first)
    width = int(header[2]) if header else first.rstrip(b" \r\n").count(b" ")
    if not 1 <= width <= MAX_WIDTH:
        raise ValueError(
            f"{name}, line 1: {width} numbers per word; the line must be a word and 1 to "
            f"{MAX_WIDTH} numbers with single spaces between, or two counts: words and numbers of "
            "each"
        )
    if header is None:
        return _VectorFile(stream, name, width, None, [first], is_binary=False)
    _, _, numbers = stream.peek().partition(b" ")
    row, _, _ = numbers[: 4 * width].partition(b"\n")  # the next row's word may not be ASCII
    is_cut = len(row) < 4 * width and not all(map(_is_number, row.split() or [row]))
    is_binary = is_cut or _NOT_TEXT.search(row) is not None
    return _VectorFile(stream, name, width, int(header[1]), [], is_binary)


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


__all__ = ["load_word_vectors", "read_words"]
