"""Training that diverges stops before an update spoils the weights."""

import logging
from typing import Any

import torch
from torch.nn.utils import get_total_norm
from transformers import TrainerCallback

from .checkpoints import list_checkpoints

logger = logging.getLogger(__name__)

LARGE_LOSS = 10.0  # below it, the loss of a good run may double by chance


def divergence(fault: str, args: Any, state: Any) -> FloatingPointError:
    """Return the error that ends training; it names the newest checkpoint and the way out."""
    saved = list_checkpoints(args.output_dir)
    return FloatingPointError(
        f"the {fault} after {state.global_step} updates; training stops here. Newest checkpoint: "
        f"{saved[0] if saved else 'none yet'}. Try a lower --learning_rate (now "
        f"{args.learning_rate:g}) or --max_grad_norm (now {args.max_grad_norm:g}), and check the "
        "word vectors and labels"
    )


class StopOnDivergence(TrainerCallback):
    """Stops a `ResumableTrainer` before an update with a loss or gradient that is not finite."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Raise FloatingPointError; the stock `Trainer` makes every weight NaN."""
        if not self.trainer.loss_sum.isfinite():
            raise divergence(f"loss is {self.trainer.loss_sum.item()}", args, state)
        # The loss scaling of fp16 meets infinities on purpose and leaves such a step out itself.
        gradients = [p.grad for p in kwargs["model"].parameters() if p.grad is not None]
        if not args.fp16 and not torch.isfinite(get_total_norm(gradients)):
            raise divergence("gradient is not finite", args, state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Warn if the last logged loss, or else the mean loss, is far above the first loss."""
        losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
        last = losses[-1] if losses else state.log_history[-1]["train_loss"]
        first = self.trainer.progress.first_loss
        if last > max(2 * first, LARGE_LOSS) and state.is_world_process_zero:
            logger.warning(
                f"the loss grew from {first:.3g} to {last:.3g}; try a lower --learning_rate (now "
                f"{args.learning_rate:g})"
            )
