"""Which evaluation of a run is the best one, and when the run stops because none gets better.

The stock `Trainer` compares one metric. A share such as accuracy stays the same over several
evaluations where rows are few, while the model still learns: its loss falls.
"""

import math
from collections.abc import Mapping
from typing import Any

from transformers import (
    EarlyStoppingCallback,
    PreTrainedConfig,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer_callback import ExportableState


class TieBreak(TrainerCallback, ExportableState):
    """Of evaluations with the same `metric_for_best_model`, lets that of the lowest loss be best.

    best_loss: the loss of the best evaluation so far.
    """

    def __init__(self) -> None:
        self.best_loss: float | None = None
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
        """Forget the best metric if this evaluation has the same one and a lower loss.

        `Trainer` then takes this evaluation for the best one. It compares after this method.
        """
        metrics = kwargs["metrics"]
        metric = metrics.get(name_of_metric(args))
        if not self._is_training or metric is None:
            return
        loss = loss_of_answers(metrics, kwargs["model"].config)
        if metric == state.best_metric and is_lower(loss, self.best_loss):
            state.best_metric = None
        if is_better(metric, state.best_metric, args):
            self.best_loss = loss

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"args": {}, "attributes": {"best_loss": self.best_loss}}


class Patience(EarlyStoppingCallback):
    """`EarlyStoppingCallback` that also counts a falling loss as progress.

    lowest_loss: the lowest loss of an evaluation so far.
    """

    def __init__(self, early_stopping_patience: int, early_stopping_threshold: float = 0.0) -> None:
        super().__init__(early_stopping_patience, early_stopping_threshold)
        self.lowest_loss: float | None = None

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Any = None,
        **kwargs: Any,
    ) -> None:
        """Stop if neither the metric nor the loss was better for too many evaluations."""
        loss = loss_of_answers(metrics, kwargs["model"].config)
        if is_lower(loss, self.lowest_loss):
            self.lowest_loss = loss
            self.early_stopping_patience_counter = -1  # the stock method adds 1, or sets 0
        super().on_evaluate(args, state, control, metrics, **kwargs)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        kept: dict[str, Any] = super().state()
        kept["attributes"]["lowest_loss"] = self.lowest_loss
        return kept


def name_of_metric(args: TrainingArguments) -> str:
    """Return the name in an evaluation of the metric that chooses the best model."""
    return "eval_" + (args.metric_for_best_model or "").removeprefix("eval_")


def is_better(metric: float, best: float | None, args: TrainingArguments) -> bool:
    """Return whether a metric is better than the best one so far; None if there is none yet."""
    if best is None:
        return True
    return metric > best if args.greater_is_better else metric < best


def is_lower(loss: float, lowest: float | None) -> bool:
    """Return whether a loss is lower than the lowest one so far; None if there is none yet."""
    return lowest is None or loss < lowest


def loss_of_answers(metrics: Mapping[str, float], config: PreTrainedConfig) -> float:
    """Return the loss of an evaluation without the penalty, which no answer depends on."""
    penalty = getattr(config, "penalty_coef", 0.0) * metrics.get("eval_penalty", 0.0)
    return metrics.get("eval_loss", math.inf) - penalty
