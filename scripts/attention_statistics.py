"""How sharply do the hops attend, and how much alike? Entropy and overlap over the texts of a file.

    python scripts/attention_statistics.py runs/penalty runs/no_penalty --file dev.jsonl
        --output attention.json --plot attention.png

Several checkpoints, such as one trained with --penalty_coef 1 and one with --penalty_coef 0, stand
side by side. Entropy is a share of log T, the entropy of equal attention on all T words, so 0 is
one word and 1 is all alike. The overlap of a hop is the mean product of its weights with those of
each other hop. `--plot` needs `pip install 'sase_hf[viz]'`.

In seconds, on the model that scripts/quickstart.py left:

    python scripts/attention_statistics.py runs/quickstart/model
        --file runs/quickstart/corpus/reviews.test.jsonl
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sase_hf.evaluation.attention import measure_attention
from sase_hf.evaluation.dataset import (
    Sample,
    add_sample_flags,
    check_output,
    describe_checkpoint,
    given_flags,
    read_sample,
    writing,
)
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.utils.loading import name_checkpoints
from sase_hf.visualization import check_figure_path, save_figure, statistics_figure

KINDS = ("entropy", "overlap")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table, and write the numbers and the plot that are asked for.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    parser = build_parser()
    flags = parser.parse_args(argv)
    arguments = given_flags(parser, flags)
    try:
        check_output(flags.output)
        check_output(flags.plot)
        if flags.plot is not None:
            check_figure_path(flags.plot)
        named = name_checkpoints(flags.checkpoints, flags.names)
        # All are read before the first is measured, so that a slip in the last one costs nothing.
        samples = {name: read_sample(checkpoint, flags) for name, checkpoint in named.items()}
        records = {
            name: measure(name, named[name], sample, flags, arguments)
            for name, sample in samples.items()
        }
        if flags.output is not None:
            with writing(flags.output):
                write_record(records, flags.output)
        if flags.plot is not None:
            with writing(flags.plot):
                save_figure(statistics_figure(records), flags.plot)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"attention_statistics.py: {error}")
    print(*table(records), sep="\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of this script's flags."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("checkpoints", nargs="+", help="folders or names on the Hub")
    add_sample_flags(parser)
    add = parser.add_argument
    add("--names", nargs="+", help="what the checkpoints are called; by default their last part")
    add("--output", type=Path, help="file for the numbers, .json")
    add("--plot", type=Path, help="file for the distributions, .png or .svg")
    return parser


def measure(
    name: str,
    checkpoint: str,
    sample: Sample,
    flags: argparse.Namespace,
    arguments: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the record of one checkpoint.

    Args:
        name: What it is called.
        checkpoint: A folder or a name on the Hub.
        sample: Its model and rows.
        flags: What this script was told.
        arguments: Those of them that differ from their defaults.
    """
    start = time.perf_counter()
    statistics = measure_attention(sample, flags.per_device_eval_batch_size)
    record = measured_record(
        name=name,
        metrics={kind: statistics[kind]["mean"] for kind in KINDS},
        split=flags.split,
        sources=sample.sources,
        seed=flags.seed,
        arguments=arguments,
        config=sample.model.config,
        num_parameters=sample.model.num_parameters(),
        wall_seconds=time.perf_counter() - start,
    )
    return {**record, "checkpoint": describe_checkpoint(checkpoint), **statistics}


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
