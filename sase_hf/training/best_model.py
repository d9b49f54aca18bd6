"""Which evaluation of a run is the best one, and when the run stops because none gets better.

The stock `Trainer` compares one metric. A share such as accuracy stays the same over several
evaluations where rows are few, while the model still learns: its loss falls.
"""

import math
from collections.abc import Mapping
from typing import Any

from transformers import (
    PreTrainedConfig,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_callback import ExportableState

LEAST_FALL = 0.001  # of the loss, as a share of it, that counts as progress


class BestModel(TrainerCallback, ExportableState):
    """Breaks ties of `metric_for_best_model` by the loss, and ends a run without progress.

    Of evaluations with the same metric, the one with the lowest loss is best. A better metric and a
    falling loss are progress; after `patience` evaluations without it the training stops, after any
    number if it is None. `Trainer` compares after this callback, which changes `best_metric` only
    where both are the same.

    best_loss: the loss of the best evaluation so far.
    lowest_loss: the loss from which the next fall is counted.
    num_without_progress: evaluations since the last progress.
    """

    def __init__(self, patience: int | None = None) -> None:
        self.patience = patience
        self.best_loss: float | None = None
        self.lowest_loss: float | None = None
        self.num_without_progress = 0
        self._is_training = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin to compare."""
        self._is_training = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Compare no evaluation after the training: the best one is loaded."""
        self._is_training = False

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Compare an evaluation with the best one so far."""
        metrics = kwargs["metrics"]
        metric = metrics.get("eval_" + (args.metric_for_best_model or "").removeprefix("eval_"))
        if not self._is_training or metric is None:
            return
        loss = loss_of_answers(metrics, kwargs["model"].config)
        has_better_metric = is_better(metric, state.best_metric, args)
        is_tie = metric == state.best_metric
        wins_tie = is_tie and self.best_loss is not None and loss < self.best_loss
        if wins_tie:
            state.best_metric = None  # so that `Trainer` takes this evaluation for the best one
        if has_better_metric or wins_tie:
            self.best_loss = loss
        if self._falls(loss) or has_better_metric:
            self.num_without_progress = 0
        else:
            self.num_without_progress += 1
        if self.patience is not None and self.num_without_progress >= self.patience:
            control.should_training_stop = True

    def _falls(self, loss: float) -> bool:
        """Return whether the loss has fallen far enough, and keep it as the lowest one then."""
        if math.isnan(loss):
            return False
        falls = self.lowest_loss is None or loss < (1 - LEAST_FALL) * self.lowest_loss
        if falls:
            self.lowest_loss = loss
        return falls

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        attributes = {
            "best_loss": self.best_loss,
            "lowest_loss": self.lowest_loss,
            "num_without_progress": self.num_without_progress,
        }
        return {"args": {"patience": self.patience}, "attributes": attributes}


def is_better(metric: float, best: float | None, args: TrainingArguments) -> bool:
    """Return whether a metric is better than the best one so far; None if there is none yet."""
    if best is None:
        return True
    return metric > best if args.greater_is_better else metric < best


def loss_of_answers(metrics: Mapping[str, float], config: PreTrainedConfig) -> float:
    """Return the loss of an evaluation without the penalty, which no answer depends on."""
    penalty = getattr(config, "penalty_coef", 0.0) * metrics.get("eval_penalty", 0.0)
    return metrics.get("eval_loss", math.inf) - penalty
