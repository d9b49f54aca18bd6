"""A checkpoint as a folder that ONNX Runtime serves without torch.

The folder holds `model.onnx` and, if asked for, `model_int8.onnx`; the config and the tokenizer;
`predictor.py`, which reads texts with these files; and `export.json`, with the difference of each
graph from the model and the SHA-256 of each file. The graphs take batches of any size and texts of
any length.
"""

import json
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor, nn
from transformers import TokenizersBackend
from transformers.utils import CONFIG_NAME

from ..data.rows import Rows
from ..data.table import Origin
from ..evaluation.records import describe_hardware, write_record
from ..models.answers import answers_of
from ..models.checked_files import sha256_of
from ..models.checked_model import CheckedPreTrainedModel
from ..utils.errors import refusal
from ..utils.files import FilePath
from ..utils.loading import describe_checkpoint, load_checkpoint
from . import onnx_predictor
from .onnx_predictor import INT8_MODEL, MODEL, Array, Predictor

NEEDED = ("onnx", "onnxruntime", "onnxscript")
PACKAGES = ("sase_hf", "torch", "transformers", *NEEDED)

INPUTS = ("input_ids", "attention_mask", "token_type_ids")

# Max difference between model.onnx and the model, as a share of the largest output: float32 sums
# are taken in another order.
TOLERANCE = 1e-5


class MeasuredOnRows(TypedDict):
    """How well each graph agrees with the model on real rows: `results` of `_compare_on_rows`."""

    source: Origin
    hardware: dict[str, object]
    results: dict[str, dict[str, float]]


class Report(TypedDict):
    """The content of `export.json`; `files` has a result of `_compare` for each graph."""

    checkpoint: dict[str, str]
    architecture: str
    inputs: list[str]
    outputs: list[str]
    tolerance: float
    files: dict[str, dict[str, float]]
    versions: dict[str, str]
    measured: NotRequired[MeasuredOnRows]
    sha256: dict[str, str]


def export(
    checkpoint: str, folder: FilePath, *, int8: bool = False, task: Rows | None = None
) -> Report:
    """Write a checkpoint for ONNX Runtime, complete and checked or not at all.

    The folder is new or empty. With `int8` it gets a graph with int8 weights, too. Every graph is
    compared with the model, also on the rows of the test split of a `task`. Returns the content of
    `export.json`; raises ValueError for a graph that differs. The graphs are written by another
    process, which imports the script that calls this: call it there under
    `if __name__ == "__main__":`.
    """
    folder = Path(folder).resolve()
    _check_packages()
    _check_folder(folder)
    model, tokenizer = load_checkpoint(checkpoint)
    if model.config.is_encoder_decoder:  # torch.export fails in the encoder, too
        raise refusal(
            f"{checkpoint} is a {type(model).__name__}, which has no ONNX export",
            "sase_hf predict translates with it",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        draft = Path(scratch, folder.name)
        draft.mkdir()
        graph = _Graph(model).eval()
        with _reraise_naming(checkpoint):
            _in_fresh_process(_write_graphs, checkpoint, draft, int8)
            files = {path.name: _compare(graph, path) for path in sorted(draft.glob("*.onnx"))}
        _write_other_files(draft, model, tokenizer)
        report: Report = {
            "checkpoint": describe_checkpoint(checkpoint),
            "architecture": type(model).__name__,
            "inputs": list(graph.inputs),
            "outputs": list(graph.outputs),
            "tolerance": TOLERANCE,
            "files": files,
            "versions": {package: version(package) for package in PACKAGES},
            # The predictor and a push compare the files with these.
            "sha256": {path.name: sha256_of(path) for path in sorted(draft.iterdir())},
        }
        if task is not None:
            report["measured"] = {
                "source": task.sources["test"],
                "hardware": describe_hardware(),
                "results": {name: _compare_on_rows(draft, name, model, task) for name in files},
            }
        write_record(report, draft / "export.json")
        draft.replace(folder)
    return report


def _check_packages() -> None:
    """Raise ImportError if a package that exports is not installed."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(f"exporting needs {', '.join(missing)}: pip install 'sase_hf[onnx]'")


def _check_folder(folder: Path) -> None:
    """Raise FileExistsError unless a folder is new or empty, and not the working directory."""
    if not folder.exists():
        return
    if folder == Path.cwd() or not folder.is_dir() or any(folder.iterdir()):
        raise refusal(
            f"{folder} exists and is not empty", "name a new folder, or empty it", FileExistsError
        )


@contextmanager
def _reraise_naming(checkpoint: str) -> Iterator[None]:
    """Raise the errors of writing and comparing graphs as ValueError, with a way out."""
    try:
        yield
    except BrokenProcessPool as reason:
        raise ValueError(
            f"cannot export {checkpoint}: the process that writes the graphs ended early; nothing "
            "was written. It imports the script that exports, so call export() there under "
            '`if __name__ == "__main__":`; if that is done, it lacked memory'
        ) from reason
    except Exception as reason:  # of the exporter, onnx or onnxruntime
        raise ValueError(
            f"cannot export {checkpoint}: {reason!s:.300}; nothing was written. The versions in "
            "constraints.txt are known to export it"
        ) from reason


def _write_other_files(
    folder: Path, model: CheckedPreTrainedModel, tokenizer: TokenizersBackend
) -> None:
    """Write what an export has beside its graphs: tokenizer, config, and code that reads texts."""
    tokenizer.save_pretrained(folder)
    (folder / CONFIG_NAME).write_text(_config_of(model), encoding="utf-8")
    shutil.copyfile(Path(onnx_predictor.__file__), folder / "predictor.py")


def _config_of(model: CheckedPreTrainedModel) -> str:
    """Return the config of an export: without local paths, and without code to load."""
    fields = json.loads(model.config.to_json_string(use_diff=False))
    for name in ("_name_or_path", "auto_map", "custom_pipelines"):
        fields.pop(name, None)
    # Text Embeddings Inference requires these in every config.
    fields["num_hidden_layers"] = model.config.num_hidden_layers
    fields["max_position_embeddings"] = model.config.max_tokens
    return json.dumps(fields, indent=2, sort_keys=True) + "\n"


def _in_fresh_process(work: Callable[..., None], *args: object) -> None:
    """Run a function in another process; a caller's script must not call it when imported."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(work, *args).result()


def _write_graphs(checkpoint: str, folder: Path, int8: bool) -> None:
    """Write the ONNX files of a checkpoint; in int8, matrix products quantize their inputs too.

    Call it once in a process: a second export would fix the length of the texts.
    """
    # These warnings of torch's exporter concern its own code.
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    graph = _Graph(load_checkpoint(checkpoint)[0]).eval()
    free = {0: torch.export.Dim("B"), 1: torch.export.Dim("T")}
    program = torch.onnx.export(
        graph,
        tuple(torch.ones(3, 7, dtype=torch.long) for _ in graph.inputs),
        dynamo=True,
        dynamic_shapes=tuple(free for _ in graph.inputs),
        input_names=graph.inputs,
        output_names=graph.outputs,
        verbose=False,
    )
    assert program is not None  # as with `dynamo`
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # stack traces, with the paths of this machine
    program.save(folder / MODEL, external_data=False)
    if int8:
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic

        exported = onnx.load(folder / MODEL)
        # The shapes noted for inner tensors contradict those that onnx infers.
        del exported.graph.value_info[:]
        quantize_dynamic(exported, folder / INT8_MODEL, weight_type=QuantType.QInt8)


class _Graph(nn.Module):
    """A model in the form that the exporter needs: tensors in, a tuple of tensors out."""

    def __init__(self, model: CheckedPreTrainedModel) -> None:
        super().__init__()
        self.model = model
        # Tensors (B, T); only a model of pairs reads token types.
        self.inputs = INPUTS if model.reads_pairs else INPUTS[:2]
        # `logits` (B, num_labels) or `sentence_embedding` (B, r * H). If the model attends, then
        # `attentions`, A (B, r, T), or (B, 2, r, T) for pairs.
        answer = "logits" if model.is_head else "sentence_embedding"
        self.outputs = (answer, "attentions") if model.config.has_attention else (answer,)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return the tensors that `outputs` names."""
        outputs = self.model(input_ids, attention_mask, token_type_ids, output_attentions=True)
        return (outputs[self.outputs[0]], *(outputs.attentions or ()))


def _compare(graph: _Graph, path: Path) -> dict[str, float]:
    """Return the size of an ONNX file and its difference from the model on random batches."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    largest = 0.0
    for batch in random_batches(graph.model.config.vocab_size):
        feed = dict(zip(graph.inputs, batch, strict=False))
        with torch.inference_mode():
            expected = graph(**feed)
        inputs = {name: tensor.numpy() for name, tensor in feed.items()}
        outputs = session.run(graph.outputs, inputs)
        for output, tensor in zip(outputs, expected, strict=True):
            largest = max(largest, relative_difference(output, tensor.numpy()))
    if path.name == MODEL and largest > TOLERANCE:
        raise ValueError(f"{MODEL} differs from the model by {largest:.1e}; max {TOLERANCE:.0e}")
    return {"bytes": path.stat().st_size, "largest_difference": largest}


def random_batches(vocab_size: int) -> Iterator[tuple[Tensor, ...]]:
    """Yield ids, mask and token types (B, T) of shapes that the exporter has not seen.

    The padding is on the right or in holes; the last row of a larger batch is padding only.
    """
    generator = torch.Generator().manual_seed(0)
    for num_rows, length in ((1, 1), (1, 37), (2, 5), (7, 64), (4, 150)):
        lengths = torch.randint(length + 1, (num_rows, 1), generator=generator)
        lengths[-1] = 0 if num_rows > 1 else length
        on_the_right = torch.arange(length) < lengths
        shuffled = torch.randperm(length, generator=generator)
        for mask in (on_the_right, on_the_right[:, shuffled]):
            ids = torch.randint(vocab_size, (num_rows, length), generator=generator)
            starts = lengths * torch.rand(num_rows, 1, generator=generator)  # of the second texts
            yield ids, mask.long(), (mask.cumsum(1) > starts).long()


def _compare_on_rows(
    folder: Path, name: str, model: CheckedPreTrainedModel, task: Rows
) -> dict[str, float]:
    """Return how well an ONNX file agrees with the model on the rows of a task.

    For labels this is the share of rows with equal labels, for embeddings the mean cosine.
    """
    rows = task.splits["test"]
    columns = [column for column in ("text", "text_pair") if column in rows.column_names]
    texts = rows.select_columns(columns).to_list()
    predictor = Predictor(folder, int8=name == INT8_MODEL)
    exported = predictor.read(texts)
    expected = np.empty_like(exported)
    for numbers, feed in predictor.batches(texts):
        with torch.inference_mode():
            outputs = model(**{name: torch.from_numpy(array) for name, array in feed.items()})
        expected[numbers] = outputs[predictor.output]
    comparison = {"largest_difference": relative_difference(exported, expected)}
    if not model.is_head:
        cosine = nn.functional.cosine_similarity(torch.tensor(exported), torch.tensor(expected))
        comparison["cosine_similarity"] = float(cosine.mean())
        return comparison
    answers = answers_of(model.config)
    if answers.has_labels:
        of_export = answers.chosen(torch.from_numpy(exported))
        of_model = answers.chosen(torch.from_numpy(expected))
        is_same = (of_export == of_model).reshape(len(texts), -1).all(1)
        comparison["agreement"] = float(is_same.double().mean())
    return comparison


def relative_difference(values: Array, expected: Array) -> float:
    """Return the largest difference divided by the largest number, or by 1 if that is larger."""
    difference = np.nan_to_num(np.abs(values - expected), nan=np.inf)  # NaN must not pass as small
    return float(difference.max() / max(np.abs(expected).max(), 1))
