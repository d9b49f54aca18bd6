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

MAX_MATRIX = 12  # labels of a confusion matrix that a reader takes in
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
    wrong: the wrong rows, the worst first; for numbers, the worse half.
    right: the other rows, those first of which the model is least sure; numbers in random order.
    """

    num_rows: int
    systems: Mapping[str, Mapping[str, float]]
    classes: Sequence[ClassScore]
    confusion: np.ndarray | None
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
    errors = answers.errors(model_outputs, labels)
    order = errors.argsort(descending=True, stable=True).tolist()
    num_wrong = int((errors > 0).sum())
    right = np.random.default_rng(0).permutation(order[num_wrong:]).tolist()
    if answers.has_labels:
        scores = answers.scores(model_outputs.float()).tolist()
        right.sort(key=lambda row: answers.sureness(scores[row]) or ())
    classes, confusion = class_scores(answers.chosen(model_outputs), labels, answers)
    return Report(rows.num_rows, metrics, classes, confusion, order[:num_wrong], right)


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
    names = [score.name for score in report.classes]
    mistakes = [
        (names[true], names[predicted], int(count))
        for (true, predicted), count in np.ndenumerate(report.confusion)
        if count and true != predicted
    ]
    return sorted(mistakes, key=lambda mistake: -mistake[2])[:MAX_CONFUSED]


def report_tables(report: Report) -> list[Table]:
    """Return the tables of a report: confusions if there are any, results and labels.

    With more labels than `MAX_MATRIX`, the worst confusions replace the confusion matrix.
    """
    tables = []
    if report.confusion is not None and len(report.classes) <= MAX_MATRIX:
        tables.append(_confusion_matrix(report.classes, report.confusion))
    elif report.confusion is not None:
        worst = [[true, predicted, f"{n:,}"] for true, predicted, n in worst_confusions(report)]
        tables.append(Table("Most confused", ["true label", "predicted", "rows"], worst))
    results = [
        [system, *(shown_metric(*value) for value in values.items())]
        for system, values in report.systems.items()
    ]
    heads = ["", *(SHARES.get(name, name) for name in report.systems[THIS_MODEL])]
    tables.append(Table(f"Results on {report.num_rows:,} validation rows", heads, results))
    if report.classes:
        rows = [
            [name, *(f"{share:.1%}" for share in shares), f"{num_rows:,}"]
            for name, *shares, num_rows in report.classes
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
    if report.confusion is None:
        return
    even_share = report.num_rows / len(report.classes)
    missed = [
        label.name
        for label, num_predictions in zip(report.classes, report.confusion.sum(0), strict=True)
        if num_predictions == 0 and 0 < label.rows < even_share
    ]
    if missed:
        yield f"never predicted: {', '.join(missed[:10])}; {rare_way_out}"


def class_scores(
    predicted: Tensor, labels: Tensor, answers: Answers
) -> tuple[list[ClassScore], np.ndarray | None]:
    """Return the scores of each label, and for one label per row the confusion matrix (C, C).

    `predicted` and `labels` are in the form of `Answers.labels`, (B,) or (B, C).
    """
    if not answers.has_labels:
        return [], None
    names = answers.names
    class_ids = list(range(len(names)))
    pairs = [labels.long().numpy(), predicted.numpy()]
    confusion = confusion_matrix(*pairs, labels=class_ids) if answers.has_one_label else None
    if (
        len(names) == 1 and not answers.has_one_label
    ):  # scikit-learn would take the column for two classes
        pairs = [column.reshape(-1) for column in pairs]
        class_ids = [1]
    columns = precision_recall_fscore_support(*pairs, labels=class_ids, zero_division=0)
    scores = []
    for name, row in zip(names, np.transpose(columns).tolist(), strict=True):
        precision, recall, f1, num_rows = row
        scores.append(ClassScore(name, precision, recall, f1, int(num_rows)))
    return scores, confusion
