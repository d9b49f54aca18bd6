"""What is timed: a model's way through some batches, in training and in inference."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .onnx_runtime import OnnxClassifier
from .plain import PlainClassifier
from .settings import AnyModel, Optimisers, Settings, precision
from .workloads import Batch

# What two orders of the same float32 sums may change, as a share of the largest logit.
TOLERANCE = 1e-4


def encode(model: AnyModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the sentence matrices, in any shape, and the penalties of a batch."""
    ids, mask = batch["input_ids"], batch["attention_mask"]
    if isinstance(model, PlainClassifier):
        return model.encode(ids, mask)
    encoder: Any = model.encoder
    outputs = encoder(ids, mask)
    return outputs.sentence_embedding, outputs.penalty


def loss_of(model: AnyModel, batch: Batch) -> Tensor:
    """Return the training loss of a batch."""
    loss: Tensor
    loss = model(**batch)[0] if isinstance(model, PlainClassifier) else model(**batch).loss
    return loss


def logits_of(model: AnyModel, batch: Batch) -> Tensor:
    """Return the logits of a batch, shape (B, num_labels)."""
    ids, mask = batch["input_ids"], batch["attention_mask"]
    if isinstance(model, PlainClassifier):
        return model(ids, mask)[1]
    if isinstance(model, OnnxClassifier):
        return model(ids, mask)
    logits: Tensor = model(ids, attention_mask=mask).logits
    return logits


def encoder_pass(
    model: AnyModel, settings: Settings, batches: Sequence[Batch]
) -> Callable[[], None]:
    """Return forward and backward pass of encoder and attention over all batches."""

    def run() -> None:
        for batch in batches:
            with precision(settings, batch["input_ids"].device):
                matrix, penalty = encode(model, batch)
            (matrix.float().square().mean() + penalty.mean()).backward()
            model.zero_grad(set_to_none=settings.set_to_none)

    model.train()
    return run


def training_pass(
    model: AnyModel, settings: Settings, batches: Sequence[Batch]
) -> Callable[[], None]:
    """Return whole training steps, the optimiser's included, one for each batch."""
    optimisers = Optimisers(model, settings)

    def run() -> None:
        for batch in batches:
            with precision(settings, batch["input_ids"].device):
                loss = loss_of(model, batch)
            loss.backward()
            optimisers.step()

    model.train()
    return run


def inference_pass(
    model: AnyModel, settings: Settings, batches: Sequence[Batch]
) -> Callable[[], None]:
    """Return the forward pass over all batches, without gradients."""

    def run() -> None:
        for batch in batches:
            with torch.inference_mode(), precision(settings, batch["input_ids"].device):
                logits_of(model, batch)

    model.eval()
    return run


def logit_difference(
    model: AnyModel, settings: Settings, baseline: AnyModel, batch: Batch
) -> float:
    """Return how far the logits of two models are apart, as a share of the largest of them.

    Args:
        model: Run as its settings say.
        settings: Those of the model.
        baseline: Run in float32.
        batch: What both read.

    Raises:
        RuntimeError: If both are float32 and differ by more than rounding: their times would
            be those of two different things.
    """
    modes = model.training, baseline.training
    model.eval()
    baseline.eval()
    # Reduced precision, which cuDNN takes for float32 on its own, would hide a difference.
    exact = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)
    with torch.inference_mode(), exact:
        expected = logits_of(baseline, batch)
        with precision(settings, expected.device):
            actual = logits_of(model, batch)
    model.train(modes[0])
    baseline.train(modes[1])
    difference = ((actual.float() - expected).abs().max() / expected.abs().max()).item()
    if settings.dtype == "fp32" and not difference <= TOLERANCE:
        raise RuntimeError(
            f"{settings.name}: its logits differ by {difference:.2g} of their size from those of "
            f"the first settings; at most {TOLERANCE} is allowed, or times of two different "
            "things would be compared. Mend the model, or plain.py, first"
        )
    return difference
