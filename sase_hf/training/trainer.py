"""`SelfAttentiveTrainer`: the stock `Trainer` with the additions of this package.

The loss and the gradient are the stock ones. This class adds logged outputs such as `penalty`, the
exact evaluation loss, and one score for each evaluation. It groups batches by length in a
reproducible order, and stops before a non-finite update.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import recursively_apply
from datasets import Dataset
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.utils.data import SequentialSampler
from transformers import PreTrainedModel, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME, TRAINING_ARGS_NAME
from transformers.trainer_utils import EvalLoopOutput, PredictionOutput

from ..data.batching import LengthGroupedOrder, longest_first, token_counts
from ..data.labels import IGNORED_LABEL
from ..evaluation.metrics import SCORE, score
from ..models import FAMILIES
from ..models.checkpoint import TOKENIZER_NAMES, list_files
from .checkpoints import ResumableTrainer


class SelfAttentiveTrainer(ResumableTrainer):
    """`transformers.Trainer` for the heads in `sase_hf.models.FAMILIES`.

    The means of the `logged_outputs` of the family are in the training logs (`penalty`) and in the
    metrics (`eval_penalty`), over the rows and processes that the loss covers. With
    `group_by_length`, seed and epoch alone decide the order of the rows, in every process.

    The arguments are those of `Trainer` and `score_metric`, the metric that `score` is made of. A
    `compute_loss_func` must divide by the `num_items_in_batch` that it is given. `push_to_hub` must
    be off.
    """

    batches_sorted_together: int | None = None  # by default the number that transformers chooses

    def __init__(
        self,
        model: PreTrainedModel | nn.Module | None = None,
        args: TrainingArguments | None = None,
        score_metric: str = "loss",
        **kwargs: Any,
    ) -> None:
        if args is not None and args.push_to_hub:
            self.push_to_hub()
        super().__init__(model, args, **kwargs)
        if self.args.n_gpu > 1:
            raise ValueError(
                f"{self.args.n_gpu} GPUs are visible to one process; start one process per GPU: "
                f"torchrun --nproc_per_node {self.args.n_gpu} -m sase_hf train ..., or set "
                "CUDA_VISIBLE_DEVICES=0"
            )
        self.args.logging_nan_inf_filter = False  # it would log a loss of 0 for one of NaN
        self.score_metric = score_metric
        self.family = FAMILIES[self.model.config.model_type]
        # Weight * output for each logged output, and the weight: of the steps since the last log in
        # `output_sums`, of the current evaluation in `_eval_sums`.
        num_sums = len(self.family.logged_outputs) + 1
        self.output_sums = torch.zeros(num_sums, device=self.args.device)
        self._eval_sums = torch.zeros_like(self.output_sums)
        self._batch_outputs: Tensor | None = None  # the terms of these sums, a row for each example

    @property
    def compared_metric(self) -> str:
        """The metric that chooses the best model, or that of the score where it is no metric."""
        name = (self.args.metric_for_best_model or SCORE).removeprefix("eval_")
        return self.score_metric if name in (SCORE, "loss") else name

    def _groups(self, dataset: object) -> bool:
        by_length = self.args.train_sampling_strategy == "group_by_length"
        return by_length and isinstance(dataset, Dataset)

    # The stock samplers of sorted batches would measure all rows in Python, and are not used.
    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        if self._groups(train_dataset):
            return SequentialSampler(train_dataset)
        return super()._get_train_sampler(train_dataset)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        if self._groups(eval_dataset):
            return SequentialSampler(eval_dataset)
        return super()._get_eval_sampler(eval_dataset)

    def get_train_dataloader(self) -> Any:
        """Return the loader of the training rows."""
        loader: Any = super().get_train_dataloader()
        if self._groups(self.train_dataset):
            seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
            rows_per_update = self.args.train_batch_size * self.args.gradient_accumulation_steps
            order = LengthGroupedOrder(
                token_counts(self.train_dataset),
                rows_per_update,
                seed,
                self.batches_sorted_together,
            )
            # The sampler is set only here: a loader that begins with one has no epoch when several
            # processes resume.
            loader.set_sampler(order)
        return loader

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
        batch = torch.stack([*(weight * output for output in logged), weight], dim=1)
        if model.training:
            self.output_sums += batch.sum(0)
        else:
            self._batch_outputs = batch  # (B, logged outputs + 1)
        return (loss, outputs) if return_outputs else loss

    def _means(self, sums: Tensor) -> dict[str, float]:
        *totals, weight = sums.tolist()
        means = (total / max(weight, 1) for total in totals)
        return dict(zip(self.family.logged_outputs, means, strict=True))

    def eval_total(self, logged_output: str) -> float:
        """Return the sum of a logged output over the last evaluation, weighted as in the loss."""
        return float(self._eval_sums[self.family.logged_outputs.index(logged_output)])

    def push_to_hub(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse to push: `Trainer` uploads all of output_dir, also a pickle with the Hub token."""
        raise ValueError(
            "Trainer would push everything in output_dir. Turn push_to_hub off and call "
            "sase_hf.hub.push(output_dir, repo_id) after training"
        )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with the means of the logged outputs beside every mean loss of training.

        An evaluation gets its score here, after all metrics; `Trainer` logs what it then compares.
        """
        if "loss" in logs:
            sums = self.accelerator.reduce(self.output_sums, reduction="sum")
            logs.update(self._means(sums))
            self.output_sums.zero_()
        value = logs.get(f"eval_{self.score_metric}")
        if value is not None and self.args.metric_for_best_model == SCORE:
            penalty_coef = getattr(self.model.config, "penalty_coef", 0.0)
            penalty = penalty_coef * logs.get("eval_penalty", 0.0)  # no answer depends on it
            logs[f"eval_{SCORE}"] = score(self.score_metric, value, logs["eval_loss"] - penalty)
        super().log(logs, start_time)

    def prediction_step(self, *args: Any, **kwargs: Any) -> Any:
        """Predict a batch as `Trainer` does and gather its logged outputs."""
        self._batch_outputs = None  # stays None for rows without labels
        prediction = super().prediction_step(*args, **kwargs)
        if self._batch_outputs is not None:
            gathered = self.accelerator.gather_for_metrics(self._batch_outputs)
            self._eval_sums += gathered.sum(0)
        return prediction

    def evaluation_loop(
        self,
        dataloader: Any,
        *args: Any,
        metric_key_prefix: str = "eval",
        **kwargs: Any,
    ) -> Any:
        """Evaluate, add the logged outputs, and leave the random state of training as it was.

        The loss is computed anew from all logits. The stock loss is a mean over batches: a smaller
        last batch weighs too much, and several processes repeat rows to fill it. With
        `group_by_length` the longest rows are read first; the output has the order of the dataset.
        """
        self._eval_sums.zero_()
        kwargs["metric_key_prefix"] = metric_key_prefix
        order = None
        if self._groups(dataloader.dataset):
            order = longest_first(token_counts(dataloader.dataset))
            dataloader.set_sampler(order)
        with torch.random.fork_rng(devices=[]):
            output = super().evaluation_loop(dataloader, *args, **kwargs)
        if output.metrics is not None and self._eval_sums[-1]:
            means = self._means(self._eval_sums)
            for name, mean in means.items():
                output.metrics[f"{metric_key_prefix}_{name}"] = mean
            is_model_loss = self.label_smoother is None and self.compute_loss_func is None
            are_logits = self.preprocess_logits_for_metrics is None
            are_logits = are_logits and not kwargs.get("ignore_keys")
            has_logits = are_logits and isinstance(output.predictions, np.ndarray)
            if self.family.loss is not None and is_model_loss and has_logits:
                output.metrics[f"{metric_key_prefix}_loss"] = self.family_loss(output, means)
        if order is None:
            return output
        return recursively_apply(
            lambda values: values[np.argsort(order[: len(values)])],  # a last batch may be left out
            output,
            test_type=lambda values: isinstance(values, np.ndarray),
        )

    def family_loss(
        self, output: EvalLoopOutput | PredictionOutput, means: Mapping[str, float]
    ) -> float:
        """Return the model's loss of evaluated rows, with these means of the logged outputs."""
        assert self.family.loss is not None
        logits = torch.from_numpy(output.predictions)
        labels = torch.from_numpy(output.label_ids)
        outputs = {
            name: torch.full((len(logits),), means[name]) for name in self.family.logged_outputs
        }
        loss = self.family.loss(logits, labels, config=self.model.config, **outputs)
        return float(loss.item())

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Raise FloatingPointError before an update that would make every weight NaN."""
        if not self._tr_loss.isfinite():
            raise self.divergence(f"loss is {self._tr_loss.item()}")
        # The loss scaling of fp16 meets infinities on purpose and leaves such a step out itself.
        gradients = [p.grad for p in kwargs["model"].parameters() if p.grad is not None]
        if not args.fp16 and not torch.isfinite(get_total_norm(gradients)):
            raise self.divergence("gradient is not finite")

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model without the arguments; refuse weights that are not finite.

        The arguments would be a pickle with the Hub token and local paths.
        """
        for name, parameter in self.model.named_parameters():
            if not torch.isfinite(parameter).all():
                raise self.divergence(f"weight {name} is not finite")
        folder = Path(output_dir or str(self.args.output_dir))
        if self.args.should_save and _internal_call:  # a checkpoint: its state is written last
            (folder / TRAINER_STATE_NAME).unlink(missing_ok=True)
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)
            list_files(folder, TOKENIZER_NAMES)

    def divergence(self, fault: str) -> FloatingPointError:
        """Return the error that ends training; it names the way out."""
        return FloatingPointError(
            f"the {fault} after {self.state.global_step} updates; training stops here. Try a lower "
            f"--learning_rate (now {self.args.learning_rate:g}) or --max_grad_norm (now "
            f"{self.args.max_grad_norm:g}), and check the word vectors and labels"
        )
