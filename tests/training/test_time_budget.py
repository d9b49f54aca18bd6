"""The time budget of a run: which epochs it leaves, and that it changes nothing else."""

import logging
import math
import re
from pathlib import Path
from typing import Any

import pytest
from rows import write_jsonl
from runs import QUIET, TINY_MODEL, flags, run_tiny, same_weights, train_tiny, weights

from sase_hf.tasks import RetrievalTask, TranslationTask
from sase_hf.training import run, time_budget
from sase_hf.training.command_line import parse_arguments

PAIRS = [{"query": f"which animal number {n}", "document": f"number {n} ran"} for n in range(12)]


def take(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every epoch take so many seconds."""
    monkeypatch.setattr(time_budget, "_seconds_of_epoch", lambda task, setup: seconds)


def test_time_budget_leaves_a_run_that_fits_as_it_is(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    options = {**reviews, "do_eval": True, "eval_strategy": "epoch", "num_train_epochs": 3}
    train_tiny(tmp_path / "without", **options)
    outcome = train_tiny(tmp_path / "with", **options, time_budget=1000)
    assert same_weights(weights(tmp_path / "without"), weights(tmp_path / "with"))
    assert outcome["record"]["arguments"]["num_train_epochs"] == 3
    names = {path.name for path in (tmp_path / "with").iterdir()}
    assert names == {path.name for path in (tmp_path / "without").iterdir()}


@pytest.mark.parametrize(
    ("budget", "seconds", "epochs"), [(1000, 150, 6), (1000, 600, 1), (1000, 1200, 0.3)]
)
def test_time_budget_chooses_the_epochs_that_fit(
    budget: float,
    seconds: float,
    epochs: float,
    reviews: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Half an epoch is left for the last evaluation. A part of an epoch is evaluated, too."""
    caplog.set_level(logging.INFO, logger="sase_hf.training.time_budget")
    take(seconds, monkeypatch)
    options = {"num_train_epochs": 8, "per_device_train_batch_size": 4, "eval_strategy": "epoch"}
    folder = tmp_path / "run"
    outcome = train_tiny(folder, **reviews, **options, do_eval=True, time_budget=budget)
    assert outcome["record"]["arguments"]["num_train_epochs"] == epochs
    history = outcome["record"]["history"]
    assert [evaluation["epoch"] for evaluation in history][-1] == pytest.approx(epochs, abs=0.1)
    assert len(history) == math.ceil(epochs)
    assert f"so {epochs:g} of 8 epochs fit into {budget}" in caplog.text


def test_time_budget_leaves_time_for_the_report(
    reviews: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(100, monkeypatch)
    options = {**reviews, "do_eval": True, "report": True, "num_train_epochs": 8}
    outcome = train_tiny(tmp_path / "run", **options, time_budget=590)
    assert outcome["record"]["arguments"]["num_train_epochs"] == 3


def test_resumed_run_keeps_the_length_that_its_budget_had(
    reviews: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(100, monkeypatch)
    options = {**reviews, "num_train_epochs": 8, "time_budget": 490, "save_total_limit": 9}
    whole = train_tiny(tmp_path / "run", **options)
    assert whole["record"]["arguments"]["num_train_epochs"] == 4
    expected = weights(tmp_path / "run")
    (tmp_path / "run/model.safetensors").unlink()
    first = min((tmp_path / "run").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    take(1000, monkeypatch)
    train_tiny(tmp_path / "run", **options, resume_from_checkpoint=first)
    assert same_weights(weights(tmp_path / "run"), expected)


@pytest.mark.parametrize("task", [RetrievalTask, TranslationTask])
def test_every_task_estimates_an_epoch(task: Any, tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "pairs.jsonl", PAIRS)
    sizes = {"embedding_size": 6, "hidden_size": 4, "attention_size": 5, "maxout_size": 4}
    if task is RetrievalTask:
        sizes = {name: x for name, x in TINY_MODEL.items() if "classifier" not in name}
    options = {**QUIET, **sizes, "train_file": rows, "validation_file": rows, "do_train": True}
    options |= {"eval_strategy": "epoch", "do_eval": True, "time_budget": 1000}
    folder = tmp_path / "run"
    words = flags(**options, num_train_epochs=1, output_dir=folder, per_device_train_batch_size=2)
    outcome = run(parse_arguments(task, words))
    assert outcome["record"]["arguments"]["num_train_epochs"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_budget": 0}, "--time_budget is 0.0; it must be above 0"),
        ({"time_budget": 60, "max_steps": 5}, "--time_budget is 60, and --max_steps is 5; leave"),
        ({"time_budget": 60, "folds": 2}, "--folds is 2, and --time_budget is 60; leave out one"),
    ],
)
def test_time_budget_refuses(
    options: dict[str, Any], message: str, reviews: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        train_tiny(tmp_path / "run", **reviews, **options)


def test_time_budget_without_a_training_is_refused(reviews: dict[str, str], tmp_path: Path) -> None:
    train_tiny(tmp_path / "run", **reviews, max_steps=1)
    options = {"model_name_or_path": tmp_path / "run", "do_eval": True, "time_budget": 60}
    files = {"validation_file": reviews["validation_file"]}
    with pytest.raises(ValueError, match="--time_budget is 60, but nothing is trained; leave it"):
        run_tiny(tmp_path / "evaluated", **files, **options)


def test_time_budget_in_which_nothing_is_learnt_is_refused(
    reviews: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(1000, monkeypatch)
    message = r"--time_budget is 60 seconds, .* an epoch takes about 1000; give at least 15\d\d, or"
    with pytest.raises(ValueError, match=message):
        train_tiny(tmp_path / "run", **reviews, time_budget=60)
