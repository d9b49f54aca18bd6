"""Checkpoints that are resumed only when complete: a manifest written last, and the search for it.

`Trainer` writes a checkpoint file by file. A process killed in between leaves a folder that looks
like the newest checkpoint. So the last file of every checkpoint is `manifest.json` with the SHA-256
of all others; a folder that does not match its manifest is never resumed.
"""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from filelock import FileLock, Timeout
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import sort_checkpoints
from transformers.utils import CONFIG_NAME

from ..data.columns import ROWS_NAME, training_rows_of
from ..models.checked_files import sha256_of
from ..utils.errors import refusal
from ..utils.files import FilePath, flush_to_disk, write_text
from ..utils.privacy import redact

logger = logging.getLogger(__name__)

MANIFEST_NAME = "manifest.json"
SETTINGS = "settings"  # the entry of `ROWS_NAME` that is not about rows


def write_manifest(folder: FilePath) -> None:
    """Declare a checkpoint complete, all its files written."""
    files = {}
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and path.name != MANIFEST_NAME:
            flush_to_disk(path)  # or after a power cut the manifest could outlive its files
            files[path.relative_to(folder).as_posix()] = {"sha256": sha256_of(path)}
    write_text(Path(folder, MANIFEST_NAME), json.dumps({"files": files}, indent=2))


def why_incomplete(folder: FilePath) -> str | None:
    """Return the first difference of a checkpoint from its manifest; None if it is complete."""
    folder = Path(folder)
    if not folder.is_dir():
        return "there is no such folder"
    try:
        files = json.loads((folder / MANIFEST_NAME).read_text(encoding="utf-8"))["files"]
        for name, entry in files.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            if sha256_of(folder / name) != entry["sha256"]:
                return f"{name} is damaged: its SHA-256 differs"
    except FileNotFoundError:
        return f"{MANIFEST_NAME}, written last, is missing"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST_NAME} is damaged"
    return None


def list_checkpoints(output_dir: FilePath) -> list[Path]:
    """Return the checkpoint folders of a run, the newest first, complete or not."""
    return [Path(folder) for folder in reversed(sort_checkpoints(str(output_dir)))]


def newest_complete_checkpoint(output_dir: FilePath) -> Path:
    """Return the newest complete checkpoint of a run; warn of newer ones that are skipped."""
    reasons = []
    for folder in list_checkpoints(output_dir):
        reason = why_incomplete(folder)
        if reason is None:
            return folder
        logger.warning(f"skipping the incomplete checkpoint {folder}: {reason}")
        reasons.append(f"{folder.name}: {reason}")
    why_none = "; ".join(reasons) or "it holds none"
    raise FileNotFoundError(
        f"no complete checkpoint in {output_dir} to resume from ({why_none}). Restore one, or "
        "choose another --output_dir; where none was ever complete, --resume_from_checkpoint auto "
        "begins anew"
    )


@contextmanager
def locked(output_dir: FilePath, process: int = 0) -> Iterator[None]:
    """Keep other runs out of a folder, on every machine that sees it; all processes call this.

    Process 0 locks the file `.lock`. The lock ends with process 0 and the processes that it forks,
    also if they are killed; the workers of a data loader end a few seconds after process 0. Two
    runs in one process share the lock. A file system without locks keeps nobody out.

    Raises:
        ValueError: In all processes, if another run is in the folder or it cannot be written.
    """
    with ExitStack() as stack:
        reasons: list[str | None] = [None]
        if process == 0:
            reasons = [_why_not_locked(Path(output_dir), stack)]
        broadcast_object_list(reasons)
        if reasons[0] is not None:
            raise ValueError(reasons[0])
        yield


def _why_not_locked(folder: Path, stack: ExitStack) -> str | None:
    """Lock a folder until `stack` ends; return the reason if that is not possible."""
    lock = FileLock(folder / ".lock", timeout=0, thread_local=False, is_singleton=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        Path(lock.lock_file).touch()
    except OSError as reason:
        return f"--output_dir {folder}: {reason.strerror}; name another folder"
    try:
        stack.enter_context(lock)
    except Timeout:
        return (
            f"another run is writing in {folder}; wait until it ends, stop it, or choose another "
            "--output_dir"
        )
    except (NotImplementedError, OSError):
        logger.debug("the file system of %s has no locks", folder)
    return None


def _was_complete(checkpoint: Path) -> bool:
    return (checkpoint / MANIFEST_NAME).exists()


def check_unused(output_dir: FilePath) -> None:
    """Raise ValueError if a folder holds more than the beginning of a run without a checkpoint.

    Torn checkpoints of such a beginning are deleted.
    """
    folder = Path(output_dir)
    names = {path.name for path in folder.glob("[!.]*")}
    # The state is the last file of a trained model: without it, a model of a run is a torn one.
    is_torn = ROWS_NAME in names and TRAINER_STATE_NAME not in names
    if CONFIG_NAME in names and not is_torn:
        raise refusal(
            f"--output_dir {folder} is not empty, it holds a trained model", "choose another folder"
        )
    checkpoints = list_checkpoints(folder)
    was_any_complete = any(map(_was_complete, checkpoints))
    has_only_begun = ROWS_NAME in names and not was_any_complete
    if names and not has_only_begun:
        raise ValueError(
            f"--output_dir {folder} is not empty. Continue its run with --resume_from_checkpoint, "
            "or choose another folder"
        )
    for path in checkpoints:
        shutil.rmtree(path, ignore_errors=True)  # another process may be faster


def check_same_rows(output_dir: FilePath, source: Mapping[str, Any], process: int = 0) -> None:
    """Raise ValueError if the run in a folder trains on other rows; the first run writes which."""
    path = Path(output_dir, ROWS_NAME)
    rows_text = json.dumps(redact(source))
    if not path.is_file():
        if process == 0:
            write_text(path, rows_text)
        return
    rows = json.loads(rows_text)
    first_rows = json.loads(path.read_text(encoding="utf-8"))
    changes = [
        f"{name} {value} and not {rows.get(name)}"
        for name, value in first_rows.items()
        if name != SETTINGS and rows.get(name) != value
    ]
    if changes:
        raise refusal(
            f"the run in {output_dir} trains on other rows, {', '.join(changes)}",
            "choose another --output_dir",
        )


def check_same_settings(
    output_dir: FilePath,
    checkpoint: FilePath | None,
    settings: Mapping[str, Any],
    process: int = 0,
) -> None:
    """Raise ValueError if a run would go on from a checkpoint with other settings.

    The record of the rows holds those of the run. A checkpoint without a record goes on with any.
    """
    now = json.loads(json.dumps(redact(settings)))
    if checkpoint is not None:
        begun = training_rows_of(str(checkpoint)).get(SETTINGS, {})
        changes = [
            f"{name} = {value} and not {now.get(name)}"
            for name, value in begun.items()
            if now.get(name) != value
        ]
        if changes:
            raise refusal(
                f"the run of {checkpoint} has {', '.join(changes)}",
                "repeat what it has to go on, or begin another run in another --output_dir",
            )
    path = Path(output_dir, ROWS_NAME)
    if process == 0:
        record = json.loads(path.read_text(encoding="utf-8"))
        # What was begun without reaching a checkpoint begins anew, with any settings.
        if checkpoint is None or SETTINGS not in record:
            write_text(path, json.dumps({**record, SETTINGS: now}))


def warn_of_learned_rows(
    checkpoint: str | None, read: Mapping[str, Any], held_out: Mapping[str, Any]
) -> None:
    """Warn that held-out rows may be ones that a checkpoint has learned from.

    Rows are held out anew for each run. They are those of the checkpoint's run, and so unknown to
    it, only if both read the same rows.

    Args:
        checkpoint: Where the run starts from; None for a new model.
        read: The record of the training rows of the run, as in `ROWS_NAME`.
        held_out: The origin of its validation rows.
    """
    if checkpoint is None or "split_off" not in held_out:
        return
    before = training_rows_of(checkpoint)
    now = json.loads(json.dumps(redact(read)))
    names = (before.keys() | now.keys()) - {"file", SETTINGS}  # a file may have been renamed
    if before and all(before.get(name) == now.get(name) for name in names):
        return
    origin = "does not say on which rows it was trained"
    if before:
        source = before.get("file", before.get("dataset"))
        origin = f"was trained on {before.get('rows')} rows of {source}, which are not those of now"
    logger.warning(
        f"{checkpoint} {origin}: if some of them are held out now, it looks better on these than "
        "on new rows; give rows that it has not learned from as --validation_file"
    )


def checkpoint_to_resume(requested: str | None, output_dir: FilePath) -> Path | None:
    """Return the checkpoint that `--resume_from_checkpoint` names.

    `true` and `auto` take the newest complete one; `auto` may find that there was none yet.
    """
    if requested is None or requested.lower() in ("", "false"):
        return None
    choice = requested.lower()
    if choice == "auto" and not any(map(_was_complete, list_checkpoints(output_dir))):
        return None
    if choice in ("true", "auto"):
        return newest_complete_checkpoint(output_dir)
    reason = why_incomplete(requested)
    if reason is not None:
        raise ValueError(
            f"cannot resume from {requested}: {reason}. Give --resume_from_checkpoint no value to "
            "take the newest complete one in --output_dir"
        )
    return Path(requested)
