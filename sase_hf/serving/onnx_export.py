"""A checkpoint as a folder that onnxruntime serves without torch, compared with the checkpoint.

The folder holds `model.onnx`, if asked for `model_int8.onnx`, the config, the tokenizer,
`predictor.py`, which reads texts with all that, and `export.json`, which says what was compared
and measured.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import EvalPrediction, TokenizersBackend
from transformers.utils import CONFIG_NAME

from ..data.labels import MULTI_LABEL, REGRESSION
from ..data.task import TaskData
from ..evaluation.dataset import describe_checkpoint
from ..evaluation.records import (
    describe_hardware,
    load_metrics,
    metrics_function,
    write_record,
)
from ..models.self_attentive.modeling_self_attentive import SelfAttentivePreTrainedModel
from ..utils.loading import load_checkpoint
from ..utils.processes import in_fresh_process
from .onnx_graphs import (
    Graph,
    largest_difference,
    opset_of,
    relative_difference,
    silence_exporter,
    write_graphs,
)
from .onnx_predictor import INT8_MODEL, MODEL, Array, Predictor

PREDICTOR = Path(__file__).with_name("onnx_predictor.py")
NEEDED = ("onnx", "onnxruntime", "onnxscript")
PACKAGES = ("sase_hf", "torch", "transformers", *NEEDED)

# How far a graph may be from its model: float32 sums in another order.
TOLERANCE = 1e-5

_WAY_OUT = "nothing was written. The versions in constraints.txt are known to export it"

Read = Callable[[Mapping[str, Array]], Array]


def export(
    checkpoint: str, folder: str | Path, *, int8: bool = False, task: TaskData | None = None
) -> dict[str, Any]:
    """Write a checkpoint for onnxruntime, whole and checked or not at all.

    Args:
        checkpoint: A folder or a name on the Hub: a head or an encoder alone.
        folder: Where to; it must be new or empty.
        int8: Also write a file with int8 weights.
        task: Rows as their test split to measure everything on.

    Returns:
        What `export.json` holds.

    Raises:
        ImportError: If a package of the extra `[onnx]` is not installed.
        FileExistsError: If the folder holds files.
        ValueError: If the checkpoint cannot be used, or the graph and it differ.
        OSError: If there is no such checkpoint, or the folder cannot be written.
    """
    folder = Path(folder).resolve()
    _check(folder)
    model, tokenizer = load_checkpoint(checkpoint)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        draft = Path(scratch, folder.name)
        draft.mkdir()
        try:
            in_fresh_process(_write_files, checkpoint, draft, int8)
        except RuntimeError as reason:  # torch's exporter, or a process that ran out of memory
            raise ValueError(f"cannot export {checkpoint}: {reason!s:.300}; {_WAY_OUT}") from reason
        _write_rest(draft, model, tokenizer)
        report = _report(checkpoint, draft, model)
        if task is not None:
            report["measured"] = {
                "source": task.sources["test"],
                "hardware": describe_hardware(),
                "results": _measure(draft, model, task),
            }
        write_record(report, draft / "export.json")
        draft.replace(folder)
    return report


def _check(folder: Path) -> None:
    """Refuse what would fail only after the work, or would mix with older files."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(f"exporting needs {', '.join(missing)}: pip install 'sase_hf[onnx]'")
    if folder == Path.cwd():
        raise FileExistsError(f"{folder} is the current folder; name a new one")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there and not empty; name a new folder, or empty it")


def _write_files(checkpoint: str, folder: Path, int8: bool) -> None:
    """Write the graphs; the work of the other process."""
    silence_exporter()
    model, _ = load_checkpoint(checkpoint)
    write_graphs(model, folder / MODEL, folder / INT8_MODEL if int8 else None)


def _write_rest(
    folder: Path, model: SelfAttentivePreTrainedModel, tokenizer: TokenizersBackend
) -> None:
    """Write what stands beside the graphs."""
    tokenizer.save_pretrained(folder)
    fields = json.loads(model.config.to_json_string(use_diff=False))
    for name in ("auto_map", "custom_pipelines"):  # they point to code that is not here
        fields.pop(name, None)
    # What Text Embeddings Inference wants to find in any config.
    fields["num_hidden_layers"] = model.config.num_hidden_layers
    fields["max_position_embeddings"] = tokenizer.model_max_length
    text = json.dumps(fields, indent=2, sort_keys=True) + "\n"
    (folder / CONFIG_NAME).write_text(text, encoding="utf-8")
    shutil.copyfile(PREDICTOR, folder / "predictor.py")


def _report(checkpoint: str, folder: Path, model: SelfAttentivePreTrainedModel) -> dict[str, Any]:
    """Compare the graphs with the model, and describe them.

    Raises:
        ValueError: If the exact one differs.
    """
    files = {}
    for path in sorted(folder.glob("*.onnx")):
        try:
            difference = largest_difference(model, path)
        except Exception as reason:  # onnxruntime's own errors have no base class
            raise ValueError(
                f"the exported graph cannot read every batch: {reason!s:.300}; {_WAY_OUT}"
            ) from reason
        if path.name == MODEL and not difference <= TOLERANCE:
            raise ValueError(
                f"the exported graph is off by {difference:.1e} of the largest output, and may be "
                f"by {TOLERANCE:.0e}: the weights are extreme, or the export is wrong; {_WAY_OUT}"
            )
        files[path.name] = {"bytes": path.stat().st_size, "largest_difference": difference}
    graph = Graph(model)
    return {
        "checkpoint": describe_checkpoint(checkpoint),
        "architecture": type(model).__name__,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "opset": opset_of(folder / MODEL),
        "tolerance": TOLERANCE,
        "files": files,
        "versions": {package: version(package) for package in PACKAGES},
    }


# ---- what the graphs are worth on rows of a file -------------------------------------------------


def _measure(
    folder: Path, model: SelfAttentivePreTrainedModel, task: TaskData
) -> dict[str, dict[str, float]]:
    """Return for the model and for each graph how fast it is and how good.

    All read the same batches, which are tokenized before, with the same number of threads.
    """
    threads = torch.get_num_threads()
    predictors = {
        path.name: Predictor(folder, int8=path.name == INT8_MODEL, num_threads=threads)
        for path in sorted(folder.glob("*.onnx"))
    }
    split = task.splits["test"]
    names = [name for name in ("text", "text_pair") if name in split.column_names]
    batches = list(predictors[MODEL].batches(split.select_columns(names).to_list()))
    order = np.argsort(np.concatenate([rows for rows, _ in batches]))

    readers: dict[str, Read] = {"eager": _eager_reader(model)}
    readers.update({name: _onnx_reader(predictor) for name, predictor in predictors.items()})
    outputs, results = {}, {}
    for name, read in readers.items():
        read(batches[0][1])  # the first call makes what the others find
        start = time.perf_counter()
        outputs[name] = np.concatenate([read(feed) for _, feed in batches])[order]
        seconds = time.perf_counter() - start
        results[name] = {
            "texts_per_second": round(len(order) / seconds, 1),
            **_compare(outputs[name], outputs["eager"], model, task),
        }
    return results


def _eager_reader(model: SelfAttentivePreTrainedModel) -> Read:
    def read(feed: Mapping[str, Array]) -> Array:
        with torch.inference_mode():
            found = model(**{name: torch.from_numpy(part) for name, part in feed.items()})
        return np.asarray(found.logits if model.is_head else found.sentence_embedding)

    return read


def _onnx_reader(predictor: Predictor) -> Read:
    def read(feed: Mapping[str, Array]) -> Array:
        return np.asarray(predictor.session.run([predictor.output], dict(feed))[0])

    return read


def _compare(
    found: Array, eager: Array, model: SelfAttentivePreTrainedModel, task: TaskData
) -> dict[str, float]:
    """Return the metrics if there are labels, and how well the outputs agree with the model's."""
    apart = relative_difference(torch.from_numpy(found), torch.from_numpy(eager))
    if not model.is_head:
        norms = np.linalg.norm(found, axis=1) * np.linalg.norm(eager, axis=1)
        cosine = (found * eager).sum(1) / np.maximum(norms, np.finfo(norms.dtype).tiny)
        return {"largest_difference": apart, "cosine_similarity": float(cosine.mean())}
    results = {}
    if "label" in task.splits["test"].column_names:
        labels = np.asarray(task.splits["test"]["label"])
        measure = metrics_function(load_metrics(None, task.problem_type), task.problem_type)
        results = measure(EvalPrediction(predictions=found, label_ids=labels))
    if task.problem_type == REGRESSION:
        return {**results, "largest_difference": apart}
    if task.problem_type == MULTI_LABEL:
        same = ((found > 0) == (eager > 0)).all(1)
    else:
        same = found.argmax(1) == eager.argmax(1)
    return {**results, "largest_difference": apart, "agreement": float(same.mean())}


__all__ = ["NEEDED", "export"]
