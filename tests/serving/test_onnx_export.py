"""Exports for ONNX Runtime: exact at any length, complete or absent, read without torch."""

import importlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import PAIRS, TEXTS, assert_same_answers, change_weights, save_checkpoint
from rows import write_jsonl
from script_files import load_script
from tiny import exports, pair_batch, random_pair
from transformers import AutoModel, AutoModelForSequenceClassification, pipeline

from sase_hf import SelfAttentiveModel
from sase_hf.serving import onnx_export
from sase_hf.serving.onnx_export import export
from sase_hf.serving.onnx_predictor import Predictor

# The exporter is slow on a busy machine.
pytestmark = [exports, pytest.mark.slow, pytest.mark.timeout(900)]

KINDS = ("classifier", "nli", "encoder")
INPUTS: dict[str, list[Any]] = {
    "classifier": [
        *TEXTS,
        "",
        "[PAD] and bread",
        "Good \ud800!",
        {"text": "Good!", "text_pair": "Bread?"},
    ],
    "nli": [
        *({"text": first, "text_pair": second} for first, second in PAIRS),
        {"text": "", "text_pair": "Someone sings."},
        {"text": "", "text_pair": ""},
    ],
    "encoder": [*TEXTS, "", "[PAD] and bread", "Good \ud800!"],
}
NAMES = dict(enumerate(("bad", "poor", "fair", "good", "superb")))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints in `classifier`, `nli` and `encoder`, and their exports in `onnx`."""
    root = tmp_path_factory.mktemp("export")
    save_checkpoint(root / "classifier", id2label=NAMES)
    save_checkpoint(root / "nli", is_pair=True, encoder="cnn", matching="concat")
    save_checkpoint(root / "encoder", num_lstm_layers=2, pooling="last")
    SelfAttentiveModel.from_pretrained(root / "encoder").save_pretrained(root / "encoder")
    data = write_jsonl(root / "rows.jsonl.gz", [{"text": text} for text in TEXTS])
    for name in KINDS:
        flags = ["--int8", "--data", str(data)] if name == "classifier" else []
        load_script("export").main([str(root / name), str(root / "onnx" / name), *flags])
    return root


def report_of(root: Path, name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((root / "onnx" / name / "export.json").read_text())
    return report


def load(root: Path, name: str) -> torch.nn.Module:
    auto_class: Any = AutoModel if name == "encoder" else AutoModelForSequenceClassification
    model: torch.nn.Module = auto_class.from_pretrained(root / name)
    return model.eval()


# ---- the folder ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_export_writes_all_files_and_no_private_path(root: Path, name: str) -> None:
    files = {path.name for path in (root / "onnx" / name).iterdir()}
    needed = {"model.onnx", "config.json", "tokenizer.json", "tokenizer_config.json"}
    int8 = {"model_int8.onnx"} if name == "classifier" else set()
    assert files == needed | int8 | {"predictor.py", "export.json"}
    report = report_of(root, name)
    assert report["files"]["model.onnx"]["largest_difference"] <= 1e-5
    assert report["versions"].keys() >= {"torch", "onnx", "onnxruntime"}
    for path in (root / "onnx" / name).iterdir():
        content = path.read_bytes()
        for private in (
            root,
            Path(onnx_export.__file__).parents[2],
            Path(torch.__file__).parents[1],
        ):
            assert str(private).encode() not in content, path.name


@pytest.mark.parametrize("name", KINDS)
def test_export_config_names_no_code_and_has_the_sizes_servers_need(root: Path, name: str) -> None:
    """The code is not in the folder; Text Embeddings Inference refuses a config without sizes."""
    config = json.loads((root / "onnx" / name / "config.json").read_text(encoding="utf-8"))
    assert not {"auto_map", "custom_pipelines"} & config.keys()
    of_servers = {"architectures", "model_type", "hidden_size", "num_hidden_layers", "pad_token_id"}
    assert config.keys() >= of_servers | {"max_position_embeddings", "id2label"}
    output = "sentence_embedding" if name == "encoder" else "logits"
    attends = [] if name == "encoder" else ["attentions"]
    assert report_of(root, name)["outputs"] == [output, *attends]


@pytest.mark.parametrize("name", KINDS)
def test_graph_equals_the_model_at_any_length_and_padding(root: Path, name: str) -> None:
    """In all outputs, also for an empty row and for one token."""
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(root / "onnx" / name / "model.onnx")
    model, rng = load(root, name), random.Random(0)
    for count, padding, extra in ((1, "right", 0), (6, "left", 3), (9, "holed", 220)):
        pairs = [
            *(random_pair(rng) for _ in range(count - 1)),
            ([1], []) if count == 1 else ([], []),
        ]
        batch = pair_batch(pairs, padding, rng, extra)
        with torch.no_grad():
            outputs = model(**batch, output_attentions=True)
        names = [tensor.name for tensor in session.get_inputs()]
        found = session.run(None, {name: batch[name].numpy() for name in names})
        expected = [outputs["sentence_embedding" if name == "encoder" else "logits"]]
        for one, other in zip(found, [*expected, *(outputs.attentions or ())], strict=True):
            # float32 sums in another order: an error in proportion to the largest number.
            error = 1e-5 * max(1.0, float(other.abs().max()))
            torch.testing.assert_close(torch.from_numpy(one), other, rtol=1e-5, atol=error)


def test_export_refuses_a_folder_with_files(root: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^export\.py: .* exists and is not empty; name a new"):
        load_script("export").main([str(root / "classifier"), str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def copying(graph: Path) -> Callable[..., None]:
    """Return a stand-in for the slow export, which copies a graph."""

    def copy(work: object, checkpoint: str, folder: Path, int8: bool) -> None:
        shutil.copyfile(graph, folder / "model.onnx")

    return copy


def test_export_writes_nothing_if_the_graph_differs_from_the_model(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(shutil.copytree(root / "classifier", tmp_path / "other"))
    change_weights(other, lambda weights: weights["classifier.output.bias"].add_(1e-3))
    graph = root / "onnx" / "classifier" / "model.onnx"
    monkeypatch.setattr(onnx_export, "in_fresh_process", copying(graph))
    with pytest.raises(
        ValueError, match=r"differs by \d.* at most 1e-05 is allowed: .*; nothing was written"
    ):
        export(str(other), tmp_path / "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    export(str(root / "classifier"), tmp_path / "onnx")  # the premise: with its own model it passes


def test_export_writes_nothing_if_the_graph_reads_one_length_only(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second export in one process gives such a graph."""
    onnx = importlib.import_module("onnx")
    graph = onnx.load(root / "onnx" / "classifier" / "model.onnx")
    for tensor in graph.graph.input:
        tensor.type.tensor_type.shape.dim[1].dim_value = 16
    onnx.save(graph, tmp_path / "fixed.onnx")
    monkeypatch.setattr(onnx_export, "in_fresh_process", copying(tmp_path / "fixed.onnx"))
    with pytest.raises(ValueError, match=r"(?s)cannot read every batch: .*; nothing was written"):
        export(str(root / "classifier"), tmp_path / "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["fixed.onnx"]


def test_export_explains_an_exporter_that_fails(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older versions of torch cannot export an LSTM, and say so in a page of text."""

    def fail(*_: object) -> None:
        raise RuntimeError("Failed to export the model. " * 99)

    monkeypatch.setattr(onnx_export, "in_fresh_process", fail)
    with pytest.raises(
        SystemExit, match=r"^export\.py: cannot export .*constraints\.txt are known"
    ):
        load_script("export").main([str(root / "classifier"), str(tmp_path / "onnx")])
    assert not list(tmp_path.iterdir())


def test_export_without_onnx_names_the_extra(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_export, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"needs onnx, onnxruntime, onnxscript: pip install 'sase"):
        load_script("export").main([str(root / "classifier"), str(tmp_path / "onnx")])


# ---- graphs and model compared on rows of a file -------------------------------------------------


def test_export_measures_the_agreement_of_every_graph_on_rows(root: Path) -> None:
    measured = report_of(root, "classifier")["measured"]
    assert measured["source"]["rows"] == len(TEXTS)
    assert measured["results"].keys() == {"model.onnx", "model_int8.onnx"}
    expected = [
        one["label"] for one in pipeline("text-classification", str(root / "classifier"))(TEXTS)
    ]
    for name, result in measured["results"].items():
        predict = Predictor(root / "onnx" / "classifier", int8=name == "model_int8.onnx")
        same = [one["label"] == label for one, label in zip(predict(TEXTS), expected, strict=True)]
        assert result["agreement"] == pytest.approx(np.mean(same))
    assert measured["results"]["model.onnx"]["largest_difference"] <= 1e-5
    assert 1e-5 < measured["results"]["model_int8.onnx"]["largest_difference"] < 0.2


@pytest.mark.parametrize(
    ("problem_type", "expected"),
    [
        ("multi_label_classification", {"largest_difference", "agreement"}),
        ("regression", {"largest_difference"}),
    ],
)
def test_export_measures_what_suits_the_problem(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    problem_type: str,
    expected: set[str],
) -> None:
    other = Path(shutil.copytree(root / "classifier", tmp_path / "other"))
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    config["problem_type"] = problem_type
    (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
    graph = root / "onnx" / "classifier" / "model.onnx"
    monkeypatch.setattr(onnx_export, "in_fresh_process", copying(graph))
    flags = ["--data", str(root / "rows.jsonl.gz")]
    load_script("export").main([str(other), str(tmp_path / "onnx"), *flags])
    report = json.loads((tmp_path / "onnx" / "export.json").read_text(encoding="utf-8"))
    result = report["measured"]["results"]["model.onnx"]
    assert result.keys() == expected
    assert result.get("agreement", 1) == 1


def test_export_measures_the_cosine_of_embeddings(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = root / "onnx" / "encoder" / "model.onnx"
    monkeypatch.setattr(onnx_export, "in_fresh_process", copying(graph))
    flags = ["--data", str(root / "rows.jsonl.gz")]
    load_script("export").main([str(root / "encoder"), str(tmp_path / "onnx"), *flags])
    report = json.loads((tmp_path / "onnx" / "export.json").read_text(encoding="utf-8"))
    result = report["measured"]["results"]["model.onnx"]
    assert result["cosine_similarity"] == pytest.approx(1)
    assert result["largest_difference"] <= 1e-5


def test_export_without_rows_claims_no_agreement(root: Path) -> None:
    report = report_of(root, "classifier")
    del report["measured"]
    printed = "\n".join(load_script("export").lines(report, "out"))
    assert "agreement with int8 weights on real texts is not known; --data FILE" in printed


# ---- the predictor -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS[:2])
def test_predictor_answers_as_the_pipeline(root: Path, name: str) -> None:
    predict = Predictor(root / "onnx" / name)
    classify = pipeline("text-classification", model=str(root / name))
    inputs = [one for one in INPUTS[name] if "\ud800" not in str(one)]
    for chosen in ({}, {"top_k": None}, {"top_k": 1}):
        assert_same_answers(predict(inputs, **chosen), classify(inputs, **chosen))
        assert_same_answers(predict(inputs[0], **chosen), classify(inputs[0], **chosen))
        assert_same_answers(predict(inputs[-1], **chosen), classify(inputs[-1], **chosen))
    assert predict([]) == []


def test_predictor_reads_a_lone_surrogate_as_an_unknown_character(root: Path) -> None:
    """JSON can hold one; the tokenizer alone would fail on it."""
    predict = Predictor(root / "onnx" / "classifier")
    assert predict("Good \ud800!") == predict("Good \N{REPLACEMENT CHARACTER}!")


@pytest.mark.parametrize("problem_type", ["multi_label_classification", "regression"])
def test_predictor_scores_follow_the_problem_type(
    root: Path, tmp_path: Path, problem_type: str
) -> None:
    """As in the pipeline: sigmoid or value instead of softmax."""
    folders = root / "classifier", root / "onnx" / "classifier"
    for folder, copy in zip(folders, (tmp_path / "model", tmp_path / "onnx"), strict=True):
        shutil.copytree(folder, copy)
        config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
        config["problem_type"] = problem_type
        (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    classify = pipeline("text-classification", model=str(tmp_path / "model"))
    found = Predictor(tmp_path / "onnx")(TEXTS, top_k=None)
    assert_same_answers(found, classify(TEXTS, top_k=None))


def test_predictor_embeds_in_order_and_respects_the_token_budget(root: Path) -> None:
    together = Predictor(root / "onnx" / "encoder")(INPUTS["encoder"])
    predict = Predictor(root / "onnx" / "encoder", batch_tokens=14)
    sizes = [feed["input_ids"].size for _, feed in predict.batches(INPUTS["encoder"])]
    assert len(sizes) > 3
    assert max(sizes) <= 14
    model, dim = load(root, "encoder"), 8
    assert predict([]).shape == (0, dim)
    for embedding, text in zip(predict(INPUTS["encoder"]), INPUTS["encoder"], strict=True):
        np.testing.assert_allclose(embedding, predict(text), rtol=1e-5, atol=1e-6)
        encoding = predict.tokenizer.encode(text.replace("\ud800", "\ufffd"))
        ids = torch.tensor([encoding.ids], dtype=torch.long)
        with torch.no_grad():
            expected = model(ids).sentence_embedding[0]
        np.testing.assert_allclose(embedding, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(together, predict(INPUTS["encoder"]), rtol=1e-5, atol=1e-6)


def test_predictor_works_without_torch(root: Path) -> None:
    """A server needs onnxruntime, tokenizers and numpy only."""
    folder = root / "onnx" / "nli"
    code = (
        "import json, sys\n"
        "for name in ('torch', 'transformers', 'sase_hf', 'datasets', 'huggingface_hub'):\n"
        "    sys.modules[name] = None  # an import of it now fails\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        "from predictor import Predictor\n"
        "print(json.dumps(Predictor()(json.loads(sys.stdin.read()), top_k=None)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=json.dumps(INPUTS["nli"]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert_same_answers(json.loads(done.stdout), Predictor(folder)(INPUTS["nli"], top_k=None))


def test_export_prints_a_command_that_works(root: Path) -> None:
    folder = root / "onnx" / "nli"
    *_, line = load_script("export").lines(report_of(root, "nli"), str(folder))
    assert line == f"python {folder}/predictor.py 'a text' 'another text'"
    command = [sys.executable, str(folder / "predictor.py"), *PAIRS[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    expected = Predictor(folder)({"text": PAIRS[0][0], "text_pair": PAIRS[0][1]}, top_k=None)
    assert_same_answers(json.loads(done.stdout), expected)


WRONG: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    "no text": ("classifier", ["Good!", 7], {}, r"input 1 \(counted from 0\) is 7; it must be a"),
    "other keys": ("classifier", {"premise": "a"}, {}, r"input 0 .*must be a text or a pair"),
    "one of two": ("nli", "Good!", {}, r"one text, and this model compares two; give"),
    "two for one": ("encoder", INPUTS["nli"], {}, r"is a pair, and this model embeds one text"),
    "no labels": ("encoder", "Good!", {"top_k": 1}, r"top_k is 1, but this model has no labels"),
    "no number": ("classifier", "Good!", {"top_k": 0}, r"top_k is 0; give a number from 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_predictor_names_the_input_it_refuses(root: Path, case: str) -> None:
    name, inputs, chosen, expected = WRONG[case]
    with pytest.raises(ValueError, match=expected):
        Predictor(root / "onnx" / name)(inputs, **chosen)


def test_predictor_names_a_missing_file_and_the_way_out(root: Path) -> None:
    """A folder of a checkpoint is easily taken for that of its export."""
    with pytest.raises(FileNotFoundError, match=r"no model\.onnx in .*scripts/export\.py"):
        Predictor(root / "nli")
    with pytest.raises(FileNotFoundError, match=r"no model_int8\.onnx .* export again with --int8"):
        Predictor(root / "onnx" / "nli", int8=True)


def test_predictor_without_onnxruntime_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install onnxruntime, .*'sase_hf\[onnx\]'"):
        Predictor(root / "onnx" / "nli")
