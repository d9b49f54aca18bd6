"""Make a task of a command line, which may begin with a recipe, or of what a program gives."""

import argparse
import logging
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from datasets import Dataset
from transformers import HfArgumentParser

from ..evaluation.metrics import LOWER_IS_BETTER, METRICS, SCORE
from ..utils.cli import add_common_flags, flag_words, with_recipe
from ..utils.text import refusal
from .settings import BY_TOKENS, LABELS, OWN_VECTORS, TRANSLATION, RunArguments, Settings
from .task import Task, TrainingSetup

logger = logging.getLogger(__name__)

TaskT = TypeVar("TaskT", bound=Task)
GROUPS: Any = (Settings, RunArguments)
KINDS = {entry.name: str(entry.type) for group in GROUPS for entry in fields(group)}  # of flags


def parse_arguments(
    task: type[TaskT], argv: Sequence[str] | None = None, description: str | None = None
) -> TaskT:
    """Return a task with the arguments of a command line, which may begin with a recipe file.

    By default it is that of this process. `--help_all` begins with the `description`. Raises
    ValueError for unknown flags and contradictions, SystemExit for a value of another kind.
    """
    words = with_recipe(sys.argv[1:] if argv is None else argv)
    given, unknown = _parser(description).parse_known_args(words)
    if unknown:
        raise refusal(
            f"there is no flag for {unknown[0]!r}",
            "a recipe comes first, every value belongs to a --flag, and --help_all lists all flags",
        )
    return make_task(task, vars(given))


def make_task(
    task: type[TaskT],
    given: Mapping[str, Any],
    in_memory: Mapping[str, Dataset] = MappingProxyType({}),
) -> TaskT:
    """Return a task with the given arguments, by the names of flags, and those that follow.

    The splits `in_memory` are rows of the program. Raises ValueError for names and values that no
    flag has, and for contradictions.
    """
    values = {"task": task.names[0]}
    for name, value in given.items():
        values[name] = _plain(value, takes_several="list" in KINDS.get(name, ""))
    chosen = implied(values, in_memory)
    values = {**chosen, **values}
    if values["task"] not in task.names:
        raise refusal(f"--task is {values['task']!r}", f"here it is {' or '.join(task.names)}")
    settings, args = HfArgumentParser(GROUPS).parse_dict(values)
    [chooser, *_] = settings.metric_name or METRICS
    if args.metric_for_best_model == SCORE and chooser not in {*METRICS, *LOWER_IS_BETTER}:
        raise refusal(
            f"the best epoch is that of the first --metric_name, and {chooser} may be better high "
            "or low",
            f"put one of {', '.join(METRICS)} before it",
        )
    shown = {name: value for name, value in chosen.items() if name not in given}
    if shown:
        logger.info(f"chosen: {' '.join(flag_words(shown))}")
    return task(settings, args, values, in_memory)


def _plain(value: Any, takes_several: bool) -> Any:
    """Return a value as that of a flag, which may take several: no paths, no types of numpy."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item, takes_several=False) for item in value]
    if isinstance(value, str | os.PathLike):
        value = os.fspath(value)
        return [value] if takes_several else value
    return value


def _parser(description: str | None) -> HfArgumentParser:
    """Return a parser whose results hold only what is given."""
    parser = HfArgumentParser(
        GROUPS,
        usage="%(prog)s [RECIPE] [--flag value ...]",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_common_flags(parser)
    for action in parser._actions:
        if action.default not in (None, False, "", [], argparse.SUPPRESS):
            action.help = f"{action.help} (default: {action.default})"
        action.default = argparse.SUPPRESS
    return parser


# ---- the settings that follow from the given ones, and why they have these values ----------------


STEPS = ("do_train", "do_eval", "do_predict")

# Each query of a batch is compared with all its documents; 80 sentences are those of the paper.
ROWS_OF_UPDATE = {"retrieval": 64, "translation": 80}
# Updates after which a new model has learnt; the epochs follow from them. Word vectors hold before
# training what other models must learn: on 6,000 rows the model was best when the learning rate
# fell to 0 within three epochs, with vectors of its own texts four.
NUM_UPDATES = 1500
NUM_UPDATES_WITH_OWN = 850
NUM_UPDATES_WITH_FILES = 650
MOST_EPOCHS = 30  # on few rows early stopping ends earlier
LEAST_EPOCHS = 2  # on large sets a third epoch overfits

# That of a new model would destroy the pretrained weights.
RATE_OF_PRETRAINED = 5e-5

FOLDER_SUFFIX = {"retrieval": "-ranker", "translation": "-translator"}

OF_TRAINING = {
    "do_train": True,
    "num_train_epochs": 0,  # 2 to 30, fewer for more rows
    "learning_rate": 0,  # `rate_for`
    "train_sampling_strategy": "group_by_length",
    "warmup_steps": 0.05,
    "save_total_limit": 1,
}

# Train on all but a tenth of the rows, stop when those get no better, keep the best epoch.
HELD_OUT = {
    "do_eval": True,
    "validation_fraction": 0.1,
    "eval_strategy": "epoch",
    "load_best_model_at_end": True,
    "metric_for_best_model": SCORE,
    "early_stopping_patience": 3,
}

# The paper's sizes, 40 million weights, are for millions of pairs; these are for thousands.
NEW_TRANSLATION = {
    "subwords": True,
    "vocab_size": 6000,
    "embedding_size": 256,
    "hidden_size": 256,
    "attention_size": 256,
    "maxout_size": 128,
    "dropout": 0.3,
    "initializer_range": 0.05,
    "learning_rate": 1.5e-3,
    "label_smoothing": 0.1,
    "metric_for_best_model": "loss",  # BLEU is 0 for the first epochs
}


def implied(given: Mapping[str, Any], in_memory: Collection[str] = ()) -> dict[str, Any]:
    """Return the settings that follow from the given ones, by the names of flags.

    The splits `in_memory` are rows of a program, and count as if files of them were given.
    """
    given = {**dict.fromkeys((f"{split}_file" for split in in_memory), "rows"), **given}
    task = given["task"]
    chosen: dict[str, Any] = {}
    if task in ROWS_OF_UPDATE:
        chosen["per_device_train_batch_size"] = ROWS_OF_UPDATE[task]
    if task in TRANSLATION:
        chosen["bf16"] = False  # the steps of a recurrence are too small to gain on a processor
    if not any(given.get(step) for step in STEPS):
        chosen |= of_command(given)
    if given.get("save_steps") is not None:
        chosen["save_strategy"] = "steps"
        if chosen.get("load_best_model_at_end"):
            chosen |= {"eval_strategy": "steps", "eval_steps": given["save_steps"]}
    if not given.get("output_dir"):
        chosen |= _output_dir({**chosen, **given})
    return chosen


def of_command(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a command that names no step, by its rows and its model."""
    task = given["task"]
    has_own_split = bool(given.get("validation_file") or given.get("dataset_name"))
    has_held_out = has_own_split or given.get("validation_fraction") != 0
    chosen: dict[str, Any] = {}
    if given.get("test_file"):
        chosen["do_predict"] = True
    if not (given.get("train_file") or given.get("dataset_name")):
        return chosen | ({"do_eval": True} if has_own_split else {})
    chosen |= OF_TRAINING
    if task in LABELS and (has_held_out or not given.get("encoder_name_or_path")):
        chosen["calibrate"] = True
    if has_held_out:
        chosen |= HELD_OUT
    if has_held_out and task in LABELS:
        chosen["report"] = True
    if not given.get("model_name_or_path"):
        chosen |= of_new_model(given)
    return chosen


def of_new_model(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a command that builds a model."""
    if given["task"] in TRANSLATION:
        return NEW_TRANSLATION
    chosen: dict[str, Any] = {}
    has_labels = given["task"] in LABELS
    if has_labels:
        chosen["matching"] = "concat"  # gates, the paper's, are three points behind
    if given.get("encoder_name_or_path"):
        chosen["embedding_dropout"] = 0.0
    elif has_labels and not given.get("tokenizer_name"):
        chosen["min_frequency"] = BY_TOKENS
    return chosen


def _output_dir(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the folder that a run is named by its rows and, if nothing is trained, its model."""
    rows = [
        Path(str(given[name]).removesuffix(".gz")).stem
        for name in ("train_file", "dataset_name", "validation_file", "test_file")
        if given.get(name)
    ]
    if not rows:
        return {}
    if given.get("do_train"):
        return {"output_dir": f"runs/{rows[0]}{FOLDER_SUFFIX.get(given['task'], '')}"}
    return {"output_dir": f"runs/{Path(given.get('model_name_or_path') or '').name}-{rows[0]}"}


def rate_for(task: Task, setup: TrainingSetup) -> float:
    """Return the learning rate that is given, or that of what learns."""
    given: float = task.args.learning_rate
    if given != 0:
        return given
    is_pretrained = getattr(setup.model.config, "encoder", None) == "auto_model"
    is_tuned = is_pretrained and not setup.model.config.freeze_embeddings
    return RATE_OF_PRETRAINED if is_tuned else RunArguments.learning_rate


def epochs_for(task: Task, setup: TrainingSetup) -> float:
    """Return the epochs that are given, or those that the rows decide."""
    given = task.args.num_train_epochs
    if given != 0:
        return given
    updates = NUM_UPDATES
    if vectors := task.first_vectors(setup):
        updates = NUM_UPDATES_WITH_OWN if vectors == [OWN_VECTORS] else NUM_UPDATES_WITH_FILES
    epochs = round(updates * task.args.rows_per_update / setup.tokens["train"].num_rows)
    return min(max(epochs, LEAST_EPOCHS), MOST_EPOCHS)
