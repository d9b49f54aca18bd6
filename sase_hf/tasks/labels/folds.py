"""Cross-validation: every training row is predicted by a model that learned from other rows.

A tenth of a small file says little: if 24 of 30 rows are right, a share from 63 to 90 % is likely.
In K folds, all rows of the file are predicted.

Shapes: N rows, C labels or outputs.
"""

import logging
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ...data.held_out import Fold
from ...evaluation.metrics import DEFAULT_METRICS, load_metrics
from ...models.answers import Answers
from ...training.progress import only_training_bar
from ...training.run import run
from ...training.task import TrainingSetup
from ...training.trainer import SelfAttentiveTrainer
from ...utils.text import Table
from .report import (
    NORMAL_95,
    SHARES,
    THIS_MODEL,
    Report,
    class_scores,
    headline,
    shown_metric,
    simple_outputs,
)

if TYPE_CHECKING:
    from .task import LabelTask

logger = logging.getLogger(__name__)

NUM_RESAMPLES = 1000  # of the bootstrap
# Of a run, what the run of a fold does not do.
LEFT_OUT: dict[str, Any] = {
    "do_eval": False,
    "do_predict": False,
    "folds": None,
    "push_to_hub": False,
    "record": None,
    "report": False,
    "report_to": [],
    "resume_from_checkpoint": None,
}


class FoldOutputs(NamedTuple):
    """The rows of one fold: outputs of its model and of simple ones, (N, C), and the labels."""

    outputs: Mapping[str, np.ndarray]
    labels: np.ndarray
    answers: Answers


class OutOfFold(NamedTuple):
    """What the models of all folds measured, over the rows of all of them.

    metrics: those of `this model`, by name.
    simple: the metrics of the simple models, by model and name.
    intervals: for each metric of `this model` the bounds of `interval`; a bootstrap takes seconds.
    in_short: the sentence that a report begins with, if there is one.
    """

    folds: int
    rows: int
    metrics: dict[str, float]
    simple: dict[str, dict[str, float]]
    intervals: Mapping[str, tuple[float, float]] = MappingProxyType({})
    in_short: str | None = None


def measure_folds(task: "LabelTask", num_folds: int) -> OutOfFold:
    """Train a model for each fold of the rows of a task, and measure their predictions.

    Each is trained as the model of the task, which holds out validation rows of its own part.
    """
    parts = []
    for number in range(num_folds):
        with tempfile.TemporaryDirectory() as scratch, silence(), only_training_bar():
            of_fold = _task_of_fold(task, Fold(number, num_folds), Path(scratch, "fold"))
            _run_naming_fold(of_fold)
        assert of_fold.fold_outputs is not None
        parts.append(of_fold.fold_outputs)
        done = pooled([parts[-1]], num_folds).metrics
        logger.info(f"fold {number + 1} of {num_folds}: {in_words(done)}")
    measured = pooled(parts, num_folds)._replace(intervals=intervals_of(parts))
    logger.info(in_one_line(measured))
    return measured


def measure_if_possible(task: "LabelTask", num_folds: int) -> OutOfFold | None:
    """Measure the folds that nobody has asked for; log why if the rows do not allow it."""
    logger.info(f"folds: {num_folds} trainings on parts of the rows first; --folds none skips them")
    try:
        return measure_folds(task, num_folds)
    except ValueError as reason:
        logger.warning(f"not measured in folds: {reason}")
        return None


def _run_naming_fold(task: "LabelTask") -> None:
    try:
        run(task)
    except ValueError as error:
        assert task.fold is not None
        number, num_folds = task.fold
        raise ValueError(f"fold {number + 1} of {num_folds}: {error}") from error


def _task_of_fold(task: "LabelTask", fold: Fold, folder: Path) -> "LabelTask":
    of_fold = task.changed({**LEFT_OUT, "output_dir": str(folder)})
    # The fold is the test split: all of its rows are predicted.
    data = replace(of_fold.arguments.data, test_file=None, max_predict_samples=None)
    of_fold.arguments = replace(of_fold.arguments, data=data)
    of_fold.fold = fold
    return of_fold


@contextmanager
def silence() -> Iterator[None]:
    """Log nothing below an error: the run of the model itself says the same, once."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def outputs_of_fold(trainer: SelfAttentiveTrainer, setup: TrainingSetup) -> FoldOutputs:
    """Return the outputs for the test split of a trained model, and of simple models."""
    rows = setup.tokens["test"]
    answers = setup.rows.answers
    outputs = simple_outputs(setup.tokens["train"], rows, len(setup.tokenizer), answers)
    predictions: Any = trainer.predict(rows).predictions
    outputs[THIS_MODEL] = np.asarray(predictions).reshape(rows.num_rows, -1)
    return FoldOutputs(outputs, np.array(rows["labels"][:]), answers)


def pooled(parts: Sequence[FoldOutputs], num_folds: int) -> OutOfFold:
    """Measure the rows of some folds together; a simple model counts if every fold has it."""
    answers = parts[0].answers
    systems: dict[str, dict[str, float]] = {}
    for system in parts[0].outputs:
        if all(system in part.outputs for part in parts):
            true, predicted = _true_and_predicted(parts, system)
            systems[system] = {
                metric.name: float(metric.score(true, predicted)) for metric in _metrics(answers)
            }
    true, predicted = _true_and_predicted(parts, THIS_MODEL)
    tables = class_scores(torch.from_numpy(predicted), torch.from_numpy(true), answers)
    report = Report(len(true), {**systems}, *tables, facts={}, wrong=[], right=[])
    in_short = headline(report, in_folds=True)
    own = systems.pop(THIS_MODEL)
    return OutOfFold(num_folds, len(true), own, systems, in_short=in_short)


def intervals_of(parts: Sequence[FoldOutputs]) -> dict[str, tuple[float, float]]:
    """Return the interval of each metric of the model over the rows of all folds, by name."""
    true, predicted = _true_and_predicted(parts, THIS_MODEL)
    metrics = _metrics(parts[0].answers)
    return {metric.name: interval(metric, true, predicted) for metric in metrics}


def _metrics(answers: Answers) -> list[Any]:
    return load_metrics(DEFAULT_METRICS[answers.kind], answers.kind)


def _true_and_predicted(parts: Sequence[FoldOutputs], system: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of all rows, and those that a system predicts in the same form."""
    answers = parts[0].answers
    true = np.concatenate([part.labels for part in parts])
    if answers.has_labels:
        true = true.astype(int)
    logits = np.concatenate([part.outputs[system] for part in parts])
    predicted = answers.chosen(torch.from_numpy(logits)).reshape(true.shape)
    return true, predicted.numpy()


def interval(metric: Any, true: np.ndarray, predicted: np.ndarray) -> tuple[float, float]:
    """Return the bounds of the interval of 95 % of a metric over N rows.

    For accuracy it is that of Wilson (1927), which also holds where all rows are right; for other
    metrics the middle 95 % of `NUM_RESAMPLES` samples of the rows with replacement. Both say how
    far the draw of the rows moves the metric of these models (Bayle et al., NeurIPS 2020), and not
    how far models of other training rows would differ, so that the truth is outside more often
    than in 5 of 100 cases (Bates, Hastie and Tibshirani, JASA 2024).
    """
    num_rows = len(true)
    if metric.name == "accuracy":
        return wilson(float(metric.score(true, predicted)), num_rows)
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(NUM_RESAMPLES):
        rows = rng.integers(num_rows, size=num_rows)
        samples.append(metric.score(true[rows], predicted[rows]))
    low, high = np.nanpercentile(samples, (2.5, 97.5))
    return float(low), float(high)


def wilson(share: float, num_rows: int) -> tuple[float, float]:
    """Return the interval of 95 % of a share of rows."""
    square = NORMAL_95**2 / num_rows
    centre = (share + square / 2) / (1 + square)
    variance = share * (1 - share) / num_rows + square / (4 * num_rows)
    distance = NORMAL_95 * math.sqrt(variance) / (1 + square)
    return max(centre - distance, 0.0), min(centre + distance, 1.0)


def table_of_folds(measured: OutOfFold) -> Table:
    """Return the metrics of all models, and the bounds of the intervals."""
    low = {name: bounds[0] for name, bounds in measured.intervals.items()}
    high = {name: bounds[1] for name, bounds in measured.intervals.items()}
    lines = {
        **measured.simple,
        THIS_MODEL: measured.metrics,
        "95 % interval, from": low,
        "to": high,
    }
    rows = []
    for head, values in lines.items():
        rows.append([head, *(shown_metric(name, value) for name, value in values.items())])
    heads = [SHARES.get(name, name) for name in measured.metrics]
    return Table(f"In folds, on {measured.rows:,} training rows", ["", *heads], rows)


def in_one_line(measured: OutOfFold) -> str:
    """Return the metrics with their intervals."""
    results = []
    for name, (low, high) in measured.intervals.items():
        bounds = f"{shown_metric(name, low)} to {shown_metric(name, high)}"
        results.append(f"{in_words({name: measured.metrics[name]})} ({bounds})")
    return f"in folds, {measured.rows:,} rows, with intervals of 95 %: {', '.join(results)}"


def in_words(metrics: Mapping[str, float]) -> str:
    """Return metrics as a person reads them, in one line."""
    results = []
    for name, value in metrics.items():
        results.append(f"{SHARES.get(name, name)} {shown_metric(name, value)}")
    return ", ".join(results)
