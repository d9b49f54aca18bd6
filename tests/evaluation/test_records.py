"""The record that a run leaves."""

import json
import math
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import tiny_config

from sase_hf.evaluation import records
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.utils.files import write_text


def record_of(**changes: Any) -> dict[str, Any]:
    parts = {
        "name": "reviews",
        "metrics": {"accuracy": 0.5},
        "split": "validation",
        "sources": {"train": {"file": "reviews.jsonl", "sha256": "0" * 64, "rows": 4}},
        "seed": 7,
        "arguments": {"learning_rate": 0.001},
        "config": tiny_config(),
        "num_parameters": 123,
        "wall_seconds": 1.26,
    }
    return measured_record(**{**parts, **changes})


def test_record_holds_no_names_paths_and_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are published."""
    for variable in ("USER", "LOGNAME", "HOSTNAME", "HF_TOKEN"):
        monkeypatch.setenv(variable, f"planted-{variable}")
    monkeypatch.setattr("platform.node", lambda: "planted-host")
    monkeypatch.setattr("socket.gethostname", lambda: "planted-host")
    token = "hf_" + "PLANTED" * 4
    arguments = {"train_file": "/home/planted/data/reviews.jsonl", "note": f"?key={token}"}
    arguments |= {"output_dir": "/home/planted", "hub_token": token}
    config = {**tiny_config().to_dict(), "_name_or_path": "/home/planted/checkpoint"}
    record = record_of(arguments=arguments, config=config)
    write_record({**record, "added": "/home/planted/later"}, tmp_path / "record.json")
    assert "planted" not in (tmp_path / "record.json").read_text().lower()
    assert record["arguments"] == {"train_file": "reviews.jsonl", "note": "?key=[token]"}


def test_write_record_sorts_keys_and_writes_null_for_nan(tmp_path: Path) -> None:
    """Beside the given facts a record has versions, hardware and date."""
    record = record_of(metrics={"pearson": math.nan, "mse": np.float32(0.5)})
    assert record["versions"]["torch"] == version("torch")
    path = tmp_path / "new/a.json"
    write_record(record, path)
    written = json.loads(path.read_text())
    assert written == record
    assert list(written) == sorted(record)
    assert record["metrics"] == {"pearson": None, "mse": 0.5}


def test_record_names_the_commit_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whether its code differs, whatever its records do; outside a checkout it is None."""
    checkout = tmp_path / "checkout"
    own, module = (
        checkout / name for name in ("model_cards/records.jsonl", "sase_hf/evaluation/records.py")
    )
    for file in (own, module):
        write_text(file, "one")
    monkeypatch.setattr(records, "__file__", str(module))
    assert record_of()["code"] is None

    git = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for words in ("init -q", "add .", "-c commit.gpgsign=false commit -qm first"):
        subprocess.run([*git, *words.split()], cwd=checkout, check=True)
    code = record_of()["code"]
    assert len(code["commit"]) == 40
    own.write_text("two")
    assert record_of()["code"] == {**code, "modified": False}
    module.write_text("two")
    assert record_of()["code"] == {**code, "modified": True}
