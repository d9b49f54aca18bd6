"""Fewer epochs than planned, so that a run ends within the seconds that it may take."""

import copy
import logging
import math
import random
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from accelerate.utils import broadcast_object_list
from datasets import DatasetDict
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from ..utils.errors import refusal
from .progress import EpochLines, only_training_bar
from .task import AnyTask, TrainingSetup

logger = logging.getLogger(__name__)

# The rows of a trial: so many updates of training, and so many batches of evaluation.
TRIED_UPDATES = 8
TRIED_BATCHES = 2
# What follows the training, in epochs of it. With a report it was 1.3 epochs of 3,600 reviews, and
# 2 of 4,500 questions.
EPOCHS_OF_REPORT = 2.0
EPOCHS_OF_EVALUATION = 0.5
LEAST_EPOCHS = 0.1  # of a run that learns anything
# How a trial differs from its run: two epochs, of which the second is timed, and no files.
TRIAL: dict[str, Any] = {
    "disable_tqdm": True,
    "early_stopping_patience": None,
    "load_best_model_at_end": False,
    "logging_strategy": IntervalStrategy.NO,
    "num_train_epochs": 2,
    "report": False,
    "report_to": [],
    "save_strategy": SaveStrategy.NO,
}


class _Clock(TrainerCallback):
    """Times the last epoch of a training: its updates, and the evaluation after them."""

    def __init__(self) -> None:
        self.begin = 0.0
        self.end_of_updates = 0.0
        self.end = 0.0

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin anew."""
        self.begin = time.perf_counter()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the time after an update."""
        self.end_of_updates = time.perf_counter()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the time after the evaluation."""
        self.end = time.perf_counter()


def epochs_in_time(task: AnyTask, setup: TrainingSetup, start: float) -> float:
    """Return the planned epochs, or as many as end within `--time_budget`, and log the estimate.

    `start` is when the run began, by `time.perf_counter`. An epoch is timed on some of the rows,
    with a copy of the model. ValueError if hardly an epoch fits.
    """
    args = task.arguments.run
    seconds = _seconds_of_epoch(task, setup)
    passed = time.perf_counter() - start
    measured = [seconds, passed]
    broadcast_object_list(measured)  # all processes train for the same epochs
    seconds, passed = measured
    after = EPOCHS_OF_REPORT if getattr(args, "report", False) else EPOCHS_OF_EVALUATION
    fitting = (args.time_budget - passed) / seconds - after
    if fitting < LEAST_EPOCHS:
        least = passed + seconds * (after + 1)
        raise refusal(
            f"--time_budget is {args.time_budget:g} seconds, but the run has taken {passed:.0f}, "
            f"and an epoch takes about {seconds:.0f}",
            f"give at least {math.ceil(least)}, or fewer rows by --max_train_samples",
        )
    planned = args.num_train_epochs
    epochs = min(planned, math.floor(fitting) if fitting >= 1 else math.floor(10 * fitting) / 10)
    logger.info(
        f"time budget: an epoch takes about {seconds:.2g} seconds, so {epochs:g} of {planned:g} "
        f"epochs fit into {args.time_budget:g}"
    )
    return epochs


def _seconds_of_epoch(task: AnyTask, setup: TrainingSetup) -> float:
    """Return the estimate for an epoch with its evaluation, in seconds."""
    args = task.arguments.run
    tokens = setup.tokens
    rows_per_update = args.train_batch_size * args.world_size * args.gradient_accumulation_steps
    tried = {"train": min(TRIED_UPDATES * rows_per_update, tokens["train"].num_rows)}
    if "validation" in tokens:
        num_evaluated = TRIED_BATCHES * args.eval_batch_size * args.world_size
        tried["validation"] = min(num_evaluated, tokens["validation"].num_rows)
    clock = _Clock()
    with tempfile.TemporaryDirectory() as scratch, only_training_bar():
        trial = task.changed({**TRIAL, "output_dir": scratch})
        trainer = trial.make_trainer(_part_of(setup, tried, args.seed))
        trainer.remove_callback(EpochLines)
        trainer.add_callback(clock)
        trainer.train()
    seconds = (clock.end_of_updates - clock.begin) * tokens["train"].num_rows / tried["train"]
    if "validation" in tokens:
        share = tried["validation"] / tokens["validation"].num_rows
        seconds += (clock.end - clock.end_of_updates) / share
    return seconds


def _part_of(setup: TrainingSetup, counts: Mapping[str, int], seed: int) -> TrainingSetup:
    """Return a copy of the model with so many rows of each split, drawn at random."""
    rows = DatasetDict()
    tokens = DatasetDict()
    for name, count in counts.items():
        of_split = setup.tokens[name]
        numbers = random.Random(seed).sample(range(of_split.num_rows), count)
        rows[name] = setup.rows.splits[name].select(numbers)
        tokens[name] = of_split.select(numbers)
    return replace(
        setup,
        rows=replace(setup.rows, splits=rows),
        tokens=tokens,
        model=copy.deepcopy(setup.model),
    )
