"""The model in ONNX Runtime, in float32 and with int8 weights."""

import os
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from .models import random_model
from .processes import in_fresh_process

NEEDED = ("onnx", "onnxscript", "onnxruntime")
INPUTS = ("ids", "mask")


def is_installed() -> bool:
    """Say whether everything that exports and runs ONNX files is there."""
    return all(find_spec(name) is not None for name in NEEDED)


class OnnxClassifier(nn.Module):
    """A classifier that ONNX Runtime runs.

    Args:
        fields: Fields of the config.
        seed: Of the weights.
        int8: Keep the weights of the linear layers in 8 bits; their inputs are quantized on the
            way.
    """

    def __init__(self, fields: Mapping[str, Any], seed: int, *, int8: bool) -> None:
        super().__init__()
        folder = _exported(tuple(sorted(fields.items())), seed).name
        self.path = Path(folder, "int8.onnx" if int8 else "fp32.onnx")
        self._session: Any = None
        self._owner = 0

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the logits (B, num_labels) of texts (B, T)."""
        if self._owner != os.getpid():  # a session does not survive the copying of its process
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            options.inter_op_num_threads = 1
            self._session = onnxruntime.InferenceSession(self.path, options)
            self._owner = os.getpid()
        inputs = dict(zip(INPUTS, (ids.numpy(), mask.numpy()), strict=True))
        (logits,) = self._session.run(None, inputs)
        return torch.from_numpy(logits)


@lru_cache
def _exported(fields: tuple[tuple[str, Any], ...], seed: int) -> TemporaryDirectory[str]:
    """Return a folder with the files of a model, made at the first call and deleted at the end."""
    folder: TemporaryDirectory[str] = TemporaryDirectory()
    # A second export in the same process would fix the length of the texts.
    in_fresh_process(_export, dict(fields), seed, Path(folder.name))
    return folder


class _Logits(nn.Module):
    """A classifier that returns its logits alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.model(ids, attention_mask=mask).logits
        return logits


def _export(fields: Mapping[str, Any], seed: int, folder: Path) -> None:
    """Write a model for batches of any size and texts of any length, in both precisions."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = random_model(fields, seed).eval()
    example = (torch.ones(3, 16, dtype=torch.long), torch.ones(3, 16, dtype=torch.long))
    free = {0: torch.export.Dim("B"), 1: torch.export.Dim("T")}
    torch.onnx.export(
        _Logits(model).eval(),
        example,
        folder / "fp32.onnx",
        dynamo=True,
        dynamic_shapes=(free, free),
        input_names=INPUTS,
        external_data=False,
        verbose=False,
    )
    exported = onnx.load(folder / "fp32.onnx")
    # The shapes noted for what lies between the layers contradict those that onnx finds.
    del exported.graph.value_info[:]
    quantize_dynamic(exported, folder / "int8.onnx", weight_type=QuantType.QInt8)
