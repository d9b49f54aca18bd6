"""The base of all tasks: rows, tokenizer, model and trainer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from datasets import Dataset, DatasetDict
from transformers import (
    AutoTokenizer,
    EarlyStoppingCallback,
    PreTrainedConfig,
    PreTrainedModel,
    TokenizersBackend,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from ..data.batching import encode_rows
from ..data.rows import Rows, load_rows
from ..evaluation.metrics import DEFAULT_METRICS
from ..models import FAMILIES
from ..utils.loading import (
    load,
    load_config,
    reraise_as_value_error,
    reraise_naming,
)
from ..utils.text import Table, refusal
from .settings import OF_NEW_MODEL, TOKENIZER_OPTIONS, RunArguments, Settings
from .trainer import SelfAttentiveTrainer, write_lines

Predictions = Any  # of a Trainer: an array (B, ...), or several


class ModelAndTokenizer(NamedTuple):
    """A model, new or of a checkpoint, and its tokenizer.

    vectors_found: the share of the vocabulary with a vector, by the file of word vectors.
    """

    model: PreTrainedModel
    tokenizer: TokenizersBackend
    vectors_found: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class TrainingSetup:
    """The rows, the model and the tokenizer of a run.

    rows: the rows as text, with labels.
    tokens: the rows of each split as tokens.
    vectors_found: as that of `ModelAndTokenizer`.
    """

    rows: Rows
    tokens: DatasetDict
    model: PreTrainedModel
    tokenizer: TokenizersBackend
    vectors_found: Mapping[str, float]


@dataclass
class Task(ABC):
    """The task that a model learns in a run with these settings and arguments.

    names: the values of `--task`, the default first.
    given: what settings and arguments were made of: those given, and those that follow from them.
    in_memory: splits that are given as rows, in place of files.
    """

    names: ClassVar[tuple[str, ...]]
    trainer: ClassVar[type[SelfAttentiveTrainer]] = SelfAttentiveTrainer

    settings: Settings
    args: RunArguments
    given: Mapping[str, Any]
    in_memory: Mapping[str, Dataset]

    def load_rows(self, config: PreTrainedConfig | None = None) -> Rows:
        """Load the rows, pairs for what this task is; `config` is that of a checkpoint."""
        checkpoint = None if config is None else config.name_or_path
        return load_rows(self.settings.pairs, kind=self.names[0], checkpoint=checkpoint)

    @abstractmethod
    def choose_head(self, rows: Rows, config: PreTrainedConfig | None) -> type[PreTrainedModel]:
        """Return the class of the model; raise ValueError for a checkpoint of another task."""

    @abstractmethod
    def build(self, head: type[PreTrainedModel], rows: Rows) -> ModelAndTokenizer:
        """Return a new model and its tokenizer."""

    def prepare(self, setup: TrainingSetup) -> None:  # noqa: B027
        """Make the model ready for the steps; ValueError if it cannot learn what the rows hold."""

    def first_vectors(self, setup: TrainingSetup) -> list[str]:
        """Return the word vectors that the model started from, also before it was resumed."""
        return []

    def what_is_read(self, setup: TrainingSetup) -> dict[str, Any]:
        """Return what a resumed run must find again: the training rows, and the settings by flag.

        They decide the order of the rows, how much of a text is read, and the loss. The length of
        the training may change, and the number of processes if an update keeps its rows.
        """
        rows, config = setup.rows, setup.model.config
        of_run = ("seed", "data_seed", "train_sampling_strategy")
        of_config = ("max_tokens", "class_weights", *FAMILIES[config.model_type].changeable_fields)
        held_out = ("validation", "test")
        return {
            **{name: rows.sources[name] for name in rows.sources if name not in held_out},
            "text_column_names": rows.text_columns,
            "label_column_name": rows.label_columns,
            "label_separator": rows.labels.separator,
            "shuffle_seed": self.settings.shuffle_seed,
            "per_device_train_batch_size x gradient_accumulation_steps x processes": (
                self.args.rows_per_update
            ),
            **{name: getattr(self.args, name) for name in of_run},
            **{name: getattr(config, name, None) for name in of_config},
        }

    def describe(self, setup: TrainingSetup) -> Iterator[str]:
        """Yield the first lines of the log: the number of rows, and their columns."""
        counts = [f"{split.num_rows:,} {name}" for name, split in setup.tokens.items()]
        columns = (*setup.rows.text_columns, *setup.rows.label_columns)
        yield f"rows: {', '.join(counts)}; columns: {', '.join(columns)}"

    def score_metric(self, kind: str) -> str:
        """Return the metric that the score of a model is made of."""
        if self.settings.metric_name:
            return self.settings.metric_name[0]
        if self.settings.class_weights == ["balanced"]:
            return "macro_f1"  # accuracy prefers the epoch that neglects the rare labels
        return DEFAULT_METRICS[kind][0]

    def trainer_options(self, setup: TrainingSetup) -> dict[str, Any]:
        """Return the options that the trainer of this task takes beside those of all."""
        return {}

    def after_training(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup
    ) -> dict[str, float]:
        """Change the trained model before it is saved; return the measurements."""
        return {}

    def evaluate(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup
    ) -> tuple[dict[str, float], list[Table]]:
        """Return the validation metrics, and tables to show."""
        return trainer.evaluate(), []

    def after_evaluation(self, setup: TrainingSetup) -> bool:
        """Change a trained model that was evaluated; return whether to save it anew."""
        return False

    def columns(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup, predictions: Predictions
    ) -> list[dict[str, Any]]:
        """Return the columns that the file of predictions adds to each test row."""
        return []

    def details(self) -> dict[str, Any]:
        """Return the entries of this task in the record."""
        return {}

    def assemble(self, checkpoint: Path | None = None) -> TrainingSetup:
        """Load the rows and build the model for them, or load that of a checkpoint.

        A `checkpoint` to resume comes before `model_name_or_path`. ValueError is raised for
        arguments that contradict one another, OSError for what cannot be read.
        """
        source = checkpoint or self.settings.model_name_or_path
        config = None if source is None else load_config(source)
        rows = self.load_rows(config)
        head = self.choose_head(rows, config)
        if config is None:
            made = self.build(head, rows)
        else:
            self.change_config(config, rows, is_resumed=checkpoint is not None)
            made = self.load_model(head, config)
        tokens = encode_rows(rows, made.tokenizer, made.model.config.max_tokens)
        return TrainingSetup(rows, tokens, *made)

    def make_trainer(self, setup: TrainingSetup, args: RunArguments) -> SelfAttentiveTrainer:
        """Return the trainer of a model with arguments that are complete."""
        trainer = self.trainer(
            setup.model,
            args,
            train_dataset=setup.tokens.get("train"),
            eval_dataset=setup.tokens.get("validation"),
            processing_class=setup.tokenizer,
            score_metric=self.score_metric(setup.rows.kind),
            **self.trainer_options(setup),
        )
        if self.settings.early_stopping_patience is not None:
            trainer.add_callback(EarlyStoppingCallback(self.settings.early_stopping_patience))
        write_lines(trainer)
        return trainer

    def change_config(self, config: PreTrainedConfig, rows: Rows, is_resumed: bool) -> None:
        """Change a checkpoint's config as the flags ask; refuse what does not fit its weights.

        A resumed run repeats all its flags, so that flags for a new model are allowed there.
        """
        building = self.settings.given(OF_NEW_MODEL)
        if building and not is_resumed:
            raise refusal(
                f"{flag_list(building)} shape a new model, --model_name_or_path a trained one",
                "give either",
            )
        changeable = FAMILIES[config.model_type].changeable_fields
        for name, value in self.settings.given(self.settings.config_fields).items():
            saved = getattr(config, name)
            wanted = tuple(value) if isinstance(saved, tuple) else value
            if name in changeable:
                setattr(config, name, value)
            elif wanted != saved:
                raise refusal(
                    f"--{name} is {value}, but the checkpoint was made with {saved}",
                    "leave it out, or train a new model",
                )
        with reraise_as_value_error():
            config.validate()

    def load_model(
        self, head: type[PreTrainedModel], config: PreTrainedConfig
    ) -> ModelAndTokenizer:
        """Return the model of a checkpoint, to be trained with a changed config, and tokenizer."""
        ignores = self.settings.ignore_mismatched_sizes
        # In float32: training in the half precision of a checkpoint loses updates.
        model, tokenizer = load(
            head, str(config.name_or_path), config, ignore_mismatched_sizes=ignores
        )
        return ModelAndTokenizer(model, self.adapted(tokenizer))

    def adapted(self, tokenizer: Any) -> TokenizersBackend:
        """Return a ready tokenizer as this task reads with it."""
        tokenizer.model_max_length = VERY_LARGE_INTEGER  # the limit is that of the model
        return tokenizer

    def new_tokenizer(
        self, rows: Rows, build: Callable[..., TokenizersBackend], ready: str | None = None
    ) -> TokenizersBackend:
        """Load the tokenizer that a flag names, or `ready`, or build one from the training rows."""
        options = self.settings.given(TOKENIZER_OPTIONS)
        name = self.settings.tokenizer_name or ready
        if name is not None:
            if options:
                raise refusal(
                    f"{flag_list(options)} cannot change a ready tokenizer",
                    "leave out --tokenizer_name",
                )
            with reraise_naming(name):
                return self.adapted(AutoTokenizer.from_pretrained(name, trust_remote_code=False))
        if "train" not in rows.splits:
            raise refusal("a new model takes its words from training rows", "give --train_file")
        return build(rows.texts_to_learn_from(), **options)


def untrained_model(head: Any, **fields: Any) -> PreTrainedModel:
    """Return a new model; raise ValueError for fields that contradict one another or the head."""
    with reraise_as_value_error():
        model: PreTrainedModel = head(head.config_class(**fields))
    return model


def flag_list(names: Iterable[str]) -> str:
    """Return the names as flags, such as `--level, --lowercase`."""
    return ", ".join(f"--{name}" for name in names)
