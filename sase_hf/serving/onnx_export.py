"""A checkpoint as a folder that ONNX Runtime serves without torch.

The folder holds `model.onnx`, the config and the tokenizer; `predictor.py`, which reads texts with
these files; and `export.json`, with the difference of the graph from the model and the SHA-256 of
each file. The graph takes batches of any size and texts of any length.
"""

import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers.utils import CONFIG_NAME

from ..evaluation.records import write_record
from ..models.checkpoint import CheckedPreTrainedModel, list_files, sha256_of
from ..utils.files import FilePath
from ..utils.loading import load_checkpoint
from ..utils.text import refusal

MODEL, RECORD, PREDICTOR = "model.onnx", "export.json", "predictor.py"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")

# Max difference between model.onnx and the model, as a share of the largest output: float32 sums
# are taken in another order.
TOLERANCE = 1e-5


def export(checkpoint: FilePath, folder: FilePath) -> dict[str, Any]:
    """Write a checkpoint for ONNX Runtime, complete and checked or not at all.

    The graph is compared with the model. In the folder of the checkpoint the files of the export
    join its `SHA256SUMS`, and a push takes them along from the folder `onnx`. Returns the content
    of `export.json`; raises FileExistsError for a folder that exists, and ValueError for a model
    without an export and for a graph that differs. Another process writes the export and imports
    the script that calls this: call it there under `if __name__ == "__main__":`.
    """
    folder = Path(folder).resolve()
    if folder.exists():
        raise refusal(f"{folder} exists", "name a new folder, or delete it", FileExistsError)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as scratch,
        ProcessPoolExecutor(1, get_context("spawn")) as fresh,
    ):
        draft = Path(scratch, folder.name)
        draft.mkdir()
        report = fresh.submit(_write, checkpoint, draft).result()
        draft.replace(folder)
    if folder.parent == Path(checkpoint).resolve():
        list_files(folder.parent, [f"{folder.name}/{path.name}" for path in folder.iterdir()])
    return report


def _write(checkpoint: FilePath, draft: Path) -> dict[str, Any]:
    """Write an export into an empty folder; the arguments and errors are those of `export`."""
    model, tokenizer = load_checkpoint(checkpoint)
    if model.config.is_encoder_decoder:  # torch.export fails in the encoder, too
        raise refusal(
            f"{checkpoint} is a {type(model).__name__}, which has no ONNX export",
            "sase_hf predict translates with it",
        )
    for private in ("_name_or_path", "auto_map", "custom_pipelines"):
        vars(model.config).pop(private, None)  # the code of a checkpoint is not in the folder
    model.config.to_json_file(draft / CONFIG_NAME, use_diff=False)
    tokenizer.save_pretrained(draft)
    shutil.copyfile(Path(__file__).with_name("onnx_predictor.py"), draft / PREDICTOR)
    graph = _Graph(model).eval()
    try:
        _write_graph(graph, draft / MODEL)
        difference = _largest_difference(draft / MODEL, graph)
        if not difference <= TOLERANCE:  # NaN is none
            raise ValueError(f"{MODEL} differs by {difference:.1e}; max {TOLERANCE:.0e}")
    except Exception as reason:  # of the exporter, onnx or onnxruntime
        raise refusal(
            f"cannot export {checkpoint}: {reason!s:.300}; nothing was written",
            "pip install 'sase_hf[onnx]' -c constraints.txt installs versions that export it",
        ) from reason
    report: dict[str, Any] = {
        # The predictor compares the files with these.
        "sha256": {path.name: sha256_of(path) for path in draft.iterdir()},
        "inputs": graph.inputs,
        "largest_difference": difference,
    }
    write_record(report, draft / RECORD)
    return report


def _write_graph(graph: "_Graph", path: Path) -> None:
    """Write the ONNX file of a model.

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
    path.write_bytes(program.model_proto.SerializeToString())


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
    ) -> tuple[Tensor, Tensor]:
        """Return `logits` (B, num_labels) or `sentence_embedding` (B, r * H), and `attentions`.

        These are A (B, r, T), or (B, 2, r, T) for pairs.
        """
        outputs = self.model(input_ids, attention_mask, token_type_ids, output_attentions=True)
        return outputs[self.answer], outputs.attentions[0]


@torch.inference_mode()
def _largest_difference(path: Path, graph: _Graph) -> float:
    """Return the difference of a written graph from the model on random batches.

    It is a share of the largest output, or of 1 if that is larger; NaN if one of them is NaN.
    """
    import onnxruntime  # of an extra

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    differences = []
    for batch in _random_batches(graph.model.config):
        tensors = dict(zip(graph.inputs, batch, strict=False))
        found = session.run(None, {name: tensor.numpy() for name, tensor in tensors.items()})
        for output, expected in zip(found, graph(**tensors), strict=True):
            difference = np.abs(output - expected.numpy()).max()
            differences.append(difference / max(1, expected.abs().max()))
    return float(np.max(differences))


def _random_batches(config: Any) -> Iterator[tuple[Tensor, ...]]:
    """Yield ids, mask and token types (B, T) of shapes that the exporter has not seen.

    The padding is in holes; the last row of a larger batch is padding only.
    """
    generator = torch.Generator().manual_seed(0)
    for rows, tokens in ((1, 1), (1, 37), (2, 5), (7, 64), (4, 150)):
        shape = (rows, min(tokens, config.max_tokens))
        ids = torch.randint(config.vocab_size, shape, generator=generator)
        mask, types = torch.randint(2, (2, *shape), generator=generator)
        mask[-1] = len(mask) == 1
        yield ids, mask, types
