"""Word vectors of files, folders and the Hub: an embedding matrix for a tokenizer."""

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch
from huggingface_hub import snapshot_download
from safetensors import safe_open
from tokenizers import Tokenizer
from torch import Tensor
from transformers import TokenizersBackend
from transformers.utils import logging

from ..utils.errors import refusal
from ..utils.files import FilePath, check_content, check_readable
from ..utils.loading import may_be_on_the_hub, reraise_naming

logger = logging.get_logger(__name__)

# The files of a static embedding, and the only entry of the weights in model2vec and in
# sentence-transformers' StaticEmbedding.
STATIC_FILES = ("model.safetensors", "tokenizer.json")
STATIC_MATRICES = (["embeddings"], ["embedding.weight"])

WORD_STARTS = ("\N{LOWER ONE EIGHTH BLOCK}", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}")
CONTINUATION = "##"

MAX_LINE = 2**18  # bytes that are read at once: a longer line, or word, is not one of word vectors

# A file with more rows that cannot be read is not one of word vectors.
MAX_BAD_SHARE = 0.001
MAX_BAD_ROWS = 100  # from here on a file is refused before it is read to its end

Numbers = list[bytes] | npt.NDArray[np.float32]  # of a vector: their texts, or an array
RawRow = tuple[bytes, Numbers | None]  # None where the line, in place of the word, is malformed

_HEADER = re.compile(rb"(\d{1,12}) (\d{1,12})\s*")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf)", re.IGNORECASE)


def load_word_vectors(
    path: FilePath,
    tokenizer: TokenizersBackend,
    *,
    seed: int = 0,
    token: str | None = None,
    cache_dir: str | None = None,
) -> tuple[Tensor, float]:
    """Read the vectors of a tokenizer's words from a file, a folder or a repository on the Hub.

    A file is text, a word and its d numbers per line, with a header line of two counts (word2vec,
    fastText) or without (GloVe), or word2vec's binary form; it is plain or gzip. The content
    decides which, not the name. A folder or repository holds a static embedding of model2vec or of
    sentence-transformers: `model.safetensors` with one matrix, and `tokenizer.json`; tokens that
    are whole words are the words.

    A word takes the first row that spells it exactly, or else the first row that the tokenizer's
    normalizer turns into the word: "the" takes "The" if the tokenizer lower-cases. A word
    without a row is drawn from a normal distribution with the mean and the standard deviation of
    the rows found, per dimension. The row of the padding token is zero.

    Args:
        path: The file, the folder, or OWNER/NAME on the Hub, also OWNER/NAME@REVISION.
        tokenizer: A word-level tokenizer, as `build_tokenizer` makes it.
        seed: Decides the rows that are drawn.
        token: Token for a private repository on the Hub.
        cache_dir: Folder for downloads.

    Returns the matrix, float32, shape (vocab, d), and the share of the vocabulary found in the
    file, special tokens not counted. Rows that cannot be read are passed over and counted in the
    log. Raises ValueError if the file cannot be unpacked, more than a thousandth of the rows are
    malformed (row 1 is the first below the header) or rows are missing, or no word is found;
    OSError if there is no such file or repository, or no way to the Hub.
    """
    specials = set(tokenizer.all_special_tokens)
    wanted = {word: id_ for word, id_ in tokenizer.get_vocab().items() if word not in specials}
    normalizer = tokenizer.backend_tokenizer.normalizer
    normalize = normalizer.normalize_str if normalizer else str
    is_exact: dict[int, bool] = {}  # index of each word found -> whether it is spelt exactly
    vectors: dict[int, npt.NDArray[np.float32]] = {}
    rows = _Rows(path, token, cache_dir)
    with _naming(path):
        for word, numbers in logging.tqdm(rows, desc="Reading vectors", unit=" words", delay=1):
            exact = word in wanted
            index = wanted.get(word if exact else normalize(word))
            if index is None or is_exact.get(index, -1) >= exact:
                continue
            try:
                with np.errstate(over="ignore"):  # a number that overflows becomes infinite
                    vector = np.array(numbers, np.float32)
                if not np.isfinite(vector).all():
                    raise ValueError("a number is not finite")
            except ValueError as error:
                rows.pass_over(f"{word!r}: {error}")
                continue
            is_exact[index] = exact
            vectors[index] = vector
    if rows.faults:
        logger.warning(f"{path}: rows passed over: {len(rows.faults):,}, first {rows.faults[0]}")
    if not vectors:
        raise refusal(
            f"{path} has none of the tokenizer's {len(wanted)} words",
            "are both of the same language, and is the tokenizer lower-cased if the file is?",
        )
    found = sorted(vectors)
    known = torch.from_numpy(np.stack([vectors[index] for index in found]))
    std, mean = torch.std_mean(known, dim=0, correction=0)
    matrix = torch.empty(len(tokenizer), known.shape[1])
    matrix[found] = known
    missing = sorted(set(range(len(matrix))).difference(found))
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(missing), known.shape[1], generator=generator)
    matrix[missing] = noise.mul_(std).add_(mean)
    if tokenizer.pad_token_id is not None:
        matrix[tokenizer.pad_token_id] = 0
    return matrix, len(found) / len(wanted)


def read_words(
    path: FilePath, *, token: str | None = None, cache_dir: str | None = None
) -> Iterator[str]:
    """Yield the words of a file of vectors in its order, mostly by falling frequency.

    They are `extra_words` for `build_tokenizer`. Arguments and errors are those of
    `load_word_vectors`.
    """
    rows = _Rows(path, token, cache_dir)
    with _naming(path):
        for word, _ in rows:
            yield word


@contextmanager
def _naming(path: FilePath) -> Iterator[None]:
    """Put the name of a file into the errors of its content."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise refusal(f"{path}: it cannot be unpacked: {error}", "is it complete?") from error
    except ValueError as reason:
        raise ValueError(f"{path}: {reason}") from reason


class _Rows:
    """The words and vectors of a file, a folder or a repository, to be read once.

    A few rows that cannot be read are passed over and counted, and more raise ValueError.
    """

    def __init__(self, path: FilePath, token: str | None, cache_dir: str | None) -> None:
        self.number = 0  # of the row that was read last, from 1
        self.faults: list[str] = []
        name = folder = os.fspath(path)
        repo, _, revision = name.partition("@")
        with reraise_naming(name):
            if not os.path.exists(name) and "/" in repo and may_be_on_the_hub(repo):
                folder = snapshot_download(
                    repo,
                    revision=revision or None,
                    cache_dir=cache_dir,
                    token=token,
                    allow_patterns=[*STATIC_FILES],
                )
            is_folder = os.path.isdir(folder)
            self.raw_rows = _static_rows(folder) if is_folder else self._rows_of_file(name)

    def __iter__(self) -> Iterator[tuple[str, Numbers]]:
        for word, numbers in self.raw_rows:
            self.number += 1
            if numbers is None:
                self.pass_over(f"{word!r:.80} is not a word and its numbers")
                continue
            try:
                yield word.decode(), numbers
            except UnicodeDecodeError:
                self.pass_over(f"the word {word!r:.80} is not UTF-8")
        self._check()

    def pass_over(self, fault: str) -> None:
        """Count the row that was read last as one that cannot be read."""
        self.faults.append(f"row {self.number}: {fault}")
        if len(self.faults) > MAX_BAD_ROWS:
            self._check()

    def _check(self) -> None:
        """Raise ValueError if more than a thousandth of the rows so far cannot be read."""
        num_bad = len(self.faults)
        if num_bad > MAX_BAD_SHARE * self.number:
            share = f"{num_bad:,} of {self.number:,} rows"
            raise ValueError(f"{self.faults[0]} ({share} cannot be read)")

    def _rows_of_file(self, path: str) -> Iterator[RawRow]:
        """Yield the rows; the first bytes and the first row show the form."""
        check_readable(path)
        check_content(path)
        with open(path, "rb", 0) as file:
            stream: BufferedReader = BufferedReader(file, MAX_LINE)
            start = stream.peek()
            if start.startswith(b"PK\x03\x04"):
                raise refusal("it is a zip archive", "unzip it first")
            if start.startswith(b"\x1f\x8b"):
                stream = BufferedReader(gzip.GzipFile(fileobj=stream), MAX_LINE)
            lines = iter(partial(stream.readline, MAX_LINE), b"")
            first = next(lines, b"").removeprefix(codecs.BOM_UTF8)
            header = _HEADER.fullmatch(first)
            width = int(header[2]) if header else first.rstrip(b" \r\n").count(b" ")
            if width < 1:
                raise refusal(
                    f"line 1: {width} numbers per word",
                    "the line must be a word and its numbers, or two counts: words and numbers",
                )
            if header is None:
                yield from _text_rows(chain([first], lines), width)
                return
            fields = stream.peek().partition(b"\n")[0].split()
            is_text = all(map(_NUMBER.fullmatch, fields[-width:]))
            yield from _text_rows(lines, width) if is_text else _binary_rows(stream, width)
            if self.number != int(header[1]):
                raise refusal(
                    f"the first line promises {int(header[1])} words, {self.number} follow",
                    "is the file complete?",
                )


def _static_rows(folder: str) -> Iterator[RawRow]:
    """Return the rows of whole words of a static embedding, in the order of ids."""
    weights, tokenizer = (os.path.join(folder, name) for name in STATIC_FILES)
    with safe_open(weights, framework="pt") as file:
        names = list(file.keys())
        if names not in STATIC_MATRICES:
            raise refusal(f"it holds {names[:5]}, not the matrix of a static embedding", "name one")
        matrix: npt.NDArray[np.float32] = file.get_tensor(names[0]).float().numpy()
    vocabulary: dict[str, int] = Tokenizer.from_file(tokenizer).get_vocab()
    if max(vocabulary.values(), default=-1) >= len(matrix):
        raise refusal(
            f"it has {len(matrix)} vectors and its tokenizer {len(vocabulary)} tokens",
            "both must be of one model",
        )
    return _whole_words(vocabulary, matrix)


def _whole_words(
    vocabulary: Mapping[str, int], matrix: npt.NDArray[np.float32]
) -> Iterator[RawRow]:
    """Yield the words among the tokens, and their vectors."""
    # If few tokens begin with the mark, it is an ordinary character and marks no words.
    num_marked = sum(token.startswith(WORD_STARTS) for token in vocabulary)
    are_marked = 10 * num_marked > len(vocabulary)
    for token in sorted(vocabulary, key=vocabulary.__getitem__):
        word = token
        if are_marked and token.startswith(WORD_STARTS):
            word = token[1:]
            if not word:
                continue
        elif token.startswith(CONTINUATION) or (are_marked and token[:1].isalnum()):
            continue
        yield word.encode(), matrix[vocabulary[token]]


def _text_rows(lines: Iterable[bytes], width: int) -> Iterator[RawRow]:
    """Take the last d fields of a line as numbers: some words of GloVe hold spaces."""
    for line in lines:
        word, *numbers = line.rstrip(b" \r\n").rsplit(b" ", width)
        _, space, last = word.rpartition(b" ")
        if len(numbers) < width or (space and _NUMBER.fullmatch(last)):
            yield line, None
        else:
            yield word, numbers


def _binary_rows(stream: BufferedReader, width: int) -> Iterator[RawRow]:
    """Read words, spaces, and d little-endian floats each, with or without line feeds."""
    while True:
        word = bytearray()
        while (byte := stream.read(1)) not in (b" ", b"") and len(word) < MAX_LINE:
            word += byte
        numbers = stream.read(4 * width)
        if len(word) == MAX_LINE or len(numbers) < 4 * width:
            return
        yield bytes(word.lstrip(b"\n")), np.frombuffer(numbers, "<f4")
