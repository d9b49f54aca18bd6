"""Does a model need the words that it is said to have learned, and does another seed learn them?

The words of a label, those that spoke for it most, are removed from all texts; the accuracy should
fall further than without random words of the same frequency, and than without the words of a linear
model. The attention mask removes a word: the model reads the rest exactly as a text without it.

The linear model is a logistic regression over the words of the training texts. Its words are chosen
as those of the model are, with its weight for what a word adds each time.

Shapes: B texts, L labels, V different words of these texts, W of the training texts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Pipeline
from transformers.utils import logging

from sase_hf.data.batching import batches_by_length, rows_for_model
from sase_hf.models.answers import answers_of
from sase_hf.models.pipeline_self_attentive import with_whole_characters
from sase_hf.utils.errors import refusal
from sase_hf.utils.loading import load_pipeline
from sase_hf.visualization import learned_words
from sase_hf.visualization.attended_text import whole_words
from sase_hf.visualization.learned_words import (
    SIDES,
    LearnedLabel,
    LearnedWords,
    certainty,
    read_learned_words,
    word_name,
)

from .dataset import draw_rows

NUM_NEAR = 10  # words whose counts are nearest to that of a word; one of them is drawn in its place
BATCH_TOKENS = 16_384

WordSet = NDArray[np.bool_]  # which of the V words are in it, (V,)
Ids = NDArray[np.integer]


@dataclass(frozen=True)
class WordCorpus:
    """The N words of some texts, of which V are different, as `read_learned_words` names them.

    encoded: of each text what the model reads of its T tokens.
    word_of_token: of each text which of the N words each token is in, (T,); -1 for none.
    words: which of the V words each of the N is, (N,).
    texts: of each of the N the number of its text, (N,).
    names: of each of the V.
    """

    encoded: list[dict[str, Tensor]]
    word_of_token: list[Tensor]
    words: Ids
    texts: list[int]
    names: list[str]

    @property
    def counts(self) -> Ids:
        """How often each of the V words occurs, (V,)."""
        return np.bincount(self.words, minlength=len(self.names))


def read_corpus(reader: Any, inputs: Sequence[Any]) -> WordCorpus:
    """Return the words of the inputs of a `self-attention` pipeline."""
    ids: dict[str, int] = {}
    words: list[int] = []
    texts: list[int] = []
    all_encoded = []
    word_of_tokens = []
    for number, input_ in enumerate(inputs):
        found = reader.preprocess(input_)
        is_real = found["attention_mask"][0].bool()
        names = ("input_ids", "token_type_ids", "attention_mask")
        encoded = {name: found[name][0][is_real] for name in names}
        word_of_token = torch.full_like(encoded["input_ids"], -1)
        for side, text in enumerate(found["texts"]):
            tokens = (encoded["token_type_ids"] == side).nonzero().flatten()
            offsets = with_whole_characters(text, [found["offsets"][token] for token in tokens])
            of_pair = SIDES[side] if len(found["texts"]) > 1 else ""
            for tokens_of_word, (start, end) in zip(*whole_words(text, offsets), strict=True):
                name = word_name(text[start:end], reader.tokenizer)
                if name.strip():
                    word_of_token[tokens[tokens_of_word]] = len(words)
                    words.append(ids.setdefault(name + of_pair, len(ids)))
                    texts.append(number)
        all_encoded.append(encoded)
        word_of_tokens.append(word_of_token)
    return WordCorpus(all_encoded, word_of_tokens, np.array(words, dtype=int), texts, list(ids))


@dataclass(frozen=True)
class LabelledTexts:
    """Texts or pairs with the ids of their labels, (B,), as a model reads them.

    `sources` is as in `Rows`.
    """

    reader: Pipeline
    inputs: list[Any]
    labels: Tensor
    sources: dict[str, dict[str, Any]]

    def corpus(self) -> WordCorpus:
        """Return the words of the texts."""
        return read_corpus(self.reader, self.inputs)

    @property
    def model(self) -> Any:
        """The classifier."""
        return self.reader.model


def load_labelled_texts(
    checkpoint: str,
    file: str,
    *,
    split: str = "validation",
    max_samples: int | None = None,
    seed: int = 42,
    reader: Pipeline | None = None,
    **columns: Any,
) -> LabelledTexts:
    """Load a classifier, unless its `reader` is given, and `max_samples` rows drawn at random.

    The `columns` are those of `rows_for_model`. ValueError if texts do not have exactly one label.
    """
    reader = reader or load_pipeline(checkpoint)
    answers = answers_of(reader.model.config)
    if not answers.has_one_label:
        raise refusal(
            f"{checkpoint} does not predict exactly one label for each text, so it has no accuracy",
            "name a model that does",
        )
    of_file = rows_for_model(checkpoint, reader.model, file, **columns)
    rows = of_file.splits["test"]
    if "label" not in rows.column_names:
        raise refusal(f"{file} has no labels", "give --label_column_name")
    rows = draw_rows(rows, max_samples, seed)
    labels = answers.labels(torch.tensor(rows["label"][:]))
    inputs = rows.remove_columns("label").to_list()
    if not reader.model.reads_pairs and "text_pair" not in rows.column_names:
        inputs = [row["text"] for row in inputs]
    sources = {split: {**of_file.sources["test"], "rows": rows.num_rows}}
    return LabelledTexts(reader, inputs, labels, sources)


def measure_learned(
    texts: LabelledTexts,
    train: LabelledTexts | None,
    *,
    num_words: int,
    random_draws: int,
    seed: int,
) -> tuple[dict[str, Any], LearnedWords]:
    """Measure the accuracy without the words of each label; return also what was learned.

    Returns `metrics`: the `accuracy`, and for the words of the model (`own`), as frequent ones
    (`random`, mean over the draws) and those of the linear model (`linear`, if there are `train`
    texts) `without_<name>`, the accuracy without the words of one label, mean over the labels;
    `without_all_<name>` without those of all labels; and `removed_<name>`, the share of all words
    that the latter are. `by_label`: what `without_<name>` is the mean of.
    """
    learned = read_learned_words(texts.reader, texts.inputs, num_words=num_words)
    corpus = texts.corpus()
    sets = {"own": [_word_set(corpus, _words_for(label)) for label in learned.labels]}
    if train is not None:
        of_labels = linear_words(corpus, train, texts.model.config.num_labels, num_words)
        ids = texts.model.config.label2id
        sets["linear"] = [of_labels[ids[label.label]] for label in learned.labels]
    rng = np.random.default_rng(seed)
    for draw in range(random_draws):
        sets[f"random {draw}"] = [
            words_as_frequent(of_label, corpus.counts, rng) for of_label in sets["own"]
        ]
    # Of each draw the accuracies without the words of each label, and then of all.
    accuracies: dict[str, list[list[float]]] = {}
    shares: dict[str, list[float]] = {}
    for name, of_labels in logging.tqdm(sets.items(), desc="Removing words"):
        all_words = np.any(of_labels, axis=0)
        kind = name.partition(" ")[0]
        without = [accuracy_without(texts, corpus, words) for words in (*of_labels, all_words)]
        accuracies.setdefault(kind, []).append(without)
        share = corpus.counts[all_words].sum() / max(corpus.counts.sum(), 1)
        shares.setdefault(kind, []).append(float(share))
    nothing = np.zeros(len(corpus.names), dtype=bool)
    metrics = {"accuracy": accuracy_without(texts, corpus, nothing)}
    by_label = {}
    for kind, of_draws in accuracies.items():
        *without_one, without_all = np.mean(of_draws, axis=0).tolist()
        metrics[f"without_{kind}"] = float(np.mean(without_one))
        metrics[f"without_all_{kind}"] = without_all
        metrics[f"removed_{kind}"] = float(np.mean(shares[kind]))
        names = (label.label for label in learned.labels)
        by_label[kind] = dict(zip(names, without_one, strict=True))
    return {"metrics": metrics, "by_label": by_label}, learned


def overlaps(learned: Mapping[str, LearnedWords]) -> dict[str, float]:
    """Return for each label how alike the lists of several models are.

    That is the number of words that two models both list, over that of those that either lists,
    mean over all pairs of models. The models read the same texts.
    """
    found: dict[str, list[float]] = {}
    for models in combinations(learned.values(), 2):
        one, other = ({label.label: set(_words_for(label)) for label in m.labels} for m in models)
        for label, words in one.items():
            words_of_other = other.get(label, set())
            either = words | words_of_other
            share = len(words & words_of_other) / len(either) if either else 0.0
            found.setdefault(label, []).append(share)
    return {label: float(np.mean(shares)) for label, shares in found.items()}


def _words_for(label: LearnedLabel) -> list[str]:
    """Return the words that spoke for a label."""
    return [word.word for word in label.words_for]


def _word_set(corpus: WordCorpus, words: Sequence[str]) -> WordSet:
    """Return where words are among those of a corpus."""
    return np.isin(corpus.names, words)


def _set_of(places: Sequence[int], num_words: int) -> WordSet:
    words = np.zeros(num_words, dtype=bool)
    words[list(places)] = True
    return words


def words_as_frequent(words: WordSet, counts: Ids, rng: np.random.Generator) -> WordSet:
    """Return other words in the place of some, each drawn among the `NUM_NEAR` nearest by count."""
    is_free = ~words
    drawn = []
    for word in np.flatnonzero(words).tolist():
        free = np.flatnonzero(is_free)
        distances = np.abs(counts[free] - counts[word])
        nearest = free[np.argsort(distances, kind="stable")[:NUM_NEAR]]
        if len(nearest):
            chosen = int(rng.choice(nearest))
            is_free[chosen] = False
            drawn.append(chosen)
    return _set_of(drawn, len(words))


def linear_words(
    corpus: WordCorpus, train: LabelledTexts, num_labels: int, num_words: int
) -> list[WordSet]:
    """Return the words for each label by a logistic regression over the words of training texts.

    ValueError if all of these have the same label.
    """
    if len(train.labels.unique()) < 2:
        raise refusal(
            "the training rows of the linear model have one label only",
            "give --train_file rows of several labels, or leave it out",
        )
    of_train = train.corpus()
    shape = (len(of_train.encoded), len(of_train.names))
    places = (of_train.texts, of_train.words)
    counts = csr_array((np.ones(len(of_train.words)), places), shape=shape)
    occurs = counts.sign()  # whether a word occurs, however often
    regression = LogisticRegression(max_iter=1000).fit(occurs, train.labels.numpy())
    weights = np.zeros((num_labels, len(of_train.names)))
    coefficients = regression.coef_
    if len(coefficients) == 1:  # one row for two labels
        coefficients = np.concatenate([-coefficients, coefficients])
    weights[regression.classes_] = coefficients
    place_of = {name: place for place, name in enumerate(of_train.names)}
    known = np.array([place_of.get(name, -1) for name in corpus.names])
    frequent = np.flatnonzero(corpus.counts >= learned_words.LEAST_COUNT)
    sets = []
    for of_label in weights:
        of_words = np.where(known >= 0, of_label[known], 0.0)
        strengths = (of_words * certainty(corpus.counts))[frequent]
        strongest_first = np.argsort(-strengths, kind="stable")[:num_words]
        order = frequent[strongest_first[strengths[strongest_first] > 0]]
        sets.append(_set_of(order.tolist(), len(corpus.names)))
    return sets


@torch.no_grad()
def accuracy_without(texts: LabelledTexts, corpus: WordCorpus, removed: WordSet) -> float:
    """Return the accuracy of a model that does not read the removed words."""
    model = texts.model
    predicted = torch.zeros(len(corpus.encoded), dtype=torch.long)
    for numbers, batch in _batches(corpus, removed):
        on_device = {name: tensor.to(model.device) for name, tensor in batch.items()}
        predicted[numbers] = model(**on_device).logits.argmax(1).cpu()
    return float((predicted == texts.labels).double().mean())


def _batches(corpus: WordCorpus, removed: WordSet) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
    """Yield the numbers of texts and their batch, whose mask hides the removed words."""
    lengths = [len(encoded["input_ids"]) for encoded in corpus.encoded]
    for numbers in batches_by_length(lengths, BATCH_TOKENS):
        rows = []
        for number in numbers:
            words = corpus.word_of_token[number]
            is_removed = (words >= 0).numpy() & removed[corpus.words[words]]
            mask = torch.from_numpy(~is_removed).long()
            rows.append({**corpus.encoded[number], "attention_mask": mask})
        yield numbers, {name: _padded([row[name] for row in rows]) for name in rows[0]}


def _padded(rows: Sequence[Tensor]) -> Tensor:
    """Return numbers of texts as the rows of a batch, zeros behind them; at least one column."""
    padded = pad_sequence(list(rows), batch_first=True)
    return padded if padded.shape[1] else padded.new_zeros(len(rows), 1)
