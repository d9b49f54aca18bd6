"""The frame of every script: a parser, and errors of the user as one line."""

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from .process import interrupted_by_sigterm
from .text import one_line


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with `--version` and `--help_all`, which begins with this docstring."""
    parser = argparse.ArgumentParser(
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_common_flags(parser)
    return parser


def add_common_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that print the version of this package, and every flag of the parser."""
    from .. import __version__  # when it is used: the package imports this file before it has one

    note = "show the version of sase_hf and exit"
    parser.add_argument("--version", action="version", version=f"sase_hf {__version__}", help=note)
    parser.add_argument("--help_all", action="help", help="show every flag and exit")


@contextmanager
def errors_in_one_line(script: str, on_interrupt: str = "stopped") -> Iterator[None]:
    """Exit with one line, "script: reason", where the user, a file or the network is at fault.

    Ctrl-C and SIGTERM exit with `on_interrupt` as the reason, and the status 130.
    """
    name = Path(script).name
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # one that lacks a character writes an escape
            stream.reconfigure(errors="backslashreplace")
    try:
        with interrupted_by_sigterm():
            yield
    except (ValueError, OSError, ImportError, FloatingPointError, SafetensorError) as error:
        sys.exit(one_line(f"{name}: {error}"))
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: {on_interrupt}\n")
        sys.exit(130)


def add_text_column_names(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names the text columns of a file, as a list."""
    note = 'one text column, or two for pairs: "premise,hypothesis" (default: found by name)'
    parser.add_argument("--text_column_names", nargs=1, metavar="NAMES", help=note)
