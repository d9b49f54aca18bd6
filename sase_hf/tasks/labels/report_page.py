"""The report about the validation rows: its page, and its tables for the terminal."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
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
from ...visualization.page import (
    Section,
    learned_section,
    page_html,
    table_section,
    texts_section,
)
from .calibration import LEAST, MOST, UNCHANGED
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
MAX_LABELS = 20  # rows of scores in the terminal; the page shows all
MAX_OPEN_CHARACTERS = 300  # of a text that the page shows first, if there are such
MAX_EXPLAINED_CHARACTERS = 500_000  # for what the model learned, in all passes: some seconds
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
        vocab_size=len(setup.tokenizer),
        compute_metrics=compute_metrics,
        facts=dict(_facts(trainer, output, known)),
        parts=parts,
    )
    notes = list(remarks(report, way_out, rare_way_out, trainer.compared_metric))
    in_short = headline(report)
    folder = Path(str(trainer.args.output_dir))
    sections = list(_sections(trainer, setup, report, logits, folder))
    lines = notes if in_short is None else [in_short, *notes]
    page = page_html(f"What {folder.name} learned", sections, lines, setup.rows.answers)
    write_text(folder / REPORT_NAME, page)
    if in_short is not None:
        logger.info(one_line(f"report: {in_short}"))
    for note in notes:
        logger.warning(one_line(note))
    return metrics, report_tables(report, max_labels=MAX_LABELS)


def _logits_of_parts(
    trainer: SelfAttentiveTrainer, setup: TrainingSetup, logits: Predictions
) -> dict[str, np.ndarray]:
    """Return what the hops and the words of a linear part would say alone, of its logits (B, C)."""
    linear_part = getattr(setup.model, "linear_part", None)
    if linear_part is None or not setup.rows.answers.has_labels:
        return {}
    setup.model.linear_part = None
    of_hops = trainer.predict(setup.tokens["validation"], metric_key_prefix="eval").predictions
    setup.model.linear_part = linear_part
    bias = setup.model.get_submodule("classifier.output").bias
    assert isinstance(bias, Tensor)
    of_words = logits - of_hops + bias.detach().float().cpu().numpy()
    return {"its hops alone": of_hops, "its words alone": of_words}


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


def _sections(
    trainer: SelfAttentiveTrainer,
    setup: TrainingSetup,
    report: Report,
    logits: Predictions,
    folder: Path,
) -> Iterator[Section]:
    """Yield the page in the order of use: three texts, what to look at, then the rest, folded."""
    validation = setup.rows.splits["validation"]
    has_attention = getattr(setup.model.config, "has_attention", False)
    reader = _reader(setup) if has_attention else None
    first = _first_rows(report, validation) if reader else []

    def texts(heading: str, rows: Sequence[int], *, is_folded: bool = True) -> Section:
        if reader is None:
            return table_section(_listed(heading, setup, logits, rows), is_folded=is_folded)
        results = _read(reader, setup, validation.select(rows))
        prefix = f"p{rows[0]}"
        return texts_section(results, heading, prefix=prefix, is_folded=is_folded, corrects=True)

    if first:
        yield texts("Three texts, and why", first, is_folded=False)
    if trainer.args.do_train and "train" in setup.tokens:
        doubtful = write_doubtful(folder, setup)
        if doubtful is not None:
            yield table_section(doubtful)
    if reader is not None:
        yield learned_section(_learned(reader, validation))
    confusions_first = report_tables(report, MAX_PAGE_MATRIX)
    if report.confusion is not None and report.confusion.any():
        yield table_section(confusions_first.pop(0))
    yield from _curve(trainer)
    for verdict, rows in zip(
        setup.rows.answers.verdicts, (report.wrong, report.right), strict=True
    ):
        more = [row for row in rows if row not in first][:NUM_EXAMPLES]
        if more:
            yield texts(f"Predictions that are {verdict}", more)
    for table in confusions_first:
        yield table_section(table, is_folded=True)


def _first_rows(report: Report, validation: Dataset) -> list[int]:
    """Return three rows to begin with: a right one, the surest wrong one, a doubtful right one.

    They have short texts, if there are any.
    """
    texts = ["".join(row[name] for name in TEXT_COLUMNS if name in row) for row in validation]
    chosen: list[int] = []
    for rows in (report.right[::-1], report.wrong, report.right):
        others = [row for row in rows if row not in chosen]
        short = [row for row in others if len(texts[row]) <= MAX_OPEN_CHARACTERS]
        chosen += (short or others)[:1]
    return chosen


def _curve(trainer: SelfAttentiveTrainer) -> Iterator[Section]:
    """Yield the curve of the metric that chose the epoch, if there were several evaluations."""
    metric = trainer.compared_metric
    entries = [entry for entry in trainer.state.log_history if f"eval_{metric}" in entry]
    if len(entries) < 2:
        return
    values = [entry[f"eval_{metric}"] for entry in entries]
    low, high = min(values), max(values)
    points = [
        (entry["epoch"] / entries[-1]["epoch"], (value - low) / ((high - low) or 1.0))
        for entry, value in zip(entries, values, strict=True)
    ]
    steps = [entry["step"] for entry in entries]
    name = SHARES.get(metric, metric)
    ends = f"from {shown_metric(metric, low)} to {shown_metric(metric, high)}"
    note = f"{name} of the validation rows in {len(entries)} evaluations, {ends}"
    best = trainer.state.best_global_step
    if best in steps:
        note += f"; the large point, epoch {entries[steps.index(best)]['epoch']:.3g}, was kept"
    curve = {
        "name": name,
        "points": points,
        "note": f"{note}.",
        "kept": steps.index(best) if best in steps else None,
    }
    yield Section("curve", curve, "While it learned")


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


def _learned(reader: Pipeline, validation: Dataset) -> LearnedWords:
    """Return what the model learned, from as many validation rows as take seconds to explain."""
    drawn = _without_marks(validation).remove_columns("label").shuffle(seed=0)
    texts = [_input_of(row) for row in drawn.to_list()]
    return read_learned_words(reader, texts, max_characters=MAX_EXPLAINED_CHARACTERS)


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


def _reader(setup: TrainingSetup) -> Pipeline:
    """Return the pipeline that reads texts with the trained model."""
    model = setup.model.eval()
    task: Any = FAMILIES[model.config.model_type].pipeline_task
    return pipeline(task, model=model, tokenizer=setup.tokenizer, device=model.device)


def _listed(
    heading: str, setup: TrainingSetup, logits: np.ndarray, numbers: Sequence[int]
) -> Table:
    """Return a table of some validation rows, for models that attend to nothing."""
    labels = setup.rows.labels
    rows = _without_marks(setup.rows.splits["validation"].select(numbers)).to_list()
    scores = labels.answers.scores(torch.from_numpy(logits[numbers].round(3))).tolist()
    lines = []
    for row, of_row in zip(rows, scores, strict=True):
        true_label = label_text(labels.decode(row.pop("label")))
        predicted = label_text(labels.answers.predicted(of_row))
        lines.append([" / ".join(row.values()), predicted, true_label])
    return Table(heading, ["", "predicted", "true label"], lines)
