"""Turn a command line and a recipe into the three dataclasses of a task.

A recipe is a YAML or JSON file; its keys are flag names. The entries are read as if they stood
first on the command line, so a flag on the command line overrides an entry. `base` names another
recipe; the entries of the base are read first. `variants` holds named groups of entries, read after
the entries of the file: `yelp5.yaml#cnn_max` is the variant cnn_max. The `base` of a variant is
another variant of the file, or a recipe. A command that names no step takes its defaults from a
preset, a recipe in the folder `presets`; the entries of the preset are read before all others.
"""

import argparse
import difflib
import json
import logging
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

import yaml
from transformers import HfArgumentParser
from transformers.utils import CONFIG_NAME

from ..data.arguments import SPLITS
from ..data.table import ENDINGS
from ..utils.cli import add_common_flags
from ..utils.errors import refusal
from .arguments import Arguments
from .task import AnyTask

logger = logging.getLogger(__name__)

TaskT = TypeVar("TaskT", bound=AnyTask)

STEPS = ("do_train", "do_eval", "do_predict")
IN_MEMORY = "rows"  # in place of the name of a file
PRESETS = Path(__file__).with_name("presets")  # recipes for commands that name no step

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
    words = list(sys.argv[1:] if argv is None else argv)
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


def _check_values(
    parser: _Parser, entries: Mapping[str, Any], origins: Mapping[str, Path] = MappingProxyType({})
) -> None:
    """Raise ValueError for the first entry whose flag is unknown, or does not take its value.

    `origins` are the files of the entries, as those of `_Recipe`.
    """
    is_of_program = parser.is_of_program
    parser.is_of_program = True
    try:
        for name, value in entries.items():
            where = f"recipe {origins[name]}: " if name in origins else ""
            try:
                _, unknown = parser.parse_known_args(flag_words({name: value}))
            except ValueError as fault:
                raise refusal(f"{where}{name} is {value!r:.80}", str(fault)) from None
            if not unknown:
                continue
            if unknown[0].startswith("--"):
                raise ValueError(f"{where}{_unknown_message(unknown[0], _known(parser))}")
            raise refusal(f"{where}{name} is {value!r:.80}", "it takes one value")
    finally:
        parser.is_of_program = is_of_program


def _known(parser: _Parser) -> set[str]:
    return {action.dest for action in parser._actions}


def _parse(
    task: type[TaskT], parser: _Parser, words: list[str], in_memory: Collection[str] = ()
) -> TaskT:
    """Return a task with the arguments of words that may begin with a recipe file."""
    recipe = None
    typed = flag_names(words)
    note_given_twice(typed)
    if words and not words[0].startswith("-"):
        recipe = _Recipe(os.path.expanduser(words[0]))
        _check_values(parser, recipe.entries, recipe.origins)
        words = [*flag_words(recipe.entries), *words[1:]]
    given, unknown = parser.parse_known_args(words)
    if unknown:
        raise ValueError(_unknown_message(unknown[0], _known(parser)))
    for split in in_memory:
        setattr(given, f"{split}_file", IN_MEMORY)
    names = task.presets(given)
    is_stepwise = any(getattr(given, step, False) for step in STEPS)
    presets = [] if is_stepwise else [PRESETS / f"{name}.yaml" for name in names]
    words = [*flag_words(_implied(task, given, presets, is_stepwise)), *words]
    arguments = Arguments(*parser.parse_args_into_dataclasses(words, look_for_args_file=False))
    if presets and arguments.run.process_index == 0:
        logger.info(f"preset: {', '.join(map(str, presets))}")
    _empty_lists(arguments)
    made = task(arguments)
    if recipe is not None:
        made.recipes = recipe.files
        made.origins = {name: path for name, path in recipe.origins.items() if name not in typed}
    return made


def _empty_lists(arguments: Arguments[Any, Any, Any]) -> None:
    """Set a flag to None whose only file is an empty value, as that of an entry left out is."""
    for group in (arguments.data, arguments.model):
        for name, value in vars(group).items():
            if value == [None]:
                setattr(group, name, None)


def flag_names(words: Iterable[str]) -> list[str]:
    """Return the names of the flags on a command line, without dashes and values."""
    names = (word.partition("=")[0] for word in words if word.startswith("--"))
    return [name.removeprefix("--").replace("-", "_") for name in names]


def note_given_twice(names: Sequence[str]) -> None:
    """Warn if a file of rows is given twice: argparse takes the last one, and drops the others."""
    for name in (*(f"{split}_file" for split in SPLITS), "unlabelled_file", "corrections_file"):
        if names.count(name) > 1:
            logger.warning(f"--{name} is given twice, and only the last file is read")


def optional_path(text: str) -> str | None:
    """Read a flag's value as a path, ~ as the home folder; an empty one as none."""
    return os.path.expanduser(text) or None


def read_recipe(path: str | Path) -> dict[str, Any]:
    """Read a recipe, or a variant as FILE#VARIANT, and its base, relative to the recipe's folder.

    Values are texts, lists of texts, or None for an empty one: YAML 1.1 would read `1e-3` as a text
    and the label `no` as false.
    """
    return _Recipe(path).entries


class _Recipe:
    """The entries of a recipe by name, the file that gave each, and all files that were read."""

    def __init__(self, path: str | Path) -> None:
        self.files: list[Path] = []
        self.origins: dict[str, Path] = {}
        try:
            self.entries = self._read_with_base(path)
        except RecursionError:
            raise ValueError(f"recipe {path} is based on itself, or nested too deep") from None

    def _read_with_base(self, name: str | Path) -> dict[str, Any]:
        file, _, variant = str(name).partition("#")
        path = Path(file)
        content = _read_file(path)
        self.files.append(path)
        variants = content.pop("variants", {})
        if not isinstance(variants, dict) or not all(
            isinstance(own, dict) or own == "" for own in variants.values()
        ):
            raise ValueError(
                f"recipe {path}: `variants` must hold names, each with lines of its own"
            )
        entries = self._read_entries(path, content, {})
        if not (variants or variant):
            return entries
        if variant not in variants:
            listed = ", ".join(variants) or "none"
            raise ValueError(
                f"{path} has no variant {variant!r}; name one as {path}#VARIANT: {listed}"
            )
        return entries | self._read_entries(path, variants[variant], variants)

    def _read_entries(
        self, path: Path, content: Any, variants: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the lines of a recipe, or of a variant, after those of its base."""
        own = dict(content or {})
        for name, value in own.items():  # anchors could make a nested list of any size
            items = value if isinstance(value, list) else [value]
            if not all(isinstance(item, str) for item in items):
                raise ValueError(f"recipe {path}: {name} must be a text or a list of texts")
        below: dict[str, Any] = {}
        if (base := own.pop("base", None)) in variants:
            below = self._read_entries(path, variants[base], variants)
        elif base is not None:
            below = self._read_with_base(path.parent / base)
        self.origins.update(dict.fromkeys(own, path))
        empty = ("", "null", "~")
        return below | {name: None if value in empty else value for name, value in own.items()}


class _OneValuePerKey(yaml.BaseLoader):
    """YAML that refuses a key given twice, of which the first value would be dropped."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for place, key in enumerate(keys):
            if key in keys[:place]:
                line = node.value[place][0].start_mark.line + 1
                raise yaml.YAMLError(f"{key} is given twice, again in line {line}; keep one")
        return super().construct_mapping(node, deep)


def _read_file(path: Path) -> dict[str, Any]:
    """Return the lines of a recipe file, as YAML has them."""
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise ValueError(
            f"{path} is not a recipe, which ends in .yaml, .yml or .json. A recipe is the first "
            f"argument; everything else is a --flag, such as --train_file {path}"
        )
    if not path.is_file():
        raise FileNotFoundError(f"there is no recipe {path}")
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_OneValuePerKey)
    except yaml.YAMLError as error:
        raise ValueError(f"recipe {path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"recipe {path} must hold lines of the form `flag_name: value`")
    return content


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


def _implied(
    task: type[AnyTask], given: argparse.Namespace, presets: Sequence[Path], is_stepwise: bool
) -> dict[str, Any]:
    """Return the entries of the presets, and the settings that follow from the given flags."""
    implied: dict[str, Any] = {}
    for preset in presets:
        implied |= read_recipe(preset)
    if not is_stepwise and getattr(given, "test_file", None) is not None:
        implied["do_predict"] = "true"
    if implied.get("load_best_model_at_end") and given.save_steps is not None:
        implied |= {"eval_strategy": "steps", "eval_steps": str(given.save_steps)}
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


def flag_words(entries: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line with the meaning of entries of a recipe or a program."""
    words: list[str] = []
    for name, value in entries.items():
        if isinstance(value, list | tuple):
            words += [f"--{name}", *map(str, value)]
        elif isinstance(value, Mapping):
            words.append(f"--{name}={json.dumps(dict(value))}")
        elif value is not None:
            words.append(f"--{name}={value}")
    return words


def _unknown_message(word: str, known: Collection[str]) -> str:
    if not word.startswith("-"):
        return f"unexpected {word!r}: a recipe comes first, and every value belongs to a --flag"
    name = word.removeprefix("--").partition("=")[0].replace("-", "_")
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean --{close[0]}?" if close else "--help_all lists all flags"
    return f"there is no flag --{name}; {hint}"
