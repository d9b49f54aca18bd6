"""The sets and the systems of the leaderboard, and how one system is measured on one set."""

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import numpy as np
from transformers import EvalPrediction

from sase_hf.data.arguments import DataArguments
from sase_hf.data.labels import SINGLE_LABEL
from sase_hf.data.splits import TaskData, load_task
from sase_hf.evaluation.calibration import expected_calibration_error
from sase_hf.evaluation.metrics import load_metrics, metrics_function
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.hub.checks import PUBLIC_NAMES, weight_files

from .baselines import Result, processor_seconds

SCRIPTS = Path(__file__).resolve().parents[1]

PAIR = ("premise", "hypothesis")
# Name -> how its files begin, and its columns of texts.
SETS: dict[str, tuple[str, Sequence[str]]] = {
    "sst2": ("sst2", ("text",)),
    "sst5": ("sst5", ("text",)),
    "trec": ("trec", ("text",)),
    "yelp5": ("yelp5", ("text",)),
    "imdb": ("imdb", ("text",)),
    "blog_age": ("blog_age_post", ("text",)),
    "snli": ("snli", PAIR),
    "sick": ("sick", PAIR),
}

VALIDATION_FRACTION = 0.1
VECTORS = ("vectors/words.100d.txt.gz", "vectors/potion.128d.txt.gz")


@dataclass(frozen=True)
class System:
    """What is compared: a baseline, or a command line of scripts/train.py.

    Attributes:
        title: The name for readers.
        draws: Whether its result depends on a seed.
        needs: The package without which it is left out, and the extra that has it.
        vectors: Whether scripts/train.py gets the word vectors; None for a baseline.
        flags: More flags of scripts/train.py.
    """

    title: str
    draws: bool = True
    needs: tuple[str, str] | None = None
    vectors: bool | None = None
    flags: tuple[str, ...] = ()

    @property
    def lacks(self) -> str | None:
        """Why it cannot run here, None if it can."""
        if self.needs is None or importlib.util.find_spec(self.needs[0]) is not None:
            return None
        return f"needs {self.needs[0]}: pip install 'sase_hf[{self.needs[1]}]'"


SYSTEMS = {
    "most_frequent": System("most frequent label", draws=False),
    "tfidf": System("TF-IDF, logistic regression", False, ("sklearn", "leaderboard")),
    "fasttext": System("fastText, bigrams", needs=("fasttext", "leaderboard")),
    "bilstm_max": System("BiLSTM, max pooling", vectors=True, flags=("--pooling=max",)),
    "ours": System("sase_hf, no word vectors", vectors=False),
    "ours_vectors": System("sase_hf, word vectors", vectors=True),
}


@dataclass(frozen=True)
class Run:
    """A system on a set, with a seed if it draws; the folders are those of the command line."""

    task: str
    system: str
    seed: int
    data: Path
    runs: Path
    records: Path

    @property
    def name(self) -> str:
        """Set, system and seed, such as sst2/fasttext-seed42."""
        seed = f"-seed{self.seed}" if SYSTEMS[self.system].draws else ""
        return f"{self.task}/{self.system}{seed}"

    @property
    def folder(self) -> Path:
        """The folder of its model, there until it has a record."""
        return self.runs / self.name

    @property
    def record(self) -> Path:
        """Its record."""
        return self.records / f"{self.name}.json"

    def file(self, part: str) -> Path:
        """Return the file of the rows of "train" or "dev"."""
        return self.data / f"{SETS[self.task][0]}.{part}.jsonl.gz"


def collect_runs(
    sets: Sequence[str],
    systems: Sequence[str],
    seeds: Sequence[int],
    data: Path,
    runs: Path,
    records: Path,
) -> list[Run]:
    """Return the runs, set by set; a system that draws nothing has only the first seed.

    Raises:
        FileNotFoundError: If a set lacks a file.
    """
    found = [
        Run(task, system, seed, data, runs, records)
        for task in sets
        for system in systems
        for seed in (seeds if SYSTEMS[system].draws else seeds[:1])
    ]
    for run in found:
        for part in ("train", "dev"):
            if not run.file(part).is_file():
                raise FileNotFoundError(
                    f"there is no file {run.file(part)}; name the sets that you have with --sets"
                )
    return found


def measure(run: Run) -> bool:
    """Measure a run unless it has a record or cannot run here; return False if it failed.

    What an interruption left is thrown away, since the processor's time of a part says nothing.
    """
    system = SYSTEMS[run.system]
    if run.record.is_file():
        print(f"{run.name}: has a record", flush=True)
        return True
    if system.lacks is not None:
        print(f"{run.name}: left out, {system.lacks}", flush=True)
        return True
    print(f"{run.name}: begins", flush=True)
    start = time.perf_counter()
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    task = load_task(
        DataArguments(
            train_file=str(run.file("train")),
            test_file=str(run.file("dev")),
            text_column_names=list(SETS[run.task][1]),
            validation_fraction=VALIDATION_FRACTION,
        )
    )
    try:
        if system.vectors is None:
            measured = _measure_baseline(run, task)
        else:
            measured = _measure_ours(run, task)
    except subprocess.CalledProcessError as error:
        print(f"{run.name}: failed with status {error.returncode}; see {_log(run)}", flush=True)
        return False
    labels = np.array(task.splits["test"]["label"][:])
    probabilities = measured.pop("probabilities")
    compute = metrics_function(load_metrics(None, SINGLE_LABEL), SINGLE_LABEL)
    metrics = compute(EvalPrediction(predictions=probabilities, label_ids=labels))
    metrics["calibration_error"] = expected_calibration_error(probabilities, labels)
    record = measured_record(
        name=run.name,
        metrics=metrics,
        split="test",
        sources=task.sources,
        seed=run.seed,
        arguments=measured.pop("arguments"),
        config=measured.pop("config"),
        num_parameters=measured.pop("num_parameters"),
        wall_seconds=time.perf_counter() - start,
    )
    if system.needs is not None:
        packages = packages_distributions()[system.needs[0]]
        record["versions"] |= {package: version(package) for package in packages}
    write_record({**record, **measured}, run.record)
    shutil.rmtree(run.folder)
    print(f"{run.name}: accuracy {metrics['accuracy']:.2%}", flush=True)
    return True


def _measure_baseline(run: Run, task: TaskData) -> dict[str, Any]:
    """Run a baseline in a process of its own and return what `measure` puts into the record."""
    rows = run.folder / "rows"
    rows.mkdir()
    for split, own in task.splits.items():
        columns = [own[name][:] for name in ("text", "text_pair") if name in own.column_names]
        with (rows / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for *texts, label in zip(*columns, own["label"][:], strict=True):
                file.write(json.dumps({"texts": texts, "label": label}) + "\n")
    _call(run, "-m", "comparing.baselines", run.system, str(rows), str(run.folder), str(run.seed))
    result = Result(**json.loads((run.folder / "result.json").read_text(encoding="utf-8")))
    probabilities = np.zeros((len(result.probabilities), len(task.label_names)))
    found = np.array(result.probabilities)
    probabilities[:, : found.shape[1]] = found  # the last labels may have no training row
    return {
        "probabilities": probabilities,
        "arguments": {"system": run.system},
        "config": result.settings,
        "num_parameters": result.num_parameters,
        "training_seconds": result.training_seconds,
        "texts_per_second": len(probabilities) / result.prediction_seconds,
        "bytes_on_disk": sum(path.stat().st_size for path in run.folder.glob("model.*")),
    }


def _measure_ours(run: Run, task: TaskData) -> dict[str, Any]:
    """Train by scripts/train.py and return what `measure` puts into the record."""
    model = run.folder / "model"
    before = processor_seconds()
    _call(run, str(SCRIPTS / "train.py"), *train_flags(run, model))
    seconds = processor_seconds() - before
    _call(run, "-m", "comparing.prediction", str(model), str(run.file("dev")), *SETS[run.task][1])
    timing = json.loads((model / "timing.json").read_text(encoding="utf-8"))
    files = (*PUBLIC_NAMES, *weight_files(model))
    with gzip.open(model / "predictions.jsonl.gz", "rt", encoding="utf-8") as lines:
        scores = [json.loads(line)["scores"] for line in lines]
    return {
        "probabilities": np.array([[row[name] for name in task.label_names] for row in scores]),
        "arguments": {"system": run.system, "flags": train_flags(run, Path("model"))},
        "config": timing["config"],
        "num_parameters": timing["num_parameters"],
        # All of the command, its report too, but the prediction, whose cost was measured by itself.
        "training_seconds": seconds - timing["prediction_seconds"],
        "texts_per_second": len(scores) / timing["prediction_seconds"],
        "bytes_on_disk": sum(p.stat().st_size for name in files if (p := model / name).is_file()),
    }


def train_flags(run: Run, model: Path) -> list[str]:
    """Return the flags of scripts/train.py for one of our systems."""
    system, columns = SYSTEMS[run.system], SETS[run.task][1]
    flags = [
        f"--train_file={run.file('train')}",
        f"--test_file={run.file('dev')}",
        f"--output_dir={model}",
        f"--seed={run.seed}",
        "--disable_tqdm=true",
        *system.flags,
    ]
    if len(columns) > 1:
        flags.append(f"--text_column_names={','.join(columns)}")
    if system.vectors:
        flags += ["--word_vectors", *(str(run.data / name) for name in VECTORS)]
    return flags


def _call(run: Run, *words: str) -> None:
    """Run Python with these words on one thread, with its output in the log of the run."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
    environment = {**os.environ, **one, "TOKENIZERS_PARALLELISM": "false"}
    environment["PYTHONPATH"] = os.pathsep.join([str(SCRIPTS), *sys.path[1:]])
    with _log(run).open("ab") as log:
        subprocess.run(
            [sys.executable, *words], check=True, stdout=log, stderr=log, env=environment
        )


def _log(run: Run) -> Path:
    return run.runs / f"{run.name}.log"
