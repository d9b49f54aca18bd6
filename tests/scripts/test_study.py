"""scripts/study.py: what it trains, skips, resumes and repeats, and its errors."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import studying.runs
import torch
from runs import QUIET, TINY_MODEL, write_splits
from script_files import SCRIPTS, load_script
from studying.measurements import accuracy_by_length, adapted_accuracy
from studying.runs import Run, _locked_log, collect_runs, settings_of, state_of, train
from transformers import AutoConfig

from sase_hf.training.checkpoints import list_checkpoints, write_manifest

RECIPE = {
    **TINY_MODEL,
    **{name: value for name, value in QUIET.items() if name != "disable_tqdm"},
    "do_train": True,
    "do_eval": True,
    "num_train_epochs": 2,
    "eval_strategy": "epoch",
    "load_best_model_at_end": True,
    "metric_for_best_model": "accuracy",
    "save_total_limit": 1,
}


def write_run(root: Path, name: str = "one", seed: int = 42, **settings: Any) -> Run:
    """Write a recipe and return its run, in a study in `root`."""
    path = root / "recipes" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**RECIPE, **settings}))
    [run] = collect_runs([path], [seed], root / "runs", root / "records", root / "recipes")
    return run


@pytest.mark.slow
def test_train_resumes_a_killed_run_and_writes_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is resumed has one history, and its record has the same settings."""
    files = write_splits(tmp_path)
    splits = {name: files[name] for name in ("train_file", "validation_file")}
    run = write_run(tmp_path, "task/one", num_train_epochs=8, **splits)
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
    assert "task/one-seed42: unfinished, checkpoint-" in capsys.readouterr().out
    record = json.loads(run.record.read_text())
    assert [entry["epoch"] for entry in record["history"]] == list(range(1, 9))
    assert 0 < record["attention"]["entropy"] <= 1
    assert 0 < record["attention"]["cosine"] < 1
    counted = sum(group["rows"] for group in record["by_length"])
    assert counted == record["sources"]["validation"]["rows"]
    assert 0 <= record["label_shift"]["accuracy"] <= 1
    assert AutoConfig.from_pretrained(run.folder).num_hops == TINY_MODEL["num_hops"]
    assert list_checkpoints(run.folder) == []
    assert str(state_of(run)) == f"done, accuracy {record['metrics']['accuracy']:.2%}"


def test_train_repeats_no_training_of_a_study_killed_before_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path)
    run = replace(run, kind=run.kind._replace(measure=lambda *_: {"measured": True}))
    checkpoint = run.folder / "checkpoint-12"
    checkpoint.mkdir(parents=True)
    write_manifest(checkpoint)
    run.settings.write_text(json.dumps(settings_of(run)))
    record = {"arguments": settings_of(run), "config": {}, "metrics": {"accuracy": 0.5}}
    (run.folder / "record.json").write_text(json.dumps(record))  # the last file of train.py
    monkeypatch.setattr(studying.runs.subprocess, "run", Mock(side_effect=AssertionError))
    assert train(run)
    assert json.loads(run.record.read_text()) == record | {"measured": True}


@pytest.mark.slow
def test_train_waits_for_the_training_of_a_killed_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise two processes would write the same checkpoints."""
    run, fail = write_run(tmp_path), Mock(return_value=SimpleNamespace(returncode=3))
    with _locked_log(run) as log:  # as the study holds it, and as its child has it
        orphan = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"], stdout=log)
    monkeypatch.setattr(studying.runs.subprocess, "run", fail)
    assert not train(run)
    assert orphan.poll() == 0
    waits, missing, _ = capsys.readouterr().out.splitlines()
    assert waits.startswith("one-seed42: waits for the process that trains it; see ")
    assert missing == "one-seed42: missing"


def test_train_skips_a_record_that_differs_only_in_settings_without_effect(tmp_path: Path) -> None:
    run = write_run(tmp_path, seed=7, label_smoothing_factor=0.1)
    arguments = {**settings_of(run), "save_total_limit": 5, "logging_steps": 1}
    run.record.parent.mkdir()
    run.record.write_text(
        json.dumps({"arguments": arguments, "config": {}, "metrics": {"accuracy": 0.5}})
    )
    assert train(run)
    assert not run.runs.exists()
    checkpoint = run.folder / "checkpoint-12"  # as a kill between the record and the end leaves it
    checkpoint.mkdir(parents=True)
    assert train(run)
    assert not checkpoint.exists()
    assert str(state_of(run)) == "done, accuracy 50.00%"
    assert str(state_of(write_run(tmp_path, seed=42))) == "missing"


def test_train_repeats_a_changed_recipe_and_reports_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One bad recipe must not stop the others, which take days."""
    fail = Mock(return_value=SimpleNamespace(returncode=3))
    run = write_run(tmp_path)
    run.record.parent.mkdir()
    run.record.write_text(
        json.dumps({"arguments": settings_of(run), "config": {}, "metrics": {"accuracy": 1}})
    )
    old_model = run.folder / "model.safetensors"
    run.folder.mkdir(parents=True)
    old_model.touch()
    monkeypatch.setattr(studying.runs.subprocess, "run", fail)
    assert not train(write_run(tmp_path, pooling="max"))
    assert "--resume_from_checkpoint=true" not in fail.call_args.args[0]
    assert not old_model.exists()
    printed = capsys.readouterr().out
    assert "one-seed42: changed, pooling\n" in printed
    assert "one-seed42: failed with status 3; see " in printed


def test_state_is_unfinished_only_with_a_complete_checkpoint_of_the_same_settings(
    tmp_path: Path,
) -> None:
    run = write_run(tmp_path)
    checkpoint = run.folder / "checkpoint-12"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text(json.dumps({"epoch": 3.0}))
    run.settings.write_text(json.dumps(settings_of(run)))
    assert str(state_of(run)) == "missing"
    write_manifest(checkpoint)
    assert str(state_of(run)) == "unfinished, checkpoint-12"
    run.settings.write_text(json.dumps({**settings_of(run), "num_hops": 9}))
    assert str(state_of(run)) == "missing"


def test_collect_runs_puts_the_first_seed_of_all_recipes_first(tmp_path: Path) -> None:
    """Then the tables are complete early; further seeds make them sure."""
    recipes = [write_run(tmp_path, name).recipe for name in ("a", "sub/b")]
    folder = tmp_path / "recipes"
    runs = collect_runs([folder, recipes[0]], [2, 1], tmp_path, tmp_path, folder)
    assert [run.name for run in runs] == ["a-seed2", "sub/b-seed2", "a-seed1", "sub/b-seed1"]


def test_study_refuses_wrong_recipes_before_it_trains(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"contains no recipe; recipes of a study end in \.yaml"):
        collect_runs([tmp_path], [42], tmp_path, tmp_path)
    with pytest.raises(ValueError, match=r"other\.yaml is not in .*recipes/study"):
        collect_runs([tmp_path / "other.yaml"], [42], tmp_path, tmp_path)
    with pytest.raises(ValueError, match=r"bad\.yaml: a value has the wrong type"):
        state_of(write_run(tmp_path, "bad", pooling="median"))


def test_study_status_and_detach_use_the_recipes_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the background it is the same command, in a session of its own."""
    script, start = load_script("study"), Mock(return_value=SimpleNamespace(pid=1234))
    recipe = str(SCRIPTS / "recipes" / "study" / "snli" / "gated.yaml")
    words = [recipe, f"--runs={tmp_path}", f"--records={tmp_path}", "--seeds", "42", "43"]
    script.main(["status", *words])
    printed = capsys.readouterr().out
    assert printed == "snli/gated-seed42  missing\nsnli/gated-seed43  missing\n"
    monkeypatch.setattr(script.subprocess, "Popen", start)
    script.main(["run", *words, "--detach"])
    assert start.call_args.args[0][2:] == ["run", *words]
    assert start.call_args.kwargs["start_new_session"]
    assert capsys.readouterr().out == f"pid 1234, log {tmp_path / 'study.log'}\n"


def test_accuracy_by_length_keeps_rows_of_one_length_together() -> None:
    """Fifths by length, then the longest twentieth; a length stands in one group only."""
    lengths = torch.tensor([*range(1, 101), 100, 100])
    labels = torch.zeros(len(lengths), dtype=torch.long)
    logits = torch.stack([50.5 - lengths, torch.zeros(len(lengths))], 1)  # right up to 50 tokens
    order = torch.randperm(len(lengths))
    groups = accuracy_by_length(logits[order], labels, lengths[order])
    assert [(group["from"], group["to"]) for group in groups] == [
        (1, 21), (22, 41), (42, 61), (62, 81), (82, 96), (97, 100)
    ]  # fmt: skip
    assert [group["rows"] for group in groups] == [21, 20, 20, 20, 15, 6]
    assert [group["accuracy"] for group in groups] == [1, 1, 0.45, 0, 0, 0]
    assert groups[0]["tokens"] == 11
    same = accuracy_by_length(logits, labels, torch.full_like(lengths, 7))
    assert [group["rows"] for group in same] == [len(lengths)]


def test_adapted_accuracy_scores_no_row_by_itself() -> None:
    """Two rows of different labels: each is judged by the frequencies of the other alone."""
    undecided, even = torch.zeros(2, 2), torch.tensor([0, 1])
    assert adapted_accuracy(undecided, torch.tensor([0, 1]), even) == 0
    assert adapted_accuracy(undecided, torch.tensor([1, 1]), even) == 1


def test_adapted_accuracy_gains_where_frequencies_differ() -> None:
    """Two overlapping bell curves, learned from equal numbers, then met nine to one."""
    labels = (torch.rand(20_000) < 0.1).long()
    x = torch.randn(20_000) + 2 * labels
    logits = torch.stack([torch.zeros_like(x), 2 * x - 2], 1)  # exact where labels are as frequent
    plain = (logits.argmax(1) == labels).float().mean().item()
    by_bayes = (logits + torch.tensor([0.9, 0.1]).log()).argmax(1)
    best = (by_bayes == labels).float().mean().item()
    adapted = adapted_accuracy(logits, labels, torch.tensor([0, 1]))
    assert adapted == pytest.approx(best, abs=0.002)
    assert adapted > plain + 0.05
