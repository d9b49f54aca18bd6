"""The poolings by themselves: penalties by hand, sparse functions against the entmax package."""

import entmax
import pytest
import tiny
import torch

from sase_hf.models.layers_self_attentive import (
    BaselinePooling,
    Rows,
    attend,
    rationale_cost,
)


def test_mean_pooling_of_half_precision_states_does_not_overflow() -> None:
    """Two thousand states of 50 have a mean that float16 holds and a sum that it does not."""
    states = torch.full((1, 2048, 1), 50, dtype=torch.float16)
    mean, *_ = BaselinePooling(tiny.tiny_config(pooling="mean"))(states, Rows(torch.ones(1, 2048)))
    assert mean.dtype == torch.float16
    assert mean.tolist() == [[[50]]]


FUNCTIONS = ("entmax15", "sparsemax")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_sparse_attention_agrees_with_the_entmax_package(name: str, scale: float) -> None:
    scores = (scale * torch.randn(4, 50, 3, dtype=torch.float64)).requires_grad_()
    upstream = torch.randn_like(scores)
    ours, theirs = attend(scores, name), getattr(entmax, name)(scores, dim=1)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(found, scores, upstream)[0] for found in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)
    assert torch.autograd.gradgradcheck(lambda x: attend(x, name), scores[:1, :4])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("row", [[0.3, 0.3, -5.0, -5.0], [9.0, 0.0, 0.0, -1.0]], ids=["tie", "one"])
def test_compiled_sparse_attention_has_the_same_gradient(name: str, row: list[float]) -> None:
    """Also where a root or a difference in it is exactly 0."""
    scores = torch.tensor(row).view(1, 4, 1).requires_grad_()
    upstream = torch.arange(4.0).view(1, 4, 1)
    weighed = (attend(scores, name), torch.compile(attend, backend="eager")(scores, name))
    gradients = [torch.autograd.grad(found, scores, upstream)[0] for found in weighed]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sparse_attention_does_not_depend_on_the_padding_of_others(name: str) -> None:
    """Also where the last word of the support is at its edge."""
    random = torch.randn(50, 20, 1, generator=torch.Generator().manual_seed(0)) * 6
    edge = torch.full((1, 20, 1), -1.999)
    edge[0, 0] = 0
    for scores in (random, edge):
        padding = torch.full((len(scores), 3000, 1), torch.finfo(torch.float32).min)
        alone, padded = (attend(one, name) for one in (scores, torch.cat([scores, padding], 1)))
        assert torch.equal(padded[:, :20], alone)
        torch.testing.assert_close(padded.sum(1), torch.ones(len(scores), 1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", *FUNCTIONS])
def test_marked_token_that_no_hop_reads_learns_to_be_read(name: str) -> None:
    """A weight of exactly 0 has a finite cost and a gradient, until the token has all weight."""
    scores = torch.tensor([0.0, 0.0, -20.0]).view(1, 3, 1).requires_grad_()
    marks = torch.tensor([[0, 0, 1]])
    for _ in range(60):
        cost = rationale_cost(attend(scores, name), scores, marks)
        (gradient,) = torch.autograd.grad(cost.sum(), scores)
        assert cost.isfinite().all()
        scores.data -= gradient
    assert attend(scores, name)[0, 2, 0] > 0.9
