"""`RunArguments`: transformers' arguments of a training with defaults for small models."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from transformers import Seq2SeqTrainingArguments
from transformers.trainer_utils import SaveStrategy

from ..data.arguments import flag
from ..evaluation.metrics import LOWER_IS_BETTER, METRICS, SCORE
from ..utils.errors import refusal
from ..utils.precision import is_fast_in_bfloat16


@dataclass
class RunArguments(Seq2SeqTrainingArguments):
    """`TrainingArguments` with defaults for small models that are trained from scratch.

    Every flag works as in transformers but `label_names`, which is a setting of the rows, and
    `label_smoothing_factor`, which would replace the loss of the model.
    """

    _argument_group_name: ClassVar[str] = "training (transformers.TrainingArguments)"

    label_names: list[str] | None = field(default=None, init=False)
    label_smoothing_factor: float = field(default=0.0, init=False)
    output_dir: str | None = flag(
        "Folder for model, checkpoints and predictions; by default runs/ and the name of the "
        "file of rows, after the name of the model if nothing is trained."
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
        "When to save a checkpoint; steps if save_steps is given.", "epoch"
    )
    save_total_limit: int | None = flag("Checkpoints to keep, the best one among them.", 2)
    resume_from_checkpoint: str = flag(
        "Continue from a checkpoint folder or, without a value or with auto, from the newest "
        "complete one in output_dir; begin anew if there is none.",
        "false",
        nargs="?",
        const="auto",
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
    predict_with_generate: bool = flag(
        "Translate the rows of an evaluation, as those to predict are.", default=True
    )
    generation_max_length: int | None = flag("Tokens after which a translation is cut.", 100)
    generation_num_beams: int | None = flag("Hypotheses of the beam search; 1 is greedy.", 1)

    def __post_init__(self) -> None:
        """Set the fields that depend on others and on the machine."""
        self.predict_with_generate |= self.do_predict
        metric = (self.metric_for_best_model or SCORE).removeprefix("eval_")
        if metric in LOWER_IS_BETTER:
            self.greater_is_better = False  # transformers knows this of the loss only
        elif self.greater_is_better is None and metric not in (*METRICS, SCORE):
            raise refusal(
                f"--metric_for_best_model is {metric}, which may be better high or low",
                "add --greater_is_better true, or false",
            )
        if not torch.accelerator.is_available():
            self.use_cpu = True  # or bf16 is refused, and launched processes each train alone
        if self.bf16 is None:
            may_be = self.do_train and not self.fp16
            self.bf16 = may_be and is_fast_in_bfloat16(self.use_cpu)
        super().__post_init__()
        if self.device.type == "cpu":
            self.dataloader_pin_memory = False  # nothing to copy to, only a warning per loader

    @property
    def rows_per_update(self) -> int:
        """The rows of an update, over all processes."""
        return int(self.train_batch_size * self.world_size * self.gradient_accumulation_steps)
