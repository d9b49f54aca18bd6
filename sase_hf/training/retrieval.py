"""A run that learns to rank documents for queries: its flags, its trainer and its steps."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import PreTrainedModel
from transformers.trainer_utils import EvalLoopOutput

from ..data.arguments import PairArguments, flag
from ..data.labels import REGRESSION, LabelColumn
from ..data.splits import load_pairs
from ..data.tokens import encode_task
from ..models import RETRIEVAL, unit_rows
from ..retrieval.ranking import ranking_metrics, ranks_of_own, recall_by_length
from ..utils.loading import load_config, retrieval_head
from .arguments import LABEL_FAMILIES, ModelArguments, RunArguments
from .run import (
    Steps,
    log_lengths,
    log_model,
    log_pairs,
    log_word_vectors,
    run_steps,
    trainer_options,
)
from .setup import (
    TrainingSetup,
    apply_changes,
    check_best_metric,
    hub_options,
    load_trained,
    new_model,
)
from .trainer import SelfAttentiveTrainer


@dataclass
class RetrievalPairArguments(PairArguments):
    """Which pairs of a query and its document to train on and to evaluate on."""

    text_column_names: list[str] | None = field(
        default_factory=lambda: ["query,document"],
        metadata={"help": 'The columns of query and document: "title,body".'},
    )
    max_train_words: int | None = field(default=None, init=False)
    both_directions: bool = field(default=False, init=False)
    test_file: str | None = field(default=None, init=False)
    max_predict_samples: int | None = field(default=None, init=False)


@dataclass
class RankerArguments(ModelArguments):
    """Which model to build, or which one to start from; see `ModelArguments`."""

    task: str | None = field(default=None, init=False)
    class_weights: list[str] | None = field(default=None, init=False)
    ignore_mismatched_sizes: bool = field(default=False, init=False)
    # Fields of the config that only the heads with labels read.
    matching: str | None = field(default=None, init=False)
    classifier: str | None = field(default=None, init=False)
    classifier_hidden_size: int | None = field(default=None, init=False)
    classifier_dropout: float | None = field(default=None, init=False)
    pruned_row_size: int | None = field(default=None, init=False)
    pruned_column_size: int | None = field(default=None, init=False)
    label_smoothing: float | None = field(default=None, init=False)


@dataclass
class RetrievalRunArguments(RunArguments):
    """`RunArguments` without the flags of the tasks with labels, and with whole batches."""

    max_batch_tokens: int | None = field(default=None, init=False)  # parts have fewer negatives

    per_device_train_batch_size: int = flag(
        "Pairs per process and step; each query is compared with the documents of all processes.",
        64,
    )
    report: bool = field(default=False, init=False)
    calibrate: bool = field(default=False, init=False)
    do_predict: bool = field(default=False, init=False)
    metric_name: list[str] | None = field(default=None, init=False)


class RetrievalTrainer(SelfAttentiveTrainer):
    """`SelfAttentiveTrainer` that ranks all documents of an evaluation for each of its queries.

    The metrics are those of `ranking_metrics`, and `ranks` holds the rank of each row's document in
    the last evaluation, in the order of the rows. The loss of an evaluation is a mean over its
    batches and grows with their size.
    """

    ranks: torch.Tensor | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.can_return_loss = True  # or the stock Trainer evaluates no loss without labels

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        """Compute the loss, which the model leaves out in evaluation unless it is asked for."""
        return super().compute_loss(model, {**inputs, "return_loss": True}, *args, **kwargs)

    def evaluation_loop(
        self,
        dataloader: DataLoader[Any],
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """Evaluate, and add recall and mean reciprocal rank."""
        output = super().evaluation_loop(
            dataloader, description, False, ignore_keys, metric_key_prefix
        )
        found: Any = output.metrics
        _, *sides = map(torch.from_numpy, output.predictions)
        queries, documents = (unit_rows(side, self.model.config) for side in sides)
        ranks = ranks_of_own(queries, documents)
        for name, value in ranking_metrics(ranks).items():
            found[f"{metric_key_prefix}_{name}"] = value
        order = self.evaluation_order(dataloader.dataset)
        self.ranks = ranks[np.argsort(order)] if isinstance(order, list) else ranks
        return output


def assemble(
    model_args: Any, data_args: PairArguments, checkpoint: Path | None = None
) -> TrainingSetup:
    """Load the pairs and build the model for them, or load that of a checkpoint.

    `checkpoint` is one to resume; it comes before the one that `model_args` names, which may be
    that of another head, or of a base model.

    Raises:
        ValueError: If an argument contradicts another one, the checkpoint or the data.
        OSError: If a file or the checkpoint is not there or cannot be read.
    """
    source = str(checkpoint) if checkpoint else model_args.model_name_or_path
    options = hub_options(model_args, data_args)
    task = load_pairs(data_args, RETRIEVAL)
    found: list[float] = []
    tokenizer: Any
    model: PreTrainedModel
    if source is None:
        head = next(family.heads[RETRIEVAL] for family in LABEL_FAMILIES)
        scored = replace(task, labels=LabelColumn(REGRESSION, ("score",)))
        model, tokenizer, found = new_model(head, model_args, data_args, scored)
    else:
        config = load_config(source, **options)
        head = retrieval_head(source, config)
        apply_changes(config, model_args, is_resumed=checkpoint is not None)
        model, tokenizer = load_trained(head, source, config, data_args.max_seq_length, **options)
    rows = encode_task(task, tokenizer)
    return TrainingSetup(task, rows, tokenizer, model, found)


def log_summary(
    setup: TrainingSetup,
    model_args: RankerArguments,
    data_args: PairArguments,
    training_args: RunArguments,
) -> None:
    """Log pairs, words and sizes before training."""
    log_pairs(setup)
    log_lengths(setup)
    log_word_vectors(setup, model_args)
    log_model(setup, training_args)


def make_trainer(setup: TrainingSetup, training_args: RunArguments) -> RetrievalTrainer:
    """Return a trainer of the model."""
    check_best_metric(training_args, setup)
    return RetrievalTrainer(setup.model, training_args, **trainer_options(setup, training_args))


def _by_length(trainer: RetrievalTrainer, setup: TrainingSetup) -> dict[str, Any]:
    """Return the recall of the last evaluation by the length of the document."""
    if trainer.ranks is None:
        return {}
    words = [len(text.split()) for text in setup.task.splits["validation"]["text_pair"]]
    return {"recall_by_length": recall_by_length(trainer.ranks, words)}


STEPS = Steps(assemble, log_summary, make_trainer, lambda *_: [], _by_length)
RETRIEVAL_ARGUMENTS = (RetrievalPairArguments, RankerArguments, RetrievalRunArguments)

run_retrieval = partial(run_steps, STEPS)
