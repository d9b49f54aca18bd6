"""Rank documents for queries by their sentence matrices, and measure the rank of the right one.

Shapes: Q queries, D documents, r rows of width H, or one of width r * H for flat scores. Both sides
are as `unit_rows` returns them. Documents of equal scores stay in their order.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..models import row_scores

MAX_COSINES = 2**24  # between rows, in memory at once: 64 MiB


def best_documents(queries: Tensor, documents: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Return scores and numbers (Q, min(top_k, D)) of the documents, the best of a query first."""
    scores = queries.new_empty(len(queries), 0)
    places = torch.empty(len(queries), 0, dtype=torch.long)
    for start, block in _blocks(queries, documents):
        numbers = torch.arange(start, start + block.shape[1]).expand(len(queries), -1)
        scores, order = torch.cat([scores, block], 1).sort(dim=1, descending=True, stable=True)
        places = torch.cat([places, numbers], 1).gather(1, order)
        scores, places = scores[:, :top_k], places[:, :top_k]
    return scores, places


def ranks_of_own(queries: Tensor, documents: Tensor, block: int = 256) -> Tensor:
    """Return the rank, from 1, of document i among all documents for query i, shape (Q,)."""
    ranks = []
    for start in range(0, len(queries), block):
        parts = _blocks(queries[start : start + block], documents)
        ranks.append(ranks_in_scores(torch.cat([part for _, part in parts], 1), start))
    return torch.cat(ranks)


def _blocks(queries: Tensor, documents: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield the first document of each block and the scores (Q, block) of all queries."""
    rows = len(queries) * queries.shape[1] * documents.shape[1]
    size = max(MAX_COSINES // rows, 1)
    for start in range(0, len(documents), size):
        yield start, row_scores(queries, documents[start : start + size])


def ranks_in_scores(scores: Tensor, first: int = 0) -> Tensor:
    """Return the rank of document first + i in row i of scores (Q, D), shape (Q,)."""
    numbers = torch.arange(first, first + len(scores)).unsqueeze(1)
    own = scores.gather(1, numbers)
    is_before = torch.arange(scores.shape[1]) < numbers
    return 1 + ((scores > own) | ((scores == own) & is_before)).sum(1)


def ranking_metrics(ranks: Tensor) -> dict[str, float]:
    """Return the mean reciprocal rank and the share of queries with a rank up to 1 and up to 10."""
    return {
        "mrr": (1 / ranks.double()).mean().item(),
        **{f"recall_at_{k}": (ranks <= k).double().mean().item() for k in (1, 10)},
    }


def recall_by_length(
    ranks: Tensor, lengths: Sequence[int], bins: int = 5
) -> list[dict[str, float | int]]:
    """Return `ranking_metrics` by the number of words of each query's document.

    The groups are of equal size, the shortest first, with the mean `words` and the `rows` of each.
    """
    order = torch.tensor(lengths).argsort(stable=True)
    return [
        {"words": sum(lengths[i] for i in group) / len(group), "rows": len(group)}
        | ranking_metrics(ranks[group])
        for group in order.tensor_split(bins)
        if len(group)
    ]
