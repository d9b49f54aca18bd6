"""What a task says of itself, and what all tasks share: rows, tokenizer, model and trainer."""

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch
from datasets import DatasetDict
from transformers import AutoTokenizer, EarlyStoppingCallback, PreTrainedModel, TokenizersBackend

from ..data.splits import TEXT_COLUMNS, TaskData
from ..data.tokens import encode_task
from ..evaluation.metrics import DEFAULT_METRICS
from ..models import FAMILIES
from ..utils.loading import load_config, reraise_as_value_error, reraise_naming
from ..utils.tables import Table
from .trainer import SelfAttentiveTrainer

NewModel = tuple[PreTrainedModel, TokenizersBackend, dict[str, float]]


@dataclass(frozen=True)
class TrainingSetup:
    """What a run trains with."""

    task: TaskData  # rows as text, and labels
    rows: DatasetDict  # rows as tokens
    tokenizer: TokenizersBackend
    model: Any  # a PreTrainedModel
    vectors_found: Mapping[str, float]  # share of the vocabulary with a vector, by file
    default_metrics: tuple[str, ...]  # those that a run measures if it names none


class Task(ABC):
    """What a model learns in a run with these arguments.

    Attributes:
        arguments: The dataclasses of its flags: for rows, model and training.
        trainer: Its `Trainer`, called with the options that `trainer_options` adds.
    """

    arguments: ClassVar[tuple[type[Any], type[Any], type[Any]]]
    trainer: ClassVar[type[SelfAttentiveTrainer]] = SelfAttentiveTrainer

    def __init__(self, model_args: Any, data_args: Any, run_args: Any = None) -> None:
        self.model_args, self.data_args, self.run_args = model_args, data_args, run_args

    @classmethod
    def presets(cls, given: argparse.Namespace) -> list[str] | None:
        """Return the presets of a command that names no step; None if every command names one."""
        return None

    @abstractmethod
    def load_rows(self, config: Any = None) -> TaskData:
        """Load the rows; `config` is that of a checkpoint."""

    @abstractmethod
    def choose_head(self, data: TaskData, config: Any) -> type[PreTrainedModel]:
        """Return the class of the model; raise ValueError for a checkpoint of another task."""

    @abstractmethod
    def build(self, head: type[PreTrainedModel], data: TaskData) -> NewModel:
        """Return a new model, its tokenizer, and the share of words found in each vector file."""

    def encode(self, data: TaskData, tokenizer: TokenizersBackend) -> DatasetDict:
        """Return the rows as tokens."""
        return encode_task(data, tokenizer)

    def default_metrics(self, data: TaskData) -> tuple[str, ...]:
        """Return what an evaluation measures beside the loss; the first chooses the best model."""
        return DEFAULT_METRICS[data.problem_type]

    def describe(self, setup: TrainingSetup) -> Iterator[str]:
        """Yield the first lines of the log: how many rows there are, and of which columns."""
        rows = ", ".join(f"{split.num_rows:,} {name}" for name, split in setup.rows.items())
        yield f"pairs: {rows} ({' -> '.join(setup.task.text_columns)})"

    def trainer_options(self, setup: TrainingSetup) -> dict[str, Any]:
        """Return the options that the trainer of this task takes beside those of all."""
        return {}

    def after_training(self, trainer: Any, setup: TrainingSetup) -> dict[str, float]:
        """Change the trained model before it is saved; return what was measured."""
        return {}

    def evaluate(
        self, trainer: Any, setup: TrainingSetup, known: dict[str, float]
    ) -> tuple[dict[str, float], list[Table]]:
        """Return the metrics of the validation rows, and tables to show in place of them.

        `known` are the metrics of the run so far.
        """
        return trainer.evaluate(), []

    def columns(self, trainer: Any, setup: TrainingSetup, predictions: Any) -> list[dict[str, Any]]:
        """Return the columns that the file of predictions adds to each test row."""
        return []

    def details(self, trainer: Any, setup: TrainingSetup) -> dict[str, Any]:
        """Return what the record says of this task."""
        return {}

    def assemble(self, checkpoint: Path | None = None) -> TrainingSetup:
        """Load the rows and build the model for them, or load that of a checkpoint.

        `checkpoint` is one to resume; it comes before `model_name_or_path`.

        Raises:
            ValueError: If an argument contradicts another one, the checkpoint or the data.
            OSError: If a file or the checkpoint is not there or cannot be read.
        """
        source = str(checkpoint) if checkpoint else self.model_args.model_name_or_path
        config = None if source is None else load_config(source, **self.hub_options())
        data = self.load_rows(config)
        head = self.choose_head(data, config)
        found: dict[str, float] = {}
        if config is None:
            model, tokenizer, found = self.build(head, data)
        else:
            self.change_config(config, data, is_resumed=checkpoint is not None)
            model, tokenizer = self.load_model(head, config)
        rows = self.encode(data, tokenizer)
        return TrainingSetup(data, rows, tokenizer, model, found, self.default_metrics(data))

    def make_trainer(self, setup: TrainingSetup) -> Any:
        """Return the trainer of a model."""
        patience = self.run_args.early_stopping_patience
        return self.trainer(
            setup.model,
            self.run_args,
            max_batch_tokens=self.run_args.max_batch_tokens,
            train_dataset=setup.rows.get("train"),
            eval_dataset=setup.rows.get("validation"),
            processing_class=setup.tokenizer,
            callbacks=[] if patience is None else [EarlyStoppingCallback(patience)],
            **self.trainer_options(setup),
        )

    def hub_options(self) -> dict[str, Any]:
        """Return the options of `from_pretrained` for everything that a run loads."""
        return {
            "revision": self.model_args.model_revision,
            "cache_dir": self.data_args.cache_dir,
            "token": self.data_args.token,
            "trust_remote_code": False,  # the classes are here; code in a repository is not run
        }

    def change_config(self, config: Any, data: TaskData, is_resumed: bool) -> None:
        """Change a checkpoint's config as the flags ask; refuse what its weights do not allow.

        A run is resumed with the flags that started it, also those for tokenizer and word vectors.
        """
        args = self.model_args
        building = args.given((*args.tokenizer_options, *args.building_flags))
        if building and not is_resumed:
            raise ValueError(
                f"{_flags(building)} shape a new model, but --model_name_or_path names a trained "
                "one"
            )
        changeable = FAMILIES[config.model_type].changeable_fields
        for name, value in args.given(args.config_fields).items():
            own = getattr(config, name)
            if name in changeable:
                setattr(config, name, value)
            elif (tuple(value) if isinstance(own, tuple) else value) != own:
                raise ValueError(f"--{name} is {value}, but the checkpoint was made with {own}")
        with reraise_as_value_error():
            config.validate()

    def load_model(self, head: type[PreTrainedModel], config: Any) -> tuple[PreTrainedModel, Any]:
        """Return the model of a checkpoint, to be trained with a changed config, and tokenizer."""
        source, options = config.name_or_path, self.hub_options()
        with reraise_naming(source):
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
            model = head.from_pretrained(
                source,
                config=config,
                ignore_mismatched_sizes=getattr(self.model_args, "ignore_mismatched_sizes", False),
                dtype=torch.float32,  # training in the half precision of a checkpoint loses updates
                **options,
            )
        return model, self.limited(tokenizer)

    def new_tokenizer(
        self, data: TaskData, build: Callable[..., TokenizersBackend], ready: str | None = None
    ) -> Any:
        """Load the tokenizer that was asked for, or build one from the texts of training rows.

        `ready` is loaded where no flag names one.
        """
        options = self.model_args.given(self.model_args.tokenizer_options)
        if (name := self.model_args.tokenizer_name or ready) is not None:
            if options:
                raise ValueError(
                    f"{_flags(options)} cannot change a ready tokenizer; leave out --tokenizer_name"
                )
            with reraise_naming(name):
                return self.limited(AutoTokenizer.from_pretrained(name, **self.hub_options()))
        if (train := data.splits.get("train")) is None:
            raise ValueError("a new model takes its words from training rows; give --train_file")
        columns = [train[name] for name in TEXT_COLUMNS if name in train.column_names]
        # Row by row, so that any part of the texts has both languages of a translation.
        texts = columns[0] if len(columns) == 1 else chain.from_iterable(zip(*columns, strict=True))
        return self.limited(build(texts, **options))

    def limited(self, tokenizer: Any) -> Any:
        """Let a tokenizer keep `max_seq_length`: pipelines that cut do so where training did."""
        if self.data_args.max_seq_length is not None:
            tokenizer.model_max_length = self.data_args.max_seq_length
        return tokenizer


def _flags(names: Iterable[str]) -> str:
    return ", ".join(f"--{name}" for name in names)
