"""Rankings in blocks, ties, and the measures of a ranking."""

from typing import Any

import pytest
import torch
from torch.nn.functional import normalize

from sase_hf.evaluation.baselines import ranks_by_words
from sase_hf.retrieval.embed import best_documents, ranking_metrics, ranks_of_own

RANKS = torch.tensor([1, 2, 11, 1])


def rows(*sizes: int) -> torch.Tensor:
    return normalize(torch.randn(*sizes, generator=torch.Generator().manual_seed(0)), dim=-1)


@pytest.mark.parametrize("largest", [1, 100, 10**6])
def test_best_documents_are_those_of_all_scores(largest: int, monkeypatch: Any) -> None:
    """In blocks of any size, also where there are fewer documents than asked for."""
    monkeypatch.setattr("sase_hf.retrieval.embed.MAX_COSINES", largest)
    monkeypatch.setattr("sase_hf.retrieval.embed.BLOCK", 3)
    queries, documents = rows(4, 3, 5), rows(30, 3, 5).flip(0)
    cosines = torch.einsum("qih,djh->qdij", queries, documents)
    expected = cosines.amax(3).mean(2).sort(dim=1, descending=True)
    for top_k in (7, 99):
        scores, places = best_documents(queries, documents, top_k)
        torch.testing.assert_close(scores, expected.values[:, :top_k])
        assert torch.equal(places, expected.indices[:, :top_k])
    own = torch.tensor([expected.indices[i].tolist().index(i) + 1 for i in range(4)])
    assert torch.equal(ranks_of_own(queries, documents), own)


def test_best_documents_of_equal_scores_stay_in_their_order() -> None:
    """So a model that tells no documents apart finds query i at rank i + 1, not at 1."""
    queries, documents = torch.ones(3, 1, 1), torch.ones(50, 1, 1)
    _, places = best_documents(queries, documents, 5)
    assert places.tolist() == [[0, 1, 2, 3, 4]] * 3
    assert ranks_of_own(queries, documents[:3]).tolist() == [1, 2, 3]


@pytest.mark.parametrize("queries_at_once", [1, 256])
def test_ranks_by_words_are_those_of_the_rarest_word_that_both_texts_have(
    queries_at_once: int, monkeypatch: Any
) -> None:
    """A query without such a word finds the documents in their order."""
    monkeypatch.setattr("sase_hf.evaluation.baselines.QUERIES", queries_at_once)
    documents = ["The fox ran!", "the dog, the dog", "an owl's dog"]
    assert ranks_by_words(["the dog", "zebra", "Owl"], documents).tolist() == [2, 2, 1]


def test_ranking_metrics_are_reciprocal_rank_and_recall() -> None:
    expected = {"mrr": (1 + 1 / 2 + 1 / 11 + 1) / 4, "recall_at_1": 0.5, "recall_at_10": 0.75}
    assert ranking_metrics(RANKS) == pytest.approx(expected)
