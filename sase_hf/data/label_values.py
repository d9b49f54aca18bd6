"""One label: which name, number or truth a value spells, and whether it is missing."""

import math
import re
import reprlib
import unicodedata
from collections.abc import Sequence

import regex

from .tokenizer import text_fault

NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+\.0*")  # pandas writes it so beside missing cells
_PLAIN_NUMBER = re.compile(r"\+?[0-9]+(\.[0-9]*)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_COMMA_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
_TRUE = {"1", "1.0", "true", "yes"}
_FALSE = {"0", "0.0", "false", "no"}
_LIKE_MISSING = {
    *("nan", "null", "none", "na", "n/a", "n.a.", "#n/a", "<na>", "nat", "?"),
    *("#div/0!", "#num!", "#value!", "inf", "infinity"),
}
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


def is_like_missing(text: str) -> bool:
    """Return whether a text is what programs write where a value is missing."""
    return text.lstrip("+-").casefold() in _LIKE_MISSING


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


def is_number(value: object) -> bool:
    """Return whether a value is a number or a text that spells one; a truth value is neither."""
    if isinstance(value, str):
        return NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers_with_commas(text: str) -> list[str]:
    """Return the numbers that a text means if its comma is decimal, or one between thousands."""
    numbers = []
    if _DECIMAL_COMMA.fullmatch(text):
        numbers.append(text.replace(",", "."))
    if _COMMA_THOUSANDS.fullmatch(text):
        numbers.append(text.replace(",", ""))
    return numbers


def truth_of(value: object) -> bool | None:
    """Return the truth that a cell spells, such as 1 or "no"; None if it spells none."""
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def written(name: str) -> str:
    """Return a name in quotes, with escapes where it could be taken for one that looks alike."""
    is_usual = unicodedata.is_normalized("NFKC", name)
    return repr(name) if is_usual else ascii(name)


def listed(names: Sequence[str]) -> str:
    """List names for a message, at most `MAX_LISTED` of them."""
    shown = ", ".join(map(repr, names[:MAX_LISTED]))
    if len(names) > MAX_LISTED:
        shown += f" and {len(names) - MAX_LISTED} more"
    return shown
