"""What a run shows while it trains: a bar, and a line for each evaluation or logged loss."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import datasets
from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]
from transformers import (
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_utils import IntervalStrategy
from transformers.utils import logging

# Of an evaluation, these numbers are about its speed.
SPEED = ("runtime", "samples_per_second", "steps_per_second")


class QuietBar(ProgressCallback):
    """The bar of transformers without its logs, which are dictionaries."""

    def on_log(self, *args: Any, **kwargs: Any) -> None:
        """Write nothing."""


class EpochLines(TrainerCallback):
    """A line for each evaluation or, where nothing is evaluated, for each loss that is logged."""

    def __init__(self) -> None:
        self.is_training = False
        self.loss: float | None = None  # the last one that was logged and not yet written

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin to write lines."""
        self.is_training = True

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
        logs: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep the loss of training for the next line, or write it where none follows."""
        if logs is None or "loss" not in logs:
            return
        self.loss = logs["loss"]
        if args.eval_strategy == IntervalStrategy.NO:
            self._write(state, {})

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a line for an evaluation."""
        if self.is_training and metrics is not None:
            self._write(state, metrics)

    def _write(self, state: TrainerState, metrics: Mapping[str, float]) -> None:
        numbers = []
        if self.loss is not None:
            numbers.append(f"loss {self.loss:.4g}")
        self.loss = None  # that of earlier updates says nothing about the next line
        for name, value in metrics.items():
            if name.startswith("eval_") and not name.endswith(SPEED):
                numbers.append(f"{name} {value:.4g}")
        if state.is_world_process_zero:
            tqdm.write(f"epoch {state.epoch:g}: {', '.join(numbers)}", file=sys.stderr)


def write_lines(trainer: Trainer) -> None:
    """Let a trainer write such lines in place of the dictionaries that it logs."""
    trainer.remove_callback(PrinterCallback)
    if trainer.pop_callback(ProgressCallback) is not None:
        trainer.add_callback(QuietBar)
    trainer.add_callback(EpochLines)


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
