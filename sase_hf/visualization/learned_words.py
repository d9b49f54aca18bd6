"""What a classifier learned: the words that spoke for and against each label.

Each word of each text added something to the logit of a label, as the `self-attention` pipeline
says. Over many texts these numbers say which words drive a label. Rare words are left out: what a
word added in one text is chance.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
from transformers import Pipeline
from transformers.utils import logging

from ..models.answers import Answers, answers_of
from .attended_text import AttendedText, Result, least_named, parse_result

MAX_LABELS = 8  # that are explained, the most frequently predicted ones
LEAST_COUNT = 3  # occurrences of a word in the lists
# In the order of a list, as if each word had occurred so often without adding anything: the mean of
# three occurrences is not as sure as that of thirty.
COUNT_WITHOUT_EFFECT = 5
NUM_SHOWN = 6  # words of a list
BATCH_SIZE = 32
SIDES = (" (1st)", " (2nd)")  # texts of a pair


@dataclass(frozen=True)
class LearnedWord:
    """What a word added to the logit of a label, in all texts."""

    word: str  # as the tokenizer makes it; in a pair with the text that it stands in
    mean: float  # over its occurrences
    count: int  # number of these


class LearnedLabel(NamedTuple):
    """The words that spoke for a label, and those against it, the strongest first."""

    label: str
    num_texts: int  # for which the label is predicted; for a number, all
    words_for: list[LearnedWord]
    words_against: list[LearnedWord]


class LearnedWords(NamedTuple):
    """What `read_learned_words` returns."""

    answers: Answers  # of the model
    num_texts: int  # that were read
    labels: list[LearnedLabel]  # the `MAX_LABELS` most frequent ones, in the order of their ids


def read_learned_words(reader: Pipeline, inputs: Sequence[Any]) -> LearnedWords:
    """Read texts with a classifier, and sum up what their words added to its labels.

    Every text explains each of the `MAX_LABELS` labels that are predicted most often. A word is
    listed if it occurs at least `LEAST_COUNT` times. The same texts give the same result.

    Args:
        reader: The `self-attention` pipeline of a classifier.
        inputs: Texts, or pairs as dicts with `text` and `text_pair`.

    Raises:
        ValueError: As the pipeline does, for an input that is no text.
    """
    answers = answers_of(reader.model.config)
    predicted: Counter[str] = Counter()
    for result, _ in _results(reader, inputs):
        predicted.update(result.get("labels", [result["label"]]))
    frequent = sorted(answers.names, key=lambda name: -predicted[name])[:MAX_LABELS]
    labels = []
    for label in answers.names:
        if label in frequent:
            words = _strongest_first(reader, inputs, label)
            words_for = [word for word in words if word.mean > 0]
            words_against = [word for word in words if word.mean < 0]
            num_texts = predicted[label] if answers.has_labels else len(inputs)
            labels.append(LearnedLabel(label, num_texts, words_for, words_against))
    return LearnedWords(answers, len(inputs), labels)


def _results(
    reader: Pipeline, inputs: Sequence[Any], target: str | None = None
) -> Iterator[tuple[Result, list[AttendedText]]]:
    """Yield the result of each input, which explains a target, and its texts; not all at once."""
    by_length = sorted(inputs, key=lambda input_: len(str(input_)))  # like lengths share a batch
    results = reader((one for one in by_length), batch_size=BATCH_SIZE, target=target)
    for result in logging.tqdm(results, desc="Explaining", total=len(inputs), delay=1):
        yield result, parse_result(result)


def _named(texts: Sequence[AttendedText], tokenizer: Any) -> Iterator[tuple[str, float]]:
    """Yield each reason in one or two texts as the tokenizer makes it, and what it added."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    for text, side in zip(texts, SIDES, strict=False):
        of_pair = side if len(texts) > 1 else ""
        for start, end, added in text.reasons(text.added or ()):
            name = text.text[start:end]
            if normalizer is not None:
                name = normalizer.normalize_str(name)
            if name.strip():
                yield name + of_pair, added


def _strongest_first(reader: Pipeline, inputs: Sequence[Any], label: str) -> list[LearnedWord]:
    """Return the frequent words that added more than next to nothing, by what each added."""
    added: list[tuple[str, float]] = []
    for _, texts in _results(reader, inputs, label):
        added += _named(texts, reader.tokenizer)
    by_word = pd.DataFrame(added, columns=["word", "added"]).groupby("word")["added"]
    words = by_word.agg(["mean", "count"])
    words = words[words["count"] >= LEAST_COUNT]
    words = words[words["mean"].abs() >= least_named(words["mean"])]
    sureness = words["count"] / (words["count"] + COUNT_WITHOUT_EFFECT)
    order = (words["mean"].abs() * sureness).sort_values(ascending=False, kind="stable").index
    return [LearnedWord(*word) for word in words.loc[order].itertuples()]


# ---- as it is shown ------------------------------------------------------------------------------


def learned_values(learned: LearnedWords) -> dict[str, object]:
    """Return the values of the table of words.

    Of two labels, what speaks for one speaks against the other, and is said once.
    """
    has_opposites = learned.answers.has_one_label and len(learned.answers.names) == 2
    labels = []
    for label in learned.labels:
        lists = [label.words_for] if has_opposites else [label.words_for, label.words_against]
        labels.append((label, [words[:NUM_SHOWN] for words in lists]))
    means = [abs(word.mean) for _, lists in labels for words in lists for word in words]
    return {
        "learned": learned,
        "labels": labels,
        "longest": max(means, default=1.0),
        "is_number": not learned.answers.has_labels,
        "has_opposites": has_opposites,
        "least_count": LEAST_COUNT,
    }
