"""SIGTERM and SIGHUP: a program notes the first one, saves, and ends."""

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Terminated(KeyboardInterrupt):
    """What SIGTERM and SIGHUP raise; `status` is that of the last one."""

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


def handle_endings(act: Callable[[], object] | None = None) -> dict[int, Any]:
    """At SIGTERM and SIGHUP call a function, or raise `Terminated`; return the earlier handlers."""

    def handle(number: int, _: Any) -> None:
        Terminated.status = 128 + number
        for stream in (1, 2):
            # A terminal closes, and so does what reads a pipe beside it: a line written to either
            # would end the program before it saves.
            if number != signal.SIGTERM and not stat.S_ISREG(os.fstat(stream).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        if act is None:
            raise Terminated
        act()

    usual: dict[int, Any] = {}
    with suppress(ValueError):  # only the main thread may handle signals
        for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # not on Windows
            if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
                usual[number] = signal.signal(number, handle)
    return usual
