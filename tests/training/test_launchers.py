"""`accelerate launch` on several machines trains what one process does.

What processes do together is tested in `test_distributed.py`, which `torchrun` starts.
"""

import json
import socket
from pathlib import Path

import pytest
from runs import TINY_MODEL, flags, launch, write_splits
from script_files import SCRIPTS, load_script

ACCELERATE = ["accelerate.commands.launch", "--multi_gpu", "--num_machines", "2"]
ACCELERATE += ["--num_processes", "2", "--main_process_ip", "127.0.0.1"]


def logged(folder: Path) -> list[dict[str, float]]:
    state = json.loads((folder / "run" / "trainer_state.json").read_text(encoding="utf-8"))
    metrics = json.loads((folder / "run" / "eval_results.json").read_text(encoding="utf-8"))
    entries = [*state["log_history"], metrics]
    names = ("loss", "penalty", "eval_loss", "eval_penalty")
    kept = ({name: entry[name] for name in names if name in entry} for entry in entries)
    return [entry for entry in kept if entry]


@pytest.mark.slow
def test_train_on_two_machines_equals_one_process(tmp_path: Path) -> None:
    """The second machine writes only the random state of its process."""
    options = {
        **TINY_MODEL,
        **write_splits(tmp_path),
        "do_train": True,
        "do_eval": True,
        "max_steps": 4,
        "embedding_dropout": 0.0,
        "classifier_dropout": 0.0,
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
    }
    alone = {"per_device_train_batch_size": 12, "output_dir": tmp_path / "one" / "run"}
    load_script("train").main(flags(**options, **alone))
    expected = logged(tmp_path / "one")
    assert len(expected) == 5, "the premise: 4 updates and an evaluation"

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = [str(SCRIPTS / "train.py"), *flags(**options, per_device_train_batch_size=6)]
    machines = [tmp_path / f"machine_{rank}" for rank in range(2)]
    launcher = [*ACCELERATE, f"--main_process_port={port}"]
    words = [*script, "--output_dir=run"]
    commands = {}
    for rank, folder in enumerate(machines):
        commands[folder] = [*launcher, f"--machine_rank={rank}", *words]
    launch(commands)
    assert logged(machines[0]) == [pytest.approx(entry, abs=1e-5) for entry in expected]
    written = {path.name for path in machines[1].rglob("*") if path.is_file()}
    assert written == {"log.txt", "rng_state_1.pth"}
