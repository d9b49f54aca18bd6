"""One label: which name, number or truth a value spells, and whether it is missing."""

import math
import re
import reprlib
import unicodedata
from collections.abc import Sequence

import regex

from ..utils.text import text_fault

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+\.0*")  # pandas writes it so beside missing cells
MAX_LISTED = 20


def is_unlabelled(value: object, names: Sequence[str] = ()) -> bool:
    """Return whether a label is None, NaN, blank, an unknown "-", or -1 where others are known."""
    if names and str(value).strip() == "-1":
        return "-1" not in names
    if isinstance(value, str):
        return not value.strip() or (value.strip() == "-" and "-" not in names)
    return value is None or (isinstance(value, float) and math.isnan(value))


def given_labels(values: Sequence[object], names: Sequence[str] = ()) -> list[object]:
    """Return the values that are not missing; beside the label "+", "-" is a class."""
    texts = {value.strip() for value in values if isinstance(value, str)}
    has_plus = "+" in texts
    labels = []
    for value in values:
        is_minus_class = has_plus and str(value).strip() == "-"
        if is_minus_class or not is_unlabelled(value, names):
            labels.append(value)
    return labels


def class_name(value: object) -> str:
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
        type_name = type(value).__name__
        raise ValueError(f"{reprlib.repr(value)} is a {type_name}; a label is a text or a number")
    name = str(value)
    fault = text_fault(name)
    if fault is not None:
        raise ValueError(f"the label {fault}")
    return name


def letters_and_digits(text: str) -> str:
    """Return one form for all texts that differ only in signs, case or Unicode form.

    A text without letters and digits, such as an emoji, is its own form, and a number its value.
    """
    form = unicodedata.normalize("NFKC", text).casefold()
    if NUMBER.fullmatch(form):
        return str(float(form))
    return regex.sub(r"[^\p{L}\p{M}\p{N}\p{So}]", "", form) or text


def is_number(value: object) -> bool:
    """Return whether a value is a number or a text that spells one; a truth value is neither."""
    if isinstance(value, str):
        return NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def truth_of(value: object) -> bool | None:
    """Return the truth that a cell of 0 or 1 holds; None if it holds neither."""
    text = str(value).strip().lower()
    return {"0": False, "0.0": False, "1": True, "1.0": True}.get(text)


def listed(names: Sequence[str]) -> str:
    """List names for a message, at most `MAX_LISTED` of them."""
    shown = ", ".join(map(repr, names[:MAX_LISTED]))
    if len(names) > MAX_LISTED:
        shown += f" and {len(names) - MAX_LISTED} more"
    return shown
