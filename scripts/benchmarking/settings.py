"""The ways to run the model that are compared with one another.

`RECOMMENDED` is what the package recommends for training: `scripts/train.py` keeps freed memory and
takes fused Adam by itself; `--bf16 true --train_sampling_strategy group_by_length` is the rest.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Adam, Optimizer, SparseAdam

from sase_hf import SelfAttentiveForSequenceClassification

from .models import random_model
from .onnx_runtime import OnnxClassifier
from .plain import PlainClassifier, plain_twin

AnyModel = PlainClassifier | SelfAttentiveForSequenceClassification | OnnxClassifier

LEARNING_RATE = 1e-3
NUM_LABELS = 5
DEFAULTS = {"vocab_size": 20_000, "num_labels": NUM_LABELS}

# The sizes of the paper: those of its experiment on Age, on Yelp, and of Appendix A.
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "mlp2000": {"classifier_hidden_size": 2000},
    "mlp3000": {"classifier_hidden_size": 3000},
    "pruned": {"classifier": "pruned_mlp"},
}


@dataclass(frozen=True)
class Settings:
    """One way to run the model.

    Attributes:
        name: What it is called in tables and records.
        plain: The plain implementation instead of the package's.
        autocast: Run under bfloat16 autocast.
        bf16_weights: Keep the weights in bfloat16; inference alone.
        onnx: The precision in which ONNX Runtime runs the model; inference alone.
        grouped: Put texts of like length into one batch.
        checkpointing: Recompute states in the backward pass instead of keeping them.
        optimizer: Arguments of `torch.optim.Adam` beside the learning rate.
        keeps_memory: Keep freed memory for the next step, as `scripts/train.py` does.
        set_to_none: Drop gradients between steps instead of filling them with zeros.
        sparse_embeddings: Gradients of the word vectors only for the rows used, for SparseAdam.
        fields: Fields of the config.
    """

    name: str
    plain: bool = False
    autocast: bool = False
    bf16_weights: bool = False
    onnx: Literal["fp32", "int8"] | None = None
    grouped: bool = False
    checkpointing: bool = False
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    keeps_memory: bool = False
    set_to_none: bool = True
    sparse_embeddings: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """The data type of the matrix products."""
        return self.onnx or ("bf16" if self.autocast or self.bf16_weights else "fp32")


# Adam without arguments is what torch picks: a loop over the weights on a CPU, foreach on a GPU.
PLAIN = Settings("plain", plain=True)
PLAIN_GROUPED = Settings("plain, grouped", plain=True, grouped=True)
OURS = Settings("ours")
OURS_GROUPED = Settings("ours, grouped", grouped=True)
RECOMMENDED = Settings(
    "recommended", autocast=True, grouped=True, keeps_memory=True, optimizer={"fused": True}
)

# The encoder with its attention, a whole training step, and the cost against length.
ENCODER = (PLAIN, OURS, PLAIN_GROUPED, OURS_GROUPED, RECOMMENDED)
WHOLE = (PLAIN, OURS, RECOMMENDED)
LENGTHS = (PLAIN, OURS, Settings("ours, checkpointing", checkpointing=True), RECOMMENDED)
INFERENCE = (
    PLAIN,
    OURS,
    Settings("ours, autocast", autocast=True, keeps_memory=True),
    Settings("ours, bf16 weights", bf16_weights=True, keeps_memory=True),
)
ON_ONNX_RUNTIME = (
    Settings("ONNX Runtime", onnx="fp32"),
    Settings("ONNX Runtime, int8", onnx="int8"),
)

# What helps a whole training step, each alone; the first is what the others are compared with.
OPTIMISERS = (
    Settings("ours, Adam"),
    PLAIN,
    Settings("loop", optimizer={"foreach": False}),
    Settings("foreach", optimizer={"foreach": True}),
    Settings("fused", optimizer={"fused": True}),
    Settings("kept memory", keeps_memory=True),
    Settings("zeroed gradients", set_to_none=False),
    Settings("autocast", autocast=True),
    Settings("sparse embeddings", sparse_embeddings=True),
    Settings("frozen embeddings", fields={"freeze_embeddings": True}),
    Settings("pruned MLP", fields=CLASSIFIERS["pruned"]),
    RECOMMENDED,
)
ON_CUDA = (Settings("capturable", optimizer={"capturable": True}),)


def build_model(
    settings: Settings, fields: Mapping[str, Any], device: torch.device, seed: int
) -> AnyModel:
    """Return a model; the same fields and seed give the same weights under all settings.

    Args:
        settings: How it is run.
        fields: Fields of the config; those of the settings win.
        device: Where it goes.
        seed: Of the weights.
    """
    sizes = {**DEFAULTS, **fields, **settings.fields}
    if settings.onnx:
        return OnnxClassifier(sizes, seed, int8=settings.onnx == "int8")
    ours = random_model(sizes, seed)
    ours.to(device)  # type: ignore[arg-type]  # a decorator of transformers hides `self`
    model: AnyModel = plain_twin(ours) if settings.plain else ours
    if settings.checkpointing:  # renamed in transformers 5.23
        enable = getattr(ours, "activation_checkpointing_enable", None)
        (enable or ours.gradient_checkpointing_enable)()
    embeddings = model.embeddings if isinstance(model, PlainClassifier) else ours.encoder.embeddings
    embeddings.sparse = settings.sparse_embeddings
    return model.bfloat16() if settings.bf16_weights else model


class Optimisers:
    """Adam, and SparseAdam for word vectors whose gradients are sparse."""

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        sparse = {
            weight
            for module in model.modules()
            if isinstance(module, nn.Embedding) and module.sparse
            for weight in module.parameters()
        }
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        dense = [weight for weight in trained if weight not in sparse]
        self.parts: list[Optimizer] = [Adam(dense, lr=LEARNING_RATE, **settings.optimizer)]
        if sparse:
            self.parts.append(SparseAdam(list(sparse), lr=LEARNING_RATE))
        self.set_to_none = settings.set_to_none

    def step(self) -> None:
        """Update the weights and clear the gradients."""
        for part in self.parts:
            part.step()
            part.zero_grad(set_to_none=self.set_to_none)


def precision(settings: Settings, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context in which the settings run the forward pass."""
    return torch.autocast(device.type, torch.bfloat16, enabled=settings.autocast)
