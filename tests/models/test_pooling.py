"""The poolings by themselves: penalty by hand, gradients by finite differences."""

import entmax
import pytest
import reference
import tiny
import torch
from huggingface_hub.errors import StrictDataclassError

from sase_hf.models.self_attentive.packing_self_attentive import Packing
from sase_hf.models.self_attentive.pooling_self_attentive import (
    BaselinePooling,
    GeneralizedPooling,
    SelfAttention,
    _attend,
    attention_penalty,
    cosine_penalty,
)


def test_penalty_is_zero_when_each_hop_has_a_word_of_its_own() -> None:
    """A A^T is then the identity, the case that equation 8 rewards."""
    assert attention_penalty(torch.eye(3, 5).unsqueeze(0)).tolist() == [0]


def test_penalty_sums_the_squares_of_all_r_by_r_overlaps() -> None:
    """Three hops on one word overlap fully: six off-diagonal ones, a sum and not a mean."""
    same_word = torch.tensor([1.0, 0, 0, 0]).expand(1, 3, 4)
    assert attention_penalty(same_word).tolist() == [6]


def test_penalty_does_not_know_the_length_of_the_sentence() -> None:
    """It compares hops, r x r; over tokens, T x T, each padding position would add to it."""
    attention = torch.rand(2, 3, 4).softmax(-1)
    padded = torch.nn.functional.pad(attention, (0, 6))
    assert torch.equal(attention_penalty(attention), attention_penalty(padded))


def test_the_penalty_of_generalized_pooling_sees_hops_that_are_too_near() -> None:
    """By hand: squared distances 0, 0.25 and 0.25 between three hops; a fourth is far from all."""
    pooling = GeneralizedPooling(tiny.tiny_config(num_hops=4))
    with torch.no_grad():
        pooling.hidden_weight.zero_()
        pooling.hidden_weight[2, 0, 0] = 0.5
        pooling.hidden_weight[3] = 1
    assert pooling.penalty().item() == 1 + 0.75 + 0.75


@pytest.mark.parametrize("is_autocast", [False, True])
def test_the_penalty_of_hops_that_are_far_from_zero_and_near_each_other(is_autocast: bool) -> None:
    """It is found from inner products of large weights, yet has the value of their differences."""
    pooling = GeneralizedPooling(tiny.tiny_config(num_hops=4))
    with torch.no_grad():
        pooling.hidden_weight.normal_(std=0.1).add_(20)
    config = pooling.config
    weights = dict(pooling.named_parameters())
    *_, expected = reference.generalized(torch.randn(3, 8), weights, config)
    (gradient,) = torch.autograd.grad(expected, pooling.hidden_weight)
    with torch.autocast("cpu", torch.bfloat16, is_autocast):
        penalty = pooling.penalty()
    penalty.backward()
    assert 0 < expected < 6, "the premise is that some hops are nearer than 1"
    torch.testing.assert_close(penalty, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(pooling.hidden_weight.grad, gradient, rtol=1e-3, atol=1e-4)


def test_generalized_pooling_with_equal_features_is_plain_attention() -> None:
    """The claim of its authors: the vector of weights of a token then is one weight."""
    pooling = GeneralizedPooling(tiny.tiny_config())
    packing = Packing(torch.tensor([[True, True, True], [True, True, False]]))
    packed = torch.randn(len(packing.rank), 8)
    with torch.no_grad():
        for parameter in pooling.parameters():
            parameter.normal_()
        pooling.feature_weight.copy_(pooling.feature_weight[:, :, :1])
    states = packing.unpack(packed)
    matrix, attention, _ = pooling(states, packed, packing)
    torch.testing.assert_close(matrix, attention @ states)


def test_gradcheck_of_the_attention() -> None:
    """Analytic gradients of M and A equal numeric ones in float64, with padding beside them."""
    config = tiny.tiny_config(lstm_hidden_size=2, attention_size=3, num_hops=2)
    pooling = SelfAttention(config).double()
    packing = Packing(torch.tensor([[True, True, True, True], [True, True, False, False]]))
    positions = sum(steps * rows for steps, rows in packing.blocks)
    packed = torch.randn(positions, config.hidden_size, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda packed, *_: pooling(packing.unpack(packed), packed, packing)[:2],
        (packed, *pooling.parameters()),
    )


def test_gradcheck_of_the_penalty() -> None:
    """The squared norm is smooth also where A A^T is the identity; its root would not be."""
    attention = torch.rand(2, 2, 4, dtype=torch.float64).softmax(-1).requires_grad_()
    assert torch.autograd.gradcheck(attention_penalty, attention)
    identity = torch.eye(2, 4, dtype=torch.float64).unsqueeze(0).requires_grad_()
    assert torch.autograd.gradcheck(attention_penalty, identity)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [("max", [3, 5, 30, 50]), ("mean", [2, 3, 20, 40]), ("last", [3, 1, 10, 30])],
)
def test_baselines_read_real_tokens_alone(pooling: str, expected: list[int]) -> None:
    """By hand: three real tokens and one of padding; the last two columns read backwards.

    `last` joins the forward state at the last word with the backward state at the first.
    """
    text = [[1.0, 5, 10, 30], [2, 3, 20, 40], [3, 1, 30, 50], [99, 99, 99, 99]]
    states = torch.tensor([text, torch.zeros(4, 4).tolist()])
    packing = Packing(torch.tensor([[True, True, True, False], [True, True, True, True]]))
    baseline = BaselinePooling(tiny.tiny_config(pooling=pooling))
    pooled, attention, penalty = baseline(states, packing.pack(states), packing)
    assert pooled[0].tolist() == [expected]
    assert attention is None
    assert penalty.tolist() == [0, 0]


def test_the_mean_of_half_precision_states_may_be_of_any_number_of_tokens() -> None:
    """Two thousand states of 50 have a mean that float16 holds and a sum that it does not."""
    states = torch.full((1, 2000, 4), 50, dtype=torch.float16)
    packing = Packing(torch.ones(1, 2000, dtype=torch.bool))
    mean, *_ = BaselinePooling(tiny.tiny_config(pooling="mean"))(states, states[0], packing)
    assert mean.dtype == torch.float16
    assert mean.tolist() == [[[50, 50, 50, 50]]]


FUNCTIONS = {"entmax15": 1.5, "sparsemax": 2.0}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_sparse_attention_agrees_with_the_entmax_package(name: str, scale: float) -> None:
    scores = (scale * torch.randn(4, 50, 3, dtype=torch.float64)).requires_grad_()
    upstream = torch.randn_like(scores)
    ours, theirs = _attend(scores, name), getattr(entmax, name)(scores, dim=1)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(found, scores, upstream)[0] for found in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sparse_attention_passes_gradcheck_beside_padding(name: str) -> None:
    config = tiny.tiny_config(
        lstm_hidden_size=2,
        attention_size=3,
        num_hops=2,
        attention_function=name,
        normalize_states=True,
        penalty="cosine",
    )
    pooling = SelfAttention(config).double()
    packing = Packing(torch.tensor([[True, True, True, True], [True, True, False, False]]))
    positions = sum(steps * rows for steps, rows in packing.blocks)
    packed = torch.randn(positions, config.hidden_size, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda packed, *_: pooling(packing.unpack(packed), packed, packing),
        (packed, *pooling.parameters()),
    )


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("tokens", [1, 10, 5000])
def test_sparse_attention_over_equal_scores_is_even(name: str, tokens: int) -> None:
    weights = _attend(torch.full((1, tokens, 1), 7.0), name)
    torch.testing.assert_close(weights, torch.full_like(weights, 1 / tokens))


@pytest.mark.parametrize("name", ["softmax", *FUNCTIONS])
def test_attention_is_exactly_zero_on_padding_and_finite_without_tokens(name: str) -> None:
    """Also for scores as large as bfloat16 lets them be."""
    config = tiny.tiny_config(attention_function=name)
    mask = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    packing = Packing(mask)
    packed = torch.randn(len(packing.rank), 8)
    pooling = SelfAttention(config)
    with torch.no_grad():
        pooling.hops.weight.mul_(1e30)
    matrix, attention, penalty = pooling(packing.unpack(packed), packed, packing)
    assert attention.mT[~packing.real].eq(0).all()
    torch.testing.assert_close(attention.sum(-1), mask.any(1).float().unsqueeze(1).expand(-1, 3))
    assert matrix.isfinite().all()
    assert penalty.isfinite().all()


def test_cosine_penalty_does_not_depend_on_length_or_number_of_hops() -> None:
    """Equal hops are 1 whatever they read; hops that share no token are 0; one hop has no other."""
    for tokens, hops in ((3, 2), (1000, 30)):
        even = torch.full((1, hops, tokens), 1 / tokens)
        assert cosine_penalty(even).item() == pytest.approx(1, abs=1e-5)
    assert cosine_penalty(torch.eye(3, 5).unsqueeze(0)).tolist() == [0]
    assert cosine_penalty(torch.rand(2, 1, 4)).tolist() == [0, 0]
    assert cosine_penalty(torch.zeros(1, 3, 4)).tolist() == [0]


def test_kl_penalty_is_refused_for_weights_without_logarithm() -> None:
    with pytest.raises(
        StrictDataclassError, match=r"needs attention_function=.softmax., not .entmax15"
    ):
        tiny.tiny_config(penalty="kl", attention_function="entmax15")
