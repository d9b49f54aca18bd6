"""Repeat the experiments of the paper: train what has no record, and make tables of the records.

    python scripts/study.py run scripts/recipes/study --seeds 42 43 44
    python scripts/study.py status scripts/recipes/study --seeds 42 43 44
    python scripts/study.py render

`run` trains each recipe with each seed by scripts/train.py and writes a record. After a stop, give
the same command again: it skips runs with a record, resumes an unfinished run from its newest
checkpoint, and repeats runs whose recipe has changed since. `--detach` runs it in the background.
`render` makes model_cards/EXPERIMENTS.md, and the figures beside it, from its records and those of
scripts/leaderboard.py alone; the figures need `pip install 'sase_hf[viz]'`.

The record of the recipe yelp5/cnn_max.yaml in scripts/recipes/study with seed 42 is
model_cards/records/study/yelp5/cnn_max-seed42.json. Two other kinds of records are put into that
folder by hand: those of trials with scripts/train.py as tuning/TASK/TRIAL.json, and the trials.json
of a search with scripts/search.py as search/TASK/MODEL.json.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from studying.runs import LABEL_STUDY, RECIPES, Kind, collect_runs, state_of, train
from studying.tables import LEADERBOARD, PAGE, render
from studying.tables import STUDY as RECORDS

from sase_hf.utils.cli import errors_in_one_line, make_parser


@dataclass(frozen=True)
class Study:
    """A study: its script with that script's docstring, its runs, and what is made of them."""

    script: str
    description: str | None
    kind: Kind
    recipes: Path  # the folder that the names of runs start in
    render: Callable[[argparse.Namespace], list[Path]]
    runs: Path
    records: Path
    output: Path


STUDY = Study(
    __file__,
    __doc__,
    LABEL_STUDY,
    RECIPES,
    lambda flags: render(flags.records, flags.leaderboard_records, flags.output),
    Path("runs/study"),
    RECORDS,
    PAGE,
)


def main(argv: Sequence[str] | None = None, study: Study = STUDY) -> None:
    """Do what the command line, by default that of this process, asks for."""
    words = list(sys.argv[1:] if argv is None else argv)
    flags = build_parser(study).parse_args(words)
    with errors_in_one_line(study.script, on_interrupt="stopped; the same command continues"):
        if flags.command == "render":
            print(*study.render(flags), sep="\n")
            return
        folders = (flags.runs, flags.records, study.recipes)
        runs = collect_runs(flags.recipes, flags.seeds, *folders, study.kind)
        states = [state_of(run) for run in runs]  # an error in a recipe ends the study here
        if flags.command == "status":
            width = max(len(run.name) for run in runs)
            for run, state in zip(runs, states, strict=True):
                print(f"{run.name:{width}}  {state}")
            return
        if flags.detach:
            flags.runs.mkdir(parents=True, exist_ok=True)
            with (flags.runs / "study.log").open("ab") as log:
                command = [sys.executable, study.script, *words]
                command.remove("--detach")
                # A session of its own outlives the terminal.
                process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
            print(f"pid {process.pid}, log {log.name}")
            return
        failed = [run.name for run in runs if not train(run, flags.word_list)]
        if failed:
            script = Path(study.script).name
            sys.exit(f"{script}: {len(failed)} of {len(runs)} runs failed: {', '.join(failed)}")


def build_parser(study: Study) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = make_parser(study.description)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train what has no record", allow_abbrev=False)
    status = commands.add_parser("status", help="list the state of each run", allow_abbrev=False)
    rendering = commands.add_parser("render", help="make tables and figures", allow_abbrev=False)
    for command in (run, status):
        add = command.add_argument
        add("recipes", nargs="+", type=Path, help="recipes, or folders of recipes")
        add("--seeds", nargs="+", type=int, default=[42], help="seeds of each recipe (default: 42)")
        add("--runs", type=Path, default=study.runs, help="folder for models and logs")
    for command in (run, status, rendering):
        records = study.records
        command.add_argument("--records", type=Path, default=records, help="folder of the records")
    lift = "file with a word on each line, up to a tab; records the attention on them as lift"
    run.add_argument("--word_list", type=Path, help=lift)
    run.add_argument("--detach", action="store_true", help="run in the background")
    if study.kind is LABEL_STUDY:
        others = "folder of the leaderboard's records"
        rendering.add_argument("--leaderboard_records", type=Path, default=LEADERBOARD, help=others)
    rendering.add_argument("--output", type=Path, default=study.output, help="the page of tables")
    return parser


if __name__ == "__main__":
    main()
