"""Measure speed and memory beside a plain implementation.

    python scripts/lab/benchmark.py --record model_cards/records/benchmark.json

takes hours, because the plain implementation is slow on documents; --quick takes a few minutes.

    training    training steps, and those of encoder and attention alone
    lengths     time and memory of encoder and attention against the length of the texts
    inference   the forward pass, also with bfloat16 weights
    embedding   short texts to vectors
    start       imports, help texts, a first label and a first page
    commands    embed.py and train.py on a file of --rows rows
    why         explanations of models with more and more labels

All that is compared runs in turn on the same texts, and a ratio is the median of the ratios of all
rounds. The plain implementation (bench/models.py) has the same weights; logits and gradients are
compared first. Memory on a CPU is measured by /proc, which only Linux has.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.models import MODELS
from bench.parts import PARTS, Result
from bench.texts import WORKLOADS

from sase_hf.evaluation.records import describe_environment, write_record
from sase_hf.utils.cli import errors_in_one_line, make_parser
from sase_hf.utils.files import check_output

QUICK: dict[str, Any] = {
    "workloads": ["tweets"],
    "models": ["mlp2000"],
    "lengths": [100, 200],
    "max_batches": 2,
    "num_texts": 200,
    "rows": 200,
    "rounds": 3,
    "seconds": 5.0,
}

Results = dict[str, list[Result]]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure the chosen parts, print tables and write the record."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    every, models, parts = list(WORKLOADS), list(MODELS), list(PARTS)
    lengths = [250, 500, 1000, 2000, 4000]
    beyond = "of texts, in tokens; beyond 4,000 without the plain implementation"
    add("--quick", action="store_true", help="measure less of everything")
    add("--only", nargs="+", choices=parts, default=parts, help="parts to measure (default: all)")
    add("--workloads", nargs="+", choices=every, default=every, help="the lengths of texts")
    add("--models", nargs="+", choices=models, default=models, help="of training and inference")
    add("--lengths", nargs="+", type=int, default=lengths, help=beyond)
    add("--num_texts", type=int, default=10_000, help="number of texts to embed")
    add("--rows", type=int, default=10_000, help="of the file that commands read")
    add("--rounds", type=int, default=7, help="rounds of each comparison")
    add("--seconds", type=float, default=60.0, help="no round begins after this time")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where everything runs")
    add("--threads", type=int, default=1, help="CPU threads")
    add("--seed", type=int, default=0, help="seed of weights and texts")
    add("--fields", type=json.loads, default={}, help="other sizes as JSON: '{\"num_hops\": 10}'")
    add("--record", type=Path, help="JSON file for the results, with settings and hardware")
    parser.set_defaults(max_batches=8)  # in a training pass
    flags = parser.parse_args(argv)
    if flags.quick:
        parser.set_defaults(**QUICK)
        flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        if flags.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("--device is cuda, but torch sees no GPU; use --device cpu")
        check_output(flags.record)
        torch.set_num_threads(flags.threads)
        arguments = {name: value for name, value in vars(flags).items() if name != "record"}
        run = {"name": "benchmark", "seed": flags.seed, "arguments": arguments}
        results: Results = {}
        for part in flags.only:
            for result in PARTS[part](flags):
                results.setdefault(part, []).append(result)
                print(*table(part, result), "", sep="\n", flush=True)
            if flags.record:  # a later part that fails loses no result
                run["benchmark"] = results
                run["exponents"] = exponents(results)
                write_record({**run, **describe_environment()}, flags.record)
        for name, powers in exponents(results).items():
            rounded = {cost: round(power, 2) for cost, power in powers.items()}
            print(f"{name}: cost grows as length **", rounded)


def table(part: str, result: Result) -> Iterator[str]:
    """Yield the lines of a table: the facts of a result, then a row for each settings."""
    facts = (f"{name} {value}" for name, value in result.items() if name != "settings")
    yield f"{part}: {', '.join(facts)}"
    for name, row in result["settings"].items():
        cells = (f"{key} {_shown(value)}" for key, value in row.items())
        yield f"  {name:<42}" + "   ".join(cells)


def _shown(value: dict[str, float] | float) -> str:
    if isinstance(value, dict):
        median, low, high = (_shown(value[name]) for name in ("median", "q1", "q3"))
        return f"{median} ({low} to {high})"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def exponents(results: Results) -> dict[str, dict[str, float]]:
    """Return the power of the length by which time and memory grow: 1 is linear, 2 quadratic."""
    costs: dict[str, list[tuple[float, ...]]] = {}
    for result in results.get("lengths", []):
        for name, row in result["settings"].items():
            cost = (result["longest"], row["seconds"]["median"], row["peak_mib"])
            costs.setdefault(name, []).append(cost)
    growth: dict[str, dict[str, float]] = {}
    for name, points in costs.items():
        if len(points) > 1:
            logarithms = np.log(points)
            seconds, memory = np.polyfit(logarithms[:, 0], logarithms[:, 1:], 1)[0].tolist()
            growth[name] = {"seconds": seconds, "peak_mib": memory}
    return growth


if __name__ == "__main__":
    main()
