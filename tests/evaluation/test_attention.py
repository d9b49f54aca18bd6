"""Entropy and overlap of the hops over many texts, against loops and against the pipeline."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import PAIRS, TEXTS, save_checkpoint, script_main, write_texts
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from sase_hf.evaluation.attention import measure_attention, normalised_entropy, overlap
from sase_hf.evaluation.dataset import EvaluationDataset


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_checkpoint(tmp_path_factory.mktemp("checkpoint") / "tiny")


def dataset_of(
    checkpoint: str, texts: list[str], pairs: list[str] | None = None
) -> EvaluationDataset:
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    encoded = tokenizer(texts, pairs, return_token_type_ids=pairs is not None)
    return EvaluationDataset(model, tokenizer, Dataset.from_dict(dict(encoded)), {})


def test_normalised_entropy_is_1_for_equal_weights_and_0_for_one_word() -> None:
    """For texts of every length; padding changes nothing."""
    attention = torch.tensor(
        [[[0.25, 0.25, 0.25, 0.25], [0.0, 1.0, 0.0, 0.0]], [[0.5, 0.5, 0.0, 0.0]] * 2]
    )
    entropy = normalised_entropy(attention, torch.tensor([4, 2]))
    torch.testing.assert_close(entropy, torch.tensor([[1.0, 0.0], [1.0, 1.0]]))


def test_overlap_is_the_mean_product_with_the_other_hops() -> None:
    attention = torch.rand(2, 4, 5).softmax(-1)
    result = overlap(attention)
    for hop in range(4):
        others = [attention[:, hop] * attention[:, other] for other in range(4) if other != hop]
        torch.testing.assert_close(result[:, hop], torch.stack(others).sum(-1).mean(0))
    assert overlap(torch.rand(2, 1, 5)).tolist() == [[0.0], [0.0]]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_measure_attention_agrees_with_the_pipeline(checkpoint: str, batch_size: int) -> None:
    """Texts of one token are left out and counted."""
    measured = measure_attention(dataset_of(checkpoint, TEXTS), batch_size)
    results = pipeline("self-attention", checkpoint)(TEXTS)
    counted = [result for result in results if len(result["tokens"]) > 1]
    assert (measured["num_texts"], measured["num_left_out"]) == (len(counted), 1)
    mean = sum(result["overlap"] for result in counted) / len(counted)
    assert measured["overlap"]["mean"] == pytest.approx(mean, rel=1e-5)
    for hop, distribution in enumerate(measured["entropy"]["hops"]):
        entropies = sorted(
            -sum(weight * math.log(weight) for weight in result["attention"][hop])
            / math.log(len(result["tokens"]))
            for result in counted
        )
        assert distribution["mean"] == pytest.approx(sum(entropies) / len(entropies), rel=1e-5)
        assert distribution["p50"] == pytest.approx(entropies[len(entropies) // 2], rel=1e-5)
        assert 0 <= distribution["p5"] <= distribution["p25"] <= distribution["p95"] <= 1 + 1e-6


def test_measure_attention_counts_each_sentence_of_a_pair(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "pairs", is_pair=True)
    first, second = (list(side) for side in zip(*PAIRS, strict=True))
    measured = measure_attention(dataset_of(folder, first, second))
    assert (measured["num_texts"], measured["num_left_out"]) == (4, 0)
    inputs = [{"text": one, "text_pair": two} for one, two in PAIRS]
    overlaps = [
        value for each in pipeline("self-attention", folder)(inputs) for value in each["overlap"]
    ]
    assert measured["overlap"]["mean"] == pytest.approx(sum(overlaps) / 4, rel=1e-5)


def test_measure_attention_refuses_texts_of_one_token_and_nan(checkpoint: str) -> None:
    with pytest.raises(ValueError, match=r"no text has two tokens, .* give longer texts"):
        measure_attention(dataset_of(checkpoint, ["?", "Good", ""]))
    dataset = dataset_of(checkpoint, TEXTS)
    with torch.no_grad():
        dataset.model.get_input_embeddings().weight.fill_(math.nan)
    with pytest.raises(ValueError, match=rf"^{checkpoint} gives attention that is not finite"):
        measure_attention(dataset)


def test_script_checks_everything_before_it_measures(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EvaluationDataset, "batches", lambda *_: pytest.fail("it measured"))
    file = f"--file={write_texts(tmp_path)}"
    for more, message in (
        ([str(tmp_path / "absent")], "there is no folder .*absent; name the folder of a check"),
        ([f"--output={tmp_path}"], "is a folder; name a file in it"),
        ([f"{checkpoint}/../other", "--names", "one", "one"], "2 checkpoints are called one, one"),
    ):
        with pytest.raises(SystemExit, match=rf"^attention_statistics\.py: .*{message}"):
            script_main("attention_statistics")([checkpoint, *more, file])


@pytest.mark.slow
def test_script_compares_checkpoints_in_a_table_a_file_and_a_plot(
    checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = save_checkpoint(tmp_path / "tiny", num_hops=2)
    output, plot = tmp_path / "numbers.json", tmp_path / "plot.svg"
    words = [f"--file={write_texts(tmp_path)}", f"--output={output}", f"--plot={plot}"]
    script_main("attention_statistics")([checkpoint, other, "--names", "on", "off", *words])
    text = output.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    records: dict[str, Any] = json.loads(text)
    assert [len(records[name]["entropy"]["hops"]) for name in ("on", "off")] == [3, 2]
    assert records["on"]["metrics"]["overlap"] == records["on"]["overlap"]["mean"]
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    table = capsys.readouterr().out.splitlines()
    assert [line for line in table if "texts" in line] == ["on, 5 texts", "off, 5 texts"]
    first = records["on"]["entropy"]["hops"][0]
    assert f"{first['mean']:.3f} [{first['p25']:.3f}, {first['p75']:.3f}]" in table[2]
