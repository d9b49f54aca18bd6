"""Word vectors of one's own texts: co-occurrences, positive PMI, a truncated SVD.

Levy and Goldberg, "Neural Word Embedding as Implicit Matrix Factorization" (2014). Labels are not
read, and nothing is downloaded. The same texts, seed and number of threads give the same vectors.

V tokens of the vocabulary, d numbers of a vector, r (V,) how often each word occurs beside others,
C (V, V) how often two words occur together.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array
from torch import Tensor
from transformers import TokenizersBackend

from .tokenizer import checked_texts

WIDTH = 100
WINDOW = 5  # tokens on each side of a word that occur together with it
SMOOTHING = 0.75  # exponent of the counts of contexts; rare contexts would weigh too much
BLOCK = 2**20  # characters that are tokenized at a time
MAX_PAIRS = 10_000_000  # the most frequent ones, in one gigabyte; reviews have four million
NO_WORD = -1
ROUNDING = 1e-5  # of the information of two words, in float32


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
    the length of a random vector. The unknown token, and a word without a positive entry, starts
    as such a random vector. The row of the padding token is zero.

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
    counts, totals = _counted(_blocks(texts, tokenizer), len(tokenizer))
    information = _positive_information(counts, totals)
    vectors = _factors(information, width, seed)
    lengths = np.linalg.norm(vectors, axis=1)
    is_found = (np.diff(information.indptr) > 0) & (lengths > 0)
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(len(vectors), width, generator=generator).mul_(std)
    directions = vectors[is_found] / lengths[is_found, np.newaxis]
    matrix[is_found] = torch.from_numpy(directions).mul_(std * width**0.5)
    if tokenizer.pad_token_id is not None:
        matrix[tokenizer.pad_token_id] = 0
    num_words = len(tokenizer) - len(tokenizer.all_special_ids)
    return matrix, int(is_found.sum()) / num_words


def has_tokens(texts: Iterable[str], tokenizer: TokenizersBackend, count: int) -> bool:
    """Return whether texts have so many tokens, special ones not counted; read no more of them."""
    for block in _blocks(texts, tokenizer):
        count -= int(np.count_nonzero(block != NO_WORD))
        if count <= 0:
            return True
    return False


def _blocks(texts: Iterable[str], tokenizer: TokenizersBackend) -> Iterator[np.ndarray]:
    """Yield the ids of many texts in one array, `NO_WORD` for special ones and between texts."""
    for batch in _batches(texts):
        encoded = tokenizer(
            batch,
            add_special_tokens=False,
            verbose=False,  # of lengths that no model will read
        )
        ids: list[int] = []
        for ids_of_text in encoded["input_ids"]:
            ids += ids_of_text
            ids += [NO_WORD] * WINDOW
        block = np.array(ids, np.int64)
        block[np.isin(block, tokenizer.all_special_ids)] = NO_WORD
        yield block


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield the texts, at least `BLOCK` characters at a time."""
    batch: list[str] = []
    size = 0
    for text in checked_texts(texts, "Counting pairs of words"):
        batch.append(text)
        size += len(text) + WINDOW  # as many places in the block stand between two texts
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
        of_block = _counts_of_block(block, num_words)
        totals += of_block.sum(axis=0) + of_block.sum(axis=1)
        recent = recent + of_block
        if recent.nnz > MAX_PAIRS // 4:
            counts = _most_frequent(counts + recent)
            recent = none
    return _most_frequent(counts + recent), totals


def _counts_of_block(block: np.ndarray, num_words: int) -> csr_array:
    """Count the pairs of a block of texts, each once, in the order of the text: (V, V)."""
    places = []
    weights = []
    for distance in range(1, WINDOW + 1):
        pairs = np.stack([block[:-distance], block[distance:]])
        pairs = pairs[:, (pairs != NO_WORD).all(axis=0)]
        places.append(pairs)
        weights.append(np.full(pairs.shape[1], 1 / distance, np.float32))
    entries = (np.concatenate(weights), tuple(np.concatenate(places, axis=1)))
    return coo_array(entries, (num_words, num_words)).tocsr()


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
    pairs = (counts + counts.T).tocoo()
    words, contexts = pairs.coords
    smoothed = totals**SMOOTHING
    with np.errstate(divide="ignore"):  # of words that never occur
        # In the precision of the counts, which needs half of the memory.
        of_words, of_contexts, of_all = (
            np.log(numbers).astype(np.float32) for numbers in (totals, smoothed, smoothed.sum())
        )
    information = np.log(pairs.data) - of_words[words] - of_contexts[contexts] + of_all
    is_positive = information > ROUNDING
    places = (words[is_positive], contexts[is_positive])
    return coo_array((information[is_positive], places), pairs.shape).tocsr()


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
