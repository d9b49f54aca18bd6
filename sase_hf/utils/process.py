"""This process: its memory and the signals that end it."""

import ctypes
import os
import platform
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h


def keep_freed_memory() -> None:
    """Let this process keep the memory it frees, for its next allocations.

    glibc hands large pieces back to the system, and the next training step on a CPU waits for the
    same pages again: up to half of a step with large layers. Memory in use then never shrinks
    below its peak. Other C libraries need no such setting.
    """
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


def limit_compiled_code() -> None:
    """Let oneDNN keep the code of 512 operations, not 1,024; call it before a model runs.

    In bfloat16, each shape of a block has LSTM code of its own, of a MiB each on long texts.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "512")


class Terminated(KeyboardInterrupt):
    """The exception of SIGTERM and SIGHUP; `status` is the exit status of the last signal."""

    status = 128 + signal.SIGTERM


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `Terminated` once, so that what is open is closed."""

    def handle(number: int, _: FrameType | None) -> None:
        # A launcher passes the signal on to processes that a scheduler has sent it to already.
        signal.signal(number, signal.SIG_IGN)
        Terminated.status = 128 + number
        raise Terminated

    usual: dict[int, Any] = {}
    with suppress(ValueError):  # only the main thread may handle signals
        for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # not on Windows
            if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
                usual[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
