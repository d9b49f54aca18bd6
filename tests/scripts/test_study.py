"""scripts/study.py: what it trains, skips, resumes and repeats, and its errors."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import studying.runs
from runs import QUIET, TINY_MODEL, write_splits
from script_files import SCRIPTS, load_script
from studying.runs import Run, collect_runs, settings_of, state_of, train
from transformers import AutoConfig

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
    """A study in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.recipes = root / "recipes"
        self.recipes.mkdir()
        files = write_splits(root)
        base = {**BASE, "train_file": files["train_file"]}
        base["validation_file"] = files["validation_file"]
        (root / "base.json").write_text(json.dumps(base))

    def run(self, name: str, seed: int = 42, **settings: Any) -> Run:
        """Write a recipe, the common base and some settings of its own, and return its run."""
        path = self.recipes / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        base = os.path.relpath(self.root / "base.json", path.parent)
        path.write_text(json.dumps({"base": base, **settings}))
        [run] = self.collect([path], [seed])
        return run

    def collect(self, paths: list[Path], seeds: list[int]) -> list[Run]:
        """Return the runs of recipes."""
        return collect_runs(paths, seeds, self.root / "runs", self.root / "records", self.recipes)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """A study without recipes."""
    return Study(tmp_path)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a process is started."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a training is started")

    monkeypatch.setattr(studying.runs.subprocess, "run", refuse)


def leave_checkpoint(run: Run, *, settings: dict[str, Any], is_complete: bool = True) -> None:
    """Leave what a stopped run leaves."""
    checkpoint = run.folder / "checkpoint-12"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text(json.dumps({"epoch": 3.0}))
    run.settings.write_text(json.dumps(settings))
    if is_complete:
        write_manifest(checkpoint)


@pytest.mark.slow
def test_train_writes_a_record_and_repeats_a_changed_recipe(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    run = study.run("task/one")
    assert train(run)
    record = json.loads(run.record.read_text())
    assert [entry["epoch"] for entry in record["history"]] == [1, 2]
    assert 0 < record["attention"]["entropy"] <= 1
    assert 0 < record["attention"]["overlap"] < 1
    assert 0 <= record["label_shift"]["accuracy"] <= 1
    assert AutoConfig.from_pretrained(run.folder).num_hops == TINY_MODEL["num_hops"]
    assert list_checkpoints(run.folder) == []
    assert str(state_of(run)) == f"done, accuracy {record['metrics']['accuracy']:.2%}"

    run = study.run("task/one", pooling="max")
    capsys.readouterr()
    assert train(run)
    assert "one-seed42: changed, pooling was its default and is max" in capsys.readouterr().out
    record = json.loads(run.record.read_text())
    assert record["config"]["pooling"] == "max"
    assert "attention" not in record


@pytest.mark.slow
def test_train_reports_a_failed_run_with_the_end_of_its_log(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """One bad recipe must not stop the others, which take days."""
    run = study.run("broken", train_file="nowhere.jsonl")
    assert not train(run)
    output = capsys.readouterr().out
    assert "broken-seed42: failed with status 1" in output
    assert "nowhere.jsonl" in output
    assert not run.record.exists()


@pytest.mark.slow
def test_train_resumes_a_killed_run(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    """What is resumed has one history, and its record is that of the same settings."""
    run = study.run("long", num_train_epochs=12, save_total_limit=1)
    run.folder.mkdir(parents=True)
    run.settings.write_text(json.dumps(settings_of(run)))
    process = subprocess.Popen([sys.executable, str(SCRIPTS / "train.py"), *run.words])
    while not any(run.folder.glob("*/manifest.json")):
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert state_of(run).kind == "unfinished"
    assert train(run)
    assert "long-seed42: unfinished, checkpoint-" in capsys.readouterr().out
    record = json.loads(run.record.read_text())
    assert [entry["epoch"] for entry in record["history"]] == list(range(1, 13))
    assert state_of(run).kind == "done"


def test_state_is_unfinished_only_with_a_complete_checkpoint_of_the_same_settings(
    study: Study,
) -> None:
    run = study.run("one")
    for name, changes, is_complete, expected in (
        ("complete", {}, True, "unfinished, checkpoint-12"),
        ("cut off", {}, False, "missing"),
        ("other", {"num_hops": 9}, True, "missing"),
    ):
        other = Run(run.recipe, 42, study.root / name, study.root / "records", study.recipes)
        leave_checkpoint(other, settings={**settings_of(other), **changes}, is_complete=is_complete)
        assert str(state_of(other)) == expected


@pytest.mark.usefixtures("no_training")
def test_train_skips_a_record_that_differs_only_in_settings_without_effect(study: Study) -> None:
    run = study.run("one", seed=7, label_smoothing_factor=0.1)
    arguments = {**settings_of(run), "save_total_limit": 5, "logging_steps": 1}
    assert arguments["seed"] == 7
    run.record.parent.mkdir()
    run.record.write_text(json.dumps({"arguments": arguments, "metrics": {"accuracy": 0.5}}))
    assert train(run)
    assert str(state_of(run)) == "done, accuracy 50.00%"
    assert str(state_of(study.run("one", seed=42))) == "missing"


def test_collect_runs_puts_the_first_seed_of_all_recipes_first(study: Study) -> None:
    """Then the tables are complete early; further seeds make them sure."""
    recipes = [study.run("a").recipe, study.run("sub/b").recipe]
    runs = study.collect([study.recipes, recipes[0]], [2, 1])
    assert [run.name for run in runs] == ["a-seed2", "sub/b-seed2", "a-seed1", "sub/b-seed1"]


def test_study_refuses_wrong_recipes_before_it_trains(study: Study) -> None:
    empty = study.root / "empty"
    empty.mkdir()
    for path, message in (
        (study.root / "nowhere", r"there is no recipe or folder .*nowhere"),
        (empty, r"empty contains no recipe; recipes of a study end in \.yaml"),
        (study.root / "base.json", r"base\.json is not in .*recipes, where its place would name"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            study.collect([path], [42])
    with pytest.raises(ValueError, match=r"bad\.yaml: a value has the wrong type"):
        state_of(study.run("bad", pooling="median"))


def test_study_status_and_detach_use_the_recipes_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the background it is the same command, in a session of its own."""
    started: list[tuple[list[str], dict[str, Any]]] = []

    class Started:
        pid = 1234

        def __init__(self, command: list[str], **options: Any) -> None:
            started.append((command, options))

    recipe = str(SCRIPTS / "recipes" / "study" / "snli" / "gated.yaml")
    script = load_script("study")
    words = [recipe, f"--runs={tmp_path}", f"--records={tmp_path}", "--seeds", "42", "43"]
    script.main(["status", *words])
    assert capsys.readouterr().out.splitlines() == [
        "snli/gated-seed42  missing",
        "snli/gated-seed43  missing",
    ]
    monkeypatch.setattr(script.subprocess, "Popen", Started)
    script.main(["run", *words, "--detach"])
    [(command, options)] = started
    assert command[1].endswith("scripts/study.py")
    assert command[2:] == ["run", *words]
    assert options["start_new_session"]
    assert capsys.readouterr().out.startswith(f"pid 1234, log {tmp_path / 'study.log'}")
