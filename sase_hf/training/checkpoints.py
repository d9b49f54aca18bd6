"""Checkpoints that are whole or are not used: a manifest written last, and the search for it.

`Trainer` writes a checkpoint file by file. A process killed in between leaves a folder that looks
like the newest checkpoint and cannot be resumed, or worse, can. So the last file of every
checkpoint is `manifest.json` with the size and the SHA-256 of all others, put in place in one
step; a folder that does not match its manifest is never resumed.
"""

import json
import logging
import os
import re
from pathlib import Path

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from ..utils.files import sha256_of

logger = logging.getLogger(__name__)

MANIFEST_NAME = "manifest.json"


def write_manifest(folder: str | os.PathLike[str]) -> None:
    """Declare a checkpoint complete.

    Args:
        folder: The checkpoint, all its files written.
    """
    folder = Path(folder)
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST_NAME:
            _flush_to_disk(path)
            name = path.relative_to(folder).as_posix()
            files[name] = {"size": path.stat().st_size, "sha256": sha256_of(path)}
    unfinished = folder / f"{MANIFEST_NAME}.tmp"
    with unfinished.open("w", encoding="utf-8") as handle:
        json.dump({"files": files}, handle, indent=2)
    _flush_to_disk(unfinished)
    os.replace(unfinished, folder / MANIFEST_NAME)


def why_incomplete(folder: str | os.PathLike[str]) -> str | None:
    """Say what is wrong with a checkpoint, in a few words.

    Args:
        folder: The checkpoint.

    Returns:
        The first difference from the manifest, or None if the checkpoint is complete.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return "there is no such folder"
    try:
        files = json.loads((folder / MANIFEST_NAME).read_text(encoding="utf-8"))["files"]
        expected = {name: (entry["size"], entry["sha256"]) for name, entry in files.items()}
    except FileNotFoundError:
        return f"{MANIFEST_NAME}, written last, is missing"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST_NAME} is damaged"
    for name, (size, digest) in expected.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
        if sha256_of(path) != digest:
            return f"{name} is damaged: its SHA-256 differs"
    return None


def list_checkpoints(output_dir: str | os.PathLike[str]) -> list[Path]:
    """Return the checkpoint folders of a run, the newest first, complete or not."""
    steps = {
        int(match[1]): path
        for path in Path(output_dir).glob(f"{PREFIX_CHECKPOINT_DIR}-*")
        if path.is_dir() and (match := re.fullmatch(rf"{PREFIX_CHECKPOINT_DIR}-(\d+)", path.name))
    }
    return [steps[step] for step in sorted(steps, reverse=True)]


def newest_complete_checkpoint(output_dir: str | os.PathLike[str]) -> Path:
    """Return the newest complete checkpoint of a run; say which newer ones are skipped, and why.

    Args:
        output_dir: The folder of the run.

    Raises:
        FileNotFoundError: If no checkpoint is complete; to start anew instead would be silent loss.
    """
    reasons = []
    for folder in list_checkpoints(output_dir):
        reason = why_incomplete(folder)
        if reason is None:
            return folder
        logger.warning(f"skipping the incomplete checkpoint {folder}: {reason}")
        reasons.append(f"{folder.name}: {reason}")
    found = "; ".join(reasons) or "it holds none"
    raise FileNotFoundError(
        f"no complete checkpoint in {output_dir} to resume from ({found}). "
        "Leave out --resume_from_checkpoint and choose a fresh --output_dir to start anew"
    )


def checkpoint_to_resume(requested: str | None, output_dir: str | os.PathLike[str]) -> Path | None:
    """Settle what `--resume_from_checkpoint` asks for.

    Args:
        requested: A checkpoint folder, or `true` for the newest complete one, or `false`.
        output_dir: The folder of the run.

    Returns:
        The checkpoint, or None if nothing is to be resumed.

    Raises:
        FileNotFoundError: If `true` finds no complete checkpoint.
        ValueError: If the named checkpoint is not complete.
    """
    if requested is None or requested.lower() == "false":
        return None
    if requested.lower() == "true":
        return newest_complete_checkpoint(output_dir)
    if (reason := why_incomplete(requested)) is not None:
        raise ValueError(
            f"cannot resume from {requested}: {reason}. `--resume_from_checkpoint true` takes the "
            "newest complete checkpoint in --output_dir"
        )
    return Path(requested)


def _flush_to_disk(path: Path) -> None:
    """Make a file survive a power cut, so that no manifest can outlive what it vouches for."""
    with path.open("rb+") as handle:
        os.fsync(handle.fileno())


__all__ = [
    "MANIFEST_NAME",
    "checkpoint_to_resume",
    "list_checkpoints",
    "newest_complete_checkpoint",
    "why_incomplete",
    "write_manifest",
]
