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
    num_queries = len(queries)
    best_scores = queries.new_empty(num_queries, 0)
    best_numbers = torch.empty(num_queries, 0, dtype=torch.long)
    for start, block in _blocks(queries, documents):
        block_numbers = torch.arange(start, start + block.shape[1])
        block_numbers = block_numbers.expand(num_queries, -1)
        scores = torch.cat([best_scores, block], 1)
        numbers = torch.cat([best_numbers, block_numbers], 1)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        numbers = numbers.gather(1, order)
        best_scores = scores[:, :top_k]
        best_numbers = numbers[:, :top_k]
    return best_scores, best_numbers


def ranks_of_own(queries: Tensor, documents: Tensor, block: int = 256) -> Tensor:
    """Return the rank, from 1, of document i among all documents for query i, shape (Q,)."""
    ranks = []
    for start in range(0, len(queries), block):
        some_queries = queries[start : start + block]
        blocks = [scores for _, scores in _blocks(some_queries, documents)]
        all_scores = torch.cat(blocks, 1)
        ranks.append(ranks_in_scores(all_scores, start))
    return torch.cat(ranks)


def _blocks(queries: Tensor, documents: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield the first document of each block and the scores (Q, block) of all queries."""
    cosines_per_document = len(queries) * queries.shape[1] * documents.shape[1]
    size = max(MAX_COSINES // cosines_per_document, 1)
    for start in range(0, len(documents), size):
        yield start, row_scores(queries, documents[start : start + size])


def ranks_in_scores(scores: Tensor, first: int = 0) -> Tensor:
    """Return the rank of document first + i in row i of scores (Q, D), shape (Q,)."""
    num_queries, num_documents = scores.shape
    numbers = torch.arange(first, first + num_queries).unsqueeze(1)
    own_scores = scores.gather(1, numbers)
    is_earlier = torch.arange(num_documents) < numbers
    is_equal = scores == own_scores
    is_better = scores > own_scores
    is_ahead = is_better | (is_equal & is_earlier)
    return 1 + is_ahead.sum(1)


def ranking_metrics(ranks: Tensor) -> dict[str, float]:
    """Return the mean reciprocal rank and the share of queries with a rank up to 1 and up to 10."""
    reciprocal_ranks = 1 / ranks.sort().values.double()  # rounded alike in any order
    metrics = {"mrr": reciprocal_ranks.mean().item()}
    for k in (1, 10):
        is_found = ranks <= k
        metrics[f"recall_at_{k}"] = is_found.double().mean().item()
    return metrics


def recall_by_length(
    ranks: Tensor, lengths: Sequence[int], bins: int = 5
) -> list[dict[str, float | int]]:
    """Return `ranking_metrics` by the number of words of each query's document.

    The groups are of equal size, the shortest first, with the mean `words` and the `rows` of each.
    """
    order = torch.tensor(lengths).argsort(stable=True)
    groups: list[dict[str, float | int]] = []
    for queries in order.tensor_split(bins):
        if len(queries) == 0:
            continue
        num_words = sum(lengths[query] for query in queries)
        groups.append(
            {
                "words": num_words / len(queries),
                "rows": len(queries),
                **ranking_metrics(ranks[queries]),
            }
        )
    return groups
