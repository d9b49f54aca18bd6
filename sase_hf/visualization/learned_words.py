"""What a classifier learned: the words that spoke for and against each label, and what hops read.

Each word of each text added something to the logit of a label (`explain`). Over many texts these
numbers say which words drive a label; `WordCorpus` says which words are the same. Rare words are
left out: what a word added in one text is chance.

Shapes: B texts, T tokens, r hops, L labels, K explained ones, V different words, N words of all
texts, P parts of the model: the hops, and behind them the words by themselves, the linear part.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Pipeline
from transformers.utils import logging

from ..data.batching import batches_by_length
from ..models.answers import REGRESSION, Answers, answers_of
from ..models.contributions_self_attentive import explain
from .word_corpus import Ids, WordCorpus

MAX_LABELS = 8  # that are explained, the most frequently predicted ones
LEAST_COUNT = 3  # occurrences of a word in the lists
# In the order of a list, as if each word had occurred so often without adding anything: the mean of
# three occurrences is not as sure as that of thirty.
COUNT_WITHOUT_EFFECT = 5
SAME_READING = 0.8  # cosine between the words of two hops that read the same
LEAST_LEANING = 1 / 3  # what a hop adds to the label it speaks for, over the size of what it adds
NUM_WORDS = 10  # of a list
BATCH_TOKENS = 8_192

Array = NDArray[np.floating]


@dataclass(frozen=True)
class LearnedWord:
    """What a word added to the logit of a label, in all texts."""

    word: str  # as the tokenizer makes it; in a pair with the text that it stands in
    mean: float  # over its occurrences
    count: int  # number of these
    example: tuple[str, str, str]  # where it added, or took, most: before it, the word, after it


@dataclass(frozen=True)
class LearnedLabel:
    """The words that spoke for a label, and those against it, the strongest first."""

    label: str
    num_texts: int  # for which the label is predicted; for a number, all
    words_for: list[LearnedWord]
    words_against: list[LearnedWord]


@dataclass(frozen=True)
class LearnedPart:
    """What a part of the model reads and adds: a hop, or several that read the same."""

    hops: list[int]  # from 0; none for the words by themselves, the linear part
    words: list[tuple[str, float]]  # the most read ones, each with its share of the attention
    size: float  # of what it adds to a logit, mean over texts, labels and hops
    label: str | None  # for which it speaks in most texts, if there is one


@dataclass(frozen=True)
class LearnedWords:
    """What `read_learned_words` returns."""

    kind: str  # what the model answers, as in the results of the pipeline
    num_texts: int  # that were read
    num_left_out: int  # further ones
    labels: list[LearnedLabel]  # the `MAX_LABELS` most frequent ones, in the order of their ids
    num_labels: int  # of the model
    parts: list[LearnedPart]


def read_learned_words(
    reader: Pipeline,
    inputs: Sequence[object],
    *,
    max_tokens: float = math.inf,
    num_words: int = NUM_WORDS,
) -> LearnedWords:
    """Read texts with a classifier, and sum up what their words added to its labels.

    Every text explains each of the `MAX_LABELS` labels that are predicted most often. A word is
    listed if it occurs at least `LEAST_COUNT` times. Hops read the same if the cosine between the
    shares of attention that they give to each word is `SAME_READING` or more. The same texts give
    the same result.

    Args:
        reader: The `self-attention` pipeline of a classifier.
        inputs: Texts, or pairs as dicts with `text` and `text_pair`.
        max_tokens: Read only the first inputs that have about so many tokens, each counted once for
            each label that is explained.
        num_words: How many words a list has at most.

    Raises:
        ValueError: As the pipeline and `explain` do: the model has no contributions, such as a
            ranker, or an input is no text.
    """
    model = reader.model
    answers = answers_of(model.config)
    num_labels = len(answers.names)
    corpus = WordCorpus(reader, inputs, max_tokens / min(num_labels, MAX_LABELS))
    num_texts = len(corpus.texts)
    num_predicted, shares = _attended(model, answers, corpus)
    most_frequent = np.argsort(-num_predicted, kind="stable")[:MAX_LABELS]
    labels = []
    means = []
    for label in sorted(most_frequent.tolist()):
        added, of_parts = _explained(model, corpus, label)
        means.append(of_parts)
        labels.append(
            LearnedLabel(
                label=answers.names[label],
                num_texts=int(num_predicted[label]),
                words_for=_strongest_words(corpus, added, 1, num_words),
                words_against=_strongest_words(corpus, added, -1, num_words),
            )
        )
    added_by_parts = np.array(means)  # (K, 2, P)
    names = [label.label for label in labels]
    parts = []
    for hops in same_hops(shares):
        read = _most_read(corpus, shares[:, hops].mean(1), num_words)
        voice = _voice(answers, names, added_by_parts[:, :, hops].mean(2))
        parts.append(LearnedPart(hops, read, *voice))
    if model.linear_part is not None:
        parts.append(LearnedPart([], [], *_voice(answers, names, added_by_parts[:, :, -1])))
    return LearnedWords(
        kind=answers.kind,
        num_texts=num_texts,
        num_left_out=len(inputs) - num_texts,
        labels=labels,
        num_labels=num_labels,
        parts=parts,
    )


def _batches(corpus: WordCorpus, device: torch.device) -> Iterator[tuple[dict[str, Tensor], Ids]]:
    """Yield texts of similar length as tensors, and which of the N words, or -1, each token is in.

    All are (B, T).
    """
    batches = list(batches_by_length(list(map(len, corpus.word_of_token)), BATCH_TOKENS))
    for numbers in logging.tqdm(batches, desc="Explaining", delay=1):
        encoded = [corpus.encoded[number] for number in numbers]
        tensors = {
            name: pad_sequence([text[name] for text in encoded], batch_first=True).to(device)
            for name in encoded[0]
        }
        words = [corpus.word_of_token[number] for number in numbers]
        yield tensors, pad_sequence(words, batch_first=True, padding_value=-1).numpy()


@torch.no_grad()
def _attended(model: Any, answers: Answers, corpus: WordCorpus) -> tuple[Ids, Array]:
    """Return for how many texts each label is predicted, (L,), and what hops read.

    The latter is the share of its attention that each hop gave to each word, (V, r). A number is
    predicted for all texts.
    """
    num_predicted = np.zeros(len(answers.names), dtype=np.int64)
    num_hops = model.config.num_hops
    words = np.append(corpus.words, -1)  # of tokens without a word: behind all V words
    read = np.zeros((len(corpus.names) + 1, num_hops))
    for tensors, words_of_tokens in _batches(corpus, model.device):
        with torch.autocast(model.device.type, enabled=False):
            outputs = model(**tensors, output_attentions=True)
        logits = outputs.logits.float().cpu()
        if not answers.has_labels:
            num_predicted += len(logits)
        elif answers.has_one_label:
            num_predicted += np.bincount(logits.argmax(1), minlength=len(num_predicted))
        else:
            num_predicted += answers.chosen(logits).sum(0).numpy()
        attention = outputs.attentions[0].cpu().double()  # (B, r, T), or (B, 2, r, T) of pairs
        if attention.ndim == 4:
            attention = attention.sum(1)
        np.add.at(read, words[words_of_tokens], attention.transpose(1, 2).numpy())
    return num_predicted, read[:-1] / np.maximum(read.sum(0), np.finfo(float).tiny)


def _explained(model: Any, corpus: WordCorpus, label: int) -> tuple[Array, Array]:
    """Return what each word added to a label, (N,), and what the parts of the model added, (2, P).

    The latter are means over the texts, of what was added and of the sizes of it.
    """
    added = np.zeros(len(corpus.words) + 1)  # last: that of tokens without a word
    of_parts = np.zeros((2, model.config.num_hops + 1))
    for tensors, words_of_tokens in _batches(corpus, model.device):
        size = len(words_of_tokens)
        labels = torch.full((size,), label, device=model.device)
        why = explain(model, **tensors, labels=labels)
        np.add.at(added, words_of_tokens, why.words.double().cpu().numpy())
        # Each text of a pair has its own.
        hops = why.contributions.sum(-1).reshape(size, -1, model.config.num_hops).sum(1)
        linear = why.linear.sum(1, keepdim=True)
        parts = torch.cat([hops, linear], 1).double().cpu()
        of_parts += torch.stack([parts.sum(0), parts.abs().sum(0)]).numpy()
    return added[:-1], of_parts / max(len(corpus.texts), 1)


def _strongest_words(
    corpus: WordCorpus, added: Array, sign: int, num_words: int
) -> list[LearnedWord]:
    """Return the words that added most to a label, or with a sign of -1 took most."""
    sums: Array = np.bincount(corpus.words, sign * added, len(corpus.names)).astype(float)
    words = []
    for word in strongest(sums, corpus.counts, num_words).tolist():
        occurrences = np.flatnonzero(corpus.words == word)
        best = occurrences[np.argmax(sign * added[occurrences])]
        mean = float(added[occurrences].mean())
        example = corpus.example(best)
        words.append(LearnedWord(corpus.names[word], mean, len(occurrences), example))
    return words


def strongest(sums: NDArray[Any], counts: Ids, num_words: int) -> Ids:
    """Return which words added most, given what each added and how often it occurs, (V,) each."""
    fits = np.flatnonzero((counts >= LEAST_COUNT) & (sums > 0))
    strengths = sums[fits] / (counts[fits] + COUNT_WITHOUT_EFFECT)
    return fits[np.argsort(-strengths, kind="stable")[:num_words]]


def _most_read(corpus: WordCorpus, shares: Array, num_words: int) -> list[tuple[str, float]]:
    """Return the words with the largest shares (V,) of the attention, each with its share."""
    order = np.argsort(-shares, kind="stable")[:num_words]
    return [(corpus.names[word], float(shares[word])) for word in order]


def _voice(answers: Answers, names: Sequence[str], means: Array) -> tuple[float, str | None]:
    """Return the size of what a part adds, and the label for which it speaks, if there is one.

    The means over texts, (K, 2), are those of what it added to each label, and of the sizes of it.
    """
    added, sizes = means.T
    best = int(np.argmax(added))
    speaks = answers.kind != REGRESSION and added[best] > LEAST_LEANING * sizes[best]
    return float(sizes.mean()), names[best] if speaks else None


def same_hops(shares: Array) -> list[list[int]]:
    """Return groups of hops that read the same, given what each gives to each word, (V, r).

    In a group the cosine between any two is `SAME_READING` or more. A hop joins the first group
    that it fits.
    """
    lengths = np.maximum(np.linalg.norm(shares, axis=0), np.finfo(float).tiny)
    directions = shares / lengths
    cosines = directions.T @ directions
    groups: list[list[int]] = []
    for hop in range(shares.shape[1]):
        for group in groups:
            if cosines[hop, group].min() >= SAME_READING:
                group.append(hop)
                break
        else:
            groups.append([hop])
    return groups
