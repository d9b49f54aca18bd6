"""The report of a trained model, beside simple models and class by class.

Shapes: B rows, C labels or outputs.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from transformers import EvalPrediction

from ..data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from ..utils.tables import Table
from .baselines import bag_of_words, label_tensor, most_frequent

logger = logging.getLogger(__name__)

MAX_MATRIX = 8  # labels of a confusion matrix that fits a terminal
MAX_CONFUSED = 10
MAX_WEIGHTS = 4_000_000  # of the linear model; more take too long for a report


@dataclass(frozen=True)
class ClassScore:
    """Precision, recall and F1 of a label, from 0 to 1, and the number of its rows."""

    name: str
    precision: float
    recall: float
    f1: float
    rows: int


@dataclass(frozen=True)
class Report:
    """The results of `measure_report`.

    Attributes:
        split: The split of the rows.
        num_rows: B.
        systems: The metrics of the simple models and of `this model`, by name.
        classes: A score for each label; empty for numbers.
        confusion: Rows by true and predicted label (C, C), for one label per row; else None.
        facts: Further numbers, such as the loss without the penalty, by name.
        wrong: Numbers of the wrong rows, the worst first; of a regression, the half furthest off.
        right: Numbers of the other rows, in random order.
    """

    split: str
    num_rows: int
    systems: Mapping[str, Mapping[str, float]]
    classes: Sequence[ClassScore]
    confusion: np.ndarray | None
    facts: Mapping[str, float]
    wrong: Sequence[int]
    right: Sequence[int]


def measure_report(
    logits: np.ndarray,
    rows: Dataset,
    train: Dataset | None,
    *,
    split: str,
    label_names: Sequence[str],
    problem_type: str,
    vocab_size: int,
    compute_metrics: Callable[[EvalPrediction], dict[str, float]],
    facts: Mapping[str, float],
    max_weights: int = MAX_WEIGHTS,
) -> Report:
    """Measure a model on labelled rows, beside simple models that learn from its training rows.

    Args:
        logits: The outputs of the model, shape (B, C).
        rows: Encoded rows with `labels`.
        train: The training rows; None leaves the simple models out.
        split: The name of `rows`.
        label_names: The names of the C labels or outputs.
        problem_type: One of `labels.PROBLEM_TYPES`.
        vocab_size: V, the words of the tokenizer.
        compute_metrics: As for `Trainer`.
        facts: As in `Report`.
        max_weights: The largest linear model; a larger one is left out.
    """
    num_labels = len(label_names)
    labels = label_tensor(rows, problem_type, num_labels)
    own = torch.from_numpy(np.asarray(logits)).view(rows.num_rows, -1)
    systems = {}
    if train is not None:
        name = "mean" if problem_type == REGRESSION else "most frequent label"
        systems[name] = most_frequent(train, rows.num_rows, problem_type, num_labels)
        if vocab_size * num_labels <= max_weights:
            words = bag_of_words(train, rows, vocab_size, problem_type, num_labels)
            systems["bag of words"] = words
        else:
            logger.warning(
                "no bag of words stands beside the model: %d words for each of %d labels are more "
                "than %d weights",
                *(vocab_size, num_labels, max_weights),
            )
    given = np.array(rows["labels"][:])
    metrics = {
        name: compute_metrics(EvalPrediction(outputs.numpy(), given))
        for name, outputs in {**systems, "this model": own}.items()
    }
    wrong, right = _by_error(own, labels, problem_type)
    classes, confusion = _class_scores(own, labels, problem_type, label_names)
    return Report(split, rows.num_rows, metrics, classes, confusion, facts, wrong, right)


def report_tables(
    report: Report, max_matrix: int = MAX_MATRIX, max_labels: int | None = None
) -> Iterator[Table]:
    """Yield the tables of a report.

    With more labels than `max_matrix`, the worst confusions replace the confusion matrix. With more
    than `max_labels`, only the most frequent ones have a row of scores.
    """
    names = list(report.systems["this model"])
    rows = [
        [system, *(f"{metrics[name]:.3f}" for name in names)]
        for system, metrics in report.systems.items()
    ]
    yield Table(f"{report.num_rows:,} {report.split} rows", ["", *names], rows)
    if report.facts:
        facts = [[name, f"{value:.3f}"] for name, value in report.facts.items()]
        yield Table("this model", ["", ""], facts)
    if report.classes:
        shown = report.classes
        if max_labels is not None and len(shown) > max_labels:
            shown = sorted(shown, key=lambda score: -score.rows)[:max_labels]
        rows = [
            [s.name, f"{s.precision:.3f}", f"{s.recall:.3f}", f"{s.f1:.3f}", f"{s.rows:,}"]
            for s in shown
        ]
        yield Table("label", ["", "precision", "recall", "F1", "rows"], rows)
    if report.confusion is None:
        return
    labels, counts = [score.name for score in report.classes], report.confusion.tolist()
    if len(labels) > max_matrix:
        pairs = [[labels[t], labels[p], f"{n:,}"] for t, p, n in _confused(report.confusion)]
        yield Table("most confused, true label", ["", "predicted", "rows"], pairs)
        return
    shares = [[count / max(sum(row), 1) for count in row] for row in counts]
    rows = [[name, *(f"{n:,}" for n in row)] for name, row in zip(labels, counts, strict=True)]
    yield Table("true label, by predicted", ["", *labels], rows, shares)


def _confused(confusion: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Yield the most frequent mistakes: true label, predicted label and number of rows."""
    mistakes = confusion - np.diag(confusion.diagonal())
    for place in np.argsort(-mistakes, axis=None, kind="stable")[:MAX_CONFUSED]:
        true, predicted = divmod(int(place), len(mistakes))
        if rows := int(mistakes[true, predicted]):
            yield true, predicted, rows


def _by_error(logits: Tensor, labels: Tensor, problem_type: str) -> tuple[list[int], list[int]]:
    """Return the rows that are wrong, the worst first, and those that are right, shuffled."""
    if problem_type == SINGLE_LABEL:
        confidence, predicted = logits.softmax(-1).max(-1)
        errors = torch.where(predicted == labels, 0, confidence)
    elif problem_type == MULTI_LABEL:
        errors = ((logits > 0) != (labels > 0)).sum(-1).float()
    else:
        errors = (logits - labels).abs().sum(-1)
        errors[errors <= errors.median()] = 0
    order = errors.argsort(descending=True, stable=True).tolist()
    wrong = order[: int((errors > 0).sum())]
    right = np.random.default_rng(0).permutation(order[len(wrong) :])
    return wrong, right.tolist()


def _class_scores(
    logits: Tensor, labels: Tensor, problem_type: str, names: Sequence[str]
) -> tuple[list[ClassScore], np.ndarray | None]:
    if problem_type == REGRESSION:
        return [], None
    confusion = None
    if problem_type == SINGLE_LABEL:
        places = labels * len(names) + logits.argmax(-1)
        confusion = places.bincount(minlength=len(names) ** 2).view(len(names), -1).numpy()
        hits, true, predicted = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    else:
        chosen, applies = (logits > 0).numpy(), (labels > 0).numpy()
        hits, true, predicted = (chosen & applies).sum(0), applies.sum(0), chosen.sum(0)
    scores = []
    for name, hit, has, got in zip(names, hits, true, predicted, strict=True):
        f1 = 2 * hit / max(has + got, 1)
        shares = (float(hit / max(got, 1)), float(hit / max(has, 1)), float(f1))
        scores.append(ClassScore(name, *shares, int(has)))
    return scores, confusion


__all__ = ["ClassScore", "Report", "measure_report", "report_tables"]
