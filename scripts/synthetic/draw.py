"""A seeded source of choices that makes the same ones on every platform and Python version."""

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Draw:
    """Choices in a fixed order for a seed.

    Built on `random.Random.random` alone: it is the one method whose sequence Python promises to
    keep for a seed, so a corpus written elsewhere or next year is the same to the byte.

    Args:
        seed: Any text; two texts give two unrelated sequences.
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


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, split at spaces."""
    return tuple(text.split())
