"""The report about the validation rows: its page, and its tables for the terminal."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from torch import Tensor
from transformers import EvalPrediction, Pipeline

from ...data.columns import AGAINST_COLUMNS, SPAN_COLUMNS
from ...data.table import TEXT_COLUMNS, present
from ...training.task import Predictions, TrainingSetup
from ...training.trainer import SelfAttentiveTrainer
from ...utils.files import write_text
from ...utils.loading import attention_pipeline
from ...utils.text import Table, one_line
from ...visualization.learned_words import read_learned_words
from ...visualization.page import (
    Section,
    learned_section,
    page_html,
    table_section,
    texts_section,
)
from .doubtful import write_doubtful
from .report import (
    SHARES,
    Report,
    headline,
    measure_report,
    remarks,
    report_tables,
    shown_metric,
)

logger = logging.getLogger(__name__)

REPORT_NAME = "report.html"
NUM_EXAMPLES = 10
MAX_ROWS = 20  # of a table in the terminal; the page has all tables
NUM_CANDIDATES = 20  # of each kind, of which one is shown first
MAX_EXPLAINED = 300  # rows that say what the model learned, in some seconds


def write_report(
    trainer: SelfAttentiveTrainer,
    setup: TrainingSetup,
    way_out: str,
    rare_way_out: str,
) -> tuple[dict[str, float], list[Table]]:
    """Evaluate on the validation rows, and write the page of a report about them.

    The training rows with doubtful labels are in it and in a file, as `write_doubtful` says.
    `way_out`, `rare_way_out`: see `remarks`. The comparison uses the metric that chose the epoch.
    Returns the metrics of `Trainer.evaluate`, and the tables of the report, none in processes but
    the first.
    """
    output = trainer.predict(setup.tokens["validation"], metric_key_prefix="eval")
    logits: Predictions = output.predictions
    metrics = output.metrics or {}
    parts = _logits_of_parts(trainer, setup, logits)
    if not trainer.is_world_process_zero():
        return metrics, []
    compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = trainer.compute_metrics
    assert compute_metrics is not None  # `LabelTask` gives its trainers one
    report = measure_report(
        logits,
        setup.tokens["validation"],
        setup.tokens.get("train"),
        answers=setup.rows.answers,
        compute_metrics=compute_metrics,
        parts=parts,
    )
    notes = list(remarks(report, way_out, rare_way_out, trainer.compared_metric))
    in_short = headline(report)
    folder = Path(str(trainer.args.output_dir))
    sections = list(_sections(trainer, setup, report, folder))
    lines = notes if in_short is None else [in_short, *notes]
    page = page_html(f"What {folder.name} learned", sections, lines, setup.rows.answers)
    write_text(folder / REPORT_NAME, page)
    if in_short is not None:
        logger.info(one_line(f"report: {in_short}"))
    for note in notes:
        logger.warning(one_line(note))
    return metrics, [table for table in report_tables(report) if len(table.rows) <= MAX_ROWS]


def _logits_of_parts(
    trainer: SelfAttentiveTrainer, setup: TrainingSetup, logits: Predictions
) -> dict[str, np.ndarray]:
    """Return what the hops and the words of a linear part would say alone, of its logits (B, C)."""
    linear_part = getattr(setup.model, "linear_part", None)
    if linear_part is None or not setup.rows.answers.has_labels:
        return {}
    setup.model.register_module("linear_part", None)
    of_hops = trainer.predict(setup.tokens["validation"], metric_key_prefix="eval").predictions
    setup.model.register_module("linear_part", linear_part)
    bias = setup.model.get_submodule("classifier.output").bias
    assert isinstance(bias, Tensor)
    of_words = logits - of_hops + bias.detach().float().cpu().numpy()
    beside = " and mean state" if setup.model.reads_mean_state else ""
    return {"its hops alone": of_hops, f"its words{beside} alone": of_words}


def _sections(
    trainer: SelfAttentiveTrainer, setup: TrainingSetup, report: Report, folder: Path
) -> Iterator[Section]:
    """Yield the page in the order of use: three texts, what to look at, then the rest, folded.

    A model that attends to nothing has no texts.
    """
    validation = setup.rows.splits["validation"]
    groups = {"Three texts, and why": _first_rows(report, validation)}
    for verdict, rows in zip(
        setup.rows.answers.verdicts, (report.wrong, report.right), strict=True
    ):
        if rows:
            groups[f"Predictions that are {verdict}"] = list(rows[:NUM_EXAMPLES])
    texts: list[Section] = []
    reader = None
    if getattr(setup.model.config, "has_attention", False):
        reader = attention_pipeline(setup.model.eval(), setup.tokenizer)
        for heading, rows in groups.items():
            results = _read(reader, setup, validation.select(rows))
            place = len(texts)
            section = texts_section(results, heading, prefix=f"p{place}", corrects=True)
            texts.append(section._replace(is_folded=place > 0))
    yield from texts[:1]
    if trainer.args.do_train and "train" in setup.tokens:
        doubtful = write_doubtful(folder, setup)
        if doubtful is not None:
            yield table_section(doubtful)
    if reader is not None:
        drawn = _without_marks(validation).remove_columns("label").shuffle(seed=0)
        inputs = [_input_of(row) for row in drawn.to_list()[:MAX_EXPLAINED]]
        yield learned_section(read_learned_words(reader, inputs))
    tables = report_tables(report)
    if report.confusion is not None:
        yield table_section(tables.pop(0))
    yield from _curve(trainer)
    yield from texts[1:]
    for table in tables:
        yield table_section(table)._replace(is_folded=True)


def _first_rows(report: Report, validation: Dataset) -> list[int]:
    """Return three rows to begin with: a right one, a wrong one, and a right one that is not sure.

    Of each kind one with a rather short text is taken among the first.
    """
    chosen: list[int] = []
    for rows in (report.right[-NUM_CANDIDATES:], report.wrong, report.right):
        others = [row for row in rows[:NUM_CANDIDATES] if row not in chosen]
        others.sort(key=lambda row: len(str(validation[row])))
        chosen += others[len(others) // 4 :][:1]
    return chosen


def _curve(trainer: SelfAttentiveTrainer) -> Iterator[Section]:
    """Yield the curve of the metric that chose the epoch, if there were several evaluations."""
    metric = trainer.compared_metric
    state = trainer.state
    entries = [entry for entry in state.log_history if f"eval_{metric}" in entry]
    if len(entries) < 2:
        return
    values = [entry[f"eval_{metric}"] for entry in entries]
    points = [
        (entry["epoch"], value, entry["step"] == state.best_global_step)
        for entry, value in zip(entries, values, strict=True)
    ]
    name = SHARES.get(metric, metric)
    ends = f"from {shown_metric(metric, min(values))} to {shown_metric(metric, max(values))}"
    note = f"{name} of the validation rows by epoch, {ends}; the large point was kept."
    yield Section("curve", {"name": name, "points": points, "note": note}, "While it learned")


def _without_marks(rows: Dataset) -> Dataset:
    return rows.remove_columns(present((*SPAN_COLUMNS, *AGAINST_COLUMNS), rows))


def _marks_of(row: dict[str, Any]) -> list[list[list[int]]]:
    """Return the marks of people in a row, as spans of characters of each text.

    First those for the label, of one text or two, then those against.
    """
    num_texts = len([name for name in TEXT_COLUMNS if name in row])
    marks = []
    for columns in (SPAN_COLUMNS, AGAINST_COLUMNS):
        marks.append([row.get(name) or [] for name in columns[:num_texts]])
    return marks


def _read(reader: Pipeline, setup: TrainingSetup, rows: Dataset) -> list[dict[str, Any]]:
    """Return the results of the model for validation rows, with their true labels and marks."""
    unmarked = _without_marks(rows).to_list()
    labels = [setup.rows.labels.decode(row.pop("label")) for row in unmarked]
    results = reader([_input_of(row) for row in unmarked])
    return [
        {**result, "true_label": label, "marks": _marks_of(row)}
        for result, label, row in zip(results, labels, rows.to_list(), strict=True)
    ]


def _input_of(row: dict[str, Any]) -> dict[str, Any] | str:
    """Return a row without its label as the pipeline reads it: a pair, or a text."""
    if "text_pair" in row:
        return row
    text: str = row["text"]
    return text
