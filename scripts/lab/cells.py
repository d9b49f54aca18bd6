"""Pages in Markdown, made from the records of seeds: templates and the cells of their tables."""

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from records import Record

MISSING = "-"

# Name of a recipe -> the records of its seeds.
Recipes = Mapping[str, Sequence[Record]]


def by_recipe(records: Mapping[str, Record], split: str = "validation") -> Recipes:
    """Return records by the names of their recipes: those of their runs, without the seed.

    Raises ValueError if a record was measured on another split, or the seeds of a recipe have
    different settings.
    """
    found: dict[str, list[Record]] = {}
    for run, record in records.items():
        if record["split"] != split:
            fault = f"was measured on {record['split']} rows, but the tables show {split} rows"
            raise ValueError(f"{run} {fault}")
        found.setdefault(re.sub(r"-seed\d+$", "", run), []).append(record)
    for name, seeds in found.items():
        if len({record["settings_sha"] for record in seeds}) > 1:
            fault = "have different settings; run the recipe again with each seed"
            raise ValueError(f"the seeds of {name} {fault}")
    return found


def numbers(seeds: Iterable[Record], *keys: str) -> list[Any]:
    """Return the value under nested keys of each seed that has them."""
    none: Any = {}
    found = [reduce(lambda value, key: value.get(key, none), keys, seed) for seed in seeds]
    return [value for value in found if value is not none]


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """Return a cell: mean and standard deviation over seeds, a value for each."""
    if not values:
        return MISSING
    deviation = f" ± {statistics.stdev(values):{form}}" if len(values) > 1 else ""
    return f"{statistics.mean(values):{form}}{deviation}"


def mean_cell(values: Sequence[float], form: str = ".2f") -> str:
    """Return `spread` with the number of seeds."""
    seeds = f" ({len(values)} seed{'s' * (len(values) > 1)})" if values else ""
    return f"{spread(values, form)}{seeds}"


def percent(shares: Sequence[float], form: str = ".2f") -> str:
    """Return `mean_cell` in percent."""
    return mean_cell([100 * share for share in shares], form)


def mean(values: Sequence[float], form: str, factor: float = 1) -> str:
    """Return a cell of the mean alone."""
    return f"{factor * statistics.mean(values):{form}}" if values else MISSING


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (headings, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(headings), *lines[1:]])


class Page:
    """A page of a study; its template calls its methods as `page`."""

    template: Path
    shown: Mapping[str, Any]  # more names for the template

    def __init__(self, records: Recipes) -> None:
        self.records = records

    def text(self) -> str:
        """Return the page."""
        names = ("trim_blocks", "lstrip_blocks", "keep_trailing_newline")
        options: dict[str, Any] = dict.fromkeys(names, True)
        environment = Environment(undefined=StrictUndefined, **options)
        filters = {"cell": mean_cell, "percent": percent, "mean": mean, "numbers": numbers}
        environment.filters.update(filters, spread=spread)
        template = environment.from_string(self.template.read_text(encoding="utf-8"))
        return template.render(page=self, **self.shown)

    def measured(self, recipe: str, *keys: str) -> list[Any]:
        """Return the value under nested keys of each seed of a recipe that has them."""
        return numbers(self.records.get(recipe, ()), *keys)
