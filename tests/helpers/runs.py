"""Rows to train on, as a trainer takes them and as files, and the arguments of tiny runs."""

import json
import random
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import debug_launcher
from accelerate.state import AcceleratorState
from datasets import Dataset
from rows import write_jsonl
from safetensors.torch import load_file
from tiny import random_pairs, random_text, text_batch
from torch import Tensor
from transformers import EvalPrediction

from sase_hf.tasks import LabelTask
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.task import TrainingSetup
from sase_hf.utils.cli import flag_words

STARS = ("poor", "fine", "great")
RELATIONS = ("entailment", "neutral", "contradiction")
NUM_ROWS = 64
_SINGLE_LABEL = {"num_labels": 3, "problem_type": "single_label_classification"}
PROBLEMS = {
    "single_label": _SINGLE_LABEL,
    "ignored_rows": _SINGLE_LABEL,
    "multi_label": {"num_labels": 3, "problem_type": "multi_label_classification"},
    "regression": {"num_labels": 1, "problem_type": "regression"},
    "pairs": _SINGLE_LABEL,
}
SIZES = {"train": 48, "validation": 18, "test": 12}

_WORDS = "the a meal room was were and but not very service table cold warm slow quick".split()  # noqa: SIM905

TINY_MODEL = {
    "embedding_size": 6,
    "lstm_hidden_size": 4,
    "attention_size": 5,
    "num_hops": 3,
    "classifier_hidden_size": 7,
}
# In float32 the results of several processes are those of one to many digits.
QUIET = {"use_cpu": True, "bf16": False, "disable_tqdm": True, "report_to": "none"}


def make_rows(problem: str) -> Dataset:
    """Return 64 rows of unequal lengths, and labels that fall unevenly on parts of a batch."""
    rng = random.Random(1)
    rows: dict[str, list[Any]] = {}
    if problem in ("pairs", "retrieval"):
        pairs = random_pairs(rng, NUM_ROWS)
        rows["input_ids"] = [premise + hypothesis for premise, hypothesis in pairs]
        rows["token_type_ids"] = [[0] * len(p) + [1] * len(h) for p, h in pairs]
        marked = [3.0 * (len(ids) % 3 == 0) for ids in rows["input_ids"]]  # some rows, as a weight
        rows["rationale"] = [
            [weight * (token % 4 == 0) for token in ids]
            for weight, ids in zip(marked, rows["input_ids"], strict=True)
        ]
    else:
        rows["input_ids"] = [random_text(rng) for _ in range(NUM_ROWS)]
    if problem == "retrieval":
        return Dataset.from_dict(rows)
    rows["labels"] = []
    for row in range(NUM_ROWS):
        if problem == "multi_label":
            rows["labels"].append([float(rng.random() < 0.5) for _ in range(3)])
        elif problem == "regression":
            rows["labels"].append(rng.uniform(-1, 1))
        else:
            ignored = problem == "ignored_rows" and rng.random() < row / NUM_ROWS
            rows["labels"].append(-100 if ignored else rng.randrange(3))
    return Dataset.from_dict(rows)


def collate(rows: list[dict[str, Any]]) -> dict[str, Tensor]:
    batch = text_batch([row["input_ids"] for row in rows])
    for name in {"token_type_ids", "rationale"} & rows[0].keys():
        values = [torch.tensor(row[name]) for row in rows]
        batch[name] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    if "labels" in rows[0]:
        batch["labels"] = torch.tensor([row["labels"] for row in rows])
    return batch


def count_rows(prediction: EvalPrediction) -> dict[str, float]:
    return {"rows": len(prediction.predictions)}


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    return str(write_jsonl(path, rows))


def draw_text(rng: random.Random) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(2, 12)))


def review_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows whose label stands in the text, so that a model can learn it."""
    rng = random.Random(seed)
    labels = [STARS[row % len(STARS)] for row in range(count)]
    return [{"text": f"{draw_text(rng)} {label}", "label": label} for label in labels]


def pair_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    labels = [RELATIONS[row % len(RELATIONS)] for row in range(count)]
    sentences = [{"premise": draw_text(rng), "hypothesis": draw_text(rng)} for _ in labels]
    return [{**pair, "label": label} for pair, label in zip(sentences, labels, strict=True)]


def write_splits(folder: Path, make_rows: Any = review_rows) -> dict[str, str]:
    return {
        f"{split}_file": write_rows(folder / f"{split}.jsonl", make_rows(count, seed))
        for seed, (split, count) in enumerate(SIZES.items())
    }


def flags(**options: Any) -> list[str]:
    return flag_words(options)


def set_up(task_class: type[LabelTask] = LabelTask, **options: Any) -> TrainingSetup:
    return parse_arguments(task_class, flags(**{**TINY_MODEL, **options})).assemble()


def run_tiny(output_dir: Path, **options: Any) -> dict[str, Any]:
    given = {**QUIET, "output_dir": output_dir, **options}
    if "model_name_or_path" not in options:
        given = {**TINY_MODEL, **given}
    return run(parse_arguments(LabelTask, flags(**given)))


def train_tiny(output_dir: Path, **options: Any) -> dict[str, Any]:
    return run_tiny(output_dir, do_train=True, **options)


def in_two_processes(function: Callable[..., object], *arguments: Any) -> None:
    """Call a function in two forks of this process, which train together on the CPU."""
    debug_launcher(_as_one_of_two, (function, *arguments))


def _as_one_of_two(function: Callable[..., object], *arguments: Any) -> None:
    AcceleratorState._reset_state(reset_partial_state=True)  # that of the process before the fork
    warnings.filterwarnings("ignore", "torch.distributed.nn.functional.all_gather is dep")
    function(*arguments)


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def same_weights(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(weight, second[name]) for name, weight in first.items()
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
