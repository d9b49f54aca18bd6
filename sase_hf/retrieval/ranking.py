"""Rank documents for queries by their sentence matrices, and measure the rank of the right one.

Shapes: Q queries, D documents, r rows of width H, or one of width r * H for flat scores. Both sides
are as `unit_rows` returns them. Documents of equal scores stay in their order.
"""

import torch
from torch import Tensor

from ..models import row_scores

MAX_COSINES = 2**24  # between rows, in memory at once: 64 MiB
BLOCK = 64  # queries whose scores are in memory at once


def best_documents(queries: Tensor, documents: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Return scores and numbers (Q, min(top_k, D)) of the documents, the best of a query first."""
    found = [
        _scores(block, documents).sort(dim=1, descending=True, stable=True)
        for block in queries.split(BLOCK)
    ]
    scores = torch.cat([block.values[:, :top_k] for block in found])
    return scores, torch.cat([block.indices[:, :top_k] for block in found])


def ranks_of_own(queries: Tensor, documents: Tensor) -> Tensor:
    """Return the rank, from 1, of document i among all documents for query i, shape (Q,)."""
    ranks = []
    numbers = torch.arange(len(queries)).unsqueeze(1)
    for block, own in zip(queries.split(BLOCK), numbers.split(BLOCK), strict=True):
        scores = _scores(block, documents)
        own_scores = scores.gather(1, own)
        is_earlier = torch.arange(len(documents)) < own
        is_ahead = (scores > own_scores) | ((scores == own_scores) & is_earlier)
        ranks.append(1 + is_ahead.sum(1))
    return torch.cat(ranks)


def _scores(queries: Tensor, documents: Tensor) -> Tensor:
    """Return the scores (Q, D), of as many documents at once as there is memory for."""
    size = max(MAX_COSINES // (len(queries) * queries.shape[1] * documents.shape[1]), 1)
    return torch.cat([row_scores(queries, block) for block in documents.split(size)], 1)


def ranking_metrics(ranks: Tensor) -> dict[str, float]:
    """Return the mean reciprocal rank and the share of queries with a rank up to 1 and up to 10."""
    reciprocal_ranks = 1 / ranks.sort().values.double()  # rounded alike in any order
    metrics = {"mrr": reciprocal_ranks.mean().item()}
    for k in (1, 10):
        metrics[f"recall_at_{k}"] = (ranks <= k).double().mean().item()
    return metrics
