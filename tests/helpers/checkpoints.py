"""Tiny checkpoints on disk with texts for them, the scripts that read both, and their answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rows import write_jsonl
from safetensors.torch import load_file, save_file
from script_files import load_script
from tiny import tiny_model

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.hub import write_model_card
from sase_hf.models.checked_model import write_checksums

TEXTS = [
    "The soup was cold, and nobody came.",
    "Good!",
    "?",
    "A warm place with friendly people, and the bread was good.",
    "Nobody came back for the cold bread.",
    "The people were friendly.",
]
PAIRS = [("Two dogs sleep.", "No dog is awake."), ("A man sings.", "Someone sings loudly.")]


def save_checkpoint(folder: Path, *, is_pair: bool = False, **fields: Any) -> str:
    torch.manual_seed(0)
    tokenizer = build_tokenizer([*TEXTS, *(text for pair in PAIRS for text in pair)])
    labels = {"problem_type": "single_label_classification", "id2label": {0: "bad", 1: "good"}}
    head = SelfAttentiveForNLI if is_pair else SelfAttentiveForSequenceClassification
    model = tiny_model(head, vocab_size=len(tokenizer), **{**labels, **fields})
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def write_owned_card(folder: Path) -> None:
    write_model_card(folder, about={"license": "mit", "language": "en"})


def save_publishable(folder: Path) -> Path:
    save_checkpoint(folder)
    write_owned_card(folder)
    return folder


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    write_checksums(folder)


def write_texts(folder: Path, *, is_pair: bool = False) -> str:
    rows: list[dict[str, str]] = [{"text": text} for text in TEXTS]
    if is_pair:
        rows = [{"premise": first, "hypothesis": second} for first, second in PAIRS]
    return str(write_jsonl(folder / "rows.jsonl.gz", rows))


def script_main(name: str) -> Callable[[list[str]], None]:
    entry: Callable[[list[str]], None] = load_script(name).main
    return entry


def assert_same_answers(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found["label"] == expected["label"]
        assert found["score"] == pytest.approx(expected["score"], abs=1e-5)
    else:
        assert isinstance(found, list)
        for one, other in zip(found, expected, strict=True):
            assert_same_answers(one, other)
