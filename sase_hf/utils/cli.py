"""The frame of every script: a parser, and errors of the user as one line."""

import argparse
import errno
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from .text import visible


def make_parser(description: str | None, **options: Any) -> argparse.ArgumentParser:
    """Return a parser whose `--help` begins with this docstring of a script."""
    return argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        **options,
    )


@contextmanager
def errors_in_one_line(script: str, on_interrupt: str = "stopped") -> Iterator[None]:
    """Exit with one line, "script: reason", where the user, a file or the network is at fault.

    So does an interruption, by Ctrl-C, by SIGTERM or by SIGHUP of a closed terminal, with what it
    says itself or `on_interrupt`; the status is 130, 143 or 129, as shells have it.
    """
    name = Path(script).name
    _at_endings(_raise_terminated)
    try:
        yield
    except (ValueError, OSError, ImportError, FloatingPointError, SafetensorError) as error:
        sys.exit(visible(f"{name}: {error}"))
    except Exception as error:
        if not is_write_error(error):
            raise
        sys.exit(visible(f"{name}: a file could not be written, is the disk full? ({error})"))
    except KeyboardInterrupt as stop:
        sys.stderr.write(visible(f"{name}: {str(stop) or on_interrupt}") + "\n")
        sys.exit(Terminated.status if isinstance(stop, Terminated) else 130)


def is_write_error(error: Exception) -> bool:
    """Say whether the disk is full: torch and tokenizers have no class for it, only words."""
    reasons = [os.strerror(number) for number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)]
    reasons += ["PytorchStreamWriter", "inline_container", "iostream error"]
    return any(reason in str(error) for reason in reasons)


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

    usual = _at_endings(act)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _at_endings(act: Callable[[], object]) -> dict[int, Any]:
    """Call a function at SIGTERM and SIGHUP; return the handlers that were there before."""

    def handle(number: int, _: Any) -> None:
        Terminated.status = 128 + number
        for stream in (1, 2):
            # A terminal closes, and so does what reads a pipe beside it: a line written to either
            # would end the program before it saves.
            if number != signal.SIGTERM and not stat.S_ISREG(os.fstat(stream).st_mode):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        act()

    usual: dict[int, Any] = {}
    with suppress(ValueError):  # only the main thread may handle signals
        for number in {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}:  # not on Windows
            if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
                usual[number] = signal.signal(number, handle)
    return usual


def _raise_terminated() -> None:
    raise Terminated


def positive_int(text: str) -> int:
    """Read a flag's value as an integer of 1 or more; for `type=` of `add_argument`."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of 1 or more")
    return int(text)


def column_names(text: str) -> list[str]:
    """Read a flag's value as one or two names of columns, split at the comma."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) not in (1, 2):
        raise argparse.ArgumentTypeError(f"{text!r} must be one name, or two with a comma between")
    return names


def add_text_column_names(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names the text columns of a file, as a list."""
    parser.add_argument(
        "--text_column_names",
        type=column_names,
        metavar="NAMES",
        help='one text column, or two for pairs: "premise,hypothesis" (default: found by name)',
    )


def given_flags(parser: argparse.ArgumentParser, flags: argparse.Namespace) -> dict[str, Any]:
    """Return the flags that differ from their defaults, for a record."""
    return {name: value for name, value in vars(flags).items() if value != parser.get_default(name)}
