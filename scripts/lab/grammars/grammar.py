"""Read both grammars, and make choices that are the same on every platform."""

import random
import re
from collections.abc import Sequence
from configparser import ConfigParser
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Alternatives = tuple[str, ...]


def read_grammar(name: str) -> dict[str, dict[str, Alternatives]]:
    """Return the sections of a file in this folder: names and their alternatives."""
    parser = ConfigParser(delimiters=":", interpolation=None)
    parser.read_string(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return {
        section: {
            name: tuple(re.split(r" \| |\n", value.strip()))
            for name, value in parser.items(section)
        }
        for section in parser.sections()
    }


def sentence(words: str) -> str:
    """Return words as a sentence: with a capital and a full stop."""
    return words[0].upper() + words[1:] + "."


class Draw:
    """Choices in a fixed order for a seed; two seeds give two unrelated sequences.

    Only `random.Random.random` draws, because Python promises to keep its sequence for a seed. A
    corpus written elsewhere or next year is therefore the same to the byte.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of the items, each equally likely."""
        return items[int(self._random.random() * len(items))]

    def some(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return some different items in drawn order."""
        left = list(items)
        return [left.pop(int(self._random.random() * len(left))) for _ in range(count)]

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability
