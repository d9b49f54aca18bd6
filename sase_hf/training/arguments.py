"""What a training run can be told: three dataclasses whose fields are the flags of the scripts.

`ModelArguments` says what to train, `DataArguments` on which rows, `RunArguments` how; the last is
transformers' `TrainingArguments` with other defaults. How a command line and a recipe become these
three is in `command_line`, what is done with them in `training`.
"""

import inspect
import re
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, ClassVar, get_args

import torch
from transformers import TrainingArguments
from transformers.trainer_utils import SaveStrategy

from ..models.self_attentive.configuration_self_attentive import SelfAttentiveConfig

LOWER_IS_BETTER = frozenset({"mse", "rmse", "mae", "penalty"})


def _config_help() -> dict[str, str]:
    """Return what the config's docstring says about each field, so that it is written once."""
    doc = inspect.getdoc(SelfAttentiveConfig) or ""
    entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", doc, flags=re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text).replace("\\", "") for name, text in entries}


_CONFIG_HELP = _config_help()
_CONFIG_TYPES = SelfAttentiveConfig.__annotations__
_CONFIG_DEFAULTS = {entry.name: entry.default for entry in fields(SelfAttentiveConfig)}


def _config_metadata(name: str) -> dict[str, Any]:
    """Return what a flag says of a field of the config: its words, its choices."""
    metadata: dict[str, Any] = {"help": f"{_CONFIG_HELP[name]} (default: {_CONFIG_DEFAULTS[name]})"}
    hint = _CONFIG_TYPES[name]
    if hint is bool:
        metadata |= {"nargs": "?", "const": True}
    elif choices := [choice for choice in get_args(hint) if isinstance(choice, str)]:
        metadata["choices"] = choices
    return metadata


def _config_field(name: str) -> Any:
    """Return a flag for a field of the config; None keeps its default."""
    return field(default=None, metadata=_config_metadata(name))


def _flag(text: str, default: Any = None, **metadata: Any) -> Any:
    return field(default=default, metadata={"help": text, **metadata})


@dataclass
class ModelArguments:
    """Which model to build, or which one to start from.

    Fields named as in `SelfAttentiveConfig` set that field; None keeps the config's own default.
    """

    _argument_group_name: ClassVar[str] = "model"

    model_name_or_path: str | None = _flag(
        "A checkpoint to start from or to evaluate: a folder or a name on the Hub. Its tokenizer, "
        "its labels and its sizes are kept. Without it a new model is built."
    )
    model_revision: str = _flag("Branch, tag or commit of a checkpoint on the Hub.", "main")
    ignore_mismatched_sizes: bool = _flag(
        "Train a checkpoint on other labels than its own, with a new output layer if their number "
        "differs.",
        default=False,
    )
    task: str | None = _flag(
        "The head of a new model; by default nli for two text columns and classification for one.",
        choices=["classification", "nli"],
    )
    tokenizer_name: str | None = _flag(
        "A ready tokenizer, folder or Hub name, instead of one built from the training texts."
    )
    word_vectors: list[str] | None = field(
        default=None,
        metadata={
            "help": "Word vectors to start from: GloVe or fastText text, word2vec text or binary, "
            "also gzip or zip. They set embedding_size; those of several files stand side by side."
        },
    )
    word_vectors_member: str | None = _flag("The file to read in a zip that holds several.")
    extend_vocabulary: bool = _flag(
        "Give the tokenizer that is built the words of the vector file too, where vocab_size "
        "leaves room: words first met after training then have a vector.",
        default=False,
    )
    vocab_size: int | None = _flag("Largest vocabulary of the tokenizer that is built.")
    min_frequency: int | None = _flag("Fewest occurrences of a word that the tokenizer keeps.")
    lowercase: bool | None = _flag(
        "Whether the tokenizer that is built lower-cases.", nargs="?", const=True
    )

    embedding_size: int | None = _config_field("embedding_size")
    encoder: str | None = _config_field("encoder")
    lstm_hidden_size: int | None = _config_field("lstm_hidden_size")
    num_lstm_layers: int | None = _config_field("num_lstm_layers")
    lstm_shortcuts: bool | None = _config_field("lstm_shortcuts")
    cnn_kernel_sizes: list[int] | None = field(
        default=None, metadata=_config_metadata("cnn_kernel_sizes")
    )
    cnn_num_filters: int | None = _config_field("cnn_num_filters")
    dilated_cnn_hidden_size: int | None = _config_field("dilated_cnn_hidden_size")
    dilated_cnn_kernel_size: int | None = _config_field("dilated_cnn_kernel_size")
    dilated_cnn_num_layers: int | None = _config_field("dilated_cnn_num_layers")
    relation_hidden_size: int | None = _config_field("relation_hidden_size")
    relation_gate: bool | None = _config_field("relation_gate")
    pooling: str | None = _config_field("pooling")
    attention_size: int | None = _config_field("attention_size")
    num_hops: int | None = _config_field("num_hops")
    attention_function: str | None = _config_field("attention_function")
    normalize_states: bool | None = _config_field("normalize_states")
    penalty: str | None = _config_field("penalty")
    penalty_coef: float | None = _config_field("penalty_coef")
    classifier: str | None = _config_field("classifier")
    classifier_hidden_size: int | None = _config_field("classifier_hidden_size")
    pruned_row_size: int | None = _config_field("pruned_row_size")
    pruned_column_size: int | None = _config_field("pruned_column_size")
    matching: str | None = _config_field("matching")
    embedding_dropout: float | None = _config_field("embedding_dropout")
    classifier_dropout: float | None = _config_field("classifier_dropout")
    label_smoothing: float | None = _config_field("label_smoothing")
    freeze_embeddings: bool | None = _config_field("freeze_embeddings")
    initializer_range: float | None = _config_field("initializer_range")

    def given_config_fields(self) -> dict[str, Any]:
        """Return the config's fields that were set, vocabulary size aside (the tokenizer's)."""
        own = SelfAttentiveConfig.__annotations__.keys() - {"vocab_size"}
        return _given(self, own)

    def given_tokenizer_options(self) -> dict[str, Any]:
        """Return the options that were set for the tokenizer to build."""
        return _given(self, {"vocab_size", "min_frequency", "lowercase"})


@dataclass
class DataArguments:
    """Which rows to train on, to evaluate and to predict, and where the results go."""

    _argument_group_name: ClassVar[str] = "data"

    dataset_name: str | None = _flag("A dataset on the Hub, instead of files.")
    dataset_config_name: str | None = _flag("Its configuration.")
    dataset_revision: str | None = _flag("Its branch, tag or commit.")
    train_file: str | None = _flag("CSV, TSV, JSON, JSON Lines (all also .gz) or Parquet.")
    validation_file: str | None = _flag("Rows to evaluate on.")
    test_file: str | None = _flag("Rows to predict; labels may be missing.")
    text_column_names: list[str] = field(
        default_factory=lambda: ["text"],
        metadata={"help": 'One text column, or two for pairs: "premise,hypothesis".'},
    )
    label_column_name: str = _flag("The column of labels.", "label")
    problem_type: str | None = _flag(
        "What kind of labels; by default inferred from the column.",
        choices=["single_label_classification", "multi_label_classification", "regression"],
    )
    label_names: list[str] | None = field(
        default=None,
        metadata={"help": "The labels in id order; by default in the order that the data give."},
    )
    drop_unlabelled: bool = _flag("Leave out rows without a label.", default=False)
    validation_fraction: float | None = _flag(
        "Share of the training rows to evaluate on, when there is no validation split."
    )
    max_seq_length: int | None = _flag(
        "Tokens after which a text or pair is cut; by default the tokenizer's limit, if new 1024."
    )
    max_batch_tokens: int | None = _flag(
        "Tokens, padding included, that go through the model at once; a batch that holds more is "
        "read in parts, with the same result in less memory."
    )
    max_train_samples: int | None = _flag("Use only so many rows.")
    max_eval_samples: int | None = _flag("Use only so many rows.")
    max_predict_samples: int | None = _flag("Use only so many rows.")
    shuffle_seed: int | None = _flag("Shuffle the training rows before any are left out.")
    metric_name: list[str] | None = field(
        default=None,
        metadata={
            "help": "Metrics, each a name, a folder or a Hub name for `evaluate`; by default those "
            "of the package for the kind of labels."
        },
    )
    early_stopping_patience: int | None = _flag(
        "Stop after so many evaluations without a better metric_for_best_model."
    )
    record: str | None = _flag(
        "File for the JSON record of what was measured: metrics, data, seed, versions, hardware."
    )
    cache_dir: str | None = _flag("Where downloads are kept.")
    token: str | None = _flag("Token for private repositories on the Hub.")

    def __post_init__(self) -> None:
        """Split column names at commas, as transformers' own scripts do; check what can be."""
        self.text_column_names = [
            name.strip() for names in self.text_column_names for name in names.split(",")
        ]
        if self.max_batch_tokens is not None and self.max_batch_tokens < 1:
            raise ValueError(
                f"--max_batch_tokens is {self.max_batch_tokens}; it must be 1 or more. Leave it "
                "out to read batches whole"
            )


@dataclass
class RunArguments(TrainingArguments):
    """`TrainingArguments` with defaults for small models that are trained from scratch.

    Every flag works as in transformers. `label_names` there names columns of a batch, which our
    models fix; here it is a flag of `DataArguments`.
    """

    _argument_group_name: ClassVar[str] = "training (transformers.TrainingArguments)"

    label_names: list[str] | None = field(default=None, init=False)
    output_dir: str | None = _flag("Where the model, checkpoints and predictions go.")
    do_train: bool = _flag("Train.", default=False)
    do_eval: bool = _flag("Evaluate on the validation rows at the end.", default=False)
    do_predict: bool = _flag("Predict the test rows into predictions.jsonl.", default=False)
    train_sampling_strategy: str = _flag(
        "The order of rows. group_by_length saves most of the padding, in training and after it.",
        "random",
        choices=TrainingArguments.__dataclass_fields__["train_sampling_strategy"].metadata[
            "choices"
        ],
    )
    learning_rate: float = _flag("Largest learning rate of the schedule.", 1e-3)
    per_device_train_batch_size: int = _flag("Rows per process and step.", 32)
    per_device_eval_batch_size: int = _flag("Rows per process and step of evaluation.", 64)
    logging_steps: float = _flag("Log every so many updates; below 1, a share of all.", 50)
    logging_nan_inf_filter: bool = _flag(
        "Leave losses that are not finite out of the logs. Training stops at them in any case.",
        default=False,
    )
    save_strategy: SaveStrategy | str = field(
        default="epoch", metadata={"help": "When to save a checkpoint."}
    )
    save_total_limit: int | None = _flag("Checkpoints to keep, the best one among them.", 2)
    resume_from_checkpoint: str | None = _flag(
        "Go on from a checkpoint folder, or, without a value, from the newest complete one in "
        "output_dir.",
        nargs="?",
        const="true",
    )
    restore_callback_states_from_checkpoint: bool = _flag(
        "Resume the patience of early stopping too.", default=True
    )
    ddp_find_unused_parameters: bool | None = _flag(
        "Search for parameters without a gradient in every step; the models here have none.",
        default=False,
    )

    def __post_init__(self) -> None:
        """Settle what depends on the metric and on the machine."""
        metric = (self.metric_for_best_model or "").removeprefix("eval_")
        if self.greater_is_better is None and metric in LOWER_IS_BETTER:
            self.greater_is_better = False  # transformers knows it of the loss alone
        if not torch.accelerator.is_available():
            self.use_cpu = True  # or bf16 is refused, and launched processes each train alone
        super().__post_init__()
        if self.device.type == "cpu":
            self.dataloader_pin_memory = False  # nothing to copy to, only a warning per loader


def changed_arguments(*groups: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults, without secrets.

    Args:
        *groups: Instances of the dataclasses above.

    Returns:
        Names and values, fit for a JSON record.
    """
    unsaid = ("use_cpu",)  # a record names the hardware; the run may be repeated on another
    changed = {}
    for group in groups:
        # __post_init__ settles many fields, and by use_cpu which processes this one works with.
        use_cpu = {name: value for name, value in vars(group).items() if name == "use_cpu"}
        default = type(group)(**use_cpu)
        for entry in fields(group):
            value = getattr(group, entry.name)
            if (
                entry.name in unsaid
                or entry.name.endswith("token")
                or value == getattr(default, entry.name)
            ):
                continue
            changed[entry.name] = value.value if isinstance(value, Enum) else value
    return changed


def _given(group: Any, names: Any) -> dict[str, Any]:
    """Return the fields among `names` that are not None, in the order they are declared."""
    values = {entry.name: getattr(group, entry.name) for entry in fields(group)}
    return {name: value for name, value in values.items() if name in names and value is not None}


__all__ = ["DataArguments", "ModelArguments", "RunArguments", "changed_arguments"]
