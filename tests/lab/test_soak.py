"""scripts/lab/soak.py: its counts, killed processes and spoilt files."""

import json
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from script_files import load_script
from transformers import dynamic_module_utils

soak = load_script("lab/soak")


def test_forbid_ends_a_process_that_runs_the_code_of_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / soak.COPIED_CODE))
    (tmp_path / "modeling_evil.py").write_text("class Model: pass\n")

    def load() -> None:
        sys.addaudithook(soak.forbid)
        dynamic_module_utils.get_class_from_dynamic_module("modeling_evil.Model", str(tmp_path))

    assert soak.in_child(load, tmp_path / "log.txt") == 90
    assert "forbidden: exec" in soak.last_line(tmp_path / "log.txt")


@pytest.mark.slow
def test_soak_counts_what_survived_and_fails_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Mock(return_value=iter([(3, None), (2, "a fault"), (1, "one too many")]))
    monkeypatch.setitem(soak.PARTS, "configs", (made, 5))
    record = tmp_path / "record.json"
    with pytest.raises(SystemExit, match="1"):
        soak.main(["--parts", "configs", "--record", str(record)])
    part = json.loads(record.read_text())["parts"]["configs"]
    assert (part["tried"], part["survived"], part["faults"]) == (5, 3, ["a fault"])
