"""scripts/lab/study.py: the runs that it trains, skips, resumes and repeats, and their records."""

import json
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import runner
import study
from records import read_record, replace_record, settings_sha
from runner import complete, state_of
from runs import QUIET, TINY_MODEL, write_splits
from transformers import TrainerState
from variants import read_variant

from sase_hf.training.run import list_checkpoints

RECIPE = {**TINY_MODEL, **QUIET}
RECIPE |= {"do_train": True, "do_eval": True, "eval_strategy": "epoch", "save_total_limit": 1}
RECIPE |= {"load_best_model_at_end": True, "metric_for_best_model": "accuracy"}


def write_run(root: Path, variant: str = "one", seed: int = 42, **settings: Any) -> study.Training:
    """Write a recipe and return the run of a variant, in a study in `root`."""
    path = root / "recipes/task.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**RECIPE, **settings, "variants": {variant: {}}}))
    folders = {"runs": root / "runs", "records": root / "records"}
    given = Namespace(recipes=[f"{path}#{variant}"], seeds=[seed], **folders)
    [run] = study.collect_runs(given)
    return run


@pytest.mark.slow
def test_study_resumes_a_killed_run_and_writes_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A resumed run has one history, and its record has the same settings."""
    files = write_splits(tmp_path)
    splits = {name: files[name] for name in ("train_file", "validation_file")}
    run = write_run(tmp_path, num_train_epochs=8, **splits)
    run.start_over()
    process = subprocess.Popen([sys.executable, runner.SCRIPTS / "train.py", *run.words])
    while state_of(run) == "missing":  # a file is there before its content
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    complete([run])
    assert "task/one-seed42: unfinished, checkpoint-" in capsys.readouterr().out
    record = read_record(f"{run.records}#task/one-seed42")
    assert [entry["epoch"] for entry in record["history"]] == list(range(1, 9))
    assert list_checkpoints(run.folder) == []
    assert state_of(run) == f"done, accuracy {record['metrics']['accuracy']:.4f}"


def test_state_of_a_run_depends_on_the_settings_that_decide_its_result(tmp_path: Path) -> None:
    run = write_run(tmp_path, num_hops=3)
    assert state_of(run) == "missing"
    run.start_over()
    checkpoint = run.folder / "checkpoint-12"
    checkpoint.mkdir()
    TrainerState().save_to_json(checkpoint / "trainer_state.json")
    assert state_of(run) == "unfinished, checkpoint-12"
    own = {"run": run.name, "settings_sha": settings_sha(run.settings)}
    replace_record(run.records, {**own, "metrics": {"accuracy": 0.5}})
    same = write_run(tmp_path, num_hops=3, save_total_limit=5, logging_steps=1)
    assert state_of(same) == "done, accuracy 0.5000"
    assert state_of(write_run(tmp_path, num_hops=9)) == "changed"
    assert state_of(write_run(tmp_path, num_hops=3, seed=7)) == "missing"


def test_read_variant_overrides_the_entries_of_variants_and_recipes(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "first.json").write_text('{"num_hops": 5, "pooling": "max", "max_tokens": 9}')
    (tmp_path / "sub/other.yaml").write_text("base: ../first.json\nmax_tokens:\n")
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "base: sub/other.yaml\npenalty_coef: 0.3\nvariants:\n  plain:\n"
        "  small: {num_hops: 2, seed: 1}\n  wide: {base: small, seed: 3}\n"
    )
    base = {"num_hops": "5", "pooling": "max", "max_tokens": None, "penalty_coef": "0.3"}
    assert read_variant(f"{path}#plain") == base
    assert read_variant(f"{path}#wide") == {**base, "num_hops": "2", "seed": "3"}
