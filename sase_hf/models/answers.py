"""What a model answers: one label, several labels, or numbers.

Shapes: B texts, C labels or numbers.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedConfig

SINGLE_LABEL = "single_label_classification"
MULTI_LABEL = "multi_label_classification"
REGRESSION = "regression"
LEAST_PROBABILITY = 0.5  # of a label that applies, where several may

Scores = Sequence[float]  # of one text: C probabilities, or numbers
Fields = dict[str, object]  # of a result


class Answers:
    """The answers of a regression, C numbers, and what all kinds of answers share.

    names: the labels in id order; for numbers, a name for each.
    threshold: the least probability of a label in an answer set; None for no answer sets.
    """

    kind: ClassVar[str] = REGRESSION  # as `config.problem_type`
    has_labels: ClassVar[bool] = False  # whether `names` are labels, which are right or wrong
    has_one_label: ClassVar[bool] = False  # whether exactly one of them is right

    def __init__(self, names: Sequence[str] = (), threshold: float | None = None) -> None:
        self.names = tuple(names)
        self.threshold = threshold

    def scores(self, logits: Tensor) -> Tensor:
        """Return what a person reads, (..., C): probabilities, or the numbers as they are."""
        return logits

    def best(self, scores: Tensor) -> Tensor:
        """Return the id of the best label of scores or logits (..., C), or of the first number."""
        if not self.has_labels:
            scores = scores[..., :1]
        return scores.argmax(-1)

    def result(self, scores: Scores) -> Fields:
        """Return the fields of a pipeline's result, as `SelfAttentionPipeline` lists them."""
        best = int(self.best(torch.tensor(scores)))
        return {
            "kind": self.kind,
            "label": self.names[best],
            "score": scores[best],
            "scores": self.by_name(scores),
            **self.answer_set(scores),
        }

    def answer_set(self, scores: Scores) -> Fields:
        """Return the `answer_set`: the best label, and all from the threshold on, best first.

        Without a threshold nothing is returned.
        """
        if self.threshold is None:
            return {}
        by_name = self.by_name(scores)
        ranked = sorted(by_name, key=by_name.__getitem__, reverse=True)
        likely = [name for name in ranked if by_name[name] >= self.threshold]
        return {"answer_set": likely or ranked[:1]}

    def by_name(self, scores: Scores) -> dict[str, float]:
        """Return the scores by the names of labels."""
        return dict(zip(self.names, scores, strict=True))


class SingleLabel(Answers):
    """One label for each text; the probabilities of all labels sum to 1."""

    kind = SINGLE_LABEL
    has_labels = has_one_label = True

    def scores(self, logits: Tensor) -> Tensor:
        """Return the probability of each label, (..., C)."""
        return logits.softmax(-1)


class MultiLabel(Answers):
    """Several labels for each text, or none; each label has a probability of its own."""

    kind = MULTI_LABEL
    has_labels = True

    def scores(self, logits: Tensor) -> Tensor:
        """Return the probability of each label, (..., C)."""
        return logits.sigmoid()

    def result(self, scores: Scores) -> Fields:
        """Return the fields of a pipeline's result, with the `labels` that apply."""
        labels = [n for n, score in self.by_name(scores).items() if score > LEAST_PROBABILITY]
        return super().result(scores) | {"labels": labels}


_KINDS: dict[str, type[Answers]] = {
    answers.kind: answers for answers in (SingleLabel, MultiLabel, Answers)
}


def answers_of_kind(
    kind: str | None, names: Sequence[str] = (), threshold: float | None = None
) -> Answers:
    """Return the answers of a kind, such as `config.problem_type` or the `kind` of a result."""
    return _KINDS.get(kind or "", Answers)(names, threshold)


def answers_of(config: PreTrainedConfig) -> Answers:
    """Return the answers of a model with this config; without a problem type it has one label."""
    names = [name for _, name in sorted((config.id2label or {}).items())]
    threshold = getattr(config, "answer_threshold", None)
    return answers_of_kind(config.problem_type or SINGLE_LABEL, names, threshold)
