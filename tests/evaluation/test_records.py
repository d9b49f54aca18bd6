"""Which metrics a run measures, and the record that it leaves."""

import json
import math
import os
import re
import socket
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import datasets
import evaluate
import numpy as np
import pytest
import torch
from tiny import tiny_config
from transformers import EvalPrediction

import sase_hf
from sase_hf.data.labels import MULTI_LABEL, PROBLEM_TYPES, REGRESSION, SINGLE_LABEL
from sase_hf.evaluation import records
from sase_hf.evaluation.records import load_metrics, measured_record, metrics_function, write_record


def measure(
    predictions: Any, labels: Any, problem_type: str, names: list[str] | None = None
) -> dict[str, float]:
    """Measure as a `Trainer` does."""
    modules = load_metrics(names, problem_type)
    evaluated = EvalPrediction(predictions=predictions, label_ids=np.array(labels))
    return metrics_function(modules, problem_type)(evaluated)


class Hits(evaluate.Metric):
    """A user's own module: the number of right rows, or a list if there are none."""

    def _info(self) -> evaluate.MetricInfo:
        number = datasets.Value("int64")
        features = datasets.Features(predictions=number, references=number)
        return evaluate.MetricInfo(description="", citation="", features=features)

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, Any]:
        hits = sum(a == b for a, b in zip(predictions, references, strict=True))
        return {"hits": hits or [0] * len(predictions)}


@pytest.fixture
def hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path by which `evaluate.load` finds the user's own module."""
    module = Hits(keep_in_memory=True, cache_dir=tmp_path)
    monkeypatch.setattr(evaluate, "load", {"own/hits.py": module}.__getitem__)
    return "own/hits.py"


@pytest.mark.parametrize(
    ("problem_type", "expected"),
    [
        (SINGLE_LABEL, ["accuracy", "macro_f1"]),
        (MULTI_LABEL, ["accuracy", "macro_f1"]),
        (REGRESSION, ["mse", "pearson"]),
    ],
)
def test_load_metrics_has_offline_defaults_for_every_problem_type(
    problem_type: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is downloaded or put into the user's cache."""

    def refuse(*_: object) -> None:
        raise AssertionError("a connection is tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "metrics")
    assert [metric.name for metric in load_metrics(None, problem_type)] == expected
    assert not (tmp_path / "metrics").exists()


def test_metrics_function_takes_the_largest_logit() -> None:
    """Rows with the label that the loss ignores do not count, and other outputs are ignored."""
    logits = np.array([[0.1, 0.2, 0.0], [3.0, 2.0, 1.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]])
    other = np.full((4, 7), np.nan)
    expected = {"accuracy": 2 / 3, "macro_f1": (2 / 3 + 1 + 0) / 3}
    assert measure((logits, other), [1, 0, 0, -100], SINGLE_LABEL) == pytest.approx(expected)
    assert measure(logits[:3], [1, 0, 0], SINGLE_LABEL) == pytest.approx(expected)


def test_metrics_function_takes_labels_above_a_probability_of_one_half() -> None:
    logits = np.array([[0.1, -0.1], [-2.0, 0.0]])
    assert measure(logits, [[1.0, 0.0], [0.0, 0.0]], MULTI_LABEL)["accuracy"] == 1
    assert measure(logits, [[1.0, 0.0], [0.0, 1.0]], MULTI_LABEL)["accuracy"] == 0.5


@pytest.mark.parametrize("width", [1, 2])
def test_metrics_function_takes_the_outputs_of_a_regression(width: int) -> None:
    """A model with one output gives a column, and its labels are numbers."""
    labels = np.arange(6.0, dtype=np.float32).reshape(-1, width)
    expected = {"mse": 0.25, "pearson": 1.0}
    given = labels.squeeze(-1) if width == 1 else labels
    assert measure(labels + 0.5, given, REGRESSION) == pytest.approx(expected)


def test_metrics_function_combines_own_and_foreign_modules(hits: str) -> None:
    """`--metric_name` takes a path, and the results of all modules come together."""
    names = ["accuracy", hits]
    results = measure(np.eye(3), [0, 1, 1], SINGLE_LABEL, names)
    assert results == {"accuracy": pytest.approx(2 / 3), "hits": 2.0}
    assert all(type(value) is float for value in results.values())


def test_metrics_function_refuses_results_that_are_not_numbers(hits: str) -> None:
    """A `Trainer` could neither log it nor choose the best model by it."""
    with pytest.raises(ValueError, match=r"metric 'hits' is \[0, 0\], not a number; choose"):
        measure(np.eye(2), [1, 0], SINGLE_LABEL, [hits])


@pytest.mark.parametrize(
    ("names", "problem_type", "message"),
    [
        (None, "ranking", f"problem_type is 'ranking'; allowed are {', '.join(PROBLEM_TYPES)}"),
        (
            ["mse"],
            SINGLE_LABEL,
            "'mse' does not fit a problem of type single_label.* accuracy or ma",
        ),
        (["accuracy"], REGRESSION, "'accuracy' does not fit .* use mse or pearson, or another mod"),
    ],
)
def test_load_metrics_refuses_metrics_that_do_not_fit(
    names: list[str] | None, problem_type: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_metrics(names, problem_type)


@pytest.mark.parametrize("reason", [FileNotFoundError("no file"), ImportError("no rouge_score")])
def test_load_metrics_names_a_metric_that_evaluate_cannot_load(
    monkeypatch: pytest.MonkeyPatch, reason: Exception
) -> None:

    def fail(name: str) -> None:
        raise reason

    monkeypatch.setattr(evaluate, "load", fail)
    message = (
        f"'rouge' is not one of accuracy, .*, and evaluate cannot load it: {reason}. Give the name"
    )
    with pytest.raises(ValueError, match=message):
        load_metrics(["accuracy", "rouge"], SINGLE_LABEL)


def record_of(**changes: Any) -> dict[str, Any]:
    """Describe a made-up measurement."""
    parts: dict[str, Any] = {
        "name": "reviews",
        "metrics": {"accuracy": 0.5},
        "split": "validation",
        "sources": {"train": {"file": "reviews.jsonl", "sha256": "0" * 64, "rows": 4}},
        "seed": 7,
        "arguments": {"learning_rate": 0.001},
        "config": tiny_config(),
        "num_parameters": 123,
        "wall_seconds": 1.26,
    }
    return measured_record(**{**parts, **changes})


def test_measured_record_holds_all_that_judges_a_number() -> None:
    """Value, split, rows, seed, settings, sizes, code, versions, hardware, date."""
    record = record_of()
    assert record["metrics"] == {"accuracy": 0.5}
    assert (record["split"], record["seed"], record["wall_seconds"]) == ("validation", 7, 1.3)
    assert record["sources"]["train"]["rows"] == 4
    assert record["arguments"] == {"learning_rate": 0.001}
    assert record["config"]["num_hops"] == tiny_config().num_hops
    assert record["num_parameters"] == 123
    assert record["versions"].keys() == {"python", *records.PACKAGES}
    assert record["versions"]["torch"] == version("torch")
    hardware = record["hardware"]
    assert (hardware["threads"], hardware["cores"]) == (torch.get_num_threads(), os.cpu_count())
    assert hardware["cpu"]
    assert hardware["memory_gib"] > 0
    assert isinstance(hardware["gpus"], list)
    age = datetime.now(UTC) - datetime.fromisoformat(record["date"])
    assert abs(age.total_seconds()) < 60


def test_record_holds_no_names_paths_and_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are published."""
    for variable in ("USER", "LOGNAME", "HOSTNAME", "HF_TOKEN"):
        monkeypatch.setenv(variable, f"planted-{variable}")
    monkeypatch.setenv("HOME", "/home/planted")
    monkeypatch.setattr("platform.node", lambda: "planted-host")
    monkeypatch.setattr("socket.gethostname", lambda: "planted-host")
    token = "hf_" + "PLANTED" * 4
    arguments = {
        "train_file": "/home/planted/data/reviews.jsonl",
        "word_vectors": Path("/home/planted/words.txt"),
        "validation_file": r"C:\Users\planted\dev.csv",
        "config_file": "../planted/run.yaml",
        "output_dir": "/home/planted",
        "run_name": "planted-host",
        "hub_model_id": "planted/model",
        "hub_token": token,
        "token": token,
        "notes": ["see ~/planted/log and file:///home/planted/notes", {"url": f"?key={token}"}],
    }
    source = {"file": "/home/planted/reviews.jsonl", "rows": 1}
    record = record_of(
        arguments=arguments,
        sources={"train": source},
        config={**tiny_config().to_dict(), "_name_or_path": "/home/planted/checkpoint"},
    )
    write_record({**record, "added": "/home/planted/later"}, tmp_path / "record.json")
    for text in (json.dumps(record), (tmp_path / "record.json").read_text()):
        assert "planted" not in text.lower()
        assert str(Path(sase_hf.__file__).parents[1]) not in text
    assert record["arguments"] == {
        "train_file": "reviews.jsonl",
        "word_vectors": "words.txt",
        "validation_file": "dev.csv",
        "config_file": "run.yaml",
        "notes": ["see log and notes", {"url": "?key=[token]"}],
    }


def test_write_record_gives_the_same_bytes_for_the_same_record(tmp_path: Path) -> None:
    """A change of the file is a change of the measurement, not of the order of keys."""
    record = record_of()
    write_record(record, tmp_path / "new" / "a.json")
    shuffled = dict(reversed(record.items()))
    write_record(json.loads(json.dumps(shuffled)), tmp_path / "new" / "b.json")
    first, second = ((tmp_path / "new" / name).read_bytes() for name in ("a.json", "b.json"))
    assert first == second
    assert first.endswith(b"}\n")
    assert json.loads(first) == record


def test_record_holds_null_for_undefined_numbers(tmp_path: Path) -> None:
    """JSON has no NaN, and a long run must not fail when it writes its record."""
    record = record_of(metrics={"pearson": math.nan, "mse": np.float32(0.5)})
    assert record["metrics"] == {"pearson": None, "mse": 0.5}
    write_record({"value": math.inf}, tmp_path / "record.json")
    assert json.loads((tmp_path / "record.json").read_text()) == {"value": None}


def test_write_record_keeps_the_old_file_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.json"
    write_record({"value": 1}, path)

    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space left"):
            write_record({"value": 2}, path)
    with pytest.raises(TypeError, match=r"a record cannot hold a object, <object"):
        write_record({"value": object()}, path)
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]
    assert json.loads(path.read_text()) == {"value": 1}


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, as nobody in particular."""
    settings = ("user.name=nobody", "user.email=nobody@example.org", "commit.gpgsign=false")
    options = [option for setting in settings for option in ("-c", setting)]
    command = ["git", *options, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_record_names_the_commit_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whether its files differ; the checkout around an installed package does not count."""
    package = tmp_path / "checkout" / "sase_hf" / "evaluation"
    package.mkdir(parents=True)
    module = package / "records.py"
    monkeypatch.setattr(records, "__file__", str(module))
    assert record_of()["code"] is None
    module.write_text("one")
    git(package.parents[1], "init", "-q")
    git(package.parents[1], "add", ".")
    git(package.parents[1], "commit", "-q", "-m", "first")
    assert record_of()["code"] == {
        "commit": git(package.parents[1], "rev-parse", "HEAD"),
        "modified": False,
    }
    module.write_text("two")
    assert record_of()["code"]["modified"] is True
    monkeypatch.setattr(
        records, "__file__", str(package / "site" / "sase_hf" / "evaluation" / "records.py")
    )
    (package / "site").mkdir()
    assert record_of()["code"] is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert record_of()["code"] is None, "there may be no git"


def test_record_describes_hardware_on_every_system(monkeypatch: pytest.MonkeyPatch) -> None:

    def hidden(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", hidden)
    monkeypatch.delattr(os, "sysconf")
    hardware = record_of()["hardware"]
    assert hardware["memory_gib"] is None
    assert re.fullmatch(r"\S.*", hardware["cpu"])
