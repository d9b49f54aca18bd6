"""What a run shows while it trains: one bar, a line for each evaluation, and one for the end."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import datasets
from transformers import PrinterCallback, ProgressCallback, TrainerState
from transformers.trainer import DEFAULT_PROGRESS_CALLBACK
from transformers.utils import logging as transformers_logging

from .trainer import SelfAttentiveTrainer


class EpochLines(ProgressCallback):
    """The bar of a training, a line above it for each evaluation, and one for the epoch kept.

    metric: the metric of an evaluation that a line tells.
    num_rows: the number of rows that are evaluated.
    """

    training_bar: Any  # in the first process, during a training; else None

    def __init__(self, metric: str, num_rows: int) -> None:
        super().__init__()
        self.metric = metric
        self.num_rows = num_rows

    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        """Show no second bar for an evaluation."""

    def on_log(
        self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any
    ) -> None:
        """Write what was measured, and the time left; after a training the results are a table."""
        if self.training_bar is not None and "eval_loss" in logs:
            updates_of_second = self.training_bar.format_dict["rate"] or 1
            seconds = (state.max_steps - state.global_step) / updates_of_second
            left = self.training_bar.format_interval(seconds)
            self.write(f"epoch {_epoch(state)}: {self.measured(logs)}; {left} left")

    def on_train_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Write which epoch is kept, and why the training has ended; close the bar."""
        evaluations = [entry for entry in state.log_history if "eval_loss" in entry]
        kept = [entry for entry in evaluations if entry["step"] == state.best_global_step]
        if kept and args.load_best_model_at_end and self.training_bar is not None:
            has_stopped_early = state.global_step < state.max_steps
            reason = "as none after it was better" if has_stopped_early else "as planned"
            self.write(
                f"kept epoch {kept[0]['epoch']:.4g}: {self.measured(kept[0])}; training ended "
                f"after epoch {_epoch(state)}, {reason}"
            )
        super().on_train_end(args, state, control, **kwargs)

    def measured(self, logs: Mapping[str, float]) -> str:
        """Return what logs say of the held-out rows."""
        rows = f"{self.num_rows:,} held-out rows, loss {logs['eval_loss']:.4g}"
        value = logs.get(f"eval_{self.metric}", float("nan"))
        if self.metric == "accuracy":
            return f"right for {value:.0%} of {rows}"
        return f"{self.metric} {value:.4g} on {rows}"

    def write(self, line: str) -> None:
        """Write a line above the bar."""
        self.training_bar.write(line, file=sys.stderr)


def _epoch(state: TrainerState) -> str:
    return f"{state.epoch:.4g} of {state.num_train_epochs}"


def write_lines(trainer: SelfAttentiveTrainer) -> None:
    """Let a trainer write such lines in place of the dictionaries that it logs."""
    trainer.remove_callback(PrinterCallback)
    # Without a training, the bar is that of the rows that are predicted.
    if trainer.args.do_train and trainer.pop_callback(DEFAULT_PROGRESS_CALLBACK) is not None:
        rows: Any = trainer.eval_dataset or ()
        trainer.add_callback(EpochLines(trainer.score_metric, len(rows)))


@contextmanager
def only_training_bar() -> Iterator[None]:
    """Show no bars for the steps that take a moment: tokens, weights."""
    showed_bars = transformers_logging.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if showed_bars:
            datasets.enable_progress_bars()
            transformers_logging.enable_progress_bar()
