"""Recipes: YAML files whose entries are read as if they stood first on the command line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .errors import refusal

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
