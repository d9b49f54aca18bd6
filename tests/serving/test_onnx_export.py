"""Exports for onnxruntime: exact at any length, whole or not there, and read without torch."""

import importlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import PAIRS, TEXTS, assert_same_answers, change_weights, save_checkpoint
from datasets import Dataset, DatasetDict
from rows import write_jsonl
from script_files import load_script
from tiny import exports, pair_batch, random_pair
from transformers import AutoModel, AutoModelForSequenceClassification, pipeline

from sase_hf import SelfAttentiveModel
from sase_hf.data.task import TaskData
from sase_hf.serving import onnx_export, onnx_predictor
from sase_hf.serving.onnx_export import export
from sase_hf.serving.onnx_predictor import Predictor

pytestmark = [exports, pytest.mark.timeout(900)]  # the exporter is slow on a busy machine

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
LABELS = ["bad", "good", "good", "bad", "fair", "good"]
NAMES = dict(enumerate(("bad", "poor", "fair", "good", "superb")))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints in `classifier`, `nli` and `encoder`, and their exports in `onnx`."""
    root = tmp_path_factory.mktemp("export")
    save_checkpoint(root / "classifier", id2label=NAMES)
    save_checkpoint(root / "nli", is_pair=True, encoder="cnn", matching="concat")
    save_checkpoint(root / "encoder", num_lstm_layers=2, pooling="last")
    SelfAttentiveModel.from_pretrained(root / "encoder").save_pretrained(root / "encoder")
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    data = write_jsonl(root / "rows.jsonl.gz", rows)
    for name in KINDS:
        flags = ["--int8", "--data", str(data)] if name == "classifier" else []
        load_script("export").main([str(root / name), str(root / "onnx" / name), *flags])
    return root


def report_of(root: Path, name: str) -> dict[str, Any]:
    """Return what an export says of itself."""
    report: dict[str, Any] = json.loads((root / "onnx" / name / "export.json").read_text())
    return report


def load(root: Path, name: str) -> torch.nn.Module:
    """Return the model of a checkpoint."""
    auto_class: Any = AutoModel if name == "encoder" else AutoModelForSequenceClassification
    model: torch.nn.Module = auto_class.from_pretrained(root / name)
    return model.eval()


# ---- the folder ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_an_export_holds_all_that_serves_it_and_says_how_exact_it_is(root: Path, name: str) -> None:
    """Whoever gets the folder has the model, its words and labels, and how far to trust it."""
    files = {path.name for path in (root / "onnx" / name).iterdir()}
    needed = {"model.onnx", "config.json", "tokenizer.json", "tokenizer_config.json"}
    int8 = {"model_int8.onnx"} if name == "classifier" else set()
    assert files == needed | int8 | {"predictor.py", "export.json"}
    report = report_of(root, name)
    assert report["files"]["model.onnx"]["largest_difference"] <= 1e-5
    assert report["opset"] >= 18
    assert report["versions"].keys() >= {"torch", "onnx", "onnxruntime"}
    assert str(root) not in json.dumps(report)


@pytest.mark.parametrize("name", KINDS)
def test_the_config_points_to_no_code_and_is_enough_for_other_servers(
    root: Path, name: str
) -> None:
    """The code is not in the folder; Text Embeddings Inference refuses a config without sizes."""
    config = json.loads((root / "onnx" / name / "config.json").read_text(encoding="utf-8"))
    assert not {"auto_map", "custom_pipelines"} & config.keys()
    of_servers = {"architectures", "model_type", "hidden_size", "num_hidden_layers", "pad_token_id"}
    assert config.keys() >= of_servers | {"max_position_embeddings", "id2label"}
    output = "sentence_embedding" if name == "encoder" else "logits"
    attends = [] if name == "encoder" else ["attentions"]
    assert report_of(root, name)["outputs"] == [output, *attends]


@pytest.mark.parametrize("name", KINDS)
def test_a_graph_is_exact_on_batches_that_nobody_has_seen(root: Path, name: str) -> None:
    """Padding right, left and in holes, an empty row, one token, long texts: all outputs."""
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


def test_a_folder_with_files_is_left_alone(root: Path, tmp_path: Path) -> None:
    """An export among other files could be taken for theirs."""
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"^export\.py: .* is there and not empty; name a new"):
        load_script("export").main([str(root / "classifier"), str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def copying(graph: Path) -> Callable[..., None]:
    """Return what stands in for the export, for tests that do not need another one."""

    def copy(work: object, checkpoint: str, folder: Path, int8: bool) -> None:
        shutil.copyfile(graph, folder / "model.onnx")

    return copy


def test_a_graph_that_differs_from_its_model_leaves_nothing_behind(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong model that looks like a right one is worse than none."""
    other = Path(shutil.copytree(root / "classifier", tmp_path / "other"))
    change_weights(other, lambda weights: weights["classifier.output.bias"].add_(1e-3))
    graph = root / "onnx" / "classifier" / "model.onnx"
    monkeypatch.setattr(onnx_export, "in_fresh_process", copying(graph))
    with pytest.raises(
        ValueError, match=r"off by \d.* and may be by 1e-05: the weights .*; nothing was written"
    ):
        export(str(other), tmp_path / "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
    export(str(root / "classifier"), tmp_path / "onnx")  # the premise: with its own model it passes


def test_a_graph_whose_lengths_are_fixed_leaves_nothing_behind(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is what a second export in one process gives; it reads texts of one length alone."""
    onnx = importlib.import_module("onnx")
    graph = onnx.load(root / "onnx" / "classifier" / "model.onnx")
    for tensor in graph.graph.input:
        tensor.type.tensor_type.shape.dim[1].dim_value = 16
    onnx.save(graph, tmp_path / "fixed.onnx")
    monkeypatch.setattr(onnx_export, "in_fresh_process", copying(tmp_path / "fixed.onnx"))
    with pytest.raises(ValueError, match=r"(?s)cannot read every batch: .*; nothing was written"):
        export(str(root / "classifier"), tmp_path / "onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["fixed.onnx"]


def test_an_exporter_that_fails_is_explained(
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


def test_without_the_extra_the_script_names_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The base install has no ONNX."""
    monkeypatch.setattr(onnx_export, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"needs onnx, onnxruntime, onnxscript: pip install 'sase"):
        load_script("export").main([str(root / "classifier"), str(tmp_path / "onnx")])


# ---- what int8 costs and gains -------------------------------------------------------------------


def test_accuracy_and_speed_are_measured_on_the_rows_of_a_file(root: Path) -> None:
    """Of the model, the graph and the int8 graph, on the same rows."""
    measured = report_of(root, "classifier")["measured"]
    assert measured["source"]["rows"] == len(TEXTS)
    classify = pipeline("text-classification", model=str(root / "classifier"))
    right = [one["label"] == label for one, label in zip(classify(TEXTS), LABELS, strict=True)]
    results = measured["results"]
    assert results.keys() == {"eager", "model.onnx", "model_int8.onnx"}
    assert 0 < np.mean(right) < 1, "the premise: not all are the same"
    for name in ("eager", "model.onnx"):
        assert results[name]["accuracy"] == pytest.approx(np.mean(right))
        assert results[name]["agreement"] == 1
    predict = Predictor(root / "onnx" / "classifier", int8=True)
    said = [one["label"] for one in predict(TEXTS)]
    assert results["model_int8.onnx"]["accuracy"] == pytest.approx(
        np.mean([one == label for one, label in zip(said, LABELS, strict=True)])
    )
    assert 0 < results["model_int8.onnx"]["largest_difference"] < 0.2
    assert all(result["texts_per_second"] > 0 for result in results.values())


def test_without_rows_no_accuracy_is_claimed(root: Path) -> None:
    """A number that nobody measured is an opinion; the distance on random texts is measured."""
    report = report_of(root, "classifier")
    del report["measured"]
    said = "\n".join(load_script("export").lines(report, "out"))
    assert "model_int8.onnx" in said
    assert "accuracy with int8 weights is not known; --data FILE measures it" in said


def test_an_encoder_is_measured_by_how_alike_its_embeddings_are(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no labels; a column of some in the file is passed over."""
    graph = root / "onnx" / "encoder" / "model.onnx"
    monkeypatch.setattr(onnx_export, "in_fresh_process", copying(graph))
    flags = ["--data", str(root / "rows.jsonl.gz")]
    load_script("export").main([str(root / "encoder"), str(tmp_path / "onnx"), *flags])
    report = json.loads((tmp_path / "onnx" / "export.json").read_text(encoding="utf-8"))
    results = report["measured"]["results"]["model.onnx"]
    assert results["cosine_similarity"] == pytest.approx(1)
    assert results["largest_difference"] <= 1e-5
    assert "accuracy" not in results


@pytest.mark.parametrize(
    ("problem", "labels", "expected"),
    [
        ("regression", [1.0, 5.0], {"mse": 0.5, "largest_difference": 0.25}),
        ("multi_label_classification", [[1.0, 0.0], [1.0, 1.0]], {"accuracy": 0.5, "agreement": 0}),
    ],
)
def test_other_kinds_of_problems_have_their_own_metrics(
    problem: str, labels: list[Any], expected: dict[str, float]
) -> None:
    """A share of equal labels says nothing of a value, and little of a list of labels."""
    found = np.array([[1.0], [4.0]] if problem == "regression" else [[1.0, -1.0], [1.0, -1.0]])
    eager = np.array([[2.0], [4.0]] if problem == "regression" else [[1.0, 1.0], [-1.0, -1.0]])
    split = Dataset.from_dict({"text": ["a", "b"], "label": labels})
    task = TaskData(DatasetDict(test=split), problem, ("x", "y"), {})
    results = onnx_export._compare(found, eager, SimpleNamespace(is_head=True), task)
    assert {name: results[name] for name in expected} == pytest.approx(expected)


# ---- the predictor -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS[:2])
def test_the_predictor_gives_the_answers_of_the_pipeline(root: Path, name: str) -> None:
    """Alone and in lists, best label and all: it takes the pipeline's place without a change."""
    predict = Predictor(root / "onnx" / name)
    classify = pipeline("text-classification", model=str(root / name))
    inputs = [one for one in INPUTS[name] if "\ud800" not in str(one)]
    for chosen in ({}, {"top_k": None}, {"top_k": 1}):
        assert_same_answers(predict(inputs, **chosen), classify(inputs, **chosen))
        assert_same_answers(predict(inputs[0], **chosen), classify(inputs[0], **chosen))
        assert_same_answers(predict(inputs[-1], **chosen), classify(inputs[-1], **chosen))
    assert predict([]) == []


def test_half_a_surrogate_pair_is_read_as_an_unknown_character(root: Path) -> None:
    """JSON can hold one; the tokenizer alone would fail on it."""
    predict = Predictor(root / "onnx" / "classifier")
    assert predict("Good \ud800!") == predict("Good \N{REPLACEMENT CHARACTER}!")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"problem_type": "multi_label_classification"}, [0.8807971, 0.2689414]),
        ({"problem_type": "regression"}, [2.0, -1.0]),
        ({"problem_type": "single_label_classification"}, [0.9525741, 0.0474259]),
        ({}, [0.9525741, 0.0474259]),
    ],
)
def test_scores_follow_the_kind_of_problem(fields: dict[str, str], expected: list[float]) -> None:
    """As in the pipeline: sigmoid, value or softmax."""
    predictor = Predictor.__new__(Predictor)
    predictor.config = fields
    assert predictor._scores(np.array([[2.0, -1.0]]))[0] == pytest.approx(expected)


def test_embeddings_are_those_of_the_model_in_the_order_of_the_texts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts are read by length, in batches of limited size; none of it may show."""
    predict = Predictor(root / "onnx" / "encoder")
    together = predict(INPUTS["encoder"])
    monkeypatch.setattr(onnx_predictor, "BATCH_TOKENS", 14)
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


def test_a_process_without_torch_gives_the_same_answers(root: Path) -> None:
    """This is what the export is for: a server needs onnxruntime, tokenizers and numpy."""
    folder = root / "onnx" / "nli"
    code = (
        "import json, sys\n"
        "for name in ('torch', 'transformers', 'sase_hf', 'datasets', 'huggingface_hub'):\n"
        "    sys.modules[name] = None  # an import of it now fails\n"
        f"sys.path.insert(0, {str(folder)!r})\n"
        "from predictor import Predictor\n"
        "print(json.dumps(Predictor()(json.loads(sys.stdin.read()), top_k=None)))\n"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=json.dumps(INPUTS["nli"]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert said.returncode == 0, said.stderr
    assert_same_answers(json.loads(said.stdout), Predictor(folder)(INPUTS["nli"], top_k=None))


def test_the_copy_in_the_folder_answers_on_the_command_line(root: Path) -> None:
    """The last line that the script prints works, with other texts too."""
    folder = root / "onnx" / "nli"
    *_, line = load_script("export").lines(report_of(root, "nli"), str(folder))
    assert line == f"python {folder}/predictor.py 'a text' 'another text'"
    command = [sys.executable, str(folder / "predictor.py"), *PAIRS[0]]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    expected = Predictor(folder)({"text": PAIRS[0][0], "text_pair": PAIRS[0][1]}, top_k=None)
    assert_same_answers(json.loads(said.stdout), expected)


WRONG: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    "no text": ("classifier", ["Good!", 7], {}, r"input 1 \(counted from 0\) is 7; it must be a"),
    "other keys": ("classifier", {"premise": "a"}, {}, r"input 0 .*must be a text or a pair"),
    "one of two": ("nli", "Good!", {}, r"one text, and this model compares two; give"),
    "two for one": ("encoder", INPUTS["nli"], {}, r"is a pair, and this model embeds one text"),
    "no labels": ("encoder", "Good!", {"top_k": 1}, r"top_k is 1, but this model has no labels"),
    "no number": ("classifier", "Good!", {"top_k": 0}, r"top_k is 0; give a number from 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_is_refused_by_number(root: Path, case: str) -> None:
    """In a list of thousands, the one that is wrong must be found."""
    name, inputs, chosen, expected = WRONG[case]
    with pytest.raises(ValueError, match=expected):
        Predictor(root / "onnx" / name)(inputs, **chosen)


def test_a_missing_file_is_named_with_its_way_out(root: Path, tmp_path: Path) -> None:
    """A folder of a checkpoint is easily taken for that of its export."""
    with pytest.raises(FileNotFoundError, match=r"no model\.onnx in .*scripts/export\.py"):
        Predictor(root / "nli")
    with pytest.raises(FileNotFoundError, match=r"no model_int8\.onnx .* export again with --int8"):
        Predictor(root / "onnx" / "nli", int8=True)


def test_without_onnxruntime_the_predictor_says_what_to_install(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder may be the only thing of this project on a machine."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install onnxruntime, .*'sase_hf\[onnx\]'"):
        Predictor(root / "onnx" / "nli")
