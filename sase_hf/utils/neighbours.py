"""Some training rows of a classifier, with which new texts are compared.

Shapes: B texts, C labels or numbers, N rows that are kept, W numbers of a sentence matrix.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..models.answers import Answers, Fields
from ..models.checkpoint import NEIGHBOURS_NAME, saved_digests
from ..models.modeling_self_attentive import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
)

NUM_NEAREST = 3  # rows that stand beside an answer
STEPS = 32  # in a deviation, so that int8 holds four of them on each side


class Neighbours(NamedTuple):
    """Some training rows, with which new texts are compared.

    A distance is the root of the mean squared difference of the numbers of two sentence matrices,
    or of those of both texts of a pair, each in units of its deviation in the training rows.
    """

    rows: Tensor  # the sentence matrices, minus `mean`, in steps of `unit` / STEPS, int8, (N, W)
    mean: Tensor  # (W,)
    unit: Tensor  # (W,)
    labels: Tensor  # as `labels_of` returns them, (N,) or (N, C)
    held_out: Tensor  # the `strangeness` of rows that were not learned, sorted, (D,)
    texts: Sequence[Sequence[str]] = ()  # of each row, one or two; none unless they are known
    keeps_texts: bool = True  # in the file

    def distances(self, matrices: Tensor) -> Tensor:
        """Return the distance of sentence matrices (B, ...) to each row, (B, N)."""
        numbers = (matrices.flatten(1).cpu().double() - self.mean) / self.unit
        distances = torch.cdist(numbers, self.rows.double() / STEPS)
        return distances.float() / len(self.mean) ** 0.5

    def familiarity(self, distances: Tensor, unknown: Tensor) -> Tensor:
        """Return how many held-out rows are as strange as each text is: a share, (B,).

        That is a conformal p-value: of texts like the training rows, 5 % have one below 0.05.
        """
        num_nearer = torch.searchsorted(self.held_out, strangeness(distances, unknown))
        num_held_out = len(self.held_out)
        return (1 + num_held_out - num_nearer) / (1 + num_held_out)

    def fields(
        self, read: Mapping[str, Tensor], answers: Answers, unknown_id: int | None
    ) -> Fields:
        """Return what a result of the pipeline says of one text, given its ids and `distances`."""
        ids = read["input_ids"][read["attention_mask"] != 0].tolist()
        unknown = unknown_shares([ids], unknown_id)
        return {
            "familiarity": self.familiarity(read["distances"], unknown).item(),
            "nearest": self.nearest(read["distances"][0], answers),
            "unknown": unknown.item(),
        }

    def nearest(self, distances: Tensor, answers: Answers) -> list[Fields]:
        """Return the rows nearest to one text, given its distances (N,), with their `distance`."""
        rows = distances.argsort(stable=True)[:NUM_NEAREST].tolist()
        return [self.shown(row, answers) | {"distance": distances[row].item()} for row in rows]

    def shown(self, row: int, answers: Answers) -> Fields:
        """Return the `label` of a row, and its `text` if it is known, of a pair a list of two."""
        label: Any = self.labels[row].tolist()
        if answers.has_one_label:
            label = answers.names[label]
        elif answers.has_labels:
            label = answers.result(label)["labels"]
        else:  # float32, which prints the shortest number that it stands for
            label = [float(str(number)) for number in self.labels[row].numpy()]
        if not self.texts:
            return {"label": label}
        text, *others = self.texts[row]
        return {"label": label, "text": [text, *others] if others else text}

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
        """Read the rows of a checkpoint; None if it has none, or has a list that names none."""
        listed = saved_digests(folder) or [NEIGHBOURS_NAME]
        if NEIGHBOURS_NAME not in listed or not (folder / NEIGHBOURS_NAME).is_file():
            return None
        with safe_open(folder / NEIGHBOURS_NAME, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in _TENSORS}
            return cls(**tensors, texts=json.loads(file.metadata()["texts"]))


_TENSORS = Neighbours._fields[:5]


def strangeness(distances: Tensor, unknown: Tensor) -> Tensor:
    """Return the distance to the nearest row, more for unknown words, (B,).

    `distances` are those to each row, (B, N), `unknown` the `unknown_shares`. On other texts the
    model may answer as on the training texts where it does not know the words.
    """
    return distances.amin(1) * (1 + unknown)


def unknown_shares(texts: Sequence[list[Any]], unknown_id: int | None) -> Tensor:
    """Return the share of the ids of each text that are of unknown tokens, (B,).

    It is 1 of a text without tokens, of which nothing is known.
    """
    return torch.tensor([ids.count(unknown_id) / len(ids) if ids else 1.0 for ids in texts])


for _head in (SelfAttentiveForSequenceClassification, SelfAttentiveForNLI):
    _head.neighbours_class = Neighbours
