"""scripts/lab/benchmark.py: fair comparisons, correct rates, complete records."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from bench import models
from bench.models import OURS, PLAIN, build_model, check_same_results
from script_files import load_script
from tiny import SIZES

NUMBERS = {name: size for name, size in SIZES.items() if not name.endswith("dropout")}
FLAGS = Namespace(device="cpu", seed=0, threads=1, fields=NUMBERS, rounds=1, seconds=0.1)


def test_check_same_results_refuses_other_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that computes less would look faster, also if its logits are right."""
    fields = models.PAPER | NUMBERS
    monkeypatch.setattr(models, "TOLERANCE", 1e-5)  # rounding of small models
    check_same_results((PLAIN, OURS, *models.TRAINING, *models.INFERENCE), fields, FLAGS)

    def build_cheaper(settings: models.Settings, *given: Any) -> Any:
        model: Any = build_model(settings, *given)
        if settings is OURS:  # the outputs stay
            weight = model.encoder.embeddings.weight
            weight.register_hook(lambda gradient: gradient / 2)
        return model

    monkeypatch.setattr(models, "build_model", build_cheaper)
    with pytest.raises(RuntimeError, match=r"ours: gradients of encoder\.embeddings\.weight dif"):
        check_same_results((PLAIN, OURS), fields, FLAGS)


@pytest.mark.slow
def test_benchmark_prints_tables_and_writes_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "record.json"
    words = ["--quick", "--rounds=1", "--seconds=0.1", "--num_texts=3", f"--record={path}"]
    words += ["--models", "pruned", f"--fields={json.dumps(NUMBERS)}"]
    of_script = ["training", "lengths", "inference", "embedding", "why"]
    load_script("lab/benchmark").main([*words, "--only", *of_script])
    assert "speedup 1 (1 to 1)" in capsys.readouterr().out
    record = json.loads(path.read_text("utf-8"))
    assert set(record["benchmark"]) == set(of_script)
    whole = record["benchmark"]["training"][1]
    assert whole["settings"]["plain"]["speedup"]["median"] == 1
    assert {"hardware", "versions", "code", "seed", "arguments"} <= record.keys()
    assert str(tmp_path) not in path.read_text("utf-8"), "no local path"
