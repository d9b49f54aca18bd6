"""Manifests, the search for a checkpoint to resume, and the rows that one may know."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sase_hf.data.columns import ROWS_NAME
from sase_hf.training.checkpoints import (
    MANIFEST_NAME,
    check_same_rows,
    check_same_settings,
    check_unused,
    checkpoint_to_resume,
    newest_complete_checkpoint,
    warn_of_learned_rows,
    write_manifest,
)

FILES = {"model.safetensors": b"weights", "optimizer.pt": b"moments", "state/rng.pth": b"dice"}


def make_checkpoint(run: Path, step: int) -> Path:
    folder = run / f"checkpoint-{step}"
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    write_manifest(folder)
    return folder


def test_newest_complete_checkpoint_warns_of_torn_ones_and_raises_if_there_is_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Resuming from an older one costs time; training from the start would look like a success."""
    with pytest.raises(FileNotFoundError, match=r"no complete checkpoint in .*it holds none"):
        newest_complete_checkpoint(tmp_path)
    (make_checkpoint(tmp_path, 9) / "state/rng.pth").write_bytes(b"mice")
    (make_checkpoint(tmp_path, 10) / "optimizer.pt").unlink()
    (make_checkpoint(tmp_path, 11) / MANIFEST_NAME).write_text("")
    (make_checkpoint(tmp_path, 12) / MANIFEST_NAME).unlink()
    with pytest.raises(
        FileNotFoundError, match=r"checkpoint-10: optimizer\.pt is missing.*auto begins anew"
    ):
        newest_complete_checkpoint(tmp_path)
    caplog.clear()
    complete = make_checkpoint(tmp_path, 8)
    assert newest_complete_checkpoint(tmp_path) == complete
    assert [record.getMessage().rpartition("/checkpoint-")[2] for record in caplog.records] == [
        "12: manifest.json, written last, is missing",
        "11: manifest.json is damaged",
        "10: optimizer.pt is missing",
        "9: state/rng.pth is damaged: its SHA-256 differs",
    ]


def test_checkpoint_to_resume_is_a_folder_or_the_newest_or_none(tmp_path: Path) -> None:
    old, new = make_checkpoint(tmp_path, 1), make_checkpoint(tmp_path, 2)
    assert checkpoint_to_resume(None, tmp_path) is None
    assert checkpoint_to_resume("False", tmp_path) is None
    assert checkpoint_to_resume("auto", tmp_path / "none") is None
    assert checkpoint_to_resume("auto", tmp_path) == new
    assert checkpoint_to_resume("True", tmp_path) == new
    assert checkpoint_to_resume(str(old), tmp_path) == old
    (old / "optimizer.pt").unlink()
    for folder, reason in ((old, r"optimizer\.pt is mi"), (tmp_path / "no", "there is no such f")):
        message = f"cannot resume from {re.escape(str(folder))}: {reason}"
        with pytest.raises(ValueError, match=message):
            checkpoint_to_resume(str(folder), tmp_path)


NOT_EMPTY = r"is not empty\. Continue its run with"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["checkpoint-5"], NOT_EMPTY),  # it may be another program's
        (["training_rows.json", "checkpoint-4/manifest.json"], NOT_EMPTY),
        (["training_rows.json", "config.json", "trainer_state.json"], "it holds a trained model"),
        (["config.json"], "it holds a trained model"),
    ],
)
def test_folder_of_another_program_run_or_model_is_not_written_into(
    names: list[str], message: str, tmp_path: Path
) -> None:
    """A checkpoint with a manifest is hours of work, also if a file of it was damaged later."""
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    with pytest.raises(ValueError, match=message):
        check_unused(tmp_path)
    assert all((tmp_path / name).exists() for name in names)
    if "manifest.json" in names[-1]:
        with pytest.raises(FileNotFoundError, match=r"checkpoint-4: manifest\.json is .*Restore"):
            checkpoint_to_resume("auto", tmp_path)


def begin_run(folder: Path, settings: dict[str, Any] | None = None) -> Path:
    """Return the checkpoint of a run with these settings; without, of an older version."""
    check_same_rows(folder, {"file": "a.csv"})
    if settings is not None:
        check_same_settings(folder, None, settings)
    return folder / "checkpoint-1"


def test_settings_that_a_resumed_run_must_repeat_are_refused_by_name(tmp_path: Path) -> None:
    checkpoint = begin_run(tmp_path, {"seed": 3, "class_weights": (1.0, 2.0), "data_seed": None})
    same = {"seed": 3, "class_weights": [1.0, 2.0], "data_seed": None}
    check_same_settings(tmp_path, checkpoint, {**same, "of_a_newer_version": 1})
    differences = r"has seed = 3 and not 7, data_seed = None and not 1; repeat what it has"
    with pytest.raises(ValueError, match=differences):
        check_same_settings(tmp_path, checkpoint, {**same, "seed": 7, "data_seed": 1})


def test_settings_of_a_checkpoint_hold_in_another_folder(tmp_path: Path) -> None:
    checkpoint = begin_run(tmp_path / "first", {"seed": 3})
    begin_run(tmp_path / "second")
    with pytest.raises(ValueError, match="seed = 3 and not 7"):
        check_same_settings(tmp_path / "second", checkpoint, {"seed": 7})
    check_same_settings(tmp_path / "second", checkpoint, {"seed": 3})
    with pytest.raises(ValueError, match="seed = 3 and not 7"):
        check_same_settings(tmp_path / "second", tmp_path / "second" / "checkpoint-2", {"seed": 7})


def test_settings_of_an_older_version_are_not_known(tmp_path: Path) -> None:
    check_same_settings(tmp_path, begin_run(tmp_path), {"seed": 7})


def test_settings_of_a_run_that_reached_no_checkpoint_are_written_anew(tmp_path: Path) -> None:
    """The first batch may have been too large for the memory."""
    begin_run(tmp_path, {"seed": 3})
    checkpoint = begin_run(tmp_path, {"seed": 7})
    check_same_settings(tmp_path, checkpoint, {"seed": 7})


def test_torn_beginning_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    """The run began, and was killed before a checkpoint or the model was whole."""
    check_same_rows(tmp_path, {"file": "a.csv", "rows": 3})
    check_same_rows(tmp_path, {"file": "a.csv", "rows": 3, "texts": ("text",)})
    for name in ("checkpoint-5", "runs"):  # the latter of a tracker
        (tmp_path / name).mkdir()
    for name in (".draft.tmp", "config.json"):
        (tmp_path / name).touch()
    check_unused(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"training_rows.json", "runs", ".draft.tmp", "config.json"}


READ = {"file": "a.csv", "sha256": "1f", "rows": 90, "text_column_names": ("text",)}
HELD_OUT = {"file": "a.csv", "split_off": 0.1}


@pytest.mark.parametrize(
    ("before", "warning"),
    [
        (READ, ""),
        ({**READ, "file": "renamed.csv"}, ""),
        ({**READ, "settings": {"seed": 3}}, ""),
        ({**READ, "sha256": "2e"}, "was trained on 90 rows of a.csv, which are not those of now"),
        ({**READ, "rows": 100}, "was trained on 100 rows of a.csv"),
        ({**READ, "corrections": [{"sha256": "3d"}]}, "was trained on 90 rows of a.csv"),
        ({}, "does not say on which rows it was trained"),
    ],
    ids=str,
)
def test_warn_of_learned_rows_names_held_out_rows_that_a_checkpoint_may_know(
    before: dict[str, Any], warning: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ROWS_NAME).write_text(json.dumps(before), encoding="utf-8")
    warn_of_learned_rows(str(tmp_path), READ, {"file": "b.csv"})  # a validation file
    warn_of_learned_rows(None, READ, HELD_OUT)
    assert caplog.text == ""
    warn_of_learned_rows(str(tmp_path), READ, HELD_OUT)
    assert warning in caplog.text
    assert bool(warning) == bool(caplog.text)
