"""What a study measures of a trained model beside its accuracy."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from sase_hf.data.arguments import DataArguments
from sase_hf.data.labels import SINGLE_LABEL
from sase_hf.evaluation.attention import measure_attention
from sase_hf.evaluation.dataset import EvaluationDataset
from sase_hf.training.arguments import ModelArguments
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.setup import TrainingSetup, assemble, load_rows

from .label_shift import cross_fitted_accuracy


def measure(words: Sequence[str], model: Path) -> dict[str, dict[str, float]]:
    """Measure a trained model on the validation rows of its recipe.

    Args:
        words: The command line of scripts/train.py that trained it.
        model: The folder of the model.

    Returns:
        Nothing without validation rows. Otherwise `attention`, for a model with attention: the
        means of `entropy` and `overlap` as `sase_hf.evaluation.attention` defines them; and
        `label_shift`, for one label per row: the `accuracy` of logits adapted to the label
        frequencies of the other half of the rows.

    Raises:
        ValueError: If attention is not finite.
    """
    model_args, data_args, training_args = parse_arguments(words)
    validation_only = replace(data_args, test_file=None)
    if data_args.validation_file is not None:
        validation_only = replace(validation_only, train_file=None)  # spares tokenizing it
    parts = assemble(ModelArguments(model_name_or_path=str(model)), validation_only)
    if "validation" not in parts.rows:
        return {}
    rows = parts.rows["validation"].remove_columns("labels")
    sample = EvaluationDataset(parts.model.eval(), parts.tokenizer, rows, parts.task.sources)
    batch_size = training_args.per_device_eval_batch_size
    measured: dict[str, dict[str, float]] = {}
    if parts.model.config.has_attention:
        statistics = measure_attention(sample, batch_size)
        measured["attention"] = {kind: statistics[kind]["mean"] for kind in ("entropy", "overlap")}
    if parts.task.problem_type == SINGLE_LABEL:
        trained = _label_frequencies(model_args, data_args, parts)
        labels = torch.tensor(parts.rows["validation"]["labels"][:])
        logits = _logits(sample, batch_size, len(trained))
        accuracy = cross_fitted_accuracy(logits, labels, trained)
        measured["label_shift"] = {"accuracy": accuracy}
    return measured


def _label_frequencies(
    model_args: ModelArguments, data_args: DataArguments, parts: TrainingSetup
) -> Tensor:
    """Return the share of each label among the training rows, counting one more row of each."""
    train = load_rows(model_args, data_args).splits["train"]
    counts = torch.tensor(train["label"][:]).bincount(minlength=len(parts.task.label_names)) + 1
    return counts / counts.sum()


@torch.no_grad()
def _logits(sample: EvaluationDataset, batch_size: int, num_labels: int) -> Tensor:
    logits = torch.zeros(len(sample.rows), num_labels)
    for numbers, batch in sample.batches(batch_size, "Scoring"):
        logits[numbers] = sample.model(**batch).logits.float().cpu()
    return logits
