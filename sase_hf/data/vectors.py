"""Word vectors that a new model starts from: of files, of the Hub, and of one's own texts.

V tokens of the vocabulary, d numbers of a vector, r (V,) how often each word occurs beside others,
C (V, V) how often two words occur together.
"""

import codecs
import gzip
import os
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import Any, BinaryIO

import numpy as np
import torch
from huggingface_hub import snapshot_download
from numpy.lib.stride_tricks import sliding_window_view
from safetensors.torch import load_file
from scipy.sparse import coo_array, csr_array
from tokenizers import Tokenizer
from torch import Tensor
from transformers import TokenizersBackend
from transformers.utils.logging import tqdm

from ..utils.errors import refusal
from ..utils.files import FilePath, check_content, check_readable
from ..utils.loading import may_be_on_the_hub, reraise_naming
from .tokenizer import checked_texts

# The files of a static embedding of model2vec or of sentence-transformers.
STATIC_FILES = ["model.safetensors", "tokenizer.json"]

WORD_STARTS = ("\N{LOWER ONE EIGHTH BLOCK}", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}")
CONTINUATION = "##"

WIDTH = 100
WINDOW = 5  # tokens on each side of a word that occur together with it
SMOOTHING = 0.75  # exponent of the counts of contexts; rare contexts would weigh too much
BLOCK = 2**20  # characters that are tokenized at a time
MAX_PAIRS = 10_000_000  # the most frequent ones, in one gigabyte; reviews have four million
NO_WORD = -1
ROUNDING = 1e-5  # of the information of two words, in float32

Row = tuple[str, Any]  # a word and its numbers: their texts, or an array


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

    Returns the matrix, float32, shape (V, d), and the share of the vocabulary found in the
    file, special tokens not counted. Raises ValueError if the file cannot be read, a row has too
    few numbers, or no word is found; OSError if there is no such file or repository, or no way to
    the Hub.
    """
    wanted = tokenizer.get_vocab()
    for special_token in tokenizer.all_special_tokens:
        del wanted[special_token]
    normalizer = tokenizer.backend_tokenizer.normalizer
    normalize = normalizer.normalize_str if normalizer else str
    exact: dict[int, Tensor] = {}
    alike: dict[int, Tensor] = {}
    for word, numbers in vector_rows(path, token=token, cache_dir=cache_dir):
        spelt = exact if word in wanted else alike
        index = wanted.get(word if word in wanted else normalize(word))
        if index is not None and index not in spelt:
            try:
                spelt[index] = torch.tensor(list(map(float, numbers)))
                if not spelt[index].isfinite().all():
                    raise ValueError("a number is not finite")
            except ValueError as reason:
                raise ValueError(f"{path}: the row of {word!r}: {reason}") from reason
    vectors = alike | exact
    if not vectors:
        raise refusal(
            f"{path} has none of the tokenizer's {len(wanted)} words",
            "are both of the same language, and is the tokenizer lower-cased if the file is?",
        )
    found = sorted(vectors)
    known = torch.stack([vectors[index] for index in found])
    std, mean = torch.std_mean(known, dim=0, correction=0)
    missing = sorted(set(range(len(tokenizer))).difference(found))
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(missing), known.shape[1], generator=generator)
    matrix = torch.empty(len(tokenizer), known.shape[1])
    matrix[found] = known
    matrix[missing] = noise * std + mean
    return _start(matrix, len(found), tokenizer)


def own_word_vectors(
    texts: Iterable[str],
    tokenizer: TokenizersBackend,
    *,
    width: int = WIDTH,
    std: float = 0.1,
    seed: int = 0,
) -> tuple[Tensor, float]:
    """Learn the vectors of a tokenizer's words from texts.

    Two words at a distance of k tokens, at most 5, count 1 / k. The vectors are the rows of
    U sqrt(S) of the largest singular values of the positive pointwise mutual information, all of
    the length of a random vector (Levy and Goldberg, "Neural Word Embedding as Implicit Matrix
    Factorization", 2014). The unknown token, and a word without a positive entry, starts as such a
    random vector. The row of the padding token is zero. The same texts, seed and number of threads
    give the same vectors.

    Args:
        texts: The texts, such as `dataset["train"]["text"]`. Read once and not kept.
        tokenizer: Any fast tokenizer, as `build_tokenizer` makes it.
        width: d.
        std: Standard deviation of a random number; that of a new model is its `initializer_range`.
        seed: Decides the random vectors. The vector of a word that the largest singular values
            hardly describe depends on it, too.

    Returns the matrix, float32, shape (V, d), and the share of the vocabulary with a vector,
    special tokens not counted. ValueError is raised as by `build_tokenizer`.
    """
    # Here, because it takes a second, which `import sase_hf` does not have to.
    from sklearn.utils.extmath import randomized_svd

    information = _positive_information(*_counted(_blocks(texts, tokenizer), len(tokenizer)))
    num_values = min(width, len(tokenizer))
    left, values, _ = randomized_svd(information, num_values, random_state=seed)
    vectors = left * np.sqrt(values)
    lengths = np.linalg.norm(vectors, axis=1)
    is_found = (information.sum(axis=1) > 0) & (lengths > 0)
    directions = vectors[is_found] / lengths[is_found, np.newaxis]
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(len(tokenizer), width, generator=generator) * std
    matrix[is_found] = 0  # also beyond the singular values of a small vocabulary
    matrix[is_found, : len(values)] = torch.from_numpy(directions) * (std * width**0.5)
    return _start(matrix, int(is_found.sum()), tokenizer)


def has_tokens(texts: Iterable[str], tokenizer: TokenizersBackend, count: int) -> bool:
    """Return whether texts have so many tokens, special ones not counted; read no more of them."""
    numbers = (np.count_nonzero(block != NO_WORD) for block in _blocks(texts, tokenizer))
    return any(total >= count for total in accumulate(numbers))


def _start(matrix: Tensor, num_found: int, tokenizer: TokenizersBackend) -> tuple[Tensor, float]:
    """Return the matrix with a padding row of zeros, and the share of the words that were found."""
    if tokenizer.pad_token_id is not None:
        matrix[tokenizer.pad_token_id] = 0
    return matrix, num_found / (len(tokenizer) - len(tokenizer.all_special_ids))


def vector_rows(path: FilePath, **hub_options: Any) -> Iterator[Row]:
    """Yield the words and vectors of a file, a folder or a repository, with a progress bar.

    The words, mostly by falling frequency, are `extra_words` for `build_tokenizer`. Arguments and
    errors are those of `load_word_vectors`.
    """
    name = folder = os.fspath(path)
    repo, _, revision = name.partition("@")
    is_on_the_hub = "/" in repo and may_be_on_the_hub(repo)
    if not is_on_the_hub and not os.path.isdir(name):
        check_readable(name)
    with reraise_naming(name):
        if is_on_the_hub:
            folder = snapshot_download(
                repo, revision=revision or None, allow_patterns=STATIC_FILES, **hub_options
            )
        rows = _static_rows(folder) if os.path.isdir(folder) else _rows_of_file(name)
        yield from tqdm(rows, desc="Reading vectors", unit=" words", delay=1)


def _rows_of_file(path: str) -> Iterator[Row]:
    """Yield the rows of a file in the form that its name and its first line show."""
    check_content(path)
    unpacked = path.removesuffix(".gz")
    open_file: Any = open if path == unpacked else gzip.open
    with open_file(path, "rb") as file:
        first = file.readline().removeprefix(codecs.BOM_UTF8).split()
        header = [int(number) for number in first if number.isdigit()]
        if len(first) != 2 or len(header) != 2:
            header = [0, len(first) - 1]
            file.seek(0)
        promised, width = header
        if unpacked.endswith(".bin"):
            rows = _binary_rows(file, width, promised)
        else:
            rows = _text_rows(file, width)
        num_rows = 0
        for word, numbers in rows:
            num_rows += 1
            if len(numbers) < max(width, 1):
                raise refusal(
                    f"{word!r:.80} has {len(numbers)} numbers, the first line promises {width}",
                    "the file must be text, such as GloVe, or end in .gz or .bin (word2vec)",
                )
            yield word, numbers
        if promised and (num_rows != promised or file.read(1).strip()):
            what = f"{num_rows} words follow or more, the first line promises {promised}"
            raise refusal(what, "is the file complete?")


def _text_rows(file: BinaryIO, width: int) -> Iterator[Row]:
    """Take the last d fields of a line as numbers: some words of GloVe hold spaces."""
    for line in codecs.iterdecode(file, "utf-8-sig", "replace"):
        word, *numbers = line.rstrip().rsplit(" ", width)
        yield word, numbers


def _binary_rows(file: BinaryIO, width: int, num_rows: int) -> Iterator[Row]:
    """Read words, spaces, and d little-endian floats each, with or without line feeds."""
    for _ in range(num_rows):
        word = b"".join(iter(lambda: file.read(1) or b" ", b" ")).lstrip(b"\n")
        yield word.decode("utf-8", "replace"), np.frombuffer(file.read(4 * width), "<f4")


def _static_rows(folder: str) -> Iterator[Row]:
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


def _blocks(texts: Iterable[str], tokenizer: TokenizersBackend) -> Iterator[np.ndarray]:
    """Yield the ids of many texts in one array, `NO_WORD` for special ones and after each text."""
    gap = [NO_WORD] * (WINDOW + 1)
    for batch in _batches(texts):
        encoded = tokenizer(
            batch,
            add_special_tokens=False,
            verbose=False,  # of lengths that no model will read
        )
        block = np.array(list(chain.from_iterable(ids + gap for ids in encoded["input_ids"])))
        block[np.isin(block, tokenizer.all_special_ids)] = NO_WORD
        yield block


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts, at least `BLOCK` characters at a time."""
    batch: list[str] = []
    size = 0
    for text in checked_texts(texts, "Counting pairs of words"):
        batch.append(text)
        size += len(text) + WINDOW
        if size >= BLOCK:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def _counted(blocks: Iterable[np.ndarray], num_words: int) -> tuple[csr_array, np.ndarray]:
    """Return how often two words occur together, each pair once, in bounded memory; and r.

    r, of shape (V,), counts all pairs, also those that the matrix (V, V) has no room for.
    """
    totals = np.zeros(num_words)
    none = csr_array((num_words, num_words), dtype=np.float32)
    counts = recent = none  # two parts, because a sum takes the time of its larger part
    for block in blocks:
        is_word = sliding_window_view(block != NO_WORD, WINDOW + 1).T  # a row for each distance
        distances, places = (is_word[0] & is_word[1:]).nonzero()
        distances += 1
        pairs = (block[places], block[places + distances])
        weights = (1 / distances).astype(np.float32)
        of_block = coo_array((weights, pairs), none.shape).tocsr()
        totals += of_block.sum(axis=0) + of_block.sum(axis=1)
        recent = recent + of_block
        if recent.nnz > MAX_PAIRS // 4:
            counts = _most_frequent(counts + recent)
            recent = none
    return _most_frequent(counts + recent), totals


def _most_frequent(counts: csr_array) -> csr_array:
    """Drop the rarest pairs beyond the limit."""
    num_dropped = counts.nnz - MAX_PAIRS
    if num_dropped > 0:
        rarest = np.argpartition(counts.data, num_dropped)[:num_dropped]
        counts.data[rarest] = 0
        counts.eliminate_zeros()
    return counts


def _positive_information(counts: csr_array, totals: np.ndarray) -> csr_array:
    """Return max(log(C_ij sum(r^0.75) / (r_i r_j^0.75)), 0), shape (V, V), of a half of C."""
    information = (counts + counts.T).tocoo()
    words, contexts = information.coords
    smoothed = totals**SMOOTHING
    # In the precision of the counts, which needs half of the memory.
    of_words = np.log(totals[words]).astype(np.float32)
    of_contexts = np.log(smoothed[contexts]).astype(np.float32)
    of_all = np.log(smoothed.sum() or 1).astype(np.float32)
    logs = np.log(information.data) - of_words - of_contexts + of_all
    information.data = np.where(logs > ROUNDING, logs, 0)
    information.eliminate_zeros()
    return information.tocsr()
