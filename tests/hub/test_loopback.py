"""The round trip through the Hub: pushed here, loaded by name in a fresh process."""

import json
from pathlib import Path
from typing import Any

import answers
import pytest
import torch
from checkpoints import write_owned_card
from huggingface_hub import constants
from isolated import run_isolated
from loopback_hub import OWNER, Hub
from tiny import tiny_model
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
)
from sase_hf.hub import push

pytestmark = pytest.mark.slow

RATINGS = dict(enumerate(("bad", "fair", "good")))
RELATIONS = dict(enumerate(("entailment", "neutral", "contradiction")))
CHECKPOINTS: dict[str, tuple[type[PreTrainedModel], dict[str, Any]]] = {
    "base": (SelfAttentiveModel, {}),
    "classifier": (SelfAttentiveForSequenceClassification, {"id2label": RATINGS}),
    "nli": (SelfAttentiveForNLI, {"id2label": RELATIONS}),
    "retrieval": (SelfAttentiveForRetrieval, {}),
    "cnn": (
        SelfAttentiveForSequenceClassification,
        {"id2label": RATINGS, "encoder": "cnn", "pooling": "generalized"},
    ),
}
NAME = f"{OWNER}/classifier"


def save_and_push(folder: Path, name: str = "classifier", **options: Any) -> str:
    words = [*answers.TEXTS, *(text for pair in answers.PAIRS for text in pair.values())]
    tokenizer = build_tokenizer(text for text in words if text)
    model_class, fields = CHECKPOINTS[name]
    model = tiny_model(model_class, vocab_size=len(tokenizer), **fields)
    model.save_pretrained(folder / name)
    tokenizer.save_pretrained(folder / name)
    write_owned_card(folder / name)
    return str(push(folder / name, f"{OWNER}/{name}", **options).commit)


def test_pushed_checkpoints_load_as_remote_code_in_a_fresh_process(
    hub: Hub, tmp_path: Path
) -> None:
    """Without the package and without an account."""
    for name in CHECKPOINTS:
        save_and_push(tmp_path, name)
    expected = json.loads(json.dumps(answers.load_and_answer(tmp_path)))
    home, output = tmp_path / "home", tmp_path / "answers.json"
    home.mkdir()
    run_isolated([answers.__file__, OWNER, str(output)], home, hub.environment(home, token=""))
    assert json.loads(output.read_text(encoding="utf-8")) == expected


def test_pushed_checkpoint_loads_with_the_package_and_offline_once_cached(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name or by commit; the package does not fetch the code of the repository."""
    commit = save_and_push(tmp_path)
    first = AutoModelForSequenceClassification.from_pretrained(NAME).state_dict()
    AutoTokenizer.from_pretrained(NAME, trust_remote_code=False)
    got = [request for request in hub.requests if request.startswith("GET ")]
    assert [request for request in got if request.endswith("model.safetensors")]
    assert not [request for request in got if request.endswith("_self_attentive.py")]
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for revision in ("main", commit):
        model = AutoModelForSequenceClassification.from_pretrained(NAME, revision=revision)
        assert all(torch.equal(weight, first[key]) for key, weight in model.state_dict().items())
        AutoTokenizer.from_pretrained(NAME, revision=revision, trust_remote_code=False)
    assert hub.requests == []
