"""`SelfAttentiveTrainer`: the stock `Trainer` and what this package needs on top.

The loss, the gradient and the data order are the stock ones. Added are logged outputs such as
`penalty`, the exact evaluation loss, and a limit on the tokens in memory. Files beside this one add
the stop of a run that diverges, checkpoints that resume exactly, and batches of similar lengths.
"""

from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_pt_utils import nested_concat
from transformers.trainer_utils import EvalLoopOutput

from ..data.batching import parts_of_batch
from ..data.labels import IGNORED_LABEL
from ..models import FAMILIES
from .divergence import StopOnDivergence, divergence
from .length_groups import LengthGroupedTrainer
from .resume import ResumableTrainer


class SelfAttentiveTrainer(LengthGroupedTrainer, ResumableTrainer):
    """`transformers.Trainer` for the heads in `sase_hf.models.FAMILIES`.

    The means of the `logged_outputs` of the family are in the training logs (`penalty`) and in the
    metrics (`eval_penalty`), over the rows and processes that the loss covers.

    Args:
        model: As for `Trainer`.
        args: As for `Trainer`; `push_to_hub` must be off.
        max_batch_tokens: The max number of tokens, padding included, that go through the model at
            once. A larger batch is read in parts, with the loss and the gradient of the whole; only
            dropout draws anew for each part. A `compute_loss_func` must divide by the
            `num_items_in_batch` that it is given.
        **kwargs: As for `Trainer`.

    Raises:
        ValueError: If several GPUs share this process, or if `args.push_to_hub` is on.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        args: Any = None,
        max_batch_tokens: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(model, args, **kwargs)
        if self.args.n_gpu > 1:
            raise ValueError(
                f"{self.args.n_gpu} GPUs are visible to one process; start one process per GPU: "
                f"torchrun --nproc_per_node {self.args.n_gpu} scripts/train.py ..., or set "
                "CUDA_VISIBLE_DEVICES=0"
            )
        self.args.logging_nan_inf_filter = False  # it would log a loss of 0 for one of NaN
        self.max_batch_tokens = max_batch_tokens
        self.family = FAMILIES[self.model.config.model_type]
        # Sums of weight * output for each logged output, then of the weights: since the last log,
        # and over the current evaluation.
        num_sums = len(self.family.logged_outputs) + 1
        self.output_sums = torch.zeros(num_sums, device=self.args.device)
        self._eval_sums = torch.zeros_like(self.output_sums)
        self._batch_outputs: Tensor | None = None  # the terms of these sums, a row for each example
        self.add_callback(StopOnDivergence(self))

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Compute the loss as `Trainer` does and keep the logged outputs."""
        labels = inputs.get("labels")  # `Trainer` removes them for another loss than the model's
        loss, outputs = super().compute_loss(model, inputs, True, *args, **kwargs)
        logged = [outputs[name].detach() for name in self.family.logged_outputs]
        if labels is None:
            weight = torch.ones_like(logged[0])  # (B,)
        else:
            counted = labels != IGNORED_LABEL
            weight = counted.reshape(len(counted), -1).sum(1)  # (B,): as the loss weighs a row
        batch = torch.stack([*(weight * x for x in logged), weight], dim=1)
        if model.training:
            self.output_sums += batch.sum(0)
        else:
            self._batch_outputs = batch  # (B, logged outputs + 1)
        return (loss, outputs) if return_outputs else loss

    def _means(self, sums: Tensor) -> dict[str, float]:
        *totals, weight = sums.tolist()
        means = (total / max(weight, 1) for total in totals)
        return dict(zip(self.family.logged_outputs, means, strict=True))

    def init_hf_repo(self, *args: Any, **kwargs: Any) -> None:
        """Refuse to push: `Trainer` uploads all of output_dir, also a pickle with the Hub token."""
        raise ValueError(
            "Trainer would push everything in output_dir. Turn push_to_hub off and call "
            "sase_hf.hub.push(output_dir, repo_id) after training"
        )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with the means of the logged outputs beside every mean loss of training."""
        if "loss" in logs:
            logs |= self._means(self.accelerator.reduce(self.output_sums, reduction="sum"))
            self.output_sums.zero_()
        super().log(logs, start_time)

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> Any:
        """Predict a batch as `Trainer` does and gather its logged outputs."""
        results: list[Any] = []
        kept: list[Tensor] = []
        for part in parts_of_batch(inputs, self.max_batch_tokens):
            self._batch_outputs = None  # stays None for rows without labels
            results.append(super().prediction_step(model, part, prediction_loss_only, ignore_keys))
            if self._batch_outputs is not None:
                kept.append(self._batch_outputs)
        if kept:
            self._eval_sums += self.accelerator.gather_for_metrics(torch.cat(kept)).sum(0)
        if len(results) == 1:
            return results[0]
        losses, logits, labels = zip(*results, strict=True)
        mean = None
        if kept:
            weights = torch.stack([part[:, -1].sum() for part in kept])
            mean = (torch.stack(losses) * weights).sum() / weights.sum().clamp(min=1)
        joined = [None if p[0] is None else reduce(nested_concat, p) for p in (logits, labels)]
        return mean, *joined

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Evaluate, add the logged outputs, and leave the random state of training as it was.

        The loss is computed anew from all logits. The stock loss is a mean over batches: a smaller
        last batch weighs too much, and several processes repeat rows to fill it.
        """
        self._eval_sums.zero_()
        with torch.random.fork_rng(devices=[]):
            output = super().evaluation_loop(
                dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
            )
        if output.metrics is None or not self._eval_sums[-1]:
            return output
        means = self._means(self._eval_sums)
        output.metrics.update({f"{metric_key_prefix}_{name}": mean for name, mean in means.items()})
        is_model_loss = self.label_smoother is None and self.compute_loss_func is None
        are_logits = self.preprocess_logits_for_metrics is None and ignore_keys is None
        has_logits = are_logits and isinstance(output.predictions, np.ndarray)
        if self.family.loss is not None and is_model_loss and has_logits:
            output.metrics[f"{metric_key_prefix}_loss"] = self.family_loss(output, means)
        return output

    def family_loss(self, output: Any, means: Mapping[str, float]) -> float:
        """Return the model's loss of evaluated rows, with these means of the logged outputs."""
        logits, labels = map(torch.from_numpy, (output.predictions, output.label_ids))
        outputs = {name: torch.full((len(logits),), mean) for name, mean in means.items()}
        loss: Any = self.family.loss
        return float(loss(logits, labels, config=self.model.config, **outputs).item())

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Take a step, in parts where the batch has too many tokens."""
        # Without the number of labels in the whole update, the loss is a mean that parts lack.
        limit = None if num_items_in_batch is None else self.max_batch_tokens
        *parts, last = parts_of_batch(inputs, limit)
        loss = torch.zeros((), device=self.args.device)
        for part in parts:
            with self.accelerator.no_sync(model):  # gradients are exchanged with the last part's
                loss += super().training_step(model, part, num_items_in_batch)
        loss += super().training_step(model, last, num_items_in_batch)
        self.loss_sum += loss
        return loss

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model without the arguments; refuse weights that are not finite.

        `Trainer` saves its arguments as a pickle that nothing reads back and that holds the Hub
        token and local paths.
        """
        for name, parameter in self.model.named_parameters():
            if not torch.isfinite(parameter).all():
                raise divergence(f"weight {name} is not finite", self.args, self.state)
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            folder = Path(output_dir or str(self.args.output_dir))
            (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)
