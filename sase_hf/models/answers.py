"""What a model answers: one label, several labels, or numbers.

`Neighbours` say how like the training rows a text is, whatever the answer.

Shapes: B texts, C labels or numbers, N rows that are kept, W numbers of a sentence matrix.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedConfig

from .checkpoint import NEIGHBOURS_NAME, SavedFiles

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

    def result(self, scores: Scores) -> Fields:
        """Return the fields of a pipeline's result, as `SelfAttentionPipeline` lists them."""
        best = max(scores)
        return {
            "kind": self.kind,
            "label": self.names[scores.index(best)],
            "score": best,
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
        ranked = sorted(by_name, key=lambda name: -by_name[name])
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

    def predicted(self, scores: Scores) -> list[str]:
        """Return the labels that apply."""
        return [n for n, score in self.by_name(scores).items() if score > LEAST_PROBABILITY]

    def result(self, scores: Scores) -> Fields:
        """Return the fields of a pipeline's result, with the `labels` that apply."""
        return super().result(scores) | {"labels": self.predicted(scores)}


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


# ---- training rows beside an answer --------------------------------------------------------------


NUM_AVERAGED = 5  # nearest rows, whose mean distance says how unlike a text is
NUM_NEAREST = 3  # of these, which stand beside an answer
STEPS = 32  # in a deviation, so that int8 holds four of them on each side


class Neighbours(NamedTuple):
    """Some training rows, with which new texts are compared.

    A distance is the mean difference of the numbers of two sentence matrices, or of those of both
    texts of a pair, each in units of its deviation in the training rows.
    """

    rows: Tensor  # the sentence matrices, minus `mean`, in steps of `unit` / STEPS, int8, (N, W)
    mean: Tensor  # (W,)
    unit: Tensor  # (W,)
    labels: Tensor  # as `Answers.labels` returns them, (N,) or (N, C)
    held_out: Tensor  # the distances of rows that were not learned, sorted, (D,)
    texts: Sequence[Sequence[str]] = ()  # of each row, one or two; none unless they are known
    keeps_texts: bool = True  # in the file

    def distances(self, matrices: Tensor) -> Tensor:
        """Return the distance of sentence matrices (B, ...) to each row, (B, N)."""
        numbers = (matrices.flatten(1).float().cpu() - self.mean) / self.unit
        return torch.cdist(numbers, self.rows.float() / STEPS, p=1) / len(self.mean)

    def familiarity(self, distances: Tensor) -> Tensor:
        """Return how many held-out rows are as far from the rows as each text is: a share, (B,).

        That is a conformal p-value: of texts like the training rows, 5 % have one below 0.05.
        """
        sizes = mean_of_nearest(distances)
        num_nearer = torch.searchsorted(self.held_out, sizes)
        num_held_out = len(self.held_out)
        return (1 + num_held_out - num_nearer) / (1 + num_held_out)

    def nearest(self, distances: Tensor, answers: Answers) -> list[Fields]:
        """Return the rows nearest to one text, given its distances (N,), with their `distance`."""
        rows = distances.argsort()[:NUM_NEAREST].tolist()
        return [self.shown(row, answers) | {"distance": distances[row].item()} for row in rows]

    def shown(self, row: int, answers: Answers) -> Fields:
        """Return the `label` of a row, and its `text` if it is known, of a pair a list of two."""
        label: Any = self.labels[row].tolist()
        name = answers.names[label] if answers.has_one_label else answers.predicted(label)
        if not self.texts:
            return {"label": name}
        texts = list(self.texts[row])
        return {"label": name, "text": texts if len(texts) > 1 else texts[0]}

    def write(self, path: Path) -> None:
        """Write the rows as safetensors; known texts only if they are to be kept."""
        texts = self.texts if self.keeps_texts else ()
        save_file(
            {name: getattr(self, name).contiguous() for name in _TENSORS},
            path,
            {"texts": json.dumps([*texts])},
        )

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the rows that the list of a checkpoint names; None if it names none."""
        if NEIGHBOURS_NAME not in SavedFiles.read(folder).digests:
            return None
        with safe_open(folder / NEIGHBOURS_NAME, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in _TENSORS}
            return cls(**tensors, texts=json.loads(file.metadata()["texts"]))


_TENSORS = Neighbours._fields[:5]


def mean_of_nearest(distances: Tensor) -> Tensor:
    """Return the mean distance to the nearest rows, (B,), from those to each row, (B, N)."""
    count = min(NUM_AVERAGED, distances.shape[1])
    return distances.topk(count, largest=False).values.mean(1)
