"""Repeat the experiments of the paper: train what has no record yet, and make tables of records.

    python scripts/study.py run scripts/recipes/study --detach
    python scripts/study.py status scripts/recipes/study
    python scripts/study.py render

`run` trains each recipe, with every seed, as scripts/train.py does, and leaves a record of it. Give
the command again after any stop: what a record answers is skipped, what was begun goes on from its
last checkpoint, and a record of other settings than the recipe's is made anew. `render` makes
model_cards/EXPERIMENTS.md and the figure beside it, from the records alone; the figure needs
`pip install 'sase_hf[viz]'`.

A recipe has its name from its place in scripts/recipes/study: the record of yelp5/cnn_max.yaml with
the seed 42 is model_cards/records/study/yelp5/cnn_max-seed42.json. Two kinds of records are
put below that folder by hand and have tables of their own: those of trials with scripts/train.py in
tuning/TASK, and the trials.json of a search with scripts/search.py as search/TASK/MODEL.json.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from datasets import disable_progress_bars
from studying.execution import run_all
from studying.rendering import render
from studying.runs import collect_runs, state_of
from transformers.utils.logging import disable_progress_bar

LOG_NAME = "study.log"


def main(argv: Sequence[str] | None = None) -> None:
    """Do what the command line asks for.

    Args:
        argv: The words after the script's name; by default those of this process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    flags = build_parser().parse_args(words)
    try:
        if flags.command == "render":
            for path in render(flags.records, flags.output):
                print(path)
            return
        runs = collect_runs(flags.recipes, flags.seeds, flags.runs, flags.records)
        if flags.command == "status":
            width = max(len(run.name) for run in runs)
            for run in runs:
                print(f"{run.name:{width}}  {state_of(run)}")
            return
        if flags.detach:
            for run in runs:
                state_of(run)  # a slip in a recipe is told here, not in a log
            process = detach([word for word in words if word != "--detach"], flags.runs)
            print(f"pid {process.pid}, log {flags.runs / LOG_NAME}")
            return
        torch.set_num_threads(1)  # the processes that train have the other cores
        disable_progress_bars()
        disable_progress_bar()  # type: ignore[no-untyped-call]
        failed = run_all(runs, flags.jobs)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"study.py: {error}")
    except KeyboardInterrupt:
        sys.exit("study.py: stopped; the same command goes on")
    if failed:
        sys.exit(f"study.py: {len(failed)} of {len(runs)} runs failed: {', '.join(failed)}")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train what has no record", allow_abbrev=False)
    status = commands.add_parser("status", help="say how far each run is", allow_abbrev=False)
    rendering = commands.add_parser("render", help="make tables and figure", allow_abbrev=False)
    for command in (run, status):
        add = command.add_argument
        add("recipes", nargs="+", type=Path, help="recipes, or folders of them")
        add("--seeds", nargs="+", type=int, default=[42], help="of each recipe (default: 42)")
        add("--runs", type=Path, default=Path("runs/study"), help="folder for models and logs")
    for command in (run, status, rendering):
        records = Path("model_cards/records/study")
        command.add_argument("--records", type=Path, default=records, help="folder of the records")
    run.add_argument("--jobs", type=positive, default=1, help="how many to train at a time")
    run.add_argument("--detach", action="store_true", help="go on in the background")
    output = Path("model_cards/EXPERIMENTS.md")
    rendering.add_argument("--output", type=Path, default=output, help="the page of tables")
    return parser


def positive(text: str) -> int:
    """Read a number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number, 1 or more")
    return int(text)


def detach(words: Sequence[str], runs: Path) -> "subprocess.Popen[bytes]":
    """Start this script in a session of its own, which outlives the terminal.

    Args:
        words: Its command line.
        runs: The folder for its log.

    Returns:
        The process.
    """
    runs.mkdir(parents=True, exist_ok=True)
    with (runs / LOG_NAME).open("ab") as log:
        return subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


if __name__ == "__main__":
    main()
