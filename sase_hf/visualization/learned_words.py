"""What a classifier learned: the words that spoke for and against each label, and what hops read.

Each word of each text added something to the logit of a label, as the `self-attention` pipeline
says. Over many texts these numbers say which words drive a label. Rare words are left out: what a
word added in one text is chance.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from transformers import Pipeline
from transformers.utils import logging

from ..models.answers import REGRESSION, SINGLE_LABEL, answers_of
from ..utils.text import Table
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

    kind: str  # what the model answers, as in the results of the pipeline
    num_texts: int  # that were read
    labels: list[LearnedLabel]  # the `MAX_LABELS` most frequent ones, in the order of their ids
    num_labels: int  # of the model
    hops: Table  # the words that each hop reads most, and what it adds; last, the words themselves


def read_learned_words(
    reader: Pipeline,
    inputs: Sequence[Any],
    *,
    num_words: int = NUM_WORDS,
) -> LearnedWords:
    """Read texts with a classifier, and sum up what their words added to its labels.

    Every text explains each of the `MAX_LABELS` labels that are predicted most often. A word is
    listed if it occurs at least `LEAST_COUNT` times. The same texts give the same result.

    Args:
        reader: The `self-attention` pipeline of a classifier.
        inputs: Texts, or pairs as dicts with `text` and `text_pair`.
        num_words: How many words a list has at most.

    Raises:
        ValueError: As the pipeline does, for an input that is no text.
    """
    answers = answers_of(reader.model.config)
    predicted: Counter[str] = Counter()
    hops = [Counter[str]() for _ in range(reader.model.config.num_hops)]
    added_by_parts = []
    for result, texts in _results(reader, inputs):
        predicted.update(result.get("labels", [result["label"]]))
        places = [[(*span, place) for place, span in enumerate(text.words)] for text in texts]
        for name, text, place in _named(texts, places, reader.tokenizer):
            for hop, weights in zip(hops, text.views[1:], strict=True):
                hop[name] += weights[place]
        totals = totals_of(result, texts)
        assert totals is not None  # a classifier explains its answers
        added_by_parts.append([*totals.by_hop, totals.by_words_themselves, totals.by_mean_state])
    frequent = sorted(answers.names, key=lambda name: -predicted[name])[:MAX_LABELS]
    labels = []
    for label in answers.names:
        if label in frequent:
            added: dict[str, list[float]] = defaultdict(list)
            for _, texts in _results(reader, inputs, label):
                reasons = [text.reasons(text.added or ()) for text in texts]
                for name, _, number in _named(texts, reasons, reader.tokenizer):
                    added[name].append(number)
            num_texts = predicted[label] if answers.has_labels else len(inputs)
            words = list(_strongest_first(added))
            words_for = [word for word in words if word.mean > 0][:num_words]
            words_against = [word for word in words if word.mean < 0][:num_words]
            labels.append(LearnedLabel(label, num_texts, words_for, words_against))
    names = [f"hop {number + 1}" for number in range(len(hops))]
    if reader.model.linear_part is not None:
        names.append("the words themselves")
    if reader.model.reads_mean_state:
        names.append("the mean state")
    rows = []
    of_parts = zip(*added_by_parts, strict=True)  # nothing if there are no texts
    words_read = [*hops, Counter(), Counter()]
    for name, hop, of_texts in zip(names, words_read, of_parts, strict=False):
        shares = [f"{word} {percent(n / hop.total())}" for word, n in hop.most_common(NUM_SHOWN)]
        rows.append([name, ", ".join(shares), signed(fmean(of_texts))])
    heads = ["", "reads most", "adds to the answer"]
    return LearnedWords(
        answers.kind,
        len(inputs),
        labels,
        len(answers.names),
        Table("What each hop reads", heads, rows),
    )


def _results(
    reader: Pipeline, inputs: Sequence[Any], target: str | None = None
) -> Iterator[tuple[Result, list[AttendedText]]]:
    """Yield the result of each input, which explains a target, and its texts; not all at once."""
    by_length = sorted(inputs, key=lambda input_: len(str(input_)))  # like lengths share a batch
    results = reader((one for one in by_length), batch_size=BATCH_SIZE, target=target)
    for result in logging.tqdm(results, desc="Explaining", total=len(inputs), delay=1):
        yield result, parse_result(result)


def _named(
    texts: Sequence[AttendedText], parts: Sequence[Sequence[tuple[int, int, Any]]], tokenizer: Any
) -> Iterator[tuple[str, AttendedText, Any]]:
    """Yield the name of each part of one or two texts, its text, and what stands behind its end."""
    for side, (text, of_text) in enumerate(zip(texts, parts, strict=True)):
        of_pair = SIDES[side] if len(texts) > 1 else ""
        for start, end, value in of_text:
            name = word_name(text.text[start:end], tokenizer)
            if name.strip():
                yield name + of_pair, text, value


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
    """Return the values of the table of words, and the table of what hops read.

    Of two labels, what speaks for one speaks against the other, and is said once.
    """
    has_opposites = learned.kind == SINGLE_LABEL and learned.num_labels == 2
    labels = []
    for label in learned.labels:
        lists = [label.words_for] if has_opposites else [label.words_for, label.words_against]
        labels.append((label, [words[:NUM_SHOWN] for words in lists]))
    means = [abs(word.mean) for _, lists in labels for words in lists for word in words]
    return {
        "learned": learned,
        "labels": labels,
        "longest": max(means, default=1.0),
        "is_number": learned.kind == REGRESSION,
        "has_opposites": has_opposites,
        "least_count": LEAST_COUNT,
    }
