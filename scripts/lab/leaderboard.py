"""The leaderboard: this package beside TF-IDF and fastText on the sets of a folder.

The folder holds a set as NAME.train.jsonl.gz and NAME.dev.jsonl.gz with the fields `text` and
`label`, or `premise`, `hypothesis` and `label`. README.md describes the measurements.
"""

import gzip
import json
import random
import re
import shutil
import statistics
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import yaml
from baselines import processor_seconds
from records import Record, read_record
from runner import LAB, SCRIPTS, Run, call
from transformers import EvalPrediction

from sase_hf import TextClassifier
from sase_hf.data.columns import DataArguments
from sase_hf.data.rows import Rows, load_rows
from sase_hf.data.table import TEXT_COLUMNS, present, table
from sase_hf.evaluation.metrics import expected_calibration_error, load_metrics, metrics_function
from sase_hf.evaluation.records import measured_record
from sase_hf.models.answers import SINGLE_LABEL
from sase_hf.utils.text import refusal

COMPARED = yaml.safe_load((LAB / "systems.yaml").read_text(encoding="utf-8"))
SETS, SYSTEMS = COMPARED["sets"], COMPARED["systems"]
FILES = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")
SPLIT_RULE = "rows of equal texts are in one part"  # a record of another rule is measured anew


@dataclass(frozen=True)
class Comparison(Run):
    """A system on a set: the columns of its texts, and the files that begin with `stem`."""

    columns: list[str]
    stem: Path

    def file(self, part: str) -> str:
        """Return the file of "train", "dev", "others" or "taught"; it may be in the folder."""
        if part in ("others", "taught") or (part == "train" and "rows" in self.settings):
            return str(self.folder / f"{part}.jsonl.gz")
        return f"{self.stem}.{part}.jsonl.gz"

    def check_files(self) -> None:
        """Raise FileNotFoundError unless the files of the set are there."""
        for file in (f"{self.stem}.train.jsonl.gz", self.file("dev")):
            if not Path(file).is_file():
                raise refusal(
                    f"there is no file {file}",
                    "name the sets that you have with --sets",
                    FileNotFoundError,
                )

    def measure(self, log: IO[bytes]) -> Record:
        """Measure anew, because processor time is that of the whole run."""
        start = time.perf_counter()
        self.start_over()
        if "rows" in self.settings:
            self._draw_rows(self.settings["rows"])
        task = load_rows(
            DataArguments(
                train_file=self.file("train"),
                test_file=self.file("dev"),
                text_column_names=self.columns,
                validation_fraction=0.1,
            )
        )
        measure = self._measure_ours if "vectors" in self.settings else self._measure_baseline
        measured = measure(task, log)
        labels = np.array(task.splits["test"]["label"][:])
        probabilities = measured.pop("probabilities")
        compute = metrics_function(load_metrics(None, SINGLE_LABEL), task.answers)
        metrics = compute(EvalPrediction(predictions=probabilities, label_ids=labels))
        metrics["calibration_error"] = expected_calibration_error(probabilities, labels)
        record = measured_record(
            name=self.name,
            metrics=metrics,
            split="test",
            sources=task.sources,
            seed=self.seed,
            arguments=self.settings,
            config=measured.pop("config"),
            num_parameters=measured.pop("num_parameters"),
            wall_seconds=time.perf_counter() - start,
        )
        needs = SYSTEMS[self.settings["system"]].get("needs", "")
        for package in packages_distributions().get(needs, ()):
            record["versions"][package] = version(package)
        shutil.rmtree(self.folder)
        return record | measured

    def _draw_rows(self, count: int) -> None:
        """Write the file of drawn rows and, for a system that reads them, of the other texts."""
        with gzip.open(f"{self.stem}.train.jsonl.gz", "rt", encoding="utf-8") as file:
            lines = list(file)
        drawn = random.Random(self.seed).sample(range(len(lines)), count)
        with gzip.open(self.file("train"), "wt", encoding="utf-8") as file:
            file.writelines(lines[number] for number in drawn)
        if "others" not in self.settings:
            return
        others = sorted(set(range(len(lines))).difference(drawn))[: self.settings["others"]]
        with gzip.open(self.file("others"), "wt", encoding="utf-8") as file:
            for number in others:
                row = json.loads(lines[number])
                texts = {column: row[column] for column in self.columns}
                file.write(json.dumps(texts, ensure_ascii=False) + "\n")

    def flags(self, model: Path) -> list[str]:
        """Return the flags of scripts/train.py for one of our systems."""
        part = "taught" if "teacher" in self.settings else "train"
        flags = [f"--train_file={self.file(part)}", f"--test_file={self.file('dev')}"]
        flags += [f"--output_dir={model}", f"--seed={self.seed}", "--disable_tqdm=true"]
        if len(self.columns) > 1:
            flags.append(f"--text_column_names={','.join(self.columns)}")
        if self.settings["vectors"]:
            files = [str(self.stem.parent / name) for name in self.settings["vectors"]]
            flags += ["--word_vectors", *files]
        if "others" in self.settings and part == "train":
            flags.append(f"--unlabelled_file={self.file('others')}")
        return [*flags, *self.settings.get("flags", ())]

    def _measure_baseline(self, task: Rows, log: IO[bytes]) -> dict[str, Any]:
        """Run a baseline in a process of its own and return its part of the record."""
        for split, rows in task.splits.items():
            rows.to_json(self.folder / f"{split}.jsonl")
        words = [self.settings["system"], str(self.folder), str(self.seed)]
        call([str(LAB / "baselines.py"), *words], log)
        result = dict(read_record(self.folder / "result.json"))
        of_classes = np.array(result["probabilities"])
        probabilities = np.zeros((len(of_classes), len(task.label_names)))
        probabilities[:, result.pop("classes")] = of_classes  # a label may have no training row
        size = sum(file.stat().st_size for file in self.folder.glob("model.*"))
        return {**result, "probabilities": probabilities, "bytes_on_disk": size}

    def _teach(self) -> list[str]:
        """Write what a teacher of the drawn rows says of all texts; return its labels."""
        drawn = table(self.file("train"))
        teacher = TextClassifier(encoder_name_or_path=self.settings["teacher"], seed=self.seed)
        teacher.fit(drawn["text"], drawn["label"])
        texts = [*drawn["text"], *table(self.file("others"))["text"]]
        labels = list(map(str, teacher.classes_))
        taught = pd.DataFrame(teacher.predict_proba(texts), columns=labels).assign(text=texts)
        taught.to_json(self.file("taught"), orient="records", lines=True)
        return labels

    def _measure_ours(self, task: Rows, log: IO[bytes]) -> dict[str, Any]:
        """Train by scripts/train.py and return the part of the record."""
        folder = self.folder / "model"
        before = processor_seconds()
        words = self.flags(folder)
        if "teacher" in self.settings:
            words.append(f"--label_column_name={','.join(self._teach())}")
        call([str(SCRIPTS / "train.py"), *words], log)
        trained = processor_seconds()
        model = TextClassifier.from_pretrained(folder)
        columns = [
            task.splits["test"][name][:] for name in present(TEXT_COLUMNS, task.splits["test"])
        ]
        texts = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        start = processor_seconds()
        probabilities = model.predict_proba(texts)
        predicting = processor_seconds() - start
        rows = table(folder / "predictions.jsonl")
        labels = [task.label_names[label] for label in task.splits["test"]["label"]]
        sets = rows["answer_set"] if "answer_set" in rows.column_names else [labels] * len(labels)
        return {
            "probabilities": probabilities,
            "config": model.model_.config.to_diff_dict(),
            "num_parameters": model.model_.num_parameters(),
            # The time covers the whole command with its report, but not the prediction.
            "training_seconds": trained - before - predicting,
            "texts_per_second": len(labels) / predicting,
            "bytes_on_disk": sum((folder / name).stat().st_size for name in FILES),
            "answer_sets": {
                "coverage": np.mean([x in answer for x, answer in zip(labels, sets, strict=True)]),
                "size": np.mean([len(answer) for answer in sets]),
            },
        }


def table_of_readme(records: Mapping[str, Record]) -> str:
    """Return README's table: accuracy in percent, mean and deviation of the seeds."""
    shown = [name for name, system in SYSTEMS.items() if "column" in system]
    lines = [
        ["set, training rows", *(SYSTEMS[name]["column"] for name in shown)],
        ["---"] * (len(shown) + 1),
    ]
    for task in SETS:
        ours = records[f"{task}/command-seed1"]
        rows = sum(ours["sources"][part]["rows"] for part in ("train", "validation"))
        cells = [f"{task}, {rows:,}"]
        for name in shown:
            runs = [run for run in records if re.fullmatch(rf"{task}/{name}(-seed\d+)?", run)]
            found = [100 * records[run]["metrics"]["accuracy"] for run in runs]
            cell = f"{statistics.mean(found):.1f}" if found else "-"
            cells.append(cell + (f" ± {statistics.stdev(found):.1f}" if len(found) > 1 else ""))
        lines.append(cells)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def collect_comparisons(flags: Namespace) -> Iterator[Comparison]:
    """Yield the runs of `flags`; name each system that is not installed, and leave it out.

    Raises FileNotFoundError if the folder lacks the files of a set.
    """
    for name in flags.systems:
        system = SYSTEMS[name]
        needs = system.get("needs")
        if needs and find_spec(needs) is None:
            print(f"{name}: left out, needs {needs}: pip install 'sase_hf[lab]'")
            continue
        settings = {
            key: system[key]
            for key in ("vectors", "flags", "others", "fit", "teacher")
            if key in system
        }
        settings |= {"system": name, "split": SPLIT_RULE}
        draws = bool(flags.rows) or system.get("draws", True)
        seeds = flags.seeds if draws else flags.seeds[:1]
        sets = [task for task in flags.sets if task in system.get("sets", SETS)]
        numbers_of_rows = flags.rows or ([] if "others" in system else [None])
        for rows, task, seed in product(numbers_of_rows, sets, seeds):
            stem, *columns = SETS[task]
            run_name = f"{task}/{name}"
            run_settings = dict(settings)
            if rows:
                run_name += f"/{rows}"
                run_settings["rows"] = rows
            if draws:
                run_name += f"-seed{seed}"
            run = Comparison(
                name=run_name,
                seed=seed,
                settings=run_settings,
                records=flags.records / "leaderboard.jsonl",
                runs=flags.runs,
                columns=columns,
                stem=flags.data / stem,
            )
            run.check_files()
            yield run
