"""Whole runs, small ones: their results, and what they refuse."""

import json
import logging
import random
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from runs import (
    QUIET,
    SIZES,
    STARS,
    TINY_MODEL,
    flags,
    read_lines,
    review_rows,
    run_tiny,
    same_weights,
    train_tiny,
    weights,
    write_rows,
)
from transformers import AutoConfig, pipeline

from sase_hf.hub import write_model_card
from sase_hf.tasks import LabelTask
from sase_hf.training import run
from sase_hf.training.command_line import epochs_for, parse_arguments


def test_run_learns_records_and_leaves_a_checkpoint_that_predicts_the_same(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    """The label stands in the text, so a model that learns anything gets it right."""
    folder = tmp_path / "run"
    outcome = train_tiny(
        folder,
        **reviews,
        do_eval=True,
        do_predict=True,
        num_train_epochs=15,
        learning_rate=0.02,
        per_device_train_batch_size=8,
        save_strategy="no",
        penalty_coef=0.01,
        embedding_dropout=0.0,
        classifier_dropout=0.0,
        train_sampling_strategy="group_by_length",
        record=tmp_path / "record.json",
    )
    metrics = outcome["metrics"]
    for split in ("eval", "test"):
        assert metrics[f"{split}_accuracy"] > 0.9
        assert {f"{split}_loss", f"{split}_macro_f1", f"{split}_penalty"} <= metrics.keys()
    assert metrics["train_loss"] > 0

    names = {path.name for path in folder.iterdir()}
    assert {"README.md", "model.safetensors", "modeling_self_attentive.py"} <= names
    assert "training_args.bin" not in names
    config = AutoConfig.from_pretrained(folder)
    assert config.id2label == dict(enumerate(sorted(STARS)))
    assert config.problem_type == "single_label_classification"
    texts = [row["text"] for row in read_lines(Path(reviews["test_file"]))]
    classify = pipeline("text-classification", model=str(folder), top_k=None)
    predictions = read_lines(folder / "predictions.jsonl")
    for result, prediction in zip(classify(texts), predictions, strict=True):
        assert prediction["predicted_label"] == result[0]["label"]
        assert prediction["confidence"] == max(prediction["scores"].values())
        scores = {entry["label"]: entry["score"] for entry in result}
        assert prediction["scores"] == pytest.approx(scores, abs=6e-5)

    record = json.loads((tmp_path / "record.json").read_text())
    assert record["metrics"].keys() == {"accuracy", "macro_f1", "loss", "penalty"}
    assert record["split"] == "test"
    assert record["metrics"]["accuracy"] == metrics["test_accuracy"]
    assert record["arguments"]["learning_rate"] == 0.02
    assert record["arguments"]["num_hops"] == 3
    assert record["sources"]["train"]["rows"] == SIZES["train"]
    assert record["num_parameters"] == sum(weight.numel() for weight in weights(folder).values())
    assert str(tmp_path) not in json.dumps(record), "no local path"
    shown = (folder / "README.md").read_text(encoding="utf-8")
    written = write_model_card(folder, outcome["record"])
    assert written.read_text(encoding="utf-8") == shown, "the trained model read its example"


def test_run_refuses_a_folder_in_which_another_run_is_writing(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    """Nothing of a living run is deleted or replaced; a killed one is in nobody's way."""
    checkpoint = tmp_path / "checkpoint-1"
    checkpoint.mkdir()  # being written
    where = re.escape(str(tmp_path))
    lock = "import filelock, sys; lock = filelock.FileLock(sys.argv[1]); lock.acquire()"
    words = [sys.executable, "-c", f"{lock}; print(flush=True); input()", str(tmp_path / ".lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        for resume in (None, "auto"):
            with pytest.raises(ValueError, match=f"another run is writing in {where}; wait"):
                train_tiny(tmp_path, **reviews, resume_from_checkpoint=resume)
        files = {"model_name_or_path": "never loaded", "test_file": reviews["test_file"]}
        with pytest.raises(ValueError, match=f"another run is writing in {where}; wait"):
            run_tiny(tmp_path, **files, do_predict=True)
        assert checkpoint.is_dir()
        other.kill()
    checkpoint.rmdir()
    train_tiny(tmp_path, **reviews, max_steps=1)
    assert (tmp_path / "model.safetensors").is_file()


def test_run_resumes_with_its_own_rows_in_an_update_and_no_others(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    """The length may change, what is saved, and the parts in which an update is computed."""
    options = {"train_file": reviews["train_file"], "logging_steps": 1}
    train_tiny(tmp_path, **options, num_train_epochs=1, per_device_train_batch_size=8)
    options |= {"num_train_epochs": 2, "save_total_limit": 7, "resume_from_checkpoint": "auto"}
    others = {
        "per_device_train_batch_size": (24, "x processes = 8 and not 24"),
        "train_file": (reviews["test_file"], "has train = .*'rows': 48.* and not"),
        "seed": (7, "has seed = 42 and not 7"),
        "data_seed": (7, "has data_seed = None and not 7"),
        "train_sampling_strategy": ("sequential", "has train_sampling_strategy = random and not"),
        "max_tokens": (5, "has max_tokens = 512 and not 5"),
        "class_weights": ("balanced", "has class_weights = None and not"),
        "penalty_coef": (0.5, "has penalty_coef = .* and not 0.5"),
    }
    for name, (value, message) in others.items():
        with pytest.raises(ValueError, match=message):
            train_tiny(tmp_path, **{"per_device_train_batch_size": 8, **options, name: value})
    options |= {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    assert train_tiny(tmp_path, **options)["metrics"]["epoch"] == 2
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").touch()
    options["resume_from_checkpoint"] = tmp_path / "checkpoint-6"
    with pytest.raises(ValueError, match=f"{other} is not empty"):
        train_tiny(other, **options)


def test_run_that_continues_says_that_its_checkpoint_may_know_the_held_out_rows(
    reviews: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"train_file": reviews["train_file"], "do_eval": True, "max_steps": 1}
    train_tiny(tmp_path / "model", **options, validation_fraction=0.25)
    assert "may have learned" not in caplog.text
    again = {**QUIET, **options, "do_train": True, "model_name_or_path": tmp_path / "model"}
    words = flags(**again, validation_fraction=0.5, output_dir=tmp_path / "again")
    run(parse_arguments(LabelTask, words))
    assert "may have learned from rows that are held out now" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"record": "train.jsonl"}, "cannot write train.jsonl: this command uses it"),
        ({"record": "words.txt"}, "cannot write words.txt: this command uses it"),
        ({"output_dir": "data"}, r"data/predictions\.csv could be replaced"),
        ({"record": "rows/new.json", "dataset_name": "rows"}, "rows is read, and such a file is"),
    ],
)
def test_run_refuses_to_replace_what_it_reads_or_writes(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("rows").mkdir()
    files = ("train.jsonl", "words.txt", "data/predictions.csv", "rows/train.csv")
    for name in files:
        Path(name).write_text("mine")
    given = {"train_file": files[0], "word_vectors": files[1], "test_file": files[2]}
    words = flags(**{**QUIET, **given, "output_dir": "run", "do_train": True, **options})
    with pytest.raises(FileExistsError, match=message):
        run(parse_arguments(LabelTask, words))
    assert {Path(name).read_text() for name in files} == {"mine"}


@pytest.mark.parametrize("name", ["validation_file", "word_vectors", "model_name_or_path"])
def test_run_names_what_is_not_there(name: str, tmp_path: Path, reviews: dict[str, str]) -> None:
    options = {**TINY_MODEL, "train_file": reviews["train_file"], name: "none/there"}
    with pytest.raises(OSError, match="none/there"):
        train_tiny(tmp_path / "run", **options)


@pytest.mark.parametrize(
    ("labels", "problem_type", "metric", "added"),
    [
        ([0.5, -1.0], "regression", "eval_mse", ["predicted_score"]),
        (
            [["a", "b"], ["b"]],
            "multi_label_classification",
            "eval_macro_f1",
            ["predicted_labels", "scores"],
        ),
    ],
)
def test_run_infers_the_problem_type_from_the_labels(
    labels: list[Any], problem_type: str, metric: str, added: list[str], tmp_path: Path
) -> None:
    rows = [{"text": row["text"], "label": labels[i % 2]} for i, row in enumerate(review_rows(12))]
    names = ("train_file", "validation_file", "test_file")
    options = dict.fromkeys(names, write_rows(tmp_path / "rows.jsonl", rows))
    folder = tmp_path / "run"
    outcome = train_tiny(folder, **options, do_eval=True, do_predict=True, num_train_epochs=1)
    assert AutoConfig.from_pretrained(folder).problem_type == problem_type
    assert metric in outcome["metrics"]
    predictions = read_lines(folder / "predictions.jsonl")
    assert len(predictions) == 12
    assert list(predictions[0]) == ["text", "label", *added]
    if "scores" in added:
        chosen = [name for name, p in predictions[0]["scores"].items() if p > 0.5]
        assert predictions[0]["predicted_labels"] == chosen


def test_run_logs_what_will_be_trained(
    reviews: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("meal 1 2 3\ntable 0 1 0\n")
    with caplog.at_level(logging.INFO, logger="sase_hf.training.run"):
        train_tiny(
            tmp_path / "run",
            train_file=reviews["train_file"],
            word_vectors=vectors,
            embedding_size=None,
            max_tokens=2,
            max_steps=1,
        )
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "rows: 48 train; columns: text, label" in text
    assert "labels: 3 (fine, great, poor), single_label_classification" in text
    config = AutoConfig.from_pretrained(tmp_path / "run")
    share = 2 / (config.vocab_size - 2)  # two words found, two entries are no words
    assert f"vectors.txt, for {share:.1%} of the vocabulary" in text
    assert config.embedding_size == 3, "the width of the vectors"
    assert f"{config.vocab_size} words" in text
    assert "length: 48 train rows reach --max_tokens" in text
    parameters = sum(weight.numel() for weight in weights(tmp_path / "run").values())
    assert f"{parameters:,} parameters" in text


def test_run_warns_of_validation_texts_whose_words_are_unknown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Here each text is a word of its own."""
    texts = ["".join(random.Random(row).choices("abcdefgh", k=9)) for row in range(20)]
    rows = [{"text": text, "label": text[-1] in "abc"} for text in texts]
    files = {"train_file": write_rows(tmp_path / "train.jsonl", rows[:10])}
    files["validation_file"] = write_rows(tmp_path / "new.jsonl", rows[10:])
    with caplog.at_level(logging.WARNING, logger="sase_hf.training.run"):
        train_tiny(tmp_path / "words", **files, max_steps=1)
        assert "100% of the tokens of the validation rows are words that" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "options"),
    [
        pytest.param(
            [4, 12, 20],
            {
                "embedding_size": 50,
                "lstm_hidden_size": 37,
                "attention_size": 45,
                "classifier_hidden_size": 61,
                "max_steps": 24,
                "per_device_train_batch_size": 4,
                "gradient_accumulation_steps": 2,
                "train_sampling_strategy": "group_by_length",
            },
            id="accumulated groups",
        ),
        pytest.param(
            [4],
            {
                "word_vectors": "VECTORS",
                "embedding_size": None,
                "encoder": "cnn",
                "cnn_kernel_sizes": [2, 3],
                "cnn_num_filters": 2,
                "vocab_size": 100,
                "max_steps": 8,
            },
            id="word vectors and sizes as tuples",
        ),
    ],
)
def test_run_is_resumed_bit_for_bit_by_its_own_command(
    steps: list[int], options: dict[str, Any], reviews: dict[str, str], tmp_path: Path
) -> None:
    """From each of several steps, with widths at which a sum depends on where the weights lie."""
    if "word_vectors" in options:
        options = {**options, "word_vectors": tmp_path / "vectors.txt"}
        options["word_vectors"].write_text("meal 1 2 3\n")
    saves = {"save_strategy": "steps", "save_steps": 4, "save_total_limit": 6}
    options = {**options, **saves, "train_file": reviews["train_file"]}
    folder = tmp_path / "run"
    train_tiny(folder, **options)
    whole = {name: weight.clone() for name, weight in weights(folder).items()}
    for step in steps:
        train_tiny(folder, **options, resume_from_checkpoint=folder / f"checkpoint-{step}")
        assert same_weights(weights(folder), whole), f"resumed at {step}"


@pytest.mark.parametrize(
    ("num_rows", "expected"),
    [(90, (30, 30, 30)), (6_228, (8, 3, 4)), (92_000, (2, 2, 2))],
)
def test_run_plans_fewer_epochs_for_more_rows_and_with_word_vectors(
    num_rows: int, expected: tuple[int, int, int]
) -> None:
    splits = {"train": SimpleNamespace(num_rows=num_rows)}
    vectors = ("none", "v.txt", "own")
    for name, epochs in zip(vectors, expected, strict=True):
        words = f"--word_vectors {name}"
        task = parse_arguments(LabelTask, ["--train_file", "rows.csv", *words.split()])
        data = SimpleNamespace(kind="single_label_classification")
        setup: Any = SimpleNamespace(tokens=splits, rows=data, vectors_found={}, tokenizer=None)
        assert epochs_for(task, setup) == epochs


@pytest.mark.slow
def test_run_resumes_the_patience_of_early_stopping_and_its_evaluations(
    reviews: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At a learning rate of almost zero nothing improves, so training stops after epoch 3.

    Learning curves are drawn from the record; the evaluation at the end is not another epoch.
    """
    options = {
        "train_file": reviews["train_file"],
        "validation_file": reviews["validation_file"],
        "do_eval": True,
        "learning_rate": 1e-30,
        "num_train_epochs": 6,
        "per_device_train_batch_size": 48,
        "eval_strategy": "epoch",
        "load_best_model_at_end": True,
        "early_stopping_patience": 2,
        "save_total_limit": 9,
    }
    folder = tmp_path / "run"
    whole = train_tiny(folder, **options)
    history = whole["record"]["history"]
    assert [entry["epoch"] for entry in history] == [1, 2, 3]
    assert history[0].keys() == {"epoch", "accuracy", "macro_f1", "loss", "penalty"}
    assert whole["metrics"]["epoch"] == 3
    resumed = train_tiny(folder, **options, resume_from_checkpoint=folder / "checkpoint-2")
    assert "already complete" not in caplog.text
    train_tiny(folder, **options, resume_from_checkpoint="true")
    assert "the run is already complete" in caplog.text
    assert resumed["metrics"]["epoch"] == 3
    assert resumed["record"]["history"] == history


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"train_file": None, "validation_file": None, "test_file": None},
            "nothing to do; give --train_file, --validation_file or --test_file",
        ),
        ({"do_eval": True}, "--model_name_or_path must name a checkpoint"),
        ({"do_train": True, "calibrate": True}, "--calibrate fits .*; add --do_train --do_eval"),
        (
            {"do_train": True, "class_weights": ["1", "rare"]},
            "could not convert string to float: 'rare'",
        ),
        (
            {"do_train": True, "metric_for_best_model": "acuracy"},
            "--metric_for_best_model is acuracy, which may be better high or low",
        ),
        (
            {"do_train": True, "validation_file": None, "do_eval": True},
            "are no validation rows",
        ),
        (
            {"do_train": True, "test_file": None, "do_predict": True},
            "no test rows; give --test_",
        ),
        (
            {"do_train": True, "train_file": None, "label_names": list(STARS)},
            "a new model takes its words from training rows; give --train_file",
        ),
        ({"do_train": True, "shuffle_seed": -1}, "expected non-negative integer"),
        ({"do_train": True, "report_to": ["nothing"]}, "nothing is not supported"),
        ({"do_train": True, "task": "nli"}, "NLI reads two texts, but --text_column_names is text"),
    ],
)
def test_run_refuses_contradictions_at_once(
    options: dict[str, Any], message: str, reviews: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run_tiny(tmp_path / "run", **{**reviews, **options})
