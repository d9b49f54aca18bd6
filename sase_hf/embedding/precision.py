"""What computing in bfloat16 gains on this device, and what it changes."""

from collections.abc import Sequence
from copy import copy, deepcopy
from time import perf_counter

import torch
import torch.nn.functional as F
from torch import Tensor

from .embedder import Embedder

SECONDS = 1.0  # from the first round that counts to the last


def compare_precisions(embedder: Embedder, texts: Sequence[str]) -> tuple[float, Tensor]:
    """Embed texts in float32 and in bfloat16 by turns, for about a second.

    Args:
        embedder: An embedder that computes in float32, and still does so afterwards.
        texts: At least one; the first n are embedded, as many as the time allows.

    Returns:
        How many times as fast bfloat16 is, tokenizing included, and the cosines of the two
        embeddings of each text, shape (n,).
    """
    coarse = copy(embedder)
    coarse.model = deepcopy(embedder.model).bfloat16()
    both = (embedder, coarse)
    for one in both:
        one(texts[:1])  # what only the first call prepares is not timed
    stop = perf_counter() + SECONDS
    num_texts, rounds = 1, list[list[float]]()
    while not rounds or perf_counter() < stop:
        if rounds and sum(rounds[-1]) < SECONDS / 5 and num_texts < len(texts):
            num_texts, rounds = min(2 * num_texts, len(texts)), []
        times, found = [perf_counter()], []
        for one in both:
            found.append(torch.from_numpy(one(texts[:num_texts])).double())
            times.append(perf_counter())
        rounds.append([times[1] - times[0], times[2] - times[1]])
    # Other work of the machine makes a round longer, never shorter.
    plain_seconds, coarse_seconds = map(min, zip(*rounds, strict=True))
    is_same = (found[0] == found[1]).all(dim=1)  # zeros for texts without tokens
    cosines = F.cosine_similarity(found[0], found[1]).masked_fill(is_same, 1.0)
    return plain_seconds / coarse_seconds, cosines
