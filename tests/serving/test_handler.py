"""The handler for Inference Endpoints: pushed on request, and what it answers and refuses."""

import importlib.util
import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType
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
from sase_hf.serving.endpoint_handler import (
    MAX_CHARACTERS,
    MAX_RELATED_CHARACTERS,
    MAX_TEXTS,
    _batches,
)

NAME = f"{OWNER}/rooms"
AS_PAIRS = [{"text": first, "text_pair": second} for first, second in PAIRS]
ANSWERED: list[Any] = [TEXTS[0], TEXTS, "", [], [""], AS_PAIRS[0], [TEXTS[1], AS_PAIRS[0]]]


def load_handler(folder: Path, file: Path = HANDLER) -> Any:
    """Start the handler as the server does: the class of a file, with the path of a folder."""
    spec = importlib.util.spec_from_file_location("handler.EndpointHandler", file)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.EndpointHandler(str(folder))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(save_checkpoint(tmp_path_factory.mktemp("served") / "classifier"))


@pytest.fixture(scope="module")
def serve(classifier: Path) -> Any:
    return load_handler(classifier)


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


def test_what_was_pushed_serves_where_only_transformers_is(
    folder: Path, hub: Hub, tmp_path: Path
) -> None:
    """The server has the repository, no package of ours, and calls the class as here."""
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
    said = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=json.dumps(ANSWERED),
        env={"HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert said.returncode == 0, said.stderr[-4000:]
    here = load_handler(folder)
    for one, other in zip(json.loads(said.stdout), ANSWERED, strict=True):
        assert_same_answers(one, here({"inputs": other}))


# ---- what it answers -----------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"top_k": None}, {"top_k": 1}, {"truncation": True}])
def test_a_request_gets_the_answers_of_the_pipeline(
    serve: Any, classifier: Path, parameters: dict[str, Any]
) -> None:
    """A text, a list, a pair, an empty text: as `pipeline` says it, in the order of the request."""
    classify = pipeline("text-classification", model=str(classifier))
    for inputs in ANSWERED:
        found = serve({"inputs": inputs, "parameters": parameters})
        expected = classify(inputs, **parameters) if inputs else []
        assert_same_answers(found, classify("", **parameters) if inputs == "" else expected)
        json.dumps(found, allow_nan=False)


def test_pairs_get_the_answers_of_the_pipeline(nli: Path) -> None:
    """One pair, a list of them, and none."""
    serve, classify = load_handler(nli), pipeline("text-classification", model=str(nli))
    for inputs in (AS_PAIRS[0], AS_PAIRS[::-1]):
        assert_same_answers(serve({"inputs": inputs}), classify(inputs))
        everything = {"inputs": inputs, "parameters": {"top_k": None}}
        assert_same_answers(serve(everything), classify(inputs, top_k=None))
    assert serve({"inputs": []}) == []


def test_an_encoder_gives_embeddings(encoder: Path) -> None:
    """A list of numbers for a text, a list of such for a list."""
    serve = load_handler(encoder)
    model, tokenizer = AutoModel.from_pretrained(encoder), AutoTokenizer.from_pretrained(encoder)
    found = serve({"inputs": [*TEXTS, ""]})
    assert isinstance(found[0][0], float)
    for embedding, text in zip(found, [*TEXTS, ""], strict=True):
        with torch.no_grad():
            expected = model(**tokenizer(text, return_tensors="pt")).sentence_embedding[0]
        np.testing.assert_allclose(embedding, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(serve({"inputs": text}), expected, rtol=1e-5, atol=1e-6)
    assert serve({"inputs": []}) == []


def test_the_same_request_gets_the_same_answer(serve: Any) -> None:
    """Dropout is off, and a request takes nothing from those before it."""
    first = serve({"inputs": TEXTS, "parameters": {"top_k": None}})
    serve({"inputs": TEXTS[0]})
    assert serve({"inputs": TEXTS, "parameters": {"top_k": None}}) == first
    assert not serve.model.training


def test_what_is_read_together_is_bounded() -> None:
    """One long text must not make padding of all the short ones beside it."""
    assert list(_batches([10, 60_000, 0, 30_000, 40_000, 5])) == [[1], [4, 3], [0, 5, 2]]
    assert list(_batches([0, 0])) == [[0, 1]]


# ---- what it refuses -----------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": ({}, r'the request has no "inputs"; give a text'),
    "a number": ({"inputs": 7}, r"input 0 \(counted from 0\) is 7; it must be a text, or a pair"),
    "no text": ({"inputs": None}, r"input 0 .* is None; it must be a text"),
    "lists of texts": ({"inputs": [["a", "b"]]}, r"input 0 .*; it must be a text, or a pair"),
    "no object": (None, r'the request has no "inputs"; give a text'),
    "half a pair": (
        {"inputs": ["a", {"text_pair": "a"}]},
        r"input 1 .*; it must be a text, or a pair",
    ),
    "other keys": ({"inputs": {"premise": "a"}}, r"input 0 .*; it must be a text, or a pair"),
    "too many": ({"inputs": ["a"] * 1_001}, r"1,001 inputs, and may have 1,000; send several"),
    "too long": ({"inputs": "a" * 100_001}, r"100,001 characters, and it may have 100,000; send"),
    "long in all": ({"inputs": ["ab" * 60] * 900}, r"108,000 characters, and may have 100,000"),
    "a long pair": ({"inputs": {"text": "a" * 60_000, "text_pair": "b" * 60_000}}, r"120,000 char"),
    "unknown parameter": (
        {"inputs": "a", "parameters": {"padding": True}},
        r"\"parameters\" is .*padding.*; it may hold top_k and truncation",
    ),
    "parameters of another kind": ({"inputs": "a", "parameters": [1]}, r"\"parameters\" is \[1\]"),
    "no number": (
        {"inputs": "a", "parameters": {"top_k": "all"}},
        r"top_k is 'all'; send a number",
    ),
    "none of them": (
        {"inputs": "a", "parameters": {"top_k": 0}},
        r"top_k is 0; send a number from",
    ),
    "no truth": ({"inputs": "a", "parameters": {"truncation": 8}}, r"truncation is 8; send true"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_that_cannot_be_answered_is_told_why(serve: Any, case: str) -> None:
    """The server sends the message of any exception with status 400, so it must explain itself."""
    request, expected = REFUSED[case]
    with pytest.raises(ValueError, match=expected):
        serve(request)


def test_the_wrong_number_of_texts_is_refused(nli: Path, encoder: Path) -> None:
    """The pipeline would compare a lone text with nothing, and give a score for that."""
    with pytest.raises(ValueError, match=r"input 1 .* one text, and this model compares two; send"):
        load_handler(nli)({"inputs": [AS_PAIRS[0], "a"]})
    with pytest.raises(ValueError, match=r"input 0 .* is a pair, and this model embeds one text"):
        load_handler(encoder)({"inputs": AS_PAIRS[0]})
    with pytest.raises(ValueError, match=r"may hold truncation"):
        load_handler(encoder)({"inputs": "a", "parameters": {"top_k": 1}})


def test_the_largest_request_is_answered(serve: Any) -> None:
    """The limits are promises as well, made in the README."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"{MAX_TEXTS:,} texts or {MAX_CHARACTERS:,} characters" in readme
    assert len(serve({"inputs": ["a " * 49] + ["a"] * 999})) == 1_000


def test_a_text_that_a_relation_network_would_read_for_minutes_is_refused(tmp_path: Path) -> None:
    """Its time grows with the square of the length, so the limit in all bounds nothing."""
    serve = load_handler(Path(save_checkpoint(tmp_path / "related", encoder="relation_network")))
    assert len(serve({"inputs": ["a " * 1_000] * 2})) == 2
    with pytest.raises(
        ValueError, match=r"input 1 .*2,001 characters, and it may have 2,000; send"
    ):
        serve({"inputs": ["a", "a" * 2_001]})
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"{MAX_RELATED_CHARACTERS:,} of one text for a relation network" in readme


def test_half_a_character_is_read_as_none(serve: Any) -> None:
    """JSON can carry a lone surrogate, and one of them must not spoil a whole request."""
    assert serve({"inputs": ["Good \ud800!"]}) == serve(
        {"inputs": ["Good \N{REPLACEMENT CHARACTER}!"]}
    )
    assert serve({"inputs": {"text": "Good!"}}) == serve({"inputs": "Good!"})
