"""Compare this package with what people use instead, on the sets of a folder.

    python scripts/leaderboard.py run data
    python scripts/leaderboard.py run data --sets sst2 trec --systems tfidf fasttext
    python scripts/leaderboard.py render

The folder holds a set as NAME.train.jsonl.gz and NAME.dev.jsonl.gz with the fields `text` and
`label`, or `premise`, `hypothesis` and `label`. Accuracy is that on the dev file, which no system
sees in training: what a system chooses, it chooses on a tenth of the training file, and no system
trains on that tenth.

The systems: the most frequent label; TF-IDF of one and two words with logistic regression, whose
strength is chosen; fastText with pairs of words, whose epochs are chosen; and scripts/train.py with
no settings, with word vectors (vectors/ in the folder), and with these and max pooling. Of premise
and hypothesis, TF-IDF reads the hypothesis and the words that only one or both of them have;
fastText reads both, each word of the hypothesis with a mark: whether the premise has it.

Each runs in a process of its own on one thread. Its seconds of training are those of the processor
for the whole process, imports included, up to the saved model; its speed counts the seconds from
texts to probabilities. `run` skips what has a record; after a stop, give the same command again. To
measure a system anew, delete its record. It needs the extra `leaderboard`, and leaves out, with a
line that names them, the systems that are not installed.

`render` makes the table in model_cards/EXPERIMENTS.md and the plot leaderboard.svg beside it, and
what scripts/study.py draws there.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from comparing.runs import SETS, SYSTEMS, collect_runs, measure
from studying.tables import LEADERBOARD, PAGE, STUDY, render

from sase_hf.utils.cli import errors_in_one_line, make_parser


def main(argv: Sequence[str] | None = None) -> None:
    """Do what the command line asks for."""
    flags = build_parser().parse_args(argv)
    with errors_in_one_line(__file__, on_interrupt="stopped; the same command continues"):
        if flags.command == "render":
            print(*render(flags.study_records, flags.records, flags.output), sep="\n")
            return
        torch.set_num_threads(1)  # as in the processes, and so in the records
        runs = collect_runs(
            flags.sets, flags.systems, flags.seeds, flags.data, flags.runs, flags.records
        )
        failed = [run.name for run in runs if not measure(run)]
        if failed:
            sys.exit(f"leaderboard.py: {len(failed)} of {len(runs)} failed: {', '.join(failed)}")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = make_parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure what has no record", allow_abbrev=False)
    add = run.add_argument
    add("data", type=Path, help="folder of the files")
    add("--sets", nargs="+", choices=SETS, default=[*SETS], metavar="SET", help=", ".join(SETS))
    names = ", ".join(SYSTEMS)
    add("--systems", nargs="+", choices=SYSTEMS, default=[*SYSTEMS], metavar="SYSTEM", help=names)
    add("--seeds", nargs="+", type=int, default=[42], help="of systems that draw (default: 42)")
    add("--runs", type=Path, default=Path("runs/leaderboard"), help="folder for models and logs")
    rendering = commands.add_parser("render", help="make table and plot", allow_abbrev=False)
    for command in (run, rendering):
        command.add_argument(
            "--records", type=Path, default=LEADERBOARD, help="folder of the records"
        )
    rendering.add_argument(
        "--study_records", type=Path, default=STUDY, help="folder of the study's records"
    )
    rendering.add_argument("--output", type=Path, default=PAGE, help="the page of tables")
    return parser


if __name__ == "__main__":
    main()
