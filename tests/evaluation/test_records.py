"""Which metrics a run measures, and the record that it leaves."""

import json
import math
import os
import socket
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import datasets
import evaluate
import numpy as np
import pytest
from tiny import tiny_config
from transformers import EvalPrediction

import sase_hf
from sase_hf.data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from sase_hf.evaluation import records
from sase_hf.evaluation.records import load_metrics, measured_record, metrics_function, write_record


def measure(
    predictions: Any, labels: Any, problem_type: str, names: list[str] | None = None
) -> dict[str, float]:
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
    module = Hits(keep_in_memory=True, cache_dir=tmp_path)
    monkeypatch.setattr(evaluate, "load", {"own/hits.py": module}.__getitem__)
    return "own/hits.py"


def test_metrics_function_takes_the_largest_logit() -> None:
    """Rows with the label that the loss ignores do not count, and other outputs are ignored."""
    logits = np.array([[0.1, 0.2, 0.0], [3.0, 2.0, 1.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]])
    other = np.full((4, 7), np.nan)
    expected = {"accuracy": 2 / 3, "macro_f1": (2 / 3 + 1 + 0) / 3}
    assert measure((logits, other), [1, 0, 0, -100], SINGLE_LABEL) == pytest.approx(expected)
    assert measure(logits[:3], [1, 0, 0], SINGLE_LABEL) == pytest.approx(expected)


def test_metrics_function_takes_labels_above_a_probability_of_one_half() -> None:
    logits = np.array([[0.1, -0.1], [-2.0, 0.0]])
    assert measure(logits, [[1.0, 0.0], [0.0, 1.0]], MULTI_LABEL)["accuracy"] == 0.5


@pytest.mark.parametrize("width", [1, 2])
def test_metrics_function_takes_the_outputs_of_a_regression(width: int) -> None:
    """A model with one output gives a column, and its labels are numbers."""
    labels = np.arange(6.0, dtype=np.float32).reshape(-1, width)
    expected = {"mse": 0.25, "pearson": 1.0}
    given = labels.squeeze(-1) if width == 1 else labels
    assert measure(labels + 0.5, given, REGRESSION) == pytest.approx(expected)


def test_metrics_function_combines_own_and_foreign_modules(hits: str) -> None:
    """A result that is not a number is refused: a `Trainer` could not log it."""
    results = measure(np.eye(3), [0, 1, 1], SINGLE_LABEL, ["accuracy", hits])
    assert results == {"accuracy": pytest.approx(2 / 3), "hits": 2.0}
    with pytest.raises(ValueError, match=r"metric 'hits' is \[0, 0\], not a number"):
        measure(np.eye(2), [1, 0], SINGLE_LABEL, [hits])


def test_load_metrics_needs_no_network_and_leaves_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: pytest.fail("a connection is tried"))
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "metrics")
    assert [each.name for each in load_metrics(None, SINGLE_LABEL)] == ["accuracy", "macro_f1"]
    assert [each.name for each in load_metrics(None, REGRESSION)] == ["mse", "pearson"]
    assert not (tmp_path / "metrics").exists()


def test_load_metrics_refuses_metrics_that_do_not_fit_or_do_not_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ValueError, match=r"'accuracy' does not fit .* use mse or pearson"):
        load_metrics(["accuracy"], REGRESSION)
    monkeypatch.setattr(evaluate, "load", Mock(side_effect=ImportError("no rouge_score")))
    with pytest.raises(ValueError, match=r"'rouge' is not one of .* cannot load it: no rouge_sco"):
        load_metrics(["accuracy", "rouge"], SINGLE_LABEL)


def record_of(**changes: Any) -> dict[str, Any]:
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


def test_record_holds_no_names_paths_and_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are published."""
    for variable in ("USER", "LOGNAME", "HOSTNAME", "HF_TOKEN"):
        monkeypatch.setenv(variable, f"planted-{variable}")
    monkeypatch.setattr("platform.node", lambda: "planted-host")
    monkeypatch.setattr("socket.gethostname", lambda: "planted-host")
    token = "hf_" + "PLANTED" * 4
    arguments = {
        "train_file": "/home/planted/data/reviews.jsonl",
        "word_vectors": Path("/home/planted/words.txt"),
        "output_dir": "/home/planted",
        "hub_token": token,
        "notes": ["see ~/planted/log and file:///home/planted/notes", {"url": f"?key={token}"}],
    }
    source = {"file": "/home/planted/reviews.jsonl", "rows": 1}
    config = {**tiny_config().to_dict(), "_name_or_path": "/home/planted/checkpoint"}
    record = record_of(arguments=arguments, sources={"train": source}, config=config)
    write_record({**record, "added": "/home/planted/later"}, tmp_path / "record.json")
    for text in (json.dumps(record), (tmp_path / "record.json").read_text()):
        assert "planted" not in text.lower()
        assert str(Path(sase_hf.__file__).parents[1]) not in text
    assert record["arguments"] == {
        "train_file": "reviews.jsonl",
        "word_vectors": "words.txt",
        "notes": ["see log and notes", {"url": "?key=[token]"}],
    }


def test_measured_record_holds_all_that_judges_a_number() -> None:
    """Value, split, rows, seed, settings, sizes, code, versions, hardware, date."""
    record = record_of()
    assert (record["metrics"], record["seed"]) == ({"accuracy": 0.5}, 7)
    assert (record["split"], record["wall_seconds"]) == ("validation", 1.3)
    assert record["sources"]["train"]["rows"] == 4
    assert record["config"]["num_hops"] == tiny_config().num_hops
    assert record["versions"]["torch"] == version("torch")
    assert record["hardware"]["cores"] == os.cpu_count()
    assert record["hardware"]["cpu"]
    assert record["date"]


def test_write_record_sorts_keys_and_writes_null_for_nan(tmp_path: Path) -> None:
    record = record_of(metrics={"pearson": math.nan, "mse": np.float32(0.5)})
    assert record["metrics"] == {"pearson": None, "mse": 0.5}
    write_record(record, tmp_path / "new" / "a.json")
    text = (tmp_path / "new" / "a.json").read_text()
    assert json.loads(text) == record
    assert list(json.loads(text)) == sorted(record)


def test_record_names_the_commit_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whether its files differ; outside a checkout it is None."""
    checkout = tmp_path / "checkout"
    module = checkout / "sase_hf" / "evaluation" / "records.py"
    module.parent.mkdir(parents=True)
    module.write_text("one")
    monkeypatch.setattr(records, "__file__", str(module))
    assert record_of()["code"] is None

    git = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for words in ("init -q", "add .", "-c commit.gpgsign=false commit -qm first"):
        subprocess.run([*git, *words.split()], cwd=checkout, check=True)
    code = record_of()["code"]
    assert len(code["commit"]) == 40
    assert code["modified"] is False
    module.write_text("two")
    assert record_of()["code"] == {**code, "modified": True}
