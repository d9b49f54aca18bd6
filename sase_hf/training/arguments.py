"""`RunArguments`: transformers' arguments of a training with defaults for small models."""

import math
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar

import torch
from transformers import Seq2SeqTrainingArguments, TrainingArguments
from transformers.trainer_utils import SaveStrategy

from ..data.arguments import flag
from ..evaluation.metrics import LOWER_IS_BETTER, SCORE
from ..utils.errors import refusal
from ..utils.precision import is_fast_in_bfloat16

# The least and the most of numbers with which a run can learn. With others it would end well and
# leave a model that was never trained, or a checkpoint that is refused when it is loaded.
RANGES: dict[str, tuple[float, float]] = {
    "learning_rate": (0, 100),
    "num_train_epochs": (0, 1e9),
    "per_device_train_batch_size": (1, math.inf),
    "per_device_eval_batch_size": (1, math.inf),
    "gradient_accumulation_steps": (1, math.inf),
    "generation_max_length": (1, 10_000),
}


@dataclass
class RunArguments(Seq2SeqTrainingArguments):
    """`TrainingArguments` with defaults for small models that are trained from scratch.

    Every flag works as in transformers but `label_names`, which is a setting of the rows.
    """

    _argument_group_name: ClassVar[str] = "training (transformers.TrainingArguments)"

    label_names: list[str] | None = field(default=None, init=False)
    output_dir: str | None = flag(
        "Folder for model, checkpoints and predictions; by default runs/ and the name of the "
        "file of rows, after the name of the model if nothing is trained."
    )
    do_train: bool = flag("Train.", default=False)
    do_eval: bool = flag("Evaluate on the validation rows at the end.", default=False)
    do_predict: bool = flag(
        "Predict the test rows into a copy of their file with more columns.", default=False
    )
    num_train_epochs: float = flag(
        "Passes over the rows; 0 chooses 2 to 30, fewer for more rows and with vectors of words.",
        3.0,
    )
    learning_rate: float = flag(
        "Largest learning rate of the schedule; 0 chooses: 5e-5 where a pretrained encoder learns, "
        "else 1e-3.",
        1e-3,
    )
    per_device_train_batch_size: int = flag(
        "Rows per process and step; of retrieval 64, whose queries are compared with the documents "
        "of all processes, and of translation 80.",
        32,
    )
    per_device_eval_batch_size: int = flag("Rows per process and step of evaluation.", 64)
    logging_steps: float = flag("Updates from one log to the next; below 1, a share of all.", 50)
    save_strategy: SaveStrategy | str = flag(
        "When to save a checkpoint: by default steps if save_steps is given, else epoch."
    )
    save_steps: float = flag(
        "Updates from one checkpoint to the next; below 1, a share of all (default: 500)."
    )
    save_total_limit: int | None = flag("Checkpoints to keep, the best one among them.", 2)
    resume_from_checkpoint: str | None = flag(
        "Continue from a checkpoint folder or, without a value, from the newest complete one in "
        "output_dir; auto begins anew if there is none.",
        nargs="?",
        const="true",
    )
    restore_callback_states_from_checkpoint: bool = flag(
        "Resume the patience of early stopping too.", default=True
    )
    ddp_find_unused_parameters: bool | None = flag(
        "Search for parameters without a gradient in every step; the models here have none.",
        default=False,
    )
    bf16: bool | None = flag(  # type: ignore[assignment]
        "Train in bfloat16, about as accurate; by default if the processor or GPU is faster "
        "in bfloat16, and never in translation.",
        nargs="?",
        const=True,
    )
    metric_for_best_model: str | None = flag(
        "Metric that chooses the best checkpoint; score is the first of --metric_name, or "
        "accuracy, macro_f1 with balanced class_weights, mse, mrr or bleu, less a thousandth of "
        "the loss. With --load_best_model_at_end the default is the loss with the penalty."
    )
    predict_with_generate: bool = flag("Translate the rows of an evaluation.", default=True)
    generation_max_length: int | None = flag("Tokens after which a translation is cut.", 100)
    generation_num_beams: int | None = flag("Hypotheses of the beam search; 1 is greedy.", 1)

    def __post_init__(self) -> None:
        """Check the numbers; set the fields that depend on others and on the machine."""
        self._check_numbers()
        if self.do_predict and not self.predict_with_generate:
            raise refusal("--do_predict translates", "leave out --predict_with_generate false")
        if self.save_strategy is None:
            self.save_strategy = "epoch" if self.save_steps is None else "steps"
        if self.save_steps is None:
            self.save_steps = TrainingArguments.save_steps
        self.enable_jit_checkpoint = False  # it would save in the middle of an update
        metric = (self.metric_for_best_model or "").removeprefix("eval_")
        if metric == SCORE:
            self.greater_is_better = True
        elif self.greater_is_better is None and metric in LOWER_IS_BETTER:
            self.greater_is_better = False  # transformers knows this of the loss only
        if not torch.accelerator.is_available():
            self.use_cpu = True  # or bf16 is refused, and launched processes each train alone
        if self.bf16 is None:
            may_be = self.do_train and not self.fp16
            self.bf16 = may_be and is_fast_in_bfloat16(self.use_cpu)
        super().__post_init__()
        if self.device.type == "cpu":
            self.dataloader_pin_memory = False  # nothing to copy to, only a warning per loader

    def _check_numbers(self) -> None:
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise ValueError(f"--{name} is {value}; it must be from {least:g} to {most:g}")

    @property
    def rows_per_update(self) -> int:
        """The rows of an update, over all processes."""
        return int(self.train_batch_size * self.world_size * self.gradient_accumulation_steps)

    def get_warmup_steps(self, num_training_steps: int) -> int:
        """Return the updates of the warm-up; a share of all leaves one update after it."""
        steps = super().get_warmup_steps(num_training_steps)
        return min(steps, num_training_steps - 1) if self.warmup_steps < 1 else steps


def changed_arguments(*groups: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults; tokens and the device are left out."""
    changed = {}
    for group in groups:
        # __post_init__ sets many fields and, by use_cpu, how this process joins the others.
        use_cpu = {name: value for name, value in vars(group).items() if name == "use_cpu"}
        default = type(group)(**use_cpu)
        for entry in fields(group):
            value = getattr(group, entry.name)
            is_private = entry.name == "use_cpu" or entry.name.endswith("token")
            if not is_private and value != getattr(default, entry.name):
                changed[entry.name] = value.value if isinstance(value, Enum) else value
    return changed
