"""Is attention an explanation? Deletion and insertion curves of a checkpoint, as numbers.

    python scripts/faithfulness.py runs/yelp5 --file data/yelp5.dev.jsonl.gz --max_samples 500
        --record model_cards/records/yelp5_faithfulness.json --plot faithfulness.svg

Removes the most attended words of each text step by step and follows the probability of the
predicted class; then inserts them into an empty text. Compared with random order and Integrated
Gradients. The latter need `pip install 'sase_hf[captum]'`; --integrated_gradients_steps 0 leaves
them out. `--plot` needs `pip install 'sase_hf[viz]'`.

In seconds, on the model that scripts/quickstart.py left:

    python scripts/faithfulness.py runs/quickstart/model --max_samples 100
        --file runs/quickstart/corpus/reviews.test.jsonl
"""

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sase_hf.evaluation.dataset import add_dataset_flags, load_evaluation_dataset
from sase_hf.evaluation.faithfulness import MEASURES, measure_faithfulness
from sase_hf.evaluation.records import write_record
from sase_hf.utils.cli import errors_in_one_line, given_flags, make_parser
from sase_hf.utils.files import check_output
from sase_hf.visualization import check_figure_path, curves_figure, save_figure


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table, and write record and plot."""
    parser = make_parser(__doc__)
    parser.add_argument("checkpoint", help="a folder or a name on the Hub")
    add_dataset_flags(parser)
    add = parser.add_argument
    steps = "--integrated_gradients_steps"
    add(steps, type=int, default=16, help="of the integral; 0 for none (default: 16)")
    add("--random_orders", type=int, default=3, help="of each text, averaged (default: 3)")
    add("--record", type=Path, help="file for the JSON record of the measurement")
    add("--plot", type=Path, help="file for the curves, .png or .svg")
    flags = parser.parse_args(argv)
    with errors_in_one_line(__file__):
        check_output(flags.record)
        check_output(flags.plot)
        if flags.plot is not None:
            check_figure_path(flags.plot)
        record = measure(flags, given_flags(parser, flags))
        if flags.record is not None:
            write_record(record, flags.record)
        if flags.plot is not None:
            save_figure(curves_figure(record["curves"]), flags.plot)
    print(*table(record), sep="\n")


def measure(flags: argparse.Namespace, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of the measurement."""
    dataset = load_evaluation_dataset(flags.checkpoint, flags)
    start = time.perf_counter()
    results = measure_faithfulness(
        dataset,
        integrated_gradients_steps=flags.integrated_gradients_steps,
        random_orders=flags.random_orders,
        batch_size=flags.per_device_eval_batch_size,
        seed=flags.seed,
    )
    record = dataset.record(
        name=f"{Path(flags.checkpoint).name} faithfulness",
        checkpoint=flags.checkpoint,
        metrics=results.pop("metrics"),
        flags=flags,
        arguments=arguments,
        wall_seconds=time.perf_counter() - start,
    )
    if flags.integrated_gradients_steps:
        record["versions"]["captum"] = version("captum")
    return record | results


def table(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each attribution and each difference, a column for each measure."""

    def line(name: str, cells: Iterable[str]) -> str:
        return f"{name.replace('_', ' '):<48}" + "".join(f"{cell:>24}" for cell in cells)

    [source] = record["sources"].values()
    headings = (measure.replace("_area", " AUC") for measure in MEASURES)
    yield line(f"means over {source['rows']:,} texts", headings)
    for name in record["curves"]["deletion"]:
        yield line(name, (f"{record['metrics'][f'{name}_{m}']:.3f}" for m in MEASURES))
    for name, difference in record["differences"].items():
        means = (difference[measure] for measure in MEASURES)
        yield line(name, (f"{d['mean']:+.3f} [{d['low']:+.3f}, {d['high']:+.3f}]" for d in means))


if __name__ == "__main__":
    main()
