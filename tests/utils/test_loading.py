"""Only a trained checkpoint is shown or measured, and what is wrong with another one is said."""

import math
from pathlib import Path
from typing import Any

import pytest
from checkpoints import save_checkpoint
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig

from sase_hf.utils.loading import load_checkpoint, load_pipeline, name_checkpoints


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_checkpoint(tmp_path_factory.mktemp("loading") / "tiny")


def test_a_checkpoint_is_loaded_ready_to_read(checkpoint: str) -> None:
    """Without dropout, and under its name, which errors tell and a Space looks up."""
    model, tokenizer = load_checkpoint(checkpoint)
    assert not model.training
    assert model.name_or_path == checkpoint
    assert tokenizer.is_fast
    assert load_pipeline(checkpoint)("The soup was cold.")["label"] in ("bad", "good")


@pytest.mark.parametrize("pooling", ["self_attention", "generalized"])
def test_whatever_attends_can_be_shown(pooling: str, tmp_path: Path) -> None:
    """The pages show weights of tokens, whichever pooling gave them."""
    folder = save_checkpoint(tmp_path, pooling=pooling, encoder="cnn")
    assert load_pipeline(folder)("The soup was cold.")["attention"]


def test_what_attends_to_nothing_is_refused(tmp_path: Path) -> None:
    """The message names both poolings that do."""
    folder = save_checkpoint(tmp_path, pooling="mean")
    expected = r"pooling='mean', which attends .* pooling='self_attention' or 'generalized'"
    with pytest.raises(ValueError, match=expected):
        load_pipeline(folder)


def test_a_base_model_is_refused(checkpoint: str, tmp_path: Path) -> None:
    """Its head would be random, and so would every label that it gives."""
    model: Any = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    model.base_model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(tmp_path)
    expected = r"has no weights for classifier\.hidden\.bias, .* Train it, or name a"
    with pytest.raises(ValueError, match=expected):
        load_pipeline(str(tmp_path))


def test_weights_that_are_no_numbers_are_refused(checkpoint: str, tmp_path: Path) -> None:
    """One NaN makes every answer NaN."""
    model: Any = AutoModelForSequenceClassification.from_pretrained(checkpoint)
    model.classifier.output.bias.data[0] = math.nan
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"no finite numbers, in classifier\.output\.bias\. Train"):
        load_checkpoint(str(tmp_path))


def test_what_is_no_checkpoint_is_named(
    checkpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped folder must not be answered with the grammar of names on the Hub."""
    monkeypatch.chdir(Path(checkpoint).parent)
    for name in ("/nowhere/at/all", "./tiny2", "tiny/model.safetensors", "tiny/absent", "a/b/c"):
        with pytest.raises(FileNotFoundError, match=rf"^there is no folder {name}; name the fold"):
            load_checkpoint(name)
    with pytest.raises(OSError, match=r"^cannot load somebody/model, which is no folder here, fro"):
        load_checkpoint("somebody/model")
    BertConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"holds a 'bert' model; name a 'self_attentive' one"):
        load_checkpoint(str(tmp_path))
    weights = Path(save_checkpoint(tmp_path / "cut"), "model.safetensors")
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"^cannot load .*cut: "):
        load_checkpoint(str(tmp_path / "cut"))


def test_names_tell_checkpoints_apart_and_no_more() -> None:
    """They stand in pages that are shared, where a whole path would tell of a machine."""
    named = name_checkpoints(["/shelf/a/model", "/shelf/b/model", "owner/other"])
    assert named == {
        "a/model": "/shelf/a/model",
        "b/model": "/shelf/b/model",
        "other": "owner/other",
    }
    with pytest.raises(ValueError, match=r"2 checkpoints are called one; give each a name"):
        name_checkpoints(["a", "b"], ["one"])
    with pytest.raises(ValueError, match=r"^a, \./a: to compare, each checkpoint must be another"):
        name_checkpoints(["a", "./a"])
