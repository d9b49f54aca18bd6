"""Only trained, whole checkpoints are loaded; the errors for others say what to do."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import change_weights, save_checkpoint
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig

from sase_hf import SelfAttentiveModel
from sase_hf.utils.loading import (
    load_checkpoint,
    load_encoder,
    load_pipeline,
    name_checkpoints,
    reraise_naming,
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_checkpoint(tmp_path_factory.mktemp("loading") / "tiny")


def test_load_checkpoint_gives_an_evaluating_model_with_its_name(checkpoint: str) -> None:
    """Errors and pages show the name."""
    model, _ = load_checkpoint(checkpoint, must_attend=True)
    assert not model.training
    assert model.name_or_path == checkpoint
    assert load_pipeline(checkpoint)("The soup was cold.")["label"] in ("bad", "good")
    assert type(load_encoder(checkpoint)[0]) is SelfAttentiveModel
    with pytest.raises(ValueError, match=r"is a folder; leave the revision 'v1' out"):
        load_encoder(checkpoint, "v1")


def test_load_pipeline_needs_a_head_with_attention(checkpoint: str, tmp_path: Path) -> None:
    """The classifier of a base model would be random, and so would every label."""
    attending = save_checkpoint(tmp_path / "cnn", pooling="generalized", encoder="cnn")
    assert load_pipeline(attending)("The soup was cold.")["attention"]
    averaging = save_checkpoint(tmp_path / "mean", pooling="mean")
    load_checkpoint(averaging)
    with pytest.raises(ValueError, match=r"'mean', which attends .*'self_attention' or 'general"):
        load_pipeline(averaging)
    model: Any = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    base = str(tmp_path / "base")
    model.base_model.save_pretrained(base)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(base)
    assert type(load_checkpoint(base)[0]) is SelfAttentiveModel
    with pytest.raises(ValueError, match=r"a base model without a classifier; train one from it"):
        load_pipeline(base)


def test_strict_load_checkpoint_refuses_unexpected_weights(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path)
    change_weights(tmp_path, lambda weights: weights.update({"optimizer.step": torch.ones(1)}))
    load_checkpoint(folder)
    with pytest.raises(ValueError, match=r"weights that the model does not: optimizer\.step\. "):
        load_checkpoint(folder, strict=True)


def test_load_checkpoint_names_what_is_not_a_checkpoint(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt folder is not looked for on the Hub."""
    monkeypatch.chdir(Path(checkpoint).parent)
    for name in ("/nowhere/at/all", "./tiny2", "tiny/model.safetensors", "tiny/absent", "a/b/c"):
        with pytest.raises(FileNotFoundError, match=rf"^there is no folder {name}; name the fold"):
            load_checkpoint(name)
    with pytest.raises(OSError, match=r"^cannot load somebody/model from the Hub \(there is no s"):
        load_checkpoint("somebody/model")
    BertConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"holds a 'bert' model; name a 'self_attentive' or"):
        load_checkpoint(str(tmp_path))
    weights = Path(save_checkpoint(tmp_path / "cut"), "model.safetensors")
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"^cannot load .*cut: "):
        load_checkpoint(str(tmp_path / "cut"))


@pytest.mark.parametrize(
    ("file", "name"),
    [("config.json", "per_layer_config"), ("config.json", "dtype"), ("tokenizer.json", "model")],
)
def test_load_checkpoint_names_a_file_of_other_types(file: str, name: str, tmp_path: Path) -> None:
    """Whatever transformers and tokenizers raise, also without a message."""
    folder = save_checkpoint(tmp_path)
    path = tmp_path / file
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, name: [1]}), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^cannot load {folder}: ."):
        load_checkpoint(folder)
    with pytest.raises(ValueError, match=r"^cannot load x: KeyError"), reraise_naming("x"):
        raise KeyError


def test_name_checkpoints_uses_the_shortest_names_that_differ() -> None:
    """Pages are shared, and a whole path would tell of a machine."""
    paths = ["/shelf/a/model", "/shelf/b/model", "owner/other"]
    assert list(name_checkpoints(paths)) == ["a/model", "b/model", "owner/other"]
    assert name_checkpoints(["owner/other"]) == {"other": "owner/other"}
    assert "a/model" in name_checkpoints(["runs/a/model", "b"]), '"model" tells nothing'
    with pytest.raises(ValueError, match=r"2 checkpoints are called one; give each a name"):
        name_checkpoints(["a", "b"], ["one"])
    with pytest.raises(ValueError, match=r"^a, \./a: the same checkpoint twice"):
        name_checkpoints(["a", "./a"])
