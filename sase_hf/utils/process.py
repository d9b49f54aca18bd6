"""This process: its memory and the signals that end it."""

import ctypes
import os
import platform
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # from glibc's malloc.h

# What `signal.signal` takes and returns.
Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None


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
def first_termination(note: Callable[[], object]) -> Iterator[None]:
    """Call a function at the first SIGTERM or SIGHUP; neither interrupts anything, then or later.

    A launcher passes the signal on to processes that a scheduler has sent it to already.
    """

    def act() -> None:
        for number in usual:
            signal.signal(number, signal.SIG_IGN)
        note()

    usual = handle_endings(act)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def handle_endings(act: Callable[[], object] | None = None) -> dict[int, Handler]:
    """At SIGTERM and SIGHUP call a function, or raise `Terminated`; return the earlier handlers."""

    def handle(number: int, _: FrameType | None) -> None:
        Terminated.status = 128 + number
        for stream in (1, 2):
            # If a terminal closes, the reader of a pipe closes, too. A line written to either would
            # end the program before it saves.
            if number != signal.SIGTERM and not stat.S_ISREG(os.fstat(stream).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        if act is None:
            raise Terminated
        act()

    usual: dict[int, Handler] = {}
    with suppress(ValueError):  # only the main thread may handle signals
        for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # not on Windows
            if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
                usual[number] = signal.signal(number, handle)
    return usual
