"""A model as a graph, compiled or exported: the same numbers for any batch of any length."""

import importlib
import multiprocessing
import random
import shutil
import sysconfig
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor, nn

from sase_hf import SelfAttentiveModel

HAS_HEADERS = Path(sysconfig.get_path("include"), "Python.h").exists()
CAN_COMPILE = HAS_HEADERS and any(map(shutil.which, ("g++", "clang++")))
# B and T of a batch are free in an exported graph.
FREE = {0: torch.export.Dim("B"), 1: torch.export.Dim("T")}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # compiler and exporter are slow on a busy machine
]


def assert_equal_on_other_batches(run: Callable[..., Any], model: nn.Module, *inputs: str) -> None:
    """Compare a graph with its model on numbers of texts, lengths and paddings it has not seen."""
    rng = random.Random(1)
    for count, padding, extra in ((1, "right", 0), (2, "left", 7), (5, "holed", 30)):
        pairs = [tiny.random_pair(rng) for _ in range(count - 1)] + [([1, 2], [])]
        batch = tiny.pair_batch(pairs, padding, rng, extra)
        tensors = [batch[name] for name in inputs]
        for graph, eager in zip(run(*tensors), model(*tensors), strict=True):
            torch.testing.assert_close(graph, eager, rtol=1e-5, atol=1e-5)


class _Outputs(nn.Module):
    """Models as an exporter wants them: tensors in, a tuple of tensors out."""

    def __init__(self, *models: nn.Module) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> tuple[Tensor, ...]:
        found: list[Tensor] = []
        for model in self.models:
            outputs = model(ids, mask, types, output_attentions=True)
            found += [outputs[0], outputs.penalty, *(outputs.attentions or ())]
        return tuple(found)


@pytest.mark.skipif(not CAN_COMPILE, reason="needs a C++ compiler and Python's headers")
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns about itself
@torch.no_grad()
def test_compiled_equals_eager_at_any_length() -> None:
    model = _Outputs(tiny.tiny_model(SelfAttentiveModel))
    compiled = torch.compile(model, dynamic=True)
    assert_equal_on_other_batches(compiled, model, "input_ids", "attention_mask")


def onnx_models() -> nn.Module:
    """Return models with the encoders and poolings that tests/serving does not export."""
    torch.manual_seed(0)  # so that two processes make the same
    chosen = (
        {"num_lstm_layers": 2, "lstm_shortcuts": True, "pooling": "last"},
        {"encoder": "cnn"},
        {"encoder": "dilated_cnn", "pooling": "generalized"},
        {"encoder": "relation_network", "relation_weights": "sigmoid", "pooling": "mean"},
        {"encoder": "relation_network", "relation_weights": "softmax", "relation_window": 2},
        tiny.ON_BERT,
    )
    models = [tiny.tiny_model(SelfAttentiveModel, **fields) for fields in chosen]
    return _Outputs(*models).eval()


def export_to_onnx(path: Path) -> None:
    """Write the models as one graph, traced on three texts of six tokens."""
    torch.onnx.export(
        onnx_models(),
        (torch.ones(3, 6, dtype=torch.long), torch.ones(3, 6, dtype=torch.long)),
        path,
        dynamo=True,
        dynamic_shapes=(FREE, FREE),
        input_names=("ids", "mask"),
        external_data=False,
        verbose=False,
    )


@tiny.exports
def test_models_run_in_onnx_runtime_at_any_length(tmp_path: Path) -> None:
    """One file holds all, since a second export in the same process would fix the length."""
    runtime = importlib.import_module("onnxruntime")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        pool.submit(export_to_onnx, tmp_path / "all.onnx").result()
    session = runtime.InferenceSession(tmp_path / "all.onnx")

    def run(ids: Tensor, mask: Tensor) -> list[Tensor]:
        feed = {"ids": ids.numpy(), "mask": mask.numpy()}
        return [torch.from_numpy(found) for found in session.run(None, feed)]

    assert_equal_on_other_batches(run, onnx_models(), "input_ids", "attention_mask")
