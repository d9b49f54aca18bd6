"""What is timed: a model's way through some batches, in training and in inference."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .onnx_runtime import OnnxClassifier
from .plain import PlainClassifier, plain_name
from .settings import AnyModel, Optimisers, Settings, precision
from .workloads import Batch, batches_of, draw_texts

# What two orders of the same float32 sums may change, as a share of the largest.
TOLERANCE = 1e-3


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


def sample_batch(vocab_size: int, num_labels: int, device: torch.device) -> Batch:
    """Return a few short texts of unlike lengths, on which models are compared before any time."""
    texts = draw_texts([5, 17, 1, 9], vocab_size, num_labels)
    return batches_of(texts, len(texts), grouped=False, device=device)[0]


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
        RuntimeError: If both are float32 and their logits, or their gradients in training, differ
            by more than rounding: their times would be those of two different things.
    """
    modes = model.training, baseline.training
    model.eval()
    baseline.eval()
    # Reduced precision, which cuDNN takes for float32 on its own, would hide a difference.
    with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        expected = logits_of(baseline, batch)
        with precision(settings, expected.device):
            actual = logits_of(model, batch)
    model.train(modes[0])
    baseline.train(modes[1])
    difference = _relative(actual, expected)
    if settings.dtype == "fp32":
        _refuse_difference(settings, "logits", difference)
        if not isinstance(model, OnnxClassifier) and not isinstance(baseline, OnnxClassifier):
            actual_gradients, expected_gradients = (
                gradients_of(trained, batch) for trained in (model, baseline)
            )
            for name, gradient in expected_gradients.items():
                if name in actual_gradients:  # unless frozen
                    apart = _relative(actual_gradients[name], gradient)
                    _refuse_difference(settings, f"gradients of {name}", apart)
    return difference


def gradients_of(model: AnyModel, batch: Batch) -> dict[str, Tensor]:
    """Return the gradients of a training step without dropout, by their names in plain.py."""
    dropouts = [module for module in model.modules() if isinstance(module, nn.Dropout)]
    shares = [module.p for module in dropouts]
    for module in dropouts:
        module.p = 0.0
    mode = model.training
    model.train()
    loss_of(model, batch).backward()
    model.train(mode)
    for module, share in zip(dropouts, shares, strict=True):
        module.p = share
    is_plain = isinstance(model, PlainClassifier)
    gradients = {
        name if is_plain else plain_name(name): weight.grad.to_dense()
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }
    model.zero_grad()
    return gradients


def _relative(actual: Tensor, expected: Tensor) -> float:
    return ((actual.float() - expected).abs().max() / expected.abs().max()).item()


def _refuse_difference(settings: Settings, what: str, difference: float) -> None:
    if not difference <= TOLERANCE:
        raise RuntimeError(
            f"{settings.name}: its {what} differ by {difference:.2g} of their size from those of "
            f"the first settings; at most {TOLERANCE} is allowed, or times of two different "
            "things would be compared. Mend the model, or plain.py, first"
        )
