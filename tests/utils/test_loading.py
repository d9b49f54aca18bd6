"""Only trained, whole checkpoints are loaded; the errors for others say what to do."""

from pathlib import Path

import pytest
import torch
from checkpoints import change_weights, save_checkpoint

from sase_hf import SelfAttentiveModel, build_tokenizer
from sase_hf.utils.loading import (
    load_checkpoint,
    load_encoder,
    load_pipeline,
    name_checkpoints,
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_checkpoint(tmp_path_factory.mktemp("loading") / "tiny")


def test_load_checkpoint_gives_an_evaluating_model_with_its_name(checkpoint: str) -> None:
    """Errors and pages show the name."""
    model, _ = load_checkpoint(checkpoint)
    assert (model.training, model.name_or_path) == (False, checkpoint)
    assert load_pipeline(checkpoint)("The soup was cold.")["label"] in ("bad", "good")


def test_load_pipeline_needs_a_head(checkpoint: str, tmp_path: Path) -> None:
    """The classifier of a base model would be random, and so would every label."""
    for part in load_encoder(checkpoint):
        part.save_pretrained(tmp_path)
    assert type(load_checkpoint(tmp_path)[0]) is SelfAttentiveModel
    with pytest.raises(ValueError, match=rf"cannot load {tmp_path}: it has no labels, or attends"):
        load_pipeline(tmp_path)


def test_load_checkpoint_refuses_unexpected_weights_if_strict(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path)
    change_weights(tmp_path, lambda weights: weights.update({"optimizer.step": torch.ones(1)}))
    load_checkpoint(folder)
    with pytest.raises(ValueError, match=r"weights that the model does not: optimizer\.step\. "):
        load_checkpoint(folder, strict=True)


def test_load_checkpoint_refuses_a_tokenizer_with_more_words_than_vectors(tmp_path: Path) -> None:
    """The tokenizer is another model's, so that the words it shares have the vectors of others."""
    folder = save_checkpoint(tmp_path)
    build_tokenizer([f"w{number}" for number in range(5_000)]).save_pretrained(folder)
    with pytest.raises(ValueError, match=r"it has ids up to 5,\d+, the model \d+ w"):
        load_checkpoint(folder)


def test_name_checkpoints_tells_little_of_a_machine() -> None:
    """Pages are shared."""
    paths = ["/shelf/a/model", "/shelf/b/model", "owner/other"]
    assert list(name_checkpoints(paths)) == ["a/model", "b/model", "owner/other"]
