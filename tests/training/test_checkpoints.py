"""Manifests, and the search for a checkpoint to resume."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sase_hf.training.checkpoints import (
    MANIFEST_NAME,
    check_same_rows,
    check_unused,
    checkpoint_to_resume,
    newest_complete_checkpoint,
    why_incomplete,
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


def change_one_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("file", "tear", "reason"),
    [
        ("manifest.json", Path.unlink, "manifest.json, written last, is missing"),
        ("manifest.json", lambda path: path.write_text(""), "manifest.json is damaged"),
        ("state/rng.pth", Path.unlink, "state/rng.pth is missing"),
        ("state/rng.pth", change_one_byte, "state/rng.pth is damaged"),
        ("", shutil.rmtree, "there is no such folder"),
    ],
)
def test_why_incomplete_names_a_torn_file(
    file: str, tear: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    folder = make_checkpoint(tmp_path, 3)
    assert why_incomplete(folder) is None
    tear(folder / file)
    assert (why_incomplete(folder) or "").startswith(reason)


def test_newest_complete_checkpoint_warns_of_torn_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Resuming from an older one costs time, so the log says why it was done."""
    complete = make_checkpoint(tmp_path, 8)
    (make_checkpoint(tmp_path, 9) / "optimizer.pt").unlink()
    (make_checkpoint(tmp_path, 10) / MANIFEST_NAME).unlink()
    with caplog.at_level(logging.WARNING):
        assert newest_complete_checkpoint(tmp_path) == complete
    assert [record.getMessage().rpartition("/")[2] for record in caplog.records] == [
        "checkpoint-10: manifest.json, written last, is missing",
        "checkpoint-9: optimizer.pt is missing",
    ]


def test_newest_complete_checkpoint_raises_if_there_is_none(tmp_path: Path) -> None:
    """Training from the start instead would look like a success."""
    with pytest.raises(FileNotFoundError, match=r"no complete checkpoint in .*it holds none"):
        newest_complete_checkpoint(tmp_path)
    (make_checkpoint(tmp_path, 2) / "optimizer.pt").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"checkpoint-2: optimizer\.pt is missing.*auto begins anew"
    ):
        newest_complete_checkpoint(tmp_path)


def test_checkpoint_to_resume_is_a_folder_or_the_newest_or_none(tmp_path: Path) -> None:
    """The flag's meanings."""
    old, new = make_checkpoint(tmp_path, 1), make_checkpoint(tmp_path, 2)
    assert checkpoint_to_resume(None, tmp_path) is None
    assert checkpoint_to_resume("False", tmp_path) is None
    assert checkpoint_to_resume("auto", tmp_path / "none") is None
    assert checkpoint_to_resume("auto", tmp_path) == new
    assert checkpoint_to_resume("True", tmp_path) == new
    assert checkpoint_to_resume(str(old), tmp_path) == old
    (old / "optimizer.pt").unlink()
    with pytest.raises(ValueError, match=r"cannot resume from .*checkpoint-1: optimizer\.pt is mi"):
        checkpoint_to_resume(str(old), tmp_path)


def test_torn_beginning_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    """A folder with a whole checkpoint, or with a file of the user, is not a torn beginning."""
    torn = tmp_path / "checkpoint-5"
    torn.mkdir()
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"is not empty\. Continue its run with"):
        check_unused(tmp_path)
    (tmp_path / "notes.txt").unlink()
    with pytest.raises(ValueError, match=r"is not empty"):
        check_unused(tmp_path)  # it may be another program's
    check_same_rows(tmp_path, {"file": "a.csv", "rows": 3})
    whole = tmp_path / "checkpoint-4"
    whole.mkdir()
    (whole / "optimizer.pt").touch()
    write_manifest(whole)
    with pytest.raises(ValueError, match=r"is not empty\. Continue its run with"):
        check_unused(tmp_path)
    (whole / "optimizer.pt").unlink()  # hours of work, damaged later
    with pytest.raises(ValueError, match=r"is not empty\. Continue its run with"):
        check_unused(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"checkpoint-4: optimizer\.pt is missing.*Restore"):
        checkpoint_to_resume("auto", tmp_path)
    assert torn.is_dir()
    (whole / "manifest.json").unlink()
    (tmp_path / ".draft.tmp").touch()
    (tmp_path / "runs").mkdir()  # of a tracker
    check_unused(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "training_rows.json",
        "runs",
        ".draft.tmp",
    }
    with pytest.raises(ValueError, match=r"other rows, 3 of a\.csv and not 3 of b\.csv"):
        check_same_rows(tmp_path, {"file": "b.csv", "rows": 3})
    (tmp_path / "config.json").touch()
    check_unused(tmp_path)  # a kill cut off the saving of the model
    (tmp_path / "trainer_state.json").touch()
    with pytest.raises(ValueError, match=r"it holds a trained model; choose another"):
        check_unused(tmp_path)
