"""The frame of every script: a parser, and errors of the user as one line."""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError


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

    So does an interruption, by Ctrl-C or by SIGTERM, with what it says itself or `on_interrupt`;
    the status after SIGTERM is 143, as shells have it.
    """
    name = Path(script).name
    with suppress(ValueError):  # only the main thread may handle signals
        signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    except (ValueError, OSError, ImportError, FloatingPointError, SafetensorError) as error:
        sys.exit(f"{name}: {error}")
    except Exception as error:
        if not is_write_error(error):
            raise
        sys.exit(f"{name}: a file could not be written, is the disk full? ({error})")
    except KeyboardInterrupt as stop:
        sys.stderr.write(f"{name}: {str(stop) or on_interrupt}\n")
        sys.exit(143 if isinstance(stop, Terminated) else 130)


def is_write_error(error: Exception) -> bool:
    """Say whether the disk is full: torch and tokenizers have no class for it, only words."""
    reasons = [os.strerror(number) for number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)]
    reasons += ["PytorchStreamWriter", "inline_container", "iostream error"]
    return any(reason in str(error) for reason in reasons)


class Terminated(KeyboardInterrupt):
    """What SIGTERM raises."""


@contextmanager
def first_termination(note: Callable[[], object]) -> Iterator[None]:
    """Call a function at the first SIGTERM, which then interrupts nothing, as the next ones.

    A launcher passes the signal on to processes that a scheduler has sent it to already.
    """

    def handle(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        note()

    usual = signal.getsignal(signal.SIGTERM)
    with suppress(ValueError):  # only the main thread may handle signals
        signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGTERM, usual)


def _raise_terminated(*_: Any) -> None:
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
