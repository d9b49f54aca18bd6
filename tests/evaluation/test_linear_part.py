"""The fit of the linear part: a regression over words, and the scales of both parts."""

import random
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from datasets import Dataset
from sklearn.linear_model import LogisticRegression

from sase_hf import SelfAttentiveForSequenceClassification, fit_linear_part
from sase_hf.evaluation import linear_part

ONE_LABEL: dict[str, Any] = {"problem_type": "single_label_classification", "num_labels": 3}
SEVERAL: dict[str, Any] = {"problem_type": "multi_label_classification", "num_labels": 2}
NUMBERS: dict[str, Any] = {"problem_type": "regression", "num_labels": 2}
IN_UNITS = NUMBERS | {"target_mean": [40.0, -3.0], "target_deviation": [12.0, 0.5]}
PROBLEMS = (ONE_LABEL, ONE_LABEL | {"num_labels": 2}, SEVERAL, NUMBERS, IN_UNITS)
GOOD, BAD = 5, 6  # the words that say what the label is
LAST = 0  # a word that no random text has


def model_of(**fields: Any) -> Any:
    fields = {"linear_part": "words_and_pairs", **ONE_LABEL, **fields}
    return tiny.tiny_model(SelfAttentiveForSequenceClassification, **fields)


def rows_of(problem: dict[str, Any], count: int = 80, seed: int = 0) -> Dataset:
    """Return random texts with one of two words, which is the label, or what the numbers tell."""
    rng = random.Random(seed)
    texts = []
    labels: list[Any] = []
    for _ in range(count):
        is_good = rng.random() < 0.5
        text = tiny.random_text(rng)
        text.insert(rng.randrange(len(text) + 1), GOOD if is_good else BAD)
        texts.append(text)
        if problem["problem_type"] == "multi_label_classification":
            labels.append([float(is_good), 1.0 - is_good])
        elif problem["problem_type"] == "regression":
            labels.append([50.0 if is_good else 30.0, -2.5 if is_good else -3.5])
        else:
            labels.append(int(is_good))
    return Dataset.from_dict({"input_ids": texts, "labels": labels})


def logits_of(model: Any, rows: Dataset) -> torch.Tensor:
    with torch.no_grad():
        return model(**tiny.text_batch(rows["input_ids"][:])).logits


def regression_of(rows: Dataset, model: Any) -> Any:
    """Return the regression with the usual C, which these rows have."""
    regression = linear_part.words_of(rows, model).regression(2.0)
    assert regression is not None
    return regression


@pytest.mark.parametrize("kind", ["words", "words_and_pairs"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=tiny.name_of)
def test_fitted_model_is_the_sum_of_both_parts(
    problem: dict[str, Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are scaled around their mean in the training rows."""
    monkeypatch.setattr(linear_part, "STRENGTHS", (2.0,))
    model = model_of(**problem, linear_part=kind)
    train = rows_of(problem)
    unseen = rows_of(problem, seed=1)
    linear_part.clear(model.linear_part)
    of_hops = logits_of(model, unseen)
    regression = regression_of(train, model)
    scales = fit_linear_part(model, train, rows_of(problem, seed=2))
    of_words = regression.outputs(unseen, model) * torch.tensor(regression.deviation)
    mean = torch.tensor(regression.mean)
    expected = mean + scales.hops * (of_hops - mean) + scales.words * of_words
    torch.testing.assert_close(logits_of(model, unseen).double(), expected, rtol=1e-4, atol=1e-4)
    assert scales.words > 0


def test_regression_is_that_of_scikit_learn_over_rare_words() -> None:
    """Each count over the usual one and the root of the length, times the rarity of the word."""
    labels = rows_of(ONE_LABEL)["labels"][:]
    texts = [[*text, LAST] for text in rows_of(ONE_LABEL)["input_ids"][:]]
    rows = Dataset.from_dict({"input_ids": texts, "labels": labels})
    model = model_of(linear_part="words", num_labels=2)
    regression = regression_of(rows, model)
    features = np.zeros((len(texts), tiny.VOCAB_SIZE))
    for row, text in enumerate(texts):
        for word in text:
            counts = [other.count(word) for other in texts if word in other]
            rarity = np.log((1 + len(texts)) / (1 + len(counts))) + 1
            features[row, word] += rarity / np.mean(counts) / len(text) ** 0.5
    fitted = LogisticRegression(C=2.0, max_iter=1000, tol=1e-8).fit(features, labels)
    outputs = regression.outputs(rows, model)
    expected = torch.tensor(fitted.decision_function(features))
    torch.testing.assert_close(outputs[:, 1] - outputs[:, 0], expected, rtol=1e-2, atol=1e-2)


def relabelled(rows: Dataset, labels: list[Any]) -> Dataset:
    return rows.remove_columns("labels").add_column("labels", labels)


def strength_for(labels_right: float) -> float:
    """Return the C that is chosen for rows of which a share of labels is what the words say."""
    problem = ONE_LABEL | {"num_labels": 2}
    rng = random.Random(1)

    def noisy_rows(count: int, seed: int) -> Dataset:
        rows = rows_of(problem, count, seed)
        labels = [
            label if rng.random() < labels_right else 1 - label for label in rows["labels"][:]
        ]
        return relabelled(rows, labels)

    model = model_of(**problem)
    words = linear_part.words_of(noisy_rows(400, seed=0), model)
    validation = noisy_rows(400, seed=2)
    of_hops = torch.zeros(len(validation), 2)
    best = linear_part.best_of(
        linear_part.fit_scales(of_hops, regression, validation, model)
        for regression in words.regressions()
    )
    assert best is not None
    return best.regression.strength


def test_labels_that_words_hardly_tell_are_regularised_more() -> None:
    assert strength_for(0.75) < 0.3
    assert strength_for(1.0) == 2.0, "as usual"


@pytest.mark.parametrize("problem", PROBLEMS, ids=tiny.name_of)
def test_a_tenth_of_the_rows_chooses_without_validation_rows(
    problem: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C = 1e-9 ends in a regression that says nothing, 2 in one that knows the words."""
    caplog.set_level("INFO")
    monkeypatch.setattr(linear_part, "STRENGTHS", (1e-9, 2.0))
    fit_linear_part(model_of(**problem), rows_of(problem))
    assert "(C = 2)" in caplog.text


def test_a_tenth_of_the_rows_compares_words_that_count_as_usual(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A smaller C with a larger scale would do as well, but the scale stays."""
    caplog.set_level("INFO")
    fit_linear_part(model_of(), rows_of(ONE_LABEL, 400))
    assert "(C = 2)" in caplog.text


def test_pairs_tell_apart_what_words_cannot() -> None:
    texts = [[GOOD, BAD], [BAD, GOOD]] * 20
    rows = Dataset.from_dict({"input_ids": texts, "labels": [0, 1] * 20})
    model = model_of(num_labels=2)
    regression = regression_of(rows, model)
    assert regression.outputs(rows, model).argmax(1).tolist() == [0, 1] * 20


def test_scales_are_the_usual_ones_without_validation_rows() -> None:
    assert fit_linear_part(model_of(), rows_of(ONE_LABEL)) == (0.3, 0.6)


def test_few_validation_rows_hardly_move_the_usual_scales() -> None:
    scales = fit_linear_part(model_of(), rows_of(ONE_LABEL), rows_of(ONE_LABEL, 2, seed=2))
    assert scales.words == pytest.approx(0.6, rel=0.35)


def test_hops_that_would_outweigh_the_words_usually_count_less() -> None:
    of_words = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    usual = linear_part.usual_scales(10 * of_words, of_words, (0.3, 0.6))
    assert usual == pytest.approx((0.25 * 0.6 / 10, 0.6))


@pytest.mark.parametrize(
    ("of_hops", "of_words"),
    [
        # A constant that both rows have, however large, moves nothing.
        ([[100.0, 100.1], [100.1, 100.0]], [[0.0, 1.0], [1.0, 0.0]]),
        # The mean of seven equal numbers in float32 differs from them in the last digit.
        ([[0.1, 0.7, 40.3]] * 7, [[0.0] * 3] * 7),
    ],
    ids=["constant", "equal rows"],
)
def test_hops_that_hardly_move_logits_count_as_usual(of_hops: Any, of_words: Any) -> None:
    of_words = torch.tensor(of_words, dtype=torch.float64)
    scales = linear_part.usual_scales(torch.tensor(of_hops), of_words, (0.3, 0.6))
    assert scales == (0.3, 0.6)


def test_words_that_say_nothing_count_nothing() -> None:
    """The words speak for the wrong label, and the hops for the right one in three of four rows."""
    problem = ONE_LABEL | {"num_labels": 2}
    model = model_of(**problem)
    train = rows_of(problem)
    wrong = [1 - label for label in train["labels"][:]]
    train = relabelled(train, wrong)
    validation = rows_of(problem, 1000, seed=2)
    regression = regression_of(train, model)
    said = torch.tensor(validation["labels"][:])
    said[::4] = 1 - said[::4]
    of_hops = torch.nn.functional.one_hot(said, 2) * 2.0
    scales = linear_part.fit_scales(of_hops, regression, validation, model).scales
    assert scales.words == 0
    assert scales.hops == pytest.approx(np.log(3) / 2, rel=0.1)


def test_hops_that_say_nothing_count_little() -> None:
    problem = ONE_LABEL | {"num_labels": 2}
    model = model_of(**problem)
    regression = regression_of(rows_of(problem), model)
    validation = rows_of(problem, 600, seed=2)
    noise = torch.randn(600, 2, generator=torch.Generator().manual_seed(0))
    scales = linear_part.fit_scales(noise, regression, validation, model).scales
    assert scales.hops < 0.3
    assert scales.words > 1


def test_rows_of_one_label_or_without_words_leave_the_model() -> None:
    model = model_of()
    rows = rows_of(ONE_LABEL)
    same = relabelled(rows, [1] * len(rows))
    linear_part.clear(model.linear_part)
    before = logits_of(model, rows)
    assert fit_linear_part(model, same) == (1.0, 0.0)
    assert torch.equal(logits_of(model, rows), before)
    empty = Dataset.from_dict({"input_ids": [[], []], "labels": [0, 1]})
    empty = empty.cast_column("input_ids", rows.features["input_ids"])
    assert fit_linear_part(model, empty) == (1.0, 0.0)


def test_label_without_training_rows_stays_unlikely() -> None:
    model = model_of()  # three labels, of which the rows have two
    regression = regression_of(rows_of(ONE_LABEL), model)
    outputs = regression.outputs(rows_of(ONE_LABEL, seed=1), model)
    assert outputs.argmax(1).max() < 2


def test_rows_without_a_label_are_left_out() -> None:
    rows = rows_of(ONE_LABEL)
    more = Dataset.from_dict({"input_ids": [[GOOD]], "labels": [-100]})
    model = model_of()
    with_more = Dataset.from_dict({name: rows[name][:] + more[name][:] for name in rows.features})
    outputs = [regression_of(part, model).outputs(rows, model) for part in (rows, with_more)]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=0.05, atol=0.05)


def test_labels_without_weight_are_left_out() -> None:
    """Weights of classes count in the regression as in the loss."""
    model = model_of(class_weights=[1.0, 0.0, 1.0])
    assert linear_part.words_of(rows_of(ONE_LABEL), model).regression(2.0) is None


def test_large_files_are_thinned_out_evenly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    rows = rows_of(ONE_LABEL, 100)
    num_entries = 2 * sum(map(len, rows["input_ids"][:])) * 3
    monkeypatch.setattr(linear_part, "MAX_ENTRIES", num_entries // 4 + 1)
    model = model_of()
    thinned_out = regression_of(linear_part.thinned_out(rows, model), model)
    assert "learns from 25 of 100 training rows" in caplog.text
    monkeypatch.setattr(linear_part, "MAX_ENTRIES", num_entries)
    quarter = rows.select(np.linspace(0, 99, 25).astype(int))
    np.testing.assert_array_equal(thinned_out.weights, regression_of(quarter, model).weights)


def test_fit_replaces_an_older_linear_part() -> None:
    model, again = model_of(), model_of()
    again.load_state_dict(model.state_dict())
    linear_part.clear(again.linear_part)
    fit_linear_part(model, rows_of(ONE_LABEL), rows_of(ONE_LABEL, seed=2))
    fit_linear_part(again, rows_of(ONE_LABEL), rows_of(ONE_LABEL, seed=2))
    assert torch.equal(model.linear_part.word_weight, again.linear_part.word_weight)


def test_number_that_never_changes_leaves_the_others_their_scales() -> None:
    """Its deviation of 0 would make any error of the hops endless."""
    rows, validation = rows_of(NUMBERS), rows_of(NUMBERS, seed=2)
    scales = []
    for constant in (False, True):
        parts = []
        for part in (rows, validation):
            labels = [[label[0], 0.5 if constant else label[1]] for label in part["labels"][:]]
            parts.append(relabelled(part, labels))
        scales.append(fit_linear_part(model_of(**IN_UNITS), *parts))
    assert scales[1].hops > 0.2 * scales[0].hops


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: list(rows), "train is a list; it must be a datasets.Dataset"),
        (lambda rows: rows.remove_columns("labels"), "columns input_ids; it also needs labels"),
        (lambda rows: rows.select([]), "train has no rows; give some"),
        (
            lambda rows: Dataset.from_dict({"input_ids": [[tiny.VOCAB_SIZE]], "labels": [0]}),
            "input_ids from 23 to 23; those of the model are below 23",
        ),
    ],
)
def test_fit_refuses_other_rows_and_leaves_the_model(change: Any, message: str) -> None:
    model = model_of()
    before = model.linear_part.word_weight.clone()
    with pytest.raises(ValueError, match=message):
        fit_linear_part(model, change(rows_of(ONE_LABEL)))
    assert torch.equal(model.linear_part.word_weight, before)


def test_fit_refuses_a_model_without_a_linear_part() -> None:
    with pytest.raises(ValueError, match="has no linear part; make it with SelfAttentiveConfig"):
        fit_linear_part(model_of(linear_part="none"), rows_of(ONE_LABEL))
