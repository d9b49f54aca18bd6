"""The labels of a column: the kind of problem, the classes, their order and their encoding.

Files are checked before torch is imported, so this file imports neither torch nor transformers.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import regex

from ..utils.text import refusal

# As `config.problem_type` of transformers names them, and `models.answers`.
SINGLE_LABEL = "single_label_classification"
MULTI_LABEL = "multi_label_classification"
REGRESSION = "regression"

MANY_NUMBERS = 50  # more whole numbers than this are quantities, not classes
FEW_LABELS = 10  # so many may be half of the rows
IGNORED_LABEL = -100  # the losses of the models, like those of torch, leave it out
MAX_ROUNDING = 0.01  # of the sum of rounded probabilities

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# pandas writes it with a point beside missing cells, and rounding makes a -0.0.
_WHOLE_NUMBER = re.compile(r"^(?:-(?=0+\.?0*$))?([+-]?[0-9]+)(?:\.0*)?$")
_TRUTHS = {"True": 1.0, "False": 0.0}
# Between several labels of one text; names rarely have such marks.
_MARK = regex.compile(r"[^\p{L}\p{M}\p{N}\p{So}\s\p{Pd}\p{Ps}\p{Pe}_.'\u2019]+")

_WAYS_OUT = (
    "correct it: a label is one of these names, a column for each label holds 0 and 1 or fractions "
    "that sum to 1, and a number to learn is written 4.5 and not -100. To learn other labels, "
    "change --label_names or --problem_type, of a checkpoint with --ignore_mismatched_sizes; to "
    "predict without labels, add --label_column_name ''"
)


@dataclass(frozen=True)
class LabelColumn:
    """The labels of a task: from the cells of a column to the labels of a model, and to names.

    A cell holds one label, or several in a list. Of several columns it is a tuple of the number in
    each of them, in the order of the names. With a `separator` a text is several labels, and an
    empty one none.
    """

    kind: str  # one of the problem types, or what pairs without labels are for
    names: tuple[str, ...]  # the classes in id order; for regression one name per output
    soft: bool = False  # whether a row of a single-label problem gives each class a probability
    separator: str | None = None

    @classmethod
    def learn(
        cls,
        cells: Sequence[object],
        problem_type: str | None = None,
        names: Sequence[str] | None = None,
        separator: str | None = None,
    ) -> "LabelColumn":
        """Find out the meaning of the labels of the train split.

        Without `problem_type`, lists are a multi-label problem; numbers that are not all whole are
        a regression unless `names` are given; all else is a single-label problem. Columns of 0 and
        1 are a multi-label problem, others the probabilities of a single-label problem.

        The order of the names: `names`; else numbers by size, so that "10" comes after "9"; else
        alphabetical. 1, 1.0, "1" and "1.0" are the same label.

        Raises ValueError for labels that may be something else (`_kind_of`), and too few of them.
        """
        names = tuple(map(str, names or ()))
        values = [cell for cell in cells if not is_unlabelled(cell)]
        distinct = {repr(cell): cell for cell in values}.values()
        found = sorted({name for cell in distinct for name in _labels_in(cell, separator)})
        if all(map(NUMBER.fullmatch, found)):
            found.sort(key=float)
        types: set[type] = {*map(type, distinct)} if separator is None else {list}
        kind = problem_type or _kind_of(found, types, len(values), are_named=names != ())
        names = names or (("score",) if kind == REGRESSION else tuple(found))
        least = 2 if kind == SINGLE_LABEL else 1
        if len(names) < least:
            raise refusal(
                f"the training rows have the labels {names}",
                f"at least {least} are needed; add rows, or list every label in --label_names",
            )
        return cls(kind, names, kind == SINGLE_LABEL and tuple in types, separator)

    def encode(self, cell: object) -> int | float | list[float] | None:
        """Return the label as the loss takes it, None for no label; ValueError if unknown."""
        if is_unlabelled(cell):
            return None if self.separator is None else [0.0] * len(self.names)
        labels = _labels_in(cell, self.separator)
        classes = [*map(class_name, self.names)]  # in the form of those in cells
        numbers: list[float] = []
        if self.kind == REGRESSION or isinstance(cell, tuple):
            numbers = [
                float(name) if NUMBER.fullmatch(name) else _TRUTHS.get(name.capitalize(), math.nan)
                for name in labels
            ]
        elif {*labels}.issubset(classes):
            numbers = [float(name in labels) for name in classes]
        if len(numbers) != len(self.names) or not self._allows(numbers):
            what = f"{cell!r:.80} fits no {self.kind} of {self.names!r:.400}"
            raise refusal(what, _WAYS_OUT)
        if self.soft:
            return (np.array(numbers) / np.sum(numbers)).tolist()
        if self.kind == SINGLE_LABEL:
            return numbers.index(1)
        return numbers if self.kind == MULTI_LABEL or len(numbers) > 1 else numbers[0]

    def decode(self, label: Any) -> Any:
        """Return a name for a class id, a list of names for zeros and ones, numbers as written."""
        if self.kind == SINGLE_LABEL:
            return self.names[label]
        if self.kind == MULTI_LABEL:
            return [name for name, applies in zip(self.names, label, strict=True) if applies]
        return label

    def _allows(self, numbers: Sequence[float]) -> bool:
        """Return whether numbers (C,) can be targets, truths, or probabilities of one label."""
        total = sum(numbers)
        if self.kind == REGRESSION:
            return math.isfinite(total) and IGNORED_LABEL not in numbers
        if self.kind == MULTI_LABEL:
            return {*numbers} <= {0, 1}
        return min(numbers) >= 0 and abs(total - 1) <= MAX_ROUNDING


def is_unlabelled(value: object) -> bool:
    """Return whether a label is None, NaN, blank, or "nan", as numpy and csv write NaN."""
    return value is None or str(value).strip() in ("", "nan")


def class_name(value: object) -> str:
    """Return the name of a label, without blanks around it; ValueError if it cannot be one."""
    if not isinstance(value, str | int | float):
        what = f"the label {value!r:.80} is a {type(value).__name__}"
        raise refusal(what, "it must be a text or a number")
    return _WHOLE_NUMBER.sub(r"\1", str(value).strip())  # spreadsheets and `, ` leave blanks


def _labels_in(cell: object, separator: str | None) -> list[str]:
    """Return the names of the labels of a cell, or its numbers as texts."""
    labels = cell if isinstance(cell, list | tuple) else [cell]
    if separator is not None and isinstance(cell, str):
        labels = [*filter(str.strip, cell.split(separator))]
    return [*map(class_name, labels)]


def _kind_of(names: Sequence[str], types: set[type], num_rows: int, *, are_named: bool) -> str:
    """Return the kind of problem of the labels of N rows, in cells of these types.

    Raises ValueError for lists of 0 and 1, and for labels without `label_names` that are rather
    quantities, texts or ids.
    """
    if list in types and names == ["0", "1"]:
        raise refusal(
            f"the lists of labels hold {names}, maybe one for each of several labels",
            "write lists of the labels that apply, or a column for each label, named by "
            "--label_column_name fun,sad; fit takes an array (N, C) of numpy",
        )
    are_truths = tuple in types and {"0", "1", *_TRUTHS}.issuperset(map(str.capitalize, names))
    kind = MULTI_LABEL if list in types or are_truths else SINGLE_LABEL
    if are_named:
        return kind
    are_numbers = all(map(NUMBER.fullmatch, names))
    if are_numbers and any(float(name) % 1 for name in names):
        return REGRESSION
    are_quantities = are_numbers and len(names) > MANY_NUMBERS
    if are_quantities or (len(names) > FEW_LABELS and 2 * len(names) >= num_rows):
        raise refusal(
            f"there are {len(names)} different labels in {num_rows} rows, such as {names[:3]}",
            f"name another column with --label_column_name, add --problem_type {REGRESSION} if "
            f"they are quantities, written as 0.8, or --problem_type {kind} if each is a class",
        )
    return kind


def label_doubts(names: Sequence[str]) -> Iterator[str]:
    """Yield what may be wrong with the names of labels."""
    counts = Counter(map(_letters_and_digits, names))
    forms = {name: {*map(_letters_and_digits, [name, *_MARK.split(name)])} for name in names}
    # Of which more labels have the letters of one form.
    doubtful = [ascii(name) for name in names if sum(map(counts.__getitem__, forms[name])) > 1]
    if doubtful:
        yield (
            f"labels that look alike or hold others: {', '.join(doubtful)}; if they are one, write "
            'one; if they are several, name the mark between them: --label_separator ";"'
        )


def _letters_and_digits(text: str) -> str:
    """Return one form for all texts that differ only in signs, case or Unicode form.

    A text without letters and digits, such as an emoji, is its own form, and a number its value.
    """
    form = unicodedata.normalize("NFKC", text).casefold()
    if NUMBER.fullmatch(form):
        return str(float(form))
    return regex.sub(r"[^\p{L}\p{M}\p{N}\p{So}]", "", form) or text
