"""What a run needs before it trains: checked arguments, rows, tokenizer and model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import DatasetDict
from transformers import AutoTokenizer, PreTrainedModel, TokenizersBackend
from transformers.integrations.integration_utils import get_available_reporting_integrations
from transformers.trainer_utils import HubStrategy, IntervalStrategy

from ..data.arguments import DataArguments, SourceArguments
from ..data.labels import REGRESSION, SINGLE_LABEL
from ..data.splits import TaskData, load_task
from ..data.tokenizer import build_tokenizer
from ..data.tokens import encode_task
from ..data.word_vectors import load_word_vectors, read_words
from ..evaluation.metrics import DEFAULT_METRICS
from ..models import FAMILIES, RETRIEVAL
from ..utils.files import check_output
from ..utils.loading import (
    build_on_encoder,
    load_config,
    reraise_as_value_error,
    reraise_naming,
)
from ..utils.process import trains_lstm_in_bfloat16
from .arguments import (
    LABEL_FAMILIES,
    LOWER_IS_BETTER,
    ModelArguments,
    ModelSource,
    RunArguments,
)

BUILDING_FLAGS = (
    "tokenizer_name",
    "word_vectors",
    "word_vectors_member",
    "extend_vocabulary",
    "encoder_name_or_path",
)


@dataclass(frozen=True)
class TrainingSetup:
    """What a run trains with."""

    task: TaskData  # rows as text, and labels
    rows: DatasetDict  # rows as tokens
    tokenizer: TokenizersBackend
    model: Any  # a PreTrainedModel
    vectors_found: list[float]  # share of the vocabulary with a vector in each file


def check_arguments(model_args: ModelSource, training_args: RunArguments) -> None:
    """Raise ValueError or OSError, before anything is loaded, if arguments must fail later."""
    if not (training_args.do_train or training_args.do_eval or training_args.do_predict):
        raise ValueError("nothing to do; give --train_file, --validation_file or --test_file")
    if not training_args.do_train and model_args.model_name_or_path is None:
        raise ValueError("without --do_train, --model_name_or_path must name a checkpoint")
    has_lstm = getattr(model_args, "encoder", "none") in (None, "bilstm")
    has_lstm &= getattr(model_args, "encoder_name_or_path", None) is None
    in_bfloat16 = training_args.bf16 and training_args.device.type == "cpu"
    if in_bfloat16 and has_lstm and not trains_lstm_in_bfloat16():
        raise ValueError(
            "--bf16 is true, but this processor trains no LSTM in bfloat16; leave --bf16 out, or "
            "set it to false, to train in float32"
        )
    for name in ("gradient_accumulation_steps", "per_device_train_batch_size"):
        if (value := getattr(training_args, name)) < 1:
            raise ValueError(f"--{name} is {value}; it must be 1 or more")
    installed = get_available_reporting_integrations()
    asked: Any = training_args.report_to  # always a list by now
    for name in asked:
        if name not in installed:
            raise ValueError(
                f"--report_to is {name}, which is unknown or not installed; installed are "
                f"{', '.join(installed) or 'none'}"
            )
    record = training_args.record
    if record and Path(record).absolute() == Path(str(training_args.output_dir)).absolute():
        raise ValueError(f"--record {record} is the --output_dir; name a file in it")
    check_output(record)
    if training_args.calibrate and not (training_args.do_train and training_args.do_eval):
        raise ValueError("--calibrate fits a model after training; add --do_train --do_eval")
    if training_args.report and not training_args.do_eval:
        raise ValueError("--report is about the validation rows; add --do_eval")
    if training_args.early_stopping_patience is not None and (
        not training_args.load_best_model_at_end
        or training_args.eval_strategy == IntervalStrategy.NO
    ):
        raise ValueError(
            "--early_stopping_patience needs evaluations and the best model; add --eval_strategy "
            "epoch --load_best_model_at_end"
        )
    strategy = HubStrategy(training_args.hub_strategy)
    if training_args.push_to_hub and strategy not in (HubStrategy.END, HubStrategy.EVERY_SAVE):
        raise ValueError(
            f"--hub_strategy is {strategy.value}, but the model is pushed only after training; "
            "leave the flag out"
        )


def check_splits(task: TaskData, training_args: RunArguments) -> None:
    """Raise if the rows that a step needs are missing."""
    for split, step, way_out in (
        ("train", "do_train", "--train_file"),
        ("validation", "do_eval", "--validation_file or --validation_fraction 0.1"),
        ("test", "do_predict", "--test_file"),
    ):
        if getattr(training_args, step) and split not in task.splits:
            raise ValueError(f"--{step} needs a {split} split; give {way_out}")


def complete_arguments(training_args: RunArguments, setup: TrainingSetup) -> dict[str, Any]:
    """Set the arguments that were left to the rows; return those by name."""
    chosen: dict[str, Any] = {}
    if training_args.num_train_epochs == 0:
        chosen["num_train_epochs"] = default_epochs(training_args, setup)
    if training_args.metric_for_best_model == "auto":
        names = training_args.metric_name or DEFAULT_METRICS[setup.task.problem_type]
        chosen["metric_for_best_model"] = names[0]
        chosen["greater_is_better"] = names[0] not in LOWER_IS_BETTER
    for name, value in chosen.items():
        setattr(training_args, name, value)
    return chosen


def default_epochs(training_args: RunArguments, setup: TrainingSetup) -> int:
    """Return the passes over the training rows that make about 1,500 updates: 2 to 30.

    Early stopping ends earlier where rows are few; where they are many, a third pass learns them by
    heart.
    """
    rows = setup.rows["train"].num_rows if "train" in setup.rows else 1
    per_update = training_args.per_device_train_batch_size * training_args.world_size
    per_update *= training_args.gradient_accumulation_steps
    return min(max(round(1500 * per_update / rows), 2), 30)


def check_best_metric(training_args: RunArguments, setup: TrainingSetup) -> None:
    """Raise before training what `Trainer` would raise after the first evaluation."""
    name = training_args.metric_for_best_model
    logged = FAMILIES[setup.model.config.model_type].logged_outputs
    measured = ("loss", *logged, *DEFAULT_METRICS[setup.task.problem_type])
    is_known = name is None or name.removeprefix("eval_") in measured
    if training_args.metric_name is None and not is_known:
        raise ValueError(
            f"--metric_for_best_model is {name}; choose {', '.join(measured)}, or measure another "
            "metric with --metric_name"
        )


def assemble(
    model_args: ModelArguments, data_args: DataArguments, checkpoint: Path | None = None
) -> TrainingSetup:
    """Load the rows and build the model for them, or load that of a checkpoint.

    `checkpoint` is one to resume; it comes before the one that `model_args` names.

    Raises:
        ValueError: If an argument contradicts another one, the checkpoint or the data.
        OSError: If a file or the checkpoint is not there or cannot be read.
    """
    source = str(checkpoint) if checkpoint else model_args.model_name_or_path
    options = hub_options(model_args, data_args)
    config: Any = None if source is None else load_config(source, **options)
    task = load_rows(model_args, data_args, config)
    head = _choose_head(model_args, task.text_columns, config)
    found: list[float] = []
    tokenizer: Any
    if source is None:
        model, tokenizer, found = new_model(head, model_args, data_args, task)
    else:
        if model_args.ignore_mismatched_sizes:
            config.class_weights = None  # those of its own labels
            for name, value in _label_fields(task).items():
                setattr(config, name, value)
        if model_args.class_weights is not None:
            config.class_weights = _class_weights(model_args, task)
        apply_changes(config, model_args, is_resumed=checkpoint is not None)
        mismatched = model_args.ignore_mismatched_sizes
        model, tokenizer = load_trained(
            head,
            source,
            config,
            data_args.max_seq_length,
            ignore_mismatched_sizes=mismatched,
            **options,
        )
    rows = encode_task(task, tokenizer)
    return TrainingSetup(task, rows, tokenizer, model, found)


def hub_options(model_args: ModelSource, data_args: SourceArguments) -> dict[str, Any]:
    """Return the options of `from_pretrained` for everything that a run loads."""
    return {
        "revision": model_args.model_revision,
        "cache_dir": data_args.cache_dir,
        "token": data_args.token,
        "trust_remote_code": False,  # the classes are here; code in a repository is not run
    }


def load_trained(
    head: type[PreTrainedModel],
    source: str,
    config: Any,
    max_seq_length: int | None,
    *,
    ignore_mismatched_sizes: bool = False,
    **options: Any,
) -> tuple[PreTrainedModel, Any]:
    """Return the model of a checkpoint, to be trained with a changed config, and its tokenizer.

    The tokenizer keeps `max_seq_length`, as a new one does.
    """
    with reraise_naming(source):
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model = head.from_pretrained(
            source,
            config=config,
            ignore_mismatched_sizes=ignore_mismatched_sizes,
            dtype=torch.float32,  # training in the half precision of a checkpoint loses updates
            **options,
        )
    if max_seq_length is not None:
        tokenizer.model_max_length = max_seq_length
    return model, tokenizer


def load_rows(model_args: ModelArguments, data_args: DataArguments, config: Any = None) -> TaskData:
    """Load the rows, with the labels of the checkpoint if there is one that keeps them."""
    problem_type, label_names = data_args.problem_type, data_args.label_names
    if config is not None and not model_args.ignore_mismatched_sizes:
        own_names = [name for _, name in sorted((config.id2label or {}).items())]
        if label_names not in (None, own_names):
            raise ValueError(
                f"--label_names are {label_names}, but the checkpoint's labels are {own_names}; "
                "to train other labels, add --ignore_mismatched_sizes"
            )
        problem_type, label_names = problem_type or config.problem_type, own_names
    return load_task(replace(data_args, problem_type=problem_type, label_names=label_names))


def _choose_head(
    model_args: ModelArguments, columns: Sequence[str], config: Any
) -> type[PreTrainedModel]:
    """Return the head of the checkpoint, or the one asked for, or the one that fits the rows."""
    task = model_args.task or ("nli" if len(columns) == 2 else "classification")
    heads = next(family.heads for family in LABEL_FAMILIES if task in family.heads)
    if config is not None:
        if FAMILIES[config.model_type].objective != "labels":
            raise ValueError(
                f"the checkpoint holds a {config.model_type} model, which has no labels; train it "
                "with scripts/train_translation.py"
            )
        heads = FAMILIES[config.model_type].heads
        saved = {head.__name__: name for name, head in heads.items()}
        own_task = saved.get((config.architectures or [""])[0], task)
        if model_args.task not in (None, own_task):
            raise ValueError(f"--task is {model_args.task}, but the checkpoint is for {own_task}")
        if own_task == RETRIEVAL:
            raise ValueError(
                "the checkpoint is for retrieval, which has no labels; train it with "
                "scripts/train_retrieval.py"
            )
        task = own_task
    if getattr(heads[task], "reads_pairs", False) and len(columns) != 2:
        raise ValueError(
            f"a model for {task} reads two texts, but --text_column_names is {','.join(columns)}; "
            "name two columns, such as premise,hypothesis"
        )
    return heads[task]


def new_tokenizer(
    model_args: ModelSource,
    data_args: SourceArguments,
    task: TaskData,
    build: Callable[..., TokenizersBackend],
) -> Any:
    """Load the tokenizer that was asked for, or build one from the texts of the training rows.

    It keeps `max_seq_length`, so that a pipeline that truncates cuts where training did.
    """
    options = model_args.given_tokenizer_options()
    tokenizer: Any
    if (name := model_args.tokenizer_name) is not None:
        if options:
            raise ValueError(
                f"{_flags(options)} cannot change a ready tokenizer; leave out --tokenizer_name"
            )
        with reraise_naming(name):
            hub = hub_options(model_args, data_args)
            tokenizer = AutoTokenizer.from_pretrained(name, **hub)
    elif "train" not in task.splits:
        raise ValueError("a new model takes its words from training rows; give --train_file")
    else:
        train = task.splits["train"]
        columns = [column for column in ("text", "text_pair") if column in train.column_names]
        texts = train[columns[0]] if len(columns) == 1 else _by_turns(train[c] for c in columns)
        tokenizer = build(texts, **options)
    if data_args.max_seq_length is not None:
        tokenizer.model_max_length = data_args.max_seq_length
    return tokenizer


def _by_turns(columns: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the texts of all columns row by row, so that any part of them has both languages."""
    return chain.from_iterable(zip(*columns, strict=True))


def _extra_words(model_args: ModelArguments, hub_options: dict[str, Any]) -> dict[str, Any]:
    """Return the words of the vector files, if a tokenizer that is built shall know them."""
    if model_args.extend_vocabulary and not model_args.word_vectors:
        raise ValueError("--extend_vocabulary needs the words of --word_vectors")
    if not model_args.word_vectors or model_args.extend_vocabulary is False:
        return {}
    hub = {name: hub_options[name] for name in ("cache_dir", "token")}
    member = model_args.word_vectors_member
    words = (read_words(path, member=member, **hub) for path in model_args.word_vectors)
    return {"extra_words": chain.from_iterable(words)}


def new_model(
    head: type[PreTrainedModel],
    model_args: ModelArguments,
    data_args: SourceArguments,
    task: TaskData,
) -> tuple[PreTrainedModel, TokenizersBackend, list[float]]:
    """Return a new model, its tokenizer, and the share of words found in each vector file."""
    options = hub_options(model_args, data_args)
    if model_args.encoder_name_or_path is not None and model_args.tokenizer_name is None:
        model_args = replace(model_args, tokenizer_name=model_args.encoder_name_or_path)
    build = partial(build_tokenizer, **_extra_words(model_args, options))
    tokenizer = new_tokenizer(model_args, data_args, task, build)
    model, found = _build_model(head, model_args, task, tokenizer, options)
    return model, tokenizer, found


def _build_model(
    head: type[PreTrainedModel],
    model_args: ModelArguments,
    task: TaskData,
    tokenizer: TokenizersBackend,
    hub_options: dict[str, Any],
) -> tuple[PreTrainedModel, list[float]]:
    """Return a new model and the share of its vocabulary found in each file of word vectors."""
    sizes = model_args.given_config_fields()
    if getattr(head, "reads_pairs", False) and task.label_columns:
        # A word left out of one text may be all that it does not share with the other: more of it
        # costs accuracy of entailment.
        sizes.setdefault("embedding_dropout", 0.0)
    files, member = model_args.word_vectors or [], model_args.word_vectors_member
    if files and model_args.encoder_name_or_path is not None:
        raise ValueError("--encoder_name_or_path brings word vectors; leave out --word_vectors")
    hub = {name: hub_options[name] for name in ("cache_dir", "token")}
    loaded = [load_word_vectors(path, tokenizer, member=member, **hub) for path in files]
    if loaded:
        vectors = torch.cat([matrix for matrix, _ in loaded], dim=1)
        width = vectors.shape[1]
        if sizes.setdefault("embedding_size", width) != width:
            raise ValueError(
                f"--embedding_size is {sizes['embedding_size']}, but the vectors of "
                f"{', '.join(files)} are {width} wide"
            )
    shape = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, **sizes}
    config_class: Any = head.config_class
    with reraise_as_value_error():
        if model_args.class_weights is not None:
            shape["class_weights"] = _class_weights(model_args, task)
        if (name := model_args.encoder_name_or_path) is not None:
            return _model_on_encoder(head, name, {**shape, **_label_fields(task)}, hub_options), []
        model = head(config_class(**shape, **_label_fields(task)))
    if loaded:
        with torch.no_grad():
            embeddings: Any = model.get_input_embeddings()
            embeddings.weight.copy_(vectors)
    return model, [share for _, share in loaded]


def _model_on_encoder(
    head: type[PreTrainedModel], name: str, fields: dict[str, Any], hub_options: dict[str, Any]
) -> Any:
    """Return a new model on a pretrained encoder; refuse words that it has no vectors for."""
    if fields.pop("encoder", "auto_model") != "auto_model":
        raise ValueError("--encoder names one to build, but --encoder_name_or_path one to load")
    words = fields.pop("vocab_size")
    model = build_on_encoder(head, name, hub_options, **fields)
    if words > model.config.vocab_size:
        raise ValueError(
            f"the tokenizer has {words} words, but {name} knows {model.config.vocab_size}; leave "
            "out --tokenizer_name"
        )
    return model


def apply_changes(config: Any, model_args: ModelSource, is_resumed: bool) -> None:
    """Change a checkpoint's config as the arguments ask; refuse what its weights do not allow.

    A run is resumed with the flags that started it, also those for tokenizer and word vectors.
    """
    building = [*model_args.given_tokenizer_options()]
    building += [name for name in BUILDING_FLAGS if getattr(model_args, name, None) is not None]
    if building and not is_resumed:
        raise ValueError(
            f"{_flags(building)} shape a new model, but --model_name_or_path names a trained one"
        )
    changeable = FAMILIES[config.model_type].changeable_fields
    for name, value in model_args.given_config_fields().items():
        own = getattr(config, name)
        if name in changeable:
            setattr(config, name, value)
        elif (tuple(value) if isinstance(own, tuple) else value) != own:
            raise ValueError(f"--{name} is {value}, but the checkpoint was made with {own}")
    with reraise_as_value_error():
        config.validate()


def _class_weights(model_args: ModelArguments, task: TaskData) -> list[float]:
    """Return the weights that were asked for; `balanced` ones have the mean 1 over the rows."""
    asked = model_args.class_weights or []
    if task.problem_type != SINGLE_LABEL:
        raise ValueError(f"--class_weights is for one label per row, not for {task.problem_type}")
    if asked == ["balanced"]:
        if "train" not in task.splits:
            raise ValueError("--class_weights balanced counts training rows; give --train_file")
        counts = np.bincount(task.splits["train"]["label"][:], minlength=len(task.label_names))
        return [float(counts.sum() / len(counts) / count) if count else 1.0 for count in counts]
    try:
        return [float(weight) for weight in asked]
    except ValueError:
        raise ValueError(
            f"--class_weights is {' '.join(asked)}; give balanced, or a number for each of the "
            f"labels {', '.join(task.label_names)}"
        ) from None


def _label_fields(task: TaskData) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "problem_type": task.problem_type,
        "id2label": dict(enumerate(task.label_names)),
        "label2id": {name: index for index, name in enumerate(task.label_names)},
    }
    train = task.splits.get("train")
    if task.problem_type != REGRESSION:
        fields |= {"target_mean": None, "target_deviation": None}
    elif train is not None and task.label_columns:
        targets = np.array(train["label"][:], dtype=np.float64)
        targets = targets.reshape(len(targets), -1)
        fields["target_mean"] = targets.mean(0).tolist()
        fields["target_deviation"] = [float(value) or 1.0 for value in targets.std(0)]
    return fields


def _flags(names: Any) -> str:
    return ", ".join(f"--{name}" for name in names)
