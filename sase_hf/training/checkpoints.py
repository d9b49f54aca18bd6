"""The checkpoints of a run, and its folder.

transformers writes `trainer_state.json` last, so a checkpoint is complete if it can be read.
"""

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from transformers import TrainerState
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import sort_checkpoints

from ..data.columns import ROWS_NAME, training_rows_of
from ..utils.errors import refusal
from ..utils.files import FilePath, write_text
from ..utils.privacy import redact


def is_complete(folder: FilePath) -> bool:
    """Return whether a checkpoint can be resumed."""
    try:
        TrainerState.load_from_json(str(Path(folder, TRAINER_STATE_NAME)))
    except (OSError, ValueError, TypeError):
        return False
    return True


def list_checkpoints(output_dir: FilePath) -> list[Path]:
    """Return the checkpoint folders of a run, the newest first, complete or not."""
    return [Path(folder) for folder in reversed(sort_checkpoints(str(output_dir)))]


def newest_complete_checkpoint(output_dir: FilePath) -> Path | None:
    """Return the newest complete checkpoint of a run."""
    return next(filter(is_complete, list_checkpoints(output_dir)), None)


def checkpoint_to_resume(requested: str, output_dir: FilePath) -> Path | None:
    """Return the checkpoint that `--resume_from_checkpoint` names; None if a run begins anew.

    `auto` and `true` take the newest complete one, if there is one.
    """
    choice = requested.lower()
    if choice == "false":
        return None
    if choice in ("auto", "true"):
        return newest_complete_checkpoint(output_dir)
    if not is_complete(requested):
        raise refusal(
            f"--resume_from_checkpoint is {requested}, which is no complete checkpoint, with a "
            f"{TRAINER_STATE_NAME}",
            "auto takes the newest complete one, or begins anew",
        )
    return Path(requested)


def locked(output_dir: FilePath, process: int) -> AbstractContextManager[Any]:
    """Keep other runs out of a folder, on every machine that sees it.

    Process 0 locks the file `.lock`. The lock ends with process 0 and the processes that it forks,
    also if they are killed; the workers of a data loader end a few seconds after process 0.

    Raises:
        ValueError: In process 0, if another run is in the folder.
        OSError: If the folder cannot be written.
    """
    if process > 0:
        return nullcontext()
    Path(output_dir).mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(Path(output_dir, ".lock")).acquire(timeout=0)
    except Timeout as reason:
        raise refusal(
            f"another run is writing in {output_dir}",
            "wait until it ends, stop it, or choose another --output_dir",
        ) from reason


def check_unused(output_dir: FilePath) -> None:
    """Raise ValueError if a folder holds more than the beginning of a run without a checkpoint."""
    names = {path.name for path in Path(output_dir).glob("[!.]*")}
    # The state is the last file of a trained model: without it, a model of a run is a torn one.
    has_only_begun = ROWS_NAME in names and TRAINER_STATE_NAME not in names
    if names and not (has_only_begun and newest_complete_checkpoint(output_dir) is None):
        raise refusal(
            f"--output_dir {output_dir} is not empty",
            "continue its run with --resume_from_checkpoint, or choose another folder",
        )


def check_same_run(
    output_dir: FilePath, checkpoint: Path | None, settings: dict[str, Any], process: int
) -> None:
    """Raise ValueError if a run would go on from a checkpoint with other rows or settings.

    They are recorded in the folder of the run. A checkpoint without a record goes on with any.
    """
    now = json.loads(json.dumps(redact(settings)))
    changes = [
        f"{name} = {value} and not {now.get(name)}"
        for name, value in training_rows_of(checkpoint).items()
        if now.get(name) != value
    ]
    if changes:
        raise refusal(
            f"the run of {checkpoint} has {', '.join(changes)}",
            "repeat what it has to go on, or begin another run in another --output_dir",
        )
    if process == 0:
        write_text(Path(output_dir, ROWS_NAME), json.dumps(now))
