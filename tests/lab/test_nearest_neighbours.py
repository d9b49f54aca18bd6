"""Nearest-neighbour accuracy against plain loops, and the vectors of layers against one text."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import save_checkpoint, script_main
from nearest_neighbours import SHIFTS, layer_vectors, nearest_neighbour_accuracy
from runs import write_rows
from tiny import BERT
from tiny_translation import save_translator
from transformers import AutoModel, BertConfig, BertModel

from sase_hf import build_tokenizer, build_translation_tokenizer

TEXTS = ["good food", "a", "the room was not bad", "small room"]


@pytest.mark.parametrize("shift", SHIFTS)
def test_nearest_neighbour_accuracy_is_that_of_plain_loops(
    shift: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks; the shift of a row's own half would find other neighbours."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(11, 3, generator=generator)
    source = target + 0.4 * torch.randn(11, 3, generator=generator) + torch.arange(3)
    right = 0
    for i, row in enumerate(source):
        of = [j for j in range(11) if shift == "same" or (i + j) % 2]
        moved = row if shift == "none" else row + (target[of] - source[of]).mean(0)
        distances = [(moved - other).norm().item() for other in target]
        right += distances.index(min(distances)) == i
    assert 0 < right < 11, "the premise: some are found"
    monkeypatch.setattr("nearest_neighbours.BLOCK", 4)
    assert nearest_neighbour_accuracy(source, target, shift) == right / 11


def test_nearest_neighbour_accuracy_refuses_a_single_pair() -> None:
    with pytest.raises(ValueError, match="there are 1 pairs; give at least 2"):
        nearest_neighbour_accuracy(torch.ones(1, 2), torch.ones(1, 2))


def test_layer_vectors_are_means_without_padding_and_special_tokens() -> None:
    """Of a foreign encoder, in batches: layer 0 is what its first layer reads."""
    tokenizer = build_translation_tokenizer(TEXTS)  # ends each text with </s>
    model = BertModel(BertConfig(**{**BERT, "vocab_size": len(tokenizer)})).eval()
    found = layer_vectors(model, tokenizer, TEXTS, batch_size=3)
    assert list(found) == ["layer 0", "layer 1", "layer 2"]
    for row, text in enumerate(TEXTS):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        layers = model(ids, output_hidden_states=True).hidden_states
        for layer, states in enumerate(layers):
            torch.testing.assert_close(found[f"layer {layer}"][row], states[0, :-1].mean(0))


def test_layer_vectors_hold_the_rows_of_a_sentence_matrix(tmp_path: Path) -> None:
    model: Any = AutoModel.from_pretrained(save_checkpoint(tmp_path))
    found = layer_vectors(model, build_tokenizer(TEXTS), TEXTS)
    hops = [found[f"hop {i + 1}"] for i in range(model.config.num_hops)]
    names = ["layer 0", "layer 1", *(f"hop {i + 1}" for i in range(len(hops))), "sentence"]
    assert list(found) == names
    torch.testing.assert_close(torch.cat(hops, 1), found["sentence"])


@pytest.mark.parametrize("random_weights", [False, True])
def test_nearest_neighbours_script_measures_the_encoder_of_a_translator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], random_weights: bool
) -> None:
    """A text is the nearest neighbour of itself; the states are those of the encoder."""
    save_translator(tmp_path / "both", TEXTS)
    pairs = write_rows(tmp_path / "pairs.jsonl", [{"a": text, "b": text} for text in TEXTS])
    flags = ["--file", pairs, "--text_column_names", "a,b"]
    flags += ["--record", str(tmp_path / "r.json"), "--plot", str(tmp_path / "f.svg")]
    flags += ["--random_weights"] * random_weights
    script_main("lab/nearest_neighbours")([str(tmp_path / "both"), *flags])
    record = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["both"]
    assert list(record["accuracy"]) == ["layer 0", "layer 1", "sentence"]
    assert all(ways["none"] == [1, 1] for ways in record["accuracy"].values())
    assert record["arguments"]["random_weights"] is random_weights
    assert "a to b, none" in capsys.readouterr().out
    assert (tmp_path / "f.svg").is_file()
