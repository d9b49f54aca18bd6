"""Measure speed and memory, compared with a plain implementation and with the machine's ceiling.

    python scripts/benchmark.py --record model_cards/records/benchmark.json

takes hours, because the plain implementation is slow on documents. A first look takes a
few minutes:

    python scripts/benchmark.py --quick

Where there is a GPU, `--device cuda` measures everything there, and one epoch of SNLI's size.

Everything that is compared runs in turn on the same texts, and every ratio is the median of the
ratios of all rounds, because other work on the machine slows all that runs in a round. The plain
implementation (scripts/benchmarking/plain.py) has copies of the same weights; before anything is
timed, logits and gradients are compared. The ceiling is a large matrix product in the same
precision, timed in the same rounds.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from benchmarking.cases import PARTS
from benchmarking.models import MODELS
from benchmarking.report import Results, exponents, plot, record, table
from benchmarking.texts import WORKLOADS

from sase_hf.evaluation.records import write_record
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int
from sase_hf.utils.files import check_output
from sase_hf.visualization import check_figure_path

# What --quick replaces. `product_size` is the number of rows of the matrices whose product is the
# ceiling, `max_batches` that of batches in a training pass.
QUICK = {
    "workloads": ["tweets"],
    "models": ["mlp2000"],
    "lengths": [100, 200],
    "num_texts": 200,
    "rows": [200, 400],
    "pairs": 200,
    "rounds": 3,
    "seconds": 5.0,
    "product_size": 1024,
    "max_batches": 2,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what the command line asks for, print tables and write record and plot."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    every, models, lengths = list(WORKLOADS), list(MODELS), [250, 500, 1000, 2000, 4000]
    add("--quick", action="store_true", help="measure less of everything")
    most = "the parts to measure; by default all, epoch with --device cuda alone"
    add("--only", nargs="+", choices=PARTS, help=most)
    add("--workloads", nargs="+", choices=every, default=every, help="the lengths of texts")
    add("--models", nargs="+", choices=models, default=models, help="of training and inference")
    add(
        "--lengths",
        nargs="+",
        type=positive_int,
        default=lengths,
        help="of texts, in tokens; beyond 4,000 without the plain implementation",
    )
    add(
        "--num_texts",
        type=positive_int,
        default=10_000,
        help="number of texts to embed, or to rank",
    )
    rows = [10_000, 100_000, 1_000_000]
    add("--rows", nargs="+", type=positive_int, default=rows, help="of the files of corpora")
    add("--pairs", type=positive_int, default=549_367, help="of the part epoch, by default SNLI's")
    add("--rounds", type=positive_int, default=7, help="rounds of each comparison")
    add("--seconds", type=float, default=60.0, help="no round begins after this time")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where everything runs")
    add("--threads", type=positive_int, default=1, help="CPU threads")
    add("--seed", type=int, default=0, help="seed of weights and texts")
    add("--fields", type=json.loads, default={}, help="other sizes as JSON: '{\"num_hops\": 10}'")
    add("--record", type=Path, help="JSON file for the results, with settings and hardware")
    add("--plot", type=Path, help="plot of the cost of lengths, or of corpora: .svg or .png")
    parser.set_defaults(product_size=4096, max_batches=8)
    flags = parser.parse_args(argv)
    if flags.quick:
        parser.set_defaults(**QUICK)
        flags = parser.parse_args(argv)
    flags.only = flags.only or [p for p in PARTS if p != "epoch" or flags.device == "cuda"]
    with errors_in_one_line(__file__):
        if flags.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("--device is cuda, but torch sees no GPU; use --device cpu")
        if flags.plot:
            sizes = {"lengths": flags.lengths, "corpora": flags.rows}
            shown = [part for part in sizes if part in flags.only]
            if len(shown) != 1 or len(sizes[shown[0]]) < 2:
                raise ValueError(
                    "--plot shows one part, lengths or corpora; measure it alone by --only, with "
                    "two --lengths or --rows at least"
                )
            check_figure_path(flags.plot)
        check_output(flags.record)
        check_output(flags.plot)
        torch.set_num_threads(flags.threads)
        started = time.perf_counter()
        results: Results = {}
        try:
            for part in flags.only:
                for result in PARTS[part](flags):
                    results.setdefault(part, []).append(result)
                    print(*table(part, result), "", sep="\n", flush=True)
                if flags.record:  # what is measured is not lost if a later part fails
                    write_record(
                        record(results, flags, time.perf_counter() - started), flags.record
                    )
        except RuntimeError as error:
            parser.exit(1, f"benchmark.py: {error}\n")
        for name, growth in exponents(results).items():
            print(f"{name}: time grows as size ** {growth['seconds']:.2f}, ", end="")
            print(f"memory as size ** {growth['peak_mib']:.2f}")
        if flags.record:
            print(f"record  {flags.record}")
        if flags.plot:
            plot(results, flags.plot)
            print(f"plot    {flags.plot}")


if __name__ == "__main__":
    main()
