"""Rows whose label the other rows speak against."""

import random
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from datasets import Dataset

from sase_hf.evaluation import doubtful_labels, linear_part
from sase_hf.evaluation.doubtful_labels import Doubt, doubtful_rows
from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL, answers_of_kind

WORDS = (5, 6, 7)  # each is in the texts of one label


def texts_of(labels: list[int], seed: int = 0) -> list[list[int]]:
    """Return random texts with the word of their label in a place of its own."""
    rng = random.Random(seed)
    texts = []
    for label in labels:
        text = [rng.randrange(8, tiny.VOCAB_SIZE) for _ in range(rng.randint(2, 6))]
        text.insert(rng.randrange(len(text) + 1), WORDS[label])
        texts.append(text)
    return texts


def doubts_of(ids: list[list[int]], labels: Any, kind: str, **options: Any) -> list[Doubt]:
    num_labels = 3
    if kind != SINGLE_LABEL:
        num_labels = 1 if np.ndim(labels) == 1 else len(labels[0])
    answers = answers_of_kind(kind, [f"label {number}" for number in range(num_labels)])
    rows = Dataset.from_dict({"input_ids": ids, "labels": labels, **options.pop("columns", {})})
    options.setdefault("texts", np.arange(len(ids)))
    return doubtful_rows(rows, answers=answers, num_words=tiny.VOCAB_SIZE, **options)


def labels_of(count: int, num_labels: int = 3) -> list[int]:
    return [number % num_labels for number in range(count)]


def strongest_word(texts: list[list[int]], doubt: Doubt) -> int:
    """Return the word that speaks most for the suggestion."""
    return texts[doubt.row][int(np.argmax(doubt.spoken))]


def test_doubtful_rows_are_those_with_a_wrong_label() -> None:
    true = labels_of(90)
    given = true.copy()
    for row in (4, 44, 77):
        given[row] = (true[row] + 1) % 3
    doubts = doubts_of(texts_of(true), given, SINGLE_LABEL)
    assert sorted(doubt.row for doubt in doubts[:3]) == [4, 44, 77]
    for doubt in doubts[:3]:
        assert doubt.suggested == true[doubt.row]
        assert doubt.probability > 0.5 > doubt.label_probability
        assert doubt.doubt == pytest.approx(-np.log(doubt.label_probability))


def test_doubtful_rows_say_which_word_speaks_for_the_suggestion() -> None:
    true = labels_of(90)
    given = true.copy()
    given[4] = 2
    texts = texts_of(true)
    [worst, *_] = doubts_of(texts, given, SINGLE_LABEL)
    assert len(worst.spoken) == len(texts[4])
    assert strongest_word(texts, worst) == WORDS[true[4]]


def test_doubtful_rows_explain_what_the_regression_says() -> None:
    """What the tokens spoke is the difference of the logits without the biases."""
    true = labels_of(60)
    given = true.copy()
    given[5] = 0
    texts = texts_of(true)
    rows = Dataset.from_dict({"input_ids": texts, "labels": given})
    answers = answers_of_kind(SINGLE_LABEL, ["a", "b", "c"])
    config = doubtful_labels.config_of(rows, answers, tiny.VOCAB_SIZE)
    part = linear_part.LinearPart(config, reads_pairs=False)
    doubt = doubtful_rows(rows, np.arange(60), answers, tiny.VOCAB_SIZE)[0]
    for held_out in doubtful_labels.parts_of(
        rows, torch.tensor(given), np.arange(60), part, config, seed=0
    ):
        for place in np.flatnonzero(held_out.numbers == doubt.row):
            logits = held_out.outputs[place] - torch.from_numpy(held_out.regression.bias)
            expected = logits[doubt.suggested] - logits[given[doubt.row]]
            assert sum(doubt.spoken) == pytest.approx(expected.item(), rel=1e-4)
            return
    raise AssertionError("the row is in no part")


def test_doubtful_rows_without_wrong_labels_are_none() -> None:
    true = labels_of(90)
    assert doubts_of(texts_of(true), true, SINGLE_LABEL) == []


def test_doubtful_rows_are_the_same_for_the_same_seed() -> None:
    texts = texts_of(labels_of(90))
    given = [0] * 20 + labels_of(90)[20:]
    found = doubts_of(texts, given, SINGLE_LABEL, seed=3)
    assert found, "the premise"
    again = doubts_of(texts, given, SINGLE_LABEL, seed=3)
    assert again == found


def test_doubtful_rows_are_at_most_so_many() -> None:
    texts = texts_of(labels_of(90))
    given = [0] * 20 + labels_of(90)[20:]
    all_doubts = doubts_of(texts, given, SINGLE_LABEL)
    assert len(all_doubts) > 4, "the premise"
    assert doubts_of(texts, given, SINGLE_LABEL, most=4) == all_doubts[:4]


def test_doubtful_rows_are_at_most_a_tenth_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The regression disagrees with most labels that are drawn at random."""
    texts = texts_of(labels_of(90))
    given = [random.Random(row).randrange(3) for row in range(90)]
    doubts = doubts_of(texts, given, SINGLE_LABEL)
    assert len(doubts) == 9
    monkeypatch.setattr(doubtful_labels, "MAX_SHARE", 1.0)
    all_doubts = doubts_of(texts, given, SINGLE_LABEL)
    assert len(all_doubts) > 30, "the premise"
    assert doubts == all_doubts[:9]


def test_doubtful_rows_do_not_speak_for_their_own_label() -> None:
    """Nor do rows with equal texts: a word that only these have says nothing."""
    true = labels_of(60)
    texts = texts_of(true)
    texts += [[*texts[0], 4]] * 6
    given = [*true, *[2] * 6]
    numbers = np.array([*range(60), *[60] * 6])
    doubts = doubts_of(texts, given, SINGLE_LABEL, texts=numbers)
    assert {doubt.row for doubt in doubts} >= set(range(60, 66))
    assert doubts_of(texts, given, SINGLE_LABEL) != doubts


def test_doubtful_rows_leave_out_a_label_of_a_single_row() -> None:
    """No other row can say how such a text looks."""
    given = [*labels_of(60, 2), 2]
    texts = texts_of([*labels_of(60, 2), 0])
    assert 60 not in {doubt.row for doubt in doubts_of(texts, given, SINGLE_LABEL)}


@pytest.mark.parametrize("least", [0, 50])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 6])
def test_doubtful_rows_of_few_rows_are_found_without_an_error(
    count: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of fewer rows than parts."""
    monkeypatch.setattr(doubtful_labels, "LEAST_ROWS", least)
    true = labels_of(count, 2)
    doubts = doubts_of(texts_of(true), true, SINGLE_LABEL)
    assert all(doubt.row < count for doubt in doubts)
    assert not (least and doubts)


def test_doubtful_rows_of_one_label_are_none() -> None:
    assert doubts_of(texts_of(labels_of(60)), [1] * 60, SINGLE_LABEL) == []


def test_doubtful_rows_of_empty_texts_are_none() -> None:
    assert doubts_of([[]] * 60, labels_of(60), SINGLE_LABEL) == []


def test_doubtful_rows_hear_a_second_opinion() -> None:
    """The doubt is the mean of both losses, and the probabilities are those of both together."""
    true = labels_of(90)
    given = true.copy()
    given[4] = (true[4] + 1) % 3
    texts = texts_of(true)
    [alone] = doubts_of(texts, given, SINGLE_LABEL)
    sure = torch.nn.functional.one_hot(torch.tensor(given), 3) * 6.0
    sure[30] = sure[30].roll(1)
    opinions = sure.log_softmax(-1)
    doubts = doubts_of(texts, given, SINGLE_LABEL, opinions=opinions)
    assert [doubt.row for doubt in doubts] == [30], "the model is sure of the label of row 4"
    assert doubts[0].suggested == (given[30] + 1) % 3
    agreeing = opinions.clone()
    agreeing[4] = opinions[4].roll(-1)
    agreeing[30] = opinions[30].roll(-1)
    [both] = doubts_of(texts, given, SINGLE_LABEL, opinions=agreeing)
    assert both.doubt == pytest.approx((alone.doubt - agreeing[4, given[4]].item()) / 2)
    assert both.probability > alone.probability


def test_doubtful_rows_of_pairs_compare_both_texts() -> None:
    """A pair is the same if both texts share a word, and 1 stands for that."""
    rng = random.Random(0)
    texts = []
    labels = []
    for number in range(200):
        first = rng.randrange(5, tiny.VOCAB_SIZE)
        second = first if number % 2 else rng.randrange(5, tiny.VOCAB_SIZE)
        texts.append([4, first, second, 3])
        labels.append(int(first == second))
    labels[11] = 0
    types = [[0, 0, 1, 1]] * 200
    doubts = doubts_of(texts, labels, SINGLE_LABEL, columns={"token_type_ids": types})
    assert doubts[0].row == 11
    assert doubts[0].suggested == 1
    assert len(doubts[0].spoken) == 4


def test_doubtful_rows_of_several_labels_change_the_most_doubtful_one() -> None:
    true = labels_of(240)
    given = [[float(label == number) for number in range(3)] for label in true]
    given[3][1] = 1.0  # its text is of label 0
    given[7] = [0.0, 0.0, 0.0]  # of label 1
    texts = texts_of(true)
    doubts = doubts_of(texts, given, MULTI_LABEL)
    found = {doubt.row: doubt for doubt in doubts[:2]}
    assert found[3].suggested.tolist() == [1, 0, 0]
    assert found[7].suggested.tolist() == [0, 1, 0]
    for doubt in found.values():
        assert doubt.probability + doubt.label_probability == pytest.approx(1)
        assert doubt.probability > 0.5
        assert strongest_word(texts, doubt) == WORDS[true[doubt.row]]


def test_doubtful_rows_of_several_labels_leave_out_a_label_of_a_single_row() -> None:
    true = labels_of(60, 2)
    given = [[float(label == 0), float(label == 1), 0.0] for label in true]
    given[9][2] = 1.0
    assert 9 not in {doubt.row for doubt in doubts_of(texts_of(true), given, MULTI_LABEL)}


def test_doubtful_numbers_are_those_far_from_the_prediction() -> None:
    true = labels_of(90, 2)
    given = [50.0 if label else 30.0 for label in true]
    given[8] = 90.0
    texts = texts_of(true)
    [doubt] = doubts_of(texts, given, REGRESSION)
    assert doubt.row == 8
    assert strongest_word(texts, doubt) == WORDS[0]
    assert doubt.suggested.item() == pytest.approx(30, abs=5)
    assert doubt.doubt > doubtful_labels.LEAST_ERROR
    assert doubt.probability is None
    assert doubt.label_probability is None


def test_doubtful_numbers_of_several_change_the_furthest_one() -> None:
    true = labels_of(90, 2)
    given = [[50.0, -2.5] if label else [30.0, -3.5] for label in true]
    given[8] = [30.0, 0.0]
    [doubt] = doubts_of(texts_of(true), given, REGRESSION)
    assert doubt.row == 8
    assert doubt.suggested[0] == 30
    assert doubt.suggested[1].item() == pytest.approx(-3.5, abs=0.5)


def test_doubtful_rows_of_very_many_weights_are_not_looked_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(doubtful_labels, "MAX_WEIGHTS", 60)
    given = [2, *labels_of(59)]
    assert doubts_of(texts_of(labels_of(60)), given, SINGLE_LABEL) == []
    [message] = caplog.messages
    assert "23 words times 3 labels exceed the limit of 60 weights" in message


def test_doubtful_rows_of_many_weights_leave_out_pairs_of_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doubtful_labels, "MAX_WEIGHTS", 100)
    true = labels_of(60)
    doubts = doubts_of(texts_of(true), [2, *true[1:]], SINGLE_LABEL)
    assert doubts[0].row == 0


def test_doubtful_rows_of_very_many_rows_are_a_sample(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    true = labels_of(300)
    given = true.copy()
    given[299] = 0  # the last row is in every sample
    texts = texts_of(true)
    monkeypatch.setattr(linear_part, "MAX_ENTRIES", sum(map(len, texts)) * 3)
    doubts = doubts_of(texts, given, SINGLE_LABEL)
    [message] = caplog.messages
    assert "looked for in 150 of 300 training rows" in message
    assert doubts[0].row == 299


def test_doubtful_rows_are_judged_by_few_enough_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All rows are looked at, although a regression learns from some alone, as the log says."""
    caplog.set_level("INFO")
    true = labels_of(300)
    given = [*true[:-1], 0]
    numbers_learned = []
    learn = doubtful_labels.regression_of

    def counting(counts: Any, *arguments: Any, **options: Any) -> Any:
        numbers_learned.append(counts.shape[0])
        return learn(counts, *arguments, **options)

    monkeypatch.setattr(doubtful_labels, "regression_of", counting)
    monkeypatch.setattr(doubtful_labels, "MAX_LEARNT", 3000)
    doubts = doubts_of(texts_of(true), given, SINGLE_LABEL)
    assert doubts[0].row == 299
    assert len(numbers_learned) == doubtful_labels.NUM_PARTS
    assert max(numbers_learned) < 150
    of_first_part = f"judged by {numbers_learned[0]} of 240 other rows"
    assert caplog.text.count("other rows") == caplog.text.count(of_first_part) == 1
