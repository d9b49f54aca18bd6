"""The search for a checkpoint to resume, and the folder of a run."""

from pathlib import Path

import pytest
from transformers import TrainerState

from sase_hf.data.columns import ROWS_NAME
from sase_hf.training.run import (
    check_same_run,
    check_unused,
    checkpoint_to_resume,
    newest_complete_checkpoint,
)

STATE = "trainer_state.json"


def make_checkpoint(run: Path, step: int) -> Path:
    folder = run / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    TrainerState().save_to_json(folder / STATE)
    return folder


def test_newest_complete_checkpoint_is_not_a_torn_one(tmp_path: Path) -> None:
    assert newest_complete_checkpoint(tmp_path) is None
    complete = make_checkpoint(tmp_path, 8)
    (make_checkpoint(tmp_path, 9) / STATE).unlink()
    (make_checkpoint(tmp_path, 10) / STATE).write_text('{"epoch": 1, "glo')
    assert newest_complete_checkpoint(tmp_path) == complete


def test_checkpoint_to_resume_is_a_folder_or_the_newest_or_none(tmp_path: Path) -> None:
    old, new = make_checkpoint(tmp_path, 1), make_checkpoint(tmp_path, 2)
    assert checkpoint_to_resume("False", tmp_path) is None
    for newest in ("auto", True):
        assert checkpoint_to_resume(newest, tmp_path) == new
    assert checkpoint_to_resume(old, tmp_path) == old
    (old / STATE).unlink()
    with pytest.raises(ValueError, match=rf"is {old}, which is no complete"):
        checkpoint_to_resume(old, tmp_path)


def test_folder_of_a_run_is_used_once_a_checkpoint_is_complete(tmp_path: Path) -> None:
    """Before it, the run or the last model may have been torn, and the same command begins anew."""
    (tmp_path / ROWS_NAME).touch()
    check_unused(tmp_path)
    make_checkpoint(tmp_path, 5)
    with pytest.raises(ValueError, match=f"{tmp_path} is not empty"):
        check_unused(tmp_path)


def test_run_goes_on_only_with_its_own_rows_and_settings(tmp_path: Path) -> None:
    """Those of the folder of the checkpoint, which a run without one writes anew."""
    begun = {"file": "a.csv", "rows": 3, "text_column_names": ("text",), "data_seed": None}
    check_same_run(tmp_path, None, {"file": "b.csv"}, 0)
    check_same_run(tmp_path, None, begun, 0)
    checkpoint = tmp_path / "checkpoint-1"
    with pytest.raises(ValueError, match="has rows = 3 and not 4, data_seed = None and not 1"):
        check_same_run(tmp_path, checkpoint, {**begun, "rows": 4, "data_seed": 1}, 0)
    check_same_run(tmp_path, checkpoint, begun, 0)
    check_same_run(tmp_path / "new", checkpoint, begun, 1)
    assert not (tmp_path / "new").exists(), "the first process alone writes"
