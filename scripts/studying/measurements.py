"""What a study measures of a trained model beside its accuracy."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sase_hf.data.batching import token_counts
from sase_hf.data.labels import SINGLE_LABEL
from sase_hf.evaluation.attention import DISTRIBUTIONS, measure_attention, read_word_list
from sase_hf.evaluation.dataset import EvaluationDataset
from sase_hf.training.arguments import ModelArguments
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.setup import assemble, load_rows

# Shares of the rows at which the groups of `accuracy_by_length` end: fifths, and the longest.
GROUP_ENDS = (0.2, 0.4, 0.6, 0.8, 0.95)


def measure(words: Sequence[str], model: Path, word_list: Path | None = None) -> dict[str, Any]:
    """Measure a trained model on the validation rows of its recipe.

    Args:
        words: The command line of scripts/train.py that trained it.
        model: The folder of the model.
        word_list: A file of words for the `lift`, as `read_word_list` takes it; a model of
            characters has none.

    Returns:
        For a model with attention, `attention`: the mean of each number of `measure_attention`. For
        one label per row, `label_shift`: the `accuracy` after adapting to the label frequencies,
        and `by_length`, what `accuracy_by_length` returns. Nothing if there are no validation rows.
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
    measured: dict[str, Any] = {}
    if parts.model.config.has_attention:
        listed: set[str] = set()
        if word_list is not None and model_args.level != "character":
            listed = read_word_list(word_list)
        statistics = measure_attention(sample, batch_size, listed)
        kinds = (kind for kind in (*DISTRIBUTIONS, "lift") if kind in statistics)
        measured["attention"] = {kind: statistics[kind]["mean"] for kind in kinds}
    if parts.task.problem_type == SINGLE_LABEL:
        trained = torch.tensor(load_rows(model_args, data_args).splits["train"]["label"][:])
        labels = torch.tensor(parts.rows["validation"]["labels"][:])
        logits = torch.zeros(len(labels), len(parts.task.label_names))
        with torch.no_grad():
            for numbers, batch in sample.batches(batch_size, "Scoring"):
                logits[numbers] = sample.model(**batch).logits.float().cpu()
        measured["label_shift"] = {"accuracy": adapted_accuracy(logits, labels, trained)}
        lengths = torch.tensor(token_counts(rows))
        measured["by_length"] = accuracy_by_length(logits, labels, lengths)
    return measured


def accuracy_by_length(
    logits: Tensor, labels: Tensor, lengths: Tensor
) -> list[dict[str, float | int]]:
    """Return the accuracy on rows of similar length, the shortest first.

    The groups end at `GROUP_ENDS` of the rows in the order of their lengths; rows of the same
    length are in the same group.

    Args:
        logits: Shape (B, num_labels).
        labels: Class ids, shape (B,).
        lengths: Tokens of each row, shape (B,).

    Returns:
        For each group the lengths it runs `from` and `to`, their mean, `tokens`, its `rows`, and
        their `accuracy`.
    """
    ends = lengths.sort().values[[int(share * (len(lengths) - 1)) for share in GROUP_ENDS]]
    places = torch.bucketize(lengths, ends)
    correct = logits.argmax(1) == labels
    return [
        {
            "from": lengths[is_member].min().item(),
            "to": lengths[is_member].max().item(),
            "tokens": lengths[is_member].double().mean().item(),
            "rows": int(is_member.sum()),
            "accuracy": correct[is_member].double().mean().item(),
        }
        for is_member in (places == place for place in places.unique())
    ]


def adapted_accuracy(logits: Tensor, labels: Tensor, trained_labels: Tensor) -> float:
    """Return the accuracy after adapting the logits to the label frequencies of the rows.

    By Bayes' rule p(label | text) changes by the ratio of the frequencies. Each half of the rows,
    every second one, is scored with the frequencies of the other half, so that no row has a part in
    its own score.

    Args:
        logits: Shape (B, num_labels).
        labels: Class ids, shape (B,).
        trained_labels: Class ids of the training rows, shape (N,).
    """

    def frequencies(ids: Tensor) -> Tensor:
        counts = ids.bincount(minlength=logits.shape[1]) + 1  # no label may have frequency 0
        return counts / counts.sum()

    correct = 0
    for half in (0, 1):
        ratio = frequencies(labels[1 - half :: 2]) / frequencies(trained_labels)
        predicted = (logits[half::2] + ratio.log()).argmax(1)
        correct += int((predicted == labels[half::2]).sum())
    return correct / len(labels)
