"""Fewer epochs than planned, so that a run ends within the seconds that it may take."""

import copy
import gc
import logging
import math
import random
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from accelerate.utils import broadcast_object_list
from datasets import DatasetDict
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import IntervalStrategy, SaveStrategy, SchedulerType

from ..utils.errors import refusal
from .arguments import RunArguments
from .progress import EpochLines, only_training_bar
from .task import AnyTask, TrainingSetup

logger = logging.getLogger(__name__)

TRIED_UPDATES = 16  # of which the second half is timed
TRIED_BATCHES = 2  # of evaluation
# How a trial differs from its run.
TRIAL: dict[str, Any] = {
    "disable_tqdm": True,
    "early_stopping_patience": None,
    "eval_strategy": IntervalStrategy.NO,
    "load_best_model_at_end": False,
    "logging_strategy": IntervalStrategy.NO,
    "lr_scheduler_type": SchedulerType.CONSTANT,
    "max_steps": TRIED_UPDATES,
    "report": False,
    "report_to": [],
    "save_steps": TRIED_UPDATES,
    "save_strategy": SaveStrategy.STEPS,
    "warmup_steps": 0,
}
# What a report takes, with the fit of a linear part: so many epochs without their evaluations, so
# many evaluations, and so many seconds. It is a little more than was measured.
EPOCHS_OF_REPORT = 1.5
EVALUATIONS_OF_REPORT = 8
SECONDS_OF_REPORT = 5.0
LEAST_EPOCHS = 0.1  # of a run that learns anything


class Costs(NamedTuple):
    """The seconds of an update, of evaluating a row, and of saving a checkpoint."""

    update: float
    row: float
    save: float


class TimeBudget(TrainerCallback):
    """Plans a training by the seconds of its run, and begins no epoch that would not fit.

    seconds: those of `--time_budget`.
    start: when the run began, by `time.perf_counter`.
    updates: the seconds of the updates of an epoch.
    within: those of the evaluations and checkpoints between its updates.
    at_end: those of the evaluation and the checkpoint at its end.
    after: those of what follows the training.
    """

    def __init__(self, task: AnyTask, setup: TrainingSetup, start: float) -> None:
        args = task.arguments.run
        self.seconds = float(args.time_budget)
        self.start = start
        measured = [measure(task, setup)]
        broadcast_object_list(measured)  # all processes train for the same epochs
        (costs,) = measured
        num_rows = {name: split.num_rows for name, split in setup.tokens.items()}
        num_updates = math.ceil(num_rows["train"] / args.rows_per_update)
        evaluation = num_rows.get("validation", 0) * costs.row
        self.updates = num_updates * costs.update
        self.within = self.at_end = 0.0
        for strategy, steps, seconds in (
            (args.eval_strategy, args.eval_steps, evaluation),
            (args.save_strategy, args.save_steps, costs.save),
        ):
            if strategy == IntervalStrategy.STEPS:
                self.within += seconds * num_updates / _updates_between(steps, num_updates, args)
            elif strategy != IntervalStrategy.NO:
                self.at_end += seconds
        self.after = evaluation if args.do_eval else 0.0
        if args.do_predict:
            self.after += num_rows.get("test", 0) * costs.row
        if getattr(args, "report", False) or getattr(args, "calibrate", False):
            self.after += EPOCHS_OF_REPORT * self.updates + EVALUATIONS_OF_REPORT * evaluation
            self.after += SECONDS_OF_REPORT
        self._begin_of_epoch = start

    @property
    def passed(self) -> float:
        """The seconds since the start of the run, the same in all processes."""
        seconds = [time.perf_counter() - self.start]
        broadcast_object_list(seconds)
        return seconds[0]

    def epochs(self, planned: float) -> float:
        """Return the planned epochs if they fit, else as many as fit, and log the estimate.

        ValueError if hardly one fits.
        """
        passed = self.passed
        epoch = self.updates + self.within + self.at_end
        fitting = (self.seconds - passed - self.after) / epoch
        estimate = (
            f"{passed:.0f} have passed, an epoch takes about {epoch:.2g} and what follows the "
            f"training about {self.after:.2g}"
        )
        if fitting < min(planned, LEAST_EPOCHS):
            least = math.ceil(passed + self.after + min(planned, 1) * epoch)
            raise refusal(
                f"--time_budget is {self.seconds:g} seconds, of which {estimate}",
                f"give at least {least}, or fewer rows by --max_train_samples",
            )
        whole = math.floor(fitting) if fitting >= 1 else math.floor(10 * fitting) / 10
        epochs = planned if fitting >= planned else whole
        logger.info(
            f"time budget: of {self.seconds:g} seconds {estimate}, so {epochs:g} of {planned:g} "
            "epochs fit"
        )
        return epochs

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the time."""
        self._begin_of_epoch = self.passed

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End the training if another epoch would not fit."""
        passed = self.passed
        epoch = passed - self._begin_of_epoch + self.at_end
        if passed + self.at_end + epoch + self.after <= self.seconds:
            return
        if state.global_step < state.max_steps:
            logger.info(
                f"time budget: no further epoch fits after {passed:.0f} of {self.seconds:g} seconds"
            )
        control.should_training_stop = True

    def log_end(self) -> None:
        """Log what the run took; warn if that was more than it might."""
        passed = self.passed
        level = logging.INFO if passed <= self.seconds else logging.WARNING
        logger.log(level, f"time budget: the run took {passed:.0f} of {self.seconds:g} seconds")


def _updates_between(steps: float, num_updates: int, args: RunArguments) -> float:
    """Return the updates from one evaluation or checkpoint to the next; `steps` may be a share."""
    return steps if steps >= 1 else max(steps * num_updates * args.num_train_epochs, 1.0)


class _Clock(TrainerCallback):
    """Notes when each update ended, and when a checkpoint was complete."""

    def __init__(self) -> None:
        self.updates: list[float] = []
        self.save = 0.0

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Note the end of an update."""
        self.updates.append(time.perf_counter())

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Note that a checkpoint is complete."""
        self.save = time.perf_counter()


def measure(task: AnyTask, setup: TrainingSetup) -> Costs:
    """Train a copy of the model on some of the rows, save it and evaluate it; return the times."""
    args = task.arguments.run
    tried = {
        "train": TRIED_UPDATES * args.rows_per_update,
        "validation": TRIED_BATCHES * args.eval_batch_size * args.world_size,
    }
    clock = _Clock()
    with tempfile.TemporaryDirectory() as scratch, only_training_bar():
        trial = task.changed({**TRIAL, "output_dir": scratch})
        part = _part_of(setup, tried, args.seed)
        trainer = trial.make_trainer(part)
        trainer.remove_callback(EpochLines)
        trainer.add_callback(clock)
        trainer.train()
        first, last = clock.updates[TRIED_UPDATES // 2 - 1], clock.updates[-1]
        update = (last - first) / (TRIED_UPDATES - TRIED_UPDATES // 2)
        row = update / args.rows_per_update  # where nothing is evaluated; more than it takes
        if "validation" in part.tokens:
            trainer.evaluate()
            start = time.perf_counter()
            trainer.evaluate()
            row = (time.perf_counter() - start) / part.tokens["validation"].num_rows
    del trainer
    gc.collect()  # a trainer is one of its own callbacks, and holds the copy
    return Costs(update, row, save=clock.save - last)


def _part_of(setup: TrainingSetup, counts: Mapping[str, int], seed: int) -> TrainingSetup:
    """Return a copy of the model with at most so many rows of each split, drawn at random."""
    rows = DatasetDict()
    tokens = DatasetDict()
    for name in counts.keys() & setup.tokens.keys():
        of_split = setup.tokens[name]
        count = min(counts[name], of_split.num_rows)
        numbers = random.Random(seed).sample(range(of_split.num_rows), count)
        rows[name] = setup.rows.splits[name].select(numbers)
        tokens[name] = of_split.select(numbers)
    return replace(
        setup,
        rows=replace(setup.rows, splits=rows),
        tokens=tokens,
        model=copy.deepcopy(setup.model),
    )
