"""Word vectors from GloVe, word2vec and fastText files: an embedding matrix for a tokenizer."""

import os
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from transformers import TokenizersBackend
from transformers.utils import logging

from .vector_files import Rows, Vectors, open_rows

logger = logging.get_logger(__name__)


def load_word_vectors(
    path: str | os.PathLike[str],
    tokenizer: TokenizersBackend,
    *,
    member: str | None = None,
    seed: int = 0,
) -> tuple[Tensor, float]:
    """Read the vectors of a tokenizer's words from a file.

    The file is text, a word and its d numbers a line, with a header line of two counts (word2vec,
    fastText) or without (GloVe), or word2vec's binary form; it is plain, gzip or zip. Its content
    says which, not its name. Only the rows of words in the vocabulary are kept, and only their
    numbers are read; of all other rows, width and encoding are checked.

    A word takes the row that spells it exactly. Failing that, it takes the first row whose word
    the tokenizer's normalizer turns into it: "the" takes "The" if the tokenizer lower-cases. Of
    several rows for one spelling the first counts, and a warning tells of the others.

    A word without a row is drawn from a normal distribution with the mean and the standard
    deviation of the rows found, each dimension for itself, so that it looks like any other word.
    The row of the padding token is zero.

    Args:
        path: The file.
        tokenizer: A word-level tokenizer, as `build_tokenizer` makes it.
        member: The file to read in a zip archive that holds several.
        seed: Decides the rows that are drawn.

    Returns:
        The matrix, float32, shape (vocab, d), and the share of the vocabulary found in the file,
        special tokens not counted.

    Raises:
        ValueError: If the file cannot be unpacked or unpacks to far too much, a row is malformed
            (named by its number), the header promises another number of rows, or no word is found.
    """
    specials = set(tokenizer.all_special_tokens)
    wanted = {word: i for word, i in tokenizer.get_vocab().items() if word not in specials}
    normalizer = tokenizer.backend_tokenizer.normalizer
    with open_rows(path, member) as rows:
        vectors = np.zeros((len(tokenizer), rows.width), np.float32)
        found = _collect(rows, wanted, normalizer.normalize_str if normalizer else str, vectors)
    if not found:
        raise ValueError(
            f"{rows.name} has none of the tokenizer's {len(wanted)} words; are both of the same "
            "language, and the tokenizer lower-cased if the file is?"
        )
    share = len(found) / len(wanted)
    logger.info(f"{rows.name} has {len(found)} of {len(wanted)} words ({share:.1%})")
    matrix = torch.from_numpy(vectors)
    _draw_missing(matrix, found, seed)
    if tokenizer.pad_token_id is not None:
        matrix[tokenizer.pad_token_id] = 0
    return matrix, share


def read_words(path: str | os.PathLike[str], *, member: str | None = None) -> Iterator[str]:
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
    with open_rows(path, member) as rows:
        for _, word, _ in rows:
            yield word


def _collect(
    rows: Rows, wanted: dict[str, int], normalize: Callable[[str], str], vectors: Vectors
) -> list[int]:
    """Copy the rows of wanted words into `vectors`, and return the indices of those found."""
    exact: set[int] = set()
    alike: set[int] = set()
    repeated = []
    for number, word, numbers in rows:
        index = wanted.get(word)
        if index is None:
            index = wanted.get(normalize(word))
            if index is None or index in exact or index in alike:
                continue
            alike.add(index)
        elif index in exact:
            repeated.append(number)
            continue
        else:
            exact.add(index)
        try:
            vectors[index] = rows.parse(numbers)
        except ValueError as error:
            raise rows.refusal(
                number, f"what follows {word!r} is not all numbers: {error}"
            ) from error
        if not np.isfinite(vectors[index]).all():
            raise rows.refusal(number, f"{word!r} has a number that is not finite in float32")
    if repeated:
        logger.warning(
            f"{rows.name} repeats {len(repeated)} words of the vocabulary, the first in "
            f"{rows.unit} {repeated[0]}; of each word, its first row is taken"
        )
    return sorted(exact | alike)


def _draw_missing(matrix: Tensor, found: list[int], seed: int) -> None:
    """Fill the rows of (vocab, d) that were not found with numbers like those of the others."""
    std, mean = torch.std_mean(matrix[found], dim=0, correction=0)
    missing = torch.ones(len(matrix), dtype=torch.bool)
    missing[found] = False
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(int(missing.sum()), matrix.shape[1], generator=generator)
    matrix[missing] = noise.mul_(std).add_(mean)
