"""From a command line and a recipe to the three dataclasses of `arguments`.

A recipe is a YAML or JSON file whose keys are flag names. Its entries are read exactly as if they
stood on the command line before everything else, so a flag given there wins. It may name another
recipe as its `base`, whose entries come before its own.
"""

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from transformers import HfArgumentParser

from ..data.arguments import DataArguments
from .arguments import ModelArguments, RunArguments

HELP_ALL_FLAG = "--help_all"
MOST_CHOICES_SHOWN = 4
BASE_KEY = "base"  # of a recipe; the only one that is no flag

_METAVARS = {"int": "INT", "float": "FLOAT", "string_to_bool": "BOOL"}

# What `--help` lists of TrainingArguments, in this order; `--help_all` lists all others as well.
COMMON_TRAINING_FLAGS = (
    "output_dir",
    "do_train",
    "do_eval",
    "do_predict",
    "resume_from_checkpoint",
    "num_train_epochs",
    "max_steps",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "train_sampling_strategy",
    "learning_rate",
    "lr_scheduler_type",
    "warmup_steps",
    "optim",
    "weight_decay",
    "max_grad_norm",
    "label_smoothing_factor",
    "eval_strategy",
    "eval_steps",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "load_best_model_at_end",
    "metric_for_best_model",
    "greater_is_better",
    "logging_steps",
    "early_stopping_patience",
    "metric_name",
    "record",
    "max_batch_tokens",
    "report_to",
    "seed",
    "data_seed",
    "full_determinism",
    "bf16",
    "use_cpu",
    "push_to_hub",
)


class FlagFormatter(argparse.RawDescriptionHelpFormatter):
    """One name per flag, and its default if that says something."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32, width=100)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return super()._format_action_invocation(action)
        name = next(name for name in action.option_strings if name.startswith("--"))
        return name if action.nargs == 0 else f"{name} {self._format_args(action, 'TEXT')}"

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if not action.help or action.default in (None, False, argparse.SUPPRESS, "", []):
            return action.help
        return f"{action.help} (default: {_plain(action.default)})"


def parse_arguments(
    argv: Sequence[str] | None = None, description: str | None = None
) -> tuple[ModelArguments, DataArguments, RunArguments]:
    """Read a command line, which may begin with the name of a recipe file.

    Args:
        argv: The words after the program's name; by default those of this process.
        description: What `--help` prints first.

    Returns:
        The three groups of arguments.

    Raises:
        ValueError: If a flag, or a key of the recipe, is unknown, or values contradict each other.
        FileNotFoundError: If there is no such recipe.
        SystemExit: After `--help`, and if a value is not of the flag's kind.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _build_parser(description, shows_all=HELP_ALL_FLAG in words)
    if HELP_ALL_FLAG in words or not words:
        parser.print_help()
        parser.exit()
    if not words[0].startswith("-"):
        words = [*_recipe_words(Path(words[0]), _flag_names(parser)), *words[1:]]
    _, unknown = parser.parse_known_args(words)
    if unknown:
        raise ValueError(_unknown_message(unknown[0], _flag_names(parser)))
    groups: Any = parser.parse_args_into_dataclasses(words, look_for_args_file=False)
    model_args, data_args, training_args = groups
    return model_args, data_args, training_args


def read_recipe(path: str | Path) -> dict[str, Any]:
    """Read a recipe with its bases; every value stays the text that stands in the file.

    So `1e-3` is a number, which YAML 1.1 denies, and a label `no` is not turned into false.

    Args:
        path: A .yaml, .yml or .json file. Its entry `base`, a path relative to its folder, names a
            recipe whose entries hold where it has none of its own; an empty value takes one back.

    Returns:
        Flag names and their values: texts, lists of texts, or None for an empty value.

    Raises:
        FileNotFoundError: If there is no such file, or no such base.
        ValueError: If its ending or its content is not that of a recipe, or if bases go in a
            circle.
    """
    return {
        name: value for _, entries in _with_bases(Path(path)) for name, value in entries.items()
    }


def _with_bases(path: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return a recipe and all that it is based on, each with its own entries, the last base first.

    Raises:
        FileNotFoundError: If one of them is not there; names the recipe that asks for it.
        ValueError: If one of them is no recipe, or is based on itself.
    """
    chain: list[tuple[Path, dict[str, Any]]] = []
    while True:
        if path.resolve() in {earlier.resolve() for earlier, _ in chain}:
            circle = " -> ".join(str(link) for link in [*(earlier for earlier, _ in chain), path])
            raise ValueError(f"recipes are based on one another in a circle: {circle}")
        if chain and not path.is_file():
            raise FileNotFoundError(
                f"there is no recipe {path}, the base of {chain[-1][0]}; a base is a path relative "
                "to the folder of the recipe that names it"
            )
        entries = _own_entries(path)
        base = entries.pop(BASE_KEY, None)
        chain.append((path, entries))
        if base is None:
            return chain[::-1]
        if not isinstance(base, str):
            raise ValueError(f"recipe {path}: base is {base}; it must be the path of one recipe")
        path = path.parent / base


def _own_entries(path: Path) -> dict[str, Any]:
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise ValueError(
            f"{path} is no recipe: it must end in .yaml, .yml or .json. "
            "A recipe is the first argument; everything else is a --flag"
        )
    if not path.is_file():
        raise FileNotFoundError(f"there is no recipe {path}")
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        raise ValueError(f"recipe {path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"recipe {path} must hold lines of the form `flag_name: value`")
    return {name: None if value in ("", "null", "~") else value for name, value in content.items()}


def _build_parser(description: str | None, shows_all: bool) -> HfArgumentParser:
    groups: Any = (ModelArguments, DataArguments, RunArguments)
    parser = HfArgumentParser(
        groups,
        usage="%(prog)s [RECIPE] [--flag value ...]",
        description=description,
        epilog=f"All flags of TrainingArguments work; {HELP_ALL_FLAG} lists them.",
        formatter_class=FlagFormatter,
        allow_abbrev=False,
    )
    training = [entry.name for entry in fields(RunArguments) if entry.init]
    rank = {name: place for place, name in enumerate([*COMMON_TRAINING_FLAGS, *training][::-1])}
    for action in parser._actions:
        is_rare = action.dest in training and action.dest not in COMMON_TRAINING_FLAGS
        is_negation = any(name.startswith("--no_") for name in action.option_strings)
        if is_negation or (is_rare and not shows_all):
            action.help = argparse.SUPPRESS
        if not action.choices:
            action.metavar = _METAVARS.get(getattr(action.type, "__name__", ""))
        elif len(list(action.choices)) > MOST_CHOICES_SHOWN:
            action.metavar = "NAME"
    for group in parser._action_groups:
        group._group_actions.sort(key=lambda action: -rank.get(action.dest, -1))
    return parser


def _flag_names(parser: HfArgumentParser) -> list[str]:
    """Return the names that a recipe may use, and that are suggested for misspelt ones."""
    long_names = [name for action in parser._actions for name in action.option_strings]
    names = [name[2:] for name in long_names if name.startswith("--") and name != "--help"]
    return [name for name in names if "-" not in name]


def _recipe_words(path: Path, known: list[str]) -> list[str]:
    """Return a recipe as the words of a command line."""
    for file, entries in _with_bases(path):
        for name in entries.keys() - set(known):
            raise ValueError(f"recipe {file}: {_unknown_message(f'--{name}', known)}")
    words: list[str] = []
    for name, value in read_recipe(path).items():
        if isinstance(value, list):
            words += [f"--{name}", *map(str, value)]
        elif isinstance(value, dict):  # TrainingArguments reads such a flag as JSON
            typed = {key: _json_value(text) for key, text in value.items()}
            words.append(f"--{name}={json.dumps(typed)}")
        elif value is not None:
            words.append(f"--{name}={value}")
    return words


def _json_value(text: Any) -> Any:
    """Return a number, true, false or null for its spelling, any other text as it is."""
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _unknown_message(word: str, known: list[str]) -> str:
    name = word.removeprefix("--").partition("=")[0].replace("-", "_")
    if not word.startswith("-"):
        return f"unexpected {word!r}: a recipe comes first, and every value belongs to a --flag"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean --{close[0]}?" if close else f"{HELP_ALL_FLAG} lists all flags"
    return f"there is no flag --{name}; {hint}"


def _plain(value: Any) -> Any:
    """Return an enumeration's value, a list as words."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return getattr(value, "value", value)


__all__ = ["parse_arguments", "read_recipe"]
