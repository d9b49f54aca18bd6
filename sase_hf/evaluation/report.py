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
from .baselines import MAX_WEIGHTS, label_array, linear_model, most_frequent

logger = logging.getLogger(__name__)

MAX_MATRIX = 8  # labels of a confusion matrix that fits a terminal
MAX_CONFUSED = 10
FEW_ROWS = 100
THIS_MODEL = "this model"
LINEAR_MODEL = "linear model"
CONSTANT_MODELS = ("most frequent label", "mean")
SIGNS = {"accuracy": 1, "macro_f1": 1, "mse": -1}  # whether more is better
SHARES = {"accuracy": "accuracy", "macro_f1": "macro F1"}  # metrics from 0 to 1, in words


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
    labels = torch.from_numpy(label_array(rows, problem_type, num_labels))
    own = torch.from_numpy(np.asarray(logits)).view(rows.num_rows, -1)
    systems = {}
    if train is not None:
        name = "mean" if problem_type == REGRESSION else "most frequent label"
        systems[name] = most_frequent(train, rows.num_rows, problem_type, num_labels)
        if vocab_size * num_labels <= MAX_WEIGHTS:
            systems[LINEAR_MODEL] = linear_model(train, rows, vocab_size, problem_type, num_labels)
        else:
            logger.warning(
                f"the report has no {LINEAR_MODEL}: {vocab_size} words times {num_labels} labels "
                f"exceed the limit of {MAX_WEIGHTS} weights"
            )
    given = np.array(rows["labels"][:])
    metrics = {
        name: compute_metrics(EvalPrediction(outputs, given))
        for name, outputs in {**systems, THIS_MODEL: own.numpy()}.items()
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
    noun = "row" if report.num_rows == 1 else "rows"
    title = f"{report.num_rows:,} validation {noun}"
    shown = "{:.3f}".format
    heads = list(report.systems[THIS_MODEL])
    rows = [[system, *map(shown, own.values())] for system, own in report.systems.items()]
    yield Table(title, ["", *heads], rows)
    if report.facts:
        facts = [[name, shown(value)] for name, value in report.facts.items()]
        yield Table(THIS_MODEL, ["", ""], facts)
    if report.classes:
        classes = report.classes
        if max_labels is not None and len(classes) > max_labels:
            classes = sorted(classes, key=lambda score: -score.rows)[:max_labels]
        rows = [[name, *map(shown, shares), f"{n:,}"] for name, *shares, n in classes]
        yield Table("label", ["", "precision", "recall", "F1", "rows"], rows)
    if report.confusion is not None:
        yield _confusion_table(report, report.confusion, max_matrix)


def _confusion_table(report: Report, confusion: np.ndarray, max_matrix: int) -> Table:
    """Return the confusions (C, C), or the worst ones of more than `max_matrix` labels."""
    labels, counts = [score.name for score in report.classes], confusion.tolist()
    if len(labels) > max_matrix:
        mistakes = confusion - np.diag(confusion.diagonal())
        worst = np.argsort(-mistakes, axis=None, kind="stable")[:MAX_CONFUSED]
        places = zip(*np.unravel_index(worst, mistakes.shape), strict=True)
        rows = [[labels[t], labels[p], f"{mistakes[t, p]:,}"] for t, p in places if mistakes[t, p]]
        return Table("most confused, true label", ["", "predicted", "rows"], rows)
    shares = [[count / max(sum(row), 1) for count in row] for row in counts]
    rows = [[name, *(f"{n:,}" for n in row)] for name, row in zip(labels, counts, strict=True)]
    return Table("true label, by predicted", ["", *labels], rows, shares)


def remarks(
    report: Report,
    way_out: str,
    rare_way_out: str = "try --class_weights balanced",
    metric: str | None = None,
) -> Iterator[str]:
    """Yield what a reader should know before the numbers of a report.

    `way_out` is how to train a better model, `rare_way_out` what helps labels that are never
    predicted. The model is compared with the best simple one, by `metric` if that is one of
    `SIGNS`, else by the first of these that the report has.
    """
    if report.num_rows < FEW_ROWS and report.classes:
        points = round(100 / report.num_rows, 1)
        yield f"validation rows: {report.num_rows}; one row is {points:g} points of accuracy"
    measured = [name for name in SIGNS if name in report.systems[THIS_MODEL]]
    if metric in measured:
        measured = [metric]
    if measured and len(report.systems) > 1:
        yield from _lag(report, measured[0], way_out)
    missed = _missed_rare_labels(report)
    if missed:
        yield f"never predicted: {', '.join(missed[:10])}; {rare_way_out}"


def _lag(report: Report, metric: str, way_out: str) -> Iterator[str]:
    """Yield how far this model is behind the best simple model, if it is not better.

    A difference of shares is one if it is above its standard error, that of two independent
    shares; that of a macro F1 is larger.
    """
    values = {system: values[metric] for system, values in report.systems.items()}
    own = values.pop(THIS_MODEL)
    best = max(values, key=lambda system: SIGNS[metric] * values[system])
    behind = SIGNS[metric] * (values[best] - own)
    if behind < 0:
        return
    by, error = f"an {metric} of {behind:.3g}", 0.0
    if metric in SHARES:
        by = f"{100 * behind:.1f} points of {SHARES[metric]}"
        variance = sum(share * (1 - share) for share in (own, values[best]))
        error = math.sqrt(variance / report.num_rows)
    if behind == 0 or best in CONSTANT_MODELS:
        yield f"this model is no better than the {best}: {way_out}"
    elif behind > error:
        yield f"this model is {by} behind the {best}: {way_out}; until then, the {best} is better"
    else:
        lag = f"{by} behind, which can be chance"
        yield f"this model is no better than the {best} ({lag}): {way_out}"


def _missed_rare_labels(report: Report) -> list[str]:
    """Return the labels that rows have, though fewer than an even share, and no prediction."""
    if report.confusion is None:
        return []
    even_share = report.num_rows / len(report.classes)
    counts = zip(report.classes, report.confusion.sum(0), strict=True)
    return [
        label.name for label, predicted in counts if 0 < label.rows < even_share and predicted == 0
    ]


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
