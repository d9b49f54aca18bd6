"""Rank documents for queries by their sentence matrices, and measure the rank of the right one.

Shapes: Q queries, D documents, r rows of width H, or one of width r * H for flat scores. Both sides
are as `unit_rows` returns them. Documents of equal scores stay in their order.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..models import row_scores

MAX_COSINES = 2**24  # between rows, in memory at once: 64 MiB
BLOCK = 64  # queries whose scores are in memory at once


def best_documents(queries: Tensor, documents: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Return scores and numbers (Q, min(top_k, D)) of the documents, the best of a query first."""
    found = [
        (scores[:, :top_k], places[:, :top_k]) for scores, places in _sorted(queries, documents)
    ]
    scores, places = map(torch.cat, zip(*found, strict=True))
    return scores, places


def ranks_of_own(queries: Tensor, documents: Tensor) -> Tensor:
    """Return the rank, from 1, of document i among all documents for query i, shape (Q,)."""
    numbers = torch.arange(len(queries)).unsqueeze(1).split(BLOCK)
    blocks = zip(_sorted(queries, documents), numbers, strict=True)
    return torch.cat([1 + (places == own).nonzero()[:, 1] for (_, places), own in blocks])


def _sorted(queries: Tensor, documents: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield scores and numbers (BLOCK, D) of the documents, for some queries at once.

    There are as many documents at once as there is memory for.
    """
    size = max(MAX_COSINES // (BLOCK * queries.shape[1] * documents.shape[1]), 1)
    for block in queries.split(BLOCK):
        scores = torch.cat([row_scores(block, part) for part in documents.split(size)], 1)
        yield scores.sort(dim=1, descending=True, stable=True)


def ranking_metrics(ranks: Tensor) -> dict[str, float]:
    """Return the mean reciprocal rank and the share of queries with a rank up to 1 and up to 10."""
    reciprocal_ranks = 1 / ranks.sort().values.double()  # rounded alike in any order
    metrics = {"mrr": reciprocal_ranks.mean().item()}
    for k in (1, 10):
        metrics[f"recall_at_{k}"] = (ranks <= k).double().mean().item()
    return metrics
