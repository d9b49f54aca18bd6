"""Tables of results, for the terminal and for pages."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .text import one_line

NAME_WIDTH, MAX_CELL_WIDTH = 34, 12


class Table(NamedTuple):
    """Rows of texts under heads; the first of each names the row.

    `shares`, from 0 to 1, colour the cells after the first.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    shares: Sequence[Sequence[float]] | None = None


def table_lines(table: Table) -> Iterator[str]:
    """Yield a table for the terminal, its title in the place of the first head."""
    rows = ((table.title, *table.heads[1:]), *table.rows)
    shown = [list(map(one_line, row)) for row in rows]
    columns = zip(*shown, strict=True)
    widths = [min(max(map(len, column)), MAX_CELL_WIDTH) + 2 for column in columns][1:]
    for name, *cells in shown:
        padded = zip(cells, widths, strict=True)
        line = "".join(_cut(cell, width - 2).rjust(width) for cell, width in padded)
        yield _cut(name, NAME_WIDTH).ljust(NAME_WIDTH) + line


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
