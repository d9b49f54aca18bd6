"""Rows whose label the other rows speak against."""

import random
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from sase_hf.evaluation import doubtful_labels
from sase_hf.evaluation.doubtful_labels import Doubt, doubtful_rows, judge, shares_of_usual

WORDS = ("awful", "lovely", "plain")  # each is in the texts of one label


def texts_of(labels: list[int]) -> list[str]:
    """Return different texts, each with the word of its label."""
    rng = random.Random(0)
    texts = []
    for number, label in enumerate(labels):
        words = [rng.choice(("soup", "bread", "we", "had", "day")) for _ in range(3)]
        texts.append(" ".join([*words, WORDS[label], f"n{number}"]))
    return texts


def labels_of(count: int, num_labels: int = 3) -> list[int]:
    return [number % num_labels for number in range(count)]


def doubts_of(texts: list[str], labels: Any) -> list[Doubt]:
    return list(doubtful_rows(Dataset.from_dict({"text": texts}), np.array(labels, dtype=int)))


@pytest.mark.parametrize("num_labels", [2, 3])
def test_doubtful_rows_are_those_with_a_wrong_label(num_labels: int) -> None:
    true = labels_of(120, num_labels)
    given = true.copy()
    for row in (4, 44, 77):
        given[row] = (true[row] + 1) % num_labels
    doubts = doubts_of(texts_of(true), given)
    assert sorted(doubt.row for doubt in doubts) == [4, 44, 77]
    for doubt in doubts:
        assert doubt.suggested == true[doubt.row]
        assert doubt.probability > 0.5 > doubt.label_probability
        assert WORDS[true[doubt.row]] in doubt.why
        assert WORDS[given[doubt.row]] not in doubt.why


def test_doubtful_rows_have_labels_by_their_ids() -> None:
    """Also where no row has some of the labels."""
    true = labels_of(90)
    given = [2 * label + 1 for label in true]
    given[4] = 5 if true[4] != 2 else 1
    [doubt] = doubts_of(texts_of(true), given)
    assert (doubt.row, doubt.suggested) == (4, 2 * true[4] + 1)


def test_doubtful_rows_are_judged_by_what_is_usual_for_their_label() -> None:
    """A rare label is never likely, and half of what is usual for it is no more doubtful."""
    probabilities = np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4], [0.8, 0.2]])
    shares = shares_of_usual(probabilities, np.array([0, 0, 1, 1]))
    assert shares == pytest.approx([0.9 / 0.8, 0.7 / 0.8, 0.4 / 0.3, 0.2 / 0.3])


def test_doubtful_rows_are_at_most_a_tenth_the_most_doubtful_first() -> None:
    """The judge disagrees with most labels that are drawn at random."""
    given = [random.Random(row).randrange(3) for row in range(90)]
    rows = Dataset.from_dict({"text": texts_of(labels_of(90))})
    numbers, probabilities = judge(rows, np.array(given))
    assert (probabilities.argmax(1) != given).sum() > 30, "the premise"
    doubts = doubts_of(rows["text"][:], given)
    shares = shares_of_usual(probabilities, np.array(given))
    found = [shares[doubt.row] for doubt in doubts]
    assert len(found) == 9
    assert found == sorted(found)
    assert numbers.tolist() == list(range(90))


def test_doubtful_rows_do_not_speak_for_their_own_label() -> None:
    """Nor do rows with equal texts and labels, of which the first is judged."""
    true = labels_of(90)
    texts = texts_of(true)
    given = true.copy()
    given[4] = (true[4] + 1) % 3
    copies = [texts[4].upper()] * 9
    [doubt] = doubts_of([*texts, *copies], [*given, *[given[4]] * 9])
    assert doubt.row == 4


def test_doubtful_rows_leave_out_a_label_of_few_rows() -> None:
    """Hardly any other row can say how such a text looks."""
    true = [*labels_of(60, 2), *[0] * 4]
    assert doubts_of(texts_of(true), [*true[:60], *[2] * 4]) == []


@pytest.mark.parametrize("count", [0, 1, 49])
def test_doubtful_rows_of_few_rows_are_none(count: int) -> None:
    assert doubts_of(texts_of(labels_of(count, 2)), [0, 1] * (count // 2) + [0] * (count % 2)) == []


def test_doubtful_rows_of_one_label_are_none() -> None:
    assert doubts_of(texts_of(labels_of(60)), [1] * 60) == []


def test_doubtful_rows_have_words() -> None:
    assert doubts_of(["!" * (row + 1) for row in range(90)], labels_of(90, 2)) == []


def test_doubtful_rows_of_very_many_rows_are_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubtful_labels, "MAX_JUDGED", 150)
    true = labels_of(290)
    numbers, _ = judge(Dataset.from_dict({"text": texts_of(true)}), np.array(true))
    assert numbers.tolist() == list(range(0, 290, 2))


def test_doubtful_rows_of_texts_without_blanks_are_found() -> None:
    """Each character of Chinese is a word."""
    true = labels_of(90, 2)
    good_or_bad = "\u597d\u58de"
    texts = [f"\u9019\u5bb6{good_or_bad[label]}\u5e97{n}" for n, label in enumerate(true)]
    given = true.copy()
    given[7] = 0
    [doubt] = doubts_of(texts, given)
    assert doubt.row == 7
    assert any("\u58de" in words for words in doubt.why)
