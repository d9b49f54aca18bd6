"""Checkpoints in a fresh process, offline, with and without the package."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import answers
import pytest
import torch
from isolated import run_isolated
from tiny import tiny_config, tiny_model
from transformers import AutoModel, AutoModelForSequenceClassification, pipeline

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
    build_tokenizer,
)
from sase_hf.models import FAMILIES

NLI_LABELS = dict(enumerate(["entailment", "neutral", "contradiction"]))
# A base model, all heads, and a classifier of another architecture with a list in its config. The
# first four share the sizes of their encoder.
KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "base": (SelfAttentiveModel, {}),
    "classifier": (SelfAttentiveForSequenceClassification, {"num_labels": 3}),
    "nli": (SelfAttentiveForNLI, {"id2label": NLI_LABELS}),
    "retrieval": (SelfAttentiveForRetrieval, {}),
    "cnn": (
        SelfAttentiveForSequenceClassification,
        {"encoder": "cnn", "cnn_kernel_sizes": [2, 3], "pooling": "generalized"},
    ),
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The checkpoints, and the models' answers before they were saved, as JSON keeps them."""
    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("checkpoints")
    words = [*answers.TEXTS, *(text for pair in answers.PAIRS for text in pair.values())]
    tokenizer = build_tokenizer(text for text in words if text)
    models: dict[str, Any] = {}
    for name, (kind, fields) in KINDS.items():
        models[name] = tiny_model(kind, vocab_size=len(tokenizer), **fields)
        models[name].save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    models |= {f"base of {name}": models[name].encoder for name in ("classifier", "nli")}
    return root, json.loads(json.dumps(answers.answers_of_models(models, tokenizer)))


@pytest.fixture(scope="module")
def folder(checkpoints: tuple[Path, dict[str, Any]]) -> Path:
    return checkpoints[0]


@pytest.mark.slow
def test_checkpoints_answer_bit_equal_with_the_package_and_by_remote_code(
    checkpoints: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Offline, the latter in a fresh process that cannot import the package."""
    folder, of_models = checkpoints
    before = set(sys.modules)
    with_package = json.loads(json.dumps(answers.load_and_answer(folder)))
    loaded = [name for name in set(sys.modules) - before if name.startswith("transformers_mod")]
    assert not loaded, "the package's own code answers"
    assert with_package | of_models == with_package

    output = tmp_path / "answers.json"
    run_isolated([answers.__file__, str(folder), str(output)], tmp_path)
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found.keys() == with_package.keys()
    assert not [name for name in found if found[name] != with_package[name]]


@pytest.mark.parametrize("name", KINDS)
def test_checkpoint_carries_the_code_and_the_full_auto_map(folder: Path, name: str) -> None:
    """A head's checkpoint serves AutoModel too, and a head can start from a base model's."""
    kind = KINDS[name][0]
    head = SelfAttentiveForSequenceClassification if name == "base" else kind
    files = {path.name for path in (folder / name).iterdir()}
    code = FAMILIES["self_attentive"].files.keys()
    assert files >= code | {"config.json", "model.safetensors", "tokenizer.json"}
    assert not [file for file in files if file.endswith((".bin", ".pt", ".pkl"))]
    config = json.loads((folder / name / "config.json").read_text(encoding="utf-8"))
    assert config["auto_map"] == {
        "AutoConfig": "configuration_self_attentive.SelfAttentiveConfig",
        "AutoModel": "modeling_self_attentive.SelfAttentiveModel",
        "AutoModelForSequenceClassification": f"modeling_self_attentive.{head.__name__}",
    }
    auto_class = AutoModel if name == "base" else AutoModelForSequenceClassification
    model = auto_class.from_pretrained(folder / name)
    assert type(model) is kind, "the heads share one Auto class; `architectures` decides"
    assert name != "nli" or model.config.id2label == NLI_LABELS


def test_new_models_of_the_auto_classes_are_base_model_and_classifier() -> None:
    fresh = AutoModelForSequenceClassification.from_config(tiny_config())
    assert type(fresh) is SelfAttentiveForSequenceClassification
    assert type(AutoModel.from_config(tiny_config())) is SelfAttentiveModel


def test_saving_forgets_the_repository_a_config_came_from(tmp_path: Path) -> None:
    """Loading makes it `user/repo--module.Class`; a copy must use its own code."""
    config = tiny_config()
    config.auto_map = {"AutoModel": "someone/else--modeling_self_attentive.SelfAttentiveModel"}
    model = SelfAttentiveModel(config)
    model.save_pretrained(tmp_path)
    assert "--" not in (tmp_path / "config.json").read_text(encoding="utf-8")
    model.save_pretrained(tmp_path / "none", is_main_process=False)
    assert not list((tmp_path / "none").glob("*")), "only the main process writes"


def test_loading_reads_nothing_that_a_config_names(folder: Path, tmp_path: Path) -> None:
    """Paths, URLs and trust flags in config.json have no effect on what is opened."""
    hostile = Path(shutil.copytree(folder / "classifier", tmp_path / "hostile"))
    bait = tmp_path / "bait.txt"
    bait.write_text("secret", encoding="utf-8")
    config = json.loads((hostile / "config.json").read_text(encoding="utf-8"))
    config |= {
        "_name_or_path": str(bait),
        "auto_map": {"AutoModelForSequenceClassification": f"{tmp_path}--bait.Model"},
        "custom_pipelines": {"self-attention": {"impl": "bait.Pipeline", "pt": []}},
        "trust_remote_code": True,
        "word_vectors": str(bait),
        "weights_url": bait.as_uri(),
    }
    (hostile / "config.json").write_text(json.dumps(config), encoding="utf-8")
    opened: list[str] = []
    watched = ["open"]  # a hook cannot be removed
    sys.addaudithook(lambda event, args: event in watched and opened.append(str(args[0])))
    AutoModelForSequenceClassification.from_pretrained(hostile)
    pipeline("self-attention", model=str(hostile))
    watched.clear()
    assert str(hostile / "config.json") in opened
    assert not [name for name in opened if Path(name).stem == "bait"]
