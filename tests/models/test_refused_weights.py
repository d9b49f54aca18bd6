"""Weights that are not those that were saved are refused, by every way in."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import damage
import pytest
import torch
from checkpoints import TEXTS, change_json, change_weights
from isolated import run_isolated
from safetensors.torch import load_file
from tiny import save_both, tiny_model
from tiny_translation import save_translator, tiny_translator
from torch import Tensor
from transformers import AutoModel

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    build_tokenizer,
)
from sase_hf.models import FAMILIES
from sase_hf.utils.loading import load_checkpoint, load_encoder

# A weight of the encoder and one of the head.
NAMES = {
    "self_attentive": ("encoder.embeddings.weight", "classifier.output.bias"),
    "rnnsearch": ("encoder.embeddings.weight", "decoder.readout.bias"),
}
every_family = pytest.mark.parametrize("family", FAMILIES)


def save_head(family: str, folder: Path, **options: Any) -> None:
    if family == "rnnsearch":
        save_translator(folder, TEXTS, **options)
        return
    tokenizer = build_tokenizer(TEXTS)
    model = tiny_model(SelfAttentiveForSequenceClassification, vocab_size=len(tokenizer))
    save_both(folder, model, tokenizer, **options)


def ways_in(family: str, folder: Path) -> dict[str, Callable[[], Any]]:
    known = FAMILIES[family]
    head = next(iter(known.heads.values()))
    ways = damage.ways_in(folder, known.pipeline_task, known.auto_class.__name__)
    return {
        **ways,
        "class": lambda: head.from_pretrained(folder),
        "load_checkpoint": lambda: load_checkpoint(folder),
        "load_encoder": lambda: load_encoder(folder),
    }


def assert_refused(family: str, folder: Path, message: str) -> None:
    """Check that every way in refuses a checkpoint."""
    for load in ways_in(family, folder).values():
        with pytest.raises(ValueError, match=message):
            load()


@pytest.mark.slow
@every_family
def test_truncated_and_bit_flipped_weights_are_refused(family: str, tmp_path: Path) -> None:
    """With the package and by remote code."""
    folder, known = tmp_path / "model", FAMILIES[family]
    save_head(family, folder)
    assert not damage.loaders_of_damaged(folder, ways_in(family, folder))
    words = [damage.__file__, folder, known.pipeline_task, known.auto_class.__name__]
    assert run_isolated(words, tmp_path).splitlines()[-1] == "[]"


DAMAGE: dict[str, tuple[Callable[[dict[str, Tensor], str], object], str]] = {
    "renamed": (
        lambda w, name: w.update({f"{name}_": w.pop(name)}),
        r"weights in .* lack {name}\.",
    ),
    "nan": (
        lambda w, name: w[name].view(-1)[0].fill_(math.nan),
        r"not finite in torch.float32: {name}\.",
    ),
    "another shape": (
        lambda w, name: w.update({name: torch.cat([w[name], w[name]])}),
        r"ignore_mismatched_sizes",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
@every_family
def test_weights_that_the_model_cannot_have_are_refused(
    family: str, kind: str, tmp_path: Path
) -> None:
    """Also where whoever changed them wrote new checksums."""
    save_head(family, tmp_path)
    ways = ways_in(family, tmp_path)
    change, message = DAMAGE[kind]
    whole = load_file(tmp_path / "model.safetensors")
    for name, of_encoder in zip(NAMES[family], (True, False), strict=True):
        change_weights(tmp_path, lambda weights, name=name: change(weights, name))
        for way, load in ways.items():
            if not of_encoder and way in ("AutoModel", "load_encoder"):
                load()  # the base model has no such weight
                continue
            shown = name.removeprefix("encoder.") if way in ("AutoModel", "load_encoder") else name
            with pytest.raises((ValueError, RuntimeError), match=message.format(name=shown)):
                load()
        change_weights(tmp_path, lambda weights: (weights.clear(), weights.update(whole)))


def tiny_head(family: str) -> Any:
    if family == "self_attentive":
        return tiny_model(SelfAttentiveForSequenceClassification)
    return tiny_translator()


@pytest.mark.parametrize("kind", DAMAGE)
@every_family
def test_weights_that_are_handed_over_are_checked_as_those_of_a_file(
    family: str, kind: str
) -> None:
    """The error about other files than safetensors advises to hand the weights over."""
    change, message = DAMAGE[kind]
    head = tiny_head(family)
    for name in NAMES[family]:
        weights = {key: weight.clone() for key, weight in head.state_dict().items()}
        change(weights, name)
        with pytest.raises((ValueError, RuntimeError), match=message.format(name=name)):
            type(head).from_pretrained(None, config=head.config, state_dict=weights)


@every_family
def test_weights_too_large_for_the_type_to_load_them_with_are_refused(
    family: str, tmp_path: Path
) -> None:
    """They would come back as infinities."""
    save_head(family, tmp_path)
    name = NAMES[family][0]
    change_weights(tmp_path, lambda weights: weights[name].view(-1)[0].fill_(70_000))
    load = FAMILIES[family].auto_class.from_pretrained
    with pytest.raises(ValueError, match=rf"not finite in torch.float16: {name}\."):
        load(tmp_path, dtype=torch.float16)
    assert load(tmp_path, dtype=torch.bfloat16).dtype == torch.bfloat16


@every_family
def test_no_quantizer_lets_other_weights_in(family: str, tmp_path: Path) -> None:
    save_head(family, tmp_path)
    change_json(tmp_path / "config.json", quantization_config={"quant_method": "fp8"})
    change_weights(tmp_path, lambda w: w[NAMES[family][0]].view(-1)[0].fill_(math.nan))
    assert_refused(family, tmp_path, "are not finite")


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")
@every_family
def test_other_files_than_safetensors_of_the_folder_are_refused(
    family: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    save_head(family, folder, max_shard_size="2KB")
    load_checkpoint(folder)
    index = folder / "model.safetensors.index.json"
    content = json.loads(index.read_text(encoding="utf-8"))
    shard = content["weight_map"][NAMES[family][0]]
    os.replace(folder / shard, tmp_path / shard)
    for name, place in content["weight_map"].items():
        content["weight_map"][name] = f"../{shard}" if place == shard else place
    index.write_text(json.dumps(content), encoding="utf-8")
    assert_refused(family, folder, rf"'\.\./{shard}', which is no safetensors file")
    index.unlink()
    torch.save({}, folder / "pytorch_model.bin")
    assert_refused(family, folder, r"'pytorch_model\.bin', which is no safetensors")
    save_head(family, folder)
    shard = "shard-00000-model-00001-of-00001.safetensors"
    os.replace(folder / "model.safetensors", folder / shard)
    # transformers 5.15 does not know shards of this kind, and finds the other file.
    assert_refused(family, folder, r"shards of torch\.distributed|no safetensors")


def test_shard_that_the_list_does_not_name_is_refused(tmp_path: Path) -> None:
    model = tiny_head("self_attentive").half()
    model.save_pretrained(tmp_path, max_shard_size="1KB")
    assert AutoModel.from_pretrained(tmp_path).dtype == torch.float16
    sums = tmp_path / "SHA256SUMS"
    lines = sums.read_text(encoding="utf-8").splitlines(True)
    others = [line for line in lines if "model-00001" not in line]
    sums.write_text("".join(others), encoding="utf-8")
    with pytest.raises(ValueError, match=r"00001-of-.* is not as it was saved"):
        AutoModel.from_pretrained(tmp_path)


def test_checkpoint_without_checksums_is_loaded_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_head("self_attentive", tmp_path)
    AutoModel.from_pretrained(tmp_path)
    assert not caplog.messages
    (tmp_path / "SHA256SUMS").unlink()
    for _ in range(2):
        AutoModel.from_pretrained(tmp_path)
    assert [f"{tmp_path} has no SHA256SUMS" in said for said in caplog.messages] == [True]


def test_head_starts_from_another_head_with_a_new_classifier(tmp_path: Path) -> None:
    """Only what the base model lacks may be new."""
    save_head("self_attentive", tmp_path)
    load = SelfAttentiveForNLI.from_pretrained
    load(tmp_path, ignore_mismatched_sizes=True)
    change_weights(tmp_path, lambda weights: weights.pop("encoder.embeddings.weight"))
    with pytest.raises(ValueError, match=r"lack encoder\.embeddings\.weight"):
        load(tmp_path, ignore_mismatched_sizes=True)
