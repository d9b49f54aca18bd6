"""The report of a trained model, beside a linear one and label by label.

Shapes: B rows, C labels or outputs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from datasets import Dataset
from scipy.stats import binomtest
from torch import Tensor
from transformers import EvalPrediction

from ...evaluation.baselines import labels_of, linear_model
from ...models.answers import Answers
from ...utils.text import Table

MAX_MATRIX = 12  # labels of a confusion matrix that a reader takes in
THIS_MODEL = "this model"
LINEAR_MODEL = "linear model"
SHARES = {"accuracy": "accuracy", "macro_f1": "macro F1"}  # metrics from 0 to 1, in words


class Report(NamedTuple):
    """The results of `measure_report`.

    names: the labels, or the names of the numbers.
    systems: the metrics of the linear model, of parts of this model, and of `this model`.
    counts: for each label the rows that have it, that are predicted to, and both, (C, 3); none for
        numbers.
    confusion: the number of rows by true and predicted label (C, C), for one label per row.
    wrong: the wrong rows, the worst first; for numbers, the worse half.
    right: the other rows, those first of which the model is least sure.
    """

    num_rows: int
    names: Sequence[str]
    systems: Mapping[str, Mapping[str, float]]
    counts: np.ndarray
    confusion: np.ndarray | None
    wrong: Sequence[int]
    right: Sequence[int]


def measure_report(
    parts: Mapping[str, np.ndarray],
    rows: Dataset,
    train: Dataset | None,
    answers: Answers,
    compute_metrics: Callable[[EvalPrediction], dict[str, float]],
) -> Report:
    """Measure `this model` and its other parts on rows, beside a linear model that learns `train`.

    The `parts` are the logits (B, C) of each by its name. The rows are encoded and have `labels`.
    Without `train` the linear model is left out. `compute_metrics` is that of a `Trainer`.
    """
    labels = labels_of(rows, answers)
    model_outputs = torch.from_numpy(parts[THIS_MODEL]).view(rows.num_rows, -1)
    outputs = dict(parts)
    if train is not None:
        outputs = {LINEAR_MODEL: linear_model(train, rows, answers), **parts}
    references = np.array(rows["labels"][:])
    systems = {
        system: compute_metrics(EvalPrediction(predictions, references))
        for system, predictions in outputs.items()
    }
    errors = answers.errors(model_outputs, labels)
    order = errors.argsort(descending=True, stable=True).tolist()
    num_wrong = int((errors > 0).sum())
    right = order[num_wrong:]
    scores = answers.scores(model_outputs.float()).tolist()
    right.sort(key=lambda row: answers.sureness(scores[row]) or ())
    counts = np.zeros((0, 3), dtype=int)
    confusion = None
    if answers.has_labels:
        has_label = _applies(labels, answers)
        is_predicted = _applies(answers.chosen(model_outputs), answers)
        both = has_label & is_predicted
        counts = np.stack([has_label.sum(0), is_predicted.sum(0), both.sum(0)], axis=1)
        if answers.has_one_label:
            confusion = has_label.T @ is_predicted
    return Report(
        rows.num_rows, answers.names, systems, counts, confusion, order[:num_wrong], right
    )


def _applies(chosen: Tensor, answers: Answers) -> np.ndarray:
    """Return whether each label applies, (B, C), of labels in the form of `Answers.labels`."""
    if answers.has_one_label:
        chosen = torch.nn.functional.one_hot(chosen, len(answers.names))
    return chosen.int().numpy()


def report_lines(report: Report) -> Iterator[str]:
    """Yield what a reader should know first: a sentence, and labels that the model does not know.

    The shares of the right rows are those of Wilson's interval of 95 %. Without an accuracy, the
    sentence has the first metric.
    """
    own = report.systems[THIS_MODEL]
    linear = report.systems.get(LINEAR_MODEL, own)
    metric = next(iter(own))
    sentence = f"{metric} {shown_metric(metric, own[metric])} on {report.num_rows:,} new texts"
    of_linear = shown_metric(metric, linear[metric])
    if "accuracy" in own:
        num_right = len(report.right)
        interval = binomtest(num_right, report.num_rows).proportion_ci(method="wilson")
        shares = f"{interval.low:.0%} to {interval.high:.0%}"
        sentence = f"right for {num_right:,} of {report.num_rows:,} new texts, {shares}"
        of_linear = f"for {round(linear['accuracy'] * report.num_rows):,}"
    yield sentence if linear is own else f"{sentence}; a linear model {of_linear}"
    num_rows, num_predicted, _ = report.counts.T
    missed = np.flatnonzero((num_rows > 0) & (num_predicted == 0))
    if missed.size:
        names = ", ".join(report.names[label] for label in missed[:10])
        yield f"never predicted: {names}; add rows with these labels, or --class_weights balanced"


def report_tables(report: Report) -> list[Table]:
    """Return the tables of a report: confusions if there are any, results and labels."""
    tables = []
    if report.confusion is not None:
        tables.append(_confusions(report.names, report.confusion))
    results = [
        [system, *(shown_metric(*value) for value in values.items())]
        for system, values in report.systems.items()
    ]
    heads = ["", *(SHARES.get(name, name) for name in report.systems[THIS_MODEL])]
    tables.append(Table(f"Results on {report.num_rows:,} validation rows", heads, results))
    num_rows, num_predicted, num_right = report.counts.T
    least_one = np.maximum(1, [num_predicted, num_rows, (num_predicted + num_rows) / 2])
    rows = [
        [name, *(f"{share:.1%}" for share in shares), f"{count:,}"]
        for name, shares, count in zip(
            report.names, (num_right / least_one).T, num_rows, strict=False
        )
    ]
    if rows:
        tables.append(Table("Label by label", ["", "precision", "recall", "F1", "rows"], rows))
    return tables


def _confusions(names: Sequence[str], confusion: np.ndarray) -> Table:
    """Return the confusions (C, C), shaded by their share of the rows of the true label.

    Of more than `MAX_MATRIX` labels, those with most mistakes are shown.
    """
    mistakes = confusion.sum(0) + confusion.sum(1) - 2 * confusion.diagonal()
    shown = np.sort((-mistakes).argsort(kind="stable")[:MAX_MATRIX])
    rows = [[names[true], *(f"{count:,}" for count in confusion[true, shown])] for true in shown]
    shares = confusion / confusion.sum(1, keepdims=True).clip(1)
    heads = ["", *(names[label] for label in shown)]
    return Table("True label, by predicted", heads, rows, shares[shown][:, shown].tolist())


def shown_metric(metric: str, value: float) -> str:
    """Return a metric as a person reads it: a share in percent, others in four digits."""
    return f"{value:.1%}" if metric in SHARES else f"{value:.4g}"
