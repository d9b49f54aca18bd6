"""The commands for several processes, as the README gives them: they train what one process does.

Every command gets the same rows, and as many of them for each update. What processes do together is
tested in `test_distributed.py`, which is started by `accelerate launch` on one machine.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import TINY_MODEL, flags, write_splits
from script_files import SCRIPTS, load_script

pytestmark = pytest.mark.slow

ROWS_PER_UPDATE = 12
TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
ACCELERATE = ["accelerate.commands.launch", "--multi_gpu", "--num_machines", "2"]
ACCELERATE += ["--num_processes", "2", "--main_process_ip", "127.0.0.1"]


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    """Flags for two epochs; paths that are not absolute lie where a command runs."""
    return {
        **TINY_MODEL,
        **write_splits(tmp_path),
        "do_train": True,
        "do_eval": True,
        "num_train_epochs": 2,
        "classifier_dropout": 0.0,
        "logging_steps": 1,
        "disable_tqdm": True,
        "output_dir": "run",
        "record": "record.json",
    }


@pytest.fixture
def expected(options: dict[str, Any], tmp_path: Path) -> list[dict[str, float]]:
    """What one process logs, all rows of an update on its own."""
    here = {name: tmp_path / "one" / options[name] for name in ("output_dir", "record")}
    words = flags(**options, per_device_train_batch_size=ROWS_PER_UPDATE)
    load_script("train").main([*words, *flags(**here)])
    return logged(tmp_path / "one")


def logged(folder: Path) -> list[dict[str, float]]:
    """Return loss and penalty of every update and of the evaluation, where a command ran."""
    state = json.loads((folder / "run" / "trainer_state.json").read_text(encoding="utf-8"))
    metrics = json.loads((folder / "run" / "eval_results.json").read_text(encoding="utf-8"))
    entries = [*state["log_history"], metrics]
    names = ("loss", "penalty", "eval_loss", "eval_penalty")
    kept = ({name: entry[name] for name in names if name in entry} for entry in entries)
    return [entry for entry in kept if entry]


def launch(commands: dict[Path, list[str]]) -> None:
    """Run commands at the same time, each in a folder of its own; all must succeed."""
    processes = []
    for folder, words in commands.items():
        folder.mkdir()
        with (folder / "log.txt").open("w") as log:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", *words],
                    cwd=folder,
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
    try:
        for folder, process in zip(reversed(commands), reversed(processes), strict=True):
            assert process.wait(timeout=250) == 0, (folder / "log.txt").read_text()[-4000:]
    finally:
        for process in processes:
            if process.poll() is None:  # the others wait for one that has failed
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def assert_same_logs(actual: list[dict[str, float]], expected: list[dict[str, float]]) -> None:
    """Compare every loss and penalty."""
    assert len(expected) == 9, "the premise: 8 updates and an evaluation"
    assert actual == [pytest.approx(entry, abs=1e-5) for entry in expected]


def test_train_under_torchrun_equals_one_process(
    options: dict[str, Any], expected: list[dict[str, float]], tmp_path: Path
) -> None:
    """Also where no flag says that there is no GPU: each process alone would learn less."""
    words = flags(**options, per_device_train_batch_size=ROWS_PER_UPDATE // 2)
    launch({tmp_path / "two": [*TORCHRUN, str(SCRIPTS / "train.py"), *words]})
    assert_same_logs(logged(tmp_path / "two"), expected)
    record = json.loads((tmp_path / "two" / "record.json").read_text(encoding="utf-8"))
    assert record["hardware"]["processes"] == 2


def test_train_on_two_machines_equals_one_process(
    options: dict[str, Any], expected: list[dict[str, float]], tmp_path: Path
) -> None:
    """One command for each; the first writes all but the random state of the other's process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = ["--main_process_port", str(free.getsockname()[1])]
    words = flags(**options, per_device_train_batch_size=ROWS_PER_UPDATE // 2, use_cpu=True)
    script = [str(SCRIPTS / "train.py"), *words]
    machines = [tmp_path / f"machine_{rank}" for rank in range(2)]
    launch(
        {
            folder: [*ACCELERATE, *address, "--machine_rank", str(rank), *script]
            for rank, folder in enumerate(machines)
        }
    )
    assert_same_logs(logged(machines[0]), expected)
    written = {path.name for path in machines[1].rglob("*") if path.is_file()}
    assert written == {"log.txt", "rng_state_1.pth"}
