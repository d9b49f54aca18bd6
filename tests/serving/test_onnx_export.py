"""Exports for ONNX Runtime: exact at any length, complete or absent, read without torch."""

import importlib
import json
import multiprocessing
import random
import re
import shutil
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import (
    PAIRS,
    TEXTS,
    assert_same_answers,
    change_json,
    change_weights,
    save_checkpoint,
    write_owned_card,
)
from isolated import run_fresh
from loopback_hub import OWNER, Hub
from script_files import load_command
from tiny import BERT, ON_BERT, exports, pair_batch, random_pairs
from transformers import AutoModel, AutoModelForSequenceClassification, pipeline

from sase_hf import (
    SelfAttentiveModel,
)
from sase_hf.hub.push import push
from sase_hf.models.checkpoint import list_files
from sase_hf.serving import onnx_export, onnx_predictor
from sase_hf.serving.onnx_export import export
from sase_hf.serving.onnx_predictor import Predictor

# The exporter is slow on a busy machine.
pytestmark = [exports, pytest.mark.slow, pytest.mark.timeout(900)]

NAMES = dict(enumerate("abcdefghijkl"))  # the names of ids of two digits are no longer in order
# Each export compares its graph with the model. Only one here can have an LSTM: a second one in a
# process has a fixed length.
KINDS: dict[str, dict[str, Any]] = {
    "classifier": {
        "num_lstm_layers": 2,
        "lstm_shortcuts": True,
        "id2label": NAMES,
        "linear_part": "words_and_pairs",
    },
    "nli": {"encoder": "cnn", "matching": "concat", "is_pair": True, "linear_part": "words"},
    "encoder": {"encoder": "relation_network", "relation_weights": "sigmoid", "pooling": "max"},
    "bert": {
        **ON_BERT,
        "encoder_config": {**BERT, "num_hidden_layers": 1, "max_position_embeddings": 300},
    },
}
ANSWERING = ("classifier", "nli", "encoder")
LONG = " ".join(TEXTS) * 20  # the model does not read it whole
HARD = [*TEXTS, "", "[PAD] and bread", LONG]
INPUTS: dict[str, list[Any]] = {
    "classifier": [*HARD, {"text": "Good!", "text_pair": "Bread?"}],
    "nli": [
        *({"text": first, "text_pair": second} for first, second in PAIRS),
        {"text": LONG, "text_pair": TEXTS[0]},
        {"text": "", "text_pair": "Someone sings."},
        {"text": "", "text_pair": ""},
    ],
    "encoder": HARD,
}


def export_into(root: Path, name: str) -> None:
    load_command("export").main([str(root / name), str(root / "onnx" / name)])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("export")
    for name, fields in KINDS.items():
        save_checkpoint(root / name, **fields)
    SelfAttentiveModel.from_pretrained(root / "encoder").save_pretrained(root / "encoder")
    context = multiprocessing.get_context("forkserver")
    # One process for all, since most of the time goes into its imports.
    with ProcessPoolExecutor(1, context) as pool, pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_export, "ProcessPoolExecutor", lambda *_: nullcontext(pool))
        for name in KINDS:
            export_into(root, name)
    return root


def load(root: Path, name: str) -> Any:
    auto_class = AutoModel if name == "encoder" else AutoModelForSequenceClassification
    return auto_class.from_pretrained(root / name).eval()


@pytest.mark.parametrize("name", ANSWERING)
def test_export_writes_all_files_and_no_private_path(root: Path, name: str) -> None:
    folder = root / "onnx" / name
    needed = "model.onnx config.json tokenizer.json tokenizer_config.json export.json predictor.py"
    assert {path.name for path in folder.iterdir()} == set(needed.split())
    for path in folder.iterdir():
        for private in (root, Path(onnx_export.__file__).parents[2], Path(torch.__file__).parent):
            assert str(private).encode() not in path.read_bytes(), path.name
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert not {"auto_map", "custom_pipelines"} & config.keys(), "the code is not in the folder"


@pytest.mark.parametrize("name", KINDS)
def test_graph_equals_the_model_at_any_length_and_padding(root: Path, name: str) -> None:
    """In all outputs, also for an empty row and for a single token."""
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(root / "onnx" / name / "model.onnx")
    model, rng = load(root, name), random.Random(0)
    for count, padding, extra in ((0, "right", 0), (5, "left", 3), (8, "holed", 220)):
        pairs = [*random_pairs(rng, count), ([], []) if count else ([1], [])]
        batch = pair_batch(pairs, padding, rng, extra)
        with torch.no_grad():
            outputs = model(**batch, output_attentions=True)
        names = [tensor.name for tensor in session.get_inputs()]
        found = session.run(None, {name: batch[name].numpy() for name in names})
        answer = "sentence_embedding" if name == "encoder" else "logits"
        attends = ["attentions"] if outputs.attentions else []
        assert [tensor.name for tensor in session.get_outputs()] == [answer, *attends]
        expected = [outputs[answer], *(outputs.attentions or ())]
        for one, other in zip(found, expected, strict=True):
            # float32 sums in another order: an error in proportion to the largest number.
            error = 1e-5 * max(1.0, float(other.abs().max()))
            torch.testing.assert_close(torch.from_numpy(one), other, rtol=1e-5, atol=error)


def use_graph(monkeypatch: pytest.MonkeyPatch, graph: Path) -> None:
    """Let the slow export copy this graph."""
    monkeypatch.setattr(onnx_export, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    monkeypatch.setattr(
        onnx_export,
        "_write_graph",
        lambda model, path: shutil.copyfile(graph, path),
    )


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("other weights", r"model\.onnx differs by \d.*; max 1e-05; nothing was written"),
        ("one length only", r"(?s)cannot export .*; nothing was written"),
        ("failure", r"cannot export .*missing\.onnx.*sase_hf\[onnx\]' -c constraints\.txt"),
    ],
)
def test_export_writes_nothing_without_a_graph_that_equals_the_model(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, expected: str
) -> None:
    checkpoint, graph = root / "classifier", root / "onnx/classifier/model.onnx"
    if fault == "other weights":
        checkpoint = shutil.copytree(checkpoint, tmp_path / "other")
        change_weights(checkpoint, lambda weights: weights["classifier.output.bias"].add_(1e-3))
    elif fault == "one length only":
        onnx = importlib.import_module("onnx")
        fixed = onnx.load(graph)
        for tensor in fixed.graph.input:
            tensor.type.tensor_type.shape.dim[1].dim_value = 16
        onnx.save(fixed, graph := tmp_path / "fixed.onnx")
    else:
        graph = tmp_path / "missing.onnx"
    use_graph(monkeypatch, graph)
    with pytest.raises(ValueError, match=expected):
        export(checkpoint, tmp_path / "onnx")
    assert {path.name for path in tmp_path.iterdir()} <= {"other", "fixed.onnx"}


@pytest.mark.parametrize("problem_type", ["multi_label_classification", "regression"])
def test_predictor_follows_the_problem_type(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem_type: str
) -> None:
    """Scores are sigmoids or values instead of softmax."""
    other = shutil.copytree(root / "classifier", tmp_path / "classifier")
    change_json(other / "config.json", problem_type=problem_type)
    use_graph(monkeypatch, root / "onnx/classifier/model.onnx")
    export(other, tmp_path / "onnx")
    classify = pipeline("text-classification", model=str(other))
    assert_same_answers(Predictor(tmp_path / "onnx")(TEXTS), classify(TEXTS, top_k=None))


@pytest.mark.parametrize("name", ANSWERING[:2])
def test_predictor_answers_as_the_pipeline(root: Path, name: str) -> None:
    predict = Predictor(root / "onnx" / name)
    classify = pipeline("text-classification", model=str(root / name))
    assert_same_answers(predict(INPUTS[name]), classify(INPUTS[name], top_k=None))
    for one in (INPUTS[name][0], INPUTS[name][-1]):
        assert_same_answers(predict(one), classify(one, top_k=None))
    assert predict([]) == []


def test_predictor_embeds_in_order(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_predictor, "BATCH_SIZE", 2)
    predict = Predictor(root / "onnx/encoder")
    model = load(root, "encoder")
    assert predict([]).shape == (0, model.config.projection_dim)
    for embedding, text in zip(predict(INPUTS["encoder"]), INPUTS["encoder"], strict=True):
        np.testing.assert_allclose(embedding, predict(text), rtol=1e-5, atol=1e-6)
        encoding = predict.tokenizer.encode(text)
        with torch.no_grad():
            expected = model(torch.tensor([encoding.ids], dtype=torch.long)).sentence_embedding[0]
        np.testing.assert_allclose(embedding, expected, rtol=1e-5, atol=1e-5)


def test_predictor_runs_without_torch(root: Path) -> None:
    """A server needs onnxruntime, tokenizers and numpy only."""
    folder = root / "onnx/nli"
    absent = dict.fromkeys(("torch", "transformers", "sase_hf", "datasets", "huggingface_hub"))
    code = f"import runpy, sys; sys.modules |= {absent}; del sys.argv[0]; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    printed = run_fresh(["-c", code, str(folder / "predictor.py"), *PAIRS[0]], root, {})
    expected = Predictor(folder)({"text": PAIRS[0][0], "text_pair": PAIRS[0][1]})
    assert_same_answers(json.loads(printed), expected)


@pytest.mark.parametrize(
    "name",
    ["model.onnx", "config.json", "tokenizer.json", "tokenizer_config.json"],
)
def test_predictor_refuses_a_file_of_another_export(root: Path, name: str) -> None:
    """And a missing one, and a folder without the record of the export."""
    folder = shutil.copytree(root / "onnx/classifier", root / "changed" / name)
    (folder / name).write_bytes((root / "onnx/nli" / name).read_bytes() + b" ")
    message = rf"{re.escape(name)} is not as it was exported: .* not in export\.json.*export again"
    with pytest.raises(ValueError, match=message):
        Predictor(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=message):
        Predictor(folder)
    (folder / "export.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"export\.json"):
        Predictor(folder)


def test_push_onnx_sends_the_export_that_a_checkpoint_lists(
    root: Path, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second command exports anew; new weights are sent without an old export."""
    folder = shutil.copytree(root / "classifier", tmp_path / "model")
    write_owned_card(folder)
    use_graph(monkeypatch, root / "onnx/classifier/model.onnx")
    name = f"{OWNER}/rooms"
    for _ in range(2):
        load_command("push").main([str(folder), name, "--onnx", "--dry_run"])
    assert not hub.requests
    (folder / "onnx/notes.txt").write_text("private")
    done = push(folder, name)
    held = hub.files(name)
    assert held.keys() >= {"onnx/model.onnx", "onnx/predictor.py"}
    assert "python onnx/predictor.py" in held["README.md"].decode()
    assert held.keys() == done.files.keys() | {".gitattributes"}, "no notes"
    load(root, "classifier").save_pretrained(folder)
    assert not any(name.startswith("onnx/") for name in push(folder, name, dry_run=True).files)


@pytest.mark.parametrize("name", ["model.onnx", "predictor.py"])
def test_push_refuses_a_foreign_file_of_an_export(root: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(root / "classifier", tmp_path / "model")
    shutil.copytree(root / "onnx/classifier", folder / "onnx")
    list_files(folder, [f"onnx/{path.name}" for path in (folder / "onnx").iterdir()])
    write_owned_card(folder)
    path = folder / "onnx" / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ValueError, match=rf"^onnx/{re.escape(name)} in .* is not as it was saved"):
        push(folder, "owner/rooms", dry_run=True)
    if name == "predictor.py":
        list_files(folder, [f"onnx/{name}"])
        with pytest.raises(ValueError, match=r"^onnx/predictor\.py in .*not what this version"):
            push(folder, "owner/rooms", dry_run=True)
