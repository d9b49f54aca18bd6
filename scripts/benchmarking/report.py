"""What was measured, as tables, as a plot and as a record."""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification
from sase_hf.evaluation.records import measured_record
from sase_hf.visualization import save_figure

from .cases import Result, fields_of
from .models import INFERENCE, LENGTHS, ON_ONNX_RUNTIME, TRAINING
from .timing import exponent

Results = dict[str, list[Result]]


class Growth(NamedTuple):
    """A part that measures cost against a size: the size in its results, and words for a plot."""

    size: str
    axis: str
    seconds: str


GROWING = {
    "lengths": Growth(
        "longest", "tokens of the longest text", "seconds for forward and backward pass"
    ),
    "corpora": Growth("rows", "rows of the file", "processor seconds of the whole command"),
}

# Column -> the key of its value in a result, and the format.
COLUMNS = {
    "times as fast": ("speedup", "{0[median]:.2f} ({0[q1]:.2f} to {0[q3]:.2f})"),
    "of forward": ("times_forward", "{0[median]:.2f} ({0[q1]:.2f} to {0[q3]:.2f})"),
    "of PreTrainedModel": ("times_bare", "{0[median]:.2f} ({0[q1]:.2f} to {0[q3]:.2f})"),
    "seconds": ("seconds", "{0[median]:.4g}"),
    "tokens/s": ("tokens_per_second", "{0[median]:,.0f}"),
    "rows/s": ("rows_per_second", "{0[median]:,.0f}"),
    "sentences/s": ("sentences_per_second", "{0[median]:,.1f}"),
    "of greedy a hypothesis": ("times_greedy_per_hypothesis", "{0[median]:.2f}"),
    "of ceiling": ("share_of_ceiling", "{0[median]:.0%}"),
    "MiB": ("peak_mib", "{:,.0f}"),
    "logits differ by": ("logit_difference", "{:.1g}"),
}


def table(part: str, result: Result) -> Iterator[str]:
    """Yield the lines of a table: the facts of a result, then a row for each settings."""
    facts = (f"{name} {value}" for name, value in result.items() if name != "settings")
    yield f"{part}: {', '.join(facts)}"
    rows = result["settings"]
    columns = [
        (title, key, form)
        for title, (key, form) in COLUMNS.items()
        if any(key in row for row in rows.values())
    ]
    width = max(26, *map(len, rows))
    yield " " * (width + 2) + "".join(f"{title:>24}" for title, _, _ in columns)
    for name, row in rows.items():
        cells = (form.format(row[key]) if key in row else "" for _, key, form in columns)
        yield f"  {name:<{width}}" + "".join(f"{cell:>24}" for cell in cells)


def exponents(results: Results) -> dict[str, dict[str, float]]:
    """Return the power of the size by which time and memory of each settings grow."""
    growth = {}
    for part in GROWING:
        for name, (sizes, rows) in _by_settings(results, part).items():
            if len(sizes) > 1:
                seconds = [row["seconds"]["median"] for row in rows]
                peaks = [row["peak_mib"] for row in rows]
                growth[name] = {
                    "seconds": exponent(sizes, seconds),
                    "peak_mib": exponent(sizes, peaks),
                }
    return growth


def _by_settings(results: Results, part: str) -> dict[str, tuple[list[int], list[Result]]]:
    """Return for each settings of a part the sizes that it ran, and its results."""
    found: dict[str, tuple[list[int], list[Result]]] = {}
    for result in results.get(part, []):
        for name, row in result["settings"].items():
            sizes, rows = found.setdefault(name, ([], []))
            sizes.append(result[GROWING[part].size])
            rows.append(row)
    return found


def record(results: Results, flags: Namespace, seconds: float) -> dict[str, Any]:
    """Return the record of a run that took this number of seconds."""
    config = SelfAttentiveConfig(**fields_of(flags))
    with torch.device("meta"):
        num_parameters = SelfAttentiveForSequenceClassification(config).num_parameters()
    measured = measured_record(
        name="benchmark",
        metrics={},  # all are under `benchmark`
        split="random token ids",
        sources={name: {"file": "scripts/benchmarking/texts.py"} for name in flags.workloads},
        seed=flags.seed,
        arguments={k: v for k, v in vars(flags).items() if k not in ("record", "plot")},
        config=config,
        num_parameters=num_parameters,
        wall_seconds=seconds,
    )
    ways = (*TRAINING, *LENGTHS, *INFERENCE, *ON_ONNX_RUNTIME)
    return {
        **measured,
        "benchmark": results,
        "settings": {way.name: asdict(way) for way in ways},
        "exponents": exponents(results),
    }


def plot(results: Results, path: Path) -> None:
    """Draw time and peak memory of a part of `GROWING` on logarithmic axes."""
    from matplotlib.figure import Figure

    part = next(part for part in GROWING if part in results)
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = [result[GROWING[part].size] for result in results[part]]
    for name, (x, rows) in _by_settings(results, part).items():
        left.loglog(x, [row["seconds"]["median"] for row in rows], marker="o", label=name)
        right.loglog(x, [row["peak_mib"] for row in rows], marker="o", label=name)
    least, most = right.dataLim.intervaly
    if most < 4 * least:  # which a logarithmic axis would make look like much
        right.set_yscale("linear")
        right.set_ylim(bottom=0)
    left.set_ylabel(GROWING[part].seconds)
    right.set_ylabel("peak memory in MiB")
    for axes in (left, right):
        axes.set_xlabel(GROWING[part].axis)
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.set_xticks([], minor=True)  # their labels would overlap with those of the sizes
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    save_figure(figure, path)
