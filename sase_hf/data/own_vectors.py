"""Word vectors of one's own texts: co-occurrences, positive PMI, a truncated SVD.

Levy and Goldberg, "Neural Word Embedding as Implicit Matrix Factorization" (2014). Labels are not
read, and nothing is downloaded. The same texts, seed and number of threads give the same vectors.

V tokens of the vocabulary, d numbers of a vector, r (V,) how often each word occurs beside others,
C (V, V) how often two words occur together.
"""

import logging
import time
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array
from torch import Tensor
from transformers import TokenizersBackend

from ..utils.errors import refusal
from .tokenizer import checked_pieces, refuse_no_texts

logger = logging.getLogger(__name__)

WIDTH = 100
WINDOW = 5  # tokens on each side of a word that occur together with it
SMOOTHING = 0.75  # exponent of the counts of contexts; rare contexts would weigh too much
BLOCK = 2**20  # characters that are tokenized at a time
MAX_PAIRS = 10_000_000  # in one gigabyte; six million tokens of reviews have four million pairs
NO_WORD = -1
ROUNDING = 1e-5  # of the information of two words, in float32


def own_word_vectors(
    texts: Iterable[str],
    tokenizer: TokenizersBackend,
    *,
    width: int = WIDTH,
    std: float = 0.1,
    seed: int = 0,
    max_pairs: int = MAX_PAIRS,
) -> tuple[Tensor, float]:
    """Learn the vectors of a tokenizer's words from texts.

    Two words at a distance of k tokens, at most 5, count 1 / k. The vectors are the rows of
    U sqrt(S) of the largest singular values of the positive pointwise mutual information, all of
    the length of a random vector. The unknown token, and a word without a positive entry, starts
    as such a random vector. The row of the padding token is zero.

    Args:
        texts: The texts, such as `dataset["train"]["text"]`. Read once and not kept.
        tokenizer: Any fast tokenizer, as `build_tokenizer` makes it.
        width: d.
        std: Standard deviation of a random number; that of a new model is its `initializer_range`.
        seed: Decides the random vectors. The vector of a word that the largest singular values
            hardly describe depends on it, too.
        max_pairs: Pairs of words to keep, the most frequent ones, some 100 bytes of memory each.

    Returns the matrix, float32, shape (V, d), and the share of the vocabulary with a vector,
    special tokens not counted. ValueError is raised as by `build_tokenizer`.
    """
    _check_number("width", width, least=1)
    _check_number("seed", seed, least=0)
    _check_number("max_pairs", max_pairs, least=1)
    refuse_no_texts(texts)
    start = time.perf_counter()
    special_ids = list(tokenizer.all_special_ids)
    pairs = _Pairs(len(tokenizer), max_pairs)
    for block in _blocks(texts, tokenizer, special_ids):
        pairs.add(block)
    information = pairs.positive_information()
    vectors = _factors(information, width, seed)
    lengths = np.linalg.norm(vectors, axis=1)
    is_found = (np.diff(information.indptr) > 0) & (lengths > 0)
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(len(vectors), width, generator=generator).mul_(std)
    directions = vectors[is_found] / lengths[is_found, np.newaxis]
    matrix[is_found] = torch.from_numpy(directions).mul_(std * width**0.5)
    if tokenizer.pad_token_id is not None:
        matrix[tokenizer.pad_token_id] = 0
    num_found = int(is_found.sum())
    seconds = time.perf_counter() - start
    logger.info(
        f"own word vectors: {pairs.num_tokens:,} tokens, {num_found:,} words, {seconds:.1f} s"
    )
    return matrix, num_found / max(len(tokenizer) - len(special_ids), 1)


def _check_number(name: str, number: int, least: int) -> None:
    if number < least:
        raise refusal(f"{name} is {number}", f"it must be {least} or more")


def has_tokens(texts: Iterable[str], tokenizer: TokenizersBackend, count: int) -> bool:
    """Return whether texts have so many tokens, special ones not counted; read no more of them."""
    num_tokens = 0
    for block in _blocks(texts, tokenizer, tokenizer.all_special_ids):
        num_tokens += _num_tokens(block)
        if num_tokens >= count:
            return True
    return num_tokens >= count


def _num_tokens(block: np.ndarray) -> int:
    return int((block != NO_WORD).sum())


def _blocks(
    texts: Iterable[str], tokenizer: TokenizersBackend, special_ids: list[int]
) -> Iterator[np.ndarray]:
    """Yield the ids of many texts in one array, `NO_WORD` for special ones and between texts."""
    for pieces in _batches(texts):
        encoded = tokenizer(
            pieces,
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # of lengths that no model will read
        )
        ids: list[int] = []
        for ids_of_piece in encoded["input_ids"]:
            ids += ids_of_piece
            ids += [NO_WORD] * WINDOW
        block = np.array(ids, np.int64)
        block[np.isin(block, special_ids)] = NO_WORD
        yield block


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts, long ones in pieces, some `BLOCK` characters at a time."""
    batch: list[str] = []
    size = 0
    for piece in checked_pieces(texts, "Counting pairs of words"):
        batch.append(piece)
        size += len(piece) + WINDOW  # as many places in the block stand between two texts
        if size >= BLOCK:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


class _Pairs:
    """How often two words occur together, in bounded memory."""

    def __init__(self, num_words: int, max_pairs: int) -> None:
        self.max_pairs = max_pairs
        self.num_tokens = 0
        self.totals = np.zeros(num_words)  # r, of all pairs, also dropped ones
        self.counts = csr_array((num_words, num_words), dtype=np.float32)  # a half of C
        self.recent = self.counts  # what is to be added; a sum takes the time of its larger part

    def add(self, block: np.ndarray) -> None:
        """Count the pairs of a block of texts, each once, in the order of the text."""
        firsts = []
        seconds = []
        weights = []
        for distance in range(1, WINDOW + 1):
            first = block[:-distance]
            second = block[distance:]
            are_words = (first != NO_WORD) & (second != NO_WORD)
            firsts.append(first[are_words])
            seconds.append(second[are_words])
            weights.append(np.full(len(firsts[-1]), 1 / distance, np.float32))
        places = (np.concatenate(firsts), np.concatenate(seconds))
        counts = coo_array((np.concatenate(weights), places), self.counts.shape).tocsr()
        self.num_tokens += _num_tokens(block)
        self.totals += counts.sum(axis=0) + counts.sum(axis=1)
        self.recent = self.recent + counts
        if self.recent.nnz > self.max_pairs // 4:
            self._add_recent()

    def _add_recent(self) -> None:
        """Add the recent pairs to all; drop the rarest beyond the limit."""
        self.counts = self.counts + self.recent
        self.recent = csr_array(self.counts.shape, dtype=np.float32)
        num_dropped = self.counts.nnz - self.max_pairs
        if num_dropped > 0:
            values = self.counts.data
            values[np.argpartition(values, num_dropped)[:num_dropped]] = 0
            self.counts.eliminate_zeros()

    def positive_information(self) -> csr_array:
        """Return max(log(C_ij sum(r^0.75) / (r_i r_j^0.75)), 0), shape (V, V)."""
        self._add_recent()
        pairs = (self.counts + self.counts.T).tocoo()
        words, contexts = pairs.coords
        smoothed = self.totals**SMOOTHING
        information = np.log(pairs.data)
        information -= _logarithms(self.totals)[words]
        information -= _logarithms(smoothed)[contexts]
        information += _logarithms(smoothed.sum())
        is_positive = information > ROUNDING
        places = (words[is_positive], contexts[is_positive])
        return coo_array((information[is_positive], places), pairs.shape).tocsr()


def _logarithms(numbers: np.ndarray) -> np.ndarray:
    """Return logarithms in the precision of the counts, which needs half of the memory."""
    with np.errstate(divide="ignore"):  # of words that never occur
        return np.log(numbers).astype(np.float32)


def _factors(matrix: csr_array, width: int, seed: int) -> np.ndarray:
    """Return U sqrt(S) of the largest singular values, float32, shape (V, width).

    The last columns are zero if the matrix has not so many.
    """
    # Here, because it takes a second, which `import sase_hf` does not have to.
    from sklearn.utils.extmath import randomized_svd

    factors = np.zeros((matrix.shape[0], width), np.float32)
    if matrix.nnz:
        left, values, _ = randomized_svd(matrix, min(width, *matrix.shape), random_state=seed)
        factors[:, : len(values)] = left * np.sqrt(values)
    return factors
