"""The handler for Inference Endpoints: pushed on request, what it answers and refuses."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import PAIRS, TEXTS, assert_same_answers, save_checkpoint
from loopback_hub import OWNER, Hub
from script_files import load_script
from transformers import AutoModel, AutoTokenizer, pipeline

from sase_hf import SelfAttentiveModel
from sase_hf.hub import push
from sase_hf.hub.checks import HANDLER
from sase_hf.serving.endpoint_handler import EndpointHandler

NAME = f"{OWNER}/rooms"
AS_PAIRS = [{"text": first, "text_pair": second} for first, second in PAIRS]
ANSWERED: list[Any] = [TEXTS[0], TEXTS, "", [], [""], AS_PAIRS[0], [TEXTS[1], AS_PAIRS[0]]]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(save_checkpoint(tmp_path_factory.mktemp("served") / "classifier"))


@pytest.fixture(scope="module")
def serve(classifier: Path) -> EndpointHandler:
    return EndpointHandler(str(classifier))


@pytest.fixture(scope="module")
def nli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(save_checkpoint(tmp_path_factory.mktemp("served") / "nli", is_pair=True))


@pytest.fixture(scope="module")
def encoder(classifier: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "encoder"
    SelfAttentiveModel.from_pretrained(classifier).save_pretrained(folder)
    AutoTokenizer.from_pretrained(classifier).save_pretrained(folder)
    return folder


# ---- how it gets there ---------------------------------------------------------------------------


def test_the_handler_is_pushed_on_request_alone(folder: Path, hub: Hub) -> None:
    """It is code that runs on a server; nobody gets it who did not ask for it."""
    push(folder, NAME)
    assert "handler.py" not in hub.files(NAME)
    load_script("push").main([str(folder), NAME, "--handler"])
    held = hub.files(NAME)
    assert held["handler.py"] == HANDLER.read_bytes()
    assert not (folder / "handler.py").exists(), "the folder itself is left alone"


def test_the_server_is_told_which_versions_the_model_needs(folder: Path) -> None:
    """The server brings older ones, and installs what requirements.txt lists."""
    files = push(folder, NAME, handler=True, dry_run=True).publication.files
    lines = files["requirements.txt"].decode().splitlines()
    assert [line[:5] for line in lines] == ["torch", "trans"]
    assert set(lines) < set(metadata.requires("sase_hf") or ())


@pytest.mark.parametrize("name", ["handler.py", "requirements.txt"])
def test_a_handler_of_somebody_else_is_not_passed_over(folder: Path, name: str) -> None:
    """It is neither overwritten in the repository nor published unread."""
    (folder / name).write_text("import os\n", encoding="utf-8")
    done = push(folder, NAME, dry_run=True)
    assert name in done.publication.left_out
    with pytest.raises(ValueError, match=rf"^{name} in .* Take it away, or leave --handler out"):
        push(folder, NAME, dry_run=True, handler=True)


# ---- what it answers -----------------------------------------------------------------------------


@pytest.mark.slow
def test_pushed_handler_serves_without_the_package(folder: Path, hub: Hub, tmp_path: Path) -> None:
    """The server has the files of the repository only."""
    push(folder, NAME, handler=True)
    served = tmp_path / "repository"
    served.mkdir()
    for name, content in hub.files(NAME).items():
        (served / name).write_bytes(content)
    code = (
        "import importlib.util, json, sys\n"
        "sys.modules['sase_hf'] = None  # an import of it now fails\n"
        f"folder = {str(served)!r}\n"
        "spec = importlib.util.spec_from_file_location('handler', folder + '/handler.py')\n"
        "handler = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(handler)\n"
        "serve = handler.EndpointHandler(folder)\n"
        "requests = json.loads(sys.stdin.read())\n"
        "print(json.dumps([serve({'inputs': one}) for one in requests]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=json.dumps(ANSWERED),
        env={"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    here = EndpointHandler(str(folder))
    for one, other in zip(json.loads(done.stdout), ANSWERED, strict=True):
        assert_same_answers(one, here({"inputs": other}))


@pytest.mark.parametrize("parameters", [{}, {"top_k": None}, {"top_k": 1}, {"truncation": True}])
def test_handler_answers_as_the_pipeline(
    serve: Any, classifier: Path, parameters: dict[str, Any]
) -> None:
    classify = pipeline("text-classification", model=str(classifier))
    for inputs in ANSWERED:
        found = serve({"inputs": inputs, "parameters": parameters})
        assert_same_answers(found, [] if inputs == [] else classify(inputs, **parameters))
        json.dumps(found, allow_nan=False)


def test_handler_answers_pairs_as_the_pipeline(nli: Path) -> None:
    serve = EndpointHandler(str(nli))
    classify = pipeline("text-classification", model=str(nli))
    for inputs in (AS_PAIRS[0], AS_PAIRS[::-1]):
        for parameters in ({}, {"top_k": None}):
            found = serve({"inputs": inputs, "parameters": parameters})
            assert_same_answers(found, classify(inputs, **parameters))


def test_handler_of_an_encoder_returns_embeddings(encoder: Path) -> None:
    serve = EndpointHandler(str(encoder))
    model, tokenizer = AutoModel.from_pretrained(encoder), AutoTokenizer.from_pretrained(encoder)
    texts = [*TEXTS, ""]
    for embedding, text in zip(serve({"inputs": texts}), texts, strict=True):
        with torch.no_grad():
            expected = model(**tokenizer(text, return_tensors="pt")).sentence_embedding[0]
        np.testing.assert_allclose(embedding, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(serve({"inputs": text}), expected, rtol=1e-5, atol=1e-6)
    assert serve({"inputs": []}) == []


def test_handler_reads_fewer_texts_at_once_if_one_is_long(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padded to its length, they would take more memory than the largest text allowed."""
    sizes = []
    forward = serve.pipeline.model.forward

    def watched(input_ids: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        sizes.append(len(input_ids))
        return forward(input_ids, *args, **kwargs)

    monkeypatch.setattr(serve.pipeline.model, "forward", watched)
    serve({"inputs": ["a" * 30_000] + ["a"] * 8})
    assert sizes == [3, 3, 3]


def test_handler_reads_a_lone_surrogate_as_an_unknown_character(serve: Any) -> None:
    """JSON can hold one, and it must not spoil the other inputs."""
    known = serve({"inputs": ["Good \N{REPLACEMENT CHARACTER}!", "a"]})
    assert serve({"inputs": ["Good \ud800!", "a"]}) == known


# ---- what it refuses -----------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str]] = {
    "no inputs": ({}, r'the request has no "inputs"; send a text'),
    "no object": (None, r'the request has no "inputs"; send a text'),
    "a number": ({"inputs": 7}, r"input 0 \(counted from 0\) is 7; it must be a text, or a pair"),
    "lists of texts": ({"inputs": [["a", "b"]]}, r"input 0 .*; it must be a text, or a pair"),
    "half a pair": (
        {"inputs": ["a", {"text_pair": "a"}]},
        r"input 1 .*; it must be a text, or a pair",
    ),
    "too many": ({"inputs": ["a"] * 1_001}, r"the request has 1,001 inputs; max 1,000"),
    "too long": ({"inputs": "a" * 100_001}, r"an input has 100,001 characters; max 100,000"),
    "too long in all": ({"inputs": ["ab" * 60] * 900}, r"has 108,000 characters; max 100,000"),
    "unknown parameter": (
        {"inputs": "a", "parameters": {"padding": True}},
        r"\"parameters\" is .*padding.*; allowed are top_k, truncation",
    ),
    "parameters of another kind": ({"inputs": "a", "parameters": [1]}, r"\"parameters\" is \[1\]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_handler_says_why_it_refuses_a_request(serve: Any, case: str) -> None:
    """The server sends the message with status 400."""
    request, expected = REFUSED[case]
    with pytest.raises(ValueError, match=expected):
        serve(request)


def test_handler_refuses_the_wrong_number_of_texts(nli: Path, encoder: Path) -> None:
    """The pipeline would compare a lone text with nothing, and give a score for that."""
    with pytest.raises(ValueError, match=r"input 1 .* has 1 text\(s\), and this model reads 2"):
        EndpointHandler(str(nli))({"inputs": [AS_PAIRS[0], "a"]})
    with pytest.raises(ValueError, match=r"input 0 .* has 2 text\(s\), and this model reads 1"):
        EndpointHandler(str(encoder))({"inputs": AS_PAIRS[0]})


def test_handler_limits_the_inputs_of_a_relation_network(tmp_path: Path) -> None:
    """Its time grows with the square of the length."""
    folder = save_checkpoint(tmp_path / "related", encoder="relation_network")
    serve = EndpointHandler(folder)
    assert len(serve({"inputs": ["a " * 200] * 2})) == 2
    with pytest.raises(ValueError, match=r"an input has 2,001 characters; max 2,000"):
        serve({"inputs": ["a", "a" * 2_001]})
