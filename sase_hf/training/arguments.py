"""Groups of flags. A task composes its dataclasses for model and training from these groups.

`RunArguments` is transformers' `TrainingArguments` with more fields and other defaults. The groups
for rows are in `data.arguments`.
"""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import Field, dataclass, field, fields, make_dataclass
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

import torch
from transformers import TrainingArguments
from transformers.trainer_utils import SaveStrategy

from ..data.arguments import SourceArguments, flag
from ..data.tokenizer import Level
from ..evaluation.metrics import METRICS
from ..models import FAMILIES
from ..utils.errors import refusal
from ..utils.precision import is_fast_in_bfloat16

LOWER_IS_BETTER = {"mse", "rmse", "mae"}.union(*(f.logged_outputs for f in FAMILIES.values()))

# Numbers of a run in the ranges in which it can learn: a check, and its words. transformers takes
# any number; with most others a run ends well and leaves a model that was never trained.
RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "learning_rate": (lambda x: 0 < x <= 100, "above 0 and at most 100"),
    "weight_decay": (lambda x: 0 <= x <= 10, "from 0 to 10"),
    "warmup_steps": (lambda x: 0 <= x < math.inf, "0 or more"),
    "max_grad_norm": (lambda x: x >= 0, "0, which clips nothing, or more"),
    "adam_beta1": (lambda x: 0 <= x < 1, "at least 0 and below 1"),
    "adam_beta2": (lambda x: 0 <= x < 1, "at least 0 and below 1"),
    "adam_epsilon": (lambda x: 0 < x <= 1, "above 0 and at most 1"),
    "neftune_noise_alpha": (lambda x: 0 <= x <= 100, "from 0 to 100"),
    "num_train_epochs": (lambda x: 0 <= x < math.inf, "above 0, or 0 to choose by the rows"),
    "max_steps": (lambda x: x >= 1 or x == -1, "1 or more, or -1 for no limit"),
    "eval_delay": (lambda x: 0 <= x < math.inf, "0 or more"),
    "seed": (lambda x: 0 <= x < 2**32, "from 0 to 4294967295"),
    "data_seed": (lambda x: 0 <= x < 2**32, "from 0 to 4294967295"),
    "dataloader_num_workers": (lambda x: x >= 0, "0 or more"),
    # A checkpoint with more is refused when it is loaded.
    "generation_max_length": (lambda x: 1 <= x <= 10_000, "from 1 to 10000"),
    **dict.fromkeys(
        ("logging_steps", "eval_steps", "save_steps"),
        (lambda x: 0 < x < math.inf, "above 0"),
    ),
    **dict.fromkeys(
        (
            "per_device_train_batch_size",
            "per_device_eval_batch_size",
            "gradient_accumulation_steps",
            "eval_accumulation_steps",
            "max_batch_tokens",
            "early_stopping_patience",
            "save_total_limit",
            "generation_num_beams",
        ),
        (lambda x: x >= 1, "1 or more"),
    ),
}

AUTO_LEVEL = "auto"  # the value of --level that measures the texts

# Values of --word_vectors that are no files.
OWN_VECTORS = "own"
NO_VECTORS = "none"

Source = TypeVar("Source", bound="ModelSource")


@dataclass
class ModelSource:
    """The flags for the source of a model and its tokenizer, which all tasks share.

    A flag named as a field of a config sets that field; None keeps the config's own default.
    """

    _argument_group_name: ClassVar[str] = "model"
    config_fields: ClassVar[tuple[str, ...]] = ()  # that have a flag
    tokenizer_options: ClassVar[tuple[str, ...]] = ("vocab_size", "min_frequency", "lowercase")
    building_flags: ClassVar[tuple[str, ...]] = ("tokenizer_name",)  # of a new model, beside these

    task: str | None = flag(
        "What is learnt: labels of texts or of pairs, nli (labels of pairs only), retrieval or "
        "translation (default: labels).",
        choices=("labels", "nli", "retrieval", "translation"),
    )
    model_name_or_path: str | None = flag(
        "A checkpoint to start from or to evaluate: a folder or a name on the Hub. Its tokenizer, "
        "its labels and its sizes are kept. Without this flag, a new model is built."
    )
    model_revision: str = flag("Branch, tag or commit of a checkpoint on the Hub.", "main")
    tokenizer_name: str | None = flag(
        "A ready tokenizer, folder or Hub name, instead of one built from the training texts."
    )
    vocab_size: int | None = flag(
        "Largest vocabulary of a new tokenizer; of pieces of words, all characters stay."
    )
    min_frequency: int | None = flag(
        "Fewest occurrences of a word in a new tokenizer; pieces of words have a rule of their own."
    )
    lowercase: bool | None = flag(
        "Whether a new tokenizer lower-cases texts.", nargs="?", const=True
    )

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the flags that were set, among some."""
        unset = {entry.name: entry.default for entry in fields(self)}
        return {name: x for name in names if (x := getattr(self, name)) != unset[name]}

    def given_for_new_model(self) -> dict[str, Any]:
        """Return the flags that were set and that only a new model can follow."""
        return self.given((*self.tokenizer_options, *self.building_flags))


@dataclass
class EncoderArguments(ModelSource):
    """Flags for the start of a new sentence encoder: word vectors, or a pretrained encoder."""

    tokenizer_options: ClassVar[tuple[str, ...]] = (*ModelSource.tokenizer_options, "level")
    building_flags: ClassVar[tuple[str, ...]] = (
        *ModelSource.building_flags,
        "word_vectors",
        "encoder_name_or_path",
    )

    level: str = flag(
        "Unit of a new tokenizer: a token is a word, a piece of a word or a character. auto takes "
        "pieces for single texts in languages with many endings, measured on the training rows; "
        "for pairs of texts, and with files of word vectors, it takes words.",
        AUTO_LEVEL,
        choices=(AUTO_LEVEL, *get_args(Level)),
    )
    encoder_name_or_path: str | None = flag(
        "A pretrained encoder of transformers under the attention of a new model, such as BERT: a "
        "folder or a name on the Hub. It brings its tokenizer and word vectors, and is trained too."
    )
    word_vectors: list[str] | None = flag(
        "Word vectors to start from: GloVe, fastText or word2vec text, word2vec binary (.bin), "
        "also .gz; or a static embedding (model2vec), as a folder or as OWNER/NAME[@REVISION] on "
        "the Hub. own: vectors of the training texts; none: random ones. They set embedding_size; "
        "several are concatenated. Words of files and static embeddings join a new tokenizer while "
        "vocab_size leaves room, so that words first met after training have a vector. By default "
        "own for single texts of 100,000 tokens or more, else none."
    )

    def __post_init__(self) -> None:
        """Refuse `none` beside other word vectors, and a file named twice."""
        names = self.word_vectors or []
        if len(set(names)) < len(names):
            raise refusal(f"--word_vectors are {' '.join(names)}", "name each once")
        if NO_VECTORS in names and len(names) > 1:
            raise refusal(
                f"--word_vectors are {' '.join(names)}",
                f"{NO_VECTORS} stands alone; a file of this name is ./{NO_VECTORS}",
            )

    def given_for_new_model(self) -> dict[str, Any]:
        """Return the flags that were set for a new model; `none` as word vectors asks nothing."""
        given = super().given_for_new_model()
        if self.word_vectors == [NO_VECTORS]:
            del given["word_vectors"]
        return given

    @property
    def vector_files(self) -> list[str]:
        """The word vectors that are read, and not learnt from the training texts."""
        return [name for name in self.word_vectors or [] if name not in (OWN_VECTORS, NO_VECTORS)]


def with_config_flags(
    objective: str, without: Collection[str] = ()
) -> Callable[[type[Source]], type[Source]]:
    """Return a decorator that gives a dataclass a flag for each field of the families' configs.

    The heads of these families learn the `objective`; the task does not read the fields `without`.
    """

    def decorate(group: type[Source]) -> type[Source]:
        flags = [
            (name, *_config_flag(family.config.__dataclass_fields__[name], text))
            for family in FAMILIES.values()
            if family.objective == objective
            for name, text in family.flags.items()
            if name not in without
        ]
        names = tuple(name for name, *_ in flags)
        body = {"config_fields": names, "__module__": group.__module__, "__doc__": group.__doc__}
        return make_dataclass(group.__name__, flags, bases=(group,), namespace=body)

    return decorate


def _config_flag(entry: Field[Any], text: str) -> tuple[Any, Any]:
    default: Any = entry.default
    metadata: dict[str, Any] = {}
    kind: Any = type(default)
    if get_origin(entry.type) is Literal:
        metadata["choices"] = get_args(entry.type)
    elif kind is bool:
        metadata |= {"nargs": "?", "const": True}
    elif kind is tuple:
        kind = list[type(default[0])]  # type: ignore[misc]
    elif default is None:
        kind = get_args(entry.type)[0]
    return kind | None, flag(f"{text} (default: {default})", **metadata)


@dataclass
class RunArguments(TrainingArguments):
    """`TrainingArguments` with defaults for small models that are trained from scratch.

    Every flag works as in transformers but `label_names`, which is a flag of the rows.
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
    learning_rate: float = flag("Largest learning rate of the schedule.", 1e-3)
    per_device_train_batch_size: int = flag("Rows per process and step.", 32)
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
    push_to_hub: bool = flag("Push the model and its card once, after training.", default=False)
    ddp_find_unused_parameters: bool | None = flag(
        "Search for parameters without a gradient in every step; the models here have none.",
        default=False,
    )
    bf16: bool | None = flag(  # type: ignore[assignment]
        "Train in bfloat16, about as accurate; by default if the processor or GPU is faster "
        "in bfloat16.",
        nargs="?",
        const=True,
    )
    max_batch_tokens: int | None = flag(
        "Max tokens, padding included, that go through the model at once. A larger batch is "
        "read in parts, with the same result in less memory."
    )
    metric_name: list[str] | None = flag(
        "Metrics, names or folders for `evaluate`; by default those that fit."
    )
    metric_for_best_model: str | None = flag(
        "Metric that chooses the best checkpoint; auto is the first metric that fits the labels, "
        "such as accuracy, and macro_f1 with balanced class_weights. With "
        "--load_best_model_at_end the default is the loss, which includes the penalty."
    )
    early_stopping_patience: int | None = flag(
        "Stop after this number of evaluations with neither a better metric_for_best_model nor a "
        "lower loss."
    )
    record: str | None = flag(
        "File for the JSON record of the measurement: metrics, data, seed, versions, hardware."
    )

    def __post_init__(self) -> None:
        """Check the new fields; set the fields that depend on the metric and on the machine."""
        check_numbers(self)
        self._choose_saving()
        self._choose_metric()
        self._choose_precision()
        super().__post_init__()
        if self.device.type == "cpu":
            self.dataloader_pin_memory = False  # nothing to copy to, only a warning per loader

    @property
    def rows_per_update(self) -> int:
        """The rows of an update, over all processes."""
        return int(self.train_batch_size * self.world_size * self.gradient_accumulation_steps)

    def get_warmup_steps(self, num_training_steps: int) -> int:
        """Return the updates of the warm-up; a share of all leaves one update after it."""
        steps = super().get_warmup_steps(num_training_steps)
        return min(steps, num_training_steps - 1) if self.warmup_steps < 1 else steps

    def _choose_saving(self) -> None:
        if self.save_strategy is None:
            self.save_strategy = "epoch" if self.save_steps is None else "steps"
        if self.save_steps is None:
            self.save_steps = TrainingArguments.save_steps
        self.enable_jit_checkpoint = False  # it would save in the middle of an update

    def _choose_metric(self) -> None:
        if self.metric_for_best_model == "auto" and self.metric_name:
            self.metric_for_best_model = self.metric_name[0]
        if self.greater_is_better is not None:
            return
        metric = (self.metric_for_best_model or "auto").removeprefix("eval_")
        if metric in LOWER_IS_BETTER:
            self.greater_is_better = False  # transformers knows this of the loss only
        elif self.metric_name is not None and metric not in ("auto", "loss", *METRICS):
            raise ValueError(
                f"--metric_for_best_model is {metric}, which may be better high or low; add "
                "--greater_is_better true or false"
            )

    def _choose_precision(self) -> None:
        if not torch.accelerator.is_available():
            self.use_cpu = True  # or bf16 is refused, and launched processes each train alone
        if self.bf16 is None:
            may_be = self.do_train and not self.fp16
            self.bf16 = may_be and is_fast_in_bfloat16(self.use_cpu)


SourceT = TypeVar("SourceT", bound=SourceArguments)
ModelT = TypeVar("ModelT", bound=ModelSource)
RunT = TypeVar("RunT", bound=RunArguments)


@dataclass(frozen=True)
class Arguments(Generic[SourceT, ModelT, RunT]):
    """The arguments of a run, by what they are about."""

    data: SourceT
    model: ModelT
    run: RunT


def check_numbers(args: TrainingArguments) -> None:
    """Raise ValueError for a number of a run that is not in its range; None is the default."""
    for name, (is_allowed, allowed) in RANGES.items():
        value = getattr(args, name, None)
        if value is not None and not is_allowed(value):
            raise ValueError(f"--{name} is {value}; it must be {allowed}")


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
