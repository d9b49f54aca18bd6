"""`SelfAttentiveTrainer`: the stock `Trainer` and what this package needs on top.

The loss, the gradient and the data order are the stock ones. Added are logged outputs such as
`penalty`, a stop at the first value that is not finite, checkpoints that resume only when complete,
batches of similar lengths, a limit on the tokens in memory, and the exact evaluation loss.
"""

import gc
import json
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import recursively_apply
from datasets import Dataset
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback
from transformers.trainer import TRAINING_ARGS_NAME
from transformers.trainer_pt_utils import nested_concat
from transformers.trainer_utils import (
    PREFIX_CHECKPOINT_DIR,
    EvalLoopOutput,
    PredictionOutput,
    TrainOutput,
    rotate_checkpoints,
)

from ..data.batching import LengthGroupedOrder, longest_first, parts_of_batch, token_counts
from ..data.labels import IGNORED_LABEL
from ..models import FAMILIES
from ..utils.signals import Terminated
from .checkpoints import list_checkpoints, newest_complete_checkpoint, write_manifest

logger = logging.getLogger(__name__)

LARGE_LOSS = 10.0  # of a run that diverges; the loss of a good model may double by chance
PROGRESS_NAME = "progress.json"  # in a checkpoint: what the stock Trainer forgets


class SelfAttentiveTrainer(Trainer):
    """`transformers.Trainer` for the heads in `sase_hf.models.FAMILIES`.

    The means of the `logged_outputs` of the family are in the training logs (`penalty`) and in the
    metrics (`eval_penalty`), over the rows and processes that the loss covers.

    Args:
        model: As for `Trainer`.
        args: As for `Trainer`; `push_to_hub` must be off.
        max_batch_tokens: The max number of tokens, padding included, that go through the model at
            once. A larger batch is read in parts, with the loss and the gradient of the whole; only
            dropout draws anew for each part. A `compute_loss_func` must therefore divide by the
            `num_items_in_batch` that it is given.
        **kwargs: As for `Trainer`.

    Raises:
        ValueError: If several GPUs share this process, or if `args.push_to_hub` is on.
    """

    model: Any  # the base class promises less than a PreTrainedModel

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
        self.logged_outputs = self.family.logged_outputs
        self.batches_sorted_together: int | None = None  # of `group_by_length`; transformers' own
        # Sums of weight * output for each logged output, then of the weights: since the last log,
        # and over the current evaluation.
        self._train_sums = torch.zeros(len(self.logged_outputs) + 1, device=self.args.device)
        self._eval_sums = torch.zeros_like(self._train_sums)
        self._must_stop = False
        self._first_loss = math.nan  # of the first update
        self._num_updates_before = 0  # those that the sum of losses lacks
        self._logged_loss = 0.0  # the sum of losses up to the last log, over all processes
        self._resumed: str | None = None
        self.add_callback(_Continuation(self))
        self._batch_outputs: Tensor | None = None  # the terms of these sums, a row for each example

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Compute the loss as `Trainer` does and keep the logged outputs."""
        labels = inputs.get("labels")  # `Trainer` removes them for another loss than the model's
        loss, outputs = super().compute_loss(
            model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch
        )
        logged = [outputs[name].detach() for name in self.logged_outputs]
        if labels is None:
            weight = torch.ones_like(logged[0])  # (B,)
        else:
            counted = labels != IGNORED_LABEL
            weight = counted.reshape(len(counted), -1).sum(1)  # (B,): as the loss weighs a row
        batch = torch.stack([*(weight * x for x in logged), weight], dim=1)
        if model.training:
            self._train_sums += batch.sum(0)
        else:
            self._batch_outputs = batch  # (B, logged outputs + 1)
        return (loss, outputs) if return_outputs else loss

    def _means(self, sums: Tensor) -> dict[str, float]:
        *totals, weight = sums.tolist()
        return {
            name: total / max(weight, 1)
            for name, total in zip(self.logged_outputs, totals, strict=True)
        }

    def init_hf_repo(self, *args: Any, **kwargs: Any) -> None:
        """Refuse to push: `Trainer` uploads all of output_dir, also a pickle with the Hub token."""
        raise ValueError(
            "Trainer would push everything in output_dir. Turn push_to_hub off and call "
            "sase_hf.hub.push(output_dir, repo_id) after training"
        )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with the means of the logged outputs beside every mean loss of training.

        The mean loss of all training is that of a resumed run too.
        """
        if "train_loss" in logs:
            # The stock Trainer adds what this process alone lost since the last log.
            rest = self.accelerator.reduce(self._tr_loss, reduction="mean").item()
            updates = self.state.global_step - self._num_updates_before
            logs["train_loss"] = (self._logged_loss + rest) / max(updates, 1)
        if "loss" in logs:
            self._logged_loss = self._total_loss_scalar
            logs |= self._means(self.accelerator.reduce(self._train_sums, reduction="sum"))
            self._train_sums.zero_()
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

        The model's loss is computed anew from all logits. The stock one is a mean over batches, in
        which the smaller last batch weighs too much, and which hold repeated rows where the rows do
        not divide among the processes.
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
            logits, labels = map(torch.from_numpy, (output.predictions, output.label_ids))
            outputs = {name: torch.full((len(logits),), mean) for name, mean in means.items()}
            loss = self.family.loss(logits, labels, config=self.model.config, **outputs)
            output.metrics[f"{metric_key_prefix}_loss"] = loss.item()
        return output

    def training_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Take a step; refuse a loss that is not finite before it reaches a weight."""
        # Without the number of labels in the whole update, the loss is a mean that parts lack.
        limit = None if num_items_in_batch is None else self.max_batch_tokens
        *parts, last = parts_of_batch(inputs, limit)
        loss = torch.zeros((), device=self.args.device)
        for part in parts:
            with self.accelerator.no_sync(model):  # gradients are exchanged with the last part's
                loss += super().training_step(model, part, num_items_in_batch)
        loss += super().training_step(model, last, num_items_in_batch)
        if not torch.isfinite(loss):
            raise self._divergence(f"loss is {loss.item()}")
        return loss

    # Replaced because no public method and no callback sees the norm: the stock Trainer makes the
    # update, after which every weight is NaN.
    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm)
        # The loss scaling of fp16 meets infinities on purpose and leaves such a step out itself.
        if not self.args.fp16 and not math.isfinite(norm):
            raise self._divergence(f"gradient norm is {float(norm)}")
        return norm

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model without the arguments; refuse weights that are not finite.

        `Trainer` saves its arguments as a pickle that nothing reads back and that holds the Hub
        token and local paths.
        """
        for name, parameter in self.model.named_parameters():
            if not torch.isfinite(parameter).all():
                raise self._divergence(f"weight {name} is not finite")
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            folder = Path(output_dir or str(self.args.output_dir))
            (folder / TRAINING_ARGS_NAME).unlink(missing_ok=True)

    def _divergence(self, what: str) -> FloatingPointError:
        saved = list_checkpoints(str(self.args.output_dir))
        return FloatingPointError(
            f"the {what} after {self.state.global_step} updates; training stops here. "
            f"Newest checkpoint: {saved[0] if saved else 'none yet'}. Try a lower --learning_rate "
            f"(now {self.args.learning_rate:g}) or --max_grad_norm (now "
            f"{self.args.max_grad_norm:g}), and check the word vectors and labels"
        )

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any
    ) -> TrainOutput:
        """Train; True resumes from the newest checkpoint that is complete."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = str(newest_complete_checkpoint(str(self.args.output_dir)))
        self._train_sums.zero_()  # a search trains many times, and trials may stop between logs
        self._resumed = resume_from_checkpoint or None
        output: TrainOutput = super().train(resume_from_checkpoint, *args, **kwargs)
        mean = output.metrics["train_loss"]  # as `log` corrected it
        self._warn_of_growth(mean)
        # Without a checkpoint of the last update, the rest of the run saves what was learned.
        last = f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        if self._is_asked_to_stop() and Path(str(self.args.output_dir), last).is_dir():
            self.end()
            raise Terminated
        return output._replace(training_loss=mean)

    def stop(self) -> None:
        """Let training save a checkpoint after the current update and raise `Terminated`.

        An evaluation that is due comes first. It is enough to call this in one of the processes.
        """
        self._must_stop = True

    def _is_asked_to_stop(self) -> bool:
        """Say whether `stop` was called in any of the processes."""
        asked = torch.tensor(float(self._must_stop), device=self.args.device)
        return bool(self.accelerator.reduce(asked, reduction="sum").item() > 0)

    def _save_progress(self, folder: Path) -> None:
        """Write what the next logs are the means of, over all processes, into a checkpoint."""
        loss = self.accelerator.reduce(self._tr_loss, reduction="mean")
        outputs = self.accelerator.reduce(self._train_sums, reduction="sum")
        progress = {
            "first_loss": self._first_loss,
            "loss": loss.item(),
            "logged_loss": self._logged_loss,
            "logged_updates": self._globalstep_last_logged,
            "updates_before": self._num_updates_before,
            "outputs": outputs.tolist(),
            "has_stopped_early": self.control.should_training_stop
            and self.state.global_step < self.state.max_steps,
        }
        if self.args.should_save:
            (folder / PROGRESS_NAME).write_text(json.dumps(progress), encoding="utf-8")

    def _load_progress(self) -> None:
        """Continue where the checkpoint was, if it is one of this class."""
        self._first_loss, self._num_updates_before = math.nan, self.state.global_step
        self._logged_loss = 0.0
        self.control.should_training_stop = self.state.global_step >= self.state.max_steps
        path = None if self._resumed is None else Path(self._resumed, PROGRESS_NAME)
        if path is None or not path.is_file():
            return
        progress = json.loads(path.read_text(encoding="utf-8"))
        self._first_loss = progress["first_loss"]
        self._tr_loss += progress["loss"]
        self._total_loss_scalar = self._logged_loss = progress["logged_loss"]
        self._globalstep_last_logged = progress["logged_updates"]
        self._num_updates_before = progress["updates_before"]
        if self.accelerator.is_main_process:  # those of the processes will be added
            outputs = torch.tensor(progress["outputs"], device=self._train_sums.device)
            self._train_sums += outputs
        self.control.should_training_stop |= progress["has_stopped_early"]
        if self.control.should_training_stop:
            logger.warning("the resumed run had come to its end; no update is made")

    # Replaced because the stock Trainer asks whether training should stop only after an update: a
    # run that had ended in the middle of an epoch would make one more when it is resumed.
    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        if not self.control.should_training_stop:
            super()._run_epoch(*args, **kwargs)

    def _warn_of_growth(self, mean: float) -> None:
        """Warn if the last loss, or the mean where none was logged, is far above the first."""
        logged = [entry["loss"] for entry in self.state.log_history if "loss" in entry]
        last = logged[-1] if logged else mean
        if last > max(2 * self._first_loss, LARGE_LOSS) and self.is_world_process_zero():
            logger.warning(
                f"the loss grew from {self._first_loss:.3g} to {last:.3g}; try a lower "
                f"--learning_rate (now {self.args.learning_rate:g})"
            )

    # Replaced because the stock Trainer deletes older checkpoints before its callback `on_save`,
    # the first moment in which the new one can be declared complete.
    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save a checkpoint, declare it complete, and only then delete older ones."""
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = limit
        run = self._get_output_dir(trial)
        folder = Path(run, f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        self._save_progress(folder)
        self.accelerator.wait_for_everyone()  # every process writes its own random state
        if self.args.should_save:
            write_manifest(folder)
            rotate_checkpoints(
                run, limit, best_model_checkpoint=self.state.best_model_checkpoint, use_mtime=True
            )

    def end(self) -> None:
        """Free what the processes share, then close their connection.

        In the other order, freeing a DistributedDataParallel can wait forever for its closed group.
        """
        self.model_wrapped = self.model
        self.accelerator.free_memory()
        gc.collect()
        self.accelerator.wait_for_everyone()
        self.accelerator.end_training()

    def _groups(self, dataset: Any) -> bool:
        by_length = self.args.train_sampling_strategy == "group_by_length"
        return by_length and isinstance(dataset, Dataset)

    @contextmanager
    def _in_stored_order(self) -> Iterator[None]:
        """Let `Trainer` build loaders that read rows as they are stored, until an order is set."""
        strategy = self.args.train_sampling_strategy
        self.args.train_sampling_strategy = "sequential"
        try:
            yield
        finally:
            self.args.train_sampling_strategy = strategy

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return the loader; its order learns of epochs in every process, resumed or not."""
        if not self._groups(self.train_dataset):
            return super().get_train_dataloader()
        with self._in_stored_order():
            loader: Any = super().get_train_dataloader()
        seed = self.args.seed if self.args.data_seed is None else self.args.data_seed
        rows_per_update = self.args.train_batch_size * self.args.gradient_accumulation_steps
        counts, together = token_counts(self.train_dataset), self.batches_sorted_together
        loader.set_sampler(LengthGroupedOrder(counts, rows_per_update, seed, together))
        return loader

    def evaluation_order(self, dataset: Any) -> list[int] | None:
        """Return the order in which rows are evaluated; None if it is that of the dataset."""
        return longest_first(dataset) if self._groups(dataset) else None

    def get_eval_dataloader(self, eval_dataset: Any = None) -> DataLoader[Any]:
        """Return the loader of rows to evaluate, in `evaluation_order`."""
        with self._in_stored_order():
            loader: Any = super().get_eval_dataloader(eval_dataset)
        return self._ordered(loader)

    def get_test_dataloader(self, test_dataset: Any) -> DataLoader[Any]:
        """Return the loader of rows to predict, in `evaluation_order`."""
        with self._in_stored_order():
            loader: Any = super().get_test_dataloader(test_dataset)
        return self._ordered(loader)

    def _ordered(self, loader: Any) -> DataLoader[Any]:
        if (order := self.evaluation_order(loader.dataset)) is not None:
            loader.set_sampler(order)
        return loader

    def predict(
        self,
        test_dataset: Any,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "test",
    ) -> PredictionOutput:
        """Predict, in the order of the rows even where batches are sorted by length."""
        output = super().predict(test_dataset, ignore_keys, metric_key_prefix)
        if (order := self.evaluation_order(test_dataset)) is None:
            return output
        back, is_array = np.argsort(order), lambda value: isinstance(value, np.ndarray)
        rows = (output.predictions, output.label_ids)
        predictions, labels = recursively_apply(lambda part: part[back], rows, test_type=is_array)
        return PredictionOutput(predictions, labels, output.metrics)


class _Continuation(TrainerCallback):
    """Continues the sums of a resumed run, and stops a run where it can be resumed."""

    def __init__(self, trainer: SelfAttentiveTrainer) -> None:
        self.trainer = trainer
        self.stops = False  # the same in all processes

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer._load_progress()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        accelerator = self.trainer.accelerator
        if state.global_step == 1:
            self.trainer._first_loss = accelerator.reduce(self.trainer._tr_loss, "mean").item()
        self.stops = self.trainer._is_asked_to_stop()
        # A checkpoint of the last update of an epoch would lack the evaluation after it.
        is_last = control.should_training_stop or state.epoch == int(state.epoch)
        control.should_save |= self.stops and not is_last

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_save |= self.stops

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.stops:
            self.trainer.end()  # the checkpoint is complete only when the first process says so
            raise Terminated
