"""The report about the validation rows: its page, and its tables for the terminal."""

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import EvalPrediction, Pipeline, pipeline
from transformers.trainer_utils import PredictionOutput

from ...data.columns import AGAINST_COLUMNS, SPAN_COLUMNS
from ...data.table import TEXT_COLUMNS, present
from ...models import FAMILIES
from ...training.task import Predictions, TrainingSetup
from ...training.trainer import SelfAttentiveTrainer
from ...utils.files import write_text
from ...utils.text import Table, one_line
from ...visualization.attended_text import label_text
from ...visualization.learned_words import LearnedWords, read_learned_words
from ...visualization.page import tables_html
from .calibration import LEAST, MOST, UNCHANGED
from .doubtful import write_doubtful
from .report import (
    Report,
    headline,
    measure_report,
    remarks,
    report_tables,
)

logger = logging.getLogger(__name__)

REPORT_NAME = "report.html"
NUM_EXAMPLES = 10
MAX_LABELS = 20  # rows of scores in the terminal; the page shows all
MAX_EXPLAINED_TOKENS = 200_000  # for what the model learned, in all passes: some seconds
MAX_PAGE_MATRIX = 40  # labels up to which the page shows the whole confusion matrix

# What a temperature at a bound of its search, or left as it was, is called in the report.
NOTES_ON_TEMPERATURE = {
    LEAST: ", at limit of search",  # a model at chance
    MOST: ", at limit of search",
    UNCHANGED: ", left as it was",  # few rows, all right, or no lower error
}


def write_report(
    trainer: SelfAttentiveTrainer,
    setup: TrainingSetup,
    known: Mapping[str, float],
    way_out: str,
    rare_way_out: str,
) -> tuple[dict[str, float], list[Table]]:
    """Evaluate on the validation rows, and write the page of a report about them.

    The training rows with doubtful labels are in it and in a file, as `write_doubtful` says.
    `known`: the metrics measured so far, with those of `calibrate`. `way_out`, `rare_way_out`: see
    `remarks`. The comparison uses the metric that chose the epoch.
    Returns the metrics of `Trainer.evaluate`, and the tables of the report, none in processes but
    the first.
    """
    output = trainer.predict(setup.tokens["validation"], metric_key_prefix="eval")
    logits: Predictions = output.predictions
    metrics = output.metrics or {}
    if not trainer.is_world_process_zero():
        return metrics, []
    report = _measured(trainer, setup, output, known)
    notes = list(remarks(report, way_out, rare_way_out, trainer.compared_metric))
    in_short = headline(report)
    folder = Path(str(trainer.args.output_dir))
    doubtful = None
    if trainer.args.do_train and "train" in setup.tokens:
        doubtful = write_doubtful(folder, setup)
    lines = notes if in_short is None else [in_short, *notes]
    _write_page(folder, setup, report, logits, lines, doubtful)
    if in_short is not None:
        logger.info(one_line(f"report: {in_short}"))
    for note in notes:
        logger.warning(one_line(note))
    return metrics, list(report_tables(report, max_labels=MAX_LABELS))


def _measured(
    trainer: SelfAttentiveTrainer,
    setup: TrainingSetup,
    output: PredictionOutput,
    known: Mapping[str, float],
) -> Report:
    compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = trainer.compute_metrics
    assert compute_metrics is not None  # `LabelTask` gives its trainers one
    logits: Predictions = output.predictions
    return measure_report(
        logits,
        setup.tokens["validation"],
        setup.tokens.get("train"),
        answers=setup.rows.answers,
        vocab_size=len(setup.tokenizer),
        compute_metrics=compute_metrics,
        facts=dict(_facts(trainer, output, known)),
    )


def _facts(
    trainer: SelfAttentiveTrainer, output: PredictionOutput, known: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """Yield further numbers of the report by name, as they are shown."""
    if trainer.family.loss is not None:
        logged = trainer.family.logged_outputs
        loss = trainer.family_loss(output, dict.fromkeys(logged, 0.0))
        yield f"loss without the {' and '.join(logged)}", f"{loss:.3f}"
    if "scale_of_words" in known:
        yield "factor of the hops", f"{known['scale_of_hops']:.3f}"
        yield "factor of the words themselves", f"{known['scale_of_words']:.3f}"
    elif "temperature" in known:
        temperature = known["temperature"]
        note = NOTES_ON_TEMPERATURE.get(temperature, "")
        yield f"temperature{note}", f"{temperature:.3f}"
        before = known["eval_calibration_error_before"]
        yield "calibration error before scaling", f"{before:.1%}"
    if "eval_calibration_error" in known:
        yield "calibration error, same rows", f"{known['eval_calibration_error']:.1%}"
    if "answer_set_size" in known:
        yield "labels in an answer set, mean", f"{known['answer_set_size']:.2f}"


def _write_page(
    folder: Path,
    setup: TrainingSetup,
    report: Report,
    logits: Predictions,
    lines: list[str],
    doubtful: Table | None,
) -> None:
    """Write the page: lines, metrics, what was learned, right and wrong predictions, tables."""
    tables = list(report_tables(report, MAX_PAGE_MATRIX))
    validation = setup.rows.splits["validation"]
    unmarked = _without_marks(validation)
    reader = None
    learned = None
    if getattr(setup.model.config, "has_attention", False):
        reader = _reader(setup)
        learned = _learned(reader, setup, unmarked)
    examples: dict[str, Any] = {}
    groups = zip(setup.rows.answers.verdicts, (report.wrong, report.right), strict=True)
    for verdict, row_numbers in groups:
        heading = f"Predictions that are {verdict}"
        if verdict == "right":
            heading += ", the least sure first"
        shown = row_numbers[:NUM_EXAMPLES]
        rows = unmarked.select(shown).to_list()
        if reader is not None:
            results = _read(reader, setup, rows)
            marked = validation.select(shown).to_list()
            for result, row in zip(results, marked, strict=True):
                result["marks"] = _marks_of(row)
            examples[heading] = results
        else:
            tables.append(_listed(heading, setup, logits[shown], rows))
    if doubtful is not None:
        tables.append(doubtful)
    title = f"{folder.name}: what it learned, right and wrong predictions"
    answers = setup.rows.answers
    page = tables_html(tables, examples, title, learned, lines=lines, answers=answers)
    write_text(folder / REPORT_NAME, page)


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


def _learned(reader: Pipeline, setup: TrainingSetup, rows: Dataset) -> LearnedWords:
    """Return what the model learned, from as many validation rows as take seconds to explain."""
    drawn = rows.remove_columns("label").shuffle(seed=0)
    texts = [_input_of(row) for row in drawn.to_list()]
    return read_learned_words(reader, texts, max_tokens=MAX_EXPLAINED_TOKENS)


def _read(
    reader: Pipeline, setup: TrainingSetup, rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the attention of the model on some validation rows, with their true labels."""
    if not rows:
        return []
    labels = [setup.rows.labels.decode(row.pop("label")) for row in rows]
    texts = [_input_of(row) for row in rows]
    results = reader(texts)
    return [{**result, "true_label": label} for result, label in zip(results, labels, strict=True)]


def _input_of(row: dict[str, Any]) -> dict[str, Any] | str:
    """Return a row without its label as the pipeline reads it: a pair, or a text."""
    if "text_pair" in row:
        return row
    text: str = row["text"]
    return text


def _reader(setup: TrainingSetup) -> Pipeline:
    """Return the pipeline that reads texts with the trained model."""
    model = setup.model.eval()
    task: Any = FAMILIES[model.config.model_type].pipeline_task
    return pipeline(task, model=model, tokenizer=setup.tokenizer, device=model.device)


def _listed(
    heading: str, setup: TrainingSetup, logits: np.ndarray, rows: list[dict[str, Any]]
) -> Table:
    """Return a table of some validation rows, for models that attend to nothing."""
    labels = setup.rows.labels
    all_scores = labels.answers.scores(torch.from_numpy(logits.round(3))).tolist()
    lines = []
    for row, scores in zip(rows, all_scores, strict=True):
        true_label = label_text(labels.decode(row.pop("label")))
        predicted = label_text(labels.answers.predicted(scores))
        lines.append([" / ".join(row.values()), predicted, true_label])
    return Table(heading, ["", "predicted", "true label"], lines)
