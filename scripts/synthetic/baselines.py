"""Baselines of the quickstart: the most frequent label, and a linear model that counts words."""

from collections import Counter
from collections.abc import Sequence

import torch
from datasets import Dataset, DatasetDict
from torch import Tensor, nn
from torch.nn import functional

L2_STRENGTHS = (3e-5, 3e-4, 3e-3)
MAX_STEPS = 500  # L-BFGS converges earlier


def majority_accuracy(splits: DatasetDict) -> float:
    """Return the test accuracy of always predicting the most frequent training label."""
    [(majority, _)] = Counter(splits["train"]["labels"]).most_common(1)
    labels = splits["test"]["labels"][:]
    return float(labels.count(majority) / len(labels))


def bag_of_words_accuracy(
    splits: DatasetDict, vocab_size: int, strengths: Sequence[float] = L2_STRENGTHS
) -> float:
    """Return the test accuracy of multinomial logistic regression on word counts.

    The problem is convex and the weights start at zero, so the result depends on no seed. The two
    texts of a pair have separate counts. The validation split chooses the weight of the L2 penalty.
    """
    counts = {name: _word_counts(split, vocab_size) for name, split in splits.items()}
    labels = {name: torch.tensor(split["labels"][:]) for name, split in splits.items()}

    def accuracy(model: nn.Linear, name: str) -> float:
        return float((model(counts[name]).argmax(-1) == labels[name]).float().mean())

    models = [_fit(counts["train"], labels["train"], strength) for strength in strengths]
    return accuracy(max(models, key=lambda model: accuracy(model, "validation")), "test")


def _word_counts(split: Dataset, vocab_size: int) -> Tensor:
    """Return how often each word occurs in each text, shape (rows, 2 * vocab_size)."""
    counts = torch.zeros(len(split), 2 * vocab_size)
    for number, row in enumerate(split):
        words = torch.tensor(row["input_ids"], dtype=torch.long)
        if "token_type_ids" in row:
            words += vocab_size * torch.tensor(row["token_type_ids"], dtype=torch.long)
        counts[number] = words.bincount(minlength=2 * vocab_size)
    return counts


def _fit(counts: Tensor, labels: Tensor, strength: float) -> nn.Linear:
    model = nn.Linear(counts.shape[1], int(labels.max()) + 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=MAX_STEPS, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(counts), labels)
        loss += strength * model.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return model
