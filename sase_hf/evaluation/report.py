"""The report of a trained model, beside simple models and class by class.

Shapes: B rows, C labels or outputs.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from transformers import EvalPrediction

from ..data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from ..utils.text import Table
from .baselines import bag_of_words, label_tensor, most_frequent

logger = logging.getLogger(__name__)

MAX_MATRIX = 8  # labels of a confusion matrix that fits a terminal
MAX_CONFUSED = 10
FEW_ROWS = 100
SIGNS = {"accuracy": 1, "mse": -1}  # whether more is better
MAX_WEIGHTS = 4_000_000  # of the linear model; more take too long for a report


class ClassScore(NamedTuple):
    """Precision, recall and F1 of a label, from 0 to 1, and the number of its rows."""

    name: str
    precision: float
    recall: float
    f1: float
    rows: int


class Report(NamedTuple):
    """The results of `measure_report`."""

    num_rows: int
    systems: Mapping[str, Mapping[str, float]]  # metrics of the simple models and `this model`
    classes: Sequence[ClassScore]  # of each label; empty for numbers
    confusion: np.ndarray | None  # rows by true and predicted label (C, C), for one label per row
    facts: Mapping[str, float]  # further numbers, such as the loss without the penalty
    wrong: Sequence[int]  # wrong rows, the worst first; for numbers, the worse half
    right: Sequence[int]  # the other rows, in random order


def measure_report(
    logits: np.ndarray,
    rows: Dataset,
    train: Dataset | None,
    *,
    label_names: Sequence[str],
    problem_type: str,
    vocab_size: int,
    compute_metrics: Callable[[EvalPrediction], dict[str, float]],
    facts: Mapping[str, float],
) -> Report:
    """Measure the logits (B, C) of a model on rows, beside simple models that learn from `train`.

    The rows are encoded and have `labels`. Without `train` the simple models are left out, and the
    linear one if it has more than `MAX_WEIGHTS`. `compute_metrics` is that of a `Trainer`.
    """
    num_labels = len(label_names)
    labels = label_tensor(rows, problem_type, num_labels)
    own = torch.from_numpy(np.asarray(logits)).view(rows.num_rows, -1)
    systems = {}
    if train is not None:
        name = "mean" if problem_type == REGRESSION else "most frequent label"
        systems[name] = most_frequent(train, rows.num_rows, problem_type, num_labels)
        if vocab_size * num_labels <= MAX_WEIGHTS:
            words = bag_of_words(train, rows, vocab_size, problem_type, num_labels)
            systems["bag of words"] = words
        else:
            logger.warning(
                f"the report has no bag of words: {vocab_size} words times {num_labels} labels "
                f"exceed the limit of {MAX_WEIGHTS} weights"
            )
    given = np.array(rows["labels"][:])
    metrics = {
        name: compute_metrics(EvalPrediction(outputs.numpy(), given))
        for name, outputs in {**systems, "this model": own}.items()
    }
    wrong, right = _by_error(own, labels, problem_type)
    classes, confusion = _class_scores(own, labels, problem_type, label_names)
    return Report(rows.num_rows, metrics, classes, confusion, facts, wrong, right)


def report_tables(
    report: Report, max_matrix: int = MAX_MATRIX, max_labels: int | None = None
) -> Iterator[Table]:
    """Yield the tables of a report.

    With more labels than `max_matrix`, the worst confusions replace the confusion matrix. With more
    than `max_labels`, only the most frequent ones have a row of scores.
    """
    title = f"{report.num_rows:,} validation row{'s' * (report.num_rows > 1)}"
    shown = "{:.3f}".format
    heads = list(report.systems["this model"])
    rows = [[system, *map(shown, own.values())] for system, own in report.systems.items()]
    yield Table(title, ["", *heads], rows)
    if report.facts:
        facts = [[name, shown(value)] for name, value in report.facts.items()]
        yield Table("this model", ["", ""], facts)
    if report.classes:
        classes = report.classes
        if max_labels is not None and len(classes) > max_labels:
            classes = sorted(classes, key=lambda score: -score.rows)[:max_labels]
        rows = [[name, *map(shown, shares), f"{n:,}"] for name, *shares, n in classes]
        yield Table("label", ["", "precision", "recall", "F1", "rows"], rows)
    if report.confusion is None:
        return
    labels, counts = [score.name for score in report.classes], report.confusion.tolist()
    if len(labels) > max_matrix:
        mistakes = report.confusion - np.diag(report.confusion.diagonal())
        worst = np.argsort(-mistakes, axis=None, kind="stable")[:MAX_CONFUSED]
        places = zip(*np.unravel_index(worst, mistakes.shape), strict=True)
        rows = [[labels[t], labels[p], f"{mistakes[t, p]:,}"] for t, p in places if mistakes[t, p]]
        yield Table("most confused, true label", ["", "predicted", "rows"], rows)
        return
    shares = [[count / max(sum(row), 1) for count in row] for row in counts]
    rows = [[name, *(f"{n:,}" for n in row)] for name, row in zip(labels, counts, strict=True)]
    yield Table("true label, by predicted", ["", *labels], rows, shares)


def remarks(report: Report, way_out: str) -> Iterator[str]:
    """Yield what a reader should know before the numbers of a report.

    `way_out` is how to train a better model. An accuracy behind that of the bag of words counts if
    the difference is above its standard error, that of two independent shares.
    """
    rows = report.num_rows
    if rows < FEW_ROWS and report.classes:
        yield f"validation rows: {rows}; one row is {round(100 / rows, 1):g} points of accuracy"
    *simple, own = report.systems.values()
    gains = [s * (own[m] - one[m]) for one in simple for m, s in SIGNS.items() if m in own]
    if gains and gains[0] <= 0:
        yield f"this model is no better than the {next(iter(report.systems))}: {way_out}"
    elif gains and (behind := -gains[-1]) > 0:
        shares = [one["accuracy"] for one in (simple[-1], own) if "accuracy" in one]
        error = math.sqrt(sum(share * (1 - share) for share in shares) / rows)
        by = f"{100 * behind:.1f} points of accuracy" if shares else f"an mse of {behind:.3g}"
        if behind > error:
            yield f"this model is {by} behind the bag of words: {way_out}"
    if report.confusion is not None:
        counts = zip(report.classes, report.confusion.sum(0), strict=True)
        even = rows / len(report.classes)
        missed = [one.name for one, predicted in counts if 0 < one.rows < even and not predicted]
        if missed:
            yield f"never predicted: {', '.join(missed[:10])}; try --class_weights balanced"


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
    """Return the scores of each label, and for one label per row the confusion matrix (C, C)."""
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
    shares = hits / np.maximum([predicted, true, (true + predicted) / 2], 1)
    columns = zip(names, *shares.tolist(), true.tolist(), strict=True)
    return [ClassScore(*column) for column in columns], confusion
