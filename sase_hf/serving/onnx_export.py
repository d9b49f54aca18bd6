"""A checkpoint as a folder that ONNX Runtime serves without torch.

The folder holds `model.onnx` and, if asked for, `model_int8.onnx`; the config and the tokenizer;
`predictor.py`, which reads texts with these files; and `export.json`, with the difference of each
graph from the model and the SHA-256 of each file. The graphs take batches of any size and texts of
any length.
"""

import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn
from transformers.utils import CONFIG_NAME

from ..data.batching import rows_for_model
from ..data.table import TEXT_COLUMNS, present
from ..evaluation.records import describe_hardware, write_record
from ..models.answers import answers_of
from ..models.checked_files import sha256_of
from ..models.checked_model import CheckedPreTrainedModel
from ..utils.errors import refusal
from ..utils.files import FilePath
from ..utils.loading import describe_checkpoint, load_checkpoint
from . import onnx_predictor
from .onnx_predictor import INT8_MODEL, MODEL, RECORD, Array, Predictor

INPUTS = ("input_ids", "attention_mask", "token_type_ids")

# Max difference between model.onnx and the model, as a share of the largest output: float32 sums
# are taken in another order.
TOLERANCE = 1e-5


def export(
    checkpoint: str,
    folder: FilePath,
    *,
    int8: bool = False,
    data: str | None = None,
    text_column_names: list[str] | None = None,
) -> dict[str, Any]:
    """Write a checkpoint for ONNX Runtime, complete and checked or not at all.

    With `int8` the new folder gets a graph with int8 weights, too. Every graph is compared with the
    model, also on the rows of a file of `data`. Returns the content of `export.json`; raises
    FileExistsError for a folder that exists, and ValueError for a model without an export, for rows
    that do not fit it and for a graph that differs. Another process writes the export and imports
    the script that calls this: call it there under `if __name__ == "__main__":`.
    """
    folder = Path(folder).resolve()
    if folder.exists():
        raise refusal(f"{folder} exists", "name a new folder", FileExistsError)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as scratch,
        ProcessPoolExecutor(1, get_context("spawn")) as fresh,
    ):
        draft = Path(scratch, folder.name)
        draft.mkdir()
        report = fresh.submit(_write, checkpoint, draft, int8, data, text_column_names).result()
        draft.replace(folder)
    return report


def _write(
    checkpoint: str, draft: Path, int8: bool, data: str | None, columns: list[str] | None
) -> dict[str, Any]:
    """Write an export into an empty folder; the arguments and errors are those of `export`."""
    model, tokenizer = load_checkpoint(checkpoint)
    if model.config.is_encoder_decoder:  # torch.export fails in the encoder, too
        raise refusal(
            f"{checkpoint} is a {type(model).__name__}, which has no ONNX export",
            "sase_hf predict translates with it",
        )
    rows = None
    if data is not None:
        rows = rows_for_model(checkpoint, model, data, columns, label_column_name="")
    for private in ("_name_or_path", "auto_map", "custom_pipelines"):
        vars(model.config).pop(private, None)  # the code of a checkpoint is not in the folder
    model.config.to_json_file(draft / CONFIG_NAME, use_diff=False)
    tokenizer.save_pretrained(draft)
    shutil.copyfile(onnx_predictor.__file__, draft / "predictor.py")
    graph = _Graph(model).eval()
    try:
        _write_graphs(graph, draft, int8)
        report: dict[str, Any] = {
            "checkpoint": describe_checkpoint(checkpoint),
            # The predictor and a push compare the files with these.
            "sha256": {path.name: sha256_of(path) for path in draft.iterdir()},
            "inputs": graph.inputs,
            "files": {},
        }
        if rows is not None:
            report["measured"] = {
                "source": rows.sources["test"],
                "hardware": describe_hardware(),
                "results": {},
            }
        write_record(report, draft / RECORD)
        for path in sorted(draft.glob("*.onnx")):
            predictor = Predictor(draft, int8=path.name == INT8_MODEL)
            difference = _largest_difference(predictor, graph)
            if path.name == MODEL and difference > TOLERANCE:
                raise ValueError(f"{MODEL} differs by {difference:.1e}; max {TOLERANCE:.0e}")
            size = path.stat().st_size
            report["files"][path.name] = {"bytes": size, "largest_difference": difference}
            if rows is not None:
                measured = _compare_on_rows(predictor, graph, rows.splits["test"])
                report["measured"]["results"][path.name] = measured
    except Exception as reason:  # of the exporter, onnx or onnxruntime
        raise refusal(
            f"cannot export {checkpoint}: {reason!s:.300}; nothing was written",
            "pip install 'sase_hf[onnx]' -c constraints.txt installs versions that export it",
        ) from reason
    write_record(report, draft / RECORD)
    return report


def _write_graphs(graph: "_Graph", folder: Path, int8: bool) -> None:
    """Write the ONNX files of a model; in int8, matrix products quantize their inputs too.

    Call it once in a process: a second export would fix the length of the texts.
    """
    # These warnings of torch's exporter concern its own code.
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    program: Any = torch.onnx.export(
        graph,
        tuple(torch.ones(3, 7, dtype=torch.long) for _ in graph.inputs),
        dynamo=True,
        dynamic_shapes=[{0: "B", 1: "T"} for _ in graph.inputs],
        input_names=graph.inputs,
        output_names=(graph.answer, "attentions"),
        verbose=False,
    )
    for node in program.model.graph.all_nodes():
        node.metadata_props.clear()  # stack traces, with the paths of this machine
    exported = program.model_proto
    # The shapes noted for inner tensors contradict those that int8 finds.
    del exported.graph.value_info[:]
    (folder / MODEL).write_bytes(exported.SerializeToString())
    if int8:
        from onnxruntime.quantization import quantize_dynamic

        quantize_dynamic(folder / MODEL, folder / INT8_MODEL)


class _Graph(nn.Module):
    """A model in the form that the exporter needs: tensors in, a tuple of tensors out."""

    def __init__(self, model: CheckedPreTrainedModel) -> None:
        super().__init__()
        self.model = model
        # Tensors (B, T); only a model of pairs reads token types.
        self.inputs = INPUTS if model.reads_pairs else INPUTS[:2]
        self.answer = "logits" if model.is_head else "sentence_embedding"

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Return `logits` (B, num_labels) or `sentence_embedding` (B, r * H).

        If the model attends, then `attentions`, A (B, r, T), or (B, 2, r, T) for pairs.
        """
        outputs = self.model(input_ids, attention_mask, token_type_ids, output_attentions=True)
        return (outputs[self.answer], *(outputs.attentions or ()))

    def run(self, _: object, feed: Mapping[str, Array]) -> list[Array]:
        """Return all outputs for named arrays (B, T), in the place of a session."""
        with torch.inference_mode():
            return [output.numpy() for output in self(*map(torch.from_numpy, feed.values()))]


def _largest_difference(predictor: Predictor, graph: _Graph) -> float:
    """Return the difference of a graph from the model on random batches."""
    differences: list[float] = []
    for batch in random_batches(graph.model.config.vocab_size):
        feed = {name: ids.numpy() for name, ids in zip(graph.inputs, batch, strict=False)}
        outputs = predictor.session.run(None, feed)
        differences += map(relative_difference, outputs, graph.run(None, feed))
    return max(differences)


def random_batches(vocab_size: int) -> Iterator[tuple[Tensor, ...]]:
    """Yield ids, mask and token types (B, T) of shapes that the exporter has not seen.

    The padding is in holes or on the right; the last row of a larger batch is padding only.
    """
    generator = torch.Generator().manual_seed(0)
    for shape in ((1, 1), (1, 37), (2, 5), (7, 64), (4, 150)):
        ids = torch.randint(vocab_size, shape, generator=generator)
        mask, types = torch.randint(2, (2, *shape), generator=generator)
        mask[-1] = len(mask) == 1
        yield ids, mask, types
        yield ids, mask.sort(descending=True).values, types


def _compare_on_rows(predictor: Predictor, graph: _Graph, rows: Dataset) -> dict[str, float]:
    """Return how far an ONNX file is from the model, and the share of rows with equal labels."""
    texts = rows.select_columns(present(TEXT_COLUMNS, rows)).to_list()
    exported = predictor.read(texts)
    predictor.session = graph
    expected = predictor.read(texts)
    comparison = {"largest_difference": relative_difference(exported, expected)}
    answers = answers_of(graph.model.config)
    if graph.model.is_head and answers.has_labels:
        chosen = [answers.chosen(torch.from_numpy(logits)) for logits in (exported, expected)]
        is_same = torch.eq(*chosen).reshape(len(texts), -1).all(1)
        comparison["agreement"] = is_same.double().mean().item()
    return comparison


def relative_difference(values: Array, expected: Array) -> float:
    """Return the largest difference divided by the largest number, or by 1 if that is larger."""
    difference = np.nan_to_num(np.abs(values - expected), nan=np.inf)  # NaN must not pass as small
    return float(difference.max() / max(np.abs(expected).max(), 1))
