"""What is not fit to be public, and how each of it is told."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import change_weights
from loopback_hub import OWNER, TOKEN
from safetensors.torch import load_file, save_file

from sase_hf import build_tokenizer
from sase_hf.hub.checks import prepare
from sase_hf.hub.public_files import PUBLIC_NAMES

NAME = f"{OWNER}/rooms"
# In parts, so that no scanner takes them for real.
SECRETS = {
    "a Hugging Face token": "hf_" + "aB3" * 11,
    "a GitHub token": "ghp_" + "aB3" * 12,
    "an AWS access key": "AKIA" + "Z3" * 8,
    "an API key": "sk-" + "proj-" + "aB3" * 8,
    "a private key": "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
}


def change_json(path: Path, **fields: Any) -> None:
    """Change fields of a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **fields}), encoding="utf-8")


def replace_text(path: Path, old: str, new: str) -> None:
    """Change what stands in a file, which must stand there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_stops_the_push_and_is_not_repeated(folder: Path, name: str, kind: str) -> None:
    """What was public for a minute is public; and an error message is kept in logs."""
    path = folder / name
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[4] += f" {SECRETS[kind]} "
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^{name}, line 5, holds what looks like {kind}") as told:
        prepare(folder, NAME)
    assert SECRETS[kind] not in str(told.value)


def set_pipeline(folder: Path, reference: str) -> None:
    """Let a config say that its pipeline's code lies elsewhere."""
    pipelines = json.loads((folder / "config.json").read_text(encoding="utf-8"))["custom_pipelines"]
    pipelines["self-attention"]["impl"] = reference
    change_json(folder / "config.json", custom_pipelines=pipelines)


def add_metadata(folder: Path) -> None:
    """Put a token where nobody looks: into the header of the weights."""
    path = folder / "model.safetensors"
    save_file(load_file(path), path, {"hub_token": SECRETS["a Hugging Face token"]})


def set_auto_map(folder: Path, reference: str) -> None:
    """Let a config say that its model's code lies elsewhere."""
    auto_map = json.loads((folder / "config.json").read_text(encoding="utf-8"))["auto_map"]
    change_json(folder / "config.json", auto_map={**auto_map, "AutoModel": reference})


def link_card(folder: Path) -> None:
    """Put a link in the place of the card."""
    target = (folder / "README.md").rename(folder.parent / "elsewhere.md")
    (folder / "README.md").symlink_to(target)


def index_outside(folder: Path) -> None:
    """Write an index of weights that leads out of the folder."""
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {"classifier.output.bias": "../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


OTHER_CODE = r"not what this version of sase_hf writes.*save it with save_pretrained"
UNFIT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (lambda f: (f / "config.json").unlink(), r"no config\.json in .*save_pretrained"),
    "no card": (lambda f: (f / "README.md").unlink(), r"no README\.md in .*write_model_card"),
    "link": (link_card, r"README\.md in .* is no plain file"),
    "changed code": (
        lambda f: (f / "pooling_self_attentive.py").write_text("import os\n", encoding="utf-8"),
        rf"^pooling_self_attentive\.py: {OTHER_CODE}",
    ),
    "no code": (
        lambda f: (f / "pooling_self_attentive.py").unlink(),
        rf"^pooling_self_attentive\.py: {OTHER_CODE}",
    ),
    "other modules": (
        lambda f: (f / "modules.json").write_text("[]", encoding="utf-8"),
        rf"^modules\.json: {OTHER_CODE}",
    ),
    "code of another repository": (
        lambda f: set_auto_map(f, "else/where--modeling_self_attentive.SelfAttentiveModel"),
        rf"^auto_map in config\.json: {OTHER_CODE}",
    ),
    "a class that is not there": (
        lambda f: set_auto_map(f, "modeling_self_attentive.NoSuchModel"),
        rf"^auto_map in config\.json: {OTHER_CODE}",
    ),
    "a pipeline of another repository": (
        lambda f: set_pipeline(f, "else/where--pipeline.Pipeline"),
        rf"^custom_pipelines in config\.json: {OTHER_CODE}",
    ),
    "a tokenizer of another repository": (
        lambda f: change_json(
            f / "tokenizer_config.json", auto_map={"AutoTokenizer": [None, "else/where--t.T"]}
        ),
        rf"^auto_map in tokenizer_config\.json: {OTHER_CODE}",
    ),
    "no auto_map": (
        lambda f: change_json(f / "config.json", auto_map={}),
        r"^auto_map in config\.json: ",
    ),
    "no JSON": (
        lambda f: (f / "modules.json").write_text("{", encoding="utf-8"),
        r"^modules\.json is no JSON .*save_pretrained",
    ),
    "no licence": (
        lambda f: replace_text(f / "README.md", "license: mit\nlanguage: en\n", ""),
        r"README\.md lacks .* license: apache-2\.0, language: en$",
    ),
    "an empty licence": (
        lambda f: replace_text(f / "README.md", "license: mit", 'license: ""'),
        r"README\.md lacks .* license: apache-2\.0$",
    ),
    "a card in Latin-1": (
        lambda f: (f / "README.md").write_bytes("Z\u00fcrich".encode("latin-1")),
        r"README\.md is no text in UTF-8 .*save it as one",
    ),
    "a token in UTF-16": (
        lambda f: (f / "vocab.txt").write_text(TOKEN, encoding="utf-16-le"),
        r"vocab\.txt holds the character NUL",
    ),
    "a token in the header of the weights": (
        add_metadata,
        r"^model\.safetensors, line 1, holds what looks like a Hugging Face token",
    ),
    "placeholder": (
        lambda f: replace_text(
            f / "README.md", "## Limits", "## Limits\n[More Information Needed]"
        ),
        r"README\.md still has a placeholder, 'more information needed'; fill it in",
    ),
    "broken front matter": (
        lambda f: replace_text(f / "README.md", "license: mit", "license: [mit"),
        r"the front matter of README\.md cannot be read: ",
    ),
    "unnamed labels": (
        lambda f: change_json(
            f / "config.json",
            id2label={"0": "LABEL_0", "1": "LABEL_1"},
            label2id={"LABEL_0": 0, "LABEL_1": 1},
        ),
        r"labels are called LABEL_0, LABEL_1, .*--label_names.*id2label",
    ),
    "a config that contradicts itself": (
        lambda f: change_json(f / "config.json", num_hops=7),
        r"cannot load .*projection_dim is 24",
    ),
    "another kind of model": (
        lambda f: change_json(f / "config.json", model_type="bert"),
        r"cannot load .*holds a 'bert' model",
    ),
    "NaN": (
        lambda f: change_weights(f, lambda w: w["classifier.output.bias"].fill_(torch.nan)),
        r"no finite numbers, in classifier\.output\.bias",
    ),
    "missing weights": (
        lambda f: change_weights(f, lambda w: w.pop("classifier.output.bias")),
        r"no weights for classifier\.output\.bias",
    ),
    "more than the weights": (
        lambda f: change_weights(f, lambda w: w.update({"optimizer.step": torch.ones(1)})),
        r"weights for optimizer\.step, which is none of the model's\. .*save_pretrained",
    ),
    "no weights but a pickle": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        r"no model\.safetensors; .*save_pretrained",
    ),
    "a part of other weights": (
        lambda f: shutil.copy(f / "model.safetensors", f / "model-00001-of-00009.safetensors"),
        r"beside model\.safetensors lie other weights: .*00001-of-00009.* Delete those",
    ),
    "half the weights": (
        lambda f: (f / "model.safetensors").write_bytes(b"half"),
        r"cannot load ",
    ),
    "no tokenizer": (
        lambda f: [(f / n).unlink() for n in PUBLIC_NAMES if "tokenizer" in n and (f / n).exists()],
        r"cannot load ",
    ),
    "another tokenizer": (
        lambda f: build_tokenizer([" ".join(f"w{i}" for i in range(99))]).save_pretrained(f),
        r"knows 10\d words, the model \d+; put the tokenizer there",
    ),
    "index that leads out": (index_outside, r"index\.json names \.\./secret\.safetensors, which"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_is_not_fit_to_be_public_is_refused(folder: Path, case: str) -> None:
    """Better here, with a way out, than found by a stranger; and before anything is sent."""
    spoil, expected = UNFIT[case]
    spoil(folder)
    with pytest.raises((ValueError, FileNotFoundError), match=expected):
        prepare(folder, NAME)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rooms", r"'rooms' does not say whose it is; name the repository OWNER/NAME"),
        ("a/b/c", r"'a/b/c' is no name of a repository"),
        ("a/..", r"'a/\.\.' is no name of a repository"),
    ],
)
def test_a_name_that_is_none_is_refused(folder: Path, name: str, expected: str) -> None:
    """Without an owner the Hub would take one by itself."""
    with pytest.raises(ValueError, match=expected):
        prepare(folder, name)
