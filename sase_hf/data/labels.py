"""The labels of a column: the kind of problem, the classes, their order and their encoding."""

import math
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from datasets import ClassLabel, List, Value

from ..models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Answers, answers_of_kind
from ..utils.errors import refusal
from .label_cells import CellReader
from .label_values import (
    NUMBER,
    class_name,
    given_labels,
    is_like_missing,
    is_number,
    is_unlabelled,
    listed,
    looks,
    numbers_with_commas,
    written,
)

PROBLEM_TYPES = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)

MANY_NUMBERS = 50  # more whole numbers than this that hardly repeat are quantities, not classes
IGNORED_LABEL = -100  # the losses of the models, like those of torch, leave it out
MAX_ROUNDING = 0.01  # of the sum of rounded probabilities

_LEAVES_OUT = "--drop_unlabelled leaves their rows out"
_FROM_CHECKPOINT = "; add --ignore_mismatched_sizes to start from a checkpoint"

EncodedLabel = int | float | list[float]


def _whole_cells() -> CellReader:
    return CellReader((), SINGLE_LABEL, ())


@dataclass(frozen=True)
class LabelColumn:
    """The labels of a task: from the cells of a column to the labels of a model, and to names."""

    kind: str  # one of `PROBLEM_TYPES`, or what pairs without labels are for
    names: tuple[str, ...]  # the classes in id order; for regression one name per output
    positions: bool = False  # whether whole numbers are read as positions in `names`
    indicators: bool = False  # whether a row of a multi-label problem is a 0 or 1 for every class
    reads_names: bool = False  # whether a list of texts is one of names, also beside indicators
    soft: bool = False  # whether a row of a single-label problem gives each class a probability
    reader: CellReader = field(default_factory=_whole_cells)

    @classmethod
    def learn(
        cls,
        cells: Sequence[object],
        problem_type: str | None = None,
        label_names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "LabelColumn":
        """Find out the meaning of the labels of the train split.

        Without `problem_type`, lists are a multi-label problem; numbers that are not all whole are
        a regression unless names are given; whole numbers that hardly repeat are refused; all else
        is a single-label problem. The rows of a multi-label problem list the labels that apply. If
        all of them have the same length, 2 or more (that of the names, if given), and hold only 0
        and 1, they are a 0 or 1 for every class. Dicts from class to probability are soft labels of
        a single-label problem; there lists hold a number for each of the `label_names`. `encode`
        refuses values that cannot be labels.

        The order of the names: `label_names`; else the `class_names` of the dataset; else numbers
        by size, so that "10" comes after "9"; else alphabetical. 1, 1.0, "1" and "1.0" are the same
        label. If `label_names` are given and none is a number, whole numbers are positions in them.

        Raises CellFault for a cell that cannot be read, ValueError for an unknown problem type, a
        name that comes twice, or too few labels.
        """
        known_names = tuple(label_names or class_names or ())
        if len(set(known_names)) < len(known_names):
            raise ValueError(f"--label_names has a name twice: {listed(known_names)}")
        reader = CellReader(cells, problem_type, known_names)
        names_of_classes = () if problem_type == REGRESSION else known_names
        values = given_labels(reader.read_all(cells), names_of_classes)
        lists = [value for value in values if isinstance(value, list)]
        kind = problem_type or _infer_problem_type(values, lists, named=bool(known_names))
        if kind not in PROBLEM_TYPES:
            raise ValueError(f"--problem_type is {kind!r}; allowed are {', '.join(PROBLEM_TYPES)}")
        if kind == REGRESSION:
            return cls(kind, known_names or _score_names(lists), reader=reader)
        width = _indicator_width(lists, len(known_names)) if kind == MULTI_LABEL else 0
        names = known_names or _learnt_names(kind, values, width)
        _require_names(names, _least_names(kind, values))
        return cls(
            kind,
            names,
            positions=bool(label_names) and not any(map(NUMBER.fullmatch, known_names)),
            indicators=width > 0,
            soft=_are_soft(kind, values),
            reader=reader,
        )

    @property
    def answers(self) -> Answers:
        """What a model of these labels answers."""
        return answers_of_kind(self.kind, self.names)

    @property
    def feature(self) -> ClassLabel | List | Value:
        """The type of a column of encoded labels."""
        if self.kind == SINGLE_LABEL:
            return ClassLabel(names=list(self.names))
        if self.kind == MULTI_LABEL:
            return List(Value("float32"))
        number = Value("float64")  # a row has the number of its file; batches round it to float32
        return number if len(self.names) == 1 else List(number)

    def encode(self, cell: object) -> EncodedLabel | None:
        """Return the label as the loss takes it, None for no label; ValueError if unknown."""
        value = self.reader.read(cell)
        if is_unlabelled(value, () if self.kind == REGRESSION else self.names):
            return None
        if self.kind == SINGLE_LABEL:
            return self._probabilities(value) if self.soft else self._class_id(value)
        if self.kind == REGRESSION:
            return self._targets(value)
        return self._zeros_and_ones(value)

    def decode(self, label: Any) -> Any:
        """Return a name for a class id, a list of names for zeros and ones, numbers as written."""
        if self.kind == SINGLE_LABEL:
            return self.names[label]
        if self.kind == MULTI_LABEL:
            return [name for name, applies in zip(self.names, label, strict=True) if applies]
        return label

    @cached_property
    def _ids(self) -> dict[str, int]:
        """The class id of each name, of its trimmed form, and of its position."""
        ids: dict[str, int] = {}
        if self.positions:
            ids.update((str(index), index) for index in range(len(self.names)))
        ids.update((class_name(name), index) for index, name in enumerate(self.names))
        ids.update((name, index) for index, name in enumerate(self.names))
        return ids

    def _class_id(self, value: object) -> int:
        if isinstance(value, str) and value in self._ids:
            return self._ids[value]
        name = class_name(value)
        if name in self._ids:
            return self._ids[name]
        what = f"{reprlib.repr(value)} is not one of the labels {listed(self.names)}"
        for known in self.names:
            if looks(known) == looks(name):
                raise refusal(
                    f"{what}; it looks like the label {written(known)}, but is {written(name)}",
                    "write both alike",
                )
        raise refusal(
            what,
            "correct it, or train with other --label_names or another --problem_type"
            f"{_FROM_CHECKPOINT}",
        )

    def _zeros_and_ones(self, value: object) -> list[float]:
        """Return 1 for each class that applies, 0 for the others."""
        if not isinstance(value, list):
            raise refusal(
                f"{reprlib.repr(value)} is not a list of labels, or of 0 and 1",
                f"write ['a', 'b'], or add --problem_type {MULTI_LABEL}",
            )
        is_of_names = self.reads_names and all(isinstance(item, str) for item in value)
        if self.indicators and not is_of_names:
            if len(value) != len(self.names) or any(item not in (0, 1) for item in value):
                raise ValueError(
                    f"{reprlib.repr(value)} is not a list of {len(self.names)} numbers, each 0 or 1"
                )
            return [float(item) for item in value]
        chosen = {self._class_id(item) for item in value}
        return [float(index in chosen) for index in range(len(self.names))]

    def _probabilities(self, cell: object) -> list[float]:
        """Return the probability of each class; a label without numbers has all of it."""
        share_of: dict[Any, float | None]
        if isinstance(cell, dict):
            share_of = cell
        elif not isinstance(cell, list):
            share_of = {cell: 1.0}
        elif len(cell) == len(self.names):
            share_of = dict(zip(self.names, cell, strict=True))
        else:
            raise refusal(
                f"{reprlib.repr(cell)} has {len(cell)} number(s)",
                f"give a probability for each label: {listed(self.names)}",
            )
        numbers = [0 if share is None else share for share in share_of.values()]  # as in Parquet
        are_shares = all(type(number) in (int, float) and 0 <= number <= 1 for number in numbers)
        if not are_shares or abs(sum(numbers) - 1) > MAX_ROUNDING:
            raise refusal(
                f"{reprlib.repr(cell)} is not {{label: probability}}, or a list with a "
                "probability for each label",
                "probabilities are numbers from 0 to 1 that sum to 1",
            )
        ids = [self._class_id(label) for label in share_of]
        shares = np.bincount(ids, numbers, len(self.names))
        return [float(share) for share in shares / shares.sum()]

    def _targets(self, value: object) -> float | list[float]:
        """Return the numbers that a regression learns, one for each output."""
        items: list[object] = value if isinstance(value, list) else [value]
        if len(items) != len(self.names):
            raise refusal(
                f"{reprlib.repr(value)} has {len(items)} value(s)",
                f"the regression has {len(self.names)} output(s), {listed(self.names)}",
            )
        targets = []
        for item in items:
            target = float(str(item)) if is_number(item) else math.nan
            if not math.isfinite(target):
                raise _no_target(item)
            if target == IGNORED_LABEL:
                raise refusal(f"{IGNORED_LABEL} marks targets that the loss ignores", "shift them")
            targets.append(target)
        return targets if len(targets) > 1 else targets[0]


def _no_target(item: object) -> Exception:
    """Return the error for a value that a regression cannot learn."""
    numbers = " or ".join(numbers_with_commas(str(item).strip()))
    correct = f"write {numbers}" if numbers else "correct it"
    return refusal(
        f"{reprlib.repr(item)} is not a finite number, which a regression needs",
        f"{correct}, empty it ({_LEAVES_OUT}), or train with another --problem_type"
        f"{_FROM_CHECKPOINT}",
    )


def _infer_problem_type(
    values: Sequence[object], lists: Sequence[list[object]], named: bool
) -> str:
    """Return the kind of problem that the labels show; ValueError if they may be of two kinds."""
    items = values
    kind = SINGLE_LABEL
    if lists:
        items = list(chain.from_iterable(lists))
        kind = MULTI_LABEL
    if named:
        return kind
    numbers = _quantities(items)
    num_different = len(set(numbers))
    has_fractions = any(number % 1 for number in numbers)
    hardly_repeat = num_different > max(MANY_NUMBERS, len(items) // 2)
    others = {str(item).strip() for item in items if not is_number(item)}
    if others:
        are_missing = all(map(is_like_missing, others))
        if hardly_repeat or (has_fractions and are_missing):
            raise refusal(
                f"the labels are numbers, but for {listed(sorted(others))}",
                f"write numbers as 0.5, empty other cells ({_LEAVES_OUT}), or --problem_type "
                f"{kind} if each is a class",
            )
        return kind
    if has_fractions:
        return REGRESSION
    if hardly_repeat and not lists:
        raise refusal(
            f"the labels are {num_different} different whole numbers in {len(items)} rows",
            f"add --problem_type {REGRESSION} if they are quantities, or --problem_type "
            f"{SINGLE_LABEL} if each is a class",
        )
    return kind


def _quantities(items: Iterable[object]) -> list[float]:
    """Return the numbers that cells spell, also as 0,5 or 50%."""
    numbers = []
    for item in items:
        text = str(item).strip().removesuffix("%").replace(",", ".")
        if not isinstance(item, bool) and is_number(text):
            numbers.append(float(text))
    return numbers


def _indicator_width(lists: Sequence[list[object]], num_names: int) -> int:
    """Return the length of rows that hold a 0 or 1 for every class, 0 for rows of other kinds."""
    widths = {len(row) for row in lists}
    if len(widths) != 1:
        return 0
    width = widths.pop()
    fits = width == num_names if num_names else width > 1
    if fits and all(item in (0, 1) for item in chain.from_iterable(lists)):
        return width
    return 0


def _score_names(lists: Sequence[list[object]]) -> tuple[str, ...]:
    """Return the names of the outputs of a regression, one for each number of the first list."""
    width = len(lists[0]) if lists else 1
    if width < 2:
        return ("score",)
    return tuple(f"score_{index}" for index in range(width))


def _learnt_names(kind: str, values: Sequence[object], width: int) -> tuple[str, ...]:
    """Return the classes that occur, in order; `width` is that of zeros and ones, else 0."""
    items: Iterable[object] = values
    if width:
        items = range(width)
    elif kind == MULTI_LABEL:
        items = chain.from_iterable(value for value in values if isinstance(value, list))
    elif _are_soft(kind, values):
        items = _classes_with_a_share(values)
    names = {class_name(item) for item in items if isinstance(item, str | int | float)}
    in_order = sorted(names)
    if all(map(NUMBER.fullmatch, names)):
        in_order.sort(key=lambda name: (float(name), name))
    return tuple(in_order)


def _are_soft(kind: str, values: Iterable[object]) -> bool:
    """Return whether labels of a single-label problem give classes a probability."""
    return kind == SINGLE_LABEL and any(isinstance(value, dict | list) for value in values)


def _classes_with_a_share(values: Iterable[object]) -> Iterator[object]:
    """Yield the classes of soft labels; the numbers of a list name none."""
    for value in values:
        if isinstance(value, dict):
            yield from value
        else:
            yield value


def _least_names(kind: str, values: Sequence[object]) -> int:
    """Return the number of classes that a model needs."""
    if kind == SINGLE_LABEL:
        return 2
    if values and not any(isinstance(value, list) for value in values):
        return 0  # `encode` refuses these rows with a better reason
    return 1


def _require_names(names: Sequence[str], least: int) -> None:
    if len(names) < least:
        raise refusal(
            f"the training rows have the labels {listed(names) or '(none)'}",
            f"at least {least} are needed. Add rows with other labels, or list every label in "
            "--label_names",
        )
