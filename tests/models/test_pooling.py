"""The poolings by themselves: penalties by hand, sparse functions against the entmax package."""

import entmax
import pytest
import tiny
import torch

from sase_hf.models.layers_self_attentive import (
    BaselinePooling,
    attend,
)


def test_mean_pooling_of_half_precision_states_does_not_overflow() -> None:
    """Two thousand states of 50 have a mean that float16 holds and a sum that it does not."""
    states = torch.full((1, 2048, 4), 50, dtype=torch.float16)
    mean, *_ = BaselinePooling(tiny.tiny_config(pooling="mean"))(states, real=None)
    assert mean.dtype == torch.float16
    assert mean.tolist() == [[[50, 50, 50, 50]]]


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
