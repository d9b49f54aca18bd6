"""Is attention an explanation? Deletion and insertion curves of a checkpoint, as numbers.

    python scripts/faithfulness.py runs/yelp5 --file data/yelp5.dev.jsonl.gz --max_samples 500
        --record model_cards/records/yelp5_faithfulness.json --plot faithfulness.svg

Takes the most attended words out of each text, step by step, and watches the probability of the
class that the whole text gets; then puts them back into an empty text. Random order and Integrated
Gradients are what attention is compared with. The latter need `pip install 'sase_hf[captum]'`, or
are left out by --integrated_gradients_steps 0; `--plot` needs `pip install 'sase_hf[viz]'`.

In seconds, on the model that scripts/quickstart.py left:

    python scripts/faithfulness.py runs/quickstart/model --max_samples 100
        --file runs/quickstart/corpus/reviews.test.jsonl
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sase_hf.evaluation.dataset import (
    add_sample_flags,
    check_output,
    describe_checkpoint,
    given_flags,
    read_sample,
    writing,
)
from sase_hf.evaluation.faithfulness import MEASURES, measure_faithfulness
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.visualization import check_figure_path, curves_figure, save_figure


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table, and write the record and the plot that are asked for.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    parser = build_parser()
    flags = parser.parse_args(argv)
    try:
        check_output(flags.record)
        check_output(flags.plot)
        if flags.plot is not None:
            check_figure_path(flags.plot)
        record = measure(flags, given_flags(parser, flags))
        if flags.record is not None:
            with writing(flags.record):
                write_record(record, flags.record)
        if flags.plot is not None:
            with writing(flags.plot):
                save_figure(curves_figure(record["curves"]), flags.plot)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"faithfulness.py: {error}")
    print(*table(record), sep="\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of this script's flags."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("checkpoint", help="a folder or a name on the Hub")
    add_sample_flags(parser)
    add = parser.add_argument
    add(
        "--integrated_gradients_steps",
        type=int,
        default=16,
        help="points of the integral; 0 leaves this ranking out (default: %(default)s)",
    )
    add(
        "--random_orders",
        type=int,
        default=3,
        help="orders drawn for each text and averaged (default: %(default)s)",
    )
    add("--record", type=Path, help="file for the JSON record of what was measured")
    add("--plot", type=Path, help="file for the curves, .png or .svg")
    return parser


def measure(flags: argparse.Namespace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of the measurement.

    Args:
        flags: What this script was told.
        arguments: Those of them that differ from their defaults.
    """
    sample = read_sample(flags.checkpoint, flags)
    start = time.perf_counter()
    results = measure_faithfulness(
        sample,
        integrated_gradients_steps=flags.integrated_gradients_steps,
        random_orders=flags.random_orders,
        batch_size=flags.per_device_eval_batch_size,
        seed=flags.seed,
    )
    record = measured_record(
        name=f"{Path(flags.checkpoint).name} faithfulness",
        metrics=results.pop("metrics"),
        split=flags.split,
        sources=sample.sources,
        seed=flags.seed,
        arguments=arguments,
        config=sample.model.config,
        num_parameters=sample.model.num_parameters(),
        wall_seconds=time.perf_counter() - start,
    )
    if flags.integrated_gradients_steps:
        record["versions"]["captum"] = version("captum")
    return {**record, "checkpoint": describe_checkpoint(flags.checkpoint), **results}


def table(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each ranking and each difference, a column for each measure."""
    rows = next(iter(record["sources"].values()))["rows"]
    yield f"{'means over ' + format(rows, ',') + ' texts':<48}" + "".join(
        f"{measure.replace('_', ' '):>24}" for measure in MEASURES
    )
    for ranking in record["curves"]["deletion"]:
        values = (record["metrics"][f"{ranking}_{measure}"] for measure in MEASURES)
        yield f"{ranking.replace('_', ' '):<48}" + "".join(f"{value:>24.3f}" for value in values)
    for name, difference in record["differences"].items():
        cells = (difference[measure] for measure in MEASURES)
        yield f"{name.replace('_', ' '):<48}" + "".join(
            f"{cell['mean']:>+8.3f} [{cell['low']:+.3f}, {cell['high']:+.3f}]".rjust(24)
            for cell in cells
        )


if __name__ == "__main__":
    main()
