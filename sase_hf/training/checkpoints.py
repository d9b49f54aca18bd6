"""The checkpoints of a run, and a `Trainer` that goes on from one as if it had not stopped.

transformers writes `trainer_state.json` last, so a checkpoint is complete if it can be read.
"""

import json
import logging
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import TrainOutput, sort_checkpoints

from ..data.columns import ROWS_NAME, training_rows_of
from ..utils.errors import refusal
from ..utils.files import FilePath, write_text
from ..utils.privacy import redact

logger = logging.getLogger(__name__)


def is_complete(folder: FilePath) -> bool:
    """Return whether a checkpoint can be resumed."""
    try:
        TrainerState.load_from_json(str(Path(folder, TRAINER_STATE_NAME)))
    except (OSError, ValueError, TypeError):
        return False
    return True


def list_checkpoints(output_dir: FilePath) -> list[Path]:
    """Return the checkpoint folders of a run, the newest first, complete or not."""
    return [Path(folder) for folder in reversed(sort_checkpoints(str(output_dir)))]


def newest_complete_checkpoint(output_dir: FilePath) -> Path | None:
    """Return the newest complete checkpoint of a run."""
    return next(filter(is_complete, list_checkpoints(output_dir)), None)


def checkpoint_to_resume(requested: str, output_dir: FilePath) -> Path | None:
    """Return the checkpoint that `--resume_from_checkpoint` names; None for `false`.

    `true` and `auto` take the newest complete one; `auto` may find that there is none.
    """
    choice = requested.lower()
    if choice == "false":
        return None
    checkpoint = Path(requested)
    if choice in ("true", "auto"):
        newest = newest_complete_checkpoint(output_dir)
        if newest is None and choice == "auto":
            return None
        checkpoint = newest or Path(output_dir)
    if not is_complete(checkpoint):
        raise refusal(
            f"--resume_from_checkpoint is {requested}, but {checkpoint} holds no complete "
            f"checkpoint, with a {TRAINER_STATE_NAME}",
            "auto takes the newest complete one, or begins anew",
        )
    return checkpoint


def locked(output_dir: FilePath, process: int) -> AbstractContextManager[Any]:
    """Keep other runs out of a folder, on every machine that sees it.

    Process 0 locks the file `.lock`. The lock ends with process 0 and the processes that it forks,
    also if they are killed; the workers of a data loader end a few seconds after process 0.

    Raises:
        ValueError: In process 0, if another run is in the folder.
        OSError: If the folder cannot be written.
    """
    if process > 0:
        return nullcontext()
    Path(output_dir).mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(Path(output_dir, ".lock")).acquire(timeout=0)
    except Timeout as reason:
        raise refusal(
            f"another run is writing in {output_dir}",
            "wait until it ends, stop it, or choose another --output_dir",
        ) from reason


def check_unused(output_dir: FilePath) -> None:
    """Raise ValueError if a folder holds more than the beginning of a run without a checkpoint."""
    names = {path.name for path in Path(output_dir).glob("[!.]*")}
    # The state is the last file of a trained model: without it, a model of a run is a torn one.
    has_only_begun = ROWS_NAME in names and TRAINER_STATE_NAME not in names
    if has_only_begun and newest_complete_checkpoint(output_dir) is None:
        return
    if names:
        raise refusal(
            f"--output_dir {output_dir} is not empty",
            "continue its run with --resume_from_checkpoint, or choose another folder",
        )


def check_same_run(
    output_dir: FilePath, checkpoint: Path | None, settings: dict[str, Any], process: int
) -> None:
    """Raise ValueError if a run would go on from a checkpoint with other rows or settings.

    They are recorded in the folder of the run. A checkpoint without a record goes on with any.
    """
    now = json.loads(json.dumps(redact(settings)))
    changes = [
        f"{name} = {value} and not {now.get(name)}"
        for name, value in training_rows_of(checkpoint).items()
        if now.get(name) != value
    ]
    if changes:
        raise refusal(
            f"the run of {checkpoint} has {', '.join(changes)}",
            "repeat what it has to go on, or begin another run in another --output_dir",
        )
    if process == 0:
        write_text(Path(output_dir, ROWS_NAME), json.dumps(now))


def warn_of_learned_rows(
    checkpoint: str | None, read: dict[str, Any], held_out: dict[str, Any]
) -> None:
    """Warn that held-out rows may be ones that a checkpoint has learned from.

    Rows are held out anew for each run. They are those of the checkpoint's run, and so unknown to
    it, only if both read the same rows.

    Args:
        checkpoint: Where the run starts from; None for a new model.
        read: The rows of the run, as `what_is_read` describes them.
        held_out: The origin of its validation rows.
    """
    if checkpoint is None or "split_off" not in held_out:
        return
    before = training_rows_of(checkpoint)
    now = json.loads(json.dumps(redact(read)))
    if any(before.get(name) != now[name] for name in now if name != "file"):  # a name may change
        logger.warning(
            f"{checkpoint} may have learned from rows that are held out now, and look better on "
            "them than on new ones: it was not trained on the rows of this run; give rows that it "
            "has not learned from as --validation_file"
        )


class ResumableTrainer(Trainer, TrainerCallback):
    """A `Trainer` with resumed runs equal to unbroken ones: weights, metrics and mean losses.

    It is one of its own callbacks: `Trainer` calls its methods `on_...` during the run.
    """

    model: Any  # the base class promises less than a PreTrainedModel

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(self)

    def train(
        self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any
    ) -> TrainOutput:
        """Train; True resumes from the newest checkpoint that is complete."""
        output_dir = str(self.args.output_dir)
        checkpoint = checkpoint_to_resume(str(resume_from_checkpoint or "false"), output_dir)
        self.state = TrainerState()
        if checkpoint is not None:
            self.state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        output = super().train(str(checkpoint) if checkpoint else None, *args, **kwargs)
        loss = self.mean_loss()
        return output._replace(training_loss=loss, metrics={**output.metrics, "train_loss": loss})

    def mean_loss(self) -> float:
        """Return the mean loss of all updates; `Trainer` knows only those since a resume."""
        total, updates = 0.0, 0.0
        for entry in self.state.log_history:
            if "loss" in entry:
                total += entry["loss"] * (entry["step"] - updates)
                updates = entry["step"]
        return total / max(updates, 1)

    def set_initial_training_values(self, *args: Any) -> Any:
        """Plan no epochs for a complete run; the stock `Trainer` would make an update."""
        values = super().set_initial_training_values(*args)
        state: Any = self.state  # of the checkpoint that the run goes on from
        if state.global_step == 0:
            return values
        control = state.stateful_callbacks["TrainerControl"]["args"]
        has_stopped_early = control["should_training_stop"] and state.global_step < state.max_steps
        if state.global_step < values[-1] and not has_stopped_early:
            return values
        logger.warning("the run is already complete; resuming makes no update")
        return (0, *values[1:])

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

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Log the losses before each checkpoint, which keeps only those that are logged."""
        if control.should_save or control.should_evaluate or control.should_training_stop:
            control.should_log = True

    on_epoch_end = on_step_end
