"""The report of a trained model, beside simple models and class by class.

Shapes: B rows, C labels or outputs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from datasets import Dataset
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from torch import Tensor
from transformers import EvalPrediction

from ...evaluation.baselines import labels_of, linear_model, most_frequent
from ...models.answers import Answers
from ...utils.text import Table

MAX_MATRIX = 8  # labels of a confusion matrix that fits a terminal
MAX_CONFUSED = 10
FEW_ROWS = 100
THIS_MODEL = "this model"
LINEAR_MODEL = "linear model"
MOST_FREQUENT = "most frequent label"
MEAN = "mean"
SIMPLE_MODELS = (MOST_FREQUENT, MEAN, LINEAR_MODEL)
SIGNS = {"accuracy": 1, "macro_f1": 1, "mse": -1}  # whether more is better
SHARES = {"accuracy": "accuracy", "macro_f1": "macro F1"}  # metrics from 0 to 1, in words
PERFECT = dict.fromkeys(SHARES, 1.0)  # no model can be better


class ClassScore(NamedTuple):
    """Precision, recall and F1 of a label, from 0 to 1, and the number of its rows."""

    name: str
    precision: float
    recall: float
    f1: float
    rows: int


class Report(NamedTuple):
    """The results of `measure_report`.

    systems: the metrics of the simple models, of parts of this model, and of `this model`.
    classes: the scores of each label; none for numbers.
    confusion: the number of rows by true and predicted label (C, C), for one label per row.
    facts: further numbers by name, as they are shown.
    wrong: the wrong rows, the worst first; for numbers, the worse half.
    right: the other rows, those first of which the model is least sure; numbers in random order.
    """

    num_rows: int
    systems: Mapping[str, Mapping[str, float]]
    classes: Sequence[ClassScore]
    confusion: np.ndarray | None
    facts: Mapping[str, str]
    wrong: Sequence[int]
    right: Sequence[int]


def measure_report(
    logits: np.ndarray,
    rows: Dataset,
    train: Dataset | None,
    *,
    answers: Answers,
    vocab_size: int,
    compute_metrics: Callable[[EvalPrediction], dict[str, float]],
    facts: Mapping[str, str],
    parts: Mapping[str, np.ndarray] | None = None,
) -> Report:
    """Measure the logits (B, C) of a model on rows, beside simple models that learn from `train`.

    The rows are encoded and have `labels`. Without `train` the simple models are left out.
    `compute_metrics` is that of a `Trainer`. `parts`
    are the logits of parts of the model by their names, which are measured, too.
    """
    labels = labels_of(rows, answers)
    model_outputs = torch.from_numpy(np.asarray(logits)).view(rows.num_rows, -1)
    outputs = {}
    if train is not None:
        outputs[MOST_FREQUENT if answers.has_labels else MEAN] = most_frequent(
            train, rows.num_rows, answers
        )
        outputs[LINEAR_MODEL] = linear_model(train, rows, vocab_size, answers)
    outputs |= parts or {}
    outputs[THIS_MODEL] = model_outputs.numpy()
    references = np.array(rows["labels"][:])
    metrics = {
        system: compute_metrics(EvalPrediction(predictions, references))
        for system, predictions in outputs.items()
    }
    wrong, right = _by_error(answers.errors(model_outputs, labels))
    if answers.has_labels:
        right = _least_sure_first(right, model_outputs, answers)
    classes, confusion = class_scores(answers.chosen(model_outputs), labels, answers)
    return Report(rows.num_rows, metrics, classes, confusion, facts, wrong, right)


def headline(report: Report) -> str | None:
    """Return what a report says in one sentence; None if it has neither accuracy nor mse.

    The shares of the right rows are those of Wilson's interval of 95 %.
    """
    own = report.systems[THIS_MODEL]
    linear = report.systems.get(LINEAR_MODEL)
    if "accuracy" in own:
        num_right = round(own["accuracy"] * report.num_rows)
        interval = binomtest(num_right, report.num_rows).proportion_ci(method="wilson")
        shares = f"{interval.low:.0%} to {interval.high:.0%}"
        sentence = f"right for {num_right:,} of {report.num_rows:,} new texts, {shares}"
        if linear is not None:
            sentence += f"; a {LINEAR_MODEL} for {round(linear['accuracy'] * report.num_rows):,}"
    elif "mse" in own:
        sentence = f"off by {math.sqrt(own['mse']):.3g} (root of the mean squared error)"
        if linear is not None:
            sentence += f"; a {LINEAR_MODEL} by {math.sqrt(linear['mse']):.3g}"
    else:
        return None
    for true, predicted, _ in worst_confusions(report)[:1]:
        sentence += f"; most often it takes {true} for {predicted}"
    return sentence


def worst_confusions(report: Report) -> list[tuple[str, str, int]]:
    """Return the most frequent mistakes: a true label, what it was taken for, and how often."""
    if report.confusion is None:
        return []
    mistakes = report.confusion - np.diag(report.confusion.diagonal())
    names = [score.name for score in report.classes]
    worst = np.argsort(-mistakes, axis=None, kind="stable")[:MAX_CONFUSED]
    places = np.transpose(np.unravel_index(worst, mistakes.shape)).tolist()
    found = [
        (names[true], names[predicted], int(mistakes[true, predicted]))
        for true, predicted in places
    ]
    return [mistake for mistake in found if mistake[2]]


def report_tables(
    report: Report, max_matrix: int = MAX_MATRIX, max_labels: int | None = None
) -> list[Table]:
    """Return the tables of a report: confusions if there are any, results, facts and labels.

    With more labels than `max_matrix`, the worst confusions replace the confusion matrix. With more
    than `max_labels`, only the most frequent ones have a row of scores.
    """
    tables = []
    if report.confusion is not None and len(report.classes) <= max_matrix:
        tables.append(_confusion_matrix(report.classes, report.confusion))
    elif worst := worst_confusions(report):
        rows = [[true, predicted, f"{count:,}"] for true, predicted, count in worst]
        tables.append(Table("Most confused", ["true label", "predicted", "rows"], rows))
    results = []
    for system, values in report.systems.items():
        results.append([system, *(shown_metric(*value) for value in values.items())])
    heads = ["", *(SHARES.get(name, name) for name in report.systems[THIS_MODEL])]
    tables.append(Table(f"Results on {report.num_rows:,} validation rows", heads, results))
    if report.facts:
        tables.append(Table("About this model", ["", ""], list(map(list, report.facts.items()))))
    if report.classes:
        classes = report.classes
        if max_labels is not None and len(classes) > max_labels:
            classes = sorted(classes, key=lambda score: -score.rows)[:max_labels]
        rows = [
            [name, *(f"{share:.1%}" for share in shares), f"{num_rows:,}"]
            for name, *shares, num_rows in classes
        ]
        tables.append(Table("Label by label", ["", "precision", "recall", "F1", "rows"], rows))
    return tables


def shown_metric(metric: str, value: float) -> str:
    """Return a metric as a person reads it: a share in percent, an error of any size in digits."""
    if metric in SHARES:
        return f"{value:.1%}"
    return f"{value:.4g}" if metric == "mse" else f"{value:.3f}"


def _confusion_matrix(classes: Sequence[ClassScore], confusion: np.ndarray) -> Table:
    """Return the confusions (C, C), shaded by their share of the rows of the true label."""
    shares = confusion / confusion.sum(1, keepdims=True).clip(1)
    names = [score.name for score in classes]
    rows = []
    for name, counts in zip(names, confusion.tolist(), strict=True):
        rows.append([name, *(f"{count:,}" for count in counts)])
    return Table("True label, by predicted", ["", *names], rows, shares.tolist())


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
    own = report.systems[THIS_MODEL]
    simple = {name: report.systems[name] for name in SIMPLE_MODELS if name in report.systems}
    measured = [name for name in SIGNS if name in own]
    if measured and simple:
        compared = metric if metric in measured else measured[0]
        best = max(simple, key=lambda name: SIGNS[compared] * simple[name][compared])
        behind = SIGNS[compared] * (simple[best][compared] - own[compared])
        if behind >= 0 and own[compared] != PERFECT.get(compared):
            results = " against ".join(
                shown_metric(compared, values[compared]) for values in (own, simple[best])
            )
            name = SHARES.get(compared, compared)
            yield f"no better than the {best} ({name} {results}): {way_out}"
    missed = _missed_rare_labels(report)
    if missed:
        yield f"never predicted: {', '.join(missed[:10])}; {rare_way_out}"


def _missed_rare_labels(report: Report) -> list[str]:
    """Return the rare labels, with fewer rows than the mean, that are never predicted."""
    if report.confusion is None:
        return []
    even_share = report.num_rows / len(report.classes)
    missed = []
    for label, num_predictions in zip(report.classes, report.confusion.sum(0), strict=True):
        is_rare = 0 < label.rows < even_share
        if is_rare and num_predictions == 0:
            missed.append(label.name)
    return missed


def _by_error(errors: Tensor) -> tuple[list[int], list[int]]:
    """Return the rows with an error, the largest first, and those without, shuffled."""
    order = errors.argsort(descending=True, stable=True).tolist()
    wrong = order[: int((errors > 0).sum())]
    right = np.random.default_rng(0).permutation(order[len(wrong) :])
    return wrong, right.tolist()


def _least_sure_first(rows: Sequence[int], outputs: Tensor, answers: Answers) -> list[int]:
    """Return rows with outputs (B, C) in the order in which they are worth a look of a person."""
    scores = answers.scores(outputs.float()).tolist()
    return sorted(rows, key=lambda row: answers.sureness(scores[row]) or ())


def class_scores(
    predicted: Tensor, labels: Tensor, answers: Answers
) -> tuple[list[ClassScore], np.ndarray | None]:
    """Return the scores of each label, and for one label per row the confusion matrix (C, C).

    `predicted` and `labels` are in the form of `Answers.labels`, (B,) or (B, C).
    """
    if not answers.has_labels:
        return [], None
    predicted_ids = predicted.numpy()
    true = labels.long().numpy()
    class_ids = list(range(len(answers.names)))
    confusion = None
    if answers.has_one_label:
        confusion = confusion_matrix(true, predicted_ids, labels=class_ids)
    elif len(class_ids) == 1:  # scikit-learn would take the column for two classes
        true = true[:, 0]
        predicted_ids = predicted_ids[:, 0]
        class_ids = [1]
    *shares, num_rows = precision_recall_fscore_support(
        true, predicted_ids, labels=class_ids, zero_division=0
    )
    columns = [*shares, num_rows.astype(int)]  # floats where no row is right
    scores = zip(answers.names, *(column.tolist() for column in columns), strict=True)
    return [ClassScore(*score) for score in scores], confusion
