"""The time budget of a run: which epochs it leaves, and that it changes nothing else."""

import itertools
import logging
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rows import write_jsonl
from runs import QUIET, SIZES, TINY_MODEL, flags, run_tiny, same_weights, train_tiny, weights

from sase_hf.tasks import LabelTask, RetrievalTask, TranslationTask
from sase_hf.training import run, time_budget
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.time_budget import Costs
from sase_hf.training.trainer import SelfAttentiveTrainer

PAIRS = [{"query": f"which animal number {n}", "document": f"number {n} ran"} for n in range(12)]
ROWS_PER_UPDATE = 4
UPDATES_PER_EPOCH = 12


def take(monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
    """Let an epoch of updates, the evaluation of all rows and a checkpoint take so many seconds."""
    costs = Costs(
        update=seconds.get("updates", 0.0) / UPDATES_PER_EPOCH,
        row=seconds.get("evaluation", 0.0) / SIZES["validation"],
        save=seconds.get("save", 0.0),
    )
    monkeypatch.setattr(time_budget, "measure", lambda task, setup: costs)


def act_before(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Let a method of the trainer begin with an act."""
    method = getattr(SelfAttentiveTrainer, name)

    def acting(*arguments: Any, **options: Any) -> Any:
        act()
        return method(*arguments, **options)

    monkeypatch.setattr(SelfAttentiveTrainer, name, acting)


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


def epochs_of(folder: Path, **options: Any) -> Any:
    options = {"num_train_epochs": 8, "per_device_train_batch_size": ROWS_PER_UPDATE, **options}
    return train_tiny(folder, **options)["record"]["arguments"]["num_train_epochs"]


@pytest.mark.parametrize(
    ("seconds", "epochs"), [(150, 6), (600, 1), (1200, 0.8), (120, 8), (9000, 0.1)]
)
def test_time_budget_chooses_the_epochs_that_fit(
    seconds: float,
    epochs: float,
    reviews: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="sase_hf.training.time_budget")
    take(monkeypatch, updates=seconds)
    options = {**reviews, "eval_strategy": "epoch", "do_eval": True, "time_budget": 999}
    assert epochs_of(tmp_path / "run", **options) == epochs
    assert f"an epoch takes about {seconds:.2g} and what follows" in caplog.text
    assert f"so {epochs:g} of 8 epochs fit" in caplog.text
    assert re.search(r"the run took \d+ of 999 seconds", caplog.text)


@pytest.mark.parametrize("planned", [1.5, 0.05])
def test_time_budget_leaves_a_part_of_an_epoch_that_fits(
    planned: float, reviews: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(monkeypatch, updates=580)
    options = {**reviews, "num_train_epochs": planned, "time_budget": 999}
    assert epochs_of(tmp_path / "run", **options) == planned


@pytest.mark.parametrize(
    ("seconds", "options", "epochs"),
    [
        ({"evaluation": 100}, {"eval_strategy": "epoch", "do_eval": True}, 4),  # and one at the end
        ({"evaluation": 100}, {"eval_strategy": "steps", "eval_steps": 6, "do_eval": True}, 2),
        ({"evaluation": 50}, {"eval_strategy": "steps", "eval_steps": 1 / 32, "do_eval": True}, 3),
        ({"evaluation": 850}, {"do_eval": True}, 1),
        ({"evaluation": 600}, {"do_predict": True}, 5),  # of two thirds as many rows
        ({"save": 50}, {"save_strategy": "epoch"}, 6),
        ({"save": 100}, {"save_strategy": "steps", "save_steps": 4}, 2),
    ],
)
def test_time_budget_counts_what_interrupts_and_follows_a_training(
    seconds: dict[str, float],
    options: dict[str, Any],
    epochs: int,
    reviews: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take(monkeypatch, updates=100, **seconds)
    options = {"save_strategy": "no", **options, "time_budget": 999}
    assert epochs_of(tmp_path / "run", **reviews, **options) == epochs


def test_time_budget_leaves_time_for_the_report(
    reviews: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(monkeypatch, updates=100)
    options = {**reviews, "do_eval": True, "report": True, "time_budget": 699}
    assert epochs_of(tmp_path / "run", **options) == 5


def test_time_budget_begins_no_epoch_that_does_not_fit(
    reviews: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The machine is slower in the training than in the trial."""
    caplog.set_level(logging.INFO, logger="sase_hf.training.time_budget")
    take(monkeypatch, updates=1e-6)
    clock = itertools.count(0, 100)
    monkeypatch.setattr(time_budget.TimeBudget, "passed", property(lambda _: next(clock)))
    options = {**reviews, "num_train_epochs": 8, "time_budget": 699}
    outcome = train_tiny(tmp_path / "run", **options, eval_strategy="epoch", do_eval=True)
    assert [evaluation["epoch"] for evaluation in outcome["record"]["history"]] == [1, 2, 3]
    assert "no further epoch fits after 600 of 699 seconds" in caplog.text
    assert caplog.records[-1].getMessage() == "time budget: the run took 700 of 699 seconds"
    assert caplog.records[-1].levelno == logging.WARNING


@pytest.mark.parametrize("strategy", ["epoch", "steps"])
def test_time_budget_lets_a_run_end_that_takes_what_was_estimated(
    strategy: str, reviews: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluations between the updates of an epoch are not counted twice."""
    take(monkeypatch, updates=20, evaluation=10)
    now = 0.0

    def spend(seconds: float) -> None:
        nonlocal now
        now += seconds

    act_before(monkeypatch, "training_step", partial(spend, 20 / UPDATES_PER_EPOCH))
    act_before(monkeypatch, "evaluation_loop", partial(spend, 10))
    monkeypatch.setattr(time_budget.TimeBudget, "passed", property(lambda _: now))
    options = {"num_train_epochs": 8, "per_device_train_batch_size": ROWS_PER_UPDATE}
    options |= {"eval_strategy": strategy, "eval_steps": UPDATES_PER_EPOCH / 2, "do_eval": True}
    outcome = train_tiny(tmp_path / "run", **reviews, **options, time_budget=171)
    planned = 5 if strategy == "epoch" else 4
    assert outcome["record"]["arguments"]["num_train_epochs"] == planned
    assert outcome["record"]["history"][-1]["epoch"] == planned


def test_resumed_run_keeps_the_length_that_its_budget_had(
    reviews: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(monkeypatch, updates=100)
    options = {**reviews, "num_train_epochs": 8, "time_budget": 499, "save_total_limit": 9}
    options["per_device_train_batch_size"] = ROWS_PER_UPDATE
    folder = tmp_path / "run"
    whole = train_tiny(folder, **options)
    assert whole["record"]["arguments"]["num_train_epochs"] == 4
    expected = weights(folder)
    first, *_, last = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    take(monkeypatch, updates=1000)
    resumed = train_tiny(folder, **options, resume_from_checkpoint=first)
    assert same_weights(weights(folder), expected)
    assert resumed["record"]["arguments"]["num_train_epochs"] == 4
    with pytest.raises(ValueError, match=r"has ended; leave out --time_budget to train for more"):
        train_tiny(folder, **options, resume_from_checkpoint=last)


def test_trial_measures_updates_evaluations_and_checkpoints(
    reviews: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is slowed; the model of the run is not trained, and its folder stays empty."""
    act_before(monkeypatch, "training_step", partial(time.sleep, 0.02))
    act_before(monkeypatch, "evaluation_loop", partial(time.sleep, 0.9))
    act_before(monkeypatch, "_save_checkpoint", partial(time.sleep, 0.5))
    options = {**QUIET, **TINY_MODEL, **reviews, "do_train": True, "warmup_steps": 1000}
    task = parse_arguments(LabelTask, flags(**options, output_dir=tmp_path / "run"))
    setup = task.assemble()
    before = {name: weight.clone() for name, weight in setup.model.state_dict().items()}
    costs = time_budget.measure(task, setup)
    assert costs.update >= 0.02
    assert costs.row >= 0.9 / SIZES["validation"]
    assert costs.save >= 0.5
    assert same_weights(setup.model.state_dict(), before)
    assert not (tmp_path / "run").exists()


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
        ({"time_budget": 0}, "--time_budget is 0.0; it must be above 0 and finite"),
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
    take(monkeypatch, updates=1000)
    message = (
        r"--time_budget is 60 seconds, of which \d+ have passed, an epoch takes about 1e\+03 and "
        r"what follows the training about 0; give at least 1\d\d\d, or fewer rows"
    )
    with pytest.raises(ValueError, match=message):
        epochs_of(tmp_path / "run", **reviews, time_budget=60)
