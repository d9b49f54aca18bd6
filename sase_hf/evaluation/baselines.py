"""What a model has to beat: the most frequent label, and a linear model that counts words."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

import torch
from datasets import Dataset, DatasetDict
from torch import Tensor, nn
from torch.nn import functional

L2_STRENGTHS = (3e-5, 3e-4, 3e-3)

# Far more than a convex problem of this size needs; L-BFGS stops by itself when it has converged.
MAX_STEPS = 500


def majority_accuracy(splits: DatasetDict) -> float:
    """Return the test accuracy of always answering with the most frequent training label.

    Args:
        splits: "train" and "test" with the column `labels`.
    """
    [(majority, _)] = Counter(splits["train"]["labels"]).most_common(1)
    labels = splits["test"]["labels"][:]
    return float(labels.count(majority) / len(labels))


def bag_of_words_accuracy(
    splits: DatasetDict, vocab_size: int, strengths: Sequence[float] = L2_STRENGTHS
) -> float:
    """Return the test accuracy of multinomial logistic regression on word counts.

    The problem is convex and the weights start at zero, so the result depends on no seed. The words
    of the second text of a pair are counted apart from those of the first.

    Args:
        splits: "train", "validation" and "test", as `encode_task` returns them for single
            labels.
        vocab_size: Length of the tokenizer.
        strengths: Weights of the L2 penalty, of which the validation split chooses one.
    """
    num_labels = max(splits["train"]["labels"]) + 1
    bags = {name: _Bags(split, vocab_size) for name, split in splits.items()}
    models = [_fit(bags["train"], 2 * vocab_size, num_labels, strength) for strength in strengths]
    best = max(models, key=bags["validation"].accuracy)
    return bags["test"].accuracy(best)


class _WordWeights(nn.Module):
    """Scores that are sums over words: (all words of B texts, B starts) -> (B, num_labels)."""

    def __init__(self, num_words: int, num_labels: int) -> None:
        super().__init__()
        self.weights = nn.EmbeddingBag(num_words, num_labels, mode="sum")
        self.bias = nn.Parameter(torch.zeros(num_labels))
        nn.init.zeros_(self.weights.weight)

    def forward(self, words: Tensor, starts: Tensor) -> Tensor:
        scores: Tensor = self.weights(words, starts)
        return scores + self.bias


class _Bags:
    """The words of a split, end to end, with where each text starts, and the labels."""

    def __init__(self, split: Dataset, vocab_size: int) -> None:
        rows = split["input_ids"][:]
        sides = [[0] * len(row) for row in rows]
        if "token_type_ids" in split.column_names:
            sides = split["token_type_ids"][:]
        self.words = torch.tensor(
            [
                word + vocab_size * side
                for row, sides_of_row in zip(rows, sides, strict=True)
                for word, side in zip(row, sides_of_row, strict=True)
            ]
        )
        self.starts = torch.tensor([0, *accumulate(map(len, rows))][:-1])
        self.labels = torch.tensor(split["labels"][:])

    def loss(self, model: _WordWeights) -> Tensor:
        return functional.cross_entropy(model(self.words, self.starts), self.labels)

    @torch.no_grad()
    def accuracy(self, model: _WordWeights) -> float:
        right = model(self.words, self.starts).argmax(-1) == self.labels
        return float(right.float().mean())


def _fit(bags: _Bags, num_words: int, num_labels: int, strength: float) -> _WordWeights:
    model = _WordWeights(num_words, num_labels)
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=MAX_STEPS, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = bags.loss(model) + strength * model.weights.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return model
