"""What a classifier learned: the sums of what the pipeline says about single texts."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_model

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.models.answers import MULTI_LABEL, REGRESSION
from sase_hf.utils.loading import attention_pipeline
from sase_hf.visualization import attended_text, learned_words
from sase_hf.visualization.learned_words import LearnedLabel, LearnedWord, read_learned_words

TEXTS = [
    "The soup was good, and the bread was good!",
    "A cold soup.",
    "the soup",
    "Good bread? No bread; cold soup and cold bread.",
    "",
    "Nobody was there.",
    "and the bread was cold",
]
PAIRS = [
    {"text": "The soup is cold.", "text_pair": "A cold soup."},
    {"text": "A cold day, and a dog.", "text_pair": "No dog is cold."},
    {"text": "cold", "text_pair": ""},
    {"text": "", "text_pair": "cold dog"},
    {"text": "dog", "text_pair": "dog and cold dog"},
]
LABELS = {0: "bad", 1: "fair", 2: "good"}
RARE = learned_words.COUNT_WITHOUT_EFFECT


@pytest.fixture(autouse=True)
def with_rare_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists hold every word, however rare or weak, unless a test says otherwise."""
    monkeypatch.setattr(learned_words, "LEAST_COUNT", 1)
    for limit, least in (("MIN_ADDED", 0), ("SHOWN_AS_ZERO", 1e-9)):
        monkeypatch.setattr(attended_text, limit, least)


def reader_of(
    texts: Sequence[str], model_class: Any = SelfAttentiveForSequenceClassification, **fields: Any
) -> Any:
    """Return the pipeline of a random model that knows the words of some texts."""
    torch.manual_seed(0)
    level = fields.pop("level", "word")
    options = fields.pop("tokenizer", {})
    tokenizer = build_tokenizer(texts, level=level, **options)
    fields = {"id2label": LABELS, **fields}
    model = tiny_model(model_class, vocab_size=len(tokenizer), **fields)
    return attention_pipeline(model, tokenizer)


def listed(label: LearnedLabel) -> list[LearnedWord]:
    """Return all words of a label."""
    return [*label.words_for, *label.words_against]


def numbers_of(label: LearnedLabel) -> dict[str, tuple[float, int]]:
    """Return what each word of a label added on average, and how often it occurs."""
    return {word.word: (word.mean, word.count) for word in listed(label)}


def expected_numbers(
    reader: Any, inputs: Sequence[Any], label: str
) -> dict[str, tuple[float, int]]:
    """Return the same from the pipeline's results, text by text and token by token."""
    added = defaultdict(list)
    for input_ in inputs:
        result = reader(input_, target=label)
        sides = [""]
        tokens, numbers = [result["tokens"]], [result["word_contributions"]]
        if isinstance(input_, dict):
            sides = [" (1st)", " (2nd)"]
            tokens, numbers = result["tokens"], result["word_contributions"]
        for side, names, of_names in zip(sides, tokens, numbers, strict=True):
            for name, number in zip(names, of_names, strict=True):
                added[name.lower() + side].append(number)
    return {name: (np.mean(found), len(found)) for name, found in added.items() if sum(found)}


def assert_sums_up(label: LearnedLabel, reader: Any, inputs: Sequence[Any]) -> None:
    """Check that a label has what the pipeline says of the words of each text."""
    actual, expected = numbers_of(label), expected_numbers(reader, inputs, label.label)
    assert actual.keys() == expected.keys()
    for key, (mean, count) in expected.items():
        assert actual[key][0] == pytest.approx(mean, abs=1e-4)
        assert actual[key][1] == count


KINDS = {
    "one of three": {},
    "one of two": {"id2label": {0: "bad", 1: "good"}},
    "several": {"problem_type": MULTI_LABEL},
    "numbers": {"problem_type": REGRESSION, "id2label": {0: "stars", 1: "price"}},
    "linear": {"linear_part": "words_and_pairs"},
    "cnn": {"encoder": "cnn"},
}


@pytest.mark.parametrize("fields", KINDS.values(), ids=KINDS)
def test_learned_words_sum_up_what_the_pipeline_says_of_each_text(fields: dict[str, Any]) -> None:
    reader = reader_of(TEXTS, **fields)
    learned = read_learned_words(reader, TEXTS)
    assert [label.label for label in learned.labels] == list(reader.model.config.id2label.values())
    for label in learned.labels:
        assert_sums_up(label, reader, TEXTS)
        for words in (label.words_for, label.words_against):
            weights = [abs(word.mean) * word.count / (word.count + RARE) for word in words]
            assert weights == sorted(weights, reverse=True), "the strongest first"


@pytest.mark.parametrize("fields", [{}, {"linear_part": "words_and_pairs"}])
def test_learned_words_of_pairs_tell_the_two_texts_apart(fields: dict[str, Any]) -> None:
    texts = [text for pair in PAIRS for text in pair.values()]
    reader = reader_of(texts, SelfAttentiveForNLI, **fields)
    learned = read_learned_words(reader, PAIRS)
    for label in learned.labels:
        assert_sums_up(label, reader, PAIRS)


def test_learned_words_explain_the_most_frequent_of_many_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learned_words, "MAX_LABELS", 2)
    names = {number: f"topic {number}" for number in range(11)}
    reader = reader_of(TEXTS, id2label=names)
    learned = read_learned_words(reader, TEXTS)
    assert len(learned.answers.names) == 11
    predicted = Counter(reader(text)["label"] for text in TEXTS)
    shown = {label.label: label.num_texts for label in learned.labels}
    assert list(shown.values()) == [predicted[name] for name in shown]
    assert sorted(shown.values()) == sorted([*predicted.values(), 0])[-2:]
    for label in learned.labels:
        assert_sums_up(label, reader, TEXTS)


CAFE = "caf\N{LATIN SMALL LETTER E WITH ACUTE}"


@pytest.mark.parametrize(
    ("texts", "fields", "expected"),
    [
        (
            ["Unreadable reads", "unread reads"],
            {"level": "subword"},
            "unreadable reads unread reads",
        ),
        (["They won't."], {"tokenizer": {"lowercase": True}}, "they won't ."),
        (["Good", "good"], {}, "good good"),
        (["Good", "good"], {"tokenizer": {"lowercase": False}}, "Good good"),
        (["cafe\N{COMBINING ACUTE ACCENT} open", CAFE], {}, f"{CAFE} open {CAFE}"),
    ],
    ids=["pieces", "letters that meet", "lower case", "cased", "accents"],
)
def test_learned_words_are_whole_and_as_the_tokenizer_makes_them(
    texts: list[str], fields: dict[str, Any], expected: str
) -> None:
    reader = reader_of(["un read able s", *texts] * 30, **fields)
    learned = read_learned_words(reader, texts)
    counts = {name: count for name, (_, count) in numbers_of(learned.labels[0]).items()}
    assert counts == Counter(expected.split())
