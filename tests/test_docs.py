"""The texts for readers: their figures come from records, their links lead to files."""

import json
import re
from collections.abc import Iterator
from itertools import chain, groupby
from typing import Any

from guides import ROOT, TEXTS, read

PAGES_WITH_RECORDS = [
    f"model_cards/{name}.md" for name in ("README", "EXPLANATION", "RANKING", "SPEED")
]
# Figures with a decimal point or a thousands separator; "5 classes" is not measured.
FIGURE = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+|\d+\.\d+)(?![\w.,])")


def rows_of_tables(text: str) -> Iterator[tuple[str, list[str], list[str]]]:
    before = ""
    for is_table, lines in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        if is_table:
            heading, _, *rows = (re.split(r"(?<!\\)\|", line.strip("|")) for line in lines)
            yield from ((before, heading, row) for row in rows)
        else:
            before = "\n".join(lines).strip().rpartition("\n\n")[2]


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        yield from chain.from_iterable(map(numbers_in, members))
    elif isinstance(value, int | float):
        yield float(value)


def figures_without_record(text: str, records: dict[str, Any]) -> list[str]:
    """Return the figures in tables that no record linked in their row or just before holds.

    A figure may be rounded, and a percentage of a number in the record. A column whose heading
    names the paper is not compared.
    """
    missing = []
    for before, headings, row in rows_of_tables(text):
        linked = [name for name in records if f"({name})" in before + "|".join(row)]
        held = [number for name in linked for number in numbers_in(records[name])]
        for heading, cell in zip(headings, row, strict=True):
            for figure in FIGURE.findall(re.sub(r"\]\([^)]*\)", "]", cell)):
                decimals = len(figure.partition(".")[2])
                forms = {f"{scale * number:,.{decimals}f}" for number in held for scale in (1, 100)}
                if "paper" not in heading.lower() and figure not in forms:
                    missing.append(figure)
    return missing


def test_figures_in_tables_come_from_records() -> None:
    cards = ROOT / "model_cards"
    records = {}
    for path in (cards / "records").rglob("*.json*"):
        name, text = path.relative_to(cards).as_posix(), path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            records[name] = json.loads(text)
        else:
            lines = map(json.loads, text.splitlines())
            records |= {f"{name}#{record['run']}": record for record in lines}
    for page in PAGES_WITH_RECORDS:
        linked = re.findall(r"\((records/[^)]*\.json[^)]*)\)", read(page))
        assert linked, page
        assert set(linked) <= records.keys(), page
        assert figures_without_record(read(page), records) == [], page
    # README's table is that of the leaderboard's records; its other means are those of a page.
    prose = re.sub(r"^\|.*$", "", read("README.md"), flags=re.MULTILINE)
    means = {*re.findall(r"\d+\.\d+ ± \d+\.\d+", prose)}
    assert means
    assert means <= {*re.findall(r"\d+\.\d+ ± \d+\.\d+", read("model_cards/EXPERIMENTS.md"))}


def test_links_lead_to_files() -> None:
    for name in TEXTS:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", read(name)):
            assert (ROOT / name).parent.joinpath(target).exists(), f"{name} links to {target}"
