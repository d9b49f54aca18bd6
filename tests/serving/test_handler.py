"""The handler for Inference Endpoints: what it answers and refuses."""

import fcntl
import json
import re
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import PAIRS, TEXTS, assert_same_answers, save_checkpoint
from isolated import run_fresh, run_isolated
from transformers import AutoModel, AutoTokenizer, pipeline

from sase_hf import SelfAttentiveModel, build_tokenizer
from sase_hf.hub.push import prepare
from sase_hf.serving import endpoint_handler
from sase_hf.serving.endpoint_handler import EndpointHandler

AS_PAIRS = [{"text": first, "text_pair": second} for first, second in PAIRS]
# Imports of the package fail.
SERVE = """
import json, sys
sys.modules["sase_hf"] = None
sys.path.insert(0, sys.argv[1])
from handler import EndpointHandler
serve = EndpointHandler(sys.argv[1])
print(json.dumps([serve({"inputs": one}) for one in json.loads(sys.argv[2])]))
"""
ANSWERED: dict[str, list[Any]] = {
    "classifier": [TEXTS[0], TEXTS, "", [], [""], {"text": TEXTS[0]}, ["half \ud83d of one", "b"]],
    "nli": [AS_PAIRS[0], AS_PAIRS[::-1]],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    save_checkpoint(root / "classifier")
    save_checkpoint(root / "nli", is_pair=True)
    save_checkpoint(root / "related", encoder="relation_network")
    SelfAttentiveModel.from_pretrained(root / "classifier").save_pretrained(root / "encoder")
    AutoTokenizer.from_pretrained(root / "classifier").save_pretrained(root / "encoder")
    return root


def test_handler_loads_one_worker_at_a_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transformers copies the code of a checkpoint to a cache of all processes without a lock."""
    lock = tmp_path / "modules" / endpoint_handler.LOCK_NAME

    def take() -> None:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def load(*args: Any, **options: Any) -> Any:
        with pytest.raises(BlockingIOError):
            take()
        return pipeline(*args, **options)

    monkeypatch.setattr(endpoint_handler, "HF_MODULES_CACHE", str(lock.parent))
    monkeypatch.setattr(endpoint_handler, "pipeline", load)
    EndpointHandler(str(root / "classifier"))
    take()


@pytest.mark.slow
def test_handler_names_a_cache_of_code_that_cannot_be_written(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = Path(shutil.copytree(root / "classifier", tmp_path / "model"))
    shutil.copyfile(Path(endpoint_handler.__file__), folder / "handler.py")
    load = SERVE.partition("serve =")[0]
    load += "try:\n    EndpointHandler(sys.argv[1])\nexcept OSError as error:\n    print(error)\n"
    cache = tmp_path / "file" / "modules"
    environment = {"HF_MODULES_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    said = run_fresh(["-c", load, str(folder)], tmp_path, environment)
    assert said.startswith(f"the code of the checkpoint cannot be copied to {cache}: ")
    assert "; set HF_MODULES_CACHE to a folder that can be written" in said


def test_handler_leaves_other_errors_of_files_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*args: Any, **options: Any) -> Any:
        raise OSError("the disk is gone")

    monkeypatch.setattr(endpoint_handler, "HF_MODULES_CACHE", str(tmp_path))
    monkeypatch.setattr(endpoint_handler.AutoConfig, "from_pretrained", load)
    with pytest.raises(OSError, match=r"^the disk is gone$"):
        EndpointHandler(str(tmp_path))


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json"])
def test_handler_refuses_a_foreign_part_of_a_checkpoint(
    root: Path, tmp_path: Path, name: str
) -> None:
    folder = Path(shutil.copytree(root / "classifier", tmp_path / "model"))
    if name == "tokenizer.json":
        build_tokenizer(["other words"]).backend_tokenizer.save(str(folder / name))
    else:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        content |= {"id2label": {"0": "good", "1": "bad"}, "label2id": None}
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{re.escape(name)} .*the weights were|.* saved with"):
        EndpointHandler(str(folder))


@pytest.mark.slow
def test_published_handler_serves_without_the_package(fit: Path, tmp_path: Path) -> None:
    """The server has the files of the repository only, and installs what requirements.txt lists."""
    served = tmp_path / "repository"
    served.mkdir()
    for name, content in prepare(fit, handler=True).files.items():
        (served / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    needed = (served / "requirements.txt").read_text().splitlines()
    assert [line[:5] for line in needed] == ["torch", "trans"]
    assert set(needed) < set(metadata.requires("sase_hf") or ())
    asked = ANSWERED["classifier"]
    printed = run_isolated(["-c", SERVE, str(served), json.dumps(asked)], tmp_path)
    here = EndpointHandler(str(fit))
    assert_same_answers(json.loads(printed), [here({"inputs": one}) for one in asked])


def test_handler_replaces_lone_surrogates_in_both_texts_of_a_pair() -> None:
    """The stock pipeline, which has no sase_hf beside it, fails on them."""
    pair = {"text": "\ud83d a", "text_pair": "b \udc00"}
    repaired = {"text": "\ufffd a", "text_pair": "b \ufffd"}
    assert endpoint_handler._repaired(pair) == repaired


@pytest.mark.parametrize("name", ANSWERED)
def test_handler_answers_as_the_pipeline(root: Path, name: str) -> None:
    serve = EndpointHandler(str(root / name))
    classify = pipeline("text-classification", model=str(root / name))
    for parameters in ({}, {"top_k": None}, {"truncation": True}):
        for inputs in ANSWERED[name]:
            found = serve({"inputs": inputs, "parameters": parameters})
            assert_same_answers(found, [] if inputs == [] else classify(inputs, **parameters))


def test_handler_of_an_encoder_returns_embeddings(root: Path) -> None:
    serve, texts = EndpointHandler(str(root / "encoder")), [*TEXTS, ""]
    model = AutoModel.from_pretrained(root / "encoder")
    tokenizer = AutoTokenizer.from_pretrained(root / "encoder")
    for embedding, text in zip(serve({"inputs": texts}), texts, strict=True):
        with torch.no_grad():
            expected = model(**tokenizer(text, return_tensors="pt")).sentence_embedding[0]
        for found in (embedding, serve({"inputs": text})):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "request_", "expected"),
    [
        ("classifier", {}, r"input 0 \(from 0\) is None; it must be a text"),
        ("classifier", {"inputs": ["a", 7]}, r"input 1 \(from 0\) is 7; it must be a text"),
        ("classifier", {"inputs": "a" * 100_001}, r"100,003 characters; max 100,000"),
        ("classifier", {"inputs": "a", "parameters": {"x": 1}}, r"allowed are top_k, truncation"),
        ("classifier", {"inputs": "a", "parameters": {"top_k": 0}}, r"\"top_k\" is 0; .* integer"),
        ("classifier", {"inputs": [""] * 257}, r"inputs has 257 texts; max 256, send several"),
        ("classifier", ["a"], r"the request is \['a'\]; it must be an object with \"inputs\""),
        ("nli", {"inputs": [AS_PAIRS[0], "a"]}, r"input 1 .*'a'; it must be \{\"text\": \.\.\., "),
        ("encoder", {"inputs": AS_PAIRS[0]}, r"input 0 .*it must be a text"),
        # Its time grows with the square of the length.
        ("related", {"inputs": "a" * 2_001}, r"characters; max 2,000"),
    ],
)
def test_handler_says_why_it_refuses_a_request(
    root: Path, name: str, request_: Any, expected: str
) -> None:
    """The server sends the message with status 400."""
    with pytest.raises(ValueError, match=expected):
        EndpointHandler(str(root / name))(request_)
