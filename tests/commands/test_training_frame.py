"""The commands that a finished training prints work as they stand."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from rows import write_csv
from runs import QUIET, TINY_MODEL, flags

from sase_hf.commands.training_frame import next_commands
from sase_hf.commands.visualize import main
from sase_hf.tasks import LabelTask
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments

TEXTS = [f"the soup of day {day} was hot" for day in range(24)]
LABELS = ["good", "bad", "good", ""] * 6


@pytest.mark.parametrize(
    ("name", "labels", "options"),
    [
        ("text", LABELS, {}),
        ("text", ["x", "y"] * 12, {"label_column_name": "label"}),
        ("What was good, and why?", ["x", "y"] * 12, {}),
    ],
    ids=["some without a label", "label column by flag", "name with a comma"],
)
def test_next_command_shows_rows_that_were_read(
    name: str, labels: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    rows = [{name: text, "label": label} for text, label in zip(TEXTS, labels, strict=True)]
    file = write_csv(tmp_path / "rows.csv", rows)
    common = {**TINY_MODEL, **QUIET, "train_file": file, "output_dir": tmp_path / "model"}
    few = {"num_train_epochs": 1, "validation_fraction": 0.2}
    task = parse_arguments(LabelTask, flags(**common, **few, **options))
    command, _ = next_commands(str(tmp_path / "model"), run(task), task.settings)
    _, words = command.split(" visualize ")
    main([*shlex.split(words)[:-1], f"--output={tmp_path / 'page.html'}"])
    assert "soup of day" in (tmp_path / "page.html").read_text(encoding="utf-8")
