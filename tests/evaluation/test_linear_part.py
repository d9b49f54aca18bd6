"""The fit of the linear part: a regression over words, and the scales of the parts."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from datasets import Dataset, concatenate_datasets
from sklearn.linear_model import LogisticRegression, Ridge

from sase_hf import SelfAttentiveForSequenceClassification, fit_linear_part
from sase_hf.evaluation import linear_part
from sase_hf.evaluation.linear_part import learn_anew

ONE_LABEL = {"problem_type": "single_label_classification", "num_labels": 3}
TWO_LABELS = ONE_LABEL | {"num_labels": 2}
SEVERAL = {"problem_type": "multi_label_classification", "num_labels": 2}
NUMBERS = {"problem_type": "regression", "num_labels": 2}
IN_UNITS = NUMBERS | {"target_mean": [40.0, -3.0], "target_deviation": [12.0, 0.5]}
GOOD, BAD = 5, 6  # the words that say what the label is
LAST = 0  # a word that no random text has


def model_of(**fields: Any) -> Any:
    fields = {"linear_part": "words_and_pairs", **ONE_LABEL, **fields}
    return tiny.tiny_model(SelfAttentiveForSequenceClassification, **fields)


def rows_of(problem: dict[str, Any], count: int = 80, seed: int = 0) -> Dataset:
    """Return random texts with one of two words, which is the label, or what the numbers tell."""
    kinds = {
        "single_label_classification": (0, 1),
        "multi_label_classification": ([0.0, 1.0], [1.0, 0.0]),
        "regression": ([30.0, -3.5], [50.0, -2.5]),
    }
    bad, good = kinds[problem["problem_type"]]
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        is_good = rng.random() < 0.5
        text = tiny.random_text(rng)
        text.insert(rng.randrange(len(text) + 1), GOOD if is_good else BAD)
        rows.append({"input_ids": text, "labels": good if is_good else bad})
    return Dataset.from_list(rows)


def outputs_for(model: Any, rows: Dataset) -> torch.Tensor:
    with torch.no_grad():
        return model(**tiny.text_batch(rows["input_ids"][:])).logits


def assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=1e-4)


def relabelled(rows: Dataset, labels: list[Any]) -> Dataset:
    return rows.remove_columns("labels").add_column("labels", labels)


def test_scales_are_the_usual_ones_without_validation_rows() -> None:
    model = model_of().train()
    model.config.answer_threshold = 0.5
    assert fit_linear_part(model, rows_of(ONE_LABEL)).scales == (0.3, 0.6, 0.7)
    assert not model.training
    assert model.config.answer_threshold is None


def test_fit_reads_no_padding_that_a_mask_names() -> None:
    def padded(row: dict[str, Any]) -> dict[str, Any]:
        ids = row["input_ids"]
        return {"input_ids": [*ids, LAST, LAST], "attention_mask": [1] * len(ids) + [0, 0]}

    rows = rows_of(ONE_LABEL, count=5)
    read = [linear_part.WordRows(each, model_of()) for each in (rows, rows.map(padded))]
    np.testing.assert_array_equal(*(linear_part.regression_of(each, 1.0).weights for each in read))


def test_fit_replaces_an_older_linear_part() -> None:
    model, again = model_of(), model_of()
    again.load_state_dict(model.state_dict())
    linear_part.clear(again.linear_part)
    fit_linear_part(model, rows_of(ONE_LABEL), rows_of(ONE_LABEL, seed=2))
    fit_linear_part(again, rows_of(ONE_LABEL), rows_of(ONE_LABEL, seed=2))
    assert torch.equal(model.linear_part.word_weight, again.linear_part.word_weight)


def regression_of(
    rows: Dataset, model: Any, strength: float = 2.0, words: Sequence[str] = ()
) -> linear_part.WordRegression:
    return linear_part.regression_of(linear_part.WordRows(rows, model, words), strength)


def outputs_of(
    regression: linear_part.WordRegression, rows: Dataset, model: Any, scales: Any = (1, 1, 1)
) -> np.ndarray:
    of_words = linear_part.WordRows(rows, model).features @ regression.weights
    return scales[1] * of_words + scales[2] * regression.bias


@pytest.mark.parametrize(
    "problem", [ONE_LABEL | {"class_weights": [1, 2, 4]}, SEVERAL, IN_UNITS], ids=tiny.name_of
)
def test_fitted_model_is_the_sum_of_both_parts(
    problem: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers are scaled around the mean in the config, labels around the logs of their weights."""
    monkeypatch.setattr(linear_part, "STRENGTHS_OF_FEW", (2.0,))
    model = model_of(**problem)
    train, unseen = rows_of(problem), rows_of(problem, seed=1)
    linear_part.clear(model.linear_part)
    of_hops = outputs_for(model, unseen)
    regression = regression_of(train, model)
    scales = fit_linear_part(model, train, rows_of(problem, seed=2)).scales
    of_words = outputs_of(regression, unseen, model, scales) * problem.get("target_deviation", 1.0)
    mean = torch.tensor(model.config.target_mean or model.config.log_weights)
    expected = mean + scales.hops * (of_hops - mean) + torch.from_numpy(of_words)
    assert_close(outputs_for(model, unseen), expected)
    assert min(scales) > 0


def test_linear_part_learns_further_rows_with_the_same_scales_and_strength() -> None:
    model = model_of(**IN_UNITS)
    train, held_out, unseen = (rows_of(IN_UNITS, seed=seed) for seed in range(3))
    every = concatenate_datasets([train, held_out])
    fit = fit_linear_part(model, train, held_out)
    assert fit.regression.strength == 2, "a smaller one is worse"
    before = outputs_for(model, unseen)
    learn_anew(model, fit, every)
    regressions = (regression_of(rows, model, fit.regression.strength) for rows in (train, every))
    few, more = (outputs_of(words, unseen, model, fit.scales) for words in regressions)
    gained = (more - few) * IN_UNITS["target_deviation"]
    assert_close(outputs_for(model, unseen), before + torch.from_numpy(gained))
    assert np.abs(gained).max() > 1e-3


@pytest.mark.parametrize(
    ("problem", "judge"),
    [
        (ONE_LABEL | {"num_labels": 2}, LogisticRegression(C=2.0, max_iter=1000, tol=1e-8)),
        (NUMBERS, Ridge(alpha=1 / 4)),
    ],
    ids=["labels", "numbers"],
)
def test_regression_is_that_of_scikit_learn_over_rare_words(
    problem: dict[str, Any], judge: Any
) -> None:
    """Each count over the usual one and the root of the length, times the rarity of the word.

    Beside the words it reads their n-grams of characters, which a word that no row has shares.
    """
    labels = rows_of(problem)["labels"][:]
    unseen = tiny.VOCAB_SIZE - 1
    texts = [[word % unseen for word in [*text, LAST]] for text in rows_of(problem)["input_ids"]]
    rows = Dataset.from_dict({"input_ids": texts, "labels": labels})
    model = model_of(**problem, linear_part="words")
    words = [f"{word:03d}" for word in range(unseen)]
    regression = regression_of(rows, model, words=[*words, f"{GOOD:03d}s"])
    assert np.abs(regression.weights[unseen]).max() > 1e-3
    outputs = outputs_of(regression, rows, model)
    counts = np.array([[text.count(word) for word in range(tiny.VOCAB_SIZE)] for text in texts])
    num_texts = (counts > 0).sum(0)
    rarity = np.log((1 + len(texts)) / (1 + num_texts)) + 1
    usual = counts.sum(0) / num_texts.clip(1)
    features = counts * rarity / usual.clip(1) / np.sqrt(counts.sum(1, keepdims=True))
    shared = 0.5 * linear_part.shared_ngrams([*words, f"{GOOD:03d}s"])
    features = np.hstack([features, features @ shared])
    judge.fit(features, labels)
    if problem is NUMBERS:
        expected = judge.predict(features)
    else:
        outputs = outputs[:, 1] - outputs[:, 0]
        expected = judge.decision_function(features)
    np.testing.assert_allclose(outputs, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(("share_right", "strength"), [(0.75, 0.06), (1, 0.6)])
def test_labels_that_words_hardly_tell_are_regularised_more(
    share_right: float, strength: float
) -> None:
    model = model_of(**TWO_LABELS)
    is_wrong = np.random.default_rng(1).random((2, 400)) >= share_right
    parts = []
    for seed, flips in enumerate(is_wrong):
        rows = rows_of(TWO_LABELS, 400, 2 * seed)
        rows = relabelled(rows, (np.array(rows["labels"]) ^ flips).tolist())
        parts.append(linear_part.WordRows(rows, model))
    assert linear_part.best_fit(*parts, np.zeros((400, 2))).regression.strength == strength


def test_pairs_tell_apart_what_words_cannot() -> None:
    rows = Dataset.from_dict({"input_ids": [[GOOD, BAD], [BAD, GOOD]] * 20, "labels": [0, 1] * 20})
    model = model_of(num_labels=2)
    outputs = outputs_of(regression_of(rows, model), rows, model)
    assert outputs.argmax(1).tolist() == [0, 1] * 20


def test_hops_alone_choose_what_they_chose_before_the_fit() -> None:
    """Words of rows with one label in nine of ten have a large bias."""
    model, rows = model_of(**ONE_LABEL), rows_of(ONE_LABEL)
    linear_part.clear(model.linear_part)
    of_hops = outputs_for(model, rows).argmax(1)
    train = relabelled(rows, [*rows["labels"][:40], *[0] * (len(rows) - 40)])
    fit_linear_part(model, train, train)
    np.testing.assert_array_equal(linear_part.logits_of_hops(model, rows).argmax(1), of_hops)
    assert any(of_hops)


def test_part_that_says_nothing_counts_little() -> None:
    """Hops say the label in three rows of four, and words the wrong one in all."""
    model = model_of(**TWO_LABELS)
    train, validation = rows_of(TWO_LABELS), rows_of(TWO_LABELS, 1000, seed=2)
    said = np.array(validation["labels"][:])
    said[::4] = 1 - said[::4]
    regression = regression_of(relabelled(train, [1 - n for n in train["labels"]]), model)
    rows = linear_part.WordRows(validation, model)
    fit = linear_part.fit_scales(regression, rows, np.eye(2)[said] * 2)
    assert fit.scales[:2] == pytest.approx((np.log(3) / 2, 0), rel=0.15)


@pytest.mark.parametrize("is_frozen", [True, False])
def test_fit_reads_the_mean_state_of_an_encoder_that_has_not_seen_the_labels(
    is_frozen: bool,
) -> None:
    model = model_of(**tiny.BESIDE_BERT, freeze_embeddings=is_frozen)
    rows, validation = rows_of(ONE_LABEL), rows_of(ONE_LABEL, seed=2)
    linear_part.clear(model.linear_part)
    of_hops = outputs_for(model, validation)
    fit = fit_linear_part(model, rows, validation)
    assert bool(model.linear_part.state_weight.any()) == is_frozen
    of_rest = torch.from_numpy(outputs_of(fit.regression, validation, model, fit.scales))
    expected = fit.scales.hops * of_hops + of_rest
    assert_close(outputs_for(model, validation), expected)
