"""The end of a run: probabilities that fit the validation rows, and a report about these."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import pipeline

from ..data.splits import SPAN_COLUMNS
from ..data.tokenizer import truncation
from ..evaluation.calibration import expected_calibration_error, fit_temperature, fit_threshold
from ..evaluation.report import FEW_ROWS, measure_report, remarks, report_tables
from ..models import FAMILIES
from ..utils.files import write_text
from ..utils.text import Table, one_line
from ..visualization.attended_text import label_text
from ..visualization.page import tables_html
from .task import TrainingSetup
from .trainer import SelfAttentiveTrainer

logger = logging.getLogger(__name__)

REPORT_NAME = "report.html"
NUM_EXAMPLES = 10
MAX_LABELS = 20  # rows of scores in the terminal; the page shows all
LEAST, MOST = 0.25, 10.0  # of the temperature
MAX_PAGE_MATRIX = 40  # labels up to which the page shows the whole confusion matrix


def calibrate(trainer: SelfAttentiveTrainer, setup: TrainingSetup) -> dict[str, float]:
    """Fit the probabilities, and the threshold of answer sets, to the validation rows.

    The logits are divided by the temperature that makes the labels most likely (Guo et al., 2017).
    The last layer is divided, so that the saved model, its export and its pipelines need no more.
    No prediction changes. Only for one label per row. The temperature stays 1 where that error is
    not lower by another, and where rows are few. Returns `temperature`, and the calibration error
    without it and with it; `answer_threshold` and, if there is one, the mean number of labels in an
    answer set.
    """
    if not setup.rows.answers.has_one_label:
        return {}
    rows = setup.tokens["validation"]
    logits = torch.from_numpy(trainer.predict(rows, metric_key_prefix="eval").predictions).float()
    labels = torch.tensor(rows["labels"][:])
    # A few rows that are all right would ask for boundless confidence, random rows for none.
    temperature = min(max(fit_temperature(logits, labels), LEAST), MOST)
    before, after = (
        expected_calibration_error((logits / t).softmax(-1), labels) for t in (1.0, temperature)
    )
    is_right = bool((logits.argmax(-1) == labels).all())
    if after >= before or is_right or len(labels) < FEW_ROWS:
        temperature, after = 1.0, before
    with torch.no_grad():
        for parameter in setup.model.classifier.output.parameters():
            parameter /= temperature
    found = {
        "temperature": temperature,
        "eval_calibration_error_before": before,
        "eval_calibration_error": after,
    }
    probabilities, config = (logits / temperature).softmax(-1), setup.model.config
    config.answer_threshold = threshold = fit_threshold(probabilities, labels, config.answer_error)
    if threshold is None:
        few = f"{len(labels):,} validation rows are too few for --answer_error"
        logger.warning(f"no answer sets: {few} {config.answer_error:g}")
        return found
    sizes = (probabilities >= threshold).sum(-1).clamp(min=1)  # the best label is in every set
    return {**found, "answer_threshold": threshold, "answer_set_size": sizes.double().mean().item()}


def write_report(
    trainer: SelfAttentiveTrainer,
    setup: TrainingSetup,
    known: Mapping[str, float],
    way_out: str,
    rare_way_out: str,
) -> tuple[dict[str, float], list[Table]]:
    """Evaluate on the validation rows, and write the page of a report about them.

    `known` are the metrics so far, with those of `calibrate`; the ways out are those of `remarks`,
    which compares by the metric that chooses the best model.
    Returns the metrics of `Trainer.evaluate`, and the tables of the report, none in processes but
    the first.
    """
    task, rows = setup.rows, setup.tokens["validation"]
    output: Any = trainer.predict(rows, metric_key_prefix="eval")
    if not trainer.is_world_process_zero():
        return output.metrics, []
    measure: Any = trainer.compute_metrics
    report = measure_report(
        output.predictions,
        rows,
        setup.tokens.get("train"),
        answers=task.answers,
        vocab_size=len(setup.tokenizer),
        compute_metrics=measure,
        facts=dict(_facts(trainer, output, known)),
    )
    examples: dict[str, Any] = {}
    validation = task.splits["validation"]
    unmarked = validation.remove_columns({*SPAN_COLUMNS} & {*validation.column_names})
    chosen_by = (trainer.args.metric_for_best_model or "").removeprefix("eval_")
    notes = list(remarks(report, way_out, rare_way_out, chosen_by))
    tables = [Table("before you read on", [""], [[note] for note in notes])] if notes else []
    tables += report_tables(report, MAX_PAGE_MATRIX)
    parts = (report.wrong, report.right)
    for verdict, numbers in zip(task.answers.verdicts, parts, strict=True):
        heading = f"Predictions that are {verdict}"
        some = numbers[:NUM_EXAMPLES]
        chosen = unmarked.select(some).to_list()
        if getattr(setup.model.config, "has_attention", False):
            examples[heading] = _read(setup, chosen)
        else:
            tables.append(_listed(heading, setup, output.predictions[some], chosen))
    folder = Path(str(trainer.args.output_dir))
    page = tables_html(tables, examples, f"{folder.name}: right and wrong predictions")
    write_text(folder / REPORT_NAME, page)
    for note in notes:
        logger.warning(one_line(note))
    return output.metrics, list(report_tables(report, max_labels=MAX_LABELS))


def _facts(
    trainer: SelfAttentiveTrainer, output: Any, known: Mapping[str, float]
) -> Iterator[tuple[str, float]]:
    """Yield further numbers of the report, by name."""
    if trainer.family.loss is not None:
        loss = trainer.family_loss(output, dict.fromkeys(trainer.family.logged_outputs, 0.0))
        yield f"loss without the {' and '.join(trainer.family.logged_outputs)}", loss
    if "temperature" in known:
        notes = dict.fromkeys((LEAST, MOST), ", at limit of search")  # a model at chance
        notes[1.0] = ", left as it was"  # few rows, all right, or no lower error
        yield f"temperature{notes.get(known['temperature'], '')}", known["temperature"]
        yield "calibration error before scaling", known["eval_calibration_error_before"]
        yield "calibration error after, same rows", known["eval_calibration_error"]
    if "answer_set_size" in known:
        yield "labels in an answer set, mean", known["answer_set_size"]


def _read(setup: TrainingSetup, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the attention of the model on some validation rows, with their true labels."""
    labels = [setup.rows.labels.decode(row.pop("label")) for row in rows]
    model: Any = setup.model.eval()
    task: Any = FAMILIES[model.config.model_type].pipeline_task
    read = pipeline(task, model=model, tokenizer=setup.tokenizer, device=model.device)
    texts = [row if "text_pair" in row else row["text"] for row in rows]
    results = read(texts, **truncation(setup.tokenizer, None)) if rows else []
    return [{**result, "true_label": label} for result, label in zip(results, labels, strict=True)]


def _listed(heading: str, setup: TrainingSetup, logits: Any, examples: list[Any]) -> Table:
    """Return a table of some validation rows, for models that attend to nothing."""
    labels, rows = setup.rows.labels, []
    scores = labels.answers.scores(torch.from_numpy(logits.round(3))).tolist()
    for row, row_scores in zip(examples, scores, strict=True):
        predicted = labels.answers.predicted(row_scores)
        known = labels.decode(row.pop("label"))
        rows.append([" / ".join(row.values()), label_text(predicted), label_text(known)])
    return Table(heading, ["", "predicted", "true label"], rows)
