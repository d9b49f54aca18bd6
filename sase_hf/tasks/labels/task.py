"""Labels, sets of labels or numbers, for texts and pairs of texts."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedConfig, PreTrainedModel

from ...data.batching import RationaleCollator
from ...data.labels import label_doubts
from ...data.marks import count_marked
from ...data.rows import Rows, load_rows
from ...evaluation.linear_part import Fit, has_linear_part
from ...evaluation.metrics import load_metrics, metrics_function
from ...models import FAMILIES, RETRIEVAL
from ...models.answers import answers_of
from ...models.linear_self_attentive import NUM_PAIRS, NUM_PARTS_OF_PAIR
from ...training.task import ModelAndTokenizer, Predictions, TrainingSetup
from ...training.trainer import SelfAttentiveTrainer
from ...utils.errors import refusal
from ...utils.text import Table, one_line
from ..encoder import EncoderTask
from .calibration import calibrate, learn_held_out_rows, leave_to_fit, weigh_words
from .predictions import predicted_labels
from .report_page import write_report

logger = logging.getLogger(__name__)

MAX_ROUNDING = 0.01  # of numbers to learn, as a share of their deviation

MAX_LINEAR_WEIGHTS = 10_000_000  # in 40 megabytes; a default, which the flag can exceed

FAMILY = next(family for family in FAMILIES.values() if family.objective == "labels")


class LabelTask(EncoderTask):
    """Classification of one or several labels, or regression."""

    names = ("labels", "nli")
    fit: Fit | None = None  # of the linear part, after training
    learned_held_out = False  # whether the linear part has learned the held-out rows, too

    def load_rows(self, config: PreTrainedConfig | None = None) -> Rows:
        """Load the rows, with the labels of the checkpoint if there is one that keeps them."""
        self._check_unlabelled()
        data = self.settings
        if config is None:
            return load_rows(data, in_memory=self.in_memory)
        _saved_task(config)  # refuses one that cannot learn labels
        if not self.settings.ignore_mismatched_sizes:
            saved_names = list(answers_of(config).names)
            if data.label_names not in (None, saved_names):
                raise refusal(
                    f"--label_names are {data.label_names}, but the checkpoint's labels are "
                    f"{saved_names}",
                    "to train other labels, add --ignore_mismatched_sizes",
                )
            problem_type = data.problem_type or config.problem_type
            data = replace(data, problem_type=problem_type, label_names=saved_names)
        return load_rows(data, checkpoint=config.name_or_path, in_memory=self.in_memory)

    def _check_unlabelled(self) -> None:
        """Raise ValueError for unlabelled texts that no model takes words from."""
        for name in ("model_name_or_path", "encoder_name_or_path"):
            if self.settings.unlabelled_file and getattr(self.settings, name) is not None:
                raise refusal(
                    "--unlabelled_file is for the words of a new model, but that of "
                    f"--{name} {getattr(self.settings, name)} has its own",
                    "leave out one of the two",
                )

    def choose_head(self, rows: Rows, config: PreTrainedConfig | None) -> type[PreTrainedModel]:
        """Return the head of the checkpoint, or the one asked for, or one that fits the rows."""
        columns = rows.text_columns
        is_nli = self.settings.task == "nli" or len(columns) == 2
        heads = FAMILY.heads
        name = "nli" if is_nli else "classification"
        if config is not None:
            heads = FAMILIES[config.model_type].heads
            name = _saved_task(config) or name
        head = heads[name]
        if reads_pairs(head) and len(columns) != 2:
            raise refusal(
                f"a model for {name} reads two texts, but --text_column_names is "
                f"{','.join(columns)}",
                "name two columns, such as premise,hypothesis",
            )
        return head

    def build(self, head: type[PreTrainedModel], rows: Rows) -> ModelAndTokenizer:
        """Return a new model that knows the labels."""
        fields = _label_fields(rows)
        if reads_pairs(head):
            # Dropout of word vectors can hide the only word that distinguishes two texts, and
            # lowers the accuracy on entailment.
            fields["embedding_dropout"] = 0.0
        if self.settings.class_weights is not None:
            fields["class_weights"] = _class_weights(self.settings.class_weights, rows)
        return self.new_model(head, rows, fields)

    def fields_by_words(
        self, head: type[PreTrainedModel], rows: Rows, num_words: int
    ) -> dict[str, Any]:
        """Return which linear part a new model has if it is calibrated."""
        if not self.settings.calibrate:
            return {}
        num_parts = NUM_PARTS_OF_PAIR if reads_pairs(head) else 1
        num_weights = len(rows.label_names) * num_parts
        return {"linear_part": _linear_part(num_words, num_weights)}

    def change_config(self, config: PreTrainedConfig, rows: Rows, is_resumed: bool) -> None:
        """Set also other labels and class weights if they were asked for."""
        model = self.settings
        changes: dict[str, Any] = {}
        if self.args.do_train:
            changes["answer_threshold"] = None  # that of other weights
        if model.ignore_mismatched_sizes:
            changes["class_weights"] = None  # those of its own labels
            changes.update(_label_fields(rows))
        if model.class_weights is not None:
            changes["class_weights"] = _class_weights(model.class_weights, rows)
        for name, value in changes.items():
            setattr(config, name, value)
        super().change_config(config, rows, is_resumed)

    def prepare(self, setup: TrainingSetup) -> None:
        """Leave a linear part out of the training, to be fitted after it.

        ValueError: float32 rounds the numbers to learn, or marks have no attention to teach.
        """
        super().prepare(setup)
        _check_rounding(setup)
        if not self.args.do_train:
            return
        if has_linear_part(setup.model):
            leave_to_fit(setup.model)
        if not count_marked(setup.tokens["train"]):
            return
        if not _has_attention(setup):
            raise refusal(
                f"--pooling is {setup.model.config.pooling}, which has no attention to learn from "
                "marks",
                "choose --pooling self_attention, or take the column rationale out",
            )

    def describe(self, setup: TrainingSetup) -> Iterator[str]:
        """Yield the number of rows, their columns, and the labels."""
        yield from super().describe(setup)
        names = setup.rows.label_names
        if setup.rows.unlabelled is not None:
            yield f"unlabelled: {setup.rows.unlabelled.num_rows:,} texts"
        yield f"labels: {len(names)} ({', '.join(names[:10])}), {setup.rows.kind}"
        num_marked = count_marked(setup.tokens.get("train"))
        if num_marked is not None:
            num_rows = setup.tokens["train"].num_rows
            yield f"rationale: {num_marked:,} of {num_rows:,} training rows"
        if self.args.do_train and not self.settings.label_names:
            for doubt in label_doubts(names):
                logger.warning(one_line(doubt))

    def trainer_options(self, setup: TrainingSetup) -> dict[str, Any]:
        """Return the metrics that were asked for or that fit, and what reads the marks."""
        metrics = load_metrics(self.settings.metric_name, setup.rows.kind)
        collator = RationaleCollator(setup.tokenizer)
        num_marked = count_marked(setup.tokens.get("train"))
        if not _has_attention(setup):
            collator.weight = 0
        elif num_marked:
            collator.weight = setup.tokens["train"].num_rows / num_marked
        return {
            "compute_metrics": metrics_function(metrics, setup.rows.answers),
            "data_collator": collator,
        }

    def after_training(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup
    ) -> dict[str, float]:
        """Fit the linear part if there is one, and calibrate the model if it was asked for."""
        measured: dict[str, float] = {}
        has_words = has_linear_part(setup.model)
        if has_words:
            self.fit = weigh_words(setup)
            scales = self.fit.scales
            measured = {"scale_of_hops": scales.hops, "scale_of_words": scales.words}
        if self.settings.calibrate:
            measured |= calibrate(trainer, setup, is_scaled=has_words)
        return measured

    def evaluate(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup, known: Mapping[str, float]
    ) -> tuple[dict[str, float], list[Table]]:
        """Evaluate, with a report if it was asked for."""
        if not self.settings.report:
            return super().evaluate(trainer, setup, known)
        settings = self.settings
        ways = ["train on more rows"]
        if not (settings.vector_files or settings.encoder_name_or_path):
            ways.append("with --word_vectors")
        of_rare = "add rows with these labels"
        if settings.class_weights is None:
            of_rare = "try --class_weights balanced"
        return write_report(trainer, setup, ", or ".join(ways), of_rare)

    def after_evaluation(self, setup: TrainingSetup) -> bool:
        """Let the linear part learn the held-out rows, too."""
        self.learned_held_out = self.fit is not None and learn_held_out_rows(setup, self.fit)
        super().after_evaluation(setup)
        return self.learned_held_out

    def columns(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup, predictions: Predictions
    ) -> list[dict[str, Any]]:
        """Return the predicted labels, their probabilities and the answer sets."""
        return predicted_labels(torch.from_numpy(predictions), answers_of(setup.model.config))

    def details(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup, metrics: Mapping[str, float]
    ) -> dict[str, Any]:
        """Return also the temperature and the scales of both parts, None without them.

        And whether the linear part has learned the held-out rows, too.
        """
        details = super().details(trainer, setup, metrics)
        names = ("temperature", "scale_of_hops", "scale_of_words")
        details.update({name: metrics.get(name) for name in names})
        return {**details, "learned_held_out": self.learned_held_out}


def _linear_part(num_words: int, num_weights: int) -> str:
    """Return the linear part of a new model in which each word has `num_weights`.

    It keeps below `MAX_LINEAR_WEIGHTS`.
    """
    if (num_words + NUM_PAIRS) * num_weights <= MAX_LINEAR_WEIGHTS:
        return "words_and_pairs"
    return "words" if num_words * num_weights <= MAX_LINEAR_WEIGHTS else "none"


def _has_attention(setup: TrainingSetup) -> bool:
    return bool(setup.model.config.has_attention)


def reads_pairs(head: type[PreTrainedModel]) -> bool:
    """Return whether a head compares two texts."""
    return getattr(head, "reads_pairs", False)


def _saved_task(config: PreTrainedConfig) -> str | None:
    """Return the task of a checkpoint's head; None for a base model. Refuse one without labels."""
    family = FAMILIES[config.model_type]
    task_of_class = {head.__name__: task for task, head in family.heads.items()}
    saved_class = config.architectures[0] if config.architectures else ""
    task = task_of_class.get(saved_class)  # None for a base model
    if family.objective == "labels" and task != RETRIEVAL:
        return task
    raise refusal("the checkpoint has no labels", f"give --task {task or family.objective}")


def _class_weights(asked: list[str], rows: Rows) -> list[float]:
    """Return the weights that were asked for; `balanced` ones have the mean 1 over the rows."""
    if not rows.answers.has_one_label:
        raise ValueError(f"--class_weights is for one label per row, not for {rows.kind}")
    train = rows.splits.get("train")
    if asked == ["balanced"]:
        if train is None:
            raise refusal("--class_weights balanced counts training rows", "give --train_file")
        counts = np.bincount(train["label"][:], minlength=len(rows.label_names))
        mean_count = counts.sum() / np.count_nonzero(counts)  # some labels may have no rows
        return [float(mean_count / count) if count else 1.0 for count in counts]
    return [float(weight) for weight in asked]


def _label_fields(rows: Rows) -> dict[str, Any]:
    """Return the fields of the config that hold the labels, or the scale of the numbers."""
    fields: dict[str, Any] = {
        "problem_type": rows.kind,
        "id2label": dict(enumerate(rows.label_names)),
        "label2id": {name: index for index, name in enumerate(rows.label_names)},
    }
    if rows.answers.has_labels:
        return {**fields, "target_mean": None, "target_deviation": None}
    train = rows.splits.get("train")
    if train is not None:
        targets = _targets(train)
        fields["target_mean"] = targets.mean(0).tolist()
        fields["target_deviation"] = _deviations(targets).tolist()
    return fields


def _targets(rows: Dataset) -> np.ndarray:
    """Return the numbers of the rows of a regression, (N, C) in float64."""
    targets = np.array(rows["label"][:], dtype=np.float64)
    return targets.reshape(len(targets), -1)


def _deviations(targets: np.ndarray) -> np.ndarray:
    """Return the deviation of each output, (C,), from targets (N, C); 1 where all are equal."""
    are_equal = targets.min(0) == targets.max(0)  # of many equal ones, `std` is not exactly 0
    return np.where(are_equal, 1.0, targets.std(0))


def _check_rounding(setup: TrainingSetup) -> None:
    """Raise ValueError if float32 cannot tell the numbers to learn apart.

    Labels and answers of a model are float32. Of dates in seconds it has one number in 128: those
    of a minute become one, and a model that answers it seems right.
    """
    rows = setup.rows
    if rows.answers.has_labels or "train" not in rows.splits:
        return
    targets = _targets(rows.splits["train"])
    distances = np.spacing(np.abs(targets).max(0).astype(np.float32))
    are_lost = (np.ptp(targets, 0) > 0) & (distances > MAX_ROUNDING * targets.std(0))
    if are_lost.any():
        column = are_lost.argmax()
        raise refusal(
            f"numbers of the size of those of {rows.label_names[column]!r} in the train rows are "
            f"{distances[column]:.3g} apart in float32, as a model computes",
            f"subtract an offset from all of them, such as {targets[:, column].min():.0f}",
        )
