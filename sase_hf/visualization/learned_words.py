"""What a classifier learned: the words that spoke for and against each label, and what hops read.

Each word of each text added something to the logit of a label, as the `self-attention` pipeline
says. Over many texts these numbers say which words drive a label. Rare words are left out: what a
word added in one text is chance.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from transformers import Pipeline
from transformers.utils import logging

from ..models.answers import REGRESSION, SINGLE_LABEL, answers_of
from ..utils.text import Table, one_line
from .attended_text import (
    MIN_ADDED,
    SHOWN_AS_ZERO,
    AttendedText,
    Result,
    parse_result,
    totals_of,
)
from .rendering import percent, signed

MAX_LABELS = 8  # that are explained, the most frequently predicted ones
LEAST_COUNT = 3  # occurrences of a word in the lists
# In the order of a list, as if each word had occurred so often without adding anything: the mean of
# three occurrences is not as sure as that of thirty.
COUNT_WITHOUT_EFFECT = 5
NUM_WORDS = 10  # of a list
NUM_SHOWN = 6  # words of a list, or of a hop
BATCH_SIZE = 32
SIDES = (" (1st)", " (2nd)")  # texts of a pair


class LearnedWord(NamedTuple):
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


class LearnedPart(NamedTuple):
    """What a part of the model reads and adds: a hop, or the words by themselves."""

    name: str
    words: list[tuple[str, float]]  # the most read ones, each with its share of the attention
    size: float  # what it adds to the logit of the answer, mean over texts


class LearnedWords(NamedTuple):
    """What `read_learned_words` returns."""

    kind: str  # what the model answers, as in the results of the pipeline
    num_texts: int  # that were read
    num_left_out: int  # further ones
    labels: list[LearnedLabel]  # the `MAX_LABELS` most frequent ones, in the order of their ids
    num_labels: int  # of the model
    parts: list[LearnedPart]


def read_learned_words(
    reader: Pipeline,
    inputs: Sequence[Any],
    *,
    max_characters: float = math.inf,
    num_words: int = NUM_WORDS,
) -> LearnedWords:
    """Read texts with a classifier, and sum up what their words added to its labels.

    Every text explains each of the `MAX_LABELS` labels that are predicted most often. A word is
    listed if it occurs at least `LEAST_COUNT` times. The same texts give the same result.

    Args:
        reader: The `self-attention` pipeline of a classifier.
        inputs: Texts, or pairs as dicts with `text` and `text_pair`.
        max_characters: Read only the first inputs that have about so many characters, each counted
            once for each label that is explained.
        num_words: How many words a list has at most.

    Raises:
        ValueError: As the pipeline does, for an input that is no text.
    """
    answers = answers_of(reader.model.config)
    limit = max_characters / min(len(answers.names), MAX_LABELS)
    ends = accumulate(len(str(input_)) for input_ in inputs)
    read = [one for one, end in zip(inputs, ends, strict=True) if end - len(str(one)) < limit]
    predicted: Counter[str] = Counter()
    hops = [Counter[str]() for _ in range(reader.model.config.num_hops)]
    added_by_parts = []
    for result, texts in _results(reader, read):
        predicted.update(result.get("labels", [result["label"]]))
        for name, text, place in _words_of(texts, reader.tokenizer):
            for hop, weights in zip(hops, text.views[1:], strict=True):
                hop[name] += weights[place]
        totals = totals_of(result, texts)
        assert totals is not None  # a classifier explains its answers
        added_by_parts.append([*totals.by_hop, totals.by_words_themselves])
    frequent = sorted(answers.names, key=lambda name: -predicted[name])[:MAX_LABELS]
    labels = []
    for label in answers.names:
        if label in frequent:
            added: dict[str, list[float]] = defaultdict(list)
            for _, texts in _results(reader, read, label):
                for name, text, place in _words_of(texts, reader.tokenizer):
                    added[name].append(text.added[place] if text.added else 0.0)
            num_texts = predicted[label] if answers.has_labels else len(read)
            words = list(_strongest_first(added))
            words_for = [word for word in words if word.mean > 0][:num_words]
            words_against = [word for word in words if word.mean < 0][:num_words]
            labels.append(LearnedLabel(label, num_texts, words_for, words_against))
    sizes = np.mean(added_by_parts, axis=0).tolist() if read else [0.0] * (len(hops) + 1)
    parts = []
    for number, (hop, size) in enumerate(zip(hops, sizes, strict=False), start=1):
        shares = [
            (word, weight / (hop.total() or 1)) for word, weight in hop.most_common(num_words)
        ]
        parts.append(LearnedPart(f"hop {number}", shares, size))
    if reader.model.linear_part is not None:
        parts.append(LearnedPart("the words themselves", [], sizes[-1]))
    return LearnedWords(
        answers.kind, len(read), len(inputs) - len(read), labels, len(answers.names), parts
    )


def _results(
    reader: Pipeline, inputs: Sequence[Any], target: str | None = None
) -> Iterator[tuple[Result, list[AttendedText]]]:
    """Yield the result of each input, which explains a target, and its texts; not all at once."""
    by_length = sorted(inputs, key=lambda input_: len(str(input_)))  # like lengths share a batch
    results = reader((one for one in by_length), batch_size=BATCH_SIZE, target=target)
    for result in logging.tqdm(results, desc="Explaining", total=len(inputs), delay=1):
        yield result, parse_result(result)


def _words_of(
    texts: Sequence[AttendedText], tokenizer: Any
) -> Iterator[tuple[str, AttendedText, int]]:
    """Yield the name of each word of one or two texts, its text and its place in that."""
    for side, text in enumerate(texts):
        of_pair = SIDES[side] if len(texts) > 1 else ""
        for place, (start, end) in enumerate(text.words):
            name = word_name(text.text[start:end], tokenizer)
            if name.strip():
                yield name + of_pair, text, place


def word_name(spelling: str, tokenizer: Any) -> str:
    """Return what the tokenizer makes of a word, such as its lower case."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    return spelling if normalizer is None else str(normalizer.normalize_str(spelling))


def _strongest_first(added: Mapping[str, Sequence[float]]) -> Iterator[LearnedWord]:
    """Yield the frequent words that added more than next to nothing, by what each added."""
    words = [LearnedWord(name, fmean(numbers), len(numbers)) for name, numbers in added.items()]
    frequent = [word for word in words if word.count >= LEAST_COUNT]
    largest = max((abs(word.mean) for word in frequent), default=0.0)
    frequent.sort(key=lambda word: -abs(word.mean) * certainty(word.count))
    for word in frequent:
        if abs(word.mean) >= max(MIN_ADDED * largest, SHOWN_AS_ZERO):
            yield word


def certainty(count: Any) -> Any:
    """Return by how much the mean of so many occurrences counts in the order of a list."""
    return count / (count + COUNT_WITHOUT_EFFECT)


# ---- as it is shown ------------------------------------------------------------------------------


def learned_values(learned: LearnedWords) -> dict[str, object]:
    """Return the values of the table of words, and the table of what hops read."""
    labels = []
    for label in learned.labels:
        labels.append((label, [words[:NUM_SHOWN] for _, words in _lists(learned, label)]))
    listed = [word for _, lists in labels for words in lists for word in words]
    rows = []
    for part in learned.parts:
        shares = [f"{word} {percent(share)}" for word, share in part.words[:NUM_SHOWN]]
        rows.append([part.name, ", ".join(shares), signed(part.size)])
    heads = ["", "reads most", "adds to the answer"]
    return {
        "learned": learned,
        "labels": labels,
        "headings": [heading for heading, _ in _lists(learned, LearnedLabel("", 0, [], []))],
        "longest": max((abs(word.mean) for word in listed), default=1.0),
        "is_number": learned.kind == REGRESSION,
        "least_count": LEAST_COUNT,
        "hops": Table("What each hop reads", heads, rows),
    }


def learned_text(learned: LearnedWords) -> str:
    """Return the words of each label and of each hop as lines for the terminal."""
    lines = [f"what the model learned, from {learned.num_texts:,} rows:"]
    for label in learned.labels:
        for heading, words in _lists(learned, label):
            some = words[:NUM_SHOWN]
            named = [f"{word.word} {signed(word.mean)} ×{word.count:,}" for word in some]
            lines.append(f"{label.label}, {heading}: {', '.join(named) or 'no word'}")
    for part in learned.parts:
        shares = [f"{word} {percent(share)}" for word, share in part.words[:NUM_SHOWN]]
        lines.append(f"{part.name}: {', '.join([*shares, f'adds {signed(part.size)}'])}")
    return "\n".join(map(one_line, lines))


def _lists(learned: LearnedWords, label: LearnedLabel) -> Iterator[tuple[str, list[LearnedWord]]]:
    """Yield the lists of words of a label with their headings.

    Of two labels, what speaks for one speaks against the other, and is said once.
    """
    is_number = learned.kind == REGRESSION
    yield "raised it" if is_number else "spoke for it", label.words_for
    if learned.kind != SINGLE_LABEL or learned.num_labels != 2:
        yield "lowered it" if is_number else "spoke against it", label.words_against
