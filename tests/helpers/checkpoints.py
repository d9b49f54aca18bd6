"""Tiny checkpoints on disk with texts for them, the scripts that read both, and their answers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import answers
import pytest
import torch
from safetensors.torch import load_file, save_file
from script_files import load_command, load_script
from tiny import save_both, tiny_model

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
)
from sase_hf.hub import write_model_card
from sase_hf.models.checkpoint import list_files

TEXTS = [
    "The soup was cold, and nobody came.",
    "Good!",
    "?",
    "A warm place with friendly people, and the bread was good.",
    "Nobody came back for the cold bread.",
    "The people were friendly.",
]
PAIRS = [("Two dogs sleep.", "No dog is awake."), ("A man sings.", "Someone sings loudly.")]
# The checkpoints that answers.py reads: a base model, all heads, and another architecture.
RATINGS = {"id2label": {0: "bad", 1: "fair", 2: "good"}}
RELATIONS = {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}}
KINDS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "base": (SelfAttentiveModel, {}),
    "classifier": (SelfAttentiveForSequenceClassification, RATINGS),
    "nli": (SelfAttentiveForNLI, RELATIONS),
    "retrieval": (SelfAttentiveForRetrieval, {}),
    "relation": (
        SelfAttentiveForSequenceClassification,
        {**RATINGS, "encoder": "relation_network", "relation_weights": "softmax"},
    ),
    "linear": (
        SelfAttentiveForSequenceClassification,
        {**RATINGS, "linear_part": "words_and_pairs"},
    ),
}


def save_kinds(root: Path) -> tuple[dict[str, Any], Any]:
    """Save a checkpoint of each kind in a folder of its name; return the models and the tokenizer.

    The models read 20 tokens of a text.
    """
    torch.manual_seed(0)
    words = [*answers.TEXTS, *(text for pair in answers.PAIRS for text in pair.values())]
    tokenizer = build_tokenizer([text for text in words if text])
    models = {}
    for name, (model_class, fields) in KINDS.items():
        models[name] = tiny_model(model_class, vocab_size=len(tokenizer), max_tokens=20, **fields)
        save_both(root / name, models[name], tokenizer)
    return models, tokenizer


def save_checkpoint(folder: Path, *, is_pair: bool = False, **fields: Any) -> str:
    torch.manual_seed(0)
    tokenizer = build_tokenizer([*TEXTS, *(text for pair in PAIRS for text in pair)])
    labels = {"problem_type": "single_label_classification", "id2label": {0: "bad", 1: "good"}}
    head = SelfAttentiveForNLI if is_pair else SelfAttentiveForSequenceClassification
    model = tiny_model(head, vocab_size=len(tokenizer), **{**labels, **fields})
    return save_both(folder, model, tokenizer)


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
    list_files(folder, ["model.safetensors"])


def change_json(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file and list it; a mapping is added to the one that is there."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for name, value in fields.items():
        content[name] = {**content.get(name, {}), **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(content), encoding="utf-8")
    list_files(path.parent, [path.name])


def replace_text(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def script_main(name: str) -> Callable[[list[str]], None]:
    """Return the main of a command, or of a script of the laboratory (`lab/NAME`)."""
    load = load_script if name.startswith("lab/") else load_command
    entry: Callable[[list[str]], None] = load(name).main
    return entry


def assert_same_answers(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found["label"] == expected["label"]
        assert found["score"] == pytest.approx(expected["score"], abs=1e-5)
    else:
        assert isinstance(found, list)
        for one, other in zip(found, expected, strict=True):
            assert_same_answers(one, other)
