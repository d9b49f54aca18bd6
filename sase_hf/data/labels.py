"""The labels of a column: the kind of problem, the classes, their order and their encoding."""

import math
import re
import reprlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import regex
from datasets import ClassLabel, List, Value

from ..models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Answers, answers_of_kind
from ..utils.errors import refusal
from .label_values import (
    NUMBER,
    class_name,
    given_labels,
    is_number,
    is_unlabelled,
    letters_and_digits,
    listed,
)

PROBLEM_TYPES = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)

MANY_NUMBERS = 50  # more whole numbers than this are quantities, not classes
FEW_LABELS = 10  # so many may be half of the rows
IGNORED_LABEL = -100  # the losses of the models, like those of torch, leave it out
MAX_ROUNDING = 0.01  # of the sum of rounded probabilities

_FROM_CHECKPOINT = "; add --ignore_mismatched_sizes to start from a checkpoint"
# How Python and JSON print several labels.
_PRINTED_LIST = re.compile(r"(frozenset\()?[\[{].*[\]}]\)?|\(['\"].*\)", flags=re.DOTALL)
# Between several labels of one text; names rarely have such marks.
_MARK = regex.compile(r"[^\p{L}\p{M}\p{N}\p{So}\s\p{Pd}\p{Ps}\p{Pe}_.'\u2019]+")
_MISSING_NAMES = {"nan", "null", "none", "na"}  # by their letters and digits

EncodedLabel = int | float | list[float]


@dataclass(frozen=True)
class LabelColumn:
    """The labels of a task: from the cells of a column to the labels of a model, and to names.

    A cell holds one label, or several in a list. Of several columns it is a tuple with the number
    in each of them. With a `separator` a text is several labels.
    """

    kind: str  # one of `PROBLEM_TYPES`, or what pairs without labels are for
    names: tuple[str, ...]  # the classes in id order; for regression one name per output
    positions: bool = False  # whether whole numbers are read as positions in `names`
    soft: bool = False  # whether a row of a single-label problem gives each class a probability
    separator: str | None = None
    columns: tuple[str, ...] = ()  # several columns of labels, in their order in a tuple
    blanks: bool = False  # whether an empty cell is a row to which no label applies

    @classmethod
    def learn(
        cls,
        cells: Sequence[object],
        problem_type: str | None = None,
        label_names: Sequence[str] | None = None,
        class_names: Sequence[str] | None = None,
        separator: str | None = None,
    ) -> "LabelColumn":
        """Find out the meaning of the labels of the train split.

        Without `problem_type`, lists are a multi-label problem; numbers that are not all whole are
        a regression unless names are given; all else is a single-label problem. Tuples of 0 and 1
        are a multi-label problem, others the probabilities of a single-label problem. An empty cell
        beside cells of several labels is a row without any.

        The order of the names: `label_names`; else the `class_names` of the dataset; else numbers
        by size, so that "10" comes after "9"; else alphabetical. 1, 1.0, "1" and "1.0" are the same
        label. If `label_names` are given and none is a number, whole numbers are positions in them.

        Raises ValueError for an unknown problem type, a name that comes twice, labels that may be
        something else (`check_classes`), or too few labels.
        """
        known_names = tuple(label_names or class_names or ())
        if len(set(known_names)) < len(known_names):
            raise ValueError(f"--label_names has a name twice: {listed(known_names)}")
        if separator is not None:
            cells = [_divided(cell, separator) for cell in cells]
        values = given_labels(cells, () if problem_type == REGRESSION else known_names)
        kind = problem_type or _infer_problem_type(values, named=bool(known_names))
        if kind not in PROBLEM_TYPES:
            raise ValueError(f"--problem_type is {kind!r}; allowed are {', '.join(PROBLEM_TYPES)}")
        if separator is not None and kind != MULTI_LABEL:
            raise refusal(
                f"--label_separator divides several labels, but --problem_type is {kind}",
                "leave one of the two out",
            )
        lists = [value for value in values if isinstance(value, list)]
        columns: tuple[str, ...] = ()
        if any(isinstance(value, tuple) for value in values):
            columns = tuple(class_names or ())
            if {*columns} != {*known_names}:
                raise refusal(
                    f"the labels are the columns {listed(columns)}",
                    f"name these by --label_names, which are {listed(known_names)}",
                )
        if kind == REGRESSION:
            return cls(kind, known_names or _score_names(lists), columns=columns)
        if kind == MULTI_LABEL:
            _refuse_indicators(lists)
        names = known_names or _learnt_names(values)
        if problem_type is None and not known_names:
            check_classes(names, len(values), f"add --problem_type {kind} if each is a class")
        least = 2 if kind == SINGLE_LABEL else 1
        if len(names) < least:
            raise refusal(
                f"the training rows have the labels {listed(names) or '(none)'}",
                f"at least {least} are needed. Add rows with other labels, or list every label in "
                "--label_names",
            )
        return cls(
            kind,
            names,
            positions=bool(label_names) and not any(map(NUMBER.fullmatch, known_names)),
            soft=kind == SINGLE_LABEL and bool(columns),
            separator=separator,
            columns=columns,
            blanks=kind == MULTI_LABEL and any(len(row) > 1 for row in lists),
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
        value = cell if self.separator is None else _divided(cell, self.separator)
        if is_unlabelled(value, () if self.kind == REGRESSION else self.names):
            return self._zeros_and_ones([]) if self.blanks else None
        if isinstance(value, tuple):
            number_of = dict(zip(self.columns, value, strict=True))
            value = tuple(number_of[name] for name in self.names)
        if self.kind == REGRESSION:
            return self._targets(value)
        if self.kind == MULTI_LABEL:
            return self._zeros_and_ones(value)
        return self._probabilities(value) if self.soft else self._class_id(value)

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
        form = letters_and_digits(name)
        twins = [known for known in self.names if letters_and_digits(known) == form]
        likeness = f"; it looks like {twins[0]!a}, but is {name!a}" if twins else ""
        raise refusal(
            f"{reprlib.repr(value)} is not one of the labels {listed(self.names)}{likeness}",
            "correct it, or train with other --label_names or another --problem_type"
            f"{_FROM_CHECKPOINT}",
        )

    def _zeros_and_ones(self, value: object) -> list[float]:
        """Return 1 for each class that applies, 0 for the others."""
        if isinstance(value, tuple):
            if any(number not in (0, 1) for number in value):
                raise refusal(
                    f"{reprlib.repr(value)} are not 0 and 1, one for each label", "correct them"
                )
            return list(value)
        items = value if isinstance(value, list) else [value]
        chosen = {self._class_id(item) for item in items}
        return [float(index in chosen) for index in range(len(self.names))]

    def _probabilities(self, value: object) -> list[float]:
        """Return the probability of each class; a label without numbers has all of it."""
        if not isinstance(value, tuple):
            shares = np.zeros(len(self.names))
            shares[self._class_id(value)] = 1
        else:
            shares = np.array(value)
            if shares.min() < 0 or abs(shares.sum() - 1) > MAX_ROUNDING:
                raise refusal(
                    f"{reprlib.repr(value)} are no probabilities of the labels",
                    "write 0 or 1 in each column, or fractions that sum to 1",
                )
        return [float(share) for share in shares / shares.sum()]

    def _targets(self, value: object) -> float | list[float]:
        """Return the numbers that a regression learns, one for each output."""
        items: list[object] = [*value] if isinstance(value, list | tuple) else [value]
        if len(items) != len(self.names):
            raise refusal(
                f"{reprlib.repr(value)} has {len(items)} value(s)",
                f"the regression has {len(self.names)} output(s), {listed(self.names)}",
            )
        targets = []
        for item in items:
            target = float(str(item)) if is_number(item) else math.nan
            if not math.isfinite(target):
                raise refusal(
                    f"{reprlib.repr(item)} is not a finite number, which a regression needs",
                    "correct it (0.5), empty it, or train with another --problem_type"
                    f"{_FROM_CHECKPOINT}",
                )
            if target == IGNORED_LABEL:
                raise refusal(f"{IGNORED_LABEL} marks targets that the loss ignores", "shift them")
            targets.append(target)
        return targets if len(targets) > 1 else targets[0]


def _divided(cell: object, separator: str) -> object:
    """Return the labels of a text, which is None without any."""
    if not isinstance(cell, str):
        return cell
    return [part.strip() for part in cell.split(separator) if part.strip()] or None


def _items(values: Iterable[object]) -> list[object]:
    """Return the labels of cells; the numbers of several columns are none."""
    lists = (value if isinstance(value, list) else [value] for value in values)
    return [item for item in chain.from_iterable(lists) if not isinstance(item, tuple)]


def _infer_problem_type(values: Sequence[object], *, named: bool) -> str:
    """Return the kind of problem that the labels show; ValueError if they may be of two kinds."""
    rows = [value for value in values if isinstance(value, tuple)]
    if rows:
        are_truths = all(number in (0, 1) for number in chain.from_iterable(rows))
        return MULTI_LABEL if are_truths else SINGLE_LABEL
    kind = MULTI_LABEL if any(isinstance(value, list) for value in values) else SINGLE_LABEL
    items = _items(values)
    numbers = [item for item in items if is_number(item)]
    if named or all(float(str(number)) % 1 == 0 for number in numbers):
        return kind
    others = sorted({str(item) for item in items if not is_number(item)})
    if others:
        raise refusal(
            f"the labels are numbers, but for {listed(others)}",
            f"write numbers as 0.5, empty other cells, or --problem_type {kind} if each is a class",
        )
    return REGRESSION


def _refuse_indicators(lists: Sequence[list[object]]) -> None:
    """Raise ValueError if all lists hold a 0 or 1 for each label, in place of the labels."""
    widths = {len(row) for row in lists}
    if len(widths) == 1 and widths.pop() > 1:
        items = _items(lists)
        if all(isinstance(item, int | float) and item in (0, 1) for item in items):
            raise refusal(
                f"the label {lists[0]!r:.80} may be a 0 or 1 for each of several labels",
                "write lists of the labels that apply, or one column for each label, named by "
                "--label_column_name fun,sad",
            )


def check_classes(names: Sequence[str], num_rows: int, way_out: str) -> None:
    """Raise ValueError for classes of N rows that are rather quantities, texts or ids."""
    if len(names) > MANY_NUMBERS and all(map(NUMBER.fullmatch, names)):
        raise refusal(
            f"the labels are {len(names)} different whole numbers",
            f"add --problem_type {REGRESSION} if they are quantities, or {way_out}",
        )
    if len(names) > FEW_LABELS and 2 * len(names) >= num_rows:
        raise refusal(
            f"there are {len(names)} different labels in {num_rows} rows, such as "
            f"{listed(names[:3])}",
            f"name another column with --label_column_name, write numbers as 0.8, or {way_out}",
        )


def _score_names(lists: Sequence[list[object]]) -> tuple[str, ...]:
    """Return the names of the outputs of a regression, one for each number of the first list."""
    width = len(lists[0]) if lists else 1
    if width < 2:
        return ("score",)
    return tuple(f"score_{index}" for index in range(width))


def _learnt_names(values: Sequence[object]) -> tuple[str, ...]:
    """Return the classes that occur, in order; ValueError for a list that is spelt as a text."""
    names = set(map(class_name, _items(values)))
    for name in names:
        if _PRINTED_LIST.fullmatch(name):
            raise refusal(
                f"the label {reprlib.repr(name)} is a list in one cell",
                'write fun;sad and add --label_separator ";", or give lists in JSON Lines',
            )
    in_order = sorted(names)
    if all(map(NUMBER.fullmatch, names)):
        in_order.sort(key=lambda name: (float(name), name))
    return tuple(in_order)


def label_doubts(names: Sequence[str]) -> Iterator[str]:
    """Yield what may be wrong with the names of labels."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(letters_and_digits(name), []).append(name)
    twins = [ascii(name) for group in groups.values() if len(group) > 1 for name in group]
    if twins:
        yield f"labels that look alike: {', '.join(twins)}; if they are one, write one"
    several = _names_of_several(names, groups.keys())
    if several:
        yield (
            f"labels that may be several: {listed(several)}; if they are, name the mark between "
            'them: --label_separator ";"'
        )
    missing = [name for form in _MISSING_NAMES for name in groups.get(form, [])]
    if missing:
        yield f"labels that may mean none: {listed(sorted(missing))}; if they do, empty such cells"


def _names_of_several(names: Sequence[str], forms: Iterable[str]) -> list[str]:
    """Return the names that hold another one beside a mark, or whose parts all recur."""
    parts_of = {
        name: {letters_and_digits(part) for part in _MARK.split(name) if part.strip()}
        for name in names
    }
    counts = Counter(chain.from_iterable(parts_of.values()))
    known = {*forms}
    several = []
    for name, parts in parts_of.items():
        recur = not parts.isdisjoint(known) or all(counts[part] > 1 for part in parts)
        if recur and len(parts) > 1 and letters_and_digits(name) not in _MISSING_NAMES:
            several.append(name)
    return several
