"""The rows of a text file: CSV, TSV, JSON and JSON Lines, packed by gzip or not.

The builders of `datasets` guess: the JSON text `2020-01-01 00:00:00` becomes a timestamp, a missing
CSV field a blank text. `pyarrow.csv` names no row for a bad line, reads `"a"b` as `ab` and skips
blank lines. Here a CSV cell is a text, a JSON value is what it says, and a line that breaks its
format is named.
"""

import codecs
import csv
import gzip
import io
import json
import logging
import math
import os
import re
import reprlib
import shlex
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..utils.errors import refusal
from ..utils.files import check_content, check_readable
from ..utils.text import one_line

logger = logging.getLogger(__name__)

CSV_ENDINGS = (".csv", ".tsv")
TEXT_ENDINGS = (*CSV_ENDINGS, ".json", ".jsonl")
ENDINGS = (*TEXT_ENDINGS, *(f"{ending}.gz" for ending in TEXT_ENDINGS), ".parquet")
SEPARATORS = (",", ";", "\t", "|")
FIRST_ROW = 2  # below the header line, as a spreadsheet counts
NO_TEXT = "UTF-16 without a byte-order mark, or no text file; save it as UTF-8"
NAMES_ABOVE = "put a line of names above it"
LOOSE_QUOTE = 'delete the blanks between a separator and a quotation mark: a,"b, c" is two fields'
# A text file exceeds these limits only by mistake, or to fill its reader's memory.
MAX_LINE = 2**26  # characters in a line, except a JSON array, which is held whole
MAX_EXPANSION = 100  # characters per byte of a packed file, where these are more than a line

Row = Mapping[str, Any]  # texts of a CSV file, values of JSON

# A field of a TSV file that begins with a quote and goes on, maybe at once, to a doubled one.
_DOUBLED_IN_QUOTES = re.compile(r'(?:^|\t)"(?:""(?!")|(?!")(?:[^"\t]|"")*"")')
_SEPARATOR_LINE = re.compile(r'"?sep=.?"?\s*')  # Excel reads it above the header


def read_rows(path: str) -> Iterator[Row]:
    """Yield the rows of a text file; call it inside `wrap_read_errors`.

    CSV and TSV have a header line, and fields may be in quotes; where these would join the rows of
    a TSV file, they are text. A `.json` file holds an array of objects, which is held in memory, or
    one object per line, as `.jsonl` does. ValueError names a line that breaks the format.
    """
    if _ending_of(path) in CSV_ENDINGS:
        return (row for _, row in _csv_rows(path))
    return _json_rows(path)


def is_sheet(title: str) -> bool:
    """Return whether a source is a CSV or TSV file, whose rows a spreadsheet counts from 1."""
    return _ending_of(title) in CSV_ENDINGS and os.path.isfile(title)


def place_of(title: str, number: int) -> str:
    """Return where a row is, for errors; a row of a CSV file ends on the line."""
    if not is_sheet(title):
        return f"row {number} (counted from 0) of {title}"
    line = next(islice(_csv_rows(title), number, None))[0]
    return f"row {number + FIRST_ROW} of the sheet, line {line} of the file {title}"


def read_parts(path: str, num_rows: int) -> Iterator[list[Row]]:
    """Yield the rows of `read_rows` in lists of `num_rows`."""
    rows = read_rows(path)
    part = list(islice(rows, num_rows))
    while part:
        yield part
        part = list(islice(rows, num_rows))


@contextmanager
def wrap_read_errors(path: str, endings: tuple[str, ...] = ENDINGS) -> Iterator[None]:
    """Raise ValueError that names the file for a fault in it, or a name with none of `endings`.

    `-`, the standard input, is read as it is; another path must lead to a file, or the error is
    that of `check_readable`.
    """
    if not path.lower().endswith(endings):
        way_out = "save a spreadsheet as CSV; --dataset_name reads a folder, sase_hf predict a .txt"
        if path.lower().endswith(".txt"):
            way_out = "put a header line such as text,label above it and save it as CSV"
        raise refusal(
            f"{path!r} has an unknown ending", f"allowed are {', '.join(ENDINGS)}; {way_out}"
        )
    if path != "-":
        check_readable(path)
    try:
        if path.lower().endswith(ENDINGS):
            check_content(path)
        yield
    except ValueError as reason:
        what = f"cannot read {path!r}: {reason}"
        if isinstance(reason, UnicodeDecodeError):
            raise refusal(what, _way_to_utf_8(path, reason)) from reason
        raise ValueError(what) from reason
    except (EOFError, OSError, zlib.error) as reason:
        if getattr(reason, "errno", None) is not None:
            raise  # from the file system; gzip and Parquet set no number
        raise refusal(f"cannot read {path!r}: {reason}", "is the file complete?") from reason


def _ending_of(path: str) -> str:
    return Path(path.lower().removesuffix(".gz")).suffix


def _way_to_utf_8(path: str, reason: UnicodeDecodeError) -> str:
    if reason.encoding != "utf-8" or path.lower().endswith(".gz") or not os.path.isfile(path):
        return "save it as UTF-8"
    if b"\0" in reason.object:
        return f"it holds NUL characters: {NO_TEXT}"
    new = Path(path).with_stem(f"{Path(path).stem}-utf8")
    command = f"iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(path)} > {shlex.quote(str(new))}"
    return f"save it as UTF-8 (in Excel 'CSV UTF-8'); where it comes from Windows: {command}"


def _open_text(source: str | int) -> io.TextIOWrapper:
    """Open a file, packed or not, or a pipe, in the encoding that its first bytes show."""
    file: gzip.GzipFile | io.BufferedReader
    if str(source).lower().endswith(".gz"):
        file = gzip.GzipFile(str(source), "rb")
    else:
        file = open(source, "rb", closefd=source != 0)  # noqa: SIM115
    start = file.peek(len(codecs.BOM_UTF8))  # a pipe cannot be read twice
    encoding = "utf-8"
    if start.startswith(codecs.BOM_UTF8):
        encoding = "utf-8-sig"
    elif start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # Excel's "Unicode text"
        encoding = "utf-16"
    return io.TextIOWrapper(file, encoding, newline="")


def text_lines(source: str | int) -> Iterator[str]:
    """Yield the lines with their ends, a JSON array in pieces; ValueError for a NUL, or a limit.

    The source is a path, also of a pipe or a packed file, or 0 for the standard input.
    """
    is_json = ".json" in _ending_of(str(source))
    is_array = False
    size = 0
    limit = math.inf
    with _open_text(source) as file:
        if isinstance(file.buffer, gzip.GzipFile):
            limit = max(MAX_LINE, MAX_EXPANSION * os.path.getsize(source))
        for number, line in enumerate(iter(partial(file.readline, MAX_LINE), ""), start=1):
            size += len(line)
            if size > limit:
                raise refusal(
                    f"it unpacks to more than {limit:,} characters, {MAX_EXPANSION} for each byte",
                    "if that is right, unpack it first",
                )
            if "\0" in line:
                raise ValueError(f"line {number} holds a NUL character: {NO_TEXT}")
            is_array = is_array or (is_json and line.lstrip().startswith("["))
            if len(line) == MAX_LINE and not is_array:
                raise refusal(
                    f"line {number} has {MAX_LINE:,} characters or more", "are line ends missing?"
                )
            yield line


def _json_rows(path: str) -> Iterator[Row]:
    """Yield the objects of an array, or of one object per line."""
    lines = text_lines(path)
    row: Row = {}
    num_rows = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            if line.lstrip().startswith("["):
                rows = _parse_json("".join(chain([line], lines)))
            else:
                rows = [_parse_json(line.rstrip())]
        except json.JSONDecodeError as reason:
            raise refusal(
                f"line {number + reason.lineno - 1}, character {reason.colno}: {reason.msg}",
                "a JSON file holds one object per line, or an array of objects",
            ) from None
        except RecursionError:
            raise ValueError(f"line {number}: brackets are nested too deeply") from None
        except _RepeatedKey as reason:
            raise refusal(
                f"line {number}: an object has the key {reason.args[0]!r} twice",
                "keep one of the two",
            ) from None
        for row in rows:
            if not isinstance(row, dict):
                raise refusal(
                    f"line {number}: a row of type {type(row).__name__}", "it must be an object"
                )
            num_rows += 1
            yield row
    table = _form_of_table(row) if num_rows == 1 else None
    if table is not None:
        raise refusal(
            f"it is one object that holds {table}, not rows",
            'save it with to_json(path, orient="records", lines=True) of pandas',
        )


class _RepeatedKey(Exception):
    """An object that has a key twice."""


def _parse_json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object_of)


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; Python would keep the last of two equal keys and say nothing."""
    row = dict(pairs)
    if len(row) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise _RepeatedKey(counts.most_common(1)[0][0])
    return row


def _form_of_table(row: Row) -> str | None:
    """Return how one object holds a whole table, as pandas and others write it; None for a row."""
    values = list(row.values())
    if row.keys() >= {"columns", "data"} or row.keys() >= {"schema", "data"}:
        return "a table with its columns apart"
    if len(values) == 1:
        [(name, value)] = row.items()
        holds_rows = isinstance(value, list) and _all_are(dict, value)
        return f"its rows in {name!r}" if holds_rows else None
    if _all_are(dict, values) and len({tuple(value) for value in values}) == 1:
        return "a table by columns or by numbers of rows"
    if _all_are(list, values) and _all_are(str, values[0]):
        lengths = {len(value) for value in values}
        if len(lengths) == 1 and lengths != {1}:
            return "a table by columns"
    return None


def _all_are(value_type: type, values: Sequence[object]) -> bool:
    return len(values) > 0 and all(isinstance(value, value_type) for value in values)


@dataclass(frozen=True)
class CsvForm:
    """The form of a CSV or TSV file."""

    separator: str
    above: str  # a line such as `sep=;` above the header, or nothing
    text_quotes: int | None  # the line that shows quotes to be text; None if they enclose fields

    @classmethod
    def of(cls, path: str) -> "CsvForm":
        """Read the form of a file: from two lines, and the meaning of quotes from more."""
        lines = text_lines(path)
        above = ""
        header = next(lines, "")
        if _SEPARATOR_LINE.fullmatch(header):
            above = header
            header = next(lines, "")
        second = next(lines, "")
        separator = _separator(header, second, "," if _ending_of(path) == ".csv" else "\t")
        text_quotes = None
        tabs = header.count("\t")
        if separator == "\t" and tabs and '"' not in header:
            number = 3 if above else 2
            text_quotes = _line_of_text_quotes(chain([second], lines), number, tabs)
        elif _has_loose_quote(second, separator):
            _warn_of_loose_quotes(path)
        return cls(
            separator,
            above=above,
            text_quotes=text_quotes,
        )


def _csv_rows(path: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the last line of each row and the row; ValueError names a line that does not fit.

    Spreadsheets export empty columns behind the others, and empty rows below: these are left out.
    """
    form = CsvForm.of(path)
    if form.text_quotes is not None:
        _warn_of_quotes(path, form.text_quotes)
    lines = _LastLine(text_lines(path))
    reader = _reader(lines, form.separator, has_quotes=form.text_quotes is None)
    blank_rows: list[tuple[int, Mapping[str, str]]] = []
    try:
        if form.above:
            next(reader, None)
        header: list[str] = next(reader, [])
        names = _column_names(header)
        for cells in reader:
            if not cells and _are_all_blank(lines):
                break
            if len(cells) != len(header):
                raise ValueError(
                    f"line {reader.line_num} {_fault_of_length(cells, header, lines.line, form)}"
                )
            _check_unnamed(cells[len(names) :], reader.line_num)
            row = dict(zip(names, cells, strict=False))
            if len(cells) > 1 and not "".join(cells).strip():
                blank_rows.append((reader.line_num, row))
                continue
            yield from blank_rows  # a row follows, so that they are none at the end
            blank_rows.clear()
            yield reader.line_num, row
    except csv.Error as reason:
        advice = "quotes inside a quoted field must be doubled, and the last one closed"
        if _has_loose_quote(lines.line, form.separator):
            advice = LOOSE_QUOTE
        raise ValueError(f"line {reader.line_num}: {reason}; {advice}") from None


def _fault_of_length(cells: Sequence[str], header: Sequence[str], line: str, form: CsvForm) -> str:
    """Return what is wrong with a row that has more or fewer cells than the header."""
    if len(cells) < 2 and not "".join(cells).strip():
        return "is blank; delete it"
    advice = "a field that holds a separator needs quotes around it"
    if form.text_quotes is not None:
        advice = "its quotes are text, as they would join whole rows; if not, save it as CSV"
    elif _has_loose_quote(line, form.separator):
        advice = LOOSE_QUOTE
    return f"has {len(cells)} fields and the header {len(header)}; {advice}"


def _check_unnamed(cells: Sequence[str], number: int) -> None:
    """Raise ValueError if a cell behind the named columns is not empty."""
    for cell in cells:
        if cell.strip():
            raise refusal(
                f"line {number} has {reprlib.repr(cell)} in a column without a name",
                "name it in the header line",
            )


class _LastLine:
    """An iterator of lines that keeps the last one for an error."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.line = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.line = next(self._lines)
        return self.line


def _column_names(header: Sequence[str]) -> list[str]:
    """Return the names of a header line without empty ones at its end."""
    names = list(header)
    while len(names) > 1 and not names[-1].strip():
        names.pop()
    if len(set(names)) < len(names):
        raise refusal(f"the header names a column twice: {names}", f"if it is a row, {NAMES_ABOVE}")
    return names


def _has_loose_quote(line: str, separator: str) -> bool:
    """Return whether a blank stands between a separator and a quotation mark."""
    mark = re.escape(separator)
    return re.search(rf'{mark}[ \t]+"|"[ \t]+({mark}|\s*$)', line) is not None


@cache  # one warning for a file that is read more than once
def _warn_of_quotes(path: str, line: int) -> None:
    logger.warning(
        f"the quotes of {one_line(path)} are read as text: those in line {line} would join or "
        "spoil whole rows. If they are not text, save the file as CSV"
    )


@cache
def _warn_of_loose_quotes(path: str) -> None:
    logger.warning(
        f"{one_line(path)} has blanks before quotation marks, so that these are read as text; "
        f"if they are not, {LOOSE_QUOTE}"
    )


def _reader(lines: Iterator[str], separator: str, *, has_quotes: bool = True) -> Any:
    csv.field_size_limit(MAX_LINE)  # its own limit of 128 KiB is shorter than a long document
    return csv.reader(
        lines,
        delimiter=separator,
        strict=True,
        quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
    )


def _separator(header: str, second: str, usual: str) -> str:
    """Return the mark that the header line has most and the second line equally often.

    The usual mark wins a tie. If no mark is equally frequent in both lines, the header decides: the
    usual mark if the header contains it, else its most frequent mark.
    """
    in_header = _unquoted_marks(header)
    in_second = _unquoted_marks(second)
    marks = (usual, *SEPARATORS)
    if in_second['"'] % 2:  # a cell continues in the third line
        in_second = Counter()
    even = [mark for mark in marks if in_header[mark] == in_second[mark] > 0]
    if even:
        return max(even, key=in_header.__getitem__)
    return usual if in_header[usual] else max(marks, key=in_header.__getitem__)


def _unquoted_marks(line: str) -> Counter[str]:
    """Count the characters of a line outside quotes."""
    return Counter(re.sub(r'"[^"]*"', "", line))


def _are_all_blank(lines: Iterator[str]) -> bool:
    """Read on to the next line that is not blank; return whether there is none.

    The lines are used up, so a caller that gets False can only raise an error.
    """
    return not any(line.strip() for line in lines)


def _line_of_text_quotes(lines: Iterator[str], number: int, tabs: int) -> int | None:
    """Return the line that shows the quotes of a TSV file to be text, as in the files of GLUE.

    Quotes are text if reading them as quotes would merge lines that are rows of their own, each
    with so many `tabs`, or fails. A field earlier in the file that is in quotes and has a doubled
    one shows that quotes enclose fields. `lines` begin at `number`.
    """
    for line in lines:
        if _DOUBLED_IN_QUOTES.search(line):
            return None
        row_lines = [line]
        is_valid = True
        if '"' in line:
            row_lines, is_valid = _read_quoted_row(line, lines)
        is_one_line = is_valid and len(row_lines) == 1
        if not is_one_line and all(text.count("\t") == tabs for text in row_lines if text.strip()):
            return number
        number += len(row_lines)
    return None


def _read_quoted_row(first: str, rest: Iterator[str]) -> tuple[list[str], bool]:
    """Return the lines that one row takes if its quotes enclose fields, and whether it is valid."""
    row_lines: list[str] = []

    def kept_lines() -> Iterator[str]:
        for line in chain([first], rest):
            row_lines.append(line)
            yield line

    try:
        next(_reader(kept_lines(), "\t"))
    except csv.Error:
        return row_lines, False
    return row_lines, True
