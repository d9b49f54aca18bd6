"""The round trip through the Hub: pushed here, loaded by name in a fresh process."""

import json
from pathlib import Path

import pytest
from checkpoints import TEXTS
from huggingface_hub import constants
from isolated import run_fresh
from loopback_hub import OWNER, Hub
from runs import same_weights
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from sase_hf.hub import push

pytestmark = pytest.mark.slow

NAME = f"{OWNER}/classifier"
ANSWER = """
import json, sys
from transformers import pipeline
explain = pipeline("self-attention", sys.argv[1], trust_remote_code=True)
print(json.dumps(explain(json.loads(sys.argv[2]))))
"""


def test_pushed_checkpoint_answers_as_remote_code_in_a_fresh_process(
    hub: Hub, folder: Path, tmp_path: Path
) -> None:
    """Without the package and without an account."""
    push(folder, NAME)
    expected = pipeline("self-attention", folder)(TEXTS)
    home = tmp_path / "home"
    home.mkdir()
    words = ["-c", ANSWER, NAME, json.dumps(TEXTS)]
    printed = run_fresh(words, home, hub.environment(home, token=""))
    assert json.loads(printed) == json.loads(json.dumps(expected))


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
        assert same_weights(model.state_dict(), first)
        AutoTokenizer.from_pretrained(NAME, revision=revision, trust_remote_code=False)
    assert hub.requests == []
