"""The labels of a column: the kind of problem, the classes, their order and their encoding."""

import ast
import json
import math
import re
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import regex
from datasets import ClassLabel, List, Value

from ..models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL, Answers, answers_of_kind
from .tokenizer import text_fault

PROBLEM_TYPES = (SINGLE_LABEL, MULTI_LABEL, REGRESSION)

MANY_NUMBERS = 50  # more whole numbers than this that hardly repeat are quantities, not classes
IGNORED_LABEL = -100  # the losses of the models, like those of torch, leave it out

_LEAVES_OUT = "--drop_unlabelled leaves their rows out"
_FROM_CHECKPOINT = "; add --ignore_mismatched_sizes to start from a checkpoint"
_TRUTHS = dict.fromkeys(("1", "1.0", "true", "yes"), True)
_TRUTHS |= dict.fromkeys(("0", "0.0", "false", "no"), False)
_LIKE_MISSING = {"nan", "null", "none", "na", "n/a", "n.a.", "#n/a", "<na>", "nat", "?"}
_LIKE_MISSING |= {"#div/0!", "#num!", "#value!", "inf", "infinity"}
# Marks between the labels of one cell, equal ones together, and what shows that they are no part
# of a name. Each mark of the first groups divides the cells of a multi-label problem.
_NO_NAME_HAS_IT, _A_PART_RECURS, _ALL_PARTS_RECUR = range(3)
_SEPARATORS = {
    ";\uff1b\u061b": _NO_NAME_HAS_IT,  # also full-width and Arabic
    "|\uff5c\xa6": _NO_NAME_HAS_IT,
    "\n\r": _NO_NAME_HAS_IT,
    "\t": _NO_NAME_HAS_IT,
    ",\uff0c\u3001\u060c": _A_PART_RECURS,
    "/\uff0f": _A_PART_RECURS,
    "#\uff03": _ALL_PARTS_RECUR,
    "~\uff5e": _ALL_PARTS_RECUR,
    "\\": _ALL_PARTS_RECUR,
    "^": _ALL_PARTS_RECUR,
    "\u2022\xb7\u30fb\u25cf\u25a0\u25c6": _ALL_PARTS_RECUR,  # dots in the middle of a line
}
# Between words, numbers and emoji.
_GAP = regex.compile(r"(?:[^\p{L}\p{M}\p{N}\p{So}]|[\u25cf\u25a0\u25c6])+")
# Marks that names rarely have: no blanks, dashes, brackets and apostrophes.
_MARK = regex.compile(r"[^\p{L}\p{M}\p{N}\p{So}\s\p{Pd}\p{Ps}\p{Pe}_.'\u2019]+")
# What other programs write for a list: {fun,sad}, ('fun',), {'fun'}, <fun><sad>.
_BRACKETED = regex.compile(
    r"""\([^(),;|]*[,;|][^()]*\) | \{[^{},;|]*[,;|][^{}]*\} | [({](['"]).*\1[)}]
    | (<[^<>]+>){2,} | (\{[^{}]+\}){2,}""",
    flags=regex.VERBOSE | regex.DOTALL,
)
# No label is longer, and no column has more, so that other texts cost no time.
_MAX_JOINED_LENGTH, _MAX_JOINED_TEXTS = 200, 10_000
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+\.0*")  # pandas writes it so beside missing cells
# numpy prints an array without commas; read as Python, 'a' 'b' would be 'ab'.
_ARRAY = re.compile(r"""\[.*['"]\s+['"].*\]|\[[\d.]+(\s+[\d.]+)+\s*\]""", flags=re.DOTALL)
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PLAIN_NUMBER = re.compile(r"\+?[0-9]+(\.[0-9]*)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_COMMA_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")


class CellFault(ValueError):
    """A cell that cannot be read; the arguments are its row and the reason."""


class CellReader:
    """Reads several labels in one text, so that they never become one class.

    A text that spells a list of texts and numbers, in JSON or Python, is that list. In a
    multi-label problem every other text lists labels, with the separator that the `cells` have, or
    with anything between labels that other cells hold alone; it may be just one. In a single-label
    problem every text is a class; a list of one item is this item. The texts of known `names` are
    never divided. `problem_type` is None if it is to be inferred.
    """

    def __init__(
        self, cells: Iterable[Any], problem_type: str | None, names: Sequence[str]
    ) -> None:
        cells = list(cells)
        self.kind, self.names = problem_type, names
        self.known = {text for name in names for text in (name, name.strip())}
        texts = {cell.strip() for cell in cells if isinstance(cell, str)} - self.known
        texts = {text for text in texts if not (_is_in_brackets(text) or _is_like_missing(text))}
        self.separator = _separator_of(texts)
        self.labels: set[str] = set()  # that texts can consist of, by their `looks`
        if 0 < len(texts) <= _MAX_JOINED_TEXTS:
            numbers = {str(cell) for cell in cells if isinstance(cell, int)}
            self.labels = set(map(looks, texts | self.known | numbers))
        self.doubtful: dict[str, str] = {}
        if problem_type is None:
            self.doubtful = _several_in_one(texts, self.labels)
        self.has_lists_of_one = _are_lists_of_one(cells)

    def read(self, cell: Any) -> Any:
        """Return the label or labels of a cell; ValueError for a text that may be several."""
        if self.kind == SINGLE_LABEL:
            return self._single(cell)
        if not isinstance(cell, str) or is_unlabelled(cell, self.names):
            return cell
        text = cell.strip()
        if text in self.known:
            return [text] if self.kind == MULTI_LABEL else cell
        self._refuse_doubtful(text)
        items = _spelt_list(text)
        if items is not None:
            return items
        return self._divided(text) if self.kind == MULTI_LABEL else cell

    def _single(self, cell: Any) -> Any:
        """Return the item of a list of one, None for an empty list; other cells as they are."""
        items = cell
        if isinstance(cell, str) and self.has_lists_of_one:
            items = _spelt_list(cell.strip())
        if not isinstance(items, list):
            return cell
        if self.has_lists_of_one and len(items) < 2:
            return items[0] if items else None
        if not any(isinstance(item, str) for item in items):
            return cell  # probabilities
        if len(items) == 1:
            return items[0]
        raise ValueError(
            f"{reprlib.repr(items)} has {len(items)} labels, but --problem_type {SINGLE_LABEL} "
            f"reads one a row; leave one, or give --problem_type {MULTI_LABEL}"
        )

    def _refuse_doubtful(self, text: str) -> None:
        as_class = f"--problem_type {SINGLE_LABEL} if it is one class"
        numbers = _numbers_with_commas(text)
        if numbers and text in self.doubtful:
            raise ValueError(
                f"{text!r} may be a number or several labels; write {' or '.join(numbers)} if it "
                f"is a number, add --problem_type {MULTI_LABEL} if it is the labels "
                f"{' and '.join(text.split(','))}, or {as_class}"
            )
        if text in self.doubtful:
            raise ValueError(
                f"{reprlib.repr(text)} looks like several labels, with {self.doubtful[text]!r} "
                f"between; add --problem_type {MULTI_LABEL} if it is, or {as_class}"
            )
        if text.startswith("{") and ":" in text:
            raise ValueError(
                f"{reprlib.repr(text)} looks like probabilities of labels; give these in JSON "
                f"Lines or Parquet, or add {as_class}"
            )

    def _divided(self, text: str) -> list[str]:
        """Return the labels of a text in a multi-label problem."""
        if _is_like_missing(text):
            return [text]  # n/a is not n and a
        if self.separator is not None:
            parts = _split(text, self.separator)
        else:
            parts = _joined_labels(text, self.labels)[::2] or [text]
        return [part.strip() for part in parts if part.strip()]


def _whole_cells() -> CellReader:
    return CellReader((), SINGLE_LABEL, ())


@dataclass(frozen=True)
class LabelColumn:
    """The labels of a task: from the cells of a column to the labels of a model, and to names."""

    kind: str  # one of `PROBLEM_TYPES`, or what pairs without labels are for
    names: tuple[str, ...]  # the classes in id order; for regression one name per output
    positions: bool = False  # whether whole numbers are read as positions in `names`
    indicators: bool = False  # whether a row of a multi-label problem is a 0 or 1 for every class
    soft: bool = False  # whether a row of a single-label problem gives each class a probability
    reader: CellReader = field(default_factory=_whole_cells)

    @classmethod
    def learn(
        cls,
        cells: Sequence[Any],
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
        given = tuple(label_names or class_names or ())
        if len(set(given)) < len(given):
            raise ValueError(f"--label_names has a name twice: {_listed(given)}")
        reader = CellReader(cells, problem_type, given)
        known = () if problem_type == REGRESSION else given
        values = given_labels(_read_cells(cells, reader), known)
        lists = [value for value in values if isinstance(value, list)]
        kind = problem_type or _infer_problem_type(values, lists, named=bool(given))
        if kind not in PROBLEM_TYPES:
            raise ValueError(f"--problem_type is {kind!r}; allowed are {', '.join(PROBLEM_TYPES)}")
        if kind == REGRESSION:
            return cls(kind, given or _score_names(lists), reader=reader)
        width = _indicator_width(lists, len(given)) if kind == MULTI_LABEL else 0
        names = given or _learnt_names(kind, values, width)
        _require_names(names, _least_names(kind, values))
        return cls(
            kind,
            names,
            positions=bool(label_names) and not any(map(NUMBER.fullmatch, given)),
            indicators=width > 0,
            soft=kind == SINGLE_LABEL and any(isinstance(value, dict | list) for value in values),
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
        is_score = self.kind == REGRESSION and len(self.names) == 1
        return Value("float32") if is_score else List(Value("float32"))

    def encode(self, cell: Any) -> int | float | list[float] | None:
        """Return the label as the loss takes it, None for no label; ValueError if unknown."""
        value = self.reader.read(cell)
        if is_unlabelled(value, () if self.kind == REGRESSION else self.names):
            return None
        if self.kind == SINGLE_LABEL:
            return self._probabilities(value) if self.soft else self._class_id(value)
        if self.kind == REGRESSION:
            return self._targets(value)
        if not isinstance(value, list):
            fault = f"{reprlib.repr(value)} is not a list of labels, or of 0 and 1"
            raise ValueError(f"{fault}; write ['a', 'b'], or add --problem_type {MULTI_LABEL}")
        if self.indicators:
            if len(value) != len(self.names) or any(item not in (0, 1) for item in value):
                form = f"a list of {len(self.names)} numbers, each 0 or 1"
                raise ValueError(f"{reprlib.repr(value)} is not {form}")
            return [float(item) for item in value]
        chosen = {self._class_id(item) for item in value}
        return [float(index in chosen) for index in range(len(self.names))]

    def decode(self, label: Any) -> Any:
        """Return a name for a class id, a list of names for zeros and ones, numbers as they are."""
        if self.kind == SINGLE_LABEL:
            return self.names[label]
        if self.kind == MULTI_LABEL:
            return [name for name, applies in zip(self.names, label, strict=True) if applies]
        return label

    def doubts(self, drops_unlabelled: bool | None = None) -> Iterator[str]:
        """Yield what may be wrong with the names, with advice that fits the flags of the run."""
        groups = _alike(self.names)
        cases = [name for group in groups if _differ_in_case(group) for name in group]
        if cases:
            yield f"labels that differ only in case: {', '.join(cases)}; if they are one, write one"
        others = [name for group in groups if not _differ_in_case(group) for name in group]
        if others:
            shown = ", ".join(map(_written, others))
            yield f"labels that look alike: {shown}; if they are one, write one"
        is_inferred = self.reader.kind is None
        if self.kind == MULTI_LABEL or is_inferred:
            yield from self._doubts_of_several()
        if self.kind == MULTI_LABEL and is_inferred and self.reader.has_lists_of_one:
            kind = f"--problem_type {SINGLE_LABEL}"
            yield f"labels in lists of one item each are read as sets; {kind} reads one a row"
        if missing := [name for name in self.names if _is_like_missing(name)]:
            way_out = "if they do, empty such cells"
            if self.kind == MULTI_LABEL:
                way_out = "if they do, write [] in their place"
            elif not drops_unlabelled:
                way_out += " and add --drop_unlabelled"
            yield f"labels that may mean none: {', '.join(missing)}; {way_out}"

    def _doubts_of_several(self) -> Iterator[str]:
        """Yield which names found in the data may be several labels."""
        several = [] if self.reader.names else _names_with_others(self.names)
        if several:
            fault = f"labels that may be several: {_listed(several)}"
            yield f"{fault}; if they are, write their cells as lists, ['a', 'b']"

    @cached_property
    def _ids(self) -> dict[str, int]:
        ids = {str(i): i for i in range(len(self.names))} if self.positions else {}
        ids |= {class_name(name): index for index, name in enumerate(self.names)}
        return ids | {name: index for index, name in enumerate(self.names)}

    def _class_id(self, value: Any) -> int:
        name = value if isinstance(value, str) and value in self._ids else class_name(value)
        if name not in self._ids:
            fault = f"{reprlib.repr(value)} is not one of the labels {_listed(self.names)}"
            advice = "correct it, or train with other --label_names or another --problem_type"
            twins = [known for known in self.names if looks(known) == looks(name)]
            if twins:
                twin = f"it looks like the label {_written(twins[0])}, but is {_written(name)}"
                raise ValueError(f"{fault}; {twin}; write both alike")
            raise ValueError(f"{fault}; {advice}{_FROM_CHECKPOINT}")
        return self._ids[name]

    def _probabilities(self, cell: Any) -> list[float]:
        """Return the probability of each class; a label without numbers has all of it."""
        given = cell if isinstance(cell, dict) else {}
        if isinstance(cell, list) and len(cell) == len(self.names):
            given = dict(zip(self.names, cell, strict=True))
        elif not isinstance(cell, dict | list):
            given = {cell: 1.0}
        numbers = [0 if number is None else number for number in given.values()]  # as in Parquet
        are_shares = all(type(number) in (int, float) and 0 <= number <= 1 for number in numbers)
        if not are_shares or abs(sum(numbers) - 1) > 0.01:  # of rounded numbers
            form = "{label: probability}, or a list with a probability for each label"
            fault = f"{reprlib.repr(cell)} is not {form}"
            raise ValueError(f"{fault}; probabilities are numbers from 0 to 1 that sum to 1")
        shares = np.bincount([*map(self._class_id, given)], numbers, len(self.names))
        return [float(share) for share in shares / shares.sum()]

    def _targets(self, value: Any) -> float | list[float]:
        items = value if isinstance(value, list) else [value]
        if len(items) != len(self.names):
            outputs = f"{len(self.names)} output(s), {_listed(self.names)}"
            fault = f"{reprlib.repr(value)} has {len(items)} value(s)"
            raise ValueError(f"{fault}; the regression has {outputs}")
        for item in items:
            if not is_number(item) or not math.isfinite(float(str(item))):
                fault = f"{reprlib.repr(item)} is not a finite number, which a regression needs"
                numbers = " or ".join(_numbers_with_commas(str(item).strip()))
                correct = f"write {numbers}" if numbers else "correct it"
                advice = f"{correct}, empty it ({_LEAVES_OUT}), or train with another"
                raise ValueError(f"{fault}; {advice} --problem_type{_FROM_CHECKPOINT}")
            if float(item) == IGNORED_LABEL:
                raise ValueError(f"{IGNORED_LABEL} marks targets that the loss ignores; shift them")
        targets = [float(item) for item in items]
        return targets if len(targets) > 1 else targets[0]


def is_unlabelled(value: Any, names: Sequence[str] = ()) -> bool:
    """Return whether a label is None, NaN, blank, an unknown "-", or -1 where others are known."""
    if names and str(value).strip() == "-1":
        return "-1" not in names
    if isinstance(value, str):
        return not value.strip() or (value.strip() == "-" and "-" not in names)
    return value is None or (isinstance(value, float) and math.isnan(value))


def given_labels(values: Sequence[Any], names: Sequence[str] = ()) -> list[Any]:
    """Return the values that are not missing; beside the label "+", "-" is a class."""
    texts = {value.strip() for value in values if isinstance(value, str)}
    signs = {"-"} if "+" in texts else set()
    return [v for v in values if not is_unlabelled(v, names) or str(v).strip() in signs]


def class_name(value: Any) -> str:
    """Return the name of a label, without blanks around it; ValueError if it cannot be one."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str):
        value = value.strip()  # spreadsheets and `, ` leave blanks
        if _WHOLE_NUMBER.fullmatch(value):
            value = int(value.partition(".")[0])
    if not isinstance(value, str | int | float):
        kind = type(value).__name__
        raise ValueError(f"{reprlib.repr(value)} is a {kind}; a label is a text or a number")
    if fault := text_fault(name := str(value)):
        raise ValueError(f"the label {fault}")
    return name


def looks(text: str) -> str:
    """Return the same text for all that look alike, so that typing errors are found.

    Equal are capital and small letters, composed and other forms of a character, quotation marks,
    dashes, and spellings of a number; invisible characters count for nothing, any blanks for one.
    """
    if not text.isascii():
        shown = regex.sub(r"[\p{Pd}\u2212]", "-", text)
        shown = regex.sub(r"[\u2018-\u201b\u2032\u00b4]", "'", shown)
        shown = regex.sub(r"[\u201c-\u201f\u2033\u00ab\u00bb]", '"', shown)
        text = regex.sub(r"[\p{Cf}\p{DI}]", "", shown)
        text = unicodedata.normalize("NFKC", text.casefold())
    form = " ".join(text.casefold().replace("`", "'").split())
    if _PLAIN_NUMBER.fullmatch(form):
        whole, _, decimals = form.lstrip("+").partition(".")
        form = f"{whole.lstrip('0') or '0'}.{decimals.rstrip('0')}"
    return form


def is_number(value: Any) -> bool:
    """Return whether a value is a number or a text that spells one; a truth value is neither."""
    if isinstance(value, str):
        return NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def truth_of(value: Any) -> bool | None:
    """Return the truth that a cell spells, such as 1 or "no"; None if it spells none."""
    return _TRUTHS.get(str(value).strip().lower())


def _spelt_list(text: str) -> list[str | int | float] | None:
    """Return the list of texts and numbers that a text spells, None if it spells none."""
    if not _is_in_brackets(text):
        return None
    if _ARRAY.fullmatch(text):
        raise ValueError(f"{reprlib.repr(text)} is a list without commas; write ['a', 'b']")
    for parse in (json.loads, ast.literal_eval):  # true and false are JSON's alone
        with suppress(ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            items = parse(text)
            # (1,500) is no tuple, but how a spreadsheet writes -1500.
            kinds = str | int | float if text.startswith("[") else str
            if not isinstance(items, dict | str) and all(isinstance(i, kinds) for i in items):
                return list(items)
    fault = f"{reprlib.repr(text)} looks like a list, but cannot be read; write ['a', 'b']"
    raise ValueError(f"{fault}, or add --problem_type {SINGLE_LABEL} if it is one class")


def _is_in_brackets(text: str) -> bool:
    """Return whether a text looks like a list; a single name may stand in ( ), { } or < >."""
    return text[:1] + text[-1:] == "[]" or _BRACKETED.fullmatch(text) is not None


def _are_lists_of_one(cells: Iterable[Any]) -> bool:
    """Return whether all cells with a label are lists, of one item at most."""
    longest = 0
    for cell in cells:
        if is_unlabelled(cell):
            continue
        items = cell
        if isinstance(cell, str):
            items = None
            with suppress(ValueError):
                items = _spelt_list(cell.strip())
        if not isinstance(items, list) or len(items) > 1:
            return False
        longest = max(longest, len(items))
    return longest == 1


def _split(text: str, marks: str) -> list[str]:
    return re.split(f"[{re.escape(marks)}]", text)


def _separator_of(texts: Collection[str]) -> str | None:
    """Return the first marks that divide the cells of a multi-label problem, None for none."""
    for marks, evidence in _SEPARATORS.items():
        if evidence == _ALL_PARTS_RECUR:
            divides = any(_divisible(texts, marks, evidence))
        else:
            divides = any(mark in text for mark in marks for text in texts)
        if divides:
            return marks
    return None


def _several_in_one(texts: Collection[str], labels: Collection[str]) -> dict[str, str]:
    """Return the texts that may be several labels, with the mark between these.

    The evidence depends on the mark (`_SEPARATORS`). With some it is enough that they occur, with
    others a part must occur in another text; for a comma with a space, as in "Korea, South", or a
    mark such as #, every part must. Whatever else stands between, even a blank or a word, a text
    is several labels if it consists of those that other cells hold alone: "fun and sad" beside
    "fun" and "sad". Thus "New York" beside "York", "C#" beside "C" and "not-funny" beside "funny"
    are classes.
    """
    found: dict[str, str] = {}
    for marks, evidence in _SEPARATORS.items():
        for text in _divisible(texts, marks, evidence):
            found.setdefault(text, next(mark for mark in text if mark in marks))
    for text in texts:
        if _numbers_with_commas(text):
            found[text] = ","
        elif text not in found and not NUMBER.fullmatch(text):
            pieces = _joined_labels(text, labels)
            if pieces:
                found[text] = pieces[1].strip() or " "
    return found


def _divisible(texts: Collection[str], marks: str, evidence: int) -> Iterator[str]:
    """Yield the texts that these marks divide, where there is enough evidence."""
    parts_of = {}
    for text in texts:
        if any(mark in text for mark in marks):
            parts_of[text] = {part.strip() for part in _split(text, marks)} - {""}
    counts = Counter(chain.from_iterable(parts_of.values()))
    for text, parts in parts_of.items():
        recur = [counts[part] > 1 or part in texts for part in parts]
        if evidence == _NO_NAME_HAS_IT:
            is_enough = True
        elif evidence == _ALL_PARTS_RECUR:
            is_enough = all(recur)
        elif ", " in text:
            is_enough = all(recur) or not parts.isdisjoint(texts)
        else:
            is_enough = any(recur)
        if is_enough and len(parts) > 1:
            yield text


def _joined_labels(
    text: str, labels: Collection[str], dead_ends: set[str] | None = None
) -> list[str]:
    """Return the labels of which a text consists, and what stands between: label, mark, label.

    The `labels` are in the form of `looks`. A mark has one word at most. Without such labels the
    list is empty.
    """
    dead_ends = set() if dead_ends is None else dead_ends
    if not labels or len(text) > _MAX_JOINED_LENGTH or text in dead_ends:
        return []
    if len(set(text)) == 1:
        return []  # $$$ and *** are grades
    gaps = [match.span() for match in _GAP.finditer(text)]
    for number, (start, stop) in enumerate(gaps):
        ends = list(range(start + 1, stop + 1))
        for after_word in gaps[number + 1 : number + 2]:
            ends += range(after_word[0] + 1, after_word[1] + 1)
        for cut in range(start, stop):
            if looks(text[:cut]) not in labels:
                continue
            for end in (end for end in ends if end > cut):
                rest = text[end:]
                more = [rest] if looks(rest) in labels else _joined_labels(rest, labels, dead_ends)
                if more and looks(rest) != looks(text[:cut]):
                    return [text[:cut], text[cut:end], *more]
    dead_ends.add(text)
    return []


def _names_with_others(names: Sequence[str]) -> list[str]:
    """Return the names that hold another one beside a mark, as fun#sad beside fun."""
    labels = set(map(looks, names))
    found = []
    for name in names:
        parts = {part.strip() for part in _MARK.split(name)} - {""}
        has_other = len(parts) > 1 and not labels.isdisjoint(map(looks, parts))
        if not _is_like_missing(name) and (has_other or _joined_labels(name, labels)):
            found.append(name)
    return found


def _numbers_with_commas(text: str) -> list[str]:
    """Return the numbers that a text means if its comma is decimal, or one between thousands."""
    numbers = []
    if _DECIMAL_COMMA.fullmatch(text):
        numbers.append(text.replace(",", "."))
    if _COMMA_THOUSANDS.fullmatch(text):
        numbers.append(text.replace(",", ""))
    return numbers


def _read_cells(cells: Sequence[Any], reader: CellReader) -> list[Any]:
    """Return the label or labels of each cell; CellFault for a cell that cannot be read."""
    values = []
    for row, cell in enumerate(cells):
        try:
            value = reader.read(cell)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, str):
                    class_name(item)  # a text that cannot be a name is refused with its row
        except ValueError as reason:
            raise CellFault(row, reason) from None
        values.append(value)
    return values


def _infer_problem_type(values: Sequence[Any], lists: Sequence[list[Any]], named: bool) -> str:
    items: Sequence[Any] = values
    kind = SINGLE_LABEL
    if lists:
        items = list(chain.from_iterable(lists))
        kind = MULTI_LABEL
    if named:
        return kind
    quantities = [_quantity(item) for item in items]
    numbers = [number for number in quantities if number is not None]
    has_fractions = any(number % 1 for number in numbers)
    hardly_repeat = len(set(numbers)) > max(MANY_NUMBERS, len(items) // 2)
    others = {str(item).strip() for item in items if not is_number(item)}
    if others:
        if hardly_repeat or (has_fractions and all(map(_is_like_missing, others))):
            fault = f"the labels are numbers, but for {_listed(sorted(others))}"
            advice = f"write numbers as 0.5, empty other cells ({_LEAVES_OUT})"
            raise ValueError(f"{fault}; {advice}, or --problem_type {kind} if each is a class")
        return kind
    if has_fractions:
        return REGRESSION
    if hardly_repeat and not lists:
        fault = f"the labels are {len(set(numbers))} different whole numbers in {len(items)} rows"
        advice = f"add --problem_type {REGRESSION} if they are quantities"
        other = f"or --problem_type {SINGLE_LABEL} if each is a class"
        raise ValueError(f"{fault}; {advice}, {other}")
    return kind


def _quantity(item: Any) -> float | None:
    """Return the number that a cell spells, also as 0,5 or 50%; None if it spells none."""
    text = str(item).strip().removesuffix("%").replace(",", ".")
    return float(text) if not isinstance(item, bool) and is_number(text) else None


def _alike(names: Iterable[str]) -> list[list[str]]:
    """Return the groups of two or more names that look alike."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(looks(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _differ_in_case(names: Sequence[str]) -> bool:
    return len({name.lower() for name in names}) == 1


def _written(name: str) -> str:
    """Return a name in quotes, with escapes where it could be taken for one that looks alike."""
    is_usual = unicodedata.is_normalized("NFKC", name)
    return repr(name) if is_usual else ascii(name)


def _is_like_missing(text: str) -> bool:
    return text.lstrip("+-").casefold() in _LIKE_MISSING


def _indicator_width(lists: Sequence[list[Any]], num_names: int) -> int:
    """Return the length of rows that hold a 0 or 1 for every class, 0 for rows of other kinds."""
    widths = {len(row) for row in lists}
    width = widths.pop() if len(widths) == 1 else 0
    fits = width == num_names if num_names else width > 1
    return width if fits and all(item in (0, 1) for row in lists for item in row) else 0


def _score_names(lists: Sequence[list[Any]]) -> tuple[str, ...]:
    """Return the names of the outputs of a regression, one for each number of the first list."""
    width = len(lists[0]) if lists else 1
    if width < 2:
        return ("score",)
    return tuple(f"score_{index}" for index in range(width))


def _learnt_names(kind: str, values: Sequence[Any], width: int) -> tuple[str, ...]:
    """Return the classes that occur, in order; `width` is that of zeros and ones, else 0."""
    items: Iterable[Any] = values
    if width:
        items = range(width)
    elif kind == MULTI_LABEL:
        items = chain.from_iterable(value for value in values if isinstance(value, list))
    elif any(isinstance(value, dict | list) for value in values):
        items = _classes_with_a_share(values)
    names = {class_name(item) for item in items if isinstance(item, str | int | float)}
    in_order = sorted(names)
    if all(map(NUMBER.fullmatch, names)):
        in_order.sort(key=lambda name: (float(name), name))
    return tuple(in_order)


def _classes_with_a_share(values: Iterable[Any]) -> Iterator[Any]:
    """Yield the classes of soft labels; the numbers of a list name none."""
    for value in values:
        if isinstance(value, dict):
            yield from value
        else:
            yield value


def _least_names(kind: str, values: Sequence[Any]) -> int:
    """Return the number of classes that a model needs."""
    if kind == SINGLE_LABEL:
        return 2
    if values and not any(isinstance(value, list) for value in values):
        return 0  # `encode` refuses these rows with a better reason
    return 1


def _require_names(names: Sequence[str], least: int) -> None:
    if len(names) < least:
        fault = f"the training rows have the labels {_listed(names) or '(none)'}"
        advice = "Add rows with other labels, or list every label in --label_names"
        raise ValueError(f"{fault}; at least {least} are needed. {advice}")


def _listed(names: Sequence[str]) -> str:
    """List names for a message, at most 20 of them."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(map(repr, names[:20])) + more
