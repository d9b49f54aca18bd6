"""Measure which scores find wrong labels among the training rows.

    python scripts/lab/wrong_labels.py data --seeds 42 43 44
    python scripts/lab/wrong_labels.py data --sets sst2 --seeds 42 --train

A set is NAME.train.jsonl.gz in the folder, with the fields `text` and `label`. The seed draws up to
--rows rows and 5 % of them, whose label becomes another one. Each score puts the training rows of
scripts/train.py, nine tenths of these, in an order: by the loss of the label in a regression over
words that learned from other rows (linear), by the margin of its probability (margin), as cleanlab
ranks the probabilities of the regression, if it is installed (cleanlab), and with --train by the
loss of the label in the model after some epochs of its training (model) and by the mean of both
losses (both), which decides the order of doubtful.csv.

Metrics: average precision, and the precision among as many rows as have a wrong label. A record is
a line of wrong_labels.jsonl, such as sst2/linear-seed42.
"""

import argparse
import gzip
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from records import RECORDS, replace_record, settings_sha
from sklearn.metrics import average_precision_score
from torch import Tensor

from sase_hf.data.repeats import text_digests
from sase_hf.data.rows import read_rows, wrap_read_errors
from sase_hf.evaluation.doubtful_labels import config_of, parts_of
from sase_hf.evaluation.records import measured_record
from sase_hf.models.linear_self_attentive import LinearPart
from sase_hf.tasks import LabelTask
from sase_hf.tasks.labels.doubtful import opinions_of
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.task import TrainingSetup
from sase_hf.training.trainer import SelfAttentiveTrainer
from sase_hf.utils.cli import errors_in_one_line, make_parser, positive_int

SETS = ("sst2", "trec", "yelp5")
SHARE = 0.05
TRUE = "true_label"  # a column beside the labels, which the training does not read

Rows = list[dict[str, Any]]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all scores of all sets, and write and print the records."""
    flags = build_parser().parse_args(argv)
    torch.set_num_threads(1)
    with errors_in_one_line(__file__):
        for seed in flags.seeds:
            for name in flags.sets:
                for record in measure(name, seed, flags):
                    replace_record(flags.records / "wrong_labels.jsonl", record)
                    shown = {key: round(value, 3) for key, value in record["metrics"].items()}
                    print(record["run"], shown, flush=True)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("data", type=Path, help="folder of the sets")
    add("--sets", nargs="+", default=list(SETS), help="names (default: all three)")
    add("--seeds", nargs="+", type=int, default=[42], help="of each set (default: 42)")
    add("--rows", type=positive_int, default=8000, help="drawn of a set (default: %(default)s)")
    add("--train", action="store_true", help="train, for the scores of the model, too")
    add(
        "--runs", type=Path, default=Path("runs", "wrong_labels"), help="folder for rows and models"
    )
    add("--records", type=Path, default=RECORDS, help="folder of the JSON Lines files")
    return parser


def measure(name: str, seed: int, flags: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the record of each score of a set."""
    start = time.perf_counter()
    file = flags.data / f"{name}.train.jsonl.gz"
    with wrap_read_errors(str(file)):
        rows: Rows = [dict(row) for row in read_rows(str(file))]
    wrong = flipped_rows(rows, flags.rows, seed)
    folder = flags.runs / f"{name}-seed{seed}"
    train_file = folder / f"{name}.jsonl.gz"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with gzip.open(train_file, "wt", encoding="utf-8") as target:
        target.writelines(json.dumps(row) + "\n" for row in wrong)
    words = [f"--train_file={train_file}", f"--output_dir={folder / 'model'}", f"--seed={seed}"]
    words += ["--text_column_names=text", "--label_column_name=label", "--disable_tqdm=true"]
    opinions = None
    if flags.train:
        task: Any = parse_arguments(_Listening, words)
        run(task)
        setup, opinions = task.heard
    else:
        setup = parse_arguments(LabelTask, words).assemble()
    train = setup.rows.splits["train"]
    is_wrong = np.array([wrong[row][TRUE] != wrong[row]["label"] for row in train["row"]])
    labels = torch.tensor(train["label"][:])
    for score, doubts in scores_of(linear_opinions(setup), opinions, labels).items():
        settings = {"score": score, "rows": flags.rows, "share": SHARE}
        run_name = f"{name}/{score}-seed{seed}"
        record = measured_record(
            name=run_name,
            metrics=metrics_of(doubts, is_wrong),
            split="train",
            sources={"train": {**setup.rows.sources["train"], "file": file.name}},
            seed=seed,
            arguments=settings,
            config=setup.model.config,
            num_parameters=setup.model.num_parameters(),
            wall_seconds=time.perf_counter() - start,
        )
        if score == "cleanlab":
            record["versions"]["cleanlab"] = version("cleanlab")
        yield {**record, "run": run_name, "settings_sha": settings_sha(settings)}


class _Listening(LabelTask):
    """Keeps what the model said about its training rows."""

    heard: tuple[TrainingSetup, Tensor | None]

    def evaluate(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup, known: Mapping[str, float]
    ) -> Any:
        """Evaluate without a report."""
        self.heard = (setup, opinions_of(trainer))
        return trainer.evaluate(), []


def flipped_rows(rows: Rows, most: int, seed: int) -> Rows:
    """Return up to `most` rows with text, true label and label, which is another one in `SHARE`."""
    rng = np.random.default_rng(seed)
    drawn = [rows[number] for number in rng.permutation(len(rows))[:most]]
    names = sorted({row["label"] for row in drawn})
    flipped = [{"text": row["text"], "label": row["label"], TRUE: row["label"]} for row in drawn]
    for number in rng.permutation(len(drawn))[: round(SHARE * len(drawn))]:
        others = [name for name in names if name != drawn[number]["label"]]
        flipped[number]["label"] = others[rng.integers(len(others))]
    return flipped


def linear_opinions(setup: TrainingSetup) -> Tensor:
    """Return the log of the probability of each label of the training rows, (N, L)."""
    tokens = setup.tokens["train"]
    texts = text_digests(setup.rows.splits["train"], ["text"])
    labels = torch.tensor(tokens["labels"][:])
    config = config_of(tokens, setup.rows.answers, len(setup.tokenizer))
    assert config is not None
    linear_part = LinearPart(config, reads_pairs=False)
    opinions = torch.zeros(len(labels), len(setup.rows.label_names), dtype=torch.float64)
    for part in parts_of(tokens, labels, texts, linear_part, config, seed=0):
        opinions[part.numbers] = part.outputs.log_softmax(-1)
    return opinions


def scores_of(linear: Tensor, model: Tensor | None, labels: Tensor) -> dict[str, np.ndarray]:
    """Return how doubtful each score finds the labels (N,), given logs of probabilities (N, L)."""

    def losses(opinions: Tensor) -> np.ndarray:
        return -opinions.gather(1, labels.unsqueeze(1)).squeeze(1).double().numpy()

    probabilities = linear.exp()
    given = probabilities.gather(1, labels.unsqueeze(1)).squeeze(1)
    others = probabilities.scatter(1, labels.unsqueeze(1), 0.0).amax(1)
    scores = {"linear": losses(linear), "margin": (others - given).numpy()}
    if find_spec("cleanlab") is not None:
        scores["cleanlab"] = cleanlab_doubts(probabilities.numpy(), labels.numpy())
    if model is not None:
        scores["model"] = losses(model)
        scores["both"] = (scores["linear"] + scores["model"]) / 2
    return scores


def cleanlab_doubts(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return doubts that rank rows as cleanlab does: its issues first, each by its own order."""
    # No extra of this package names it: only this measurement looks at it.
    issues = import_module("cleanlab.filter")
    rank = import_module("cleanlab.rank")
    is_issue: np.ndarray = issues.find_label_issues(labels, probabilities, n_jobs=1)
    quality = rank.get_label_quality_scores(labels, probabilities)
    doubts: np.ndarray = is_issue - quality  # qualities are from 0 to 1
    return doubts


def metrics_of(doubts: np.ndarray, is_wrong: np.ndarray) -> dict[str, float]:
    """Return how well doubts (N,) find wrong rows (N,)."""
    num_wrong = int(is_wrong.sum())
    first = np.argsort(-doubts, kind="stable")[:num_wrong]
    return {
        "average_precision": float(average_precision_score(is_wrong, doubts)),
        "precision_among_as_many": float(is_wrong[first].mean()),
        "wrong_rows": num_wrong,
        "rows": len(is_wrong),
    }


if __name__ == "__main__":
    main()
