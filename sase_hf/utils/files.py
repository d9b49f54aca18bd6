"""Files that are written whole or not at all, and that replace nothing that is read."""

import os
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from uuid import uuid4

from .text import refusal

FilePath = str | os.PathLike[str]

# What loading a checkpoint, or resuming its run, reads.
_CHECKPOINT_FILE = re.compile(
    r"""
    .+\.(safetensors|bin|py|model|onnx)
    | .+\.index\.json
    | (.*config|tokenizer|vocab|added_tokens|special_tokens_map|modules)\.json
    | (trainer_state|training_rows|export)\.json
    | README\.md | SHA256SUMS | heatmap\.svg | vocab\.txt | merges\.txt
    """,
    re.VERBOSE | re.IGNORECASE,
)


def check_readable(path: FilePath) -> None:
    """Raise an OSError with the way out if a path leads to no file."""
    if not os.path.exists(path):
        way_out = f"check its name and folder: {os.path.abspath(path)}"
        raise refusal(f"there is no file {path}", way_out, FileNotFoundError)
    if os.path.isdir(path):
        raise refusal(f"{path} is a folder", "name a file in it", IsADirectoryError)


@contextmanager
def atomic_write(path: FilePath) -> Iterator[Path]:
    """Write a file whole or not at all, even if the process is killed or the machine stops.

    The block writes the draft that is yielded, a file beside `path`. The draft takes the place of
    `path` when the block ends, and is deleted when the block fails. Missing folders are made.
    OSError names `path`; one that names another file passes.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())  # so that it survives a power cut
        os.replace(draft, path)
    except OSError as reason:
        if reason.filename and Path(reason.filename) not in (draft, path, *path.parents):
            raise
        why = reason.strerror or str(reason)
        raise OSError(f"cannot write {path}: {why}; name another file") from reason
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: FilePath, text: str) -> None:
    """Write a text as a UTF-8 file, as `atomic_write` does."""
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")


def check_output(path: FilePath | None, inputs: Iterable[FilePath | None] = ()) -> None:
    """Raise OSError if a file is a folder or an input; call it before the work.

    `inputs` are files and folders that the command reads, or writes too; names on the Hub and None
    are none. A link or another spelling of an input is the input. Of a folder with a model or a
    tokenizer, the files that loading reads are inputs; of another folder, such as one of data, all.
    """
    if path is None:
        return
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    for source in inputs:
        if source and (is_same_file(path, source) or _is_read_from(path, Path(source))):
            raise FileExistsError(
                f"cannot write {path}: this command uses it or its folder; name a file elsewhere"
            )


def is_same_file(first: FilePath, second: FilePath) -> bool:
    """Return whether two paths lead to one file, which need not be there yet."""
    if os.path.exists(first) and os.path.exists(second):
        return os.path.samefile(first, second)
    return os.path.realpath(first) == os.path.realpath(second)


def is_inside(path: FilePath, folder: FilePath) -> bool:
    """Return whether a path, which need not be there yet, lies in a folder or below it."""
    return any(is_same_file(parent, folder) for parent in Path(os.path.realpath(path)).parents)


def _is_read_from(path: Path, folder: Path) -> bool:
    """Return whether a command that reads a folder reads a file of this name in it."""
    if not folder.is_dir() or not is_inside(path, folder):
        return False
    is_checkpoint = any((folder / name).is_file() for name in ("config.json", "tokenizer.json"))
    return not is_checkpoint or bool(_CHECKPOINT_FILE.fullmatch(path.name))


def scratch_file() -> str:
    """Return the path of a new file on disk, which is deleted when the process ends."""
    return os.path.join(scratch_folder().name, f"{uuid4().hex}.arrow")


@cache
def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of such files, which forks share."""
    return tempfile.TemporaryDirectory(prefix="sase_hf-", ignore_cleanup_errors=True)
