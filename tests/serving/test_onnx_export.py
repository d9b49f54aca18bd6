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
    change_weights,
    save_checkpoint,
    write_owned_card,
)
from isolated import run_fresh
from loopback_hub import OWNER, Hub
from script_files import load_command
from tiny import BERT, BESIDE_BERT, PAPER, exports, pair_batch, random_pair
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
# What is exported: every encoder, and every pooling that needs no LSTM. Only one can have an LSTM:
# a second one in a process has a fixed length.
KINDS: dict[str, dict[str, Any]] = {
    "classifier": {
        "num_lstm_layers": 2,
        "lstm_shortcuts": True,
        "id2label": NAMES,
        "linear_part": "words_and_pairs",
    },
    "nli": {"encoder": "cnn", "matching": "concat", "is_pair": True, "linear_part": "words"},
    "encoder": {"encoder": "dilated_cnn", "pooling": "max"},
    "relations": {
        **PAPER,
        "encoder": "relation_network",
        "relation_weights": "sigmoid",
        "relation_window": 2,
    },
    "bert": {
        **BESIDE_BERT,
        "encoder_config": {**BERT, "max_position_embeddings": 300},
        "pooling": "mean",
    },
}
FILES = {"model.onnx", "config.json", "tokenizer.json", "tokenizer_config.json", "export.json"}
FILES |= {"predictor.py"}
LONG = " ".join(TEXTS) * 20
HARD = [*TEXTS, "", "[PAD] and bread"]
INPUTS: dict[str, list[Any]] = {
    "classifier": [*HARD, LONG, {"text": "Good!", "text_pair": "Bread?"}],
    "nli": [
        *({"text": first, "text_pair": second} for first, second in PAIRS),
        {"text": LONG, "text_pair": "Someone sings."},
        {"text": "", "text_pair": ""},
    ],
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
    auto_class: Any = AutoModel if name == "encoder" else AutoModelForSequenceClassification
    return auto_class.from_pretrained(root / name).eval()


def test_export_writes_all_files_and_no_private_path(root: Path) -> None:
    folder = root / "onnx" / "classifier"
    assert {path.name for path in folder.iterdir()} == FILES
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
        pairs = [random_pair(rng) for _ in range(count)] + [([], []) if count else ([1], [])]
        batch = pair_batch(pairs, padding, rng, extra)
        with torch.no_grad():
            outputs = model(**batch, output_attentions=True)
        names = [tensor.name for tensor in session.get_inputs()]
        found = session.run(None, {name: batch[name].numpy() for name in names})
        answer = outputs["sentence_embedding" if name == "encoder" else "logits"]
        for one, other in zip(found, [answer, *(outputs.attentions or ())], strict=True):
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


def test_export_writes_nothing_without_a_graph_that_equals_the_model(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other weights here; a graph that cannot read other lengths fails when it is compared."""
    checkpoint = Path(shutil.copytree(root / "classifier", tmp_path / "model"))
    change_weights(checkpoint, lambda weights: weights["classifier.output.bias"].add_(1e-3))
    use_graph(monkeypatch, root / "onnx" / "classifier" / "model.onnx")
    expected = r"model\.onnx differs by \d.*; max 1e-05; nothing was written"
    with pytest.raises(ValueError, match=expected):
        export(str(checkpoint), tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize("problem_type", ["multi_label_classification", "regression"])
def test_predictor_follows_the_problem_type(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem_type: str
) -> None:
    """Scores are sigmoids or values instead of softmax."""
    other = Path(shutil.copytree(root / "classifier", tmp_path / "classifier"))
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps({**config, "problem_type": problem_type}))
    list_files(other, ["config.json"])
    use_graph(monkeypatch, root / "onnx" / "classifier" / "model.onnx")
    export(str(other), tmp_path / "onnx")
    classify = pipeline("text-classification", model=str(other))
    assert_same_answers(Predictor(tmp_path / "onnx")(TEXTS), classify(TEXTS, top_k=None))


@pytest.mark.parametrize("name", INPUTS)
def test_predictor_answers_as_the_pipeline(root: Path, name: str) -> None:
    predict = Predictor(root / "onnx" / name)
    classify = pipeline("text-classification", model=str(root / name))
    assert_same_answers(predict(INPUTS[name]), classify(INPUTS[name], top_k=None))
    assert_same_answers(predict(INPUTS[name][-1]), classify(INPUTS[name][-1], top_k=None))
    assert predict([]) == []


def test_predictor_embeds_in_order(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_predictor, "BATCH_SIZE", 2)
    predict = Predictor(root / "onnx" / "encoder")
    model = load(root, "encoder")
    assert predict([]).shape == (0, model.config.projection_dim)
    for embedding, text in zip(predict(HARD), HARD, strict=True):
        encoding = predict.tokenizer.encode(text)
        with torch.no_grad():
            expected = model(torch.tensor([encoding.ids], dtype=torch.long)).sentence_embedding[0]
        np.testing.assert_allclose(embedding, expected, rtol=1e-5, atol=1e-5)


def test_predictor_runs_without_torch(root: Path) -> None:
    """A server needs onnxruntime, tokenizers and numpy only."""
    folder = root / "onnx" / "nli"
    absent = dict.fromkeys(("torch", "transformers", "sase_hf", "datasets", "huggingface_hub"))
    code = f"import runpy, sys; sys.modules |= {absent}; del sys.argv[0]; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    printed = run_fresh(["-c", code, str(folder / "predictor.py"), *PAIRS[0]], root, {})
    expected = Predictor(folder)({"text": PAIRS[0][0], "text_pair": PAIRS[0][1]})
    assert_same_answers(json.loads(printed), expected)


@pytest.mark.parametrize("name", sorted(FILES - {"export.json", "predictor.py"}))
def test_predictor_refuses_a_file_of_another_export(root: Path, tmp_path: Path, name: str) -> None:
    """By any other byte; and a missing one, and a folder without the record of the export."""
    folder = Path(shutil.copytree(root / "onnx" / "classifier", tmp_path / "onnx"))
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    message = rf"{re.escape(name)} is not as it was exported: .* not in export\.json.*export again"
    with pytest.raises(ValueError, match=message):
        Predictor(folder)
    (folder / name).unlink()
    with pytest.raises(ValueError, match=message):
        Predictor(folder)
    (folder / "export.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"export\.json"):
        Predictor(folder)


def test_push_refuses_a_foreign_or_missing_file_of_an_export(root: Path, tmp_path: Path) -> None:
    write_owned_card(root / "classifier")
    folder = Path(shutil.copytree(root / "onnx" / "classifier", tmp_path / "onnx"))
    path = folder / "predictor.py"
    path.write_text(path.read_text() + " ")
    with pytest.raises(ValueError, match=r"^predictor\.py in .* is not as it was exported"):
        push(root / "classifier", "owner/rooms", onnx=folder, dry_run=True)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"predictor\.py"):
        push(root / "classifier", "owner/rooms", onnx=folder, dry_run=True)


def test_push_onnx_sends_an_export_of_these_weights(
    root: Path, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And `--output` writes what would be sent; a graph of other weights never goes up."""
    folder, output = tmp_path / "model", tmp_path / "repository"
    shutil.copytree(root / "classifier", folder)
    write_owned_card(folder)
    use_graph(monkeypatch, root / "onnx" / "classifier" / "model.onnx")
    name = f"{OWNER}/rooms"
    load_command("push").main([str(folder), name, "--onnx", "--output", str(output)])
    assert not hub.requests
    (output / "onnx" / "notes.txt").write_text("private")
    done = push(folder, name, onnx=output / "onnx")
    held = hub.files(name)
    assert {f"onnx/{file}" for file in FILES} == {file for file in held if "onnx/" in file}
    assert "python onnx/predictor.py" in held["README.md"].decode()
    assert all((output / file).read_bytes() == held[file] for file in done.files)
    change_weights(folder, lambda weights: weights["classifier.output.bias"].add_(1))
    write_owned_card(folder)
    with pytest.raises(ValueError, match="onnx is not an export"):
        push(folder, name, onnx=output / "onnx")
