"""Published checkpoints: with the package, by remote code, and in sentence-transformers."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import answers
import numpy as np
import pytest
import torch
from checkpoints import KINDS, TEXTS, change_json, save_kinds
from isolated import run_isolated
from sentence_transformers import SentenceTransformer
from tiny import tiny_config
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    pipeline,
)

from sase_hf import SelfAttentiveModel


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The checkpoints, and the models' answers before they were saved, as JSON keeps them."""
    root = tmp_path_factory.mktemp("checkpoints")
    models, tokenizer = save_kinds(root)
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
    assert not [name for name in loaded if "modeling" in name], "the package's own code answers"
    assert with_package | of_models == with_package

    output = tmp_path / "answers.json"
    run_isolated([answers.__file__, folder, output], tmp_path)
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found.keys() == with_package.keys()
    assert not [name for name in found if found[name] != with_package[name]]


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
    hostile = shutil.copytree(folder / "classifier", tmp_path / "hostile")
    bait = tmp_path / "bait.txt"
    bait.write_text("secret", encoding="utf-8")
    change_json(
        hostile / "config.json",
        _name_or_path=str(bait),
        auto_map={"AutoModelForSequenceClassification": f"{tmp_path}--bait.Model"},
        custom_pipelines={"self-attention": {"impl": "bait.Pipeline", "pt": []}},
        trust_remote_code=True,
        word_vectors=str(bait),
        weights_url=bait.as_uri(),
    )
    opened = []
    watched = ["open"]  # a hook cannot be removed
    sys.addaudithook(lambda event, args: event in watched and opened.append(str(args[0])))
    AutoModelForSequenceClassification.from_pretrained(hostile)
    pipeline("self-attention", model=hostile)
    watched.clear()
    assert str(hostile / "config.json") in opened
    assert not [name for name in opened if Path(name).stem == "bait"]


# Texts of many lengths, an empty one and one of an unknown word.
MANY = [*TEXTS, "", "zebra", *(" ".join(TEXTS[:count]) for count in range(1, 5))]


def embeddings(folder: Path, texts: list[str]) -> np.ndarray:
    """Return the embeddings of the base model, one text at a time."""
    model = AutoModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    batches = [tokenizer(text, return_tensors="pt") for text in texts]
    with torch.no_grad():
        return torch.cat([model(**batch).sentence_embedding for batch in batches]).numpy()


@pytest.mark.parametrize("name", KINDS)
def test_sentence_transformer_embeddings_equal_the_models(
    folder: Path, name: str, tmp_path: Path
) -> None:
    """In any order and batch, and bit for bit after another save."""
    # The `modules.json` of a ranker names a class that the checkpoint brings.
    options: dict[str, Any] = {"device": "cpu", "trust_remote_code": name == "retrieval"}
    encoder = SentenceTransformer(str(folder / name), **options)
    expected = embeddings(folder / name, MANY)
    assert encoder.get_embedding_dimension() == expected.shape[1]
    for batch_size in (1, 3):
        found = encoder.encode(MANY[::-1], batch_size=batch_size)
        np.testing.assert_allclose(found, expected[::-1], rtol=1e-5, atol=1e-6)
    assert len(encoder.encode([])) == 0
    encoder.save_pretrained(tmp_path)
    again = SentenceTransformer(str(tmp_path), **options)
    np.testing.assert_array_equal(again.encode(MANY), encoder.encode(MANY))
    similarity = encoder.similarity(expected, expected).numpy()
    assert (similarity[MANY.index("")] == 0).all(), "an empty text is like nothing"
