"""Make a task of a command line, which may begin with a recipe, or of what a program gives."""

import argparse
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from datasets import Dataset
from transformers import HfArgumentParser

from ..evaluation.metrics import METRICS, SCORE
from ..utils.cli import add_common_flags
from ..utils.errors import refusal
from ..utils.recipes import flag_words, with_recipe
from .arguments import RunArguments
from .defaults import implied
from .settings import Settings
from .task import Task

logger = logging.getLogger(__name__)

TaskT = TypeVar("TaskT", bound=Task)
GROUPS: Any = (Settings, RunArguments)
KINDS = {entry.name: str(entry.type) for group in GROUPS for entry in fields(group)}  # of flags


def parse_arguments(
    task: type[TaskT], argv: Sequence[str] | None = None, description: str | None = None
) -> TaskT:
    """Return a task with the arguments of a command line, which may begin with a recipe file.

    By default it is that of this process. `--help_all` begins with the `description`. Raises
    ValueError for unknown flags and contradictions, SystemExit for a value of another kind.
    """
    words = with_recipe(sys.argv[1:] if argv is None else argv)
    given, unknown = _parser(description).parse_known_args(words)
    if unknown:
        raise refusal(
            f"there is no flag for {unknown[0]!r}",
            "a recipe comes first, every value belongs to a --flag, and --help_all lists all flags",
        )
    return make_task(task, vars(given))


def make_task(
    task: type[TaskT],
    given: Mapping[str, Any],
    in_memory: Mapping[str, Dataset] = MappingProxyType({}),
) -> TaskT:
    """Return a task with the given arguments, by the names of flags, and those that follow.

    The splits `in_memory` are rows of the program. Raises ValueError for names and values that no
    flag has, and for contradictions.
    """
    values = {"task": task.names[0]}
    for name, value in given.items():
        values[name] = _plain(value, takes_several="list" in KINDS.get(name, ""))
    chosen = implied(values, in_memory)
    values = {**chosen, **values}
    if values["task"] not in task.names:
        raise refusal(f"--task is {values['task']!r}", f"here it is {' or '.join(task.names)}")
    settings, args = HfArgumentParser(GROUPS).parse_dict(values)
    [chooser, *_] = settings.metric_name or METRICS
    if args.metric_for_best_model == SCORE and chooser not in METRICS:
        raise refusal(
            f"the best epoch is that of the first --metric_name, and {chooser} may be better high "
            "or low",
            f"put one of {', '.join(METRICS)} before it",
        )
    shown = {name: value for name, value in chosen.items() if name not in given}
    if shown:
        logger.info(f"chosen: {' '.join(flag_words(shown))}")
    return task(settings, args, values, in_memory)


def _plain(value: Any, takes_several: bool) -> Any:
    """Return a value as that of a flag, which may take several: no paths, no types of numpy."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(item, takes_several=False) for item in value]
    if isinstance(value, str | os.PathLike):
        value = os.fspath(value)
        return [value] if takes_several else value
    return value


def _parser(description: str | None) -> HfArgumentParser:
    """Return a parser whose results hold only what is given."""
    parser = HfArgumentParser(
        GROUPS,
        usage="%(prog)s [RECIPE] [--flag value ...]",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_common_flags(parser)
    for action in parser._actions:
        if action.default not in (None, False, "", [], argparse.SUPPRESS):
            action.help = f"{action.help} (default: {action.default})"
        action.default = argparse.SUPPRESS
    return parser
