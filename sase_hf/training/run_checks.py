"""What a run refuses at once, because it would fail later, or do nothing."""

import os
from pathlib import Path
from typing import Any

from transformers import TrainingArguments
from transformers.integrations import (  # type: ignore[attr-defined]
    get_available_reporting_integrations,
)
from transformers.trainer_utils import IntervalStrategy

from ..data.task import TaskData
from ..evaluation.records import DEFAULT_METRICS
from ..utils.files import check_output
from .arguments import ModelArguments, RunArguments

# What transformers may report to without listing it as available.
NOT_LISTED = {"azure_ml", "flyte"}


def check_arguments(model_args: ModelArguments, training_args: RunArguments) -> None:
    """Refuse what can be seen to fail before anything is loaded.

    Raises:
        ValueError: If arguments contradict one another.
        OSError: If the record could not be written.
    """
    if not (training_args.do_train or training_args.do_eval or training_args.do_predict):
        raise ValueError("nothing to do; give --do_train, --do_eval or --do_predict")
    output_dir = Path(str(training_args.output_dir))
    if output_dir.exists() and not output_dir.is_dir():
        raise ValueError(f"--output_dir {output_dir} is a file; name a folder")
    if training_args.record is not None:
        record = Path(training_args.record)
        if record.absolute() == output_dir.absolute():
            raise ValueError(f"--record {record} is the --output_dir; name a file in it")
        check_output(record)
    if not training_args.do_train and model_args.model_name_or_path is None:
        raise ValueError(
            "without --do_train there is no model to evaluate or to predict with; give "
            "--model_name_or_path with a checkpoint"
        )
    if training_args.early_stopping_patience is not None and (
        not training_args.load_best_model_at_end
        or training_args.eval_strategy == IntervalStrategy.NO
    ):
        raise ValueError(
            "--early_stopping_patience needs evaluations and the best model kept; add "
            "--eval_strategy epoch --load_best_model_at_end"
        )
    _check_steps(training_args)
    _check_reports(training_args)


def _check_steps(training_args: TrainingArguments) -> None:
    """Refuse counts of batches that `Trainer` would divide by, and to train for no epoch."""
    for name in ("gradient_accumulation_steps", "eval_accumulation_steps"):
        count = getattr(training_args, name)
        if count is not None and count < 1:
            raise ValueError(f"--{name} is {count}; it must be 1 or more")
    epochs = training_args.num_train_epochs
    if training_args.do_train and training_args.max_steps <= 0 and epochs <= 0:
        raise ValueError(
            f"--num_train_epochs is {epochs:g}, which trains nothing; it must be above 0, parts of "
            "one included, or give --max_steps"
        )


def _check_reports(training_args: TrainingArguments) -> None:
    """Refuse to report to what is no service, or one whose package is not there."""
    ready = set(get_available_reporting_integrations())
    asked: Any = training_args.report_to  # always a list by now
    missing = set(asked) - ready - NOT_LISTED
    if missing:
        raise ValueError(
            f"--report_to is {', '.join(sorted(map(str, missing)))}, which is no service, or one "
            f"whose package is not installed; ready are {', '.join(['none', *sorted(ready)])}"
        )


def protect_earlier_run(output_dir: str, checkpoint: Path | None) -> None:
    """Refuse to train into a folder that holds something, unless that is being resumed."""
    if checkpoint is None and os.path.isdir(output_dir) and os.listdir(output_dir):
        raise ValueError(
            f"--output_dir {output_dir} is not empty. Go on with the run in it by "
            "--resume_from_checkpoint, choose another folder, or delete this one"
        )


def check_splits(task: TaskData, training_args: TrainingArguments) -> None:
    """Refuse to go on without the rows that a step needs."""
    needed = {
        "train": ("--do_train", training_args.do_train, "--train_file"),
        "validation": ("--do_eval", training_args.do_eval, "--validation_file"),
        "test": ("--do_predict", training_args.do_predict, "--test_file"),
    }
    for split, (step, is_asked, way_out) in needed.items():
        if is_asked and split not in task.splits:
            fraction = " or --validation_fraction 0.1" if split == "validation" else ""
            raise ValueError(
                f"{step} needs a {split} split, but the data have only "
                f"{', '.join(task.splits)}; give {way_out}{fraction}"
            )


def check_best_metric(training_args: TrainingArguments, task: TaskData) -> None:
    """Refuse now what `Trainer` would look for after the first epoch."""
    name = training_args.metric_for_best_model
    measured = ("loss", "penalty", *DEFAULT_METRICS[task.problem_type])
    if name is not None and name.removeprefix("eval_") not in measured:
        raise ValueError(
            f"--metric_for_best_model is {name}; what is measured is {', '.join(measured)}. "
            "Choose one of them, or measure another with --metric_name"
        )


__all__ = ["check_arguments", "check_best_metric", "check_splits", "protect_earlier_run"]
