"""Which evaluation is the best one, and when a training stops."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from sase_hf.training.best_model import BestModel

MODEL: Any = SimpleNamespace(config=SimpleNamespace(penalty_coef=0.1))
Results = list[tuple[float, float]]  # accuracy and loss of each evaluation


def evaluated(
    results: Results, folder: Path, patience: int | None = 2, resumes_after: int | None = None
) -> tuple[int, int | None]:
    """Return the number of evaluations and the best one, from 1.

    The state changes as the stock `Trainer` changes it after each evaluation. The run may be
    resumed after some, by what a checkpoint keeps of the callback.
    """
    args = TrainingArguments(
        str(folder), metric_for_best_model="accuracy", greater_is_better=True, use_cpu=True
    )
    state, control, callback = TrainerState(), TrainerControl(), BestModel(patience)
    callback.on_train_begin(args, state, control)
    best = None
    for number, (accuracy, loss) in enumerate(results, 1):
        metrics = {"eval_accuracy": accuracy, "eval_loss": loss, "eval_penalty": 0.0}
        callback.on_evaluate(args, state, control, metrics=metrics, model=MODEL)
        if state.best_metric is None or accuracy > state.best_metric:
            state.best_metric = accuracy
            best = number
        if control.should_training_stop:
            return number, best
        if number == resumes_after:
            callback = restored(callback)
            callback.on_train_begin(args, state, control)
    return len(results), best


def restored(callback: BestModel) -> BestModel:
    """Return the callback of a resumed run, made as `Trainer` makes it."""
    kept = json.loads(json.dumps(callback.state()))
    again = BestModel(**kept["args"])
    for name, value in kept["attributes"].items():
        setattr(again, name, value)
    return again


@pytest.mark.parametrize(
    ("results", "best"),
    [
        ([(1.0, 0.6), (1.0, 0.2), (1.0, 0.1)], 3),
        ([(1.0, 0.2), (1.0, 0.6), (0.9, 0.1)], 1),
        ([(0.8, 0.2), (0.9, 0.6), (0.9, 0.7)], 2),
        ([(0.8, 0.1), (0.9, 0.6), (0.9, 0.5)], 3),
        ([(0.9, math.nan), (0.9, 0.5)], 1),
    ],
    ids=["loss falls", "loss rises", "metric comes first", "loss of the best", "no loss"],
)
def test_tie_of_the_metric_is_broken_by_the_loss(
    results: Results, best: int, tmp_path: Path
) -> None:
    assert evaluated(results, tmp_path, patience=None)[1] == best


@pytest.mark.parametrize(
    ("results", "num_evaluations"),
    [
        ([(0.9, 0.5), (0.9, 0.4), (0.9, 0.3), (0.9, 0.2), (1.0, 0.1)], 5),
        ([(0.9, 0.5), (0.9, 0.4), (0.8, 0.6), (0.9, 0.4), (1.0, 0.1)], 4),
        ([(0.9, 0.5), (0.9, 0.49999), (0.9, 0.49998), (0.9, 0.49997)], 3),
        ([(0.9, math.nan), (0.9, 0.5), (0.9, 0.4), (0.9, 0.3)], 4),
    ],
    ids=["a falling loss is progress", "neither is better", "too small a fall", "no first loss"],
)
def test_training_stops_without_progress_of_metric_and_loss(
    results: Results, num_evaluations: int, tmp_path: Path
) -> None:
    """A file with a rare label stays at the majority for epochs, while its loss falls."""
    assert evaluated(results, tmp_path)[0] == num_evaluations


@pytest.mark.parametrize("resumes_after", [1, 2, 3])
def test_resumed_run_stops_and_chooses_as_an_unbroken_one(
    resumes_after: int, tmp_path: Path
) -> None:
    results = [(0.8, 0.1), (0.9, 0.6), (0.9, 0.55), (0.9, 0.5), (0.95, 0.45), (0.9, 0.4)]
    unbroken = evaluated(results, tmp_path)
    assert evaluated(results, tmp_path, resumes_after=resumes_after) == unbroken == (4, 4)


def best_after_a_tie(
    callback: BestModel, folder: Path, *, ends: bool = False, **metrics: float
) -> float | None:
    """Return the best metric, of 0.9, as an evaluation with this metric leaves it."""
    args = TrainingArguments(str(folder), metric_for_best_model="accuracy", use_cpu=True)
    state, control = TrainerState(best_metric=0.9), TrainerControl()
    callback.on_train_begin(args, state, control)
    if ends:
        callback.on_train_end(args, state, control)
    metrics = {"eval_accuracy": 0.9, **metrics}
    callback.on_evaluate(args, state, control, metrics=metrics, model=MODEL)
    assert not control.should_training_stop
    return state.best_metric


def test_run_resumed_without_the_state_of_callbacks_keeps_the_best_model(tmp_path: Path) -> None:
    """`--restore_callback_states_from_checkpoint false`: the loss of the best one is not known."""
    assert best_after_a_tie(BestModel(), tmp_path, eval_loss=0.9) == 0.9


def test_tie_break_does_not_count_the_penalty(tmp_path: Path) -> None:
    callback = BestModel()
    callback.best_loss = 0.5
    assert best_after_a_tie(callback, tmp_path, eval_loss=0.6, eval_penalty=2.0) is None
    assert callback.best_loss == pytest.approx(0.4)


def test_evaluation_after_the_training_changes_nothing(tmp_path: Path) -> None:
    """The loaded best model has its own metric again."""
    callback = BestModel(1)
    callback.best_loss = 0.5
    assert best_after_a_tie(callback, tmp_path, ends=True, eval_loss=0.1) == 0.9
