"""Which evaluation is the best one, and when a training stops."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from sase_hf.training.best_model import Patience, TieBreak

CONFIG = SimpleNamespace(penalty_coef=0.1)


def evaluated(
    results: list[tuple[float, float]], tmp_path: Any, patience: int = 2
) -> tuple[int, int | None]:
    """Return the number of evaluations and the best one, from 1, of (accuracy, loss) each.

    The state changes as the stock `Trainer` changes it after each evaluation.
    """
    args = TrainingArguments(
        str(tmp_path), metric_for_best_model="accuracy", greater_is_better=True, use_cpu=True
    )
    state, control = TrainerState(), TrainerControl()
    model: Any = SimpleNamespace(config=CONFIG)
    callbacks = (TieBreak(), Patience(patience))
    callbacks[0].on_train_begin(args, state, control)
    best = None
    for number, (accuracy, loss) in enumerate(results, 1):
        metrics = {"eval_accuracy": accuracy, "eval_loss": loss, "eval_penalty": 0.0}
        for callback in callbacks:
            callback.on_evaluate(args, state, control, metrics=metrics, model=model)
        if state.best_metric is None or accuracy > state.best_metric:
            state.best_metric = accuracy
            best = number
        if control.should_training_stop:
            return number, best
    return len(results), best


@pytest.mark.parametrize(
    ("results", "best"),
    [
        ([(1.0, 0.6), (1.0, 0.2), (1.0, 0.1)], 3),
        ([(1.0, 0.2), (1.0, 0.6), (0.9, 0.1)], 1),
        ([(0.8, 0.2), (0.9, 0.6), (0.9, 0.7)], 2),
        ([(0.8, 0.1), (0.9, 0.6), (0.9, 0.5)], 3),
    ],
    ids=["loss falls", "loss rises", "metric comes first", "loss of the best, not the lowest"],
)
def test_tie_of_the_metric_is_broken_by_the_loss(
    results: list[tuple[float, float]], best: int, tmp_path: Any
) -> None:
    assert evaluated(results, tmp_path, patience=9)[1] == best


def test_patience_counts_a_falling_loss_as_progress(tmp_path: Any) -> None:
    """A file with a rare label stays at the majority for epochs, while its loss falls."""
    falling = [(0.9, 0.5), (0.9, 0.4), (0.9, 0.3), (0.9, 0.2), (1.0, 0.1)]
    assert evaluated(falling, tmp_path) == (5, 5)


def test_patience_ends_where_neither_metric_nor_loss_gets_better(tmp_path: Any) -> None:
    results = [(0.9, 0.5), (0.9, 0.4), (0.8, 0.6), (0.9, 0.4), (1.0, 0.1)]
    assert evaluated(results, tmp_path) == (4, 2)


def test_tie_break_does_not_count_the_penalty(tmp_path: Any) -> None:
    args = TrainingArguments(str(tmp_path), metric_for_best_model="accuracy", use_cpu=True)
    state = TrainerState(best_metric=0.9)
    model: Any = SimpleNamespace(config=CONFIG)
    callback = TieBreak()
    callback.best_loss = 0.5
    callback.on_train_begin(args, state, TrainerControl())
    metrics = {"eval_accuracy": 0.9, "eval_loss": 0.6, "eval_penalty": 2.0}
    callback.on_evaluate(args, state, TrainerControl(), metrics=metrics, model=model)
    assert (state.best_metric, callback.best_loss) == (None, pytest.approx(0.4))


def test_tie_break_leaves_the_state_after_training(tmp_path: Any) -> None:
    """The evaluation of the loaded best model has its metric again."""
    args = TrainingArguments(str(tmp_path), metric_for_best_model="accuracy", use_cpu=True)
    state = TrainerState(best_metric=0.9)
    model: Any = SimpleNamespace(config=CONFIG)
    callback = TieBreak()
    callback.on_train_begin(args, state, TrainerControl())
    callback.on_train_end(args, state, TrainerControl())
    metrics = {"eval_accuracy": 0.9, "eval_loss": 0.1}
    callback.on_evaluate(args, state, TrainerControl(), metrics=metrics, model=model)
    assert state.best_metric == 0.9


@pytest.mark.parametrize("callback", [TieBreak(), Patience(3)])
def test_callbacks_of_the_best_model_are_kept_in_a_checkpoint(callback: ExportableState) -> None:
    """As `Trainer` restores them: from the arguments, then the attributes."""
    kept = json.loads(json.dumps(callback.state()))
    restored = type(callback)(**kept["args"])
    for name, value in kept["attributes"].items():
        setattr(restored, name, value)
    assert restored.state() == callback.state()
