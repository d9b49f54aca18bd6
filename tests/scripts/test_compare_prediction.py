"""scripts/compare_prediction.py: what predicts the same texts, how fast and how well."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import save_checkpoint
from rows import write_jsonl
from script_files import load_script

from sase_hf import build_tokenizer


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return the command line for a tiny checkpoint and texts that name their label."""
    rows = [{"text": f"a {label} soup {i}", "label": label} for i in range(30) for label in LABELS]
    files = [write_jsonl(tmp_path / f"{part}.jsonl", rows) for part in ("train", "test")]
    return [save_checkpoint(tmp_path / "model"), *map(str, files), "--rounds=1", "--num_texts=20"]


LABELS = ("bad", "good")


def test_compare_prediction_measures_what_is_installed_and_names_what_is_not(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    script, path = load_script("compare_prediction"), tmp_path / "record.json"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    script.main([*words, f"--record={path}"])
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    ways = record["ways"]
    assert set(ways) == {"shape of MiniLM, bfloat16", "sase_hf, float32", "sase_hf, bfloat16"}
    assert "accuracy" not in ways["shape of MiniLM, bfloat16"], "its weights are random"
    assert ways["sase_hf, float32"]["same_labels"] == 1
    assert ways["sase_hf, float32"]["times_float32"]["median"] == 1
    assert record["sources"]["test"]["rows"] == 20
    left_out = capsys.readouterr().err
    for name in ("TF-IDF", "fastText", "static vectors", "ONNX"):
        assert f"left out: {name}" in left_out


def test_static_vectors_learn_the_word_that_decides(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="an extra")
    script = load_script("compare_prediction")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("good 1 0\nbad 0 1\nsoup 0.5 0.5\n", encoding="utf-8")
    texts = [[f"a {label} soup"] for label in LABELS]
    predict = script._static_vectors(script.Rows(texts * 9, [0, 1] * 9), str(vectors))
    assert predict(["soup so good", "", "bad"]).tolist()[::2] == [1, 0]


def test_forward_gives_each_text_its_own_label(tmp_path: Path) -> None:
    """Texts are read in the order of their lengths."""
    script = load_script("compare_prediction")
    tokenizer = build_tokenizer(["a b c d"])

    def model(ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        tokens = attention_mask.sum(1)
        return type("Output", (), {"logits": torch.nn.functional.one_hot(tokens, 5)})

    texts = ["a b c d", "a", "a b c", "a b"]
    assert script._forward(model, tokenizer)(texts).tolist() == [4, 1, 3, 2]
    assert script._forward(model, tokenizer, 2)(texts).tolist() == [2, 1, 2, 2]
