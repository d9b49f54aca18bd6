"""The round trip through the Hub: pushed here, loaded by name in a fresh process."""

import json
from pathlib import Path

import answers
import pytest
import torch
from checkpoints import KINDS, save_kinds, write_owned_card
from huggingface_hub import constants
from isolated import run_fresh
from loopback_hub import OWNER, Hub
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from sase_hf.hub import push

pytestmark = pytest.mark.slow

NAME = f"{OWNER}/classifier"


def test_pushed_checkpoints_load_as_remote_code_in_a_fresh_process(
    hub: Hub, tmp_path: Path
) -> None:
    """Without the package and without an account."""
    save_kinds(tmp_path)
    for name in KINDS:
        write_owned_card(tmp_path / name)
        push(tmp_path / name, f"{OWNER}/{name}")
    expected = json.loads(json.dumps(answers.load_and_answer(tmp_path)))
    home, output = tmp_path / "home", tmp_path / "answers.json"
    home.mkdir()
    run_fresh([answers.__file__, OWNER, str(output)], home, hub.environment(home, token=""))
    assert json.loads(output.read_text(encoding="utf-8")) == expected


def test_pushed_checkpoint_loads_with_the_package_and_offline_once_cached(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name or by commit; the package does not fetch the code of the repository."""
    commit = str(push(folder, NAME).commit)
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
