"""Word vectors of files, folders and the Hub: an embedding matrix for a tokenizer."""

import codecs
import gzip
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import torch
from huggingface_hub import snapshot_download
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import TokenizersBackend
from transformers.utils import logging

from ..utils.errors import refusal
from ..utils.files import FilePath, check_content, check_readable
from ..utils.loading import may_be_on_the_hub, reraise_naming

# The files of a static embedding of model2vec or of sentence-transformers.
STATIC_FILES = ["model.safetensors", "tokenizer.json"]

WORD_STARTS = ("\N{LOWER ONE EIGHTH BLOCK}", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}")
CONTINUATION = "##"

Numbers = Sequence[str] | np.ndarray  # of a vector: their texts, or an array

_HEADER = re.compile(r"(\d+) (\d+)\s*")
_ENDS_IN_NUMBER = re.compile(r".* [+-]?[\d.]*\d(e[+-]?\d+)?", re.IGNORECASE)


def load_word_vectors(
    path: FilePath,
    tokenizer: TokenizersBackend,
    *,
    seed: int = 0,
    token: str | None = None,
    cache_dir: str | None = None,
) -> tuple[Tensor, float]:
    """Read the vectors of a tokenizer's words from a file, a folder or a repository on the Hub.

    A file is UTF-8 text, a word and its d numbers per line, with a header line of two counts
    (word2vec, fastText) or without (GloVe); one called `.bin` is in word2vec's binary form, and one
    called `.gz` is unpacked. A folder or repository holds a static embedding of model2vec or of
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
    file, special tokens not counted. Raises ValueError if the file cannot be read, a row is
    malformed (row 1 is the first below the header) or missing, or no word is found; OSError if
    there is no such file or repository, or no way to the Hub.
    """
    specials = set(tokenizer.all_special_tokens)
    wanted = {word: id_ for word, id_ in tokenizer.get_vocab().items() if word not in specials}
    normalizer = tokenizer.backend_tokenizer.normalizer
    normalize = normalizer.normalize_str if normalizer else str
    exact: dict[int, Tensor] = {}
    alike: dict[int, Tensor] = {}
    rows = _rows(path, token, cache_dir)
    for number, (word, numbers) in enumerate(rows, 1):
        spelt = exact if word in wanted else alike
        index = wanted.get(word if spelt is exact else normalize(word))
        if index is not None and index not in spelt:
            spelt[index] = _vector(numbers, f"{path}: row {number}, {word!r},")
    vectors = alike | exact
    if not vectors:
        raise refusal(
            f"{path} has none of the tokenizer's {len(wanted)} words",
            "are both of the same language, and is the tokenizer lower-cased if the file is?",
        )
    found = sorted(vectors)
    known = torch.stack([vectors[index] for index in found])
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
    for word, _ in _rows(path, token, cache_dir):
        yield word


def _vector(numbers: Numbers, place: str) -> Tensor:
    """Return the numbers of a row, which errors call `place`, as float32."""
    try:
        vector = torch.tensor(list(map(float, numbers)))
    except ValueError as reason:
        raise ValueError(f"{place} {reason}") from reason
    if not vector.isfinite().all():
        raise ValueError(f"{place} has a number that is not finite")
    return vector


def _rows(
    path: FilePath, token: str | None, cache_dir: str | None
) -> Iterator[tuple[str, Numbers]]:
    """Yield the words and vectors of a file, a folder or a repository, with a progress bar."""
    name = folder = os.fspath(path)
    repo, _, revision = name.partition("@")
    if "/" in repo and may_be_on_the_hub(repo):
        with reraise_naming(name):
            folder = snapshot_download(
                repo,
                revision=revision or None,
                cache_dir=cache_dir,
                token=token,
                allow_patterns=STATIC_FILES,
            )
    if os.path.isdir(folder):
        rows = _static_rows(folder)
    else:
        check_readable(name)
        rows = _rows_of_file(name)
    try:
        yield from logging.tqdm(rows, desc="Reading vectors", unit=" words", delay=1)
    except Exception as reason:  # of a damaged file: any kind
        raise ValueError(f"{name}: cannot read word vectors: {reason}") from reason


def _rows_of_file(path: str) -> Iterator[tuple[str, Numbers]]:
    """Yield the rows of a file in the form that its name and its first line show."""
    check_content(path)
    unpacked = path.removesuffix(".gz")
    open_file: Any = open if path == unpacked else gzip.open
    with open_file(path, "rb") as file:
        first = file.readline()
        header = _HEADER.fullmatch(first.decode("utf-8-sig", "replace"))
        width = int(header[2]) if header else first.rstrip().count(b" ")
        if not header:
            file.seek(0)
        read = _binary_rows if unpacked.endswith(".bin") else _text_rows
        number = 0
        for number, (word, numbers) in enumerate(read(file, width), 1):
            if len(numbers) < max(width, 1) or _ENDS_IN_NUMBER.fullmatch(word):
                raise refusal(
                    f"row {number}, {word!r:.80}, is not a word and {width} numbers",
                    "the file must be text, such as GloVe, or end in .gz or .bin (word2vec)",
                )
            yield word, numbers
        if header and number != int(header[1]):
            raise refusal(
                f"the first line promises {header[1]} words, {number} follow",
                "is the file complete?",
            )


def _text_rows(file: BinaryIO, width: int) -> Iterator[tuple[str, Numbers]]:
    """Take the last d fields of a line as numbers: some words of GloVe hold spaces."""
    for line in codecs.iterdecode(file, "utf-8-sig", "replace"):
        word, *numbers = line.rstrip().rsplit(" ", width)
        yield word, numbers


def _binary_rows(file: BinaryIO, width: int) -> Iterator[tuple[str, Numbers]]:
    """Read words, spaces, and d little-endian floats each, with or without line feeds."""
    while True:
        word = bytearray()
        while (byte := file.read(1)) not in (b" ", b""):
            word += byte
        numbers = file.read(4 * width)
        if len(numbers) < 4 * width:
            return
        yield word.lstrip(b"\n").decode("utf-8", "replace"), np.frombuffer(numbers, "<f4")


def _static_rows(folder: str) -> Iterator[tuple[str, Numbers]]:
    """Yield the whole words of a static embedding, in the order of ids."""
    weights, tokenizer = (os.path.join(folder, name) for name in STATIC_FILES)
    matrices = load_file(weights)
    if len(matrices) != 1:
        raise refusal(f"it holds {list(matrices)[:5]}, not one matrix", "name a static embedding")
    [matrix] = matrices.values()
    vocabulary = Tokenizer.from_file(tokenizer).get_vocab()
    # If few tokens begin with the mark, it is an ordinary character and marks no words.
    num_marked = sum(token.startswith(WORD_STARTS) for token in vocabulary)
    are_marked = 10 * num_marked > len(vocabulary)
    for token in sorted(vocabulary, key=vocabulary.__getitem__):
        word = token
        if are_marked and token.startswith(WORD_STARTS):
            word = token[1:]
        elif token.startswith(CONTINUATION) or (are_marked and token[:1].isalnum()):
            continue
        if word:
            yield word, matrix[vocabulary[token]].float().numpy()
