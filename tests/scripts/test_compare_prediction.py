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
from transformers import pipeline

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
    explain = pipeline("text-classification", words[0])
    right = [
        explain(f"a {LABELS[i % 2]} soup {i // 2}")[0]["label"] == LABELS[i % 2] for i in range(20)
    ]
    assert ways["sase_hf, float32"]["accuracy"] == sum(right) / 20
    assert ways["sase_hf, float32"]["same_labels"] == 1
    assert ways["sase_hf, float32"]["times_float32"]["median"] == 1
    assert record["sources"]["test"]["rows"] == 20
    left_out = capsys.readouterr().err
    for name in ("TF-IDF", "fastText", "static vectors", "ONNX"):
        assert f"left out: {name}" in left_out


def test_compare_prediction_refuses_a_model_of_pairs(tmp_path: Path) -> None:
    pairs = save_checkpoint(tmp_path / "pairs", is_pair=True)
    with pytest.raises(SystemExit, match="pairs is a SelfAttentiveForNLI; the others predict one"):
        load_script("compare_prediction").main([pairs, "train.jsonl", "test.jsonl"])


@pytest.mark.slow
def test_compare_prediction_fits_and_exports_what_is_installed(
    words: list[str], tmp_path: Path
) -> None:
    """The label stands in each text, so what reads the texts is right."""
    for package in ("sklearn", "fasttext", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason="an extra")
    vectors, path = tmp_path / "vectors.txt", tmp_path / "record.json"
    vectors.write_text("good 1 0\nbad 0 1\nsoup 0.5 0.5\n", encoding="utf-8")
    main = load_script("compare_prediction").main
    main([*words, f"--word_vectors={vectors}", f"--record={path}"])
    ways = json.loads(path.read_text("utf-8"))["ways"]
    fitted = ["TF-IDF, logistic regression", "fastText, bigrams", "static vectors, regression"]
    assert [ways[name]["accuracy"] for name in fitted] == [1, 1, 1]
    assert ways["sase_hf, ONNX"]["same_labels"] == 1
    assert ways["sase_hf, ONNX, int8"]["accuracy"] >= 0.4


def test_static_vectors_learn_the_word_that_decides(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="an extra")
    script = load_script("compare_prediction")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("good 1 0\nbad 0 1\nsoup 0.5 0.5\n", encoding="utf-8")
    texts = [[f"a {label} soup"] for label in LABELS]
    rows = script.Rows(texts * 9, [0, 1] * 9)
    predict = script._static_vectors(rows, rows, str(vectors))
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
