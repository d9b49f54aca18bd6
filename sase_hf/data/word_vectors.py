"""Word vectors of files, folders and the Hub: an embedding matrix for a tokenizer."""

import gzip
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BufferedReader
from itertools import chain
from lzma import LZMAError
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from torch import Tensor
from transformers import TokenizersBackend
from transformers.utils import logging

from ..utils.errors import refusal
from ..utils.files import START, FilePath, check_readable, foreign_content
from ..utils.loading import may_be_on_the_hub
from ..utils.text import one_line

logger = logging.get_logger(__name__)

# The files of a static embedding, and the names of its matrix in model2vec and in
# sentence-transformers' StaticEmbedding.
STATIC_FILES = ("model.safetensors", "tokenizer.json")
STATIC_MATRICES = ("embeddings", "embedding.weight")
VECTOR_ENDINGS = (".txt", ".vec", ".bin", ".gz", ".zip")

WORD_STARTS = ("\N{LOWER ONE EIGHTH BLOCK}", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}")
CONTINUATION = "##"

MAX_LINE = 2**20  # bytes: a longer line, or word of a binary file, is not one of word vectors
MAX_WIDTH = 10_000  # a first line that promises more numbers per word is not one of word vectors

# A file with more rows that cannot be read is not one of word vectors.
MAX_BAD_SHARE = 0.001
MAX_BAD_ROWS = 100  # from here on a file is refused before it is read to its end

Numbers = list[bytes] | npt.NDArray[np.float32]  # of a vector: their texts, or an array
Row = tuple[int, str, Numbers]  # a number from 1, a word, its vector
RawRow = tuple[bytes, Numbers | None]  # None where the line, in place of the word, is malformed

_HEADER = re.compile(rb"(\d{1,12}) (\d{1,12})\s*")
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf)", re.IGNORECASE)
# The standard library raises these for archives that are cut, damaged or encrypted.
_UNPACKING_ERRORS = (EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error, LZMAError)


def load_word_vectors(
    path: FilePath,
    tokenizer: TokenizersBackend,
    *,
    member: str | None = None,
    seed: int = 0,
    token: str | None = None,
    cache_dir: str | None = None,
) -> tuple[Tensor, float]:
    """Read the vectors of a tokenizer's words from a file, a folder or a repository on the Hub.

    A file is text, a word and its d numbers per line, with a header line of two counts (word2vec,
    fastText) or without (GloVe), or word2vec's binary form; it is plain, gzip or zip. The content
    decides which, not the name. A folder or repository holds such files, or a static embedding of
    model2vec or of sentence-transformers: `model.safetensors` with one matrix, and
    `tokenizer.json`; tokens that are whole words are the words.

    A word takes the first row that spells it exactly, or else the first row that the tokenizer's
    normalizer turns into the word: "the" takes "The" if the tokenizer lower-cases. A word
    without a row is drawn from a normal distribution with the mean and the standard deviation of
    the rows found, per dimension. The row of the padding token is zero.

    Args:
        path: The file, the folder, or OWNER/NAME on the Hub, also OWNER/NAME@REVISION.
        tokenizer: A word-level tokenizer, as `build_tokenizer` makes it.
        member: The file to read in a zip archive, folder or repository that holds several; of an
            archive in a folder or repository, ARCHIVE/FILE.
        seed: Decides the rows that are drawn.
        token: Token for a private repository on the Hub.
        cache_dir: Folder for downloads.

    Returns the matrix, float32, shape (vocab, d), and the share of the vocabulary found in the
    file, special tokens not counted. Rows that cannot be read are passed over and counted in the
    log. Raises ValueError if the file cannot be unpacked, more than a thousandth of the rows are
    malformed (row 1 is the first below the header) or rows are missing, no word is found, or the
    file to read is not clear; OSError if there is no such file or repository, or no way to the Hub.
    """
    specials = set(tokenizer.all_special_tokens)
    wanted = {word: id_ for word, id_ in tokenizer.get_vocab().items() if word not in specials}
    normalizer = tokenizer.backend_tokenizer.normalizer
    normalize = normalizer.normalize_str if normalizer else str
    faults = _Faults()
    with _open_rows(path, member, token, cache_dir, faults) as (width, rows):
        vectors = np.zeros((len(tokenizer), width), np.float32)
        found = _fill(vectors, rows, wanted, normalize, faults)
        faults.check()
        faults.warn(os.fspath(path))
    if not found:
        raise refusal(
            f"{path} has none of the tokenizer's {len(wanted)} words",
            "are both of the same language, and is the tokenizer lower-cased if the file is?",
        )
    matrix = torch.from_numpy(vectors)
    std, mean = torch.std_mean(matrix[found], dim=0, correction=0)
    missing = sorted(set(range(len(matrix))).difference(found))
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(missing), width, generator=generator)
    matrix[missing] = noise.mul_(std).add_(mean)
    if tokenizer.pad_token_id is not None:
        matrix[tokenizer.pad_token_id] = 0
    return matrix, len(found) / len(wanted)


def _fill(
    vectors: np.ndarray,
    rows: Iterable[Row],
    wanted: Mapping[str, int],
    normalize: Callable[[str], str],
    faults: "_Faults",
) -> list[int]:
    """Parse the rows of wanted words into their vectors; return the indices found, sorted."""
    found: dict[int, bool] = {}  # index of each word found -> whether it is spelt exactly
    shown = logging.tqdm(rows, desc="Reading vectors", unit=" words", delay=1)
    for number, word, numbers in shown:
        exact = word in wanted
        index = wanted.get(word if exact else normalize(word))
        if index is None or found.get(index, -1) >= exact:
            continue
        try:
            with np.errstate(over="ignore"):  # a number that overflows becomes infinite
                vector = np.array(numbers, np.float32)
        except ValueError as error:
            faults.add(f"row {number}, {word!r}: {error}")
            continue
        if not np.isfinite(vector).all():
            faults.add(f"row {number}, {word!r}: a number is not finite")
            continue
        found[index] = exact
        vectors[index] = vector
    return sorted(found)


class _Faults:
    """The rows of a file that cannot be read: a few are passed over, and more are refused."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.num_bad = 0
        self.first = ""

    def add(self, fault: str) -> None:
        """Count a row; ValueError names the first one where the beginning has too many."""
        self.first = self.first or fault
        self.num_bad += 1
        if self.num_bad > MAX_BAD_ROWS:
            self.check()

    def check(self) -> None:
        """Raise ValueError if more than a thousandth of the rows so far cannot be read."""
        if self.num_bad > MAX_BAD_SHARE * self.num_rows:
            if self.num_bad == 1:
                raise ValueError(self.first)
            raise ValueError(f"{self.first} ({self.num_bad:,} of {self.num_rows:,} rows)")

    def warn(self, name: str) -> None:
        """Log how many rows were passed over."""
        if self.num_bad:
            rows = "row" if self.num_bad == 1 else "rows"
            logger.warning(f"{name}: {self.num_bad:,} {rows} passed over, the first: {self.first}")


def read_words(
    path: FilePath,
    *,
    member: str | None = None,
    token: str | None = None,
    cache_dir: str | None = None,
) -> Iterator[str]:
    """Yield the words of a file of vectors in its order, mostly by falling frequency.

    They are `extra_words` for `build_tokenizer`. Arguments and errors are those of
    `load_word_vectors`.
    """
    faults = _Faults()
    with _open_rows(path, member, token, cache_dir, faults) as (_, rows):
        for _, word, _ in rows:
            yield word
        faults.check()


@contextmanager
def _open_rows(
    path: FilePath,
    member: str | None,
    token: str | None,
    cache_dir: str | None,
    faults: _Faults,
) -> Iterator[tuple[int, Iterator[Row]]]:
    """Give d and an iterator of the rows; errors inside the block name the file."""
    name = os.fspath(path)
    paths = [name]
    try:
        if os.path.isdir(name):
            files, member = _choose(sorted(_files_in(Path(name))), member)
            paths = [os.path.join(name, file) for file in files]
            name = paths[0]
        elif not os.path.exists(name) and "/" in name and may_be_on_the_hub(name.split("@")[0]):
            listed, fetch = _look_up(name, token, cache_dir)
            files, member = _choose(listed, member)
            paths = [fetch(file) for file in files]
            name = f"{name}/{files[0]}"
        if len(paths) > 1:
            width, words = _static_rows(*paths)
            yield width, _checked(words, None, faults)
            return
        check_readable(paths[0])
        with open(paths[0], "rb") as packed, ExitStack() as stack:
            try:
                unpacked = _unpack(stack, packed, member)
                stream = stack.enter_context(BufferedReader(unpacked, buffer_size=1 << 20))
                yield _read_form(stream, faults)
            except _UNPACKING_ERRORS as error:
                raise refusal(
                    f"it cannot be unpacked: {error}", "is it complete and not encrypted?"
                ) from error
    except ValueError as reason:
        raise ValueError(f"{name}: {reason}") from reason


def _files_in(folder: Path) -> list[str]:
    return [file.relative_to(folder).as_posix() for file in folder.rglob("*")]


def _look_up(
    name: str, token: str | None, cache_dir: str | None
) -> tuple[list[str], Callable[[str], str]]:
    """Return the files of a repository (offline, the downloaded ones), and a way to fetch one."""
    repo, _, revision = name.partition("@")
    try:
        # No file is downloaded: the call resolves the revision, offline to the last known commit.
        snapshot = snapshot_download(
            repo, revision=revision or None, cache_dir=cache_dir, token=token, allow_patterns=[]
        )
        folder = Path(snapshot)
        files = _files_in(folder)
        try:
            files = HfApi(token=token).list_repo_files(repo, revision=folder.name)
        except Exception:  # a lost connection has no common class
            if not files:
                raise
    except OSError as reason:
        raise OSError(
            f"there is no file or folder {name}, and on the Hub: {one_line(reason)}"
        ) from reason
    fetch = partial(hf_hub_download, repo, revision=folder.name, cache_dir=cache_dir, token=token)
    return files, fetch


def _choose(files: list[str], member: str | None) -> tuple[list[str], str | None]:
    """Return which files of a folder to read, and which member of a zip archive among them."""
    vectors = [file for file in files if file.lower().endswith(VECTOR_ENDINGS)]
    if member is None:
        static = _static_folders(files)
        if static:
            return [min(static, key=len) + name for name in STATIC_FILES], None
    else:
        for file in vectors:
            if f"{member}/".startswith(f"{file}/"):
                return [file], member.removeprefix(file).removeprefix("/") or None
    if len(vectors) == 1:
        return vectors, member
    raise _unclear(vectors or files, member)


def _static_folders(files: list[str]) -> list[str]:
    """Return the folders that hold a static embedding, as prefixes of the names of its files."""
    weights, tokenizer = STATIC_FILES
    folders = []
    for file in files:
        folder = file.removesuffix(weights)
        if Path(file).name == weights and folder + tokenizer in files:
            folders.append(folder)
    return folders


def _unclear(files: list[str], member: str | None) -> Exception:
    way_out = "name the file of vectors to read with --word_vectors_member"
    if member:
        way_out += f", not {member!r}"
    return refusal(f"it holds {files[:20]}", way_out)


def _static_rows(weights: str, tokenizer: str) -> tuple[int, Iterator[RawRow]]:
    """Return d and the rows of whole words of a static embedding, in the order of ids."""
    matrix = _static_matrix(weights)
    try:
        vocabulary: dict[str, int] = Tokenizer.from_file(tokenizer).get_vocab()
    except Exception as error:  # tokenizers raise no narrower class
        raise ValueError(f"{STATIC_FILES[1]} beside it is not a tokenizer: {error}") from error
    if max(vocabulary.values(), default=-1) >= len(matrix):
        raise refusal(
            f"it has {len(matrix)} vectors and its tokenizer {len(vocabulary)} tokens",
            "both must be of one model",
        )
    return matrix.shape[1], _whole_words(vocabulary, matrix)


def _static_matrix(weights: str) -> npt.NDArray[np.float32]:
    """Return the matrix of a static embedding, shape (tokens, d)."""
    try:
        with safe_open(weights, framework="pt") as file:  # it has compared all sizes by now
            names = list(file.keys())
            is_matrix = len(names) == 1 and len(file.get_slice(names[0]).get_shape()) == 2
            if not is_matrix or names[0] not in STATIC_MATRICES:
                raise refusal(
                    f"it holds {names[:5]}, not one matrix called {' or '.join(STATIC_MATRICES)}",
                    "name static embeddings",
                )
            matrix: npt.NDArray[np.float32] = file.get_tensor(names[0]).float().numpy()
    except SafetensorError as error:
        raise refusal(f"it cannot be read: {error}", "is it complete?") from error
    return matrix


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


def _unpack(stack: ExitStack, packed: BufferedReader, member: str | None) -> Any:
    """Return the stream of a file's content, after its first bytes: zip, gzip or plain."""
    start = packed.peek(START)[:START]
    fault = foreign_content(start)
    if fault is not None:
        raise ValueError(fault)
    magic = start[:4]
    if magic in (b"PK\x03\x04", b"PK\x05\x06"):
        archive = stack.enter_context(zipfile.ZipFile(packed))
        files = []
        for name in archive.namelist():
            if not name.endswith("/") and not name.startswith("__MACOSX/"):
                files.append(name)
        chosen = [file for file in files if member in (None, file)]
        if len(chosen) != 1:
            raise _unclear(files, member)
        return stack.enter_context(archive.open(chosen[0]))
    if member is not None:
        raise refusal("it is not a zip archive", f"leave out --word_vectors_member {member}")
    if magic[:2] == b"\x1f\x8b":
        return stack.enter_context(gzip.GzipFile(fileobj=packed))
    return packed


def _read_form(stream: BufferedReader, faults: _Faults) -> tuple[int, Iterator[Row]]:
    """Return d and the rows; the first ones show the form."""
    lines = iter(partial(stream.readline, MAX_LINE), b"")
    first = next(lines, b"")
    header = _HEADER.fullmatch(first)
    width = int(header[2]) if header else first.rstrip(b" \r\n").count(b" ")
    if not 1 <= width <= MAX_WIDTH:
        raise refusal(
            f"line 1: {width} numbers per word",
            f"the line must be a word and 1 to {MAX_WIDTH} numbers, or two counts: words and "
            "numbers of each",
        )
    if header is None:
        return width, _checked(_text_rows(chain([first], lines), width), None, faults)
    fields = stream.peek().partition(b"\n")[0].split()[1:][-width:]
    is_text = fields and all(map(_NUMBER.fullmatch, fields))
    rows = _text_rows(lines, width) if is_text else _binary_rows(stream, width)
    return width, _checked(rows, int(header[1]), faults)


def _text_rows(lines: Iterable[bytes], width: int) -> Iterator[RawRow]:
    """Take the last d fields of a line as numbers: some words of GloVe hold spaces."""
    for number, line in enumerate(lines, start=1):
        if len(line) == MAX_LINE:
            raise ValueError(f"row {number} has more than {MAX_LINE:,} bytes: {line[:40]!r}...")
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
        byte = stream.read(1)
        while byte not in (b" ", b""):
            word += byte
            if len(word) > MAX_LINE:
                raise ValueError(f"a word has more than {MAX_LINE:,} bytes")
            byte = stream.read(1)
        numbers = stream.read(4 * width)
        if len(numbers) < 4 * width:
            return
        yield bytes(word.lstrip(b"\n")), np.frombuffer(numbers, "<f4")


def _checked(rows: Iterable[RawRow], count: int | None, faults: _Faults) -> Iterator[Row]:
    """Decode the words of rows, and check how many there are; the bad ones are counted only."""
    for word, numbers in rows:
        faults.num_rows += 1
        if numbers is None:
            faults.add(f"row {faults.num_rows}: {word!r:.80} is not a word and its numbers")
            continue
        try:
            yield faults.num_rows, word.decode(), numbers
        except UnicodeDecodeError:
            faults.add(f"row {faults.num_rows}: the word {word!r:.80} is not UTF-8")
    if count not in (None, faults.num_rows):
        raise refusal(
            f"the first line promises {count} words, {faults.num_rows} follow",
            "is the file complete?",
        )
