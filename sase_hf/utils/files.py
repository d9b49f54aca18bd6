"""Files that are written whole or not at all."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FilePath = str | os.PathLike[str]


@contextmanager
def atomic_write(path: FilePath, *, is_first_kept: bool = False) -> Iterator[Path]:
    """Write a file whole or not at all, even if the process is killed or the machine stops.

    The block writes the draft that is yielded, a file beside `path`. The draft takes the place of
    `path` when the block ends, and is deleted when the block fails. Missing folders are made. With
    `is_first_kept`, of several processes the first one decides; where the file system has no hard
    links, the last one does. OSError names `path`; one that names another file passes.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        flush_to_disk(draft)
        if is_first_kept:
            with suppress(OSError):
                os.link(draft, path)
        if not (is_first_kept and path.exists()):
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


def flush_to_disk(path: FilePath) -> None:
    """Make the content of a file survive a power cut."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def check_output(path: FilePath | None) -> None:
    """Raise OSError if a file cannot be written; call it before the work."""
    if path is None:
        return
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"cannot write {path}: {nearest} is not a folder")
    if not os.access(path if path.exists() else nearest, os.W_OK):
        raise PermissionError(f"cannot write {path}: permission denied; name another file")


def is_write_error(error: Exception) -> bool:
    """Return whether the disk is full: torch and tokenizers have no class for it, only words."""
    reasons = [os.strerror(number) for number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)]
    reasons += ["PytorchStreamWriter", "inline_container", "iostream error"]
    return any(reason in str(error) for reason in reasons)
