"""The check that models compute the same, made before their times are compared."""

import torch
from torch import Tensor, nn

from .models import Settings
from .plain import plain_name
from .texts import Batch, batches_of, draw_texts

# Allowed difference of float32 sums in another order, as a share of the largest value.
TOLERANCE = 1e-3


def sample_batch(vocab_size: int, num_labels: int, device: str = "cpu") -> Batch:
    """Return a few short texts of different lengths, on which models are compared."""
    texts = draw_texts([5, 17, 1, 9], vocab_size, num_labels)
    return batches_of(texts, len(texts), device=device)[0]


def logit_difference(
    model: nn.Module, settings: Settings, baseline: nn.Module, batch: Batch
) -> float:
    """Return the largest difference of the logits, as a share of the largest logit.

    Args:
        model: The model to check, without dropout.
        settings: The settings of `model`.
        baseline: The model it is compared with, in float32 and without dropout.
        batch: The input of both.

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
            gradients = gradients_of(model, batch)
            for name, gradient in gradients_of(baseline, batch).items():
                differences[f"gradients of {name}"] = _relative(gradients[name], gradient)
        for quantity, difference in differences.items():
            if not difference <= TOLERANCE:
                raise RuntimeError(
                    f"{settings.name}: {quantity} differ from those of the baseline by "
                    f"{difference:.2g} of the largest value; at most {TOLERANCE} is allowed. "
                    "Correct the model or plain.py before comparing times"
                )
    return differences["logits"]


def gradients_of(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Return the gradients of the loss by the names of the parameters in plain.py."""
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
