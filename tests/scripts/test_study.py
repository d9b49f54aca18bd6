"""scripts/study.py: what is trained, skipped, repeated and resumed, and what is left of it."""

import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
from runs import QUIET, TINY_MODEL, write_splits
from script_files import load_script
from studying import execution
from studying import runs as studied
from studying.runs import Run, collect_runs, settings_of, state_of
from transformers import AutoConfig
from transformers.utils import logging

from sase_hf.training.checkpoints import list_checkpoints, write_manifest

BASE = {
    **TINY_MODEL,
    **{name: value for name, value in QUIET.items() if name != "disable_tqdm"},
    "do_train": True,
    "do_eval": True,
    "num_train_epochs": 2,
    "eval_strategy": "epoch",
    "load_best_model_at_end": True,
    "metric_for_best_model": "accuracy",
}


class Study:
    """A study in a folder of its own: its recipes, and the script called upon it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recipes = root / "recipes"
        self.recipes.mkdir()
        files = write_splits(root)
        base = {**BASE, "train_file": files["train_file"]}
        base["validation_file"] = files["validation_file"]
        (root / "base.json").write_text(json.dumps(base))
        self.main: Callable[[list[str]], None] = load_script("study").main

    def write(self, name: str, **settings: Any) -> Path:
        """Write a recipe: the common base and some settings of its own."""
        path = self.recipes / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        base = os.path.relpath(self.root / "base.json", path.parent)
        path.write_text(json.dumps({"base": base, **settings}))
        return path

    def __call__(self, command: str, *words: object, seed: int = 42) -> None:
        """Call the script."""
        folders = [f"--runs={self.root / 'runs'}", f"--records={self.root / 'records'}"]
        self.main([command, *map(str, words), *folders, "--seeds", str(seed)])

    def run(self, recipe: Path, seed: int = 42) -> Run:
        """Return the run of a recipe."""
        [run] = collect_runs([recipe], [seed], self.root / "runs", self.root / "records")
        return run


@pytest.fixture
def quiet() -> Iterator[None]:
    """Take back what the script sets for the whole process."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    logging.enable_progress_bar()
    datasets.enable_progress_bars()


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: None) -> Study:
    """A study without recipes."""
    monkeypatch.setattr(studied, "RECIPES", tmp_path / "recipes")
    return Study(tmp_path)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a process is started."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a training is started")

    monkeypatch.setattr(execution.subprocess, "Popen", refuse)


def leave_checkpoint(run: Run, *, settings: dict[str, Any], is_whole: bool = True) -> None:
    """Leave what a run that was stopped leaves behind."""
    checkpoint = run.folder / "checkpoint-12"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text(json.dumps({"epoch": 3.0}))
    run.begun_with.write_text(json.dumps(settings))
    if is_whole:
        write_manifest(checkpoint)


def test_a_study_trains_what_it_can_skips_what_is_done_and_repeats_what_changed(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """A study runs for days without anybody looking: one bad recipe must not cost the others."""
    broken = study.write("task/broken", train_file="nowhere.jsonl")
    attentive, pooled = study.write("task/attentive"), study.write("task/max", pooling="max")
    with pytest.raises(SystemExit, match=r"1 of 3 runs failed: task/broken-seed42"):
        study("run", study.recipes, "--jobs", 2)
    output = capsys.readouterr().out
    assert "task/broken-seed42: FAILED, it ended with status 1" in output
    assert "nowhere.jsonl" in output, "the end of its log is shown"
    assert "3/3" in output

    record = json.loads((study.root / "records/task/attentive-seed42.json").read_text())
    assert [entry["epoch"] for entry in record["history"]] == [1, 2]
    assert 0 < record["attention"]["entropy"] <= 1
    assert 0 < record["attention"]["overlap"] < 1
    assert 0 <= record["label_shift"]["accuracy"] <= 1
    assert "attention" not in json.loads(study.run(pooled).record.read_text())
    assert not study.run(broken).record.exists()
    folder = study.run(attentive).folder
    assert AutoConfig.from_pretrained(folder).num_hops == TINY_MODEL["num_hops"]
    assert list_checkpoints(folder) == []

    broken.unlink()
    study.write("task/max", pooling="mean")
    study("status", study.recipes)
    states = capsys.readouterr().out
    accuracy = f"{record['metrics']['accuracy']:.2%}"
    assert f"task/attentive-seed42  done, accuracy {accuracy}" in states
    assert "stale: pooling was max and is mean" in states
    study("run", study.recipes)
    output = capsys.readouterr().out
    assert "task/attentive-seed42: begins" not in output
    assert "task/max-seed42: begins (stale: pooling was max and is mean)" in output
    assert json.loads(study.run(pooled).record.read_text())["config"]["pooling"] == "mean"
    assert state_of(study.run(pooled)).kind == "done"


def test_a_stopped_study_goes_on(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGTERM, as from a machine that shuts down, ends the training too and loses no epoch.

    However often it comes: whoever is impatient must not leave trainings behind.
    """
    recipe = study.write("long", num_train_epochs=12, save_total_limit=1)
    other = study.write("other", num_train_epochs=12)
    run = study.run(recipe)
    ask_one, interrupt = execution.Training.terminate, signal.getsignal(signal.SIGINT)

    def stop() -> None:
        while not any(path.name == "manifest.json" for path in run.folder.rglob("*")):
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGTERM)

    def insist(training: execution.Training) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        ask_one(training)

    monkeypatch.setattr(execution.Training, "terminate", insist)

    def refuse(*_: object) -> None:
        raise AssertionError("the study does not catch SIGTERM")

    earlier = signal.signal(signal.SIGTERM, refuse)
    try:
        threading.Thread(target=stop, daemon=True).start()
        with pytest.raises(SystemExit, match=r"study\.py: stopped; the same command goes on"):
            study("run", recipe, other, "--jobs", 2)
        assert [signal.getsignal(number) for number in execution.SIGNALS] == [refuse, interrupt]
    finally:
        signal.signal(signal.SIGTERM, earlier)
    state = state_of(run)
    assert state.kind == "in progress"
    assert 1 <= (state.epoch or 0) < 12
    for path in (run.log, study.run(other).log):
        with path.open() as log:  # would fail if the process were still there
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)

    study("run", recipe)
    assert f"long-seed42: goes on (in progress, epoch {state.epoch:g})" in capsys.readouterr().out
    record = json.loads(run.record.read_text())
    assert [entry["epoch"] for entry in record["history"]] == list(range(1, 13))
    assert state_of(run).kind == "done", "that it was resumed is no other setting"


def test_only_a_whole_checkpoint_of_the_same_settings_is_gone_on_from(study: Study) -> None:
    """Half of a training with other settings would be in no record."""
    recipe = study.write("one")
    for name, changes, is_whole, expected in (
        ("whole", {}, True, "in progress, epoch 3"),
        ("cut off", {}, False, "in progress, no epoch"),
        ("of others", {"num_hops": 9}, True, "missing"),
    ):
        run = Run(recipe, 42, study.root / name, study.root / "records")
        leave_checkpoint(run, settings={**settings_of(run), **changes}, is_whole=is_whole)
        assert str(state_of(run)) == expected


@pytest.mark.usefixtures("no_training")
def test_settings_without_effect_make_no_record_stale(study: Study) -> None:
    """Each figure of the study costs hours; how it was logged does not change it."""
    recipe = study.write("one", label_smoothing_factor=0.1)
    run = study.run(recipe, seed=7)
    arguments = {**settings_of(run), "save_total_limit": 5, "logging_steps": 1}
    assert arguments["seed"] == 7
    run.record.parent.mkdir()
    run.record.write_text(json.dumps({"arguments": arguments, "metrics": {"accuracy": 0.5}}))
    study("run", recipe, seed=7)
    assert str(state_of(run)) == "done, accuracy 50.00%"
    assert str(state_of(study.run(recipe))) == "missing", "another seed is another run"


@pytest.mark.usefixtures("no_training")
def test_a_run_that_another_process_trains_is_left_alone(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two processes in one folder would ruin each other's checkpoints."""
    recipe = study.write("one")
    run = study.run(recipe)
    leave_checkpoint(run, settings={})
    with run.log.open("ab") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="1 of 1 runs failed"):
            study("run", recipe)
    assert "FAILED, another process is at it" in capsys.readouterr().out
    assert run.folder.exists()


@pytest.mark.usefixtures("no_training")
def test_a_run_that_another_process_has_just_done_is_not_done_again(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its record may come between the first look at the run and the lock."""
    run = study.run(study.write("one"))
    lock = fcntl.flock

    def lock_late(*args: Any) -> None:
        run.record.parent.mkdir()
        record = {"arguments": settings_of(run), "metrics": {"accuracy": 0.5}}
        run.record.write_text(json.dumps(record))
        lock(*args)

    monkeypatch.setattr(execution.fcntl, "flock", lock_late)
    study("run", run.recipe)
    assert capsys.readouterr().out == "one-seed42: done, accuracy 50.00%; 1/1\n"


@pytest.mark.usefixtures("no_training")
def test_a_look_at_a_run_survives_that_its_checkpoint_is_replaced(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training deletes the older checkpoint while `status` reads."""
    run = study.run(study.write("one"))
    leave_checkpoint(run, settings=settings_of(run))

    def find_and_lose(folder: Path) -> Path:
        [checkpoint] = list_checkpoints(folder)
        (checkpoint / "trainer_state.json").unlink()
        return checkpoint

    monkeypatch.setattr(studied, "newest_complete_checkpoint", find_and_lose)
    assert str(state_of(run)) == "in progress, no epoch"


def test_a_study_in_the_background_is_the_same_command(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a session of its own, so that it outlives the terminal; slips are told before."""
    started: list[tuple[list[str], dict[str, Any]]] = []

    class Started:
        pid = 1234

        def __init__(self, command: list[str], **options: Any) -> None:
            started.append((command, options))

    monkeypatch.setattr(execution.subprocess, "Popen", Started)
    recipe = study.write("one")
    study("run", recipe, "--detach")
    [(command, options)] = started
    assert command[1].endswith("scripts/study.py")
    assert command[2:4] == ["run", str(recipe)]
    assert "--detach" not in command
    assert options["start_new_session"]
    assert capsys.readouterr().out == f"pid 1234, log {study.root / 'runs' / 'study.log'}\n"
    with pytest.raises(SystemExit, match=r"no flag --num_hop; did you mean --num_hops"):
        study("run", study.write("two", num_hop=3), "--detach")
    assert len(started) == 1


@pytest.mark.usefixtures("no_training")
def test_what_is_no_study_is_refused_before_anything_runs(study: Study) -> None:
    """By name and with the way out."""
    good, empty = study.write("good"), study.root / "empty"
    empty.mkdir()
    for path, message in (
        (study.root / "nowhere", r"there is no recipe or folder .*nowhere"),
        (empty, r"empty holds no recipe; those of a study end in \.yaml"),
        (study.root / "base.json", r"no name in the study: its place in scripts/recipes/study"),
        (study.write("bad", pooling="median"), r"bad\.yaml: a value is not of its flag's kind"),
    ):
        with pytest.raises(SystemExit, match=message):
            study("run", good, path)


def test_every_recipe_has_its_first_seed_before_any_has_its_second(study: Study) -> None:
    """Then the tables are full early, and the further seeds make them sure."""
    recipes = [study.write("a"), study.write("sub/b")]
    runs = collect_runs([study.recipes, recipes[0]], [2, 1], study.root, study.root)
    assert [run.name for run in runs] == ["a-seed2", "sub/b-seed2", "a-seed1", "sub/b-seed1"]
