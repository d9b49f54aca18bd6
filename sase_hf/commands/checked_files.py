"""A look at the files of a training before transformers is imported, which takes seconds."""

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import fields

from ..data.arguments import SourceArguments
from ..data.rows import load_rows
from ..utils.cli import errors_in_one_line

TEXT, TEXTS = str | None, list[str] | None  # types of flags


def check_files(
    script: str, argv: Sequence[str] | None, arguments_class: type[SourceArguments]
) -> None:
    """Exit with one line that names the faults of the files that a command learns from.

    Other flags are refused by the parser of the run.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for field in fields(arguments_class):
        if field.type in (str, TEXT, TEXTS):
            nargs = "*" if field.type == TEXTS else None
            parser.add_argument(f"--{field.name}", nargs=nargs, default=field.default)
    try:
        given, _ = parser.parse_known_args(sys.argv[1:] if argv is None else argv)
    except argparse.ArgumentError:
        return
    if given.train_file is None:
        return
    with errors_in_one_line(script):
        logging.disable(logging.WARNING)  # the run says it again
        try:
            load_rows(arguments_class(**vars(given)))
        finally:
            logging.disable(logging.NOTSET)
