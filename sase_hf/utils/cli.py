"""The frame of every script: a parser, recipes, and errors of the user as one line."""

import argparse
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError

from .process import interrupted_by_sigterm
from .text import one_line, refusal


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
    note = 'the text column; where pairs are predicted two: "first,second" (default: by name)'
    parser.add_argument("--text_column_names", nargs=1, metavar="NAMES", help=note)


# ---- recipes: YAML files whose entries stand first on the command line ---------------------------


EMPTY = ("", "null", "~")  # entries that are not given


def with_recipe(words: Sequence[str]) -> list[str]:
    """Return a command line in which the entries of its recipe, if it begins with one, are flags.

    A later flag overrides them. ValueError or OSError: the first word is no recipe.
    """
    if not words or words[0].startswith("-"):
        return [*words]
    return [*flag_words(read_recipe(words[0])), *words[1:]]


def read_recipe(path: str | Path) -> dict[str, Any]:
    """Return the entries of a recipe: texts, and lists of texts.

    YAML 1.1 would read `1e-3` as a text and the label `no` as false; here the flags say the type.
    """
    path = Path(path)
    if path.suffix != ".yaml":
        raise refusal(f"{path} is no recipe, a file .yaml", f"give a flag: --train_file {path}")
    try:
        entries = {**yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)}
    except (yaml.YAMLError, TypeError) as reason:
        raise refusal(
            f"recipe {path}: {reason}", "give lines of the form `flag: value`"
        ) from reason
    return {name: value for name, value in entries.items() if value not in EMPTY}


def flag_words(entries: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line with the meaning of entries of a recipe or a program."""
    words: list[str] = []
    for name, value in entries.items():
        if isinstance(value, list | tuple):
            words += [f"--{name}", *map(str, value)]
        elif value is not None:
            words.append(f"--{name}={value}")
    return words
