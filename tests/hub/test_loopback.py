"""The round trip by way of a Hub: pushed here, loaded by name in a process that has nothing."""

import hashlib
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
from huggingface_hub.errors import (
    EntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import get_session
from loopback_hub import OWNER, READ_TOKEN, TOKEN, Hub
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
    """Push one checkpoint of each kind and say what they answer before they leave."""
    for name in CHECKPOINTS:
        save(tmp_path, name)
        publish(tmp_path / name)
    said: Answers = json.loads(json.dumps(answers.load_and_answer(tmp_path)))
    return said


def stranger_says(home: Path, settings: dict[str, str], *package: str) -> Answers:
    """Let a fresh process load everything by name; `home` holds all that it may keep."""
    output = home / "answers.json"
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-I", answers.__file__, OWNER, str(output), *package]
    environment = {**os.environ, **settings}
    done = subprocess.run(
        command, env=environment, cwd=home, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said: Answers = json.loads(output.read_text(encoding="utf-8"))
    return said


def test_a_stranger_loads_by_name(hub: Hub, expected: Answers, tmp_path: Path) -> None:
    """By trust_remote_code alone, with neither the package nor an account."""
    home = tmp_path / "home"
    assert stranger_says(home, hub.environment(home, token="")) == expected


def test_who_has_the_package_loads_by_name_without_a_flag(
    hub: Hub, expected: Answers, tmp_path: Path
) -> None:
    """The code in the repository is then not run, nor even downloaded."""
    hub.requests.clear()
    home = tmp_path / "home"
    assert stranger_says(home, hub.environment(home), "package") == expected
    got = [request for request in hub.requests if request.startswith("GET ")]
    assert [request for request in got if request.endswith("model.safetensors")]
    assert not [request for request in got if request.endswith("_self_attentive.py")]


def test_a_private_model_loads_with_a_token_alone(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that may read is enough; to all others the repository is not there."""
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


def test_what_was_loaded_once_loads_without_a_network(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the cache, by name or by commit, and without so much as asking."""
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


def test_a_pinned_revision_stays_what_it_was(hub: Hub, tmp_path: Path) -> None:
    """By the commit or by a tag, whatever is pushed afterwards."""
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


def test_what_is_not_there_is_told(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slip in a name, a private repository, a file that was never pushed."""
    name = f"{OWNER}/classifier"
    save(tmp_path, "classifier")
    publish(tmp_path / "classifier")
    with pytest.raises(OSError, match=r"someone/clasifier is not a local folder and is not a"):
        AutoTokenizer.from_pretrained(f"{OWNER}/clasifier", trust_remote_code=False)
    with pytest.raises(RepositoryNotFoundError, match="Repository Not Found"):
        HfApi().model_info(f"{OWNER}/clasifier")
    with pytest.raises(RevisionNotFoundError, match="Revision Not Found"):
        HfApi().model_info(name, revision="v9")
    with pytest.raises(EntryNotFoundError, match="Entry Not Found"):
        HfApi().hf_hub_download(name, "vectors.txt")
    hub.repositories[name].private = True
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no_token"))
    with pytest.raises(OSError, match=r"private repository.*hf auth login|not a valid model"):
        AutoModelForSequenceClassification.from_pretrained(name, cache_dir=tmp_path / "other")


def test_the_hub_of_these_tests_answers_like_one(hub: Hub, tmp_path: Path) -> None:
    """What the tests above rest on: who asks, names of commits, and parts of files."""
    api = HfApi()
    assert api.whoami()["name"] == OWNER
    api.create_repo(f"{OWNER}/files")
    content = bytes(range(256)) * 10
    commit = api.upload_file(
        path_or_fileobj=content, path_in_repo="a.safetensors", repo_id=f"{OWNER}/files"
    ).oid
    api.create_tag(f"{OWNER}/files", tag="v1")
    refs = api.list_repo_refs(f"{OWNER}/files")
    assert [(ref.name, ref.target_commit) for ref in refs.branches] == [("main", commit)]
    assert [(ref.name, ref.target_commit) for ref in refs.tags] == [("v1", commit)]
    # A download that broke off goes on where it stopped.
    url = f"{hub.address}/{OWNER}/files/resolve/v1/a.safetensors"
    session = get_session()
    asked = {"Range": "bytes=100-", "Authorization": f"Bearer {TOKEN}"}
    there = session.get(url, headers=asked, follow_redirects=False)
    assert (there.status_code, there.headers["X-Repo-Commit"]) == (302, commit)
    assert there.headers["X-Linked-Etag"] == f'"{hashlib.sha256(content).hexdigest()}"'
    part = session.get(there.headers["Location"], headers={"Range": "bytes=100-"})
    assert (part.status_code, part.content) == (206, content[100:])
    # What is not changed is not sent again, and what is deleted is gone.
    again = {"path_or_fileobj": content, "path_in_repo": "a.safetensors"}
    assert api.upload_file(repo_id=f"{OWNER}/files", **again).oid == commit
    api.delete_file("a.safetensors", f"{OWNER}/files")
    assert hub.files(f"{OWNER}/files").keys() == {".gitattributes"}
