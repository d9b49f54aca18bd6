"""What a run shows while it trains: one bar, a line for each evaluation, and one for the end."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import datasets
from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]
from transformers import (
    PrinterCallback,
    ProgressCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer import DEFAULT_PROGRESS_CALLBACK
from transformers.trainer_utils import IntervalStrategy
from transformers.utils import logging

from .trainer import SelfAttentiveTrainer

# What a metric says, before the number of rows.
WORDS = {
    "accuracy": "right for {:.0%} of",
    "macro_f1": "macro F1 {:.2f} on",
    "mse": "mean squared error {:.4g} on",
    "pearson": "correlation {:.2f} on",
    "bleu": "BLEU {:.1f} on",
    "mrr": "mean reciprocal rank {:.2f} on",
    "loss": "measured on",  # the loss stands behind
}


class OneBar(ProgressCallback):
    """The bar of transformers without a second one for each evaluation, and without its logs."""

    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        """Show no bar."""

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Write nothing; logs are dictionaries."""


class EpochLines(TrainerCallback):
    """Lines of a training: for each evaluation, and for the epoch that is kept at the end.

    Where nothing is evaluated, they are about each loss that is logged.
    metric: the metric of an evaluation that a line tells.
    num_rows: the number of rows that are evaluated.
    """

    def __init__(self, metric: str, num_rows: int) -> None:
        self.metric = metric
        self.num_rows = num_rows
        self.start: float | None = None  # in seconds; None before and after a training
        self.first_update = 0  # of this process, which may resume a run

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin to write lines."""
        self.start = time.perf_counter()
        self.first_update = state.global_step

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] = MappingProxyType({}),
        **kwargs: Any,
    ) -> None:
        """Write what was measured, and the time left; after a training the results are a table."""
        if self.start is None:
            return
        if "eval_loss" in logs:
            measured = self.measured(logs)
        elif "loss" in logs and args.eval_strategy == IntervalStrategy.NO:
            measured = f"loss {logs['loss']:.4g}"
        else:
            return
        num_updates = max(state.global_step - self.first_update, 1)
        seconds = time.perf_counter() - self.start
        left = seconds / num_updates * (state.max_steps - state.global_step)
        write(state, f"epoch {_epoch(state)}: {measured}; {tqdm.format_interval(left)} left")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write which epoch is kept, and why the training has ended."""
        self.start = None
        if not args.load_best_model_at_end or state.best_global_step is None:
            return
        kept = next(
            entry
            for entry in state.log_history
            if entry["step"] == state.best_global_step and "eval_loss" in entry
        )
        has_stopped_early = state.global_step < state.max_steps
        reason = "as none after it was better" if has_stopped_early else "as planned"
        write(
            state,
            f"kept epoch {kept['epoch']:.4g}: {self.measured(kept)}; training ended after epoch "
            f"{_epoch(state)}, {reason}",
        )

    def measured(self, logs: Mapping[str, float]) -> str:
        """Return what the logs of an evaluation say of the held-out rows."""
        name = self.metric if f"eval_{self.metric}" in logs else "loss"
        words = WORDS.get(name, f"{name} {{:.4g}} on").format(logs[f"eval_{name}"])
        return f"{words} {self.num_rows:,} held-out rows, loss {logs['eval_loss']:.4g}"


def write(state: TrainerState, line: str) -> None:
    """Write a line above the bar, in the first process."""
    if state.is_world_process_zero:
        tqdm.write(line, file=sys.stderr)


def _epoch(state: TrainerState) -> str:
    return f"{state.epoch:.4g} of {state.num_train_epochs}"


def write_lines(trainer: SelfAttentiveTrainer) -> None:
    """Let a trainer write such lines in place of the dictionaries that it logs."""
    trainer.remove_callback(PrinterCallback)
    # Without a training, the bar is that of the rows that are predicted.
    if trainer.args.do_train and trainer.pop_callback(DEFAULT_PROGRESS_CALLBACK) is not None:
        trainer.add_callback(OneBar)
    rows: Any = trainer.eval_dataset or ()
    trainer.add_callback(EpochLines(trainer.compared_metric, len(rows)))


@contextmanager
def only_training_bar() -> Iterator[None]:
    """Show no bars for the steps that take a moment: tokens, weights."""
    are_of_datasets = not datasets.are_progress_bars_disabled()
    are_of_transformers = logging.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if are_of_datasets:
            datasets.enable_progress_bars()
        if are_of_transformers:
            logging.enable_progress_bar()
