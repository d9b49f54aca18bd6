"""The ways to run the model that are compared with one another.

`RECOMMENDED` is what the package recommends for training: `scripts/train.py` keeps freed memory and
uses fused Adam by default; `--bf16 true --train_sampling_strategy group_by_length` is the rest.
"""

import atexit
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification
from sase_hf.utils.processes import in_fresh_process

from .plain import plain_name, plain_twin
from .texts import Batch, batches_of, draw_texts

NUM_LABELS = 5
# The sizes of the paper, with its attention and without dropout of word vectors, as the plain
# implementation has it.
PAPER: dict[str, Any] = {
    "vocab_size": 20_000,
    "num_labels": NUM_LABELS,
    "embedding_size": 100,
    "lstm_hidden_size": 300,
    "attention_size": 350,
    "num_hops": 30,
    "embedding_dropout": 0.0,
    "attention_function": "softmax",
    "normalize_states": False,
    "penalty": "frobenius",
    "penalty_coef": 1.0,
}
SIZES = (
    "embedding_size",
    "lstm_hidden_size",
    "attention_size",
    "num_hops",
    "classifier_hidden_size",
)
ATTENTION = ("attention_function", "normalize_states", "penalty", "penalty_coef")

# Allowed difference of float32 sums in another order, as a share of the largest value.
TOLERANCE = 1e-3

# What differs from `PAPER`: the classifiers of its experiments on Age and on Yelp, the one of its
# Appendix A, and the sizes of `SelfAttentiveConfig()`.
MODELS: dict[str, dict[str, Any]] = {
    "mlp2000": {"classifier_hidden_size": 2000},
    "mlp3000": {"classifier_hidden_size": 3000},
    "pruned": {"classifier": "pruned_mlp"},
    "default_sizes": {name: getattr(SelfAttentiveConfig, name) for name in SIZES},
}


@dataclass(frozen=True)
class Settings:
    """One way to run the model; `name` is that in tables and records."""

    name: str
    plain: bool = False  # the plain implementation instead of the package's
    autocast: bool = False  # in bfloat16
    bf16_weights: bool = False  # inference only
    onnx: Literal["fp32", "int8"] | None = None  # by ONNX Runtime in this precision
    grouped: bool = False  # texts of similar length in a batch
    checkpointing: bool = False  # recompute states in the backward pass
    fused: bool = False  # Adam; otherwise a loop on a CPU, foreach on a GPU
    keeps_memory: bool = False  # keep freed memory for the next step
    focused: bool = False  # the attention of `SelfAttentiveConfig()` instead of the paper's

    @property
    def dtype(self) -> str:
        """The data type of the matrix products."""
        return self.onnx or ("bf16" if self.autocast or self.bf16_weights else "fp32")

    def precision(self, device: str) -> AbstractContextManager[Any]:
        """Return the context of the forward pass."""
        return torch.autocast(device, torch.bfloat16, enabled=self.autocast)


PLAIN = Settings("plain", plain=True)
OURS = Settings("ours")
RECOMMENDED = Settings("recommended", autocast=True, grouped=True, fused=True, keeps_memory=True)
FOCUSED = replace(RECOMMENDED, name="recommended, default attention", focused=True)

TRAINING = (PLAIN, OURS, RECOMMENDED, FOCUSED)
LENGTHS = (PLAIN, OURS, Settings("ours, checkpointing", checkpointing=True), RECOMMENDED)
BF16_WEIGHTS = Settings("ours, bf16 weights", bf16_weights=True)
INFERENCE = (
    PLAIN,
    OURS,
    BF16_WEIGHTS,
    replace(BF16_WEIGHTS, name="bf16 weights, default attention", focused=True),
)
ON_ONNX_RUNTIME = (
    Settings("ONNX Runtime", onnx="fp32"),
    Settings("ONNX Runtime, int8", onnx="int8"),
)


class OnnxClassifier(nn.Module):
    """A classifier that ONNX Runtime runs from a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(path, options)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """Return the `logits` (B, c) of texts (B, T)."""
        inputs = {"input_ids": input_ids.numpy(), "attention_mask": attention_mask.numpy()}
        (logits,) = self._session.run(["logits"], inputs)
        return SimpleNamespace(logits=torch.from_numpy(logits))


def build_model(
    settings: Settings, fields: Mapping[str, Any], device: str = "cpu", seed: int = 0
) -> nn.Module:
    """Return a model; the same fields and seed give the same weights under all settings."""
    fields = {**PAPER, **fields}
    if settings.focused:
        own = {name: getattr(SelfAttentiveConfig, name) for name in ATTENTION}
        fields |= {name: value for name, value in own.items() if fields[name] == PAPER[name]}
    if settings.onnx:
        folder = _exported(tuple(sorted(fields.items())), seed)
        return OnnxClassifier(folder / f"{settings.onnx}.onnx")
    ours = _random_model(fields, seed)
    ours.to(device)  # type: ignore[arg-type]  # a decorator of transformers hides `self`
    model = plain_twin(ours) if settings.plain else ours
    if settings.checkpointing:  # renamed in transformers 5.23
        enable = getattr(ours, "activation_checkpointing_enable", None)
        (enable or ours.gradient_checkpointing_enable)()
    return model.bfloat16() if settings.bf16_weights else model


def _random_model(fields: Mapping[str, Any], seed: int) -> SelfAttentiveForSequenceClassification:
    torch.manual_seed(seed)
    model = SelfAttentiveForSequenceClassification(SelfAttentiveConfig(**fields))
    with torch.no_grad():
        # New models have zeros as biases and as the vector of padding. With zeros, a model that
        # reads padding by mistake would give the same outputs.
        for name, weight in model.named_parameters():
            if "bias" in name:
                weight.uniform_(-0.1, 0.1)
        model.encoder.embeddings.weight.normal_()
    return model


@lru_cache
def _exported(fields: tuple[tuple[str, Any], ...], seed: int) -> Path:
    """Return a folder with fp32.onnx and int8.onnx, which is deleted when the process ends."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    in_fresh_process(_export, dict(fields), seed, folder)
    return folder


def _export(fields: Mapping[str, Any], seed: int, folder: Path) -> None:
    from sase_hf.serving.onnx_export import write_graphs  # slow, and training needs none of it

    model = _random_model(fields, seed).eval()
    write_graphs(model, folder / "fp32.onnx", folder / "int8.onnx")


def build_equal_models(
    settings: Sequence[Settings], fields: Mapping[str, Any], device: str, seed: int
) -> tuple[dict[str, nn.Module], dict[str, float]]:
    """Return models without dropout by the names of their settings, and how their logits differ.

    Those with another attention are not compared.

    Raises:
        RuntimeError: If one does not compute the same as the first.
    """
    fields = {**fields, "embedding_dropout": 0.0, "classifier_dropout": 0.0}
    models = {one.name: build_model(one, fields, device, seed) for one in settings}
    sample = sample_batch(fields["vocab_size"], NUM_LABELS, device)
    baseline = models[settings[0].name]
    differences = {
        one.name: logit_difference(models[one.name], one, baseline, sample)
        for one in settings
        if not one.focused
    }
    return models, differences


def sample_batch(vocab_size: int, num_labels: int, device: str = "cpu") -> Batch:
    """Return a few short texts of different lengths, on which models are compared."""
    texts = draw_texts([5, 17, 1, 9], vocab_size, num_labels)
    return batches_of(texts, len(texts), device=device)[0]


def logit_difference(
    model: nn.Module, settings: Settings, baseline: nn.Module, batch: Batch
) -> float:
    """Return the largest difference of the logits, as a share of the largest logit.

    Raises:
        RuntimeError: If both are float32, and their logits or training gradients differ by more
            than rounding.
    """
    texts = {name: batch[name] for name in ("input_ids", "attention_mask")}
    # cuDNN may use TF32 for float32, which would hide a difference.
    with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        expected = baseline(**texts).logits
        with settings.precision(expected.device.type):
            actual = model(**texts).logits
    differences = {"logits": _relative(actual, expected)}
    if settings.dtype == "fp32":
        if not settings.onnx:
            gradients = _gradients_of(model, batch)
            for name, gradient in _gradients_of(baseline, batch).items():
                differences[f"gradients of {name}"] = _relative(gradients[name], gradient)
        for quantity, difference in differences.items():
            if not difference <= TOLERANCE:
                raise RuntimeError(
                    f"{settings.name}: {quantity} differ from those of the baseline by "
                    f"{difference:.2g} of the largest value; at most {TOLERANCE} is allowed. "
                    "Correct the model or plain.py before comparing times"
                )
    return differences["logits"]


def _gradients_of(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    model.train()
    model(**batch).loss.backward()
    gradients = {
        plain_name(name): weight.grad
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }
    model.zero_grad()
    return gradients


def _relative(actual: Tensor, expected: Tensor) -> float:
    return ((actual.float() - expected).abs().max() / expected.abs().max()).item()
