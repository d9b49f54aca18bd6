"""`SelfAttentiveTrainer`: the stock `Trainer` with additions, and the lines that it writes.

The loss and the gradient are the stock ones. This class adds logged outputs such as `penalty`, the
exact evaluation loss, and one score for each evaluation. It groups batches by length in a
reproducible order, stops before a non-finite update, and resumes a run as if it had not stopped.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from accelerate.utils import recursively_apply
from datasets import Dataset
from torch import Tensor, nn
from torch.utils.data import SequentialSampler
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer import DEFAULT_PROGRESS_CALLBACK, TRAINER_STATE_NAME, TRAINING_ARGS_NAME
from transformers.trainer_utils import EvalLoopOutput
from transformers.utils import logging as transformers_logging

from ..data.batching import LengthGroupedOrder, longest_first, token_counts
from ..data.labels import IGNORED_LABEL
from ..evaluation.metrics import SCORE, score
from ..hub.card import shown_metric
from ..models import FAMILIES
from ..models.checkpoint import TOKENIZER_NAMES, list_files

logger = logging.getLogger(__name__)


class SelfAttentiveTrainer(Trainer):
    """`transformers.Trainer` for the heads in `sase_hf.models.FAMILIES`.

    The means of the `logged_outputs` of the family are in the training logs (`penalty`) and in the
    metrics (`eval_penalty`), over the rows and processes that the loss covers. With
    `group_by_length`, seed and epoch alone decide the order of the rows, in every process.

    The arguments are those of `Trainer` and `score_metric`, the metric that `score` is made of. A
    `compute_loss_func` must divide by the `num_items_in_batch` that it is given. `push_to_hub` must
    be off.
    """

    model: Any  # the base class promises less than a PreTrainedModel
    batches_sorted_together: int | None = None  # by default the number that transformers chooses

    def __init__(
        self,
        model: PreTrainedModel | nn.Module | None = None,
        args: TrainingArguments | None = None,
        score_metric: str = "loss",
        **kwargs: Any,
    ) -> None:
        super().__init__(model, args, **kwargs)
        self.args.logging_nan_inf_filter = False  # it would log a loss of 0 for one of NaN
        self.score_metric = score_metric
        self.family = FAMILIES[self.model.config.model_type]
        # To evaluate; with None if there are metrics.
        self.needs_predictions = True if self.family.loss else None
        # Weight * output for each logged output, and the weight: of the steps since the last log,
        # and of the current evaluation.
        num_sums = len(self.family.logged_outputs) + 1
        self.output_sums = torch.zeros(num_sums, device=self.args.device)
        self._eval_sums = torch.zeros_like(self.output_sums)

    def _groups(self, dataset: object) -> bool:
        by_length = self.args.train_sampling_strategy == "group_by_length"
        return by_length and isinstance(dataset, Dataset)

    # The stock samplers of sorted batches would measure all rows in Python, and are not used.
    def _get_dataloader(self, dataset: Any, *args: Any, **options: Any) -> Any:
        if self._groups(dataset):
            options["sampler_fn"] = SequentialSampler
        return super()._get_dataloader(dataset, *args, **options)

    def get_train_dataloader(self) -> Any:
        """Return the loader of the training rows."""
        loader: Any = super().get_train_dataloader()
        if self._groups(self.train_dataset):
            seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
            rows_per_step = self.args.train_batch_size * self.args.world_size
            order = LengthGroupedOrder(
                token_counts(self.train_dataset),
                rows_per_step * self.args.gradient_accumulation_steps,
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
        weight = torch.ones_like(logged[0])  # (B,)
        if labels is not None:  # as the loss weighs a row
            weight = (labels != IGNORED_LABEL).reshape(len(labels), -1).sum(1)
        batch = torch.stack([*(weight * output for output in logged), weight], dim=1)
        if model.training:
            self.output_sums += batch.sum(0)
        else:
            self._eval_sums += self.accelerator.gather_for_metrics(batch).sum(0)
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

    def evaluation_loop(
        self,
        dataloader: Any,
        *args: Any,
        metric_key_prefix: str = "eval",
        **kwargs: Any,
    ) -> Any:
        """Evaluate, add the logged outputs, and leave the random state of training as it was.

        The loss is computed anew from all logits. The stock loss is a mean over batches, in which
        rows without a label count, and several processes repeat rows to fill the last batch. With
        `group_by_length` the longest rows are read first; the output has the order of the dataset.
        """
        self._eval_sums.zero_()
        order = None
        if self._groups(dataloader.dataset) and self.args.eval_do_concat_batches:
            order = longest_first(token_counts(dataloader.dataset))
            dataloader.set_sampler(order)
        kwargs["metric_key_prefix"] = metric_key_prefix
        if self.needs_predictions is not None:
            kwargs["prediction_loss_only"] = not self.needs_predictions
        # Seq2SeqTrainer would keep the rows that fill up the last batch of several processes.
        self.gather_function = self.accelerator.gather_for_metrics
        with torch.random.fork_rng(devices=[]):
            output: Any = super().evaluation_loop(dataloader, *args, **kwargs)
        if self._eval_sums[-1]:
            means = self._means(self._eval_sums)
            for name, mean in means.items():
                output.metrics[f"{metric_key_prefix}_{name}"] = mean
            are_logits = isinstance(output.predictions, np.ndarray)
            own = self.label_smoother or self.compute_loss_func
            own = own or self.preprocess_logits_for_metrics
            if are_logits and self.family.loss and not own:
                logits, labels = map(torch.from_numpy, (output.predictions, output.label_ids))
                costs = {name: torch.full((len(logits),), mean) for name, mean in means.items()}
                loss = self.family.loss(logits, labels, config=self.model.config, **costs)
                output.metrics[f"{metric_key_prefix}_loss"] = loss.item()
        if order is not None:
            output = recursively_apply(
                # A last batch may be left out.
                lambda values: values[np.argsort(order[: len(values)])],
                output,
                test_type=lambda values: isinstance(values, np.ndarray),
            )
        for name, value in self.metrics_of(output, metric_key_prefix).items():
            output.metrics[f"{metric_key_prefix}_{name}"] = value
        return output

    def metrics_of(self, output: EvalLoopOutput, prefix: str) -> dict[str, float]:
        """Return more metrics of an evaluation, in place of those with the same name."""
        return {}

    def _init_training_state(self, max_steps: int, *args: Any) -> tuple[int, int]:
        """Plan no epochs for a complete run; the stock `Trainer` would make an update."""
        place: tuple[int, int] = super()._init_training_state(max_steps, *args)
        _, num_epochs, checkpoint, _ = args
        if checkpoint is None:
            return place
        before = TrainerState.load_from_json(str(Path(checkpoint, TRAINER_STATE_NAME)))
        control: Any = before.stateful_callbacks["TrainerControl"]
        has_stopped_early = before.global_step < before.max_steps
        has_stopped_early = has_stopped_early and control["args"]["should_training_stop"]
        if before.global_step < max_steps and not has_stopped_early:
            return place
        logger.warning("the run is already complete; resuming makes no update")
        return num_epochs, 0

    def _save_rng_state(self, output_dir: str) -> None:
        """Save the random states of all processes while the checkpoint is incomplete."""
        self.accelerator.wait_for_everyone()  # `save_model` has deleted an older state
        super()._save_rng_state(output_dir)
        self.accelerator.wait_for_everyone()  # the new state, written next, makes it complete

    def end(self) -> None:
        """Free what several processes share, then close their connection."""
        if self.args.world_size == 1:
            return
        # In the other order, a DistributedDataParallel can wait forever for its closed group.
        self.model_wrapped = self.model
        self.accelerator.free_memory()
        self.accelerator.wait_for_everyone()
        self.accelerator.end_training()

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """Raise FloatingPointError before an update that would make every weight NaN."""
        norm = super()._get_grad_norm(model, grad_norm)
        args = self.args
        # The loss scaling of fp16 meets infinities on purpose and leaves such a step out itself.
        checked = self._tr_loss if args.fp16 or norm is None else self._tr_loss + norm
        if not checked.isfinite():  # one number, because a GPU is waited for
            raise FloatingPointError(
                f"loss or gradient is not finite after {self.state.global_step} updates; training "
                f"stops here. Try a lower --learning_rate (now {args.learning_rate:g}) or "
                f"--max_grad_norm (now {args.max_grad_norm:g}), and check word vectors and labels"
            )
        return norm

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model without the arguments: a pickle with the Hub token and local paths."""
        folder = Path(output_dir or str(self.args.output_dir))
        if self.args.should_save and _internal_call:  # a checkpoint: its state is written last
            (folder / TRAINER_STATE_NAME).unlink(missing_ok=True)
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)
            list_files(folder, TOKENIZER_NAMES)


# ---- what a run shows while it trains ------------------------------------------------------------


class EpochLines(ProgressCallback):
    """The bar of a training, and a line above it for each evaluation of a trainer."""

    training_bar: Any  # in the first process, during a training; else None

    def __init__(self, trainer: SelfAttentiveTrainer) -> None:
        super().__init__()
        self.trainer: Any = trainer

    def on_prediction_step(self, *args: Any, **kwargs: Any) -> None:
        """Show no second bar for an evaluation."""

    def on_log(
        self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any
    ) -> None:
        """Write what was measured; after a training the results are a table."""
        if self.training_bar is not None and "eval_loss" in logs:
            metric = self.trainer.score_metric
            measured = shown_metric(metric, logs.get(f"eval_{metric}", float("nan")))
            line = (
                f"epoch {state.epoch:.4g} of {state.num_train_epochs}: {metric} {measured} on "
                f"{len(self.trainer.eval_dataset):,} held-out rows, loss {logs['eval_loss']:.4g}"
            )
            self.training_bar.write(line, file=sys.stderr)


def write_lines(trainer: SelfAttentiveTrainer) -> None:
    """Let a trainer write such lines in place of the dictionaries that it logs."""
    trainer.remove_callback(PrinterCallback)
    # Without a training, the bar is that of the rows that are predicted.
    if trainer.args.do_train and trainer.pop_callback(DEFAULT_PROGRESS_CALLBACK) is not None:
        trainer.add_callback(EpochLines(trainer))


@contextmanager
def only_training_bar() -> Iterator[None]:
    """Show no bars for the steps that take a moment: tokens, weights."""
    showed_bars = transformers_logging.is_progress_bar_enabled()
    showed_bars_of_rows = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if showed_bars:
            transformers_logging.enable_progress_bar()
        if showed_bars_of_rows:
            datasets.enable_progress_bars()
