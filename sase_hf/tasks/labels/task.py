"""Labels, sets of labels or numbers, for texts and pairs of texts; calibration after training."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from datasets import Dataset, concatenate_datasets
from transformers import PreTrainedConfig, PreTrainedModel

from ...data.batching import RationaleCollator
from ...data.columns import AGAINST_COLUMNS
from ...data.labels import class_name, label_doubts
from ...data.rows import Rows, load_rows
from ...data.table import present, texts_of
from ...evaluation.linear_part import Fit, clear, fit_linear_part, learn_anew
from ...evaluation.metrics import (
    expected_calibration_error,
    fit_threshold,
    load_metrics,
    metrics_function,
)
from ...evaluation.predictions import predicted_labels, read_texts
from ...models import FAMILIES
from ...models.answers import answers_of
from ...models.layers_self_attentive import NUM_PARTS_OF_PAIR, num_pairs
from ...training.task import Predictions, TrainingSetup
from ...training.trainer import SelfAttentiveTrainer
from ...utils.text import Table, one_line, refusal
from ..encoder import EncoderTask
from .neighbours import keep_neighbours
from .report import write_report

logger = logging.getLogger(__name__)

MAX_ROUNDING = 0.01  # of numbers to learn, as a share of their deviation

# Half as wide as that of the config is as accurate beside a linear part, and twice as fast.
LSTM_HIDDEN_SIZE = 64

MAX_LINEAR_WEIGHTS = 10_000_000  # in 40 megabytes; a default, which the flag can exceed

FAMILY = FAMILIES["self_attentive"]


class LabelTask(EncoderTask):
    """Classification of one or several labels, or regression."""

    names = ("labels", "nli")
    fit: Fit | None = None  # of the linear part, after training
    learned_held_out = False  # whether the linear part has learned the held-out rows, too

    def load_rows(self, config: PreTrainedConfig | None = None) -> Rows:
        """Load the rows, with the labels of the checkpoint if there is one that keeps them."""
        data = self.settings
        if data.unlabelled_file and data.encoder_name_or_path:
            raise refusal(
                "--unlabelled_file is for the words of a new model, but --encoder_name_or_path "
                "brings its own",
                "leave out one of the two",
            )
        if config is None:
            return load_rows(data, in_memory=self.in_memory)
        _saved_head(config)  # refuses one that cannot learn labels
        if not data.ignore_mismatched_sizes:
            names = list(answers_of(config).names)
            if data.label_names not in (None, names):
                raise refusal(
                    f"--label_names are {data.label_names}, those of the checkpoint {names}",
                    "to train other labels, add --ignore_mismatched_sizes",
                )
            problem_type = data.problem_type or config.problem_type
            data = replace(data, problem_type=problem_type, label_names=names)
        return load_rows(
            data,
            checkpoint=config.name_or_path,
            text_columns=config.text_columns,
            in_memory=self.in_memory,
        )

    def choose_head(self, rows: Rows, config: PreTrainedConfig | None) -> type[PreTrainedModel]:
        """Return the head of the checkpoint, or the one asked for, or one that fits the rows."""
        is_pair = len(rows.text_columns) == 2
        head: Any = None if config is None else _saved_head(config)
        if head is None:
            name = "nli" if is_pair or self.settings.task == "nli" else "classification"
            head = FAMILY.heads[name]
        if head.reads_pairs != is_pair:
            raise refusal(
                f"a {head.__name__} reads {1 + head.reads_pairs} text(s) a row, but "
                f"--text_column_names is {','.join(rows.text_columns)}",
                "name other columns, such as premise,hypothesis for two texts",
            )
        return head

    def fields_of(self, head: Any, rows: Rows, num_words: int) -> dict[str, Any]:
        """Return the labels, and of a model that is calibrated the largest linear part."""
        fields = _label_fields(rows) | {"lstm_hidden_size": LSTM_HIDDEN_SIZE}
        if head.reads_pairs:
            # Dropout of word vectors can hide the only word that distinguishes two texts, and
            # lowers the accuracy on entailment.
            fields["embedding_dropout"] = 0.0
        if self.settings.class_weights is not None:
            fields["class_weights"] = _class_weights(self.settings.class_weights, rows)
        if self.settings.calibrate:
            num_weights = len(rows.label_names) * (NUM_PARTS_OF_PAIR if head.reads_pairs else 1)
            if num_words * num_weights <= MAX_LINEAR_WEIGHTS:
                fields["linear_part"] = "words"
            if (num_words + num_pairs(num_weights)) * num_weights <= MAX_LINEAR_WEIGHTS:
                fields["linear_part"] = "words_and_pairs"
        return fields

    def change_config(self, config: PreTrainedConfig, rows: Rows, is_resumed: bool) -> None:
        """Set also other labels and class weights if they were asked for."""
        if self.settings.ignore_mismatched_sizes:
            config.update({"answer_threshold": None, "class_weights": None, **_label_fields(rows)})
        if self.settings.class_weights is not None and self.args.do_train:
            config.class_weights = _class_weights(self.settings.class_weights, rows)
        super().change_config(config, rows, is_resumed)

    def prepare(self, setup: TrainingSetup) -> None:
        """Leave a linear part as it is in the training; a new one is fitted after it.

        ValueError: marks have no attention to teach.
        """
        super().prepare(setup)
        if not self.args.do_train:
            return
        config = setup.model.config
        config.text_columns = [*setup.rows.text_columns]
        linear_part: Any = setup.model.linear_part
        if linear_part is not None:
            if self.settings.ignore_mismatched_sizes or setup.rows.left_out:
                clear(linear_part)  # it speaks of other labels, or of words marked against
            if linear_part.word_weight.any():
                logger.warning(
                    "the linear part stays as it was trained; a new model of all rows has a new one"
                )
            linear_part.requires_grad_(False)
        if not config.has_hops and _count_marked(setup.tokens["train"]):
            raise refusal(
                f"--pooling is {config.pooling}, which has no attention to learn from marks",
                "choose --pooling self_attention, or take the column rationale out",
            )

    def describe(self, setup: TrainingSetup) -> Iterator[str]:
        """Yield the number of rows, their columns, and the labels."""
        yield from super().describe(setup)
        names = setup.rows.label_names
        yield f"labels: {len(names)} ({', '.join(names[:10])}), {setup.rows.kind}"
        num_marked = _count_marked(setup.tokens.get("train"))
        if num_marked:
            yield f"rationale: {num_marked:,} of {len(setup.tokens['train']):,} training rows"
        if self.args.do_train and not self.settings.label_names:
            for doubt in label_doubts(names):
                logger.warning(one_line(doubt))

    def trainer_options(self, setup: TrainingSetup) -> dict[str, Any]:
        """Return the metrics that were asked for or that fit, and what reads the marks."""
        metrics = load_metrics(self.settings.metric_name, setup.rows.kind)
        weight = float(setup.model.config.has_hops)
        if num_marked := _count_marked(setup.tokens.get("train")):
            weight = setup.tokens["train"].num_rows / num_marked
        return {
            "compute_metrics": metrics_function(metrics, setup.rows.answers),
            "data_collator": RationaleCollator(setup.tokenizer, weight=weight),
        }

    def after_training(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup
    ) -> dict[str, float]:
        """Fit a new linear part, choose answer sets if asked for, keep some rows."""
        linear_part: Any = setup.model.linear_part
        if linear_part is not None:
            if not linear_part.word_weight.any():
                train, validation = setup.tokens["train"], setup.tokens.get("validation")
                self.fit = fit_linear_part(setup.model, train, validation, words_of(setup))
            linear_part.requires_grad_(True)
        measured = calibrate(trainer, setup) if self.settings.calibrate else {}
        keep_neighbours(setup, keeps_texts=self.settings.keep_examples)
        return measured

    def evaluate(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup
    ) -> tuple[dict[str, float], list[Table]]:
        """Evaluate, with a report if it was asked for."""
        if not self.settings.report:
            return super().evaluate(trainer, setup)
        return write_report(trainer, setup)

    def after_evaluation(self, setup: TrainingSetup) -> bool:
        """Let the linear part learn the held-out rows, too."""
        if self.fit is not None and may_learn_held_out_rows(setup):
            self.know_held_out_words(setup)
            rows = concatenate_datasets(rows_for_words(setup))
            learn_anew(setup.model, self.fit, rows, words_of(setup))
            self.learned_held_out = True
        super().after_evaluation(setup)
        return self.learned_held_out

    def columns(
        self, trainer: SelfAttentiveTrainer, setup: TrainingSetup, predictions: Predictions
    ) -> list[dict[str, Any]]:
        """Return the predicted labels, their probabilities, the answer sets and `familiarity`."""
        test = setup.rows.splits["test"]
        familiarity = None
        if setup.model.neighbours is not None:
            familiarity = read_texts(setup.model, setup.tokenizer, texts_of(test)).familiarity
        logits = torch.from_numpy(predictions)  # of which the metrics are
        return predicted_labels(logits, answers_of(setup.model.config), familiarity)

    def details(self) -> dict[str, Any]:
        """Return the scales of the parts, None if there are none, and what was learned at last."""
        hops, words, bias = self.fit.scales if self.fit else (None, None, None)
        return {
            "scale_of_hops": hops,
            "scale_of_words": words,
            "scale_of_bias": bias,
            "learned_held_out": self.learned_held_out,
        }


def _saved_head(config: PreTrainedConfig) -> type[PreTrainedModel] | None:
    """Return the head of a checkpoint; None for a base model. ValueError: it has no labels."""
    family = FAMILIES[config.model_type]
    saved_class = config.architectures[0] if config.architectures else ""
    head = family.classes.get(saved_class, family.base_model)
    if family is FAMILY and head is family.base_model:
        return None
    if not hasattr(head, "neighbours"):
        raise refusal(f"a {head.__name__} has no labels", "give --task retrieval or translation")
    return head


def _class_weights(asked: Any, rows: Rows) -> list[float]:
    """Return the weights that were asked for; `balanced` ones are 1 for the most frequent label."""
    names = rows.label_names
    try:
        if isinstance(asked, Mapping):  # as scikit-learn takes them
            by_name = {class_name(str(label)): weight for label, weight in asked.items()}
            # Another name has no index, and the config wants a weight for each.
            asked = [by_name[name] for name in sorted(by_name, key=[*names].index)]
        if asked != ["balanced"]:
            return list(map(float, asked))
        counts = np.bincount(rows.splits["train"]["label"][:], minlength=len(names))
    except ValueError as reason:
        raise refusal(
            f"--class_weights is {asked}",
            "leave it out where rows have several labels or none; else give balanced or a number "
            f"for each of {names!r:.400}",
        ) from reason
    weights: list[float] = np.where(counts, counts.max() / counts.clip(1), 1).tolist()
    return weights


def _label_fields(rows: Rows) -> dict[str, Any]:
    """Return the fields of the config that hold the labels, or the scale of the numbers.

    That is their mean and their deviation, 1 if all are equal. ValueError: float32 cannot tell the
    numbers apart. Labels and answers of a model are float32. Of dates in seconds it has one number
    in 128: those of a minute become one, and a model that answers it seems right.
    """
    fields: dict[str, Any] = {
        "problem_type": rows.kind,
        "id2label": dict(enumerate(rows.label_names)),
        "target_mean": None,
        "target_deviation": None,
        "label_type": "str",  # unless a fit knows another
    }
    if rows.answers.has_labels or "train" not in rows.splits:
        return fields
    labels = np.array(rows.splits["train"]["label"][:], dtype=np.float64)
    targets = labels.reshape(len(labels), -1)  # (N, C)
    are_equal = targets.min(0) == targets.max(0)  # of many equal ones, `std` is not exactly 0
    deviations = np.where(are_equal, 1.0, targets.std(0))
    rounding = np.abs(targets - targets.astype(np.float32)).max(0)
    if (rounding > MAX_ROUNDING * deviations).any():
        raise refusal(
            f"the numbers to learn change by up to {rounding.max():.3g} in float32, as a model "
            "computes",
            f"subtract an offset from all of them, such as {targets.min(0).round()}",
        )
    return fields | {
        "target_mean": targets.mean(0).tolist(),
        "target_deviation": deviations.tolist(),
    }


# ---- after training: how much the words count, and answer sets -----------------------------------


def words_of(setup: TrainingSetup) -> list[str]:
    """Return the words of a model by their ids; one that is special, or of no word, is empty."""
    ids = list(range(setup.model.config.vocab_size))
    words = setup.tokenizer.convert_ids_to_tokens(ids)
    special = setup.tokenizer.all_special_tokens
    # The sign of a piece that continues a word would be what short pieces have in common.
    return ["" if word in special else (word or "").removeprefix("##") for word in words]


def may_learn_held_out_rows(setup: TrainingSetup) -> bool:
    """Return whether the linear part may learn the held-out rows, once they have measured it.

    Rows that the user gave to validate with are left alone; so are those of texts that have words
    marked against, which the training rows lack, and those with one label beside training rows with
    probabilities.
    """
    rows = setup.rows
    if "split_off" not in rows.sources.get("validation", {}):
        return False
    if present(AGAINST_COLUMNS, rows.splits["validation"]):
        return False
    training, held_out = rows_for_words(setup)
    return training.features == held_out.features


def rows_for_words(setup: TrainingSetup) -> list[Dataset]:
    """Return the training rows and the held-out ones as the linear part learns them."""
    columns = present(("input_ids", "token_type_ids", "labels"), setup.tokens["train"])
    return [setup.tokens[name].select_columns(columns) for name in ("train", "validation")]


def calibrate(trainer: SelfAttentiveTrainer, setup: TrainingSetup) -> dict[str, float]:
    """Choose the threshold of answer sets by the validation rows; return the calibration error.

    Only where there are such rows, with one label each.
    """
    if not setup.rows.answers.has_one_label or "validation" not in setup.tokens:
        return {}
    rows = setup.tokens["validation"]
    logits = torch.from_numpy(trainer.predict(rows, metric_key_prefix="eval").predictions).float()
    labels = torch.tensor(rows["labels"][:])
    probabilities = logits.softmax(-1)
    config = setup.model.config
    config.answer_threshold = fit_threshold(probabilities, labels, config.answer_error)
    return {"eval_calibration_error": expected_calibration_error(probabilities, labels)}


def _count_marked(rows: Dataset | None) -> int:
    """Count the tokenized rows with a marked token."""
    if rows is None or "rationale" not in rows.column_names:
        return 0
    return sum(map(any, rows["rationale"]))
