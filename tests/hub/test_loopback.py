"""The round trip through the Hub: pushed here, loaded by name in a fresh process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import answers
import pytest
import torch
from checkpoints import write_owned_card
from huggingface_hub import HfApi, constants
from loopback_hub import OWNER, READ_TOKEN, Hub
from tiny import tiny_model
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedModel

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
)
from sase_hf.hub import push

RATINGS, RELATIONS = ["bad", "fair", "good"], ["entailment", "neutral", "contradiction"]
CHECKPOINTS: dict[str, tuple[type[PreTrainedModel], dict[str, Any]]] = {
    "base": (SelfAttentiveModel, {}),
    "classifier": (SelfAttentiveForSequenceClassification, {"id2label": dict(enumerate(RATINGS))}),
    "nli": (SelfAttentiveForNLI, {"id2label": dict(enumerate(RELATIONS))}),
    "cnn": (
        SelfAttentiveForSequenceClassification,
        {"id2label": dict(enumerate(RATINGS)), "encoder": "cnn", "pooling": "generalized"},
    ),
}
Answers = dict[str, Any]


def publish(folder: Path) -> str:
    """Push a checkpoint under the name of its folder; return the commit."""
    write_owned_card(folder)
    commit = push(folder, f"{OWNER}/{folder.name}").commit
    assert commit is not None
    return commit


def save(folder: Path, name: str) -> None:
    """Save a tiny checkpoint with random weights."""
    words = [*answers.TEXTS, *(text for pair in answers.PAIRS for text in pair.values())]
    tokenizer = build_tokenizer(text for text in words if text)
    model_class, fields = CHECKPOINTS[name]
    model = tiny_model(model_class, vocab_size=len(tokenizer), **fields)
    model.save_pretrained(folder / name)
    tokenizer.save_pretrained(folder / name)


@pytest.fixture
def expected(hub: Hub, tmp_path: Path) -> Answers:
    """Push one checkpoint of each kind; return the answers of the local ones."""
    for name in CHECKPOINTS:
        save(tmp_path, name)
        publish(tmp_path / name)
    answered: Answers = json.loads(json.dumps(answers.load_and_answer(tmp_path)))
    return answered


def answers_of_fresh_process(home: Path, settings: dict[str, str], *package: str) -> Answers:
    """Let a fresh process load everything by name; its caches are in `home`."""
    output = home / "answers.json"
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-I", answers.__file__, OWNER, str(output), *package]
    environment = {**os.environ, **settings}
    done = subprocess.run(
        command, env=environment, cwd=home, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answered: Answers = json.loads(output.read_text(encoding="utf-8"))
    return answered


@pytest.mark.slow
def test_pushed_checkpoints_load_by_trust_remote_code_alone(
    hub: Hub, expected: Answers, tmp_path: Path
) -> None:
    """With neither the package nor an account."""
    home = tmp_path / "home"
    assert answers_of_fresh_process(home, hub.environment(home, token="")) == expected


@pytest.mark.slow
def test_pushed_checkpoints_load_with_the_package_and_without_their_code(
    hub: Hub, expected: Answers, tmp_path: Path
) -> None:
    """The code in the repository is not even downloaded."""
    hub.requests.clear()
    home = tmp_path / "home"
    assert answers_of_fresh_process(home, hub.environment(home), "package") == expected
    got = [request for request in hub.requests if request.startswith("GET ")]
    assert [request for request in got if request.endswith("model.safetensors")]
    assert not [request for request in got if request.endswith("_self_attentive.py")]


def test_private_checkpoint_loads_only_with_a_token(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that may read is enough."""
    save(tmp_path, "classifier")
    write_owned_card(tmp_path / "classifier")
    push(tmp_path / "classifier", f"{OWNER}/classifier", private=True)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(OSError, match=r"(?s)someone/classifier is not a.*pass a token having"):
        AutoModelForSequenceClassification.from_pretrained(f"{OWNER}/classifier")
    model = AutoModelForSequenceClassification.from_pretrained(
        f"{OWNER}/classifier", token=READ_TOKEN
    )
    assert list(model.config.id2label.values()) == RATINGS


def test_pushed_checkpoint_loads_offline_once_cached(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name or by commit, without a request."""
    save(tmp_path, "classifier")
    commit = publish(tmp_path / "classifier")
    name = f"{OWNER}/classifier"
    first = AutoModelForSequenceClassification.from_pretrained(name).state_dict()
    AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for revision in ("main", commit):
        model = AutoModelForSequenceClassification.from_pretrained(name, revision=revision)
        assert all(torch.equal(weight, first[key]) for key, weight in model.state_dict().items())
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=False)
        assert len(tokenizer) == model.config.vocab_size
    assert hub.requests == []
    with pytest.raises(OSError, match=r"someone/nli.*cached|cached.*someone/nli|offline"):
        AutoModelForSequenceClassification.from_pretrained(f"{OWNER}/nli")


def test_pinned_revision_does_not_change(hub: Hub, tmp_path: Path) -> None:
    """By commit or tag, whatever is pushed afterwards."""
    name = f"{OWNER}/classifier"
    commits, models = [], []
    for _ in range(2):
        save(tmp_path, "classifier")
        commits.append(publish(tmp_path / "classifier"))
        folder = tmp_path / "classifier"
        models.append(AutoModelForSequenceClassification.from_pretrained(folder).state_dict())
    HfApi().create_tag(name, tag="v1", revision=commits[0])
    assert not torch.equal(*(weights["classifier.output.weight"] for weights in models))
    for revision, weights in ((commits[0], models[0]), ("v1", models[0]), ("main", models[1])):
        loaded = AutoModelForSequenceClassification.from_pretrained(
            name, revision=revision, cache_dir=tmp_path / revision
        )
        for key, weight in loaded.state_dict().items():
            assert torch.equal(weight, weights[key]), (revision, key)
    with pytest.raises(OSError, match=r"no-such-branch is not a valid git identifier"):
        AutoModelForSequenceClassification.from_pretrained(name, revision="no-such-branch")
