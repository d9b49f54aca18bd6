"""Repeat the experiments: train variants without a record, and measure rivals.

    python scripts/lab/study.py run --seeds 42 43 44
    python scripts/lab/study.py run "scripts/lab/recipes/yelp5.yaml#cnn_max"
    python scripts/lab/study.py status
    python scripts/lab/study.py leaderboard data --sets sst2 trec --systems tfidf fasttext
    python scripts/lab/study.py render

`run` trains each variant of each recipe with each seed, and `leaderboard` measures each system on
each set of a folder; both write a record. After a stop, give the same command again: it skips runs
whose record holds, resumes unfinished trainings of `run` from their newest checkpoint, and repeats
runs whose settings have changed since. `render` makes the cards of model_cards from their records,
and prints the table of README from those of the leaderboard.

The record of the variant cnn_max in yelp5.yaml with seed 42 is the line yelp5/cnn_max-seed42 of
model_cards/records/study.jsonl; translation.yaml and retrieval.yaml have files of their own. A
record names the commit whose programs wrote it; some of them are no longer here.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import IO, Any

import torch
import yaml
from leaderboard import SETS, SYSTEMS, collect_comparisons, table_of_readme
from records import CARDS, RECORDS, Record, read_record, read_records
from runner import LAB, SCRIPTS, Run, call, complete, state_of
from variants import read_variant

from sase_hf.hub import model_card
from sase_hf.models import FAMILIES
from sase_hf.tasks import TASKS
from sase_hf.training.command_line import parse_arguments
from sase_hf.utils.cli import errors_in_one_line, make_parser
from sase_hf.utils.errors import refusal
from sase_hf.utils.files import write_text
from sase_hf.utils.recipes import flag_words

OWN_FILES = ("translation", "retrieval")  # recipes whose records have a file of their own


@dataclass(frozen=True)
class Training(Run):
    """A variant of a recipe, trained with a seed that replaces its own."""

    task: str

    @property
    def words(self) -> list[str]:
        """The command line of the script."""
        output = [f"--output_dir={self.folder}", f"--record={self.folder / 'record.json'}"]
        own = flag_words({**self.settings, "task": self.task, "seed": self.seed})
        return [*own, *output, "--disable_tqdm=true"]

    def check(self) -> None:
        """Raise ValueError if the recipe cannot be read."""
        parse_arguments(TASKS[self.task], self.words)

    def measure(self, log: IO[bytes]) -> Record:
        """Train, or go on from the newest checkpoint."""
        words = [str(SCRIPTS / "train.py"), *self.words]
        if state_of(self).startswith("unfinished"):
            words.append("--resume_from_checkpoint=true")
        else:
            self.start_over()
        trained = self.folder / "record.json"  # the last file of the script
        if not trained.is_file():
            call(words, log)
        return read_record(trained)


def collect_runs(flags: argparse.Namespace) -> Iterator[Training]:
    """Yield the runs of `flags.recipes`: all with the first seed, then with the second.

    Raises:
        ValueError: If a folder contains no recipe, or a recipe has no variants.
    """
    addresses = dict.fromkeys(chain(*map(_addresses, flags.recipes)))
    for seed, address in product(flags.seeds, addresses):
        file, _, variant = address.partition("#")
        stem, settings = Path(file).stem, read_variant(address)
        task = settings.pop("task", "labels")  # which the name of the record tells, too
        name, records = f"{stem}/{variant}", flags.records / "study.jsonl"
        if stem in OWN_FILES:
            name, records = variant, flags.records / f"{stem}.jsonl"
        yield Training(f"{name}-seed{seed}", seed, settings, records, flags.runs, task)


def _addresses(path: str) -> Iterator[str]:
    """Yield FILE#VARIANT for each variant of a recipe, or of all recipes in a folder."""
    files = [path]
    if Path(path).is_dir():
        files = sorted(map(str, Path(path).glob("*.yaml")))
    if not files:
        raise ValueError(f"folder {path} contains no recipe; recipes of a study end in .yaml")
    for file in files:
        if "#" in file:
            yield file
            continue
        content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        if "variants" not in content:
            raise refusal(
                f"recipe {file} has no variants", "a study needs them to name its records"
            )
        yield from (f"{file}#{variant}" for variant in content["variants"])


def render_card(source: Path) -> str:
    """Return the card of a YAML file with the facts that no record has, such as the licence.

    The `record`, FILE.json or FILE.jsonl#RUN, is relative to the folder.
    """
    about = yaml.safe_load(source.read_text(encoding="utf-8"))
    record = read_record(source.parent / about.pop("record"))
    family = FAMILIES[record["config"]["model_type"]]
    # Older records hold numbers that follow from others, too.
    names = record["config"].keys() & vars(family.config())
    return model_card(
        family.config.from_dict({name: record["config"][name] for name in names}),
        record,
        num_parameters=record["num_parameters"],
        name=about.pop("name"),
        repo_id=about.pop("checkpoint"),
        about=about,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command of the command line."""
    flags = build_parser().parse_args(argv)
    with errors_in_one_line(__file__, on_interrupt="stopped; the same command continues"):
        if flags.command == "render":
            for source in sorted(CARDS.glob("*.yaml")):
                write_text(flags.output / f"{source.stem}.md", render_card(source))
            print(table_of_readme(read_records(RECORDS / "leaderboard.jsonl")))
        elif flags.command == "leaderboard":
            torch.set_num_threads(1)  # as in the processes, and so in the records
            complete(list(collect_comparisons(flags)))
        elif flags.command == "status":
            runs = list(collect_runs(flags))
            width = max(len(run.name) for run in runs)
            hours = []
            for run in runs:
                state = state_of(run)
                print(f"{run.name:{width}}  {state}")
                if state.startswith("done"):
                    record = read_records(run.records)[run.name]
                    hours.append(record.get("wall_seconds", 0) / 3600)
            print(f"{len(hours)} of {len(runs)} runs done; they took {sum(hours):.1f} hours")
        else:
            runs = list(collect_runs(flags))
            for run in runs:  # an error in a recipe ends the study here
                if not state_of(run).startswith("done"):
                    run.check()
            complete(runs)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = make_parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    add_command = partial(commands.add_parser, allow_abbrev=False)
    run = add_command("run", help="train runs without a record")
    status = add_command("status", help="list the state of each run")
    leaderboard = add_command("leaderboard", help="measure systems without a record")
    rendering = add_command("render", help="make the cards, and print the table of README")
    named = "FILE#VARIANT, a file for all of its variants, or a folder (default: all recipes)"
    for command in (run, status):
        command.add_argument("recipes", nargs="*", default=[str(LAB / "recipes")], help=named)
    leaderboard.add_argument("data", type=Path, help="folder of the files")
    for flag, values in (("--sets", SETS), ("--systems", SYSTEMS)):
        shown: Any = {"default": [*values], "metavar": flag[2:-1].upper()}
        leaderboard.add_argument(flag, nargs="+", choices=values, help=", ".join(values), **shown)
    drawn = "numbers of rows drawn from each training file (default: all)"
    leaderboard.add_argument("--rows", nargs="+", type=int, help=drawn)
    for command, folder in ((run, "study"), (status, "study"), (leaderboard, "leaderboard")):
        add = command.add_argument
        add("--seeds", nargs="+", type=int, default=[42], help="of each run (default: 42)")
        add("--runs", type=Path, default=Path("runs", folder), help="folder for models and logs")
    for command in (run, status, leaderboard):
        files = "folder of the JSON Lines files"
        command.add_argument("--records", type=Path, default=RECORDS, help=files)
    rendering.add_argument("--output", type=Path, default=CARDS, help="folder of the cards")
    return parser


if __name__ == "__main__":
    main()
