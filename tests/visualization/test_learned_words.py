"""What a classifier learned: the sums of what the pipeline says about single texts."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_model

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.models.answers import MULTI_LABEL, REGRESSION, answers_of_kind
from sase_hf.utils.loading import attention_pipeline
from sase_hf.visualization import learned_words
from sase_hf.visualization.learned_words import (
    LearnedLabel,
    LearnedWord,
    _voice,
    same_hops,
)

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


@pytest.fixture(autouse=True)
def with_rare_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists hold every word, however rare, unless a test says otherwise."""
    monkeypatch.setattr(learned_words, "LEAST_COUNT", 1)


# Lists hold every word.
read_learned_words = partial(learned_words.read_learned_words, num_words=1000)


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
    added: dict[str, list[float]] = defaultdict(list)
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


def assert_same_numbers(actual: dict[Any, Any], expected: dict[Any, Any]) -> None:
    assert actual.keys() == expected.keys()
    for key, (mean, count) in expected.items():
        assert actual[key][0] == pytest.approx(mean, abs=1e-4)
        assert actual[key][1] == count


KINDS: dict[str, dict[str, Any]] = {
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
        assert_same_numbers(numbers_of(label), expected_numbers(reader, TEXTS, label.label))


@pytest.mark.parametrize("fields", [{}, {"linear_part": "words_and_pairs"}])
def test_learned_words_of_pairs_tell_the_two_texts_apart(fields: dict[str, Any]) -> None:
    texts = [text for pair in PAIRS for text in pair.values()]
    reader = reader_of(texts, SelfAttentiveForNLI, **fields)
    learned = read_learned_words(reader, PAIRS)
    for label in learned.labels:
        assert_same_numbers(numbers_of(label), expected_numbers(reader, PAIRS, label.label))
    for hop in [part for part in learned.parts if part.hops]:
        assert sum(dict(hop.words).values()) == pytest.approx(1)


def test_learned_words_explain_the_most_frequent_of_many_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learned_words, "MAX_LABELS", 2)
    names = {number: f"topic {number}" for number in range(11)}
    reader = reader_of(TEXTS, id2label=names)
    learned = read_learned_words(reader, TEXTS)
    assert learned.num_labels == 11
    predicted = Counter(reader(text)["label"] for text in TEXTS)
    shown = {label.label: label.num_texts for label in learned.labels}
    assert list(shown.values()) == [predicted[name] for name in shown]
    assert sorted(shown.values()) == sorted([*predicted.values(), 0])[-2:]
    for label in learned.labels:
        assert_same_numbers(numbers_of(label), expected_numbers(reader, TEXTS, label.label))


def test_learned_words_put_the_strongest_first_and_few_occurrences_behind() -> None:
    learned = read_learned_words(reader_of(TEXTS), TEXTS)
    for label in learned.labels:
        for words, sign in ((label.words_for, 1), (label.words_against, -1)):
            strengths = [sign * word.mean * word.count / (word.count + 5) for word in words]
            assert strengths == sorted(strengths, reverse=True)
            assert all(strength > 0 for strength in strengths)


def test_learned_words_list_as_many_words_as_they_are_told() -> None:
    reader = reader_of(TEXTS)
    all_words = read_learned_words(reader, TEXTS)
    three = read_learned_words(reader, TEXTS, num_words=3)
    for long, short in zip(all_words.labels, three.labels, strict=True):
        assert short.words_for == long.words_for[:3]
        assert short.words_against == long.words_against[:3]
    assert all(len(part.words) == 3 for part in three.parts)


def test_learned_words_show_the_occurrence_that_added_most() -> None:
    reader = reader_of(TEXTS)
    learned = read_learned_words(reader, TEXTS)
    [bread] = [word for word in listed(learned.labels[0]) if word.word == "bread"]
    found = []
    for text in TEXTS:
        result = reader(text, target="bad")
        offsets = zip(result["offsets"], result["word_contributions"], strict=True)
        found += [
            (added, text[:start], text[end:])
            for (start, end), added in offsets
            if text[start:end] == "bread"
        ]
    choose = max if bread.mean > 0 else min
    _, before, after = choose(found)
    assert bread.example == (before, "bread", after)


def test_learned_words_cut_an_example() -> None:
    text = f"{'before ' * 20}soup{' behind' * 20}"
    learned = read_learned_words(reader_of([text]), [text])
    [soup] = [word for word in listed(learned.labels[0]) if word.word == "soup"]
    assert soup.example == (f"…{('before ' * 20)[-48:]}", "soup", f"{(' behind' * 20)[:48]}…")


def test_learned_words_join_pieces_to_whole_words() -> None:
    texts = ["unreadable readable unread", "reading unreadably reads"] * 30
    reader = reader_of(["un read able ing ly s"] * 30, level="subword")
    assert len(reader(texts[0])["tokens"]) > 3
    learned = read_learned_words(reader, texts)
    numbers = numbers_of(learned.labels[0])
    assert numbers.keys() == {word for text in texts for word in text.split()}
    result = reader(texts[0], target="bad")
    added = [0.0] * 3
    for word, number in zip(result["word_ids"], result["word_contributions"], strict=True):
        added[word] += number
    assert numbers["unread"] == (pytest.approx(added[2], abs=1e-4), 30)


def test_learned_words_join_parts_whose_letters_meet() -> None:
    """A tokenizer of words may cut them."""
    texts = ["They won't."]
    reader = reader_of(texts, tokenizer={"lowercase": True})
    assert len(reader(texts[0])["tokens"]) > 3
    assert numbers_of(read_learned_words(reader, texts).labels[0]).keys() == {"they", "won't", "."}


def test_learned_words_join_characters_to_words() -> None:
    """Those of scripts without spaces stay apart, as everywhere."""
    texts = ["Ab, ba", "a 1\u4f60\u597d", "cafe\u0301"]
    reader = reader_of(texts, level="character")
    learned = read_learned_words(reader, texts)
    words = {"ab", "ba", "a", "1", "\u4f60", "\u597d", "caf\u00e9", ","}
    assert numbers_of(learned.labels[0]).keys() == words
    result = reader(texts[0], target="bad")
    numbers = numbers_of(learned.labels[0])
    assert numbers["ab"] == (pytest.approx(sum(result["word_contributions"][:2])), 1)


@pytest.mark.parametrize(("lowercase", "expected"), [(True, {"good"}), (False, {"Good", "good"})])
def test_learned_words_are_the_same_if_the_tokenizer_makes_them_the_same(
    lowercase: bool, expected: set[str]
) -> None:
    texts = ["Good", "good", "Good"]
    reader = reader_of(texts, tokenizer={"lowercase": lowercase})
    label = read_learned_words(reader, texts).labels[0]
    assert {word.word for word in listed(label)} == expected


def test_learned_words_keep_the_accents_that_the_tokenizer_joins() -> None:
    texts = ["cafe\N{COMBINING ACUTE ACCENT} open", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"]
    label = read_learned_words(reader_of(texts), texts).labels[0]
    counts = {word.word: word.count for word in listed(label)}
    assert counts == {"open": 1, texts[1]: 2}


def test_learned_words_leave_rare_words_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_words, "LEAST_COUNT", 3)
    learned = read_learned_words(reader_of(TEXTS), TEXTS)
    for label in learned.labels:
        frequent = {"the", "soup", "was", "good", "bread", "cold", "and", "."}
        assert numbers_of(label).keys() == frequent


def test_learned_words_count_unknown_words_as_one() -> None:
    reader = reader_of(["the soup !"])
    texts = ["the soup ! a b", "the soup ! \N{PILE OF POO}"]
    learned = read_learned_words(reader, texts)
    for label in learned.labels:
        numbers = numbers_of(label)
        assert numbers.keys() == {"the", "soup", "!", "[UNK]"}
        assert numbers["[UNK]"][1] == 3


def test_learned_words_say_what_share_of_its_attention_a_hop_gives_a_word() -> None:
    reader = reader_of(TEXTS)
    learned = read_learned_words(reader, TEXTS)
    given: dict[tuple[int, str], float] = defaultdict(float)
    num_read = 0
    sizes: dict[int, list[float]] = defaultdict(list)
    for text in TEXTS:
        result = reader(text)
        num_read += bool(result["tokens"])
        for hop, weights in enumerate(result["attention"]):
            for token, weight in zip(result["tokens"], weights, strict=True):
                given[hop, token.lower()] += weight
        for hops in result["hop_contributions"].values():
            for hop, number in enumerate(hops):
                sizes[hop].append(abs(number))
    assert sorted(hop for group in learned.parts for hop in group.hops) == [0, 1, 2]
    for group in learned.parts:
        for word, share in group.words:
            expected = np.mean([given[hop, word.lower()] / num_read for hop in group.hops])
            assert share == pytest.approx(expected, abs=1e-5)
        expected = np.mean([sizes[hop] for hop in group.hops])
        assert group.size == pytest.approx(expected, abs=1e-5)


def test_learned_words_name_hops_that_read_the_same() -> None:
    reader = reader_of(TEXTS)
    pooling = reader.model.base_model.pooling
    with torch.no_grad():
        [weight] = [
            parameter
            for parameter in pooling.parameters()
            if parameter.shape[0] == 3 and parameter.ndim == 2
        ]
        weight[2] = weight[0]
        weight[1] = -weight[0]
    assert [hop.hops for hop in read_learned_words(reader, TEXTS).parts] == [[0, 2], [1]]


def test_same_hops_are_all_alike_in_a_group() -> None:
    """No chain: hop 1 is like both its neighbours, which are not like each other."""
    angles = np.radians([0, 30, 60, 0])
    shares = np.stack([np.cos(angles), np.sin(angles)])
    assert same_hops(shares) == [[0, 1, 3], [2]]
    assert same_hops(np.zeros((0, 2))) == [[0], [1]], "hops that read nothing"


def test_learned_words_say_for_which_label_a_part_speaks() -> None:
    """If it adds to it in most texts; hops that go up and down speak for none."""
    reader = reader_of(TEXTS, linear_part="words")
    [table] = reader.model.linear_part.parameters()  # (V, L)
    table.data[:] = torch.tensor([0.0, 0.0, 1.0])
    *_, linear = read_learned_words(reader, TEXTS).parts
    assert (linear.hops, linear.label) == ([], "good")
    table.data[:] = 0
    *_, linear = read_learned_words(reader, TEXTS).parts
    assert (linear.label, linear.size) == (None, 0)


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["soup"]])
def test_learned_words_of_few_or_empty_texts(texts: list[str]) -> None:
    learned = read_learned_words(reader_of(TEXTS), texts)
    assert learned.num_texts == len(texts)
    for label in learned.labels:
        assert len(listed(label)) == len(set(texts) - {""})


def test_learned_words_read_texts_up_to_a_number_of_tokens() -> None:
    """Counted for each of the three labels."""
    reader = reader_of(TEXTS)
    texts = ["the soup was good"] * 7
    learned = read_learned_words(reader, texts, max_tokens=3 * 4 * 2 + 1)
    assert (learned.num_texts, learned.num_left_out) == (3, 4)


def test_learned_words_read_as_many_tokens_as_the_model() -> None:
    reader = reader_of(TEXTS)
    reader.model.config.max_tokens = 2
    learned = read_learned_words(reader, TEXTS[:1])
    assert numbers_of(learned.labels[0]).keys() == {"the", "soup"}


def test_learned_words_do_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(TEXTS)
    whole = read_learned_words(reader, TEXTS)
    monkeypatch.setattr(learned_words, "BATCH_TOKENS", 1)
    alone = read_learned_words(reader, TEXTS)
    for one, other in zip(whole.labels, alone.labels, strict=True):
        assert_same_numbers(numbers_of(one), numbers_of(other))


def test_voice_that_speaks_against_every_label_speaks_for_none() -> None:
    """With several labels a text, logits are not centred, and most labels do not apply."""
    names = ["x", "y"]
    several = answers_of_kind(MULTI_LABEL, names)
    means = np.array([[-0.5, 0.5], [-0.9, 0.9]])
    assert _voice(several, names, means) == (pytest.approx(0.7), None)
    assert _voice(several, names, -means)[1] == "y"
    assert _voice(answers_of_kind(REGRESSION, names), names, -means)[1] is None
