"""The report about the validation rows: its page, and its tables for the terminal."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import Pipeline

from ...data.columns import AGAINST_COLUMNS, SPAN_COLUMNS
from ...data.table import TEXT_COLUMNS, present
from ...training.task import TrainingSetup
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
    THIS_MODEL,
    Report,
    measure_report,
    report_lines,
    report_tables,
    shown_metric,
)

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
    parts = _logits_of_parts(trainer, setup, output.predictions)
    metrics: Any = output.metrics
    if not trainer.is_world_process_zero():
        return metrics, []
    compute_metrics: Any = trainer.compute_metrics
    report = measure_report(
        parts, tokens["validation"], tokens.get("train"), setup.rows.answers, compute_metrics
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


def _logits_of_parts(
    trainer: SelfAttentiveTrainer, setup: TrainingSetup, logits: Any
) -> dict[str, np.ndarray]:
    """Return the logits (B, C) of the model, and of its hops and its words alone if it has both."""
    model = setup.model
    linear_part = getattr(model, "linear_part", None)
    if linear_part is None or not setup.rows.answers.has_labels:
        return {THIS_MODEL: logits}
    model.register_module("linear_part", None)
    of_hops = trainer.predict(setup.tokens["validation"], metric_key_prefix="eval").predictions
    model.register_module("linear_part", linear_part)
    bias = model.get_parameter("classifier.output.bias").detach().float().cpu().numpy()
    of_words = logits - of_hops + bias
    beside = " and mean state" if setup.model.reads_mean_state else ""
    return {
        "its hops alone": of_hops,
        f"its words{beside} alone": of_words,
        THIS_MODEL: logits,
    }


def _sections(
    trainer: SelfAttentiveTrainer, setup: TrainingSetup, report: Report, tables: Sequence[Table]
) -> list[Section]:
    """Return the page in the order of use: three texts, what to look at, then the rest, folded.

    A model that attends to nothing has no texts.
    """
    validation = setup.rows.splits["validation"]
    texts: list[Section] = []
    learned: list[Section] = []
    if setup.model.config.has_attention:
        has_labels = setup.rows.answers.has_labels
        bad, good = ("wrong", "right") if has_labels else ("far off", "close")
        # A right one, a wrong one, and a right one that is not sure.
        of_each_kind = [*report.right[-1:], *report.wrong[:1], *report.right[:1]]
        groups = {
            "Three texts, and why": dict.fromkeys(of_each_kind),
            f"Predictions that are {bad}": report.wrong[:NUM_EXAMPLES],
            f"Predictions that are {good}": report.right[:NUM_EXAMPLES],
        }
        reader = attention_pipeline(setup.model.eval(), setup.tokenizer)
        for heading, rows in groups.items():
            if rows:
                results = _read(reader, setup, validation.select(rows))
                texts.append(
                    texts_section(results, heading, prefix=f"p{len(texts)}", corrects=True)
                )
        inputs = _inputs_of(validation.shuffle(seed=0))
        learned = [learned_section(read_learned_words(reader, inputs[:MAX_EXPLAINED]))]
    doubtful: list[Table] = []
    if trainer.args.do_train:
        doubtful = write_doubtful(Path(str(trainer.args.output_dir)), setup)
    measured = list(map(table_section, tables))
    num_open = 0 if report.confusion is None else 1
    first = [*texts[:1], *map(table_section, doubtful), *learned, *measured[:num_open]]
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
    note = f"{name} of the validation rows by epoch, from {ends}; the large point was kept."
    yield Section("curve", {"name": name, "points": points, "note": note}, "While it learned")


def _read(reader: Pipeline, setup: TrainingSetup, rows: Dataset) -> list[dict[str, Any]]:
    """Return the results of the model for validation rows, with their true labels and marks.

    The marks of people are spans of characters of each text: first those for the label, of one text
    or two, then those against.
    """
    num_texts = len(setup.rows.text_columns)
    results = []
    for row, result in zip(rows, reader(_inputs_of(rows)), strict=True):
        marks = [
            [row.get(name) or [] for name in columns[:num_texts]]
            for columns in (SPAN_COLUMNS, AGAINST_COLUMNS)
        ]
        label = setup.rows.labels.decode(row["label"])
        results.append({**result, "true_label": label, "marks": marks})
    return results


def _inputs_of(rows: Dataset) -> list[dict[str, str]]:
    """Return rows as the pipeline reads them."""
    inputs: list[dict[str, str]] = rows.select_columns(present(TEXT_COLUMNS, rows)).to_list()
    return inputs
