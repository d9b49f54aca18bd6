"""The base of all tasks: rows, tokenizer, model and trainer."""

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from datasets import DatasetDict
from transformers import AutoTokenizer, EarlyStoppingCallback, PreTrainedModel, TokenizersBackend

from ..data.arguments import SPLITS
from ..data.sources import TEXT_COLUMNS
from ..data.splits import Rows, encode_rows
from ..data.tokenizer import build_tokenizer
from ..data.word_vectors import load_word_vectors, read_words
from ..evaluation.metrics import DEFAULT_METRICS
from ..models import FAMILIES
from ..utils.loading import (
    build_on_encoder,
    check_tokenizer,
    load_config,
    reraise_as_value_error,
    reraise_naming,
)
from ..utils.text import Table
from .progress import write_lines
from .trainer import SelfAttentiveTrainer

READY_TOKENIZER = "cannot change a ready tokenizer; leave out --tokenizer_name"

# Model, tokenizer, and the share of the vocabulary with a vector, by file.
NewModel = tuple[PreTrainedModel, TokenizersBackend, dict[str, float]]


@dataclass(frozen=True)
class TrainingSetup:
    """The rows, the model and the tokenizer of a run."""

    rows: Rows  # as text, with labels
    tokens: DatasetDict  # the rows of each split as tokens
    tokenizer: TokenizersBackend
    model: Any  # a PreTrainedModel
    vectors_found: Mapping[str, float]


class Task(ABC):
    """The task that a model learns in a run with these arguments."""

    arguments: ClassVar[tuple[type[Any], type[Any], type[Any]]]  # flags for rows, model, training
    trainer: ClassVar[type[SelfAttentiveTrainer]] = SelfAttentiveTrainer
    folder_suffix: ClassVar[str] = ""  # after the name of the rows, for `--output_dir`
    recipes: Sequence[Path] = ()  # the files of the recipe that the command names
    origins: Mapping[str, Path] = MappingProxyType({})  # of these files, that of each entry

    def __init__(self, model_args: Any, data_args: Any, run_args: Any = None) -> None:
        self.model_args, self.data_args, self.run_args = model_args, data_args, run_args

    @classmethod
    def presets(cls, given: argparse.Namespace) -> list[str]:
        """Return the presets of a command that names no step, by its files and models."""
        if (given.train_file or given.dataset_name) is None:
            return [] if given.validation_file is None else ["evaluate"]
        is_split_off = given.validation_file is None and given.dataset_name is None
        no_rows = ["all_rows"] if is_split_off and given.validation_fraction == 0 else []
        return [cls.training_preset(given), *no_rows]

    @classmethod
    def training_preset(cls, given: argparse.Namespace) -> str:
        """Return the preset of a command that trains."""
        return "pairs"

    @abstractmethod
    def load_rows(self, config: Any = None) -> Rows:
        """Load the rows; `config` is that of a checkpoint."""

    @abstractmethod
    def choose_head(self, data: Rows, config: Any) -> type[PreTrainedModel]:
        """Return the class of the model; raise ValueError for a checkpoint of another task."""

    @abstractmethod
    def build(self, head: type[PreTrainedModel], data: Rows) -> NewModel:
        """Return a new model and its tokenizer."""

    def encode(self, data: Rows, tokenizer: TokenizersBackend) -> DatasetDict:
        """Return the rows as tokens."""
        return encode_rows(data, tokenizer)

    def describe(self, setup: TrainingSetup) -> Iterator[str]:
        """Yield the first lines of the log: the number of rows, and their columns."""
        rows = ", ".join(f"{split.num_rows:,} {name}" for name, split in setup.tokens.items())
        task = setup.rows
        texts = (", " if task.label_names else " -> ").join(task.text_columns)
        columns = filter(None, (texts, ", ".join(task.label_columns)))
        yield f"rows: {rows} ({' -> '.join(columns)})"

    def best_metric(self, kind: str) -> str:
        """Return the metric that chooses the best model if no flag names one."""
        return DEFAULT_METRICS[kind][0]

    def trainer_options(self, setup: TrainingSetup) -> dict[str, Any]:
        """Return the options that the trainer of this task takes beside those of all."""
        return {}

    def after_training(self, trainer: Any, setup: TrainingSetup) -> dict[str, float]:
        """Change the trained model before it is saved; return the measurements."""
        return {}

    def evaluate(
        self, trainer: Any, setup: TrainingSetup, known: dict[str, float]
    ) -> tuple[dict[str, float], list[Table]]:
        """Return the metrics of the validation rows, and tables to show; `known` are so far."""
        return trainer.evaluate(), []

    def columns(self, trainer: Any, setup: TrainingSetup, predictions: Any) -> list[dict[str, Any]]:
        """Return the columns that the file of predictions adds to each test row."""
        return []

    def details(self, trainer: Any, setup: TrainingSetup) -> dict[str, Any]:
        """Return the entries of this task in the record."""
        return {}

    def assemble(self, checkpoint: Path | None = None) -> TrainingSetup:
        """Load the rows and build the model for them, or load that of a checkpoint.

        A `checkpoint` to resume comes before `model_name_or_path`. ValueError is raised for
        arguments that contradict one another, OSError for what cannot be read.
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
        if self.data_args.max_seq_length is not None:
            tokenizer.model_max_length = self.data_args.max_seq_length  # in pipelines too
        tokens = self.encode(data, tokenizer)
        return TrainingSetup(data, tokens, tokenizer, model, found)

    def inputs(self) -> dict[str, list[str]]:
        """Return the files, folders and names on the Hub that the run reads, by flag."""
        named: dict[str, Any] = {}
        for name in ("dataset_name", *(f"{split}_file" for split in SPLITS)):
            named[name] = getattr(self.data_args, name, None)
        for name in ("model_name_or_path", "tokenizer_name", "encoder_name_or_path"):
            named[name] = getattr(self.model_args, name, None)
        named = {name: [value] for name, value in named.items() if value is not None}
        if getattr(self.model_args, "word_vectors", None):
            named["word_vectors"] = self.model_args.word_vectors
        return named

    def way_out(self, name: str) -> str:
        """Return how to replace the value of a flag, which may be an entry of a recipe."""
        if name not in self.origins:
            return f"give --{name} another value"
        return (
            f"it is an entry of the recipe {self.origins[name]}: give --{name} another value, or "
            f"--{name}= to leave it out"
        )

    def make_trainer(self, setup: TrainingSetup) -> Any:
        """Return the trainer of a model."""
        patience = self.run_args.early_stopping_patience
        trainer = self.trainer(
            setup.model,
            self.run_args,
            max_batch_tokens=self.run_args.max_batch_tokens,
            train_dataset=setup.tokens.get("train"),
            eval_dataset=setup.tokens.get("validation"),
            processing_class=setup.tokenizer,
            callbacks=[] if patience is None else [EarlyStoppingCallback(patience)],
            **self.trainer_options(setup),
        )
        write_lines(trainer)
        return trainer

    def hub_options(self) -> dict[str, Any]:
        """Return the options of `from_pretrained` for everything that a run loads."""
        return {
            "revision": self.model_args.model_revision,
            "cache_dir": self.data_args.cache_dir,
            "token": self.data_args.token,
            "trust_remote_code": False,  # the classes are here; code in a repository is not run
        }

    def change_config(self, config: Any, data: Rows, is_resumed: bool) -> None:
        """Change a checkpoint's config as the flags ask; refuse changes that its weights forbid.

        A run is resumed with the flags that started it, also those for tokenizer and word vectors.
        """
        args = self.model_args
        building = args.given((*args.tokenizer_options, *args.building_flags))
        if building and not is_resumed:
            trained = "but --model_name_or_path names a trained one"
            raise ValueError(f"{_flags(building)} shape a new model, {trained}")
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
        with reraise_naming(source, "the tokenizer of "):
            check_tokenizer(tokenizer, model.config.vocab_size)
        return model, tokenizer

    def new_tokenizer(
        self, data: Rows, build: Callable[..., TokenizersBackend], ready: str | None = None
    ) -> Any:
        """Load the tokenizer that a flag names, or `ready`, or build one from the training rows."""
        options = self.model_args.given(self.model_args.tokenizer_options)
        for option in ("vocab_size", "min_frequency"):
            if options.get(option, 1) < 1:
                raise ValueError(f"--{option} is {options[option]}; it must be 1 or more")
        if (name := self.model_args.tokenizer_name or ready) is not None:
            if options:
                raise ValueError(f"{_flags(options)} {READY_TOKENIZER}")
            with reraise_naming(name):
                return AutoTokenizer.from_pretrained(name, **self.hub_options())
        if (train := data.splits.get("train")) is None:
            raise ValueError("a new model takes its words from training rows; give --train_file")
        columns = [train[name] for name in TEXT_COLUMNS if name in train.column_names]
        # The texts come row by row, so that any part has both languages of a translation.
        texts = columns[0] if len(columns) == 1 else chain.from_iterable(zip(*columns, strict=True))
        return build(texts, **options)


class EncoderTask(Task):
    """A task with `EncoderArguments` as its model arguments."""

    def new_model(
        self, head: type[PreTrainedModel], data: Rows, fields: Mapping[str, Any]
    ) -> NewModel:
        """Return a new model and its tokenizer; a flag overrides an entry of `fields`."""
        args = self.model_args
        encoder, files = args.encoder_name_or_path, args.word_vectors or []
        if files and encoder is not None:
            raise ValueError("--encoder_name_or_path brings word vectors; leave out --word_vectors")
        for name in ("extend_vocabulary", "word_vectors_member"):
            if getattr(args, name) and not files:
                raise ValueError(f"--{name} needs --word_vectors")
        if args.extend_vocabulary and args.tokenizer_name is not None:
            raise ValueError(f"--extend_vocabulary {READY_TOKENIZER}")
        options = {"cache_dir": self.data_args.cache_dir, "token": self.data_args.token}
        options["member"] = args.word_vectors_member
        build: Callable[..., TokenizersBackend] = build_tokenizer
        if files and args.extend_vocabulary is not False:
            words = chain.from_iterable(read_words(path, **options) for path in files)
            build = partial(build_tokenizer, extra_words=words)
        tokenizer = self.new_tokenizer(data, build, ready=encoder)
        fields = {**fields, **args.given(args.config_fields)}
        fields["pad_token_id"] = tokenizer.pad_token_id
        if encoder is not None:
            if fields.pop("encoder", "auto_model") != "auto_model":
                fault = "--encoder builds a new encoder, but --encoder_name_or_path loads one"
                raise ValueError(f"{fault}; give only one of the two")
            model = build_on_encoder(head, encoder, self.hub_options(), **fields)
            with reraise_naming(encoder, "the tokenizer for "):
                check_tokenizer(tokenizer, model.config.vocab_size)
            return model, tokenizer, {}
        fields["vocab_size"] = len(tokenizer)
        loaded = [load_word_vectors(path, tokenizer, **options) for path in files]
        if loaded:
            vectors = torch.cat([matrix for matrix, _ in loaded], dim=1)
            width = vectors.shape[1]
            if fields.setdefault("embedding_size", width) != width:
                raise ValueError(
                    f"--embedding_size is {fields['embedding_size']}, but the vectors of "
                    f"{', '.join(files)} are {width} wide"
                )
        config_class: Any = head.config_class
        with reraise_as_value_error():
            model = head(config_class(**fields))
        if loaded:
            embeddings: Any = model.get_input_embeddings()
            embeddings.weight.data.copy_(vectors)
        found = {path: share for path, (_, share) in zip(files, loaded, strict=True)}
        return model, tokenizer, found


def _flags(names: Iterable[str]) -> str:
    return ", ".join(f"--{name}" for name in names)
