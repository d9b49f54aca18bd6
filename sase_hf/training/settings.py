"""`Settings` of every task, and `RunArguments`: `TrainingArguments` for small models."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, make_dataclass
from itertools import chain
from types import UnionType
from typing import Any, ClassVar, get_args

import torch
from transformers import Seq2SeqTrainingArguments
from transformers.trainer_utils import SaveStrategy

from ..data.columns import DataArguments, SourceArguments, flag
from ..data.tokenizer import Level
from ..evaluation.metrics import LOWER_IS_BETTER, METRICS, SCORE
from ..models import FAMILIES
from ..models.modeling_self_attentive import OF_LABELS
from ..utils.process import is_fast_in_bfloat16
from ..utils.text import refusal

# The values of --task, and the tasks that read a setting.
LABELS = ("labels", "nli")
TEXTS = (*LABELS, "retrieval")
TRANSLATION = ("translation",)
TASKS = (*TEXTS, *TRANSLATION)

AUTO_LEVEL = "auto"  # the value of --level that measures the texts

# Values of --word_vectors that are no files.
OWN_VECTORS = "own"
NO_VECTORS = "none"

# Settings whose values are files, folders or names on the Hub, which a run reads and keeps.
INPUTS = (
    "dataset_name",
    "train_file",
    "validation_file",
    "test_file",
    "model_name_or_path",
    "tokenizer_name",
    "encoder_name_or_path",
    "word_vectors",
    "unlabelled_file",
    "corrections_file",
)
BY_TOKENS = 0  # as the fewest occurrences of a word
TOKENIZER_OPTIONS = ("vocab_size", "min_frequency", "lowercase", "level", "subwords")
OF_NEW_MODEL = (
    *TOKENIZER_OPTIONS,
    "tokenizer_name",
    "word_vectors",
    "encoder_name_or_path",
    "unlabelled_file",
)

# The tasks that read a setting, where these are not all.
READERS: dict[str, tuple[str, ...]] = {
    "metric_name": (*LABELS, *TRANSLATION),
    **dict.fromkeys(("level", "encoder_name_or_path", "word_vectors", "tokenizer_name"), TEXTS),
    **dict.fromkeys(
        ("ignore_mismatched_sizes", "class_weights", "report", "calibrate", "keep_examples"), LABELS
    ),
    **dict.fromkeys(DataArguments.__annotations__, LABELS),
    **dict.fromkeys(("max_train_words", "subwords", "adadelta"), TRANSLATION),
}


def with_config_flags(group: type[Any]) -> type[Any]:
    """Give a dataclass a flag for each field of the families' configs that has a help text."""
    flags: dict[str, tuple[str, Any, Any]] = {}
    for family in FAMILIES.values():
        for entry in fields(family.config):
            if "is_flag" not in entry.metadata:
                continue
            name = entry.name
            kind: Any = entry.type
            if isinstance(kind, UnionType):  # the others are for programs
                kind = get_args(kind)[0]
            note = f"{entry.metadata['help']} (default: {entry.default})"
            flags.setdefault(name, (name, kind | None, flag(note)))
            of_texts = LABELS if name in OF_LABELS else TEXTS
            readers = of_texts if family.objective == "labels" else TRANSLATION
            READERS[name] = (*READERS.get(name, ()), *readers)
    body = {
        "config_fields": tuple(flags),
        "__module__": group.__module__,
        "__doc__": group.__doc__,
    }
    return make_dataclass(group.__name__, flags.values(), bases=(group,), namespace=body)


@with_config_flags
@dataclass
class Settings(DataArguments):
    """The settings of rows, tokenizer, model and task; those of the training are stock.

    A setting named as a field of a config sets that field; None keeps the config's own default.
    """

    _argument_group_name: ClassVar[str] = "settings"
    config_fields: ClassVar[tuple[str, ...]] = ()  # that have a flag

    task: str = flag(
        "What is learnt: labels of texts or of pairs, nli (labels of pairs only), retrieval or "
        "translation.",
        TASKS[0],
        choices=TASKS,
    )
    model_name_or_path: str | None = flag(
        "A checkpoint to start from or to evaluate: a folder or a name on the Hub. Its tokenizer, "
        "its labels and its sizes are kept. Without this flag, a new model is built."
    )
    ignore_mismatched_sizes: bool = flag(
        "Train a checkpoint on other labels than its own, with a new output layer if their number "
        "differs.",
        default=False,
    )
    tokenizer_name: str | None = flag(
        "A ready tokenizer, folder or Hub name, instead of one built from the training texts."
    )
    vocab_size: int | None = flag(
        "Largest vocabulary of a new tokenizer; of pieces of words, all characters stay."
    )
    min_frequency: int | None = flag(
        "Fewest occurrences of a word in a new tokenizer; 0: two, below 25,000 tokens one. Pieces "
        "of words have a rule of their own."
    )
    lowercase: bool | None = flag(
        "Whether a new tokenizer lower-cases texts.", nargs="?", const=True
    )
    level: str = flag(
        "Unit of a new tokenizer: a token is a word or a piece of a word. auto takes "
        "pieces for single texts in languages with many endings, measured on the training rows; "
        "for pairs of texts, and with files of word vectors, it takes words.",
        AUTO_LEVEL,
        choices=(AUTO_LEVEL, *get_args(Level)),
    )
    subwords: bool = flag(
        "Build a tokenizer that cuts rare words into byte-pair-encoded parts.",
        default=False,
    )
    encoder_name_or_path: str | None = flag(
        "A pretrained encoder of transformers under the attention of a new model, such as BERT: a "
        "folder or a name on the Hub. It brings its tokenizer and word vectors; it learns, too, "
        "with 4,000 rows or more, or as --freeze_embeddings says.",
    )
    word_vectors: list[str] | None = flag(
        "Word vectors to start from: GloVe, fastText or word2vec text, word2vec binary (.bin), "
        "also .gz; or a static embedding (model2vec), as a folder or as OWNER/NAME[@REVISION] on "
        "the Hub. own: vectors of the training texts; none: random ones. They set embedding_size; "
        "several are concatenated. Words of files and static embeddings join a new tokenizer while "
        "vocab_size leaves room, so that words first met after training have a vector. By default "
        "own for 100,000 tokens or more, else none.",
    )
    class_weights: list[str] | None = flag(
        "How much each class counts in the answers: balanced, as if all were equally frequent, or "
        "a number for each class in id order (default: 1 each)",
    )
    report: bool = flag(
        "Write a report: metrics beside those of a linear model, scores for each class, and a page "
        "of right and wrong predictions.",
        default=False,
    )
    calibrate: bool = flag(
        "Fit probabilities to the validation rows by the factors of a linear part, and choose the "
        "threshold of answer sets. Without such rows the factors are the usual ones.",
        default=False,
    )
    keep_examples: bool = flag(
        "Keep the texts of the training rows to which new texts are compared in the checkpoint: "
        "who has it can read them. Without this flag it keeps their numbers and labels.",
        default=False,
    )
    adadelta: bool = flag(
        "Train with the optimizer of the paper, Adadelta with rho 0.95 and epsilon 1e-6; its "
        "learning_rate is 1.",
        default=False,
    )
    metric_name: list[str] | None = flag(
        "Metrics, names or folders for `evaluate`; by default those that fit."
    )
    early_stopping_patience: int | None = flag(
        "Stop after this number of evaluations in a row without a better metric_for_best_model."
    )
    record: str | None = flag(
        "File for the JSON record of the measurement: metrics, data, seed, versions, hardware."
    )

    def __post_init__(self) -> None:
        """Refuse a setting of another task."""
        for name, value in self.given(vars(self)).items():
            readers = READERS.get(name, TASKS)
            if self.task not in readers:
                raise refusal(
                    f"--{name} is {value}, but --task {self.task} does not read it",
                    f"leave it out, or give --task {' or '.join(readers)}",
                )

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the settings that differ from their defaults, among some."""
        unset = self.__dataclass_fields__
        return {name: x for name in names if (x := getattr(self, name)) != unset[name].default}

    @property
    def pairs(self) -> SourceArguments:
        """The settings of rows of a task that learns pairs without labels."""
        names = [entry.name for entry in fields(SourceArguments)]
        return SourceArguments(**{name: getattr(self, name) for name in names})

    @property
    def vector_files(self) -> list[str]:
        """The word vectors that are read, and not learnt from the training texts."""
        return [name for name in self.word_vectors or [] if name not in (OWN_VECTORS, NO_VECTORS)]

    def inputs(self) -> list[str]:
        """Return the files, folders and names on the Hub that a run reads."""
        values = [getattr(self, name) or [] for name in INPUTS]
        return list(chain(*([value] if isinstance(value, str) else value for value in values)))


# ---- the arguments of a training -----------------------------------------------------------------


@dataclass
class RunArguments(Seq2SeqTrainingArguments):
    """`TrainingArguments` with defaults for small models that are trained from scratch.

    Every flag works as in transformers but these: `label_names` is a setting of the rows,
    `label_smoothing_factor` would replace the loss of the model, and the others would part the
    predictions from their rows.
    """

    _argument_group_name: ClassVar[str] = "training (transformers.TrainingArguments)"

    label_names: ClassVar[None] = None  # type: ignore[misc]  # of a class, they have no flag
    label_smoothing_factor: ClassVar[float] = 0.0  # type: ignore[misc]
    dataloader_drop_last: ClassVar[bool] = False  # type: ignore[misc]
    eval_do_concat_batches: ClassVar[bool] = True  # type: ignore[misc]
    batch_eval_metrics: ClassVar[bool] = False  # type: ignore[misc]
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
