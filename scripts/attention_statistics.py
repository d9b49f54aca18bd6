"""How sharply do the hops attend, and how much alike? Entropy and overlap over the texts of a file.

    python scripts/attention_statistics.py runs/penalty runs/no_penalty --file dev.jsonl
        --output attention.json --plot attention.png

Several checkpoints, such as one trained with --penalty_coef 1 and one with --penalty_coef 0, are
compared. Entropy is divided by log T, the entropy of equal attention on all T words: 0 is one word,
1 is all words alike. The overlap of a hop is the mean product of its weights with those of each
other hop. `--plot` needs `pip install 'sase_hf[viz]'`.

In seconds, on the model that scripts/quickstart.py left:

    python scripts/attention_statistics.py runs/quickstart/model
        --file runs/quickstart/corpus/reviews.test.jsonl
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sase_hf.evaluation.attention import measure_attention
from sase_hf.evaluation.dataset import add_dataset_flags, load_evaluation_dataset
from sase_hf.evaluation.records import write_record
from sase_hf.utils.cli import errors_in_one_line, given_flags, make_parser
from sase_hf.utils.files import check_output
from sase_hf.utils.loading import name_checkpoints
from sase_hf.visualization import check_figure_path, save_figure, statistics_figure

KINDS = ("entropy", "overlap")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table, and write numbers and plot."""
    parser = build_parser()
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.output)
        check_output(flags.plot)
        if flags.plot is not None:
            check_figure_path(flags.plot)
        named = name_checkpoints(flags.checkpoints, flags.names)
        # All are loaded before the first is measured, so that a bad last one costs nothing.
        datasets = {
            name: load_evaluation_dataset(checkpoint, flags) for name, checkpoint in named.items()
        }
        records = {}
        for name, dataset in datasets.items():
            start = time.perf_counter()
            statistics = measure_attention(dataset, flags.per_device_eval_batch_size)
            record = dataset.record(
                name=name,
                checkpoint=named[name],
                metrics={kind: statistics[kind]["mean"] for kind in KINDS},
                flags=flags,
                arguments=given_flags(parser, flags),
                wall_seconds=time.perf_counter() - start,
            )
            records[name] = record | statistics
        if flags.output is not None:
            write_record(records, flags.output)
        if flags.plot is not None:
            save_figure(statistics_figure(records), flags.plot)
    print(*table(records), sep="\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of this script's flags."""
    parser = make_parser(__doc__)
    parser.add_argument("checkpoints", nargs="+", help="folders or names on the Hub")
    add_dataset_flags(parser)
    add = parser.add_argument
    add("--names", nargs="+", help="names of the checkpoints; by default their last part")
    add("--output", type=Path, help="file for the numbers, .json")
    add("--plot", type=Path, help="file for the distributions, .png or .svg")
    return parser


def table(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each hop of each checkpoint: means, and the middle half of the texts."""
    for name, record in records.items():
        yield f"{name}, {record['num_texts']:,} texts"
        yield f"{'hop':>5}" + "".join(f"{kind:>26}" for kind in KINDS)
        hops = zip(*(record[kind]["hops"] for kind in KINDS), strict=True)
        for number, cells in enumerate(hops, start=1):
            yield f"{number:>5}" + "".join(
                f"{cell['mean']:.3f} [{cell['p25']:.3f}, {cell['p75']:.3f}]".rjust(26)
                for cell in cells
            )


if __name__ == "__main__":
    main()
