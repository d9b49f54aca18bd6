"""Whole runs, small ones: their results, and what they refuse."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import (
    QUIET,
    STARS,
    flags,
    read_lines,
    run_tiny,
    train_tiny,
    write_rows,
)
from transformers import pipeline

from sase_hf.hub import write_model_card
from sase_hf.tasks import LabelTask
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments


def test_run_learns_records_and_leaves_a_checkpoint_that_predicts_the_same(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    """The label stands in the text, so a model that learns anything gets it right."""
    folder = tmp_path / "run"
    options = {**reviews, "do_eval": True, "do_predict": True, "record": tmp_path / "record.json"}
    options |= {"num_train_epochs": 15, "learning_rate": 0.02, "per_device_train_batch_size": 8}
    options |= {"embedding_dropout": 0.0, "classifier_dropout": 0.0, "save_strategy": "no"}
    outcome = train_tiny(folder, **options)
    metrics = outcome["metrics"]
    assert metrics["eval_accuracy"] > 0.9
    assert metrics["test_accuracy"] > 0.9
    assert "training_args.bin" not in {path.name for path in folder.iterdir()}
    texts = [row["text"] for row in read_lines(Path(reviews["test_file"]))]
    classify = pipeline("text-classification", model=str(folder), top_k=None)
    assert classify.model.config.id2label == dict(enumerate(sorted(STARS)))
    predictions = read_lines(folder / "predictions.jsonl")
    for result, prediction in zip(classify(texts), predictions, strict=True):
        assert prediction["predicted_label"] == result[0]["label"]
        assert prediction["confidence"] == max(prediction["scores"].values())
        scores = {entry["label"]: entry["score"] for entry in result}
        assert prediction["scores"] == pytest.approx(scores, abs=6e-5)

    record = json.loads((tmp_path / "record.json").read_text())
    assert record["metrics"].keys() == {"accuracy", "macro_f1", "loss", "penalty"}
    assert record["metrics"]["accuracy"] == metrics["test_accuracy"]
    assert record["arguments"]["learning_rate"] == 0.02
    assert str(tmp_path) not in json.dumps(record), "no local path"
    shown = (folder / "README.md").read_text(encoding="utf-8")
    written = write_model_card(folder, outcome["record"])
    assert written.read_text(encoding="utf-8") == shown, "the trained model read its example"


def test_run_predicts_test_rows_without_a_label_and_measures_the_others(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    rows = read_lines(Path(reviews["test_file"]))
    rows[1]["label"] = None
    test = write_rows(tmp_path / "test.jsonl", rows)
    outcome = train_tiny(tmp_path / "run", **reviews | {"test_file": test}, do_predict=True)
    found = read_lines(tmp_path / "run/predictions.jsonl")
    assert [row["text"] for row in found] == [row["text"] for row in rows]
    right = [row["predicted_label"] == row["label"] for row in found if row["label"]]
    assert outcome["metrics"]["test_accuracy"] == pytest.approx(sum(right) / len(right))


def test_run_refuses_a_folder_in_which_another_run_is_writing(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    """Nothing of a living run is deleted or replaced; a killed one is in nobody's way."""
    checkpoint = tmp_path / "checkpoint-1"
    checkpoint.mkdir()  # being written
    lock = "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire()"
    words = [sys.executable, "-c", f"{lock}; print(flush=True); input()", str(tmp_path / ".lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(
            ValueError, match=f"another run is writing in {re.escape(str(tmp_path))}"
        ):
            train_tiny(tmp_path, **reviews, resume_from_checkpoint="auto")
        assert checkpoint.is_dir()
        other.kill()
    checkpoint.rmdir()
    train_tiny(tmp_path, **reviews, max_steps=1)
    assert (tmp_path / "model.safetensors").is_file()


def test_run_resumes_with_its_own_rows_in_an_update_and_no_others(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    """The length may change, what is saved, and the parts in which an update is computed."""
    options = {"train_file": reviews["train_file"], "per_device_train_batch_size": 8}
    train_tiny(tmp_path, **options, num_train_epochs=1)
    options |= {"num_train_epochs": 2, "save_total_limit": 7, "resume_from_checkpoint": "auto"}
    others = {
        "per_device_train_batch_size": (24, "x processes = 8 and not 24"),
        "train_file": (reviews["test_file"], "has train = .*'rows': 48.* and not"),
        "seed": (7, "has seed = 42 and not 7"),
        "penalty_coef": (0.5, "has penalty_coef = .* and not 0.5"),
        "unlabelled_file": (reviews["test_file"], "has unlabelled_1 = None and not"),
    }
    for name, (value, message) in others.items():
        with pytest.raises(ValueError, match=message):
            train_tiny(tmp_path, **{**options, name: value})
    options |= {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    assert train_tiny(tmp_path, **options)["metrics"]["epoch"] == 2


@pytest.mark.parametrize("option", [{"record": "train.jsonl"}, {"output_dir": "data"}])
def test_run_refuses_to_replace_what_it_reads(
    option: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    given = {"train_file": "train.jsonl", "test_file": "data/predictions.csv"}
    for name in given.values():
        Path(name).write_text("mine")
    with pytest.raises(FileExistsError, match=r"train\.jsonl|data/predictions\.csv"):
        run(parse_arguments(LabelTask, flags(**QUIET, **given, do_train=True, **option)))
    assert {Path(name).read_text() for name in given.values()} == {"mine"}


def test_run_resumes_the_patience_of_early_stopping_and_its_evaluations(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    """At a learning rate of almost zero nothing improves, so training stops after epoch 3."""
    options = {name: reviews[name] for name in ("train_file", "validation_file")}
    options |= {"do_eval": True, "eval_strategy": "epoch", "learning_rate": 1e-30}
    options |= {"num_train_epochs": 6, "per_device_train_batch_size": 48, "save_total_limit": 9}
    options |= {"load_best_model_at_end": True, "early_stopping_patience": 2}
    folder = tmp_path / "run"
    history = train_tiny(folder, **options)["record"]["history"]
    assert [entry["epoch"] for entry in history] == [1, 2, 3]
    for checkpoint in (folder / "checkpoint-2", "true"):  # the second is that of the end
        resumed = train_tiny(folder, **options, resume_from_checkpoint=checkpoint)
        assert resumed["metrics"]["epoch"] == 3
        assert resumed["record"]["history"] == history


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"do_eval": True, "model_name_or_path": "a", "calibrate": True}, "--cal.* add --do_train"),
        ({"do_train": True, "test_file": None, "do_predict": True}, "no test rows; give --test_"),
        ({"do_train": True, "task": "nli"}, r"NLI reads 2 text\(s\) a row, but --text_"),
    ],
)
def test_run_refuses_contradictions_at_once(
    options: dict[str, Any], message: str, reviews: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run_tiny(tmp_path / "run", **{**reviews, **options})
