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
from loopback_hub import OWNER, TOKEN, Hub
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
Answers = dict[str, Any]


def save_and_push(folder: Path, name: str = "classifier", **options: Any) -> str:
    words = [*answers.TEXTS, *(text for pair in answers.PAIRS for text in pair.values())]
    tokenizer = build_tokenizer(text for text in words if text)
    model_class, fields = CHECKPOINTS[name]
    model = tiny_model(model_class, vocab_size=len(tokenizer), **fields)
    model.save_pretrained(folder / name)
    tokenizer.save_pretrained(folder / name)
    write_owned_card(folder / name)
    return str(push(folder / name, f"{OWNER}/{name}", **options).commit)


@pytest.fixture
def expected(hub: Hub, tmp_path: Path) -> Answers:
    for name in CHECKPOINTS:
        save_and_push(tmp_path, name)
    answered: Answers = json.loads(json.dumps(answers.load_and_answer(tmp_path)))
    return answered


def test_pushed_checkpoints_load_as_remote_code_in_a_fresh_process(
    hub: Hub, expected: Answers, tmp_path: Path
) -> None:
    """Without the package and without an account."""
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


def test_pushed_weights_that_changed_are_refused(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A repository without checksums loads with a warning."""
    save_and_push(tmp_path)
    files = dict(hub.files(NAME))
    whole = files["model.safetensors"]
    files["model.safetensors"] = whole[:-1] + bytes([whole[-1] ^ 1])
    hub.repositories[NAME].add_commit("main", files, "flip a bit")
    with pytest.raises(ValueError, match=r"model\.safetensors is not as it was saved"):
        AutoModelForSequenceClassification.from_pretrained(NAME)
    del files["SHA256SUMS"]
    hub.repositories[NAME].add_commit("main", files, "forget it")
    assert not caplog.messages
    AutoModelForSequenceClassification.from_pretrained(NAME)
    assert f"{NAME} has no SHA256SUMS" in caplog.text


def test_private_checkpoint_loads_only_with_a_token(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_and_push(tmp_path, private=True)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(OSError, match=r"(?s)someone/classifier is not a.*pass a token having"):
        AutoModelForSequenceClassification.from_pretrained(NAME)
    model = AutoModelForSequenceClassification.from_pretrained(NAME, token=TOKEN)
    assert model.config.id2label == RATINGS


def test_pinned_revision_does_not_change(hub: Hub, tmp_path: Path) -> None:
    """Whatever is pushed afterwards."""
    commits = [save_and_push(tmp_path), save_and_push(tmp_path)]
    biases = [
        AutoModelForSequenceClassification.from_pretrained(
            NAME, revision=revision, cache_dir=tmp_path / revision
        ).classifier.output.bias
        for revision in (*commits, "main")
    ]
    assert not torch.equal(biases[0], biases[1])
    assert torch.equal(biases[1], biases[2])
