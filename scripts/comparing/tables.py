"""The table and the plot of the leaderboard, made from its records."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .runs import SETS, SYSTEMS

# Set -> system -> the records of its seeds, in the order of the tables.
Leaderboard = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]

# Column -> the number of a record, and its format.
COLUMNS: dict[str, tuple[Callable[[Mapping[str, Any]], float], str]] = {
    "accuracy in %": (lambda record: 100 * record["metrics"]["accuracy"], ".1f"),
    "macro F1 in %": (lambda record: 100 * record["metrics"]["macro_f1"], ".1f"),
    "calibration error in %": (lambda record: 100 * record["metrics"]["calibration_error"], ".1f"),
    "seconds of training": (lambda record: record["training_seconds"], ",.1f"),
    "texts a second": (lambda record: record["texts_per_second"], ",.0f"),
    "MB on disk": (lambda record: record["bytes_on_disk"] / 1e6, ",.1f"),
}


def read_leaderboard(folder: Path) -> Leaderboard:
    """Return the records named SET/SYSTEM.json or SET/SYSTEM-seedN.json in a folder."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for task in SETS:
        for system in SYSTEMS:
            paths = [folder / task / f"{system}.json"]
            paths += sorted((folder / task).glob(f"{system}-seed*.json"))
            records = [json.loads(p.read_text(encoding="utf-8")) for p in paths if p.is_file()]
            if records:
                found.setdefault(task, {})[system] = records
    return found


def leaderboard_rows(leaderboard: Leaderboard) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows: a row for each system on each set, with means over the seeds."""
    rows = []
    for task, systems in leaderboard.items():
        for system, records in systems.items():
            cells = [f"{_mean(records, number):{form}}" for number, form in COLUMNS.values()]
            if system == "most_frequent":  # the speed of a constant says nothing
                cells[list(COLUMNS).index("texts a second")] = "-"
            if len(records) > 1:
                spread = statistics.stdev(map(COLUMNS["accuracy in %"][0], records))
                cells[0] += f" ± {spread:.1f} ({len(records)} seeds)"
            rows.append([task, SYSTEMS[system].title, *cells])
    return ["set", "system", *COLUMNS], rows


def leaderboard_points(leaderboard: Leaderboard) -> dict[str, dict[str, tuple[float, float]]]:
    """Return for each set and system the seconds of training and the accuracy in percent."""
    numbers = [COLUMNS[name][0] for name in ("seconds of training", "accuracy in %")]
    return {
        task: {
            SYSTEMS[system].title: (_mean(records, numbers[0]), _mean(records, numbers[1]))
            for system, records in systems.items()
        }
        for task, systems in leaderboard.items()
    }


def _mean(records: Sequence[Mapping[str, Any]], number: Callable[[Any], float]) -> float:
    return statistics.mean(map(number, records))
