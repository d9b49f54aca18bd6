"""A look at the files of a training before transformers is imported, which takes seconds."""

import argparse
import logging
from collections.abc import Sequence
from dataclasses import fields

from ..data.arguments import DataArguments, PairArguments
from ..data.rows import load_rows
from ..utils.cli import errors_in_one_line

TEXT, TEXTS = str | None, list[str] | None  # types of flags
WITHOUT_LABELS = ("retrieval", "translation")


def check_files(script: str, words: Sequence[str]) -> str:
    """Return the `--task` of a command line, by default labels.

    Exits with one line that names the faults of the files that it learns from. Other flags are
    refused by the parser of the run.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--task", default="labels")
    for field in fields(DataArguments):
        if field.type in (str, TEXT, TEXTS):
            nargs = "*" if field.type == TEXTS else None
            parser.add_argument(f"--{field.name}", nargs=nargs, default=field.default)
    try:
        given, _ = parser.parse_known_args(words)
    except argparse.ArgumentError:
        return "labels"
    task: str = given.task
    if given.train_file is None:
        return task
    kind = PairArguments if task in WITHOUT_LABELS else DataArguments
    rows = {entry.name: value for entry in fields(kind) if (value := vars(given).get(entry.name))}
    with errors_in_one_line(script):
        logging.disable(logging.WARNING)  # the run says it again
        try:
            load_rows(kind(**rows))
        finally:
            logging.disable(logging.NOTSET)
    return task
