"""What is not fit to be public is refused, each time with a way out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import change_weights

from sase_hf import build_tokenizer
from sase_hf.hub.checks import prepare

TOKEN = "hf_" + "aB3" * 11  # in parts, so that no scanner takes it for real


def change_json(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **fields}), encoding="utf-8")


def replace_text(path: Path, old: str, new: str) -> None:
    """Replace a part of a file, which must be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def set_pipeline(folder: Path, reference: str) -> None:
    """Let a config say that its pipeline's code is elsewhere."""
    pipelines = json.loads((folder / "config.json").read_text(encoding="utf-8"))["custom_pipelines"]
    pipelines["self-attention"]["impl"] = reference
    change_json(folder / "config.json", custom_pipelines=pipelines)


def set_auto_map(folder: Path, reference: str) -> None:
    """Let a config say that its model's code is elsewhere."""
    auto_map = json.loads((folder / "config.json").read_text(encoding="utf-8"))["auto_map"]
    change_json(folder / "config.json", auto_map={**auto_map, "AutoModel": reference})


OTHER_CODE = r" in .*not what this version of sase_hf writes.*save it with save_pretrained"
UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (shutil.rmtree, r"there is no folder .*; name the folder of a checkpoint"),
    "no config": (lambda f: (f / "config.json").unlink(), r"cannot load .*config\.json"),
    "no card": (lambda f: (f / "README.md").unlink(), r"no .*README\.md; write .*write_model_card"),
    "changed code": (
        lambda f: (f / "pooling_self_attentive.py").write_text("import os\n", encoding="utf-8"),
        rf"^pooling_self_attentive\.py{OTHER_CODE}",
    ),
    "no code": (
        lambda f: (f / "pooling_self_attentive.py").unlink(),
        rf"^pooling_self_attentive\.py{OTHER_CODE}",
    ),
    "other modules": (
        lambda f: (f / "modules.json").write_text("[]", encoding="utf-8"),
        rf"^modules\.json{OTHER_CODE}",
    ),
    "modules that are not JSON": (
        lambda f: (f / "modules.json").write_text("{", encoding="utf-8"),
        r"modules\.json is not JSON .*save_pretrained",
    ),
    "code of another repository": (
        lambda f: set_auto_map(f, "else/where--modeling_self_attentive.SelfAttentiveModel"),
        rf"^auto_map in config\.json{OTHER_CODE}",
    ),
    "pipeline of another repository": (
        lambda f: set_pipeline(f, "else/where--pipeline.Pipeline"),
        rf"^custom_pipelines in config\.json{OTHER_CODE}",
    ),
    "tokenizer of another repository": (
        lambda f: change_json(
            f / "tokenizer_config.json", auto_map={"AutoTokenizer": [None, "else/where--t.T"]}
        ),
        rf"^auto_map in tokenizer_config\.json{OTHER_CODE}",
    ),
    "no licence": (
        lambda f: replace_text(f / "README.md", "license: mit\n", ""),
        r"README\.md lacks .* license: apache-2\.0$",
    ),
    "broken front matter": (
        lambda f: replace_text(f / "README.md", "license: mit", "license: [mit"),
        r"cannot read the front matter of .*README\.md: ",
    ),
    "unnamed labels": (
        lambda f: change_json(
            f / "config.json",
            id2label={"0": "LABEL_0", "1": "LABEL_1"},
            label2id={"LABEL_0": 0, "LABEL_1": 1},
        ),
        r"labels are called LABEL_0, LABEL_1\. .*--label_names.*id2label",
    ),
    "another kind of model": (
        lambda f: change_json(f / "config.json", model_type="bert"),
        r"cannot load .*holds a 'bert' model",
    ),
    "NaN": (
        lambda f: change_weights(f, lambda w: w["classifier.output.bias"].fill_(torch.nan)),
        r"not finite, in classifier\.output\.bias",
    ),
    "missing weights": (
        lambda f: change_weights(f, lambda w: w.pop("classifier.output.bias")),
        r"no weights for classifier\.output\.bias",
    ),
    "unexpected weights": (
        lambda f: change_weights(f, lambda w: w.update({"optimizer.step": torch.ones(1)})),
        r"weights that the model does not: optimizer\.step\. .*save_pretrained",
    ),
    "cut weights": (
        lambda f: (f / "model.safetensors").write_bytes(b"half"),
        r"cannot load ",
    ),
    "no tokenizer": (
        lambda f: [path.unlink() for path in f.glob("tokenizer*.json")],
        r"cannot load ",
    ),
    "tokenizer of another model": (
        lambda f: build_tokenizer([" ".join(f"w{i}" for i in range(99))]).save_pretrained(f),
        r"has 10\d words, the model \d+; put the tokenizer there",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_prepare_refuses_unfit_checkpoint(folder: Path, case: str) -> None:
    spoil, expected = UNFIT[case]
    spoil(folder)
    with pytest.raises((ValueError, OSError), match=expected):
        prepare(folder)


def test_prepare_refuses_pickled_weights(folder: Path) -> None:
    """They would pass the checks, but only safetensors go up."""
    state = {"classifier.output.bias": torch.zeros(2)}
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises((ValueError, OSError), match=r"no model\.safetensors in .*save_pretrained"):
        prepare(folder)


@pytest.mark.parametrize("name", ["README.md", "config.json"])
def test_prepare_refuses_token_in_text_and_does_not_repeat_it(folder: Path, name: str) -> None:
    """Error messages are kept in logs."""
    if name == "config.json":
        change_json(folder / name, note=f"x\n{TOKEN}")
    else:
        with open(folder / name, "a", encoding="utf-8") as file:
            file.write(f"# {TOKEN}\n")
    with pytest.raises(ValueError, match=rf"^{name} in .* holds a Hugging Face token") as refused:
        prepare(folder)
    assert TOKEN not in str(refused.value)
