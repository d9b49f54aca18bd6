"""What a classifier learned: the words that spoke for and against each label, and what hops read.

Each word of each text added something to the logit of a label (`explain`). Over many texts these
numbers say which words drive a label. A word is a whole word, as on all pages, whatever its tokens
are; two words are the same if the tokenizer makes the same text of them, such as "The" and "the".
In a pair, a word of the first text is not the same as that word in the second one.

Punctuation (no letter and no digit) and words that the model does not know are kept apart, and rare
words are left out: what a word added in one text is chance.

Shapes: B texts, T tokens, r hops, L labels, V different words, N words of all texts, P passes.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Pipeline
from transformers.utils import logging

from ..data.batching import batches_by_length
from ..models.answers import Answers, answers_of
from ..models.contributions_self_attentive import Contributions, explain
from .word_corpus import Example, Ids, WordCorpus

MAX_EXPLAINED_LABELS = 10  # of more labels, each text explains the predicted one only
LEAST_COUNT = 3  # occurrences of a word in the lists
LEAST_SHARE = 0.001  # occurrences of a word in the lists, over the texts
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
    """What a word added to the logit of a label, in all texts that explain this label."""

    word: str  # in its most frequent spelling
    side: int | None  # 0 for the first text of a pair, 1 for the second; None if texts are single
    added: float  # sum over its occurrences
    count: int  # number of these occurrences
    example: Example  # the occurrence that added most, or took most

    @property
    def mean(self) -> float:
        """What it added each time, on average."""
        return self.added / self.count


@dataclass(frozen=True)
class LearnedLabel:
    """The words that spoke for a label, and those against it, the strongest first.

    The order is that of `added / (count + COUNT_WITHOUT_EFFECT)`.
    """

    label: str
    num_texts: int  # for which the label is predicted; for a number, all
    words_for: list[LearnedWord]
    words_against: list[LearnedWord]
    punctuation: list[LearnedWord]  # for or against, the strongest first
    unknown: LearnedWord | None  # all words that the model does not know, as one


@dataclass(frozen=True)
class Voice:
    """What a part of the model added to the logits, over all texts."""

    added: dict[str, float]  # label -> what it added, mean over the texts
    size: float  # the size of what it added, mean over texts and labels
    # The label for which it speaks in most texts, or the number that it moves in one direction;
    # None if it speaks for one label here, for another there.
    label: str | None


@dataclass(frozen=True)
class LearnedHop:
    """What one hop reads, or several that read the same: means over these hops."""

    hops: list[int]  # from 0
    words: list[tuple[str, float]]  # the most read ones, each with its share of the attention
    punctuation: float  # its share
    unknown: float  # its share
    voice: Voice


@dataclass(frozen=True)
class LearnedWords:
    """What `read_learned_words` returns."""

    kind: str  # what the model answers, as in the results of the pipeline
    num_texts: int  # that were read
    num_left_out: int  # further texts, which were not drawn
    is_pair: bool
    explains_predicted: bool  # whether each text explains only the predicted label
    least_count: int  # occurrences of a word that is listed
    num_rare: int  # different words that occur less often
    labels: list[LearnedLabel]  # in the order of their ids
    hops: list[LearnedHop]
    linear: Voice | None  # of the words themselves, the linear part; None without one


def read_learned_words(
    reader: Pipeline,
    inputs: Sequence[object],
    *,
    max_tokens: int | None = None,
    num_words: int = NUM_WORDS,
    seed: int = 0,
) -> LearnedWords:
    """Read texts with a classifier, and sum up what their words added to its labels.

    Every text explains every label: one pass forward and back for each of up to
    `MAX_EXPLAINED_LABELS` labels, or one for two labels, where what speaks for one speaks against
    the other. Of more labels a text explains the predicted one only. The same texts and seed give
    the same result.

    A word is listed if it occurs at least `LEAST_COUNT` times, and at least `LEAST_SHARE` times the
    number of the texts that explain a label. Hops read the same if the cosine between the shares of
    attention that they give to each word is `SAME_READING` or more.

    Args:
        reader: The `self-attention` pipeline of a classifier.
        inputs: Texts, or pairs as dicts with `text` and `text_pair`.
        max_tokens: Read only so many texts, drawn at random, that they have about so many tokens,
            each counted in each pass, a text as at least `word_corpus.LEAST_TOKENS`; None reads
            all.
        num_words: How many words a list has at most.
        seed: Of the draw.

    Raises:
        ValueError: As the pipeline and `explain` do: the model has no contributions, such as a
            ranker, or an input is no text.
    """
    answers = answers_of(reader.model.config)
    if max_tokens is not None:
        max_tokens //= len(_passes(answers))
    corpus = WordCorpus(reader, inputs, max_tokens, seed)
    num_texts = len(corpus.texts)
    read = _read(reader.model, corpus)
    explains_predicted = _explains_predicted(answers)
    has_linear = reader.model.linear_part is not None
    num_explaining = num_texts // len(answers.names) if explains_predicted else num_texts
    listed = listed_words(corpus, max(LEAST_COUNT, round(LEAST_SHARE * num_explaining)), num_words)
    return LearnedWords(
        kind=answers.kind,
        num_texts=num_texts,
        num_left_out=len(inputs) - num_texts,
        is_pair=corpus.is_pair,
        explains_predicted=explains_predicted,
        least_count=listed.least_count,
        num_rare=int((listed.is_word & (listed.counts < listed.least_count)).sum()),
        labels=_labels(answers, corpus, read, listed),
        hops=_hops(answers, corpus, read, listed),
        linear=_voice(answers, read.linear, num_texts) if has_linear else None,
    )


def _explains_predicted(answers: Answers) -> bool:
    """Return whether each text explains only the label that is predicted for it."""
    return answers.has_labels and len(answers.names) > MAX_EXPLAINED_LABELS


class _Read(NamedTuple):
    """What the model read and why, in P passes.

    labels: the label that each input explains in each pass, (P, B).
    added: what each word added to it, (P, N).
    predicted: whether each label is predicted for each input, (B, L).
    attention: what each hop gave to each word, sum over all texts, (V, r).
    attention_of_all: the same of all tokens, those without a word as well, (r,).
    hops: what each hop added to each label, and the sizes of that, sums over all texts, (2, L, r).
    linear: the same of the words by themselves, (2, L).
    """

    labels: Ids
    added: Array
    predicted: NDArray[np.bool_]
    attention: Array
    attention_of_all: Array
    hops: Array
    linear: Array


def _read(model: Any, corpus: WordCorpus) -> _Read:
    """Read and explain all texts of a corpus, in batches of similar length."""
    answers = answers_of(model.config)
    num_labels = len(answers.names)
    num_texts = len(corpus.texts)
    passes = _passes(answers)
    num_hops = model.config.num_hops
    read = _Read(
        labels=np.zeros((len(passes), num_texts), dtype=np.int64),
        added=np.zeros((len(passes), len(corpus.words)), dtype=np.float32),
        predicted=np.zeros((num_texts, num_labels), dtype=bool),
        attention=np.zeros((len(corpus.spellings), num_hops)),
        attention_of_all=np.zeros(num_hops),
        hops=np.zeros((2, num_labels, num_hops)),
        linear=np.zeros((2, num_labels)),
    )
    lengths = [len(encoded["input_ids"]) for encoded in corpus.encoded]
    with logging.tqdm(total=num_texts, desc="Explaining", unit=" texts", delay=1) as bar:
        for numbers in batches_by_length(lengths, BATCH_TOKENS):
            batch = _padded([corpus.encoded[number] for number in numbers], model.device)
            _read_batch(model, answers, batch, numbers, corpus, read)
            bar.update(len(numbers))
    return read


def _passes(answers: Answers) -> list[int | None]:
    """Return the label that each pass explains; None for the predicted label of each text."""
    if _explains_predicted(answers):
        return [None]
    if answers.has_one_label and len(answers.names) == 2:
        return [1]
    return list(range(len(answers.names)))


def _padded(encoded: Sequence[dict[str, Tensor]], device: torch.device) -> dict[str, Tensor]:
    """Return texts as the rows of a batch, (B, T), zeros behind them."""
    batch = {}
    for name in ("input_ids", "token_type_ids"):
        batch[name] = pad_sequence([one[name] for one in encoded], batch_first=True)
    real = [torch.ones_like(one["input_ids"]) for one in encoded]
    batch["attention_mask"] = pad_sequence(real, batch_first=True)
    return {name: part.to(device) for name, part in batch.items()}


def _read_batch(
    model: Any,
    answers: Answers,
    batch: dict[str, Tensor],
    numbers: list[int],
    corpus: WordCorpus,
    read: _Read,
) -> None:
    """Add to `read` what a batch of texts, those with the `numbers`, says."""
    logits, attention = _attended(model, batch)  # (B, L), (B, r, T)
    read.predicted[numbers] = _predicted(answers, logits)
    # The tokens of the batch that are in a word: their places in it, and their words.
    word_of_token = np.full(batch["input_ids"].shape, -1)
    for row, number in enumerate(numbers):
        of_text = corpus.word_of_token[number]
        word_of_token[row, : len(of_text)] = of_text
    rows, tokens = np.nonzero(word_of_token >= 0)
    places = word_of_token[rows, tokens]
    read.attention_of_all[:] += attention.sum((0, 2))
    np.add.at(read.attention, corpus.words[places], attention[rows, :, tokens])
    for number_of_pass, label in enumerate(_passes(answers)):
        labels = logits.argmax(1) if label is None else torch.full((len(numbers),), label)
        labels = labels.to(model.device)
        # The hops of all labels come with the first pass.
        hop_labels = None if number_of_pass == 0 else labels[:1]
        explained = explain(model, **batch, labels=labels, hop_labels=hop_labels)
        read.labels[number_of_pass, numbers] = labels.cpu().numpy()
        added = explained.words.float().cpu().numpy()
        np.add.at(read.added[number_of_pass], places, added[rows, tokens])
        if number_of_pass == 0:
            _add_voices(model, explained, read)


def _add_voices(model: Any, explained: Contributions, read: _Read) -> None:
    """Add what the hops and the words by themselves added to each label of each text."""
    hops = explained.hops.cpu().double()  # (B, K, r), or (B, K, 2, r) of pairs
    linear = explained.linear_of_labels.cpu().double()  # (B, K), or (B, K, 2) of pairs
    if model.reads_pairs:
        linear = linear.sum(2)
    if hops.ndim == 4:
        hops = hops.sum(2)
    labels = explained.hop_labels.cpu().numpy()
    for sums, added in ((read.hops, hops.numpy()), (read.linear, linear.numpy())):
        np.add.at(sums[0], labels, added)
        np.add.at(sums[1], labels, np.abs(added))


@torch.no_grad()
def _attended(model: Any, batch: dict[str, Tensor]) -> tuple[Tensor, Array]:
    """Return the logits (B, L) of a batch, and the attention (B, r, T) of both texts of a pair."""
    with torch.autocast(model.device.type, enabled=False):
        outputs = model(**batch, output_attentions=True)
    attention = outputs.attentions[0].cpu().double()
    if attention.ndim == 4:  # a pair whose texts are read apart
        attention = attention.sum(1)
    return outputs.logits.float().cpu(), attention.numpy()


def _predicted(answers: Answers, logits: Tensor) -> NDArray[np.bool_]:
    """Return whether each label is predicted, (B, L); numbers all are."""
    if not answers.has_labels:
        return np.ones(logits.shape, dtype=bool)
    chosen = answers.chosen(logits)
    if answers.has_one_label:
        chosen = F.one_hot(chosen, logits.shape[1])
    return chosen.bool().numpy()


class Listed(NamedTuple):
    """Which of the V words have a place in a list.

    is_word: words with letters or digits that the model knows, (V,).
    is_punctuation: those without letters and digits, (V,).
    counts: how often each occurs in all texts, (V,).
    least_count: how often a listed one occurs.
    num_words: how many a list has at most.
    """

    is_word: NDArray[np.bool_]
    is_punctuation: NDArray[np.bool_]
    counts: Ids
    least_count: int
    num_words: int


def listed_words(corpus: WordCorpus, least_count: int, num_words: int) -> Listed:
    """Return which words of a corpus have a place in a list, if they occur often enough."""
    is_known = np.ones(len(corpus.spellings), dtype=bool)
    if corpus.unknown is not None:
        is_known[corpus.unknown] = False
    has_letters = [any(map(str.isalnum, spelling)) for spelling in corpus.spellings]
    is_named = np.array(has_letters, dtype=bool)
    counts = np.bincount(corpus.words, minlength=len(corpus.spellings))
    return Listed(is_known & is_named, is_known & ~is_named, counts, least_count, num_words)


def _labels(
    answers: Answers, corpus: WordCorpus, read: _Read, listed: Listed
) -> list[LearnedLabel]:
    """Return what was learned about each label."""
    num_predicted = read.predicted.sum(0)
    labels = []
    for label, name in enumerate(answers.names):
        # Of two labels, what speaks for one speaks against the other.
        is_opposite = label == 0 and _passes(answers) == [1]
        words = _WordsOfLabel(label, corpus, read, is_opposite)
        labels.append(
            LearnedLabel(
                label=name,
                num_texts=int(num_predicted[label]),
                words_for=words.strongest(listed, listed.is_word, sign=1),
                words_against=words.strongest(listed, listed.is_word, sign=-1),
                punctuation=words.strongest(listed, listed.is_punctuation),
                unknown=words.all_unknown(),
            )
        )
    return labels


class _WordsOfLabel:
    """What each of the V words added to the logit of a label, or took if it `is_opposite`."""

    def __init__(self, label: int, corpus: WordCorpus, read: _Read, is_opposite: bool) -> None:
        self.corpus = corpus
        explains = (read.labels != label) if is_opposite else (read.labels == label)  # (P, B)
        of_words = explains[:, corpus.places[:, 0]]  # (P, N)
        _, self.places = np.nonzero(of_words)
        self.values = -read.added[of_words] if is_opposite else read.added[of_words]
        self.words = corpus.words[self.places]
        num_words = len(corpus.spellings)
        self.sums = np.bincount(self.words, self.values, num_words)
        self.counts = np.bincount(self.words, minlength=num_words)

    def strongest(
        self, listed: Listed, is_chosen: NDArray[np.bool_], sign: int | None = None
    ) -> list[LearnedWord]:
        """Return the chosen words (V,) that added most on average, or with a sign of -1 took most.

        Without a sign they are those that did either.
        """
        sizes = np.abs(self.sums) if sign is None else sign * self.sums
        fits = is_chosen & (self.counts >= listed.least_count) & (sizes > 0)
        order = by_strength(sizes, self.counts, fits)
        return [self._learned(word) for word in order[: listed.num_words].tolist()]

    def all_unknown(self) -> LearnedWord | None:
        """Return all words that the model does not know as one; None if there are none."""
        unknown = self.corpus.unknown
        if unknown is None or not self.counts[unknown]:
            return None
        return self._learned(unknown)

    def _learned(self, word: int) -> LearnedWord:
        [occurrences] = np.nonzero(self.words == word)
        towards = 1 if self.sums[word] >= 0 else -1
        strongest = occurrences[np.argmax(towards * self.values[occurrences])]
        side, _ = self.corpus.keys[word]
        return LearnedWord(
            word=self.corpus.spellings[word],
            side=side,
            added=float(self.sums[word]),
            count=int(self.counts[word]),
            example=self.corpus.example(self.places[strongest]),
        )


def by_strength(sums: NDArray[Any], counts: Ids, is_listed: NDArray[np.bool_]) -> Ids:
    """Return the words that are listed, by what they added and how often they occur, (V,) each."""
    [words] = np.nonzero(is_listed)
    strengths = sums[words] / (counts[words] + COUNT_WITHOUT_EFFECT)
    order: Ids = words[np.argsort(-strengths, kind="stable")]
    return order


def _hops(answers: Answers, corpus: WordCorpus, read: _Read, listed: Listed) -> list[LearnedHop]:
    """Return what the hops read, those that read the same as one, the most read word first."""
    shares = read.attention / np.maximum(read.attention_of_all, np.finfo(float).tiny)  # (V, r)
    learned = []
    for hops in same_hops(shares):
        of_hops = shares[:, hops].mean(1)
        [words] = np.nonzero(listed.is_word & (listed.counts >= listed.least_count) & (of_hops > 0))
        share_of_word: dict[str, float] = defaultdict(float)
        for word in words.tolist():  # in a pair a word can stand in both texts
            share_of_word[corpus.spellings[word]] += float(of_hops[word])
        most_read = sorted(share_of_word.items(), key=lambda word_share: -word_share[1])
        unknown = 0.0 if corpus.unknown is None else float(of_hops[corpus.unknown])
        learned.append(
            LearnedHop(
                hops=hops,
                words=most_read[: listed.num_words],
                punctuation=float(of_hops[listed.is_punctuation].sum()),
                unknown=unknown,
                voice=_voice(answers, read.hops[:, :, hops].mean(2), len(corpus.texts)),
            )
        )
    return learned


def _voice(answers: Answers, sums: Array, num_texts: int) -> Voice:
    """Return what was added to the labels, given its sums over texts and those of sizes, (2, L)."""
    added, sizes = sums / max(num_texts, 1)
    # What speaks against all labels speaks for none; a number may be lowered.
    leaning = added if answers.has_labels else np.abs(added)
    strongest = int(np.argmax(leaning))
    leans = leaning[strongest] > LEAST_LEANING * sizes[strongest]
    return Voice(
        added=dict(zip(answers.names, added.tolist(), strict=True)),
        size=float(sizes.mean()),
        label=answers.names[strongest] if leans else None,
    )


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
