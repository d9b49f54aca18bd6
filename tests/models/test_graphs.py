"""A model as a graph, compiled or exported: the same numbers for any batch of any length."""

import importlib
import multiprocessing
import random
import shutil
import sysconfig
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor, nn

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, SelfAttentiveModel

HAS_HEADERS = Path(sysconfig.get_path("include"), "Python.h").exists()
CAN_COMPILE = HAS_HEADERS and any(map(shutil.which, ("g++", "clang++")))
# B and T of a batch are free in an exported graph.
FREE = {0: torch.export.Dim("B"), 1: torch.export.Dim("T")}


@pytest.mark.slow
@pytest.mark.skipif(not CAN_COMPILE, reason="needs a C++ compiler and Python's headers")
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns about itself
@pytest.mark.timeout(900)  # the C++ compiler is slow on a busy machine
@torch.no_grad()
def test_compiled_equals_eager_at_any_length() -> None:
    rng = random.Random(0)
    model = tiny.tiny_model(SelfAttentiveModel)
    compiled = torch.compile(model, dynamic=True)
    for count, padding in ((2, "right"), (3, "left"), (5, "holed")):
        texts = [tiny.random_text(rng) for _ in range(count)]
        batch = tiny.text_batch(texts, padding, rng, extra=2)
        torch.testing.assert_close(
            compiled(**batch).sentence_embedding,
            model(**batch).sentence_embedding,
            rtol=1e-5,
            atol=1e-5,
        )


class _Exported(nn.Module):
    """A model as `torch.export` wants it: tensors in, a tuple of tensors out."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> tuple[Tensor, ...]:
        outputs = self.model(ids, mask, types, output_attentions=True)
        (attention,) = outputs.attentions or (outputs[0],)
        return outputs[0], outputs.penalty, attention


# Every encoder with all its options, and every kind of pooling with either head.
ENCODERS = (
    {"encoder": "bilstm", "num_lstm_layers": 2, "lstm_shortcuts": True},
    {"encoder": "cnn"},
    {"encoder": "dilated_cnn"},
    {"encoder": "relation_network", "relation_gate": True},
)
POOLINGS = ("self_attention", "generalized", "max", "mean")
GRAPHS = [
    (SelfAttentiveModel, {}),
    (SelfAttentiveForSequenceClassification, {"pooling": "last"}),
    *(
        (head, {**encoder, "pooling": pooling})
        for head in (SelfAttentiveForSequenceClassification, SelfAttentiveForNLI)
        for encoder, pooling in zip(ENCODERS, POOLINGS, strict=True)
    ),
]


@pytest.mark.slow
@tiny.exports
@pytest.mark.filterwarnings("ignore")  # torch's exporter warns about itself
@pytest.mark.parametrize(
    ("model_class", "fields"),
    GRAPHS,
    ids=lambda value: getattr(value, "__name__", None) or tiny.name_of(value),
)
def test_an_exported_model_reads_any_batch_of_any_length(
    model_class: type, fields: dict[str, Any]
) -> None:
    """B and T are free in the exported graph; unseen lengths and masks give what eager gives."""
    patches = importlib.import_module("torch.export._patches")  # torch 2.10 has none
    rng = random.Random(0)
    model = _Exported(tiny.tiny_model(model_class, **fields)).eval()

    def inputs(count: int, padding: str, extra: int) -> tuple[Tensor, ...]:
        pairs = [tiny.random_pair(rng) for _ in range(count - 1)] + [([1, 2], [])]
        return tuple(tiny.pair_batch(pairs, padding, rng, extra).values())

    with patches.register_lstm_while_loop_decomposition():
        program = torch.export.export(
            model, inputs(3, "right", 2), dynamic_shapes=(FREE, FREE, FREE)
        )
    for count, padding, extra in ((1, "right", 0), (2, "left", 7), (5, "holed", 30)):
        batch = inputs(count, padding, extra)
        for exported, eager in zip(program.module()(*batch), model(*batch), strict=True):
            torch.testing.assert_close(exported, eager, rtol=1e-5, atol=1e-5)


class _Logits(nn.Module):
    """Classifiers of every encoder and every pooling."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)  # so that two processes make the same
        chosen = [
            fields for kind, fields in GRAPHS if kind is SelfAttentiveForSequenceClassification
        ]
        self.models = nn.ModuleList(
            tiny.tiny_model(SelfAttentiveForSequenceClassification, **fields) for fields in chosen
        )

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        return tuple(model(ids, mask).logits for model in self.models)


def export_to_onnx(path: Path) -> None:
    """Write the classifiers of all encoders as one graph, traced on three texts of six tokens."""
    torch.onnx.export(
        _Logits().eval(),
        (torch.ones(3, 6, dtype=torch.long), torch.ones(3, 6, dtype=torch.long)),
        path,
        dynamo=True,
        dynamic_shapes=(FREE, FREE),
        input_names=("ids", "mask"),
        external_data=False,
        verbose=False,
    )


@pytest.mark.slow
@tiny.exports
@pytest.mark.timeout(900)  # the exporter is slow on a busy machine
def test_every_encoder_runs_in_onnx_runtime_at_any_length(tmp_path: Path) -> None:
    """One file holds all, since a second export in the same process would fix the length."""
    runtime = importlib.import_module("onnxruntime")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        pool.submit(export_to_onnx, tmp_path / "all.onnx").result()
    session = runtime.InferenceSession(tmp_path / "all.onnx")
    rng, models = random.Random(0), _Logits().eval()
    for texts, extra in (([[1, 2]], 0), ([tiny.random_text(rng, 5, 20), [3, 4], []], 9)):
        batch = tuple(tiny.text_batch(texts, "holed", rng, extra).values())
        feed = dict(zip(("ids", "mask"), (tensor.numpy() for tensor in batch), strict=True))
        for ours, eager in zip(session.run(None, feed), models(*batch), strict=True):
            torch.testing.assert_close(torch.from_numpy(ours), eager, rtol=1e-5, atol=1e-5)
