"""What a run shows while it trains: one bar, a line for each evaluation, and one for the end."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from transformers.trainer_utils import IntervalStrategy
from transformers.utils import logging

from .trainer import SelfAttentiveTrainer

# What a metric says of the held-out rows.
WORDS = {
    "accuracy": "right for {:.0%}",
    "macro_f1": "macro F1 {:.2f}",
    "mse": "mean squared error {:.4g}",
    "pearson": "correlation {:.2f}",
    "bleu": "BLEU {:.1f}",
    "mrr": "mean reciprocal rank {:.2f}",
}


class OneBar(ProgressCallback):
    """The bar of transformers without a second one for each evaluation, and without its logs."""

    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        """Show no bar."""

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Write nothing; logs are dictionaries."""


class EpochLines(TrainerCallback):
    """A line for each evaluation or, where nothing is evaluated, for each loss that is logged.

    metric: the metric of an evaluation that a line tells.
    """

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.is_training = False
        self.start = 0.0  # of the training, in seconds
        self.first_update = 0  # of this process, which may resume a run

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin to write lines."""
        self.is_training = True
        self.start = time.perf_counter()
        self.first_update = state.global_step

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write no line for the evaluations after the training, whose results are a table."""
        self.is_training = False

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float],
        **kwargs: Any,
    ) -> None:
        """Write the loss of training where no line of an evaluation follows."""
        if "loss" in logs and args.eval_strategy == IntervalStrategy.NO:
            self._write(state, f"loss {logs['loss']:.4g}")

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float],
        **kwargs: Any,
    ) -> None:
        """Write what an evaluation says of the held-out rows."""
        if not self.is_training:
            return
        measured = [
            WORDS.get(name, f"{name} {{:.4g}}").format(metrics[f"eval_{name}"])
            for name in (self.metric, "loss")
            if f"eval_{name}" in metrics
        ]
        measured[0] += f" of {len(kwargs['eval_dataloader'].dataset):,} held-out rows"
        self._write(state, ", ".join(measured))

    def _write(self, state: TrainerState, words: str) -> None:
        seconds_per_update = (time.perf_counter() - self.start) / (
            state.global_step - self.first_update
        )
        left = tqdm.format_interval(seconds_per_update * (state.max_steps - state.global_step))
        write(state, f"epoch {_epoch(state)}: {words}; {left} left")


class LastLine(TrainerCallback):
    """A line at the end of a training with evaluations: which epoch is kept, and why it ended."""

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write the line."""
        if not args.load_best_model_at_end or state.best_global_step is None:
            return
        kept = (state.epoch or 0) * state.best_global_step / state.global_step
        reason = "as planned"
        if state.global_step < state.max_steps:
            reason = "as the last ones brought no better result"
        write(state, f"kept epoch {kept:.4g}; training ended after epoch {_epoch(state)}, {reason}")


def write(state: TrainerState, line: str) -> None:
    """Write a line above the bar, in the first process."""
    if state.is_world_process_zero:
        tqdm.write(line, file=sys.stderr)


def _epoch(state: TrainerState) -> str:
    return f"{state.epoch:.4g} of {state.num_train_epochs}"


def write_lines(trainer: SelfAttentiveTrainer) -> None:
    """Let a trainer write such lines in place of the dictionaries that it logs."""
    trainer.remove_callback(PrinterCallback)
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(OneBar)
    trainer.add_callback(EpochLines(trainer.compared_metric))
    trainer.add_callback(LastLine)


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
