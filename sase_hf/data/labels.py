"""What the values of a label column mean: the kind of problem, the classes and their order."""

import math
import re
import reprlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from datasets import ClassLabel, List, Value

from ..models.self_attentive.modeling_self_attentive import IGNORED_LABEL

SINGLE_LABEL = "single_label_classification"
MULTI_LABEL = "multi_label_classification"
REGRESSION = "regression"
PROBLEM_TYPES = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class LabelScheme:
    """How a label column becomes the labels of a model.

    Attributes:
        problem_type: One of `PROBLEM_TYPES`.
        names: The classes in id order; for regression one name per output.
        positions: Whether whole numbers are read as positions in `names`.
        indicators: Whether a row of a multi-label problem holds a 0 or 1 for every class.
    """

    problem_type: str
    names: tuple[str, ...]
    positions: bool = False
    indicators: bool = False

    @property
    def classes(self) -> tuple[str, ...]:
        """The names that a label can be: none for a regression, whose names are its outputs'."""
        return () if self.problem_type == REGRESSION else self.names

    @property
    def feature(self) -> ClassLabel | List | Value:
        """The type of the column that `encode` fills."""
        if self.problem_type == SINGLE_LABEL:
            return ClassLabel(names=list(self.names))
        if self.problem_type == REGRESSION and len(self.names) == 1:
            return Value("float32")
        return List(Value("float32"))

    def encode_all(self, values: Iterable[Any]) -> list[int | float | list[float]]:
        """Encode every value.

        Raises:
            LabelError: If one has no meaning; it knows which.
        """
        ids = {name: index for index, name in enumerate(self.names)}
        if self.positions:
            ids |= {str(index): index for index in range(len(self.names))}
        encoded = []
        for index, value in enumerate(values):
            try:
                encoded.append(self._encode(value, ids))
            except ValueError as reason:
                raise LabelError(index, str(reason)) from None
        return encoded

    def _encode(self, value: Any, ids: dict[str, int]) -> int | float | list[float]:
        if self.problem_type == SINGLE_LABEL:
            return self._class_id(value, ids)
        if self.problem_type == REGRESSION:
            return self._targets(value)
        if not isinstance(value, list):
            raise ValueError(_no_list(value))
        if self.indicators:
            if len(value) != len(self.names) or any(item not in (0, 1) for item in value):
                raise ValueError(
                    f"{reprlib.repr(value)} is not a list of {len(self.names)} numbers, each 0 or "
                    "1, as in the rows from which the labels were learnt"
                )
            return [float(item) for item in value]
        chosen = {self._class_id(item, ids) for item in value}
        return [float(index in chosen) for index in range(len(self.names))]

    def _class_id(self, value: Any, ids: dict[str, int]) -> int:
        name = class_name(value)
        if name not in ids:
            positions = f" or their positions from 0 to {len(self.names) - 1}"
            raise ValueError(
                f"{reprlib.repr(value)} is none of the known labels {_listed(self.names)}"
                f"{positions if self.positions else ''}; correct it, or name every label in "
                "label_names"
            )
        return ids[name]

    def _targets(self, value: Any) -> float | list[float]:
        items = value if isinstance(value, list) else [value]
        if len(items) != len(self.names):
            raise ValueError(
                f"{reprlib.repr(value)} has {len(items)} value(s); the regression has "
                f"{len(self.names)} output(s), {_listed(self.names)}"
            )
        targets = [_number(item) for item in items]
        return targets if len(targets) > 1 else targets[0]


class LabelError(ValueError):
    """A label without meaning.

    Args:
        index: Its place among the values that were to be encoded.
        reason: What is wrong with it, what is allowed, and the way out.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


def learn_labels(
    values: Sequence[Any],
    problem_type: str | None = None,
    label_names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
) -> LabelScheme:
    """Find out what labels mean.

    Without `problem_type`, lists are a multi-label problem; numbers of which one is written with a
    point or an exponent, or is a float, are a regression unless names are given; all else is a
    single-label problem. In a multi-label problem the rows may list the labels that apply or hold
    a 0 or 1 for every class; they are read as the latter if all of them have the same length, 2 or
    more (that of the names, if given), and hold nothing but 0 and 1.

    The order of the names: `label_names`; else `class_names`; else numbers by size, so that "10"
    comes after "9"; else alphabetical. 1, 1.0 and "1" are the same label. If `label_names` are
    given and none of them is a number, whole numbers are read as positions in them.

    Args:
        values: The labels of the train split, none of them missing.
        problem_type: One of `PROBLEM_TYPES`, or None to infer it.
        label_names: The names in id order, if the caller knows them.
        class_names: The names in id order, if the data set knows them.

    Returns:
        The meaning.

    Raises:
        ValueError: If the problem type is unknown, a name comes twice, or there are too few labels.
        LabelError: If a label is neither a text nor a number.
    """
    given = tuple(label_names or class_names or ())
    if len(set(given)) < len(given):
        raise ValueError(f"label_names holds a name twice: {_listed(given)}")
    kind = problem_type or _infer_problem_type(values, named=bool(given))
    if kind not in PROBLEM_TYPES:
        raise ValueError(f"problem_type is {kind!r}; allowed are {', '.join(PROBLEM_TYPES)}")
    if kind == REGRESSION:
        return LabelScheme(kind, given or _output_names(values))
    positions = bool(label_names) and not any(NUMBER.fullmatch(name) for name in given)
    if kind == SINGLE_LABEL:
        names = given or _learn_names([value] for value in values)
        return LabelScheme(kind, _enough(names, least=2), positions)
    for index, value in enumerate(values):
        if not isinstance(value, list):
            raise LabelError(index, _no_list(value))
    width = _indicator_width(values, len(given))
    names = given or (tuple(map(str, range(width))) if width else _learn_names(values))
    return LabelScheme(kind, _enough(names, least=1), positions, indicators=width > 0)


def is_unlabelled(value: Any, names: Sequence[str] | None) -> bool:
    """Say whether a row has no label: None, NaN, a blank text, "-", or -1 where classes are known.

    Args:
        value: What the row holds.
        names: The classes, as far as they are known; what is among them is a label.
    """
    if names and str(value) == "-1":
        return "-1" not in names
    if isinstance(value, str):
        return not value.strip() or (value == "-" and "-" not in (names or ()))
    return value is None or (isinstance(value, float) and math.isnan(value))


def class_name(value: Any) -> str:
    """Return the name of a label as the data holds it.

    Raises:
        ValueError: If it is neither a text nor a number.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int | float):
        raise ValueError(
            f"{reprlib.repr(value)} is a {type(value).__name__}; a label is a text or a number"
        )
    return str(value)


def _infer_problem_type(values: Sequence[Any], named: bool) -> str:
    if any(isinstance(value, list) for value in values):
        items = [item for value in values if isinstance(value, list) for item in value]
        numbers = all(map(_is_number, items)) and not named
        return REGRESSION if numbers and any(float(item) % 1 for item in items) else MULTI_LABEL
    if not named and all(_is_number(value) for value in values):
        fractions = (isinstance(value, float) or set(str(value)) & set(".eE") for value in values)
        return REGRESSION if any(fractions) else SINGLE_LABEL
    return SINGLE_LABEL


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float:
    if not _is_number(value) or not math.isfinite(float(value)):
        raise ValueError(
            f"{reprlib.repr(value)} is not a finite number, which a regression needs; correct it, "
            "or choose another problem_type"
        )
    if float(value) == IGNORED_LABEL:
        raise ValueError(
            f"{IGNORED_LABEL} marks what a loss leaves out, so no model can learn it; shift or "
            "scale the numbers"
        )
    return float(value)


def _output_names(values: Sequence[Any]) -> tuple[str, ...]:
    """Name the outputs of a regression after the first row."""
    width = len(values[0]) if values and isinstance(values[0], list) else 1
    return ("score",) if width == 1 else tuple(f"score_{index}" for index in range(width))


def _indicator_width(lists: Sequence[list[Any]], num_names: int) -> int:
    """Return the length of rows that hold a 0 or 1 for every class, 0 for rows of other kinds."""
    widths = {len(row) for row in lists}
    width = widths.pop() if len(widths) == 1 else 0
    fits = width == num_names if num_names else width > 1
    return width if fits and all(item in (0, 1) for row in lists for item in row) else 0


def _learn_names(rows: Iterable[list[Any]]) -> tuple[str, ...]:
    """Collect the names that occur, in the order that `learn_labels` states."""
    names: set[str] = set()
    for index, row in enumerate(rows):
        try:
            names.update(map(class_name, row))
        except ValueError as reason:
            raise LabelError(index, str(reason)) from None
    if all(NUMBER.fullmatch(name) for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def _no_list(value: Any) -> str:
    """Say what is wrong with the label of a multi-label row that is something else."""
    return (
        f"{reprlib.repr(value)} is not a list; a multi-label problem has a list of labels or of 0 "
        "and 1 in every row, which a CSV file cannot hold and a JSON file can"
    )


def _enough(names: tuple[str, ...], least: int) -> tuple[str, ...]:
    """Return the names if there are enough to learn from."""
    if len(names) < least:
        raise ValueError(
            f"the labels are {_listed(names) or 'none at all'}; {least} or more are needed. Add "
            "rows with other labels, or name every label in label_names"
        )
    return names


def _listed(names: Sequence[str], most: int = 20) -> str:
    """List names for a message, not more of them than one can read."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(name) for name in names[:most]) + more
