"""The runs of a study: a recipe and a seed each, where their files lie and how far they are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transformers.trainer import TRAINER_STATE_NAME

from sase_hf.evaluation.privacy import redact
from sase_hf.training.arguments import changed_arguments
from sase_hf.training.checkpoints import newest_complete_checkpoint
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.run import move_label_smoothing

RECIPES = Path(__file__).resolve().parents[1] / "recipes" / "study"

# Settings that may change without another result: a record of other ones answers the same recipe.
WITHOUT_EFFECT = frozenset(
    (
        "disable_tqdm",
        "logging_first_step",
        "logging_steps",
        "logging_strategy",
        "record",
        "report_to",
        "resume_from_checkpoint",
        "save_total_limit",
    )
)

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """A recipe, trained with one seed.

    Attributes:
        recipe: The file.
        seed: The seed, which wins over that of the recipe.
        runs: The folder for models and logs of the study.
        records: The folder for its records.
    """

    recipe: Path
    seed: int
    runs: Path
    records: Path

    @property
    def name(self) -> str:
        """Recipe and seed, such as yelp5/cnn_max-seed42."""
        recipe = self.recipe.resolve().relative_to(RECIPES).with_suffix("")
        return f"{recipe.as_posix()}-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """The folder of its checkpoints and of the model that comes out."""
        return self.runs / self.name

    @property
    def log(self) -> Path:
        """What the training prints."""
        return self.runs / f"{self.name}.log"

    @property
    def begun_with(self) -> Path:
        """The settings of what lies in `folder`."""
        return self.runs / f"{self.name}.settings.json"

    @property
    def draft(self) -> Path:
        """The record as the training leaves it."""
        return self.folder / "record.json"

    @property
    def record(self) -> Path:
        """The record when it is complete."""
        return self.records / f"{self.name}.json"

    @property
    def words(self) -> list[str]:
        """What follows `scripts/train.py` on its command line."""
        flags = {"seed": self.seed, "output_dir": self.folder, "record": self.draft}
        named = [f"--{name}={value}" for name, value in flags.items()]
        return [str(self.recipe), *named, "--disable_tqdm=true"]


@dataclass(frozen=True)
class State:
    """How far a run is.

    Attributes:
        kind: Whether its record answers it, is one of other settings, or is not there; in the last
            two cases `in progress` if its folder holds a part of the training.
        accuracy: If it is done, the share of the validation rows that it got right.
        epoch: If it is in progress, how much of the training its newest complete checkpoint holds;
            None if there is no such checkpoint, or no longer at the moment of the look.
        changes: If it is stale, what differs.
    """

    kind: Literal["done", "stale", "in progress", "missing"]
    accuracy: float | None = None
    epoch: float | None = None
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the state in a few words."""
        if self.kind == "done":
            accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy:.2%}"
            return f"done{accuracy}"
        if self.kind == "in progress":
            return f"in progress, {'no epoch' if self.epoch is None else f'epoch {self.epoch:g}'}"
        if self.kind == "stale":
            return f"stale: {'; '.join(self.changes)}"
        return self.kind


def collect_runs(
    paths: Sequence[Path], seeds: Sequence[int], runs: Path, records: Path
) -> list[Run]:
    """Return the runs of some recipes, all recipes with the first seed first.

    Args:
        paths: Recipes, or folders, which stand for every .yaml file below them.
        seeds: The seeds of each recipe.
        runs: The folder for models and logs.
        records: The folder for records.

    Raises:
        FileNotFoundError: If a path is not there.
        ValueError: If a folder holds no recipe, or one lies outside of `RECIPES`.
    """
    recipes: list[Path] = []
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no recipe or folder {path}")
        found = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
        if not found:
            raise ValueError(f"folder {path} holds no recipe; those of a study end in .yaml")
        recipes += found
    for recipe in recipes:
        if not recipe.resolve().is_relative_to(RECIPES):
            raise ValueError(
                f"recipe {recipe} has no name in the study: its place in scripts/recipes/study "
                "would give it one. Put it there, or train it with scripts/train.py"
            )
    return [
        Run(recipe, seed, runs, records)
        for seed in dict.fromkeys(seeds)
        for recipe in dict.fromkeys(recipes)
    ]


def settings_of(run: Run) -> dict[str, Any]:
    """Return the settings that decide the result of a run, as a record holds them.

    Raises:
        ValueError: If the recipe cannot be read.
        FileNotFoundError: If its base is not there.
    """
    try:
        model_args, data_args, training_args = parse_arguments(run.words)
    except SystemExit as error:  # argparse has said which flag, but not where
        raise ValueError(f"recipe {run.recipe}: a value is not of its flag's kind") from error
    move_label_smoothing(model_args, training_args)
    return _deciding(changed_arguments(model_args, data_args, training_args))


def state_of(run: Run) -> State:
    """Return how far a run is.

    Raises:
        ValueError: If its recipe or its record cannot be read.
        FileNotFoundError: If a base of the recipe is not there.
    """
    settings = settings_of(run)
    record = _read(run.record)
    changes: tuple[str, ...] = ()
    if record is not None:
        changes = tuple(_changes(_deciding(record["arguments"]), settings))
        if not changes:
            return State("done", accuracy=record["metrics"].get("accuracy"))
    if run.folder.is_dir() and _read(run.begun_with) == settings:
        return State("in progress", epoch=_epoch_reached(run.folder))
    return State("stale", changes=changes) if changes else State("missing")


def _epoch_reached(folder: Path) -> float | None:
    try:
        state = newest_complete_checkpoint(folder) / TRAINER_STATE_NAME
        return float(json.loads(state.read_text(encoding="utf-8"))["epoch"])
    except FileNotFoundError:  # there is none, or its run has just replaced it
        return None


def _deciding(arguments: Settings) -> dict[str, Any]:
    kept = {name: value for name, value in arguments.items() if name not in WITHOUT_EFFECT}
    deciding: dict[str, Any] = redact(kept)
    return deciding


def _changes(recorded: Settings, settings: Settings) -> list[str]:
    """Say which settings differ from those of a record."""
    default = "its default"
    return [
        f"{name} was {recorded.get(name, default)} and is {settings.get(name, default)}"
        for name in sorted(recorded.keys() | settings.keys())
        if recorded.get(name, default) != settings.get(name, default)
    ]


def _read(path: Path) -> Any:
    """Return what a JSON file holds, or None if it is not there."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}. Delete it to run it again") from error


__all__ = ["RECIPES", "Run", "State", "collect_runs", "settings_of", "state_of"]
