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
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from torch import Tensor
from transformers import EvalPrediction

from ...evaluation.baselines import MAX_WEIGHTS, labels_of, linear_model, most_frequent
from ...models.answers import Answers
from ...utils.text import Table

logger = logging.getLogger(__name__)

PER_HUNDRED = 100  # rows from which a share is said as so many of a hundred
MAX_MATRIX = 8  # labels of a confusion matrix that fits a terminal
MAX_CONFUSED = 10
FEW_ROWS = 100
NUM_OF_TWO = 2  # labels, which are confused with one another only
NORMAL_95 = 1.959964  # the middle 95 % of a normal distribution are within so many deviations
THIS_MODEL = "this model"
LINEAR_MODEL = "linear model"
MOST_FREQUENT = "most frequent label"
MEAN = "mean"
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
    """The results of `measure_report`.

    systems: the metrics of the simple models, and of `this model`.
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
) -> Report:
    """Measure the logits (B, C) of a model on rows, beside simple models that learn from `train`.

    The rows are encoded and have `labels`. Without `train` the simple models are left out, and the
    linear one if it has more than `MAX_WEIGHTS`. `compute_metrics` is that of a `Trainer`.
    """
    labels = labels_of(rows, answers)
    model_outputs = torch.from_numpy(np.asarray(logits)).view(rows.num_rows, -1)
    outputs = {}
    if train is not None:
        outputs = simple_outputs(train, rows, vocab_size, answers)
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


def simple_outputs(
    train: Dataset, rows: Dataset, vocab_size: int, answers: Answers
) -> dict[str, np.ndarray]:
    """Return the outputs (B, C) of the simple models, by their names in a report."""
    num_labels = len(answers.names)
    constant_model = MOST_FREQUENT if answers.has_labels else MEAN
    outputs = {constant_model: most_frequent(train, rows.num_rows, answers)}
    if vocab_size * num_labels > MAX_WEIGHTS:
        logger.warning(
            f"the report has no {LINEAR_MODEL}: {vocab_size} words times {num_labels} labels "
            f"exceed the limit of {MAX_WEIGHTS} weights"
        )
        return outputs
    outputs[LINEAR_MODEL] = linear_model(train, rows, answers)
    return outputs


def headline(report: Report) -> str | None:
    """Return what a report says in one sentence; None if it has neither accuracy nor mse."""
    own = report.systems[THIS_MODEL]
    linear = report.systems.get(LINEAR_MODEL)
    if "accuracy" in own:
        accuracies = [own["accuracy"]]
        if linear is not None:
            accuracies.append(linear["accuracy"])
        sentence = _in_rows(accuracies, report.num_rows)
    elif "mse" in own:
        sentence = f"off by {math.sqrt(own['mse']):.3g} (root of the mean squared error)"
        if linear is not None:
            sentence += f", the {LINEAR_MODEL} by {math.sqrt(linear['mse']):.3g}"
    else:
        return None
    mistake = _frequent_mistake(report)
    return sentence if mistake is None else f"{sentence}; {mistake}"


def _in_rows(accuracies: Sequence[float], num_rows: int) -> str:
    """Return for how many rows this model is right, and the linear model if there is one.

    They are said of every hundred, or of all if there are no more, or if rounding would hide that
    a model has made a mistake, or that it was right.
    """
    said = num_rows
    of = f"{num_rows:,}"
    if num_rows > PER_HUNDRED and not any(map(_is_rounded_away, accuracies)):
        said = PER_HUNDRED
        of = f"every {PER_HUNDRED}"
    noun = "row" if num_rows == 1 else "rows"
    num_right, *of_linear = [f"{round(accuracy * said):,}" for accuracy in accuracies]
    sentence = f"right for {num_right} of {of} validation {noun}"
    for other in of_linear:
        sentence += f", the {LINEAR_MODEL} for {other}"
    return sentence


def _is_rounded_away(accuracy: float) -> bool:
    """Return whether some rows are right and some wrong, but of a hundred all or none."""
    return 0 < accuracy < 1 and round(accuracy * PER_HUNDRED) in (0, PER_HUNDRED)


def _frequent_mistake(report: Report) -> str | None:
    """Return which mistake is the most frequent one; None if none stands out."""
    if report.confusion is None:
        return None
    names = [score.name for score in report.classes]
    if len(names) == NUM_OF_TWO:
        return _lopsided(names, report.confusion)
    mistakes = np.triu(report.confusion + report.confusion.T, 1)
    num_worst = (mistakes == mistakes.max()).sum()
    if not mistakes.any() or num_worst > 1:
        return None
    first, second = np.unravel_index(mistakes.argmax(), mistakes.shape)
    return f"most often it confuses {names[first]} and {names[second]}"


def _lopsided(names: Sequence[str], confusion: np.ndarray) -> str | None:
    """Return which of two labels is taken for the other one more often, if it is no chance.

    Mistakes that are equally likely would differ so much in 5 of 100 cases.
    """
    first_missed = int(confusion[0, 1])
    second_missed = int(confusion[1, 0])
    difference = first_missed - second_missed
    if abs(difference) <= NORMAL_95 * math.sqrt(first_missed + second_missed):
        return None
    missed, other = names if difference > 0 else reversed(names)
    return f"it takes {missed} for {other} more often than {other} for {missed}"


def report_tables(
    report: Report, max_matrix: int = MAX_MATRIX, max_labels: int | None = None
) -> Iterator[Table]:
    """Yield the tables of a report; the accuracy of this model has the interval of Wilson.

    With more labels than `max_matrix`, the worst confusions replace the confusion matrix. With more
    than `max_labels`, only the most frequent ones have a row of scores.
    """
    noun = "row" if report.num_rows == 1 else "rows"
    own = report.systems[THIS_MODEL]
    rows = [
        [system, *(shown_metric(name, value) for name, value in values.items())]
        for system, values in report.systems.items()
    ]
    if "accuracy" in own:
        num_right = round(own["accuracy"] * report.num_rows)
        low, high = binomtest(num_right, report.num_rows).proportion_ci(method="wilson")
        bounds = f"{low:.1%}-{high:.1%}"
        head = f"{THIS_MODEL}, 95 % interval"
        rows.append([head, *(bounds if name == "accuracy" else "" for name in own)])
    heads = ["", *(SHARES.get(name, name) for name in own)]
    yield Table(f"Results on {report.num_rows:,} validation {noun}", heads, rows)
    if report.facts:
        yield Table("About this model", ["", ""], [list(fact) for fact in report.facts.items()])
    if report.classes:
        yield _score_table(report.classes, max_labels)
    if report.confusion is None:
        return
    names = [score.name for score in report.classes]
    if len(names) > max_matrix:
        worst = _worst_confusions(names, report.confusion)
        if worst.rows:
            yield worst
    else:
        yield _confusion_matrix(names, report.confusion)


def shown_metric(metric: str, value: float) -> str:
    """Return a metric as a person reads it: a share in percent, an error of any size in digits."""
    if metric in SHARES:
        return f"{value:.1%}"
    return f"{value:.4g}" if metric == "mse" else f"{value:.3f}"


def _score_table(classes: Sequence[ClassScore], max_labels: int | None) -> Table:
    """Return the scores of labels, of more than `max_labels` those of the most frequent ones."""
    if max_labels is not None and len(classes) > max_labels:
        classes = sorted(classes, key=lambda score: -score.rows)[:max_labels]
    rows = []
    for name, precision, recall, f1, num_rows in classes:
        shares = (f"{share:.1%}" for share in (precision, recall, f1))
        rows.append([name, *shares, f"{num_rows:,}"])
    return Table("Label by label", ["", "precision", "recall", "F1", "rows"], rows)


def _confusion_matrix(names: Sequence[str], confusion: np.ndarray) -> Table:
    """Return the confusions (C, C), shaded by their share of the rows of the true label."""
    rows = []
    shares = []
    for name, counts in zip(names, confusion.tolist(), strict=True):
        num_rows = max(sum(counts), 1)
        rows.append([name, *(f"{count:,}" for count in counts)])
        shares.append([count / num_rows for count in counts])
    return Table("True label, by predicted", ["", *names], rows, shares)


def _worst_confusions(names: Sequence[str], confusion: np.ndarray) -> Table:
    """Return the most frequent ones of the confusions (C, C)."""
    mistakes = confusion - np.diag(confusion.diagonal())
    worst_first = np.argsort(-mistakes, axis=None, kind="stable")
    rows = []
    for place in worst_first[:MAX_CONFUSED]:
        true, predicted = np.unravel_index(place, mistakes.shape)
        count = mistakes[true, predicted]
        if count:
            rows.append([names[true], names[predicted], f"{count:,}"])
    return Table("Most confused: true label", ["", "predicted", "rows"], rows)


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
    if measured and len(report.systems) > 1:
        yield from _lag(report, metric if metric in measured else measured[0], way_out)
    missed = _missed_rare_labels(report)
    if missed:
        yield f"never predicted: {', '.join(missed[:10])}; {rare_way_out}"


def _lag(report: Report, metric: str, way_out: str) -> Iterator[str]:
    """Yield how far this model is behind the best simple model, if it is not better.

    A model that makes no mistake cannot be better.
    Accuracy and macro F1: a gap counts only above its standard error, computed as for two
    independent shares. For macro F1 this estimate is too small.
    """
    results = {system: values[metric] for system, values in report.systems.items()}
    model_result = results.pop(THIS_MODEL)
    best = max(results, key=lambda system: SIGNS[metric] * results[system])
    behind = SIGNS[metric] * (results[best] - model_result)
    if behind < 0 or (metric in SHARES and model_result == 1):
        return
    if metric in SHARES:
        distance = f"{100 * behind:.1f} points of {SHARES[metric]}"
        variance = sum(share * (1 - share) for share in (model_result, results[best]))
        standard_error = math.sqrt(variance / report.num_rows)
    else:
        distance = f"an {metric} of {behind:.3g}"
        standard_error = 0.0
    if behind == 0 or best in (MOST_FREQUENT, MEAN):
        yield f"this model is no better than the {best}: {way_out}"
    elif behind > standard_error:
        yield (
            f"this model is {distance} behind the {best}: {way_out}; until then, the {best} is "
            "better"
        )
    else:
        yield (
            f"this model is no better than the {best} ({distance} behind, which can be chance): "
            f"{way_out}"
        )


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
