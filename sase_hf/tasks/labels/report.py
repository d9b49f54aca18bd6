"""The report of a trained model: its numbers, its page, and the rows with doubtful labels.

Shapes: B rows, C labels or outputs.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from scipy.stats import binomtest
from torch import Tensor
from transformers import EvalPrediction, Pipeline

from ...data.columns import AGAINST_COLUMNS, SPAN_COLUMNS
from ...data.marks import ORIGINAL
from ...data.table import PLACE, texts_of
from ...evaluation.baselines import doubtful_rows, labels_of, linear_model
from ...evaluation.linear_part import logits_of_hops
from ...evaluation.metrics import chosen
from ...hub.card import SHARES, shown_metric
from ...models.answers import LEAST_PROBABILITY, Answers, Scores
from ...training.task import TrainingSetup
from ...training.trainer import SelfAttentiveTrainer
from ...utils.files import write_text
from ...utils.loading import attention_pipeline
from ...utils.text import Table, one_line, shortened
from ...visualization.attended_text import read_with_rivals
from ...visualization.learned_words import read_learned_words
from ...visualization.page import Section, learned_section, page_html, table_section, texts_section

MAX_MATRIX = 12  # labels of a confusion matrix that a reader takes in
THIS_MODEL = "this model"
LINEAR_MODEL = "linear model"


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
    parts: Mapping[str, Any],
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
    errors = _errors(model_outputs, labels, answers)
    order = errors.argsort(descending=True, stable=True).tolist()
    num_wrong = int((errors > 0).sum())
    right = order[num_wrong:]
    scores = answers.scores(model_outputs.float()).tolist()
    right.sort(key=lambda row: _sureness(scores[row], answers))
    counts = np.zeros((0, 3), dtype=int)
    confusion = None
    if answers.has_labels:
        has_label = _applies(labels, answers)
        is_predicted = _applies(chosen(model_outputs, answers), answers)
        both = has_label & is_predicted
        counts = np.stack([has_label.sum(0), is_predicted.sum(0), both.sum(0)], axis=1)
        if answers.has_one_label:
            confusion = has_label.T @ is_predicted
    return Report(
        rows.num_rows, answers.names, systems, counts, confusion, order[:num_wrong], right
    )


def _applies(labels: Tensor, answers: Answers) -> np.ndarray:
    """Return whether each label applies, (B, C), of labels in the form of `labels_of`."""
    if answers.has_one_label:
        labels = torch.nn.functional.one_hot(labels, len(answers.names))
    return labels.int().numpy()


def _errors(logits: Tensor, labels: Tensor, answers: Answers) -> Tensor:
    """Return how wrong each row is, (B,), given its labels; 0 if it is right.

    That is how sure the model is of a wrong label, how many of several labels are wrong, or how far
    off numbers are. Numbers that are no further off than the median row are right.
    """
    if answers.has_one_label:
        confidence, predicted = answers.scores(logits).max(-1)
        return confidence.where(predicted != labels, 0.0)
    if answers.has_labels:
        is_wrong = (logits > 0) != (labels > 0)
        return is_wrong.sum(-1).float()
    distances = (logits - labels).abs().sum(-1)
    return distances.where(distances > distances.median(), 0.0)


def _sureness(scores: Scores, answers: Answers) -> float:
    """Return how sure the model is of a text with C scores.

    That is the lead of the best label over the second; of several labels, how far the nearest is
    from applying, or from not applying. Numbers say nothing.
    """
    if answers.has_one_label:
        second, best = [0.0, *sorted(scores)][-2:]
        return best - second
    if answers.has_labels:
        return min(abs(score - LEAST_PROBABILITY) for score in scores)
    return 0.0


def report_lines(report: Report) -> Iterator[str]:
    """Yield what a reader should know first: a sentence, and labels that the model does not know.

    The shares of the right rows are those of Wilson's interval of 95 %. Without an accuracy, the
    sentence has the first metric.
    """
    own = report.systems[THIS_MODEL]
    linear = report.systems.get(LINEAR_MODEL, own)
    metric = next(iter(own))
    sentence = f"{metric} {shown_metric(metric, own[metric])} on {report.num_rows:,} held-out texts"
    of_linear = f"has {shown_metric(metric, linear[metric])}"
    if "accuracy" in own:
        num_right = len(report.right)
        interval = binomtest(num_right, report.num_rows).proportion_ci(method="wilson")
        shares = f"95% interval: {interval.low:.0%} to {interval.high:.0%}"
        sentence = f"right for {num_right:,} of {report.num_rows:,} held-out texts ({shares})"
        of_linear = f"is right for {round(linear['accuracy'] * report.num_rows):,}"
    yield sentence if linear is own else f"{sentence}; a linear model {of_linear}"
    num_rows, num_predicted, _ = report.counts.T
    faults = {
        "labels of no held-out text": num_rows == 0,
        "labels never predicted": (num_rows > 0) & (num_predicted == 0),
    }
    for fault, has_it in faults.items():
        names = [report.names[label] for label in np.flatnonzero(has_it)[:10]]
        if names:
            yield f"{fault}: {', '.join(names)}; add rows that have them"


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
    return Table("Confusion matrix (rows: true)", heads, rows, shares[shown][:, shown].tolist())


# ---- the page of the report, and its tables for the terminal -------------------------------------


logger = logging.getLogger(__name__)

REPORT_NAME = "report.html"
NUM_EXAMPLES = 10
MAX_ROWS = 20  # of a table in the terminal; the page has all tables
MAX_EXPLAINED = 300  # rows that say what the model learned, in some seconds


def write_report(
    trainer: SelfAttentiveTrainer, setup: TrainingSetup
) -> tuple[dict[str, float], list[Table]]:
    """Evaluate on the validation rows, and write the page of a report about them.

    The training rows with doubtful labels are in it and in a file, as `write_doubtful` says.
    Returns the metrics of `Trainer.evaluate`, and the tables of the report, none in processes but
    the first.
    """
    tokens = setup.tokens
    output = trainer.predict(tokens["validation"], metric_key_prefix="eval")
    metrics: Any = output.metrics
    if not trainer.is_world_process_zero():
        return metrics, []
    parts = {THIS_MODEL: output.predictions}
    if setup.model.linear_part is not None and setup.rows.answers.has_labels:
        parts = {"its hops alone": logits_of_hops(setup.model, tokens["validation"]), **parts}
    compute_metrics: Any = trainer.compute_metrics
    report = measure_report(
        parts,
        tokens["validation"],
        None if setup.model.config.class_weights else tokens.get("train"),  # for a fair rival
        setup.rows.answers,
        compute_metrics,
    )
    lines = list(report_lines(report))
    folder = Path(str(trainer.args.output_dir))
    tables = report_tables(report)
    sections = _sections(trainer, setup, report, tables)
    page = page_html(f"What {folder.name} learned", sections, lines, setup.rows.answers)
    write_text(folder / REPORT_NAME, page)
    for line in lines:
        logger.info(one_line(f"report: {line}"))
    return metrics, [table for table in tables if len(table.rows) <= MAX_ROWS]


def _sections(
    trainer: SelfAttentiveTrainer, setup: TrainingSetup, report: Report, tables: Sequence[Table]
) -> list[Section]:
    """Return the page in the order of use: some texts, what to look at, then the rest, folded."""
    validation = setup.rows.splits["validation"]
    texts: list[Section] = []
    has_labels = setup.rows.answers.has_labels
    bad, good = ("wrong", "right") if has_labels else ("far off", "close")
    # A right one, a wrong one, and a right one that is not sure.
    of_each_kind = [*report.right[-1:], *report.wrong[:1], *report.right[:1]]
    groups = {
        "Some texts, and why": dict.fromkeys(of_each_kind),
        f"Predictions that are {bad}": report.wrong[:NUM_EXAMPLES],
        f"Predictions that are {good}": report.right[:NUM_EXAMPLES],
    }
    reader = attention_pipeline(setup.model.eval(), setup.tokenizer)
    for heading, rows in groups.items():
        if rows:
            results = _read(reader, setup, validation.select(rows))
            texts.append(texts_section(results, heading, prefix=f"p{len(texts)}", corrects=True))
    inputs = texts_of(validation.shuffle(seed=0))
    learned = learned_section(read_learned_words(reader, inputs[:MAX_EXPLAINED]))
    doubtful: list[Table] = []
    if trainer.args.do_train:
        doubtful = write_doubtful(Path(str(trainer.args.output_dir)), setup)
    measured = list(map(table_section, tables))
    num_open = 0 if report.confusion is None else 1
    first = [*texts[:1], *map(table_section, doubtful), learned, *measured[:num_open]]
    rest = [*texts[1:], *measured[num_open:]]
    return [*first, *_curve(trainer), *(section._replace(is_folded=True) for section in rest)]


def _curve(trainer: SelfAttentiveTrainer) -> Iterator[Section]:
    """Yield the curve of the metric that chose the epoch, if there were several evaluations."""
    metric = trainer.score_metric
    points = [
        (entry["epoch"], entry[f"eval_{metric}"], entry["step"] == trainer.state.best_global_step)
        for entry in trainer.state.log_history
        if f"eval_{metric}" in entry
    ]
    if len(points) < 2:
        return
    name = SHARES.get(metric, metric)
    values = [value for _, value, _ in points]
    ends = " to ".join(shown_metric(metric, value) for value in (min(values), max(values)))
    note = (
        f"{name} of the validation rows by epoch, before any linear part is fitted, from {ends}; "
        "the large point was kept."
    )
    yield Section("curve", {"name": name, "points": points, "note": note}, "While it learned")


def _read(reader: Pipeline, setup: TrainingSetup, rows: Dataset) -> list[dict[str, Any]]:
    """Return the results of the model for validation rows, with their true labels and marks.

    The marks of people are spans of characters of each text: first those for the label, of one text
    or two, then those against.
    """
    num_texts = len(setup.rows.text_columns)
    results = []
    for row, result in zip(rows, read_with_rivals(reader, texts_of(rows)), strict=True):
        marks = [
            [row.get(name) or [] for name in columns[:num_texts]]
            for columns in (SPAN_COLUMNS, AGAINST_COLUMNS)
        ]
        label = setup.rows.labels.decode(row["label"])
        results.append({**result, "true_label": label, "marks": marks})
    return results


# ---- the training rows with doubtful labels ------------------------------------------------------


DOUBTFUL_NAME = "doubtful.csv"
NUM_SHOWN = 10  # on the page
MAX_CHARACTERS = 1000  # of a text in the file
MAX_SHOWN = 160  # on the page


def write_doubtful(folder: Path, setup: TrainingSetup) -> list[Table]:
    """Write the training rows with doubtful labels to `doubtful.csv`, the most doubtful first.

    Which and how many these are, `evaluation.baselines` says. The columns: `row`, the number
    in the training file, from 0, empty in a row that is a correction; the `text`, cut after
    `MAX_CHARACTERS`; `label`; `suggested_label`; its `probability` and the `label_probability`.

    Returns a table of the first rows for the page; none, and no file, if no label is doubtful, or
    if rows have pairs of texts, several labels or numbers, which are not looked at.
    """
    path = folder / DOUBTFUL_NAME
    path.unlink(missing_ok=True)  # of this run, before it was continued
    rows, tokens = setup.rows, setup.tokens
    if not rows.answers.has_one_label or len(rows.text_columns) > 1:
        return []
    train = rows.splits["train"]
    of_hops = partial(logits_of_hops, setup.model)
    doubts = doubtful_rows(train, tokens["train"], tokens["validation"], rows.answers, of_hops)
    if doubts.empty:
        return []
    logger.info(one_line(f"doubtful labels: {len(doubts):,} training rows in {path}"))
    asked, names = train.select(doubts["row"]), np.array(rows.label_names)
    texts = asked[ORIGINAL if ORIGINAL in asked.column_names else "text"]
    cells = pd.DataFrame({PLACE: asked[PLACE][:]}, dtype=object)
    cells["text"] = [shortened(text, MAX_CHARACTERS) for text in texts]
    cells["label"] = names[doubts["label"]]
    cells["suggested_label"] = names[doubts["suggested"]]
    for column in ("probability", "label_probability"):
        cells[column] = [f"{share:.4f}" for share in doubts[column]]
    write_text(path, cells.to_csv(index=False))
    first = cells[:NUM_SHOWN].fillna("").map(lambda cell: one_line(shortened(str(cell), MAX_SHOWN)))
    title = f"Doubtful labels of training rows: the first {len(first)} of {len(cells):,}"
    return [Table(f"{title} in {DOUBTFUL_NAME}", [*cells.columns], first.to_numpy().tolist())]
