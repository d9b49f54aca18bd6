"""What was measured, as tables, as a plot and as a record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from sase_hf import SelfAttentiveForSequenceClassification
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.utils.files import FilePath

from .comparison import Options, Result
from .settings import CLASSIFIERS, ENCODER, INFERENCE, LENGTHS, ON_CUDA, OPTIMISERS, WHOLE
from .timing import exponent

Results = dict[str, list[Result]]

NO_MATPLOTLIB = (
    "the plot needs matplotlib, which is not installed; pip install 'sase_hf[viz]', or leave the "
    "plot out"
)

# Column -> where its value stands in a result, and how it is written.
COLUMNS = {
    "times as fast": ("speedup", "{median:.2f} ({q1:.2f} to {q3:.2f})"),
    "of forward": ("times_forward", "{median:.2f} ({q1:.2f} to {q3:.2f})"),
    "seconds": ("seconds", "{median:.4g}"),
    "tokens/s": ("tokens_per_second", "{median:,.0f}"),
    "of ceiling": ("share_of_ceiling", "{median:.0%}"),
    "per second": ("per_second", "{median:.4g}"),
    "MiB": ("peak_mib", "{:,.0f}"),
    "padded by": ("padding_factor", "{:.2f}"),
    "logits differ by": ("logit_difference", "{:.1g}"),
}


def table(part: str, result: Result) -> Iterator[str]:
    """Yield the lines of a table.

    Args:
        part: The part of the benchmark.
        result: One of its results.
    """
    facts = (f"{name} {_fact(value)}" for name, value in result.items() if name != "settings")
    yield f"{part}: {', '.join(facts)}"
    rows = result["settings"]
    columns = {
        title: where
        for title, where in COLUMNS.items()
        if any(row.get(where[0]) is not None for row in rows.values())
    }
    width = max(map(len, rows))
    cells = {name: [_cell(row, *where) for where in columns.values()] for name, row in rows.items()}
    widths = [
        max(len(title), *(len(row[column]) for row in cells.values()))
        for column, title in enumerate(columns)
    ]
    yield "  ".join(["", f"{'':{width}}", *_right(columns, widths)])
    for name, row in cells.items():
        yield "  ".join(["", f"{name:{width}}", *_right(row, widths)])


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['median']:.4g}"
    return f"{value:,}" if isinstance(value, int | float) else str(value or "none")


def _cell(row: Mapping[str, Any], key: str, form: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    return form.format(**value) if isinstance(value, dict) else form.format(value)


def _right(cells: Sequence[str] | Mapping[str, Any], widths: Sequence[int]) -> Iterator[str]:
    return (f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def exponents(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Return how time and memory of each settings grow with length: 1 is in proportion.

    Args:
        results: Those of the part `lengths`; empty if there are fewer than two.
    """
    if len(results) < 2:
        return {}
    sizes = [result["longest"] for result in results]
    rows = {name: [result["settings"][name] for result in results] for name in names_in(results)}
    return {
        name: {
            "seconds": exponent(sizes, [row["seconds"]["median"] for row in settings]),
            "peak_mib": exponent(sizes, [row["peak_mib"] for row in settings]),
        }
        for name, settings in rows.items()
    }


def names_in(results: Sequence[Result]) -> list[str]:
    """Return the names of the settings that were compared."""
    return list(results[0]["settings"])


def record(
    results: Results, options: Options, arguments: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Return the record of a run.

    Args:
        results: Of every part.
        options: The options of the run.
        arguments: Its settings.
        seconds: How long it took.
    """
    config = options.config(CLASSIFIERS["mlp2000"])
    with torch.device("meta"):
        parameters = SelfAttentiveForSequenceClassification(config).parameters()
    made_by = {"file": "scripts/benchmarking/workloads.py"}
    metrics = {
        f"{part}/{'/'.join(labels_of(result))}/{name}": row["speedup"]["median"]
        for part, entries in results.items()
        for result in entries
        for name, row in result["settings"].items()
        if "speedup" in row
    }
    measured = measured_record(
        name="benchmark",
        metrics=metrics,
        split="random token ids",
        sources=dict.fromkeys(options.workloads, made_by),
        seed=options.seed,
        arguments=arguments,
        config=config,
        num_parameters=sum(parameter.numel() for parameter in parameters),
        wall_seconds=seconds,
    )
    ways = (*ENCODER, *WHOLE, *LENGTHS, *INFERENCE, *OPTIMISERS, *ON_CUDA)
    return {
        **measured,
        "benchmark": results,
        "settings": {way.name: asdict(way) for way in ways},
        "exponents": exponents(results.get("lengths", [])),
    }


def labels_of(result: Result) -> list[str]:
    """Return what tells a result from the others of its part."""
    names = ("workload", "classifier", "longest", "batch_size")
    return [str(result[name]) for name in names if result.get(name) is not None]


def plot(results: Sequence[Result], path: FilePath) -> None:
    """Draw time and peak memory against length, both on logarithmic axes.

    Args:
        results: Those of the part `lengths`.
        path: The picture; its ending says which kind.

    Raises:
        ModuleNotFoundError: Without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as reason:
        raise ModuleNotFoundError(NO_MATPLOTLIB) from reason
    figure = Figure(figsize=(9, 4), layout="constrained")
    lengths = [result["longest"] for result in results]
    for axes, title, value in zip(
        figure.subplots(1, 2),
        ("seconds for forward and backward pass", "peak memory in MiB"),
        (lambda row: row["seconds"]["median"], lambda row: row["peak_mib"]),
        strict=True,
    ):
        for name in names_in(results):
            costs = [value(result["settings"][name]) for result in results]
            axes.loglog(lengths, costs, marker="o", label=name)
        axes.set(xlabel="tokens of the longest text", ylabel=title)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.set_xticks([], minor=True)  # their labels would lie over those of the lengths
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


__all__ = ["exponents", "plot", "record", "table", "write_record"]
