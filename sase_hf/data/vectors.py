"""Word vectors that a new model starts from: of files, of the Hub, and of one's own texts.

V tokens of the vocabulary, d numbers of a vector, r (V,) how often each word occurs beside others,
C (V, V) how often two words occur together.
"""

import codecs
import gzip
import os
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from scipy.sparse import csr_array
from tokenizers import Tokenizer, models
from torch import Tensor
from transformers import TokenizersBackend
from transformers.utils.hub import cached_file
from transformers.utils.logging import tqdm

from ..utils.files import FilePath, check_readable
from ..utils.loading import may_be_on_the_hub, reraise_naming
from ..utils.text import refusal
from .tokenizer import checked_texts

# The files of a static embedding of model2vec or of sentence-transformers.
STATIC_FILES = ["model.safetensors", "tokenizer.json"]

WORD_STARTS = ("\N{LOWER ONE EIGHTH BLOCK}", "\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}")
CONTINUATION = "##"

WIDTH = 100
WINDOW = 5  # tokens on each side of a word that occur together with it
SMOOTHING = 0.75  # exponent of the counts of contexts; rare contexts would weigh too much
BLOCK = 2**20  # characters that are tokenized at a time
NO_WORD = -1
ROUNDING = 1e-9  # of the information of two words

Row = tuple[str, np.ndarray]  # a word and its numbers (d,), float32


def load_word_vectors(
    path: FilePath,
    tokenizer: TokenizersBackend,
) -> tuple[Tensor, float]:
    """Read the vectors of a tokenizer's words from a file, a folder or a repository on the Hub.

    A file is UTF-8 text, a word and its d numbers per line, with a header line of two counts
    (word2vec, fastText) or without (GloVe); one called `.bin` is in word2vec's binary form, and one
    called `.gz` is unpacked. A folder or repository holds a static embedding of model2vec or of
    sentence-transformers: `model.safetensors` with one matrix, and `tokenizer.json`; tokens that
    are whole words are the words.

    A word takes the row that spells it exactly, or else the first row that the tokenizer's
    normalizer turns into the word: "the" takes "The" if the tokenizer lower-cases. A word
    without a row is drawn, by torch's generator, from a normal distribution with the mean and the
    standard deviation of the rows found, per dimension. The row of the padding token is zero.

    Args:
        path: The file, the folder, or OWNER/NAME on the Hub.
        tokenizer: A word-level tokenizer, as `build_tokenizer` makes it.

    Returns the matrix, float32, shape (V, d), and the share of the vocabulary found in the
    file, special tokens not counted. Raises ValueError if the file cannot be read, a row has too
    few numbers, or no word is found; OSError if there is no such file or repository, or no way to
    the Hub.
    """
    wanted = tokenizer.get_vocab()
    for special_token in tokenizer.all_special_tokens:
        del wanted[special_token]
    normalize = tokenizer.backend_tokenizer.normalizer.normalize_str
    vectors: dict[int, np.ndarray] = {}
    for word, numbers in vector_rows(path):
        if word in wanted:
            vectors[wanted[word]] = numbers
        elif (spelling := normalize(word)) in wanted:
            vectors.setdefault(wanted[spelling], numbers)
    if not vectors:
        raise refusal(
            f"{path} has none of the tokenizer's {len(wanted)} words",
            "are both of the same language, and is the tokenizer lower-cased if the file is?",
        )
    found = sorted(vectors)
    with reraise_naming(path):
        known = torch.from_numpy(
            np.asarray_chkfinite(np.stack([vectors[index] for index in found]))
        )
    std, mean = torch.std_mean(known, dim=0, correction=0)
    missing = sorted({*range(len(tokenizer))} - {*found})
    noise = torch.randn(len(missing), known.shape[1])
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

    information = _positive_information(_blocks(texts, tokenizer), len(tokenizer))
    left, values, _ = randomized_svd(information, width, random_state=seed)
    is_found = information.sum(axis=1) > 0
    learnt = F.normalize(torch.from_numpy(left[is_found] * np.sqrt(values)))
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(len(tokenizer), width, generator=generator) * std
    # A small vocabulary has fewer values than the width.
    matrix[is_found] = F.pad(learnt, (0, width - len(values))) * (std * width**0.5)
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


def vector_rows(path: FilePath) -> Iterator[Row]:
    """Yield the words and vectors of a file, a folder or a repository, with a progress bar.

    The words, mostly by falling frequency, are `extra_words` for `build_tokenizer`. Arguments and
    errors are those of `load_word_vectors`.
    """
    name = os.fspath(path)
    is_folder = os.path.isdir(name) or ("/" in name and may_be_on_the_hub(name))
    if not is_folder:
        check_readable(name)
    with reraise_naming(name):
        rows = _static_rows(name) if is_folder else _rows_of_file(name)
        yield from tqdm(rows, desc="Reading vectors", delay=1)


def _rows_of_file(path: str) -> Iterator[Row]:
    """Yield the rows of a file in the form that its name and its first line show."""
    open_file: Any = gzip.open if path.endswith(".gz") else open
    with open_file(path, "rb") as file:
        first = file.readline().split()
        width = len(first) - 1
        if width == 1:  # a header line: how many words, and how many numbers each
            width = int(first[1])
        else:
            file.seek(0)
        if path.removesuffix(".gz").endswith(".bin"):
            for _ in range(int(first[0])):
                letters = b"".join(iter(lambda: file.read(1) or b" ", b" ")).lstrip(b"\n")
                numbers = np.frombuffer(file.read(4 * width), "<f4", width)
                yield letters.decode(errors="replace"), numbers
            return
        for line in codecs.iterdecode(file, "utf-8-sig", "replace"):
            # The last fields are the numbers: some words of GloVe hold spaces.
            word, *fields = line.rstrip().rsplit(" ", width)
            yield word, np.array(fields, np.float32)


def _static_rows(name: str) -> Iterator[Row]:
    """Yield the whole words of a static embedding, in the order of ids."""
    weights, tokenizer_file = (str(cached_file(name, file)) for file in STATIC_FILES)
    [matrix] = load_file(weights).values()
    tokenizer = Tokenizer.from_file(tokenizer_file)
    are_marked = isinstance(tokenizer.model, models.BPE | models.Unigram)
    for word, row in sorted(tokenizer.get_vocab().items(), key=itemgetter(1)):
        if are_marked and word.startswith(WORD_STARTS):
            word = word[1:]
        elif word.startswith(CONTINUATION) or (are_marked and word[:1].isalnum()):
            continue
        yield word, matrix[row].float().numpy()


def _blocks(texts: Iterable[str], tokenizer: TokenizersBackend) -> Iterator[np.ndarray]:
    """Yield the ids of many texts in one array, `NO_WORD` for special ones and after each text."""
    gap = [NO_WORD] * (WINDOW + 1)
    unread = checked_texts(texts)
    while batch := _next_batch(unread):
        encoded = tokenizer(
            batch,
            add_special_tokens=False,
            verbose=False,  # of lengths that no model will read
        )
        block = np.array(list(chain.from_iterable(ids + gap for ids in encoded["input_ids"])))
        block[np.isin(block, tokenizer.all_special_ids)] = NO_WORD
        yield block


def _next_batch(texts: Iterator[str]) -> list[str]:
    """Take texts of at least `BLOCK` characters, or all that are left."""
    batch = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text) + WINDOW
        if size >= BLOCK:
            break
    return batch


def _positive_information(blocks: Iterable[np.ndarray], num_words: int) -> csr_array:
    """Return max(log(C_ij sum(r^0.75) / (r_i r_j^0.75)), 0), shape (V, V), float32."""
    counts = csr_array((num_words, num_words))
    for block in blocks:
        [places] = (block != NO_WORD).nonzero()
        shape = (len(block), num_words)
        words = csr_array((np.ones(len(places)), (places, block[places])), shape)
        distances = range(1, WINDOW + 1)
        counts = counts + sum(words[:-k].T @ words[k:] / k for k in distances)
    information = (counts + counts.T).tocoo()
    words, contexts = information.coords
    totals = information.sum(axis=1)
    smoothed = totals**SMOOTHING
    expected = totals[words] * smoothed[contexts] / smoothed.sum()
    logs = np.log(information.data / expected)
    information.data = np.where(logs > ROUNDING, logs, 0).astype(np.float32)
    information.eliminate_zeros()
    return information.tocsr()
