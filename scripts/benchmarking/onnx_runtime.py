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

from sase_hf.serving.onnx_export import INPUTS, NEEDED, write_graphs
from sase_hf.utils.processes import in_fresh_process

from .models import random_model


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
        inputs = dict(zip(INPUTS, (ids.numpy(), mask.numpy()), strict=False))
        (logits,) = self._session.run(["logits"], inputs)
        return torch.from_numpy(logits)


@lru_cache
def _exported(fields: tuple[tuple[str, Any], ...], seed: int) -> TemporaryDirectory[str]:
    """Return a folder with the files of a model, made at the first call and deleted at the end."""
    folder: TemporaryDirectory[str] = TemporaryDirectory()
    in_fresh_process(_export, dict(fields), seed, Path(folder.name))
    return folder


def _export(fields: Mapping[str, Any], seed: int, folder: Path) -> None:
    """Write a model in both precisions."""
    model = random_model(fields, seed).eval()
    write_graphs(model, folder / "fp32.onnx", folder / "int8.onnx")
