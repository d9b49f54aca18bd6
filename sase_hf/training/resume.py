"""A `Trainer` that stops at any update and goes on as if it had not stopped."""

import gc
import json
import logging
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers import __version__ as transformers_version
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, TrainOutput, rotate_checkpoints

from ..utils.process import Terminated
from .arguments import check_numbers
from .checkpoints import newest_complete_checkpoint, write_manifest

logger = logging.getLogger(__name__)

PROGRESS_NAME = "progress.json"


@dataclass
class Progress:
    """The state of a run that the stock `Trainer` forgets at a stop.

    logged_updates: the updates up to the last log.
    logged_loss: the sum of their losses, over all processes.
    loss: the sum of the losses since the last log.
    sums: the `output_sums` of all processes.
    updates: the updates up to the checkpoint.
    """

    logged_updates: int = 0
    logged_loss: float = 0.0
    loss: float = 0.0
    sums: list[float] = field(default_factory=list)
    updates: int = 0
    has_stopped_early: bool = False


class ResumableTrainer(Trainer, TrainerCallback):
    """A `Trainer` with resumed runs equal to unbroken ones: weights, logs and mean losses.

    It is one of its own callbacks: `Trainer` calls its methods `on_...` during the run. A subclass
    adds the loss of each step to `loss_sum`, and other logged sums to `output_sums`.

    Some of the replaced methods are internals of transformers. Each adds its name to `called`, and
    `check_called` ends a run in which a newer version has renamed one, before a result is wrong.
    """

    model: Any  # the base class promises less than a PreTrainedModel

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.progress = Progress()
        self.called: set[str] = set()  # replaced methods that `Trainer` has called
        self.loss_sum = torch.zeros((), device=self.args.device)  # of this process since a log
        self.output_sums = torch.zeros(0, device=self.args.device)
        self._must_stop = False
        self._stops = False  # the same in all processes
        self.add_callback(self)

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any
    ) -> TrainOutput:
        """Train; True resumes from the newest checkpoint that is complete."""
        if resume_from_checkpoint is True:
            resume_from_checkpoint = str(newest_complete_checkpoint(str(self.args.output_dir)))
        check_numbers(self.args)
        if self.args.num_train_epochs == 0 and self.args.max_steps < 1:
            raise ValueError("num_train_epochs is 0, so nothing is learnt; give more")
        self.progress = Progress()
        if resume_from_checkpoint:
            path = Path(resume_from_checkpoint, PROGRESS_NAME)
            self.progress = Progress(**json.loads(path.read_text(encoding="utf-8")))
        output: TrainOutput = super().train(resume_from_checkpoint, *args, **kwargs)
        # If the last update has no checkpoint, the rest of the run saves the model.
        checkpoint = _checkpoint_of(str(self.args.output_dir), self.state.global_step)
        if self.is_asked_to_stop() and checkpoint.is_dir():
            self.end()
            raise Terminated
        return output._replace(training_loss=output.metrics["train_loss"])  # as `log` corrected it

    def check_called(self, method: str) -> None:
        """Raise RuntimeError if `Trainer` has not called a replaced method by now."""
        if method not in self.called:
            raise RuntimeError(
                f"transformers {transformers_version} does not call Trainer.{method}, which this "
                "package replaces, so the run would not be right. Install the version that "
                "constraints.txt names"
            )

    def set_initial_training_values(
        self, args: TrainingArguments, dataloader: DataLoader[Any]
    ) -> Any:
        """Plan no more epochs for a complete run; the stock `Trainer` would make an update."""
        self.called.add("set_initial_training_values")
        values = super().set_initial_training_values(args, dataloader)
        updates_per_epoch = values[1]
        max_steps = values[-1]
        if self.progress.updates < max_steps and not self.progress.has_stopped_early:
            return values
        logger.warning("the run is already complete; resuming makes no update")
        num_epochs = self.progress.updates // updates_per_epoch
        return (num_epochs, *values[1:])

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log mean losses over the updates before a stop and after it."""
        progress = self.progress
        updates = self.state.global_step
        if "loss" in logs:
            loss = self.gathered_loss()
            logs["loss"] = loss / (updates - progress.logged_updates)
            progress.logged_loss += loss
            progress.logged_updates = updates
            self.loss_sum.zero_()
        if "train_loss" in logs:
            total = progress.logged_loss + self.gathered_loss()
            logs["train_loss"] = total / max(updates, 1)
        super().log(logs, start_time)

    def gathered_loss(self) -> float:
        """Return the sum of the losses since the last log, averaged over processes."""
        return float(self.accelerator.reduce(self.loss_sum, reduction="mean").item())

    def stop(self) -> None:
        """Let all processes evaluate if it is due, save a checkpoint and raise `Terminated`."""
        self._must_stop = True

    def is_asked_to_stop(self) -> bool:
        """Return whether `stop` was called in any of the processes."""
        asked = torch.tensor(float(self._must_stop), device=self.args.device)
        return bool(self.accelerator.reduce(asked, reduction="sum").item() > 0)

    # This method is replaced because the stock Trainer deletes older checkpoints before its
    # callback `on_save`, the first moment in which the new one can be declared complete.
    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save a checkpoint, declare it complete, and only then delete older ones."""
        self.called.add("_save_checkpoint")
        limit = self.args.save_total_limit
        self.args.save_total_limit = None
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = limit
        updates = self.state.global_step
        is_unplanned_end = updates < self.state.max_steps
        progress = replace(
            self.progress,
            loss=self.gathered_loss(),
            sums=self.accelerator.reduce(self.output_sums, reduction="sum").tolist(),
            updates=updates,
            has_stopped_early=self.control.should_training_stop and is_unplanned_end,
        )
        self.accelerator.wait_for_everyone()  # every process writes its own random state
        if self.args.should_save:
            run = self._get_output_dir(trial)
            folder = _checkpoint_of(run, updates)
            (folder / PROGRESS_NAME).write_text(json.dumps(asdict(progress)), encoding="utf-8")
            write_manifest(folder)
            best = self.state.best_model_checkpoint
            rotate_checkpoints(run, limit, best_model_checkpoint=best, use_mtime=True)

    def end(self) -> None:
        """Free the shared resources of the processes, then close their connection."""
        # In the other order, a DistributedDataParallel can wait forever for its closed group.
        self.model_wrapped = self.model
        self.accelerator.free_memory()
        gc.collect()
        self.accelerator.wait_for_everyone()
        self.accelerator.end_training()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Continue the sums of a resumed run."""
        self.check_called("set_initial_training_values")
        self.loss_sum.fill_(self.progress.loss)
        self.output_sums.zero_()
        if self.progress.sums and self.accelerator.is_main_process:  # a log adds those of processes
            self.output_sums += torch.tensor(self.progress.sums, device=args.device)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Save if the run was asked to stop."""
        self._stops = self.is_asked_to_stop()
        # A checkpoint of the last update of an epoch would lack the evaluation after it.
        is_last = control.should_training_stop or state.epoch == int(state.epoch)
        if self._stops and not is_last:
            control.should_save = True

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Save if the run was asked to stop in the last update."""
        if self._stops:
            control.should_save = True

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End a run where it can be resumed."""
        self.check_called("_save_checkpoint")
        if self._stops:
            self.end()  # the checkpoint is complete only when the first process says so
            raise Terminated


def _checkpoint_of(run: str, updates: int) -> Path:
    """Return the folder that `Trainer` gives the checkpoint after so many updates."""
    return Path(run, f"{PREFIX_CHECKPOINT_DIR}-{updates}")
