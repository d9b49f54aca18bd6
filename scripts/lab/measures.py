"""What a study measures: a trained model beside its accuracy, and linear models."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from baselines import Rows, tfidf
from records import Record
from torch import Tensor
from transformers import pipeline

from sase_hf.data.batching import token_counts
from sase_hf.data.labels import SINGLE_LABEL
from sase_hf.data.splits import load_pairs
from sase_hf.evaluation.attention import DISTRIBUTIONS, measure_attention, read_word_list
from sase_hf.evaluation.dataset import EvaluationDataset
from sase_hf.evaluation.records import measured_record
from sase_hf.evaluation.translation import measure_translation as evaluate_translations
from sase_hf.models import RETRIEVAL, TRANSLATION_TASK
from sase_hf.retrieval.ranking import ranking_metrics, ranks_in_scores, recall_by_length
from sase_hf.training.arguments import ModelArguments
from sase_hf.training.command_line import flag_words, parse_arguments
from sase_hf.training.retrieval import RETRIEVAL_ARGUMENTS
from sase_hf.training.setup import assemble, load_rows
from sase_hf.training.translation import TRANSLATION_ARGUMENTS
from sase_hf.utils.loading import load_checkpoint

# What a model translates for the figure, by the column that it reads.
EXAMPLES = {
    "en": "Because of the rain, an old man with a red umbrella waits for the bus near the market.",
    "fr": "À cause de la pluie, un vieil homme avec un parapluie rouge attend le bus au marché.",
}
validation_record = partial(measured_record, split="validation", seed=0)

# Shares of the rows at which the groups of `accuracy_by_length` end: fifths, and the longest.
GROUP_ENDS = (0.2, 0.4, 0.6, 0.8, 0.95)


def measure_labels(
    words: Sequence[str], model: Path, word_list: Path | None = None
) -> dict[str, Any]:
    """Measure attention, label shift and accuracy by length on the validation rows of a recipe.

    Args:
        words: The command line of scripts/train.py that trained the model.
        model: The folder of the model.
        word_list: A file of words for the `lift`; a model of characters has none.
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
    """Return the accuracy of groups of rows, the shortest first, with their lengths and numbers.

    A group ends at a share `GROUP_ENDS` of the rows; rows of one length are in one group. `logits`
    have shape (B, num_labels), `labels` and `lengths`, in tokens, shape (B,).
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
        for is_member in (places == place for place in torch.unique(places))
    ]


def adapted_accuracy(logits: Tensor, labels: Tensor, trained_labels: Tensor) -> float:
    """Return the accuracy after adapting the logits to the label frequencies of the rows.

    By Bayes' rule p(label | text) changes by the ratio of the frequencies. Each half of the rows,
    every second one, is scored with the frequencies of the other half, so that no row has a part in
    its own score. `logits` have shape (B, num_labels), `labels` (B,), `trained_labels` (N,).
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


def measure_translation(words: Sequence[str], model: Path, _: Path | None = None) -> Record:
    """Measure a trained model, in two beams, on the validation pairs of its recipe."""
    _, data_args, run_args = parse_arguments(words, groups=TRANSLATION_ARGUMENTS)
    rows = load_pairs(replace(data_args, train_file=None)).splits["validation"]
    translator, tokenizer = load_checkpoint(str(model))
    measured = evaluate_translations(
        translator,
        tokenizer,
        rows["text"][:],
        rows["text_pair"][:],
        batch_size=run_args.per_device_eval_batch_size,
        num_beams=(1, 12),
    )
    if translator.config.has_attention:
        task: Any = TRANSLATION_TASK
        show: Any = pipeline(task, model=translator, tokenizer=tokenizer)
        measured["example"] = show(EXAMPLES[data_args.text_column_names[0]], num_beams=12)
    return {"translation": measured}


def measure_linear(entries: Mapping[str, Any]) -> Record:
    """Fit TF-IDF with logistic regression to the training rows of a recipe; return the record.

    The strength is chosen on the validation rows, so the accuracy is slightly too high. Texts are
    not cut.
    """
    model_args, data_args, _ = parse_arguments(flag_words(entries))
    task, start = load_rows(model_args, data_args), time.perf_counter()
    parts = []
    for split in ("train", "validation"):
        rows = task.splits[split]
        columns = [rows[name][:] for name in ("text", "text_pair") if name in rows.column_names]
        parts.append(Rows(list(zip(*columns, strict=True)), rows["label"][:]))
    model = tfidf(parts[0], parts[1], 0, None)
    return validation_record(
        name="linear",
        metrics={"accuracy": max(model.settings["validation_accuracies"].values())},
        sources=task.sources,
        arguments=entries,
        config={"features": "TF-IDF of 1 and 2 words", **model.settings},
        num_parameters=model.num_parameters,
        wall_seconds=time.perf_counter() - start,
    )


def measure_ranking(entries: Mapping[str, Any], analyzer: str, features: str) -> Record:
    """Rank the validation documents of a recipe by the cosine of TF-IDF; return the record."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    _, pair_args, _ = parse_arguments(flag_words(entries), groups=RETRIEVAL_ARGUMENTS)
    task, start = load_pairs(replace(pair_args, train_file=None), RETRIEVAL), time.perf_counter()
    queries, documents = (task.splits["validation"][name][:] for name in ("text", "text_pair"))
    lengths = (3, 5) if analyzer == "char_wb" else (1, 1)
    vectorizer = TfidfVectorizer(analyzer=analyzer, ngram_range=lengths, sublinear_tf=True)
    counts = vectorizer.fit_transform(documents)
    scores = (vectorizer.transform(queries) @ counts.T).toarray()
    ranks = ranks_in_scores(torch.from_numpy(scores))
    record = validation_record(
        name="TF-IDF",
        metrics=ranking_metrics(ranks),
        sources=task.sources,
        arguments=entries,
        config={"features": f"TF-IDF of {features}, sublinear", "score": "cosine"},
        num_parameters=0,
        wall_seconds=time.perf_counter() - start,
    )
    words = [len(text.split()) for text in documents]
    return {**record, "recall_by_length": recall_by_length(ranks, words)}


# The `system` of a recipe -> what measures it, given the entries of the recipe.
CHARACTERS = "runs of 3 to 5 characters in words"
SYSTEMS: dict[str, Callable[[Mapping[str, Any]], Record]] = {
    "linear": measure_linear,
    "tfidf": partial(measure_ranking, analyzer="word", features="words"),
    "tfidf_characters": partial(measure_ranking, analyzer="char_wb", features=CHARACTERS),
}
