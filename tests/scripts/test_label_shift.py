"""Label frequencies that change between training and use."""

import pytest
import torch
from studying.label_shift import adapt, cross_fitted_accuracy


def test_adapt_follows_the_odds_of_the_new_frequencies() -> None:
    """By Bayes: a label three times as frequent as in training has three times the odds."""
    logits = torch.tensor([[0.5, 0.5], [0.2, 0.8]]).log()
    adapted = adapt(logits, torch.tensor([0.5, 0.5]), torch.tensor([0.75, 0.25])).softmax(1)
    torch.testing.assert_close(adapted, torch.tensor([[0.75, 0.25], [3 / 7, 4 / 7]]))


def test_adapt_equals_a_change_of_the_output_bias() -> None:
    output = torch.nn.Linear(3, 2)
    inputs, trained, prior = torch.randn(5, 3), torch.tensor([0.5, 0.5]), torch.tensor([0.9, 0.1])
    adapted = adapt(output(inputs), trained, prior)
    with torch.no_grad():
        output.bias += (prior / trained).log()
    torch.testing.assert_close(output(inputs), adapted)


def test_cross_fitted_accuracy_scores_no_row_by_itself() -> None:
    """Two rows of different labels: each is judged by the frequencies of the other alone."""
    even = torch.tensor([0.5, 0.5])
    undecided = torch.zeros(2, 2)
    assert cross_fitted_accuracy(undecided, torch.tensor([0, 1]), even) == 0
    assert cross_fitted_accuracy(undecided, torch.tensor([1, 1]), even) == 1


def test_cross_fitted_accuracy_gains_where_frequencies_differ() -> None:
    """Two overlapping bell curves, learnt from equal numbers, then met nine to one."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(20_000, generator=generator) < 0.1).long()
    x = torch.randn(20_000, generator=generator) + 2 * labels
    logits = torch.stack([torch.zeros_like(x), 2 * x - 2], 1)  # exact where labels are as frequent
    plain = float((logits.argmax(1) == labels).float().mean())
    assert cross_fitted_accuracy(logits, labels, torch.tensor([0.5, 0.5])) > plain + 0.05


@pytest.mark.parametrize("name", ["trained_prior", "prior"])
def test_adapt_refuses_a_label_without_a_share(name: str) -> None:
    shares = {"trained_prior": torch.tensor([0.5, 0.5]), "prior": torch.tensor([0.5, 0.5])}
    shares[name] = torch.tensor([1.0, 0.0])
    with pytest.raises(ValueError, match=rf"^{name} is \[1.0, 0.0\].*share above 0"):
        adapt(torch.zeros(1, 2), **shares)
