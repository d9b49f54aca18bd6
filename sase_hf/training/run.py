"""A whole run, as the scripts start it: train, evaluate, predict, and save what came out."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import EarlyStoppingCallback, enable_full_determinism, set_seed
from transformers.trainer import TRAINER_STATE_NAME

from ..data.arguments import SourceArguments
from ..data.batching import share_of_token, token_counts
from ..evaluation.metrics import load_metrics, metrics_function
from ..evaluation.records import evaluation_history, measured_record, results_of, write_record
from ..hub import create_repository, push, write_model_card
from ..utils.files import is_write_error
from ..utils.process import keep_freed_memory, limit_compiled_code
from ..utils.signals import first_termination
from ..utils.tables import Table
from ..utils.text import one_line
from .arguments import ModelArguments, ModelSource, RunArguments, changed_arguments
from .checkpoints import (
    check_same_rows,
    check_unused,
    checkpoint_to_resume,
    list_checkpoints,
    locked,
    why_incomplete,
)
from .estimate import estimate_seconds
from .predictions import predicted_labels, write_predictions
from .report import calibrate, write_report
from .setup import (
    TrainingSetup,
    assemble,
    check_arguments,
    check_best_metric,
    check_splits,
    complete_arguments,
)
from .trainer import SelfAttentiveTrainer

logger = logging.getLogger(__name__)

MANY_UNKNOWN = 0.2  # of the tokens of a split


@dataclass(frozen=True)
class Steps:
    """What differs between a run that learns labels and one that learns to translate.

    Attributes:
        assemble: Called with arguments of model and data and a checkpoint to resume.
        log_summary: Called with the setup and all arguments, before training.
        make_trainer: Called with the setup and the arguments of the run.
        columns: Called with the trainer, the setup and what the trainer predicted; returns for each
            test row the columns that its file of predictions has besides.
        details: Called with the trainer and the setup; returns what a record says besides.
    """

    assemble: Callable[[Any, Any, Path | None], TrainingSetup]
    log_summary: Callable[[TrainingSetup, Any, Any, Any], None]
    make_trainer: Callable[[TrainingSetup, Any], SelfAttentiveTrainer]
    columns: Callable[[Any, TrainingSetup, Any], list[dict[str, Any]]]
    details: Callable[[Any, TrainingSetup], dict[str, Any]] = lambda *_: {}


def run(
    model_args: ModelArguments, data_args: SourceArguments, training_args: RunArguments
) -> dict[str, Any]:
    """Train, evaluate and predict labels; see `run_steps`."""
    return run_steps(LABEL_STEPS, model_args, data_args, training_args)


def run_steps(
    steps: Steps, model_args: ModelSource, data_args: SourceArguments, training_args: RunArguments
) -> dict[str, Any]:
    """Do what the arguments ask: train, evaluate, predict.

    A trained model is in `output_dir` afterwards with its tokenizer, its code and a README.md, and
    loads by `from_pretrained`; predictions are there as `write_predictions` writes them.

    Returns:
        `metrics` (all, named as in the logs), `record` (as `measured_record`, of the test split if
        it was measured, after training with its `history`: every evaluation), `output_dir`,
        `predictions` (their file, or None), `report` (its tables, none without `--report`),
        `reads_pairs` (whether the model compares two texts), `text_columns` (their names).

    Raises:
        ValueError: If arguments contradict one another, the data or a checkpoint.
        OSError: If a run to resume has no complete checkpoint, or a file cannot be written.
        FloatingPointError: If loss, gradient or weights cease to be finite.
    """
    start = time.perf_counter()
    output_dir = str(training_args.output_dir)
    check_arguments(model_args, training_args)
    if not training_args.do_train:
        return _run_from(None, start, steps, model_args, data_args, training_args)
    with locked(output_dir, training_args.process_index):
        checkpoint = checkpoint_to_resume(training_args.resume_from_checkpoint, output_dir)
        if checkpoint is None:
            check_unused(output_dir)
        with saying_how_to_go_on(output_dir):
            return _run_from(checkpoint, start, steps, model_args, data_args, training_args)


def _run_from(
    checkpoint: Path | None,
    start: float,
    steps: Steps,
    model_args: ModelSource,
    data_args: SourceArguments,
    training_args: RunArguments,
) -> dict[str, Any]:
    """Do the steps of a run that began at `start`, from a checkpoint if there is one to resume."""
    output_dir = str(training_args.output_dir)
    move_label_smoothing(model_args, training_args)
    given = changed_arguments(model_args, data_args, training_args)
    must_push, training_args.push_to_hub = training_args.push_to_hub, False
    repo_id = training_args.hub_model_id
    if must_push and training_args.process_index == 0:  # now, and not after hours of training
        repo_id = create_repository(
            repo_id or Path(output_dir).resolve().name,
            private=bool(training_args.hub_private_repo),
            token=training_args.hub_token,
        )

    keep_freed_memory()
    limit_compiled_code()
    (enable_full_determinism if training_args.full_determinism else set_seed)(training_args.seed)
    setup = steps.assemble(model_args, data_args, checkpoint)
    check_splits(setup.task, training_args)
    given |= complete_arguments(training_args, setup)
    if training_args.do_train:
        check_same_rows(output_dir, setup.task.sources["train"], training_args.process_index)
    steps.log_summary(setup, model_args, data_args, training_args)
    trainer = steps.make_trainer(setup, training_args)

    metrics: dict[str, float] = {}
    history: dict[str, Any] = {}
    report: list[Table] = []
    predictions = None
    if training_args.do_train:
        if checkpoint is None:
            log_estimate(trainer)
        with first_termination(trainer.stop):
            resumed = str(checkpoint) if checkpoint else None
            result = trainer.train(resume_from_checkpoint=resumed)
        if training_args.calibrate:
            metrics |= calibrate(trainer, setup)
        trainer.save_model()
        trainer.save_state()
        trainer.save_metrics("train", result.metrics)
        metrics |= result.metrics
        # Now, since the evaluation at the end would be logged as another one of the last epoch.
        history = {"history": evaluation_history(trainer.state.log_history)}
    if training_args.report:
        evaluated, report = write_report(trainer, setup, metrics)
    elif training_args.do_eval:
        evaluated = trainer.evaluate()
    if training_args.do_eval:
        trainer.save_metrics("eval", evaluated)
        metrics |= evaluated
    if training_args.do_predict:
        tested, predictions = _predict(trainer, setup, data_args, steps)
        metrics |= tested
    record = _record(setup, metrics, training_args, given, start) | history
    record |= steps.details(trainer, setup)
    if trainer.is_world_process_zero():
        if training_args.do_train:
            write_model_card(output_dir, record, repo_id)
        if training_args.record is not None:
            write_record(record, training_args.record)
        if training_args.do_train and must_push and repo_id is not None:
            push(
                output_dir,
                repo_id,
                private=bool(training_args.hub_private_repo),
                revision=training_args.hub_revision,
                commit_message="End of training",
                needs_license=False,  # which a training run does not know
                token=training_args.hub_token,
            )
    trainer.end()
    return {
        "metrics": metrics,
        "record": record,
        "output_dir": output_dir,
        "predictions": predictions,
        "report": report,
        "reads_pairs": getattr(setup.model, "reads_pairs", False),
        "text_columns": setup.task.text_columns,
    }


@contextmanager
def saying_how_to_go_on(output_dir: str) -> Iterator[None]:
    """Put into an interruption, and into the error of a full disk, how the run is continued."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.args = (f"stopped; {_how_to_go_on(output_dir)}",)
        raise
    except Exception as error:
        if not is_write_error(error):
            raise
        fault = f"a file could not be written: {error}. Make room"
        raise OSError(f"{fault}; {_how_to_go_on(output_dir)}") from error


def _how_to_go_on(output_dir: str) -> str:
    if any(why_incomplete(path) is None for path in list_checkpoints(output_dir)):
        return "the same command with --resume_from_checkpoint goes on"
    if Path(output_dir, TRAINER_STATE_NAME).is_file():  # the last file of a trained model
        return f"the trained model is in {output_dir}; --model_name_or_path evaluates it"
    return "the same command begins anew"


def move_label_smoothing(model_args: Any, training_args: RunArguments) -> None:
    """Let the model smooth its labels itself: `Trainer` would keep them from it."""
    smoothing = training_args.label_smoothing_factor
    if smoothing == 0:
        return
    if model_args.label_smoothing not in (None, smoothing):
        raise ValueError(
            f"--label_smoothing is {model_args.label_smoothing}, --label_smoothing_factor "
            f"{smoothing}; both mean the same, give one"
        )
    model_args.label_smoothing = smoothing
    training_args.label_smoothing_factor = 0.0


def log_summary(
    setup: TrainingSetup,
    model_args: ModelArguments,
    data_args: SourceArguments,
    training_args: RunArguments,
) -> None:
    """Log rows, labels, words and sizes before training."""
    rows = ", ".join(f"{split.num_rows:,} {name}" for name, split in setup.rows.items())
    columns = filter(None, (setup.task.text_columns, setup.task.label_columns))
    logger.info(one_line(f"rows: {rows} ({' -> '.join(map(', '.join, columns))})"))
    names = setup.task.label_names
    shown = one_line(", ".join(names[:10]))
    logger.info(f"labels: {len(names)} ({shown}), {setup.task.problem_type}")
    log_lengths(setup)
    log_word_vectors(setup, model_args)
    log_model(setup, training_args)


def log_pairs(setup: TrainingSetup) -> None:
    """Log how many pairs there are, and of which columns."""
    rows = ", ".join(f"{split.num_rows:,} {name}" for name, split in setup.rows.items())
    logger.info(one_line(f"pairs: {rows} ({' -> '.join(setup.task.text_columns)})"))


def log_word_vectors(setup: TrainingSetup, model_args: ModelArguments) -> None:
    """Log how many words the files of vectors know."""
    for path, share in zip(model_args.word_vectors or [], setup.vectors_found, strict=False):
        logger.info(f"word vectors: {os.path.basename(path)}, for {share:.1%} of the vocabulary")


def log_lengths(setup: TrainingSetup) -> None:
    """Log the size of the vocabulary and how many rows are cut."""
    unknown, split = max(
        (share_of_token(rows, setup.tokenizer.unk_token_id), name)
        for name, rows in setup.rows.items()
    )
    logger.info(f"vocabulary: {len(setup.tokenizer):,} words, {unknown:.1%} of the tokens unknown")
    if unknown > MANY_UNKNOWN:
        logger.warning(
            f"{unknown:.0%} of the tokens of the {split} rows are words that the tokenizer does "
            "not know. Train on more texts of the same language, or a new model with --level "
            "character (in translation: --subwords)"
        )
    limit = setup.tokenizer.model_max_length
    cut = sum(length >= limit for split in setup.rows.values() for length in token_counts(split))
    if cut:
        logger.info(f"length: {cut:,} rows reach the limit of {limit:,} tokens (--max_seq_length)")


def log_model(setup: TrainingSetup, training_args: RunArguments) -> None:
    """Log what is trained, and where."""
    model = setup.model
    logger.info(f"model: {type(model).__name__}, {model.num_parameters():,} parameters")
    logger.info(f"device: {training_args.device}, processes: {training_args.world_size}")


def log_estimate(trainer: SelfAttentiveTrainer) -> None:
    """Log how long training may take, before it starts."""
    arguments: Any = trainer.args
    seconds = estimate_seconds(trainer)
    length = f"{seconds / 60:.0f} minutes" if seconds > 90 else f"{seconds:.0f} seconds"
    patience = ", less if it stops early" if arguments.early_stopping_patience else ""
    precision = "bfloat16" if arguments.bf16 else "float16" if arguments.fp16 else "float32"
    count = arguments.num_train_epochs
    epochs = f"{count:g} epoch{'s' if count != 1 else ''}"
    logger.info(f"time: about {length}{patience} ({epochs} in {precision})")


def make_trainer(setup: TrainingSetup, training_args: RunArguments) -> SelfAttentiveTrainer:
    """Return a trainer of the model, with the metrics that were asked for or that fit."""
    check_best_metric(training_args, setup)
    metrics = load_metrics(training_args.metric_name, setup.task.problem_type)
    compute = metrics_function(metrics, setup.task.problem_type)
    options = trainer_options(setup, training_args)
    return SelfAttentiveTrainer(setup.model, training_args, compute_metrics=compute, **options)


def trainer_options(setup: TrainingSetup, training_args: RunArguments) -> dict[str, Any]:
    """Return what the trainers of all runs get: rows, tokenizer, limits and early stopping."""
    patience = training_args.early_stopping_patience
    return {
        "max_batch_tokens": training_args.max_batch_tokens,
        "train_dataset": setup.rows.get("train"),
        "eval_dataset": setup.rows.get("validation"),
        "processing_class": setup.tokenizer,
        "callbacks": [] if patience is None else [EarlyStoppingCallback(patience)],
    }


def _predict(
    trainer: SelfAttentiveTrainer, setup: TrainingSetup, data_args: SourceArguments, steps: Steps
) -> tuple[dict[str, float], Path | None]:
    """Predict the test rows into a copy of their file; return metrics if they have labels."""
    output = trainer.predict(setup.rows["test"])
    path = None
    if trainer.is_world_process_zero():
        added = steps.columns(trainer, setup, output.predictions)
        path = write_predictions(added, setup.task, data_args, str(trainer.args.output_dir))
    if "labels" not in setup.rows["test"].column_names:
        return {}, path
    trainer.save_metrics("test", output.metrics)
    return output.metrics or {}, path


def _record(
    setup: TrainingSetup,
    metrics: dict[str, float],
    training_args: RunArguments,
    given: dict[str, Any],
    start: float,
) -> dict[str, Any]:
    """Describe what was measured: on the test rows, else the validation rows, else in training."""
    prefixes = {"test": "test_", "validation": "eval_", "train": "train_"}
    split = next((s for s, prefix in prefixes.items() if f"{prefix}loss" in metrics), "test")
    return measured_record(
        name=training_args.run_name or Path(str(training_args.output_dir)).name,
        metrics=results_of(metrics, prefixes[split]),
        split=split,
        sources=setup.task.sources,
        seed=training_args.seed,
        arguments=given,
        config=setup.model.config,
        num_parameters=setup.model.num_parameters(),
        wall_seconds=time.perf_counter() - start,
    ) | {"rows_per_second": metrics.get(f"{prefixes[split]}samples_per_second")}


LABEL_STEPS = Steps(
    assemble,
    log_summary,
    make_trainer,
    lambda _, setup, logits: predicted_labels(torch.from_numpy(logits), setup.task),
)
