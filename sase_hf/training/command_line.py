"""Turn a command line, which may begin with a recipe, into the three dataclasses of a task.

A command that names no step takes other defaults (`defaults`), which are read before its flags.
"""

import argparse
import difflib
import logging
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from transformers import HfArgumentParser
from transformers.utils import CONFIG_NAME

from ..data.table import ENDINGS
from ..utils.cli import add_common_flags
from ..utils.errors import refusal
from ..utils.recipes import flag_words, with_recipe
from .arguments import Arguments
from .defaults import defaults
from .task import AnyTask

logger = logging.getLogger(__name__)

TaskT = TypeVar("TaskT", bound=AnyTask)

STEPS = ("do_train", "do_eval", "do_predict")
IN_MEMORY = "rows"  # in place of the name of a file

# Flags whose values are files or folders, or can be.
PATH_FLAGS = {
    *("train_file", "validation_file", "test_file", "dataset_name", "cache_dir"),
    *("model_name_or_path", "encoder_name_or_path", "tokenizer_name", "word_vectors"),
    *("unlabelled_file", "corrections_file"),
    *("output_dir", "record", "resume_from_checkpoint"),
}


def arguments_of_program(
    task: type[TaskT], entries: Mapping[str, Any], in_memory: Collection[str] = ()
) -> TaskT:
    """Return a task with the arguments that a program gives, by the names of flags.

    Defaults are those of the same flags on a command line; None is a flag that is not given. The
    splits `in_memory` are rows of the program, and count as if flags named files of them. Raises
    ValueError for what a command line refuses.
    """
    parser = _build_parser(None, task.argument_groups)
    parser.is_of_program = True
    _check_values(parser, entries)
    return _parse(task, parser, flag_words(entries), in_memory)


def parse_arguments(
    task: type[AnyTask], argv: Sequence[str] | None = None, description: str | None = None
) -> AnyTask:
    """Return a task with the arguments of a command line, which may begin with a recipe file.

    By default it is that of this process. `--help_all` begins with the `description`. Raises
    ValueError for unknown flags and contradictions, SystemExit for a value of another kind.
    """
    words = with_recipe(sys.argv[1:] if argv is None else argv)
    return _parse(task, _build_parser(description, task.argument_groups), words)


class _Parser(HfArgumentParser):
    """A parser that raises ValueError where a program or a recipe gives the flags.

    A command line ends with its usage and the error.
    """

    is_of_program = False

    def error(self, message: str) -> NoReturn:
        if self.is_of_program:
            raise ValueError(message)
        super().error(message)


def _check_values(parser: _Parser, entries: Mapping[str, Any]) -> None:
    """Raise ValueError for the first entry whose flag is unknown, or does not take its value."""
    for name, value in entries.items():
        try:
            _, unknown = parser.parse_known_args(flag_words({name: value}))
        except ValueError as fault:
            raise refusal(f"{name} is {value!r:.80}", str(fault)) from None
        if not unknown:
            continue
        if unknown[0].startswith("--"):
            raise ValueError(_unknown_message(unknown[0], _known(parser)))
        raise refusal(f"{name} is {value!r:.80}", "it takes one value")


def _known(parser: _Parser) -> set[str]:
    return {action.dest for action in parser._actions}


def _parse(
    task: type[TaskT], parser: _Parser, words: list[str], in_memory: Collection[str] = ()
) -> TaskT:
    """Return a task with the arguments of words that are flags."""
    given, unknown = parser.parse_known_args(words)
    if unknown:
        raise ValueError(_unknown_message(unknown[0], _known(parser)))
    for split in in_memory:
        setattr(given, f"{split}_file", IN_MEMORY)
    implied = _implied(task, given)
    words = [*flag_words(implied), *words]
    arguments = Arguments(*parser.parse_args_into_dataclasses(words, look_for_args_file=False))
    if implied and arguments.run.process_index == 0:
        logger.info(f"chosen: {' '.join(flag_words(implied))}")
    _empty_lists(arguments)
    return task(arguments)


def _empty_lists(arguments: Arguments[Any, Any, Any]) -> None:
    """Set a flag to None whose only file is an empty value, as that of an entry left out is."""
    for group in (arguments.data, arguments.model):
        for name, value in vars(group).items():
            if value == [None]:
                setattr(group, name, None)


def optional_path(text: str) -> str | None:
    """Read a flag's value as a path, ~ as the home folder; an empty one as none."""
    return os.path.expanduser(text) or None


def _build_parser(description: str | None, groups: tuple[type[Any], ...]) -> _Parser:
    parser = _Parser(
        groups,  # type: ignore[arg-type]
        usage="%(prog)s [RECIPE] [--flag value ...]",
        description=description,
        formatter_class=partial(
            argparse.RawDescriptionHelpFormatter, max_help_position=32, width=100
        ),
        allow_abbrev=False,
    )
    add_common_flags(parser)
    for action in parser._actions:
        if action.dest in PATH_FLAGS:
            action.type = optional_path
        names = [name for name in action.option_strings if name.startswith("--")]
        if names[0].startswith("--no_"):
            action.help = argparse.SUPPRESS
            continue
        action.option_strings = names[:1]  # help lists one spelling of a flag, all of them work
        if action.default not in (None, False, argparse.SUPPRESS, "", []):
            default = action.default
            shown = " ".join(default) if isinstance(default, list) else default
            action.help = f"{action.help} (default: {getattr(shown, 'value', shown)})"
    return parser


def _implied(task: type[AnyTask], given: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that follow from the given flags."""
    implied: dict[str, Any] = {}
    if not any(getattr(given, step, False) for step in STEPS):
        implied = defaults(given.task or task.names[0], given)
        if getattr(given, "test_file", None) is not None:
            implied["do_predict"] = True
    if implied.get("load_best_model_at_end") and given.save_steps is not None:
        implied |= {"eval_strategy": "steps", "eval_steps": given.save_steps}
    is_trained = given.do_train or "do_train" in implied
    folder = _output_folder(task, given, is_trained)
    if given.output_dir is None and folder is not None:
        implied["output_dir"] = folder
        if not is_trained and Path(folder, CONFIG_NAME).exists():
            raise ValueError(f"{folder}, for the results, holds a model; name another --output_dir")
    return implied


def _output_folder(task: type[AnyTask], given: argparse.Namespace, is_trained: bool) -> str | None:
    """Return the folder that a run is named, by its rows and, if nothing is trained, its model."""
    rows = given.train_file or given.dataset_name or given.validation_file
    rows = rows or getattr(given, "test_file", None)
    if rows is None:
        return None
    if is_trained:
        return "runs/" + (Path(rows).name.partition(".")[0] or "run") + task.folder_suffix
    # Both are named whole, so that no results replace others.
    ending = next((end for end in ENDINGS if rows.endswith(end)), "")
    named = [given.model_name_or_path or ".", rows.removesuffix(ending)]
    parts = [part for path in named for part in _parts_from_here(path) if part != "runs"]
    return "runs/" + "-".join(parts)


def _parts_from_here(path: str) -> list[str]:
    """Return the names on the way to a path; of folders above this one, the name of the last."""
    parts = Path(os.path.relpath(path)).parts
    num_up = parts.count("..")
    if not num_up:
        return [*parts]
    above = Path(os.getcwd()).parents[num_up - 1]
    return [above.name or "root", *parts[num_up:]]


def _unknown_message(word: str, known: Collection[str]) -> str:
    if not word.startswith("-"):
        return f"unexpected {word!r}: a recipe comes first, and every value belongs to a --flag"
    name = word.removeprefix("--").partition("=")[0].replace("-", "_")
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean --{close[0]}?" if close else "--help_all lists all flags"
    return f"there is no flag --{name}; {hint}"
