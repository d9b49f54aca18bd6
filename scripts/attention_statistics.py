"""How many words do the hops read, how much alike are they, and do they read the words of a list?

    python scripts/attention_statistics.py runs/penalty runs/no_penalty --file dev.jsonl
        --word_list opinion_words.tsv --output attention.json --plot attention.png

Several checkpoints, such as one trained with --penalty_coef 1 and one with --penalty_coef 0, are
compared. Entropy is divided by log T, the entropy of equal attention on all T words: 0 is one word,
1 is all words alike; the effective words are exp of the entropy. The cosine of a hop is the mean
cosine between its weights and those of each other hop: 1 for hops that read the same. The lift is
the attention on the words of the list over their share of the tokens. `--plot` needs
`pip install 'sase_hf[viz]'`.

In seconds, on the model that scripts/quickstart.py left:

    python scripts/attention_statistics.py runs/quickstart/model
        --file runs/quickstart/corpus/reviews.test.jsonl
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sase_hf.evaluation.attention import DISTRIBUTIONS, measure_attention, read_word_list
from sase_hf.evaluation.dataset import add_dataset_flags, load_evaluation_dataset
from sase_hf.evaluation.records import write_record
from sase_hf.utils.cli import errors_in_one_line, given_flags, make_parser
from sase_hf.utils.files import check_output
from sase_hf.utils.loading import name_checkpoints
from sase_hf.visualization import check_figure_path, save_figure, statistics_figure

KINDS = (*DISTRIBUTIONS, "lift")


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
        words = read_word_list(flags.word_list) if flags.word_list is not None else ()
        # All are loaded before the first is measured, so that a bad last one costs nothing.
        datasets = {
            name: load_evaluation_dataset(checkpoint, flags) for name, checkpoint in named.items()
        }
        records = {}
        for name, dataset in datasets.items():
            start = time.perf_counter()
            statistics = measure_attention(dataset, flags.per_device_eval_batch_size, words)
            record = dataset.record(
                name=name,
                checkpoint=named[name],
                metrics={kind: statistics[kind]["mean"] for kind in KINDS if kind in statistics},
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
    add("--word_list", type=Path, help="file with a word on each line, up to a tab; for the lift")
    add("--output", type=Path, help="file for the numbers, .json")
    add("--plot", type=Path, help="file for the distributions, .png or .svg")
    return parser


def table(records: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each hop of each checkpoint: means, and the middle half of the texts."""
    for name, record in records.items():
        kinds = [kind for kind in KINDS if kind in record]
        yield f"{name}, {record['num_texts']:,} texts"
        yield f"{'hop':>5}" + "".join(f"{kind.replace('_', ' '):>28}" for kind in kinds)
        for number in range(len(record["entropy"]["hops"])):
            cells = (record[kind]["hops"][number] for kind in kinds)
            yield f"{number + 1:>5}" + "".join(map(_cell, cells))
        means = (f"{record[kind]['mean']:.3f}" for kind in kinds)
        yield " mean" + "".join(f"{mean:>28}" for mean in means)


def _cell(numbers: Mapping[str, float]) -> str:
    middle = f" [{numbers['p25']:.3f}, {numbers['p75']:.3f}]" if "p25" in numbers else ""
    return f"{numbers['mean']:.3f}{middle}".rjust(28)


if __name__ == "__main__":
    main()
