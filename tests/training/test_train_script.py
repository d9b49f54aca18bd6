"""scripts/train.py: its output, its errors, and resuming after a kill."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import script_main
from runs import QUIET, TINY_MODEL, flags, same_weights, weights, write_splits

from sase_hf.training.checkpoints import list_checkpoints

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "train.py"
RECIPE = ROOT / "scripts" / "recipes" / "synthetic_reviews.yaml"
main = script_main("train")


def test_train_prints_results_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    options = {**QUIET, **write_splits(tmp_path), "max_steps": 2, "output_dir": folder}
    record = tmp_path / "record.json"
    main([str(RECIPE), *flags(**options, record=record)])
    table = dict(
        line.split(maxsplit=1)
        for line in capsys.readouterr().out.splitlines()
        if line and line[0] != "{"
    )
    assert {"eval_accuracy", "test_macro_f1"} <= table.keys()
    assert not any(name.endswith(("_runtime", "_per_second", "_flos")) for name in table)
    assert table["model"] == str(folder)
    assert table["predictions"] == str(folder / "predictions.jsonl")
    assert table["record"] == str(record)
    assert Path(table["predictions"]).is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_hops": 0}, "num_hops is 0; it must be from 1 to"),
        ({"record": "rows"}, "rows is a folder; name a file in it"),
        ({"label_column_name": "stars"}, ".*Choose with --text_column_names and --label_column"),
    ],
)
def test_train_refuses_in_one_line_before_it_trains(
    options: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    files = {"train_file": write_splits(Path("rows"))["train_file"], "output_dir": "run"}
    with pytest.raises(SystemExit, match=rf"^train\.py: {message}"):
        main(["--do_train", *flags(**{**QUIET, **TINY_MODEL, **files, **options})])
    assert not Path("run").exists() or os.listdir("run") == [".lock"]


@pytest.mark.slow
def test_train_resumes_a_killed_run_bit_for_bit(tmp_path: Path) -> None:
    """SIGKILL at a random moment, then the same command with one flag more: the same weights.

    The seed of the moment is the clock's: over time every moment is tried.
    """
    options = {
        **QUIET,
        **TINY_MODEL,
        "train_file": write_splits(tmp_path)["train_file"],
        "do_train": True,
        "per_device_train_batch_size": 4,
        "max_steps": 40,
        "save_strategy": "steps",
        "save_steps": 1,
        "train_sampling_strategy": "group_by_length",
    }
    main(flags(**options, output_dir=tmp_path / "whole"))

    folder = tmp_path / "killed"
    command = flags(**options, output_dir=folder)
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *command],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    goal = random.Random().randint(2, 20)  # after 1, a whole one is there
    deadline = time.monotonic() + 120
    while len(list_checkpoints(folder)) == 0 or newest_step(folder) < goal:
        assert process.poll() is None, "the premise: it is still running"
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert newest_step(folder) < 40, "the premise: it was not done"

    main([*command, "--resume_from_checkpoint"])
    assert same_weights(weights(folder), weights(tmp_path / "whole")), f"killed at {goal}"


def newest_step(folder: Path) -> int:
    return int(list_checkpoints(folder)[0].name.rpartition("-")[2])
