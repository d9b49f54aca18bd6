"""The runs of a study: a recipe and a seed each, where their files are, and how they train."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from sase_hf import SelfAttentiveConfig
from sase_hf.evaluation.privacy import redact
from sase_hf.evaluation.records import write_record
from sase_hf.models import FAMILIES
from sase_hf.training.arguments import changed_arguments
from sase_hf.training.checkpoints import list_checkpoints, newest_complete_checkpoint
from sase_hf.training.command_line import LABELS, parse_arguments
from sase_hf.training.run import move_label_smoothing

from .measurements import measure

SCRIPTS = Path(__file__).resolve().parents[1]
RECIPES = SCRIPTS / "recipes" / "study"


class Kind(NamedTuple):
    """What differs between a study of labels and one of translation.

    `groups` are the dataclasses of arguments of `script`; `result` words the metrics of a record;
    `measure` takes the command line, the folder of a trained model and a file of words or None, and
    returns what the record says beside its metrics.
    """

    script: str
    groups: tuple[type[Any], ...]
    result: Callable[[Mapping[str, Any]], str]
    measure: Callable[[Sequence[str], Path, Path | None], Mapping[str, Any]]


LABEL_STUDY = Kind(
    "train.py", LABELS, lambda metrics: f"accuracy {metrics['accuracy']:.2%}", measure
)

# Settings that do not change the result: a record with other values of these is still valid.
WITHOUT_EFFECT = {
    "bf16",  # what the machine is fast in; accuracy is about the same in both precisions
    "disable_tqdm",
    "logging_first_step",
    "logging_steps",
    "logging_strategy",
    "record",
    "report_to",
    "resume_from_checkpoint",
    "save_total_limit",
}


@dataclass(frozen=True)
class Run:
    """A recipe, trained with a seed that replaces its own.

    `runs` is the folder for models and logs of the study, `records` that of its records, and
    `recipes` the one that recipes are named after.
    """

    recipe: Path
    seed: int
    runs: Path
    records: Path
    recipes: Path = RECIPES
    kind: Kind = LABEL_STUDY

    @property
    def name(self) -> str:
        """Recipe and seed, such as yelp5/cnn_max-seed42."""
        recipe = self.recipe.resolve().relative_to(self.recipes).with_suffix("")
        return f"{recipe.as_posix()}-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """The folder of checkpoints, of the trained model and of the record by train.py."""
        return self.runs / self.name

    @property
    def settings(self) -> Path:
        """The settings of the checkpoints in `folder`."""
        return self.runs / f"{self.name}.settings.json"

    @property
    def record(self) -> Path:
        """The complete record."""
        return self.records / f"{self.name}.json"

    @property
    def words(self) -> list[str]:
        """The command line of scripts/train.py."""
        output = [f"--output_dir={self.folder}", f"--record={self.folder / 'record.json'}"]
        return [str(self.recipe), f"--seed={self.seed}", *output, "--disable_tqdm=true"]


class State(NamedTuple):
    """How far a run is: done, unfinished, missing, or changed (the record has other settings)."""

    kind: str
    detail: str = ""

    def __str__(self) -> str:
        """Return the state in a few words."""
        return f"{self.kind}, {self.detail}" if self.detail else self.kind


def collect_runs(
    paths: Sequence[Path],
    seeds: Sequence[int],
    runs: Path,
    records: Path,
    recipes: Path = RECIPES,
    kind: Kind = LABEL_STUDY,
) -> list[Run]:
    """Return the runs of recipes and folders: all with the first seed, then with the second.

    Raises:
        ValueError: If a folder contains no recipe, or a recipe lies outside of `recipes`.
    """
    found: dict[Path, None] = {}
    for path in paths:
        files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"folder {path} contains no recipe; recipes of a study end in .yaml")
        found.update(dict.fromkeys(files))
    for recipe in found:
        if not recipe.resolve().is_relative_to(recipes):
            raise ValueError(f"recipe {recipe} is not in {recipes}, whose recipes name the records")
    return [Run(recipe, seed, runs, records, recipes, kind) for seed in seeds for recipe in found]


def settings_of(run: Run) -> dict[str, Any]:
    """Return the settings that decide the result of a run, as a record holds them."""
    try:
        model_args, data_args, training_args = parse_arguments(run.words, groups=run.kind.groups)
    except SystemExit as error:  # argparse has named the flag, but not the recipe
        raise ValueError(f"recipe {run.recipe}: a value has the wrong type") from error
    move_label_smoothing(model_args, training_args)
    return _deciding(changed_arguments(model_args, data_args, training_args))


def state_of(run: Run) -> State:
    """Return how far a run is; raise ValueError or OSError if its recipe cannot be read."""
    settings = settings_of(run)
    state = State("missing")
    if run.record.is_file():
        record = json.loads(run.record.read_text(encoding="utf-8"))
        recorded = recorded_settings(record, settings)
        names = sorted(recorded.keys() | settings.keys())
        today = vars(_config_class(record)())
        wanted = {name: today[name] for name in names if name in today} | settings
        changed = [name for name in names if recorded.get(name) != wanted.get(name)]
        if not changed:
            return State("done", run.kind.result(record["metrics"]))
        state = State("changed", ", ".join(changed))
    if run.settings.is_file() and json.loads(run.settings.read_text("utf-8")) == settings:
        try:
            return State("unfinished", newest_complete_checkpoint(run.folder).name)
        except FileNotFoundError:
            return state
    return state


def train(run: Run, word_list: Path | None = None) -> bool:
    """Train a run by its script unless it has a record; return whether it has one now."""
    state = state_of(run)
    if state.kind != "done":
        with _locked_log(run) as log:
            if not _train(run, log, word_list):
                return False
        state = state_of(run)
    for checkpoint in list_checkpoints(run.folder):  # a kill may have left them beside a record
        shutil.rmtree(checkpoint, ignore_errors=True)
    print(f"{run.name}: {state}", flush=True)
    return True


@contextmanager
def _locked_log(run: Run) -> Iterator[IO[bytes]]:
    """Open the log of a run when no other process trains it.

    The script that trains shares the lock with its log, and outlives a kill of this process.
    """
    path = run.runs / f"{run.name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{run.name}: waits for the process that trains it; see {path}", flush=True)
            fcntl.flock(log, fcntl.LOCK_EX)
        yield log


def _train(run: Run, log: IO[bytes], word_list: Path | None) -> bool:
    state = state_of(run)
    if state.kind == "done":  # by the process that held the lock
        return True
    print(f"{run.name}: {state}", flush=True)
    command = [sys.executable, str(SCRIPTS / run.kind.script), *run.words]
    if state.kind == "unfinished":
        command.append("--resume_from_checkpoint=true")
    else:
        shutil.rmtree(run.folder, ignore_errors=True)
        write_record(settings_of(run), run.settings)
    trained = run.folder / "record.json"  # the last file of the script
    if not trained.is_file():
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        ended = subprocess.run(command, stdout=log, stderr=log, env=environment, check=False)
        if ended.returncode != 0:
            print(f"{run.name}: failed with status {ended.returncode}; see {log.name}", flush=True)
            return False
    record = json.loads(trained.read_text(encoding="utf-8"))
    write_record(record | run.kind.measure(run.words, run.folder, word_list), run.record)
    return True


def recorded_settings(record: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the settings that a record holds, and those among the names that it left at a default.

    The default of that time may be another today; the config of the record knows it.
    """
    config = _config_class(record).from_dict(dict(record["config"]))
    defaults = {name: getattr(config, name) for name in names if hasattr(config, name)}
    arguments = _deciding(record["arguments"])
    if arguments.pop("relation_gate", False):  # the name in older records
        arguments["relation_weights"] = "sigmoid"
    return defaults | arguments


def _deciding(arguments: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in arguments.items() if name not in WITHOUT_EFFECT}
    deciding: dict[str, Any] = redact(kept)
    return deciding


def _config_class(record: Mapping[str, Any]) -> Any:
    return FAMILIES[record["config"].get("model_type", SelfAttentiveConfig.model_type)].config
