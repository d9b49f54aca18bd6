"""CSV and TSV files: the form of such a file, and its rows; every cell stays a text.

`pyarrow.csv` names no row for a bad line, reads `"a"b` as `ab`, skips blank lines and takes a
header that names a column twice.
"""

import csv
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, count, islice, repeat, tee
from typing import Any

from ..utils.text import one_line
from .text_lines import MAX_LINE, ending_of, open_lines, whole_line

logger = logging.getLogger(__name__)

CSV_ENDINGS = (".csv", ".tsv")
SEPARATORS = (",", ";", "\t", "|")
_SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=.?"?\s*')  # Excel reads it above the header


@dataclass(frozen=True)
class CsvForm:
    """The form of a CSV or TSV file."""

    separator: str
    line_end: str
    encoding: str  # utf-8-sig, with a byte-order mark, or utf-8
    above: str  # a line such as `sep=;` above the header, or nothing
    text_quotes: int | None  # the line that shows quotes to be text; None if they enclose fields

    @classmethod
    def of(cls, path: str, max_line: int = MAX_LINE) -> "CsvForm":
        """Read the form of a file: from two lines, and the meaning of quotes from more."""
        usual = "," if ending_of(path) == ".csv" else "\t"
        with open_lines(path, max_line, "utf-8") as pieces:
            lines = map(whole_line, count(1), pieces, repeat(max_line))
            first = header = next(lines, "")
            above = first if _SEPARATOR_LINE.fullmatch(first) else ""
            if above:
                header = next(lines, "")
            second = list(islice(lines, 1))
            separator = _separator(header, "".join(second), usual)
            text_quotes, tabs = None, header.count("\t")
            if separator == "\t" and tabs and '"' not in header:
                number = 3 if above else 2
                text_quotes = _line_of_text_quotes(chain(second, lines), number, tabs, max_line)
        return cls(
            separator,
            line_end=header[len(header.rstrip("\r\n")) :] or "\n",
            encoding="utf-8-sig" if first.startswith("\ufeff") else "utf-8",
            above=above.removeprefix("\ufeff"),
            text_quotes=text_quotes,
        )


def csv_rows(path: str, max_line: int = MAX_LINE) -> Iterator[Mapping[str, str]]:
    """Yield the rows below the header line.

    ValueError names a line that has more or fewer fields than the header, is blank or too long, or
    leaves a quoted field open; the header may name no column twice.
    """
    form = CsvForm.of(path, max_line)
    advice = "a field that holds a separator needs quotes around it"
    if form.text_quotes is not None:
        _warn_of_quotes(path, form.text_quotes)
        advice = "its quotes are text, as they would join whole rows; if not, save it as CSV"
    with open_lines(path, max_line) as pieces:
        lines = map(whole_line, count(1), pieces, repeat(max_line))
        quoting = csv.QUOTE_MINIMAL if form.text_quotes is None else csv.QUOTE_NONE
        reader = _reader(lines, form.separator, max_line, quoting=quoting)
        try:
            header: list[str] = next(islice(reader, bool(form.above), None), [])
            if len(set(header)) < len(header):
                raise ValueError(f"the header names a column twice: {header}")
            for cells in reader:
                if not cells and not any(map(str.strip, lines)):
                    break  # only blank lines are left
                if len(cells) != len(header):
                    if len(cells) < 2 and not "".join(cells).strip():
                        raise ValueError(f"line {reader.line_num} is blank; delete it")
                    fault = f"has {len(cells)} fields and the header {len(header)}; {advice}"
                    raise ValueError(f"line {reader.line_num} {fault}")
                yield dict(zip(header, cells, strict=True))
        except csv.Error as reason:
            advice = "quotes inside a quoted field must be doubled, and the last one closed"
            raise ValueError(f"line {reader.line_num}: {reason}; {advice}") from None


@cache  # one warning for a file that is read more than once
def _warn_of_quotes(path: str, line: int) -> None:
    logger.warning(
        f"the quotes of {one_line(path)} are read as text: those in line {line} would join or "
        "spoil whole rows. If they are not text, save the file as CSV"
    )


def _reader(lines: Iterator[str], separator: str, max_line: int, **options: Any) -> Any:
    csv.field_size_limit(max_line)  # its own limit of 128 KiB is shorter than a long document
    return csv.reader(lines, delimiter=separator, strict=True, **options)


def _separator(header: str, second: str, usual: str) -> str:
    """Return the mark that the header line has most and the second line equally often.

    The usual mark wins a tie. Without such a mark, the header alone decides, for the usual mark if
    it has that.
    """
    first, other = (Counter(re.sub(r'"[^"]*"', "", line)) for line in (header, second))
    marks = (usual, *SEPARATORS)
    if other['"'] % 2:  # a cell continues in the third line
        other = Counter()
    if even := [mark for mark in marks if first[mark] == other[mark] > 0]:
        return max(even, key=first.__getitem__)
    return usual if first[usual] else max(marks, key=first.__getitem__)


def _line_of_text_quotes(lines: Iterator[str], number: int, tabs: int, max_line: int) -> int | None:
    """Return the line that shows the quotes of a TSV file to be text, as in the files of GLUE.

    A quoted field in that line would join lines that have the `tabs` of a row each, or break the
    rules of quotes. A doubled quote in an earlier line shows that quotes enclose fields. The first
    of `lines` has this `number`.
    """
    for line in lines:
        if '""' in line:
            return None
        if '"' in line:
            read, same = tee(chain([line], lines))
            reader = _reader(read, "\t", max_line)
            try:
                next(reader)
                is_row = reader.line_num == 1
            except csv.Error:
                is_row = False
            joined = list(islice(same, reader.line_num))
            if not is_row and all(line.count("\t") == tabs for line in joined if line.strip()):
                return number
            number += len(joined) - 1
        number += 1
    return None
