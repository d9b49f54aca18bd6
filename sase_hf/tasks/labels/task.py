"""Labels, sets of labels or numbers, for texts and pairs of texts."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from ..data.arguments import DataArguments
from ..data.label_doubts import label_doubts
from ..data.rationales import RationaleCollator, count_marked
from ..data.splits import Rows, load_rows
from ..evaluation.metrics import load_metrics, metrics_function
from ..models import FAMILIES, RETRIEVAL
from ..models.answers import answers_of
from ..models.checked_config import flag
from ..training.arguments import EncoderArguments, RunArguments, with_config_flags
from ..training.predictions import predicted_labels
from ..training.report import calibrate, write_report
from ..training.task import EncoderTask, NewModel, TrainingSetup
from ..utils.text import Table

HEADS: Mapping[str, type[PreTrainedModel]] = {
    task: head
    for family in FAMILIES.values()
    if family.objective == "labels"
    for task, head in family.heads.items()
    if task != RETRIEVAL
}


@with_config_flags("labels")
@dataclass
class ModelArguments(EncoderArguments):
    """Flags for a new model, or for the model to start from."""

    ignore_mismatched_sizes: bool = flag(
        "Train a checkpoint on other labels than its own, with a new output layer if their number "
        "differs.",
        default=False,
    )
    task: str | None = flag(
        "The head of a new model; by default nli for two text columns and classification for one.",
        choices=list(HEADS),
    )
    class_weights: list[str] | None = flag(
        "Weights of the classes in the loss: balanced, which gives every class the same total "
        "weight, or a number for each class in id order (default: 1 each)"
    )


@dataclass
class LabelRunArguments(RunArguments):
    """`RunArguments` with the steps that can follow the training of labels."""

    report: bool = flag(
        "Write a report: metrics beside those of simple models, scores for each class, and a page "
        "of right and wrong predictions.",
        default=False,
    )
    calibrate: bool = flag(
        "After training, scale the logits so that the probabilities fit the validation rows "
        "(temperature scaling).",
        default=False,
    )

    def __post_init__(self) -> None:
        """Refuse --calibrate and --report without validation rows."""
        super().__post_init__()
        if self.calibrate and not (self.do_train and self.do_eval):
            raise ValueError("--calibrate fits a model after training; add --do_train --do_eval")
        if self.report and not self.do_eval:
            raise ValueError("--report is about the validation rows; add --do_eval")


class LabelTask(EncoderTask):
    """Classification of one or several labels, or regression."""

    arguments = (DataArguments, ModelArguments, LabelRunArguments)

    @classmethod
    def training_preset(cls, given: argparse.Namespace) -> str:
        """Choose by the models that the command names."""
        if given.model_name_or_path is not None:
            return "checkpoint"
        if given.encoder_name_or_path is not None:
            return "pretrained_encoder"
        return "new_model" if given.tokenizer_name is None else "ready_tokenizer"

    def load_rows(self, config: Any = None) -> Rows:
        """Load the rows, with the labels of the checkpoint if there is one that keeps them."""
        args = self.data_args
        if self.model_args.answer_error is not None and not self.run_args.calibrate:
            fault = f"--answer_error is {self.model_args.answer_error}, but no answer sets are made"
            raise ValueError(f"{fault}; add --calibrate, which fits them after training")
        problem_type, label_names = args.problem_type, args.label_names
        if config is not None:
            _saved_task(config)  # refuses one that cannot learn labels
        if config is not None and not self.model_args.ignore_mismatched_sizes:
            own_names = list(answers_of(config).names)
            if label_names not in (None, own_names):
                raise ValueError(
                    f"--label_names are {label_names}, but the checkpoint's labels are "
                    f"{own_names}; to train other labels, add --ignore_mismatched_sizes"
                )
            problem_type, label_names = problem_type or config.problem_type, own_names
        return load_rows(
            replace(args, problem_type=problem_type, label_names=label_names),
            checkpoint=None if config is None else config.name_or_path,
        )

    def choose_head(self, data: Rows, config: Any) -> type[PreTrainedModel]:
        """Return the head of the checkpoint, or the one asked for, or one that fits the rows."""
        columns, heads, asked = data.text_columns, HEADS, self.model_args.task
        name = asked or ("nli" if len(columns) == 2 else "classification")
        if config is not None:
            heads, name = FAMILIES[config.model_type].heads, _saved_task(config) or name
            if asked not in (None, name):
                raise ValueError(f"--task is {asked}, but the checkpoint is for {name}")
        if getattr(heads[name], "reads_pairs", False) and len(columns) != 2:
            raise ValueError(
                f"a model for {name} reads two texts, but --text_column_names is "
                f"{','.join(columns)}; name two columns, such as premise,hypothesis"
            )
        return heads[name]

    def build(self, head: type[PreTrainedModel], data: Rows) -> NewModel:
        """Return a new model that knows the labels."""
        fields = _label_fields(data)
        if getattr(head, "reads_pairs", False):
            # Dropout of word vectors can hide the only word that distinguishes two texts, and
            # lowers the accuracy on entailment.
            fields["embedding_dropout"] = 0.0
        if self.model_args.class_weights is not None:
            fields["class_weights"] = _class_weights(self.model_args.class_weights, data)
        return self.new_model(head, data, fields)

    def change_config(self, config: Any, data: Rows, is_resumed: bool) -> None:
        """Set also other labels and class weights if they were asked for."""
        if getattr(self.run_args, "do_train", False):
            config.answer_threshold = None  # that of other weights
        if self.model_args.ignore_mismatched_sizes:
            config.class_weights = None  # those of its own labels
            for name, value in _label_fields(data).items():
                setattr(config, name, value)
        if self.model_args.class_weights is not None:
            config.class_weights = _class_weights(self.model_args.class_weights, data)
        super().change_config(config, data, is_resumed)

    def describe(self, setup: TrainingSetup) -> Iterator[str]:
        """Yield the number of rows, their columns, and the labels."""
        yield from super().describe(setup)
        names = setup.rows.label_names
        kind = setup.rows.kind
        if setup.rows.labels.soft:
            kind += ", with probabilities"
        yield f"labels: {len(names)} ({', '.join(names[:10])}), {kind}"
        if (marked := count_marked(setup.tokens.get("train"))) is not None:
            yield f"rationale: {marked:,} of {setup.tokens['train'].num_rows:,} training rows"
        if self.run_args.do_train:
            yield from label_doubts(setup.rows.labels, self.data_args.drop_unlabelled)

    def trainer_options(self, setup: TrainingSetup) -> dict[str, Any]:
        """Return the metrics that were asked for or that fit."""
        kind = setup.rows.kind
        metrics = load_metrics(self.run_args.metric_name, kind)
        options: dict[str, Any] = {"compute_metrics": metrics_function(metrics, setup.rows.answers)}
        collator = options["data_collator"] = RationaleCollator(setup.tokenizer)
        if not setup.model.config.has_attention:
            collator.weight = 0
        elif marked := count_marked(setup.tokens.get("train")):
            collator.weight = setup.tokens["train"].num_rows / marked
        return options

    def after_training(self, trainer: Any, setup: TrainingSetup) -> dict[str, float]:
        """Calibrate the model if it was asked for."""
        return calibrate(trainer, setup) if self.run_args.calibrate else {}

    def evaluate(
        self, trainer: Any, setup: TrainingSetup, known: dict[str, float]
    ) -> tuple[dict[str, float], list[Table]]:
        """Evaluate, with a report if it was asked for."""
        if self.run_args.report:
            rare = self.way_to_learn_rare_labels(setup.model.config.class_weights)
            return write_report(trainer, setup, known, self.way_to_learn_more(), rare)
        return super().evaluate(trainer, setup, known)

    def way_to_learn_more(self) -> str:
        """Return what the flags of the run leave to be done for a better model."""
        args = self.model_args
        ways = ["train on more rows"]
        if self.data_args.max_train_samples is not None:
            ways = ["train on more rows, without --max_train_samples"]
        if self.run_args.max_steps > 0:
            ways.append(f"for more --max_steps than {self.run_args.max_steps}")
        if not (args.word_vectors or args.encoder_name_or_path or args.model_name_or_path):
            ways.append("with --word_vectors")
        return ", or ".join(ways)

    def way_to_learn_rare_labels(self, weights: Sequence[float] | None) -> str:
        """Return what helps labels that are never predicted; `weights` are those of the model."""
        if self.model_args.class_weights == ["balanced"]:
            return "add rows with these labels"
        if weights is not None:
            return "raise their --class_weights, or add rows with these labels"
        return "try --class_weights balanced"

    def best_metric(self, kind: str) -> str:
        """Return the metric by which every label counts alike if balanced weights ask for that."""
        is_balanced = self.model_args.class_weights == ["balanced"]
        return "macro_f1" if is_balanced else super().best_metric(kind)

    def columns(self, trainer: Any, setup: TrainingSetup, predictions: Any) -> list[dict[str, Any]]:
        """Return the predicted labels, their probabilities and the answer sets."""
        return predicted_labels(torch.from_numpy(predictions), answers_of(setup.model.config))


def _saved_task(config: Any) -> str | None:
    """Return the task of a checkpoint's head; None for a base model. Refuse one without labels."""
    family = FAMILIES[config.model_type]
    saved = {head.__name__: name for name, head in family.heads.items()}
    default = None if family.objective == "labels" else family.objective
    name = saved.get((config.architectures or [""])[0], default)
    if family.objective != "labels" or name == RETRIEVAL:
        raise ValueError(
            f"the checkpoint is a {config.model_type} model for {name}, which has no labels; train "
            f"it with scripts/train_{name}.py"
        )
    return name


def _class_weights(asked: list[str], data: Rows) -> list[float]:
    """Return the weights that were asked for; `balanced` ones have the mean 1 over the rows."""
    if not data.answers.has_one_label:
        raise ValueError(f"--class_weights is for one label per row, not for {data.kind}")
    if asked == ["balanced"]:
        if "train" not in data.splits:
            raise ValueError("--class_weights balanced counts training rows; give --train_file")
        counts = np.bincount(data.splits["train"]["label"][:], minlength=len(data.label_names))
        return [float(counts.sum() / len(counts) / count) if count else 1.0 for count in counts]
    try:
        weights = [float(weight) for weight in asked]
    except ValueError:
        raise ValueError(
            f"--class_weights is {' '.join(asked)}; give balanced, or a number for each of the "
            f"labels {', '.join(data.label_names)}"
        ) from None
    rows = data.splits.get("train")
    if rows is not None and len(weights) == len(data.label_names):
        learnt = [label for label in rows["label"][:] if weights[label]]
        if not learnt:
            raise ValueError(
                f"--class_weights is {' '.join(asked)}: every training row has a label of weight 0"
            )
    return weights


def _label_fields(data: Rows) -> dict[str, Any]:
    """Return the fields of the config that hold the labels, or the scale of the numbers."""
    fields: dict[str, Any] = {
        "problem_type": data.kind,
        "id2label": dict(enumerate(data.label_names)),
        "label2id": {name: index for index, name in enumerate(data.label_names)},
    }
    train = data.splits.get("train")
    if data.answers.has_labels:
        fields |= {"target_mean": None, "target_deviation": None}
    elif train is not None:
        targets = np.array(train["label"][:], dtype=np.float64)
        targets = targets.reshape(len(targets), -1)
        fields["target_mean"] = targets.mean(0).tolist()
        fields["target_deviation"] = [float(value) or 1.0 for value in targets.std(0)]
    return fields
