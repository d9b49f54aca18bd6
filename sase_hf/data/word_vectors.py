"""Word vectors from GloVe, word2vec and fastText files: an embedding matrix for a tokenizer."""

import gzip
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from itertools import chain
from lzma import LZMAError
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import TokenizersBackend
from transformers.utils import logging

from ..utils.files import FilePath

MAX_WIDTH = 10_000  # a first line that promises more numbers per word is not one of word vectors

# A word, and the numbers of its vector: their texts, or an array of float32.
Row = tuple[str, Any]
RawRow = tuple[bytes, Any]

_HEADER = re.compile(rb"(\d{1,12}) (\d{1,12})\s*")
# What the standard library raises for archives that are cut, damaged or encrypted.
_UNPACKING_ERRORS = (EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error, LZMAError)


def load_word_vectors(
    path: FilePath, tokenizer: TokenizersBackend, *, member: str | None = None, seed: int = 0
) -> tuple[Tensor, float]:
    """Read the vectors of a tokenizer's words from a file.

    The file is text, a word and its d numbers per line, with a header line of two counts (word2vec,
    fastText) or without (GloVe), or word2vec's binary form; it is plain, gzip or zip. The content
    decides which, not the name. Only the rows of words in the vocabulary are parsed and kept.

    A word takes the first row that spells it exactly. Failing that, it takes the first row whose
    word the tokenizer's normalizer turns into it: "the" takes "The" if the tokenizer lower-cases.

    A word without a row is drawn from a normal distribution with the mean and the standard
    deviation of the rows found, per dimension. The row of the padding token is zero.

    Args:
        path: The file.
        tokenizer: A word-level tokenizer, as `build_tokenizer` makes it.
        member: The file to read in a zip archive that holds several.
        seed: Decides the rows that are drawn.

    Returns:
        The matrix, float32, shape (vocab, d), and the share of the vocabulary found in the file,
        special tokens not counted.

    Raises:
        ValueError: If the file cannot be unpacked, a row is malformed (the first one below the
            header is row 1), the header promises another number of rows, or no word is found.
    """
    specials = set(tokenizer.all_special_tokens)
    wanted = {word: i for word, i in tokenizer.get_vocab().items() if word not in specials}
    normalizer = tokenizer.backend_tokenizer.normalizer
    normalize = normalizer.normalize_str if normalizer else str
    found: dict[int, bool] = {}  # index of each word found -> whether it is spelt exactly
    with _open_rows(path, member) as (width, rows):
        vectors = np.zeros((len(tokenizer), width), np.float32)
        shown = logging.tqdm(rows, desc="Reading vectors", unit=" words", delay=1)
        for number, (word, numbers) in enumerate(shown, start=1):
            exact = word in wanted
            index = wanted.get(word if exact else normalize(word))
            if index is None or found.get(index, -1) >= exact:
                continue
            found[index] = exact
            try:
                with np.errstate(over="ignore"):  # what overflows becomes infinite
                    vectors[index] = np.array(numbers, np.float32)
            except ValueError as error:
                raise ValueError(f"{path}, row {number}, {word!r}: {error}") from error
            if not np.isfinite(vectors[index]).all():
                raise ValueError(f"{path}, row {number}, {word!r}: a number is not finite")
    if not found:
        doubt = "are both of the same language, and is the tokenizer lower-cased if the file is?"
        raise ValueError(f"{path} has none of the tokenizer's {len(wanted)} words; {doubt}")
    matrix = torch.from_numpy(vectors)
    std, mean = torch.std_mean(matrix[sorted(found)], dim=0, correction=0)
    missing = [index for index in range(len(matrix)) if index not in found]
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(missing), matrix.shape[1], generator=generator)
    matrix[missing] = noise.mul_(std).add_(mean)
    if tokenizer.pad_token_id is not None:
        matrix[tokenizer.pad_token_id] = 0
    return matrix, len(found) / len(wanted)


def read_words(path: FilePath, *, member: str | None = None) -> Iterator[str]:
    """Yield the words of a vector file in its order, which mostly is that of their frequency.

    Given to `build_tokenizer` as `extra_words`, they let a vocabulary hold words with vectors that
    the training texts lack. The arguments and errors are those of `load_word_vectors`.
    """
    with _open_rows(path, member) as (_, rows):
        for word, _ in rows:
            yield word


@contextmanager
def _open_rows(path: FilePath, member: str | None) -> Iterator[tuple[int, Iterator[Row]]]:
    """Open a file of word vectors, and give d and its rows, one in memory at a time."""
    name = os.fspath(path)
    with ExitStack() as stack:
        packed = stack.enter_context(open(path, "rb"))
        try:
            unpacked = _unpack(stack, packed, name, member)
            stream = stack.enter_context(BufferedReader(unpacked, buffer_size=1 << 20))
            width, rows, count = _read_form(stream, name)
            yield width, _checked(rows, name, count)
        except _UNPACKING_ERRORS as error:
            doubt = "is it complete and not encrypted?"
            raise ValueError(f"{name} cannot be unpacked: {error}; {doubt}") from error


def _unpack(stack: ExitStack, packed: BufferedReader, name: str, member: str | None) -> Any:
    """Return the stream of a file's content, after its first bytes: zip, gzip or plain."""
    magic = packed.peek(4)[:4]
    if magic in (b"PK\x03\x04", b"PK\x05\x06"):
        archive = stack.enter_context(zipfile.ZipFile(packed))
        names = [file for file in archive.namelist() if not file.endswith("/")]
        held = [file for file in names if not file.startswith("__MACOSX/")]
        chosen = [file for file in held if member in (None, file)]
        if len(chosen) != 1:
            asked = f", not {member!r}" if member else ""
            way_out = f"name the one to read with --word_vectors_member{asked}"
            raise ValueError(f"{name} holds {held[:20]}; {way_out}")
        return stack.enter_context(archive.open(chosen[0]))
    if member is not None:
        raise ValueError(f"{name} is not a zip archive; leave out --word_vectors_member {member}")
    if magic[:2] == b"\x1f\x8b":
        return stack.enter_context(gzip.GzipFile(fileobj=packed))
    return packed


def _read_form(stream: BufferedReader, name: str) -> tuple[int, Iterator[RawRow], int | None]:
    """Return d, the rows, and how many the header promises; the first rows show the form."""
    first = stream.readline()
    header = _HEADER.fullmatch(first)
    width = int(header[2]) if header else first.rstrip(b" \r\n").count(b" ")
    if not 1 <= width <= MAX_WIDTH:
        allowed = f"a word and 1 to {MAX_WIDTH} numbers, or two counts: words and numbers of each"
        raise ValueError(f"{name}, line 1: {width} numbers per word; the line must be {allowed}")
    if header is None:
        return width, _text_rows(chain([first], stream), name, width), None
    fields = stream.peek().partition(b"\n")[0].split()[1:][-width:]
    is_text = fields and all(map(_is_number, fields))
    rows = _text_rows(stream, name, width) if is_text else _binary_rows(stream, width)
    return width, rows, int(header[1])


def _text_rows(lines: Iterable[bytes], name: str, width: int) -> Iterator[RawRow]:
    """Take the last d fields of a line as numbers: some words of GloVe hold spaces."""
    for number, line in enumerate(lines, start=1):
        word, *numbers = line.rstrip(b" \r\n").rsplit(b" ", width)
        _, space, last = word.rpartition(b" ")
        if len(numbers) < width or (space and _is_number(last)):
            form = f"a word and {width} numbers"
            raise ValueError(f"{name}, row {number}: {line!r:.80} is not {form}")
        yield word, numbers


def _binary_rows(stream: BufferedReader, width: int) -> Iterator[RawRow]:
    """Read words, spaces, and d little-endian floats each, with or without line feeds."""
    while True:
        word = bytearray()
        while (byte := stream.read(1)) not in (b" ", b""):
            word += byte
        numbers = stream.read(4 * width)
        if len(numbers) < 4 * width:
            return
        yield bytes(word.lstrip(b"\n")), np.frombuffer(numbers, "<f4")


def _checked(rows: Iterable[RawRow], name: str, count: int | None) -> Iterator[Row]:
    """Decode the words of rows, and check how many there are."""
    number = 0
    for number, (word, numbers) in enumerate(rows, start=1):
        try:
            yield word.decode(), numbers
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}, row {number}: the word {word!r:.80} is not UTF-8") from error
    if count not in (None, number):
        raise ValueError(
            f"{name}: the first line promises {count} words, {number} follow; is the file complete?"
        )


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
