"""The results as tables, as a plot and as a record."""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification
from sase_hf.evaluation.records import measured_record
from sase_hf.visualization import save_figure

from .models import INFERENCE, LENGTHS, TRAINING
from .parts import Result, fields_of

Results = dict[str, list[Result]]
COSTS = {"seconds": "seconds for forward and backward pass", "peak_mib": "peak memory in MiB"}


def table(part: str, result: Result) -> Iterator[str]:
    """Yield the lines of a table: the facts of a result, then a row for each settings."""
    facts = (f"{name} {value}" for name, value in result.items() if name != "settings")
    yield f"{part}: {', '.join(facts)}"
    for name, row in result["settings"].items():
        cells = (f"{key} {_shown(value)}" for key, value in row.items())
        yield f"  {name:<42}" + "   ".join(cells)


def _shown(value: dict[str, float] | float) -> str:
    if isinstance(value, dict):
        return f"{_shown(value['median'])} ({_shown(value['q1'])} to {_shown(value['q3'])})"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def exponents(results: Results) -> dict[str, dict[str, float]]:
    """Return the power of the length by which time and memory grow: 1 is linear, 2 quadratic."""
    growth: dict[str, dict[str, float]] = {}
    for name, costs in _costs_of_lengths(results).items():
        if len(costs["longest"]) > 1:
            x, y = np.log(costs["longest"]), np.log([costs[cost] for cost in COSTS]).T
            growth[name] = dict(zip(COSTS, np.polyfit(x, y, 1)[0].tolist(), strict=True))
    return growth


def _costs_of_lengths(results: Results) -> dict[str, dict[str, list[float]]]:
    """Return for each settings its lengths, and the seconds and memory of each."""
    found: dict[str, dict[str, list[float]]] = {}
    for result in results.get("lengths", []):
        for name, row in result["settings"].items():
            costs = found.setdefault(name, {"longest": [], "seconds": [], "peak_mib": []})
            cost = (result["longest"], row["seconds"]["median"], row["peak_mib"])
            for own, value in zip(costs.values(), cost, strict=True):
                own.append(value)
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
        sources={name: {"file": "scripts/lab/bench/texts.py"} for name in flags.workloads},
        seed=flags.seed,
        arguments={k: v for k, v in vars(flags).items() if k not in ("record", "plot")},
        config=config,
        num_parameters=num_parameters,
        wall_seconds=seconds,
    )
    ways = {way.name: asdict(way) for way in TRAINING + LENGTHS + INFERENCE}
    return measured | {"benchmark": results, "settings": ways, "exponents": exponents(results)}


def plot(results: Results, path: Path) -> None:
    """Draw time and peak memory against the length of texts on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    lengths = [result["longest"] for result in results["lengths"]]
    for axes, (cost, label) in zip(figure.subplots(1, 2), COSTS.items(), strict=True):
        for name, costs in _costs_of_lengths(results).items():
            axes.loglog(costs["longest"], costs[cost], marker="o", label=name)
        axes.set(xlabel="tokens of the longest text", ylabel=label)
        axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axes.set_xticks([], minor=True)  # their labels would overlap with those of the lengths
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    save_figure(figure, path)
