"""Deletion and insertion curves: masking tokens equals deleting them, one text at a time."""

import math
import random
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import save_checkpoint
from datasets import Dataset
from explanations.attributions import integrated_gradients, leaving_out
from explanations.dataset import EvaluationDataset
from explanations.faithfulness import (
    DIRECTIONS,
    MEASURES,
    PERCENTS,
    mean_with_interval,
    measure_faithfulness,
    measures,
    probability_curves,
    ranks_of,
)
from numpy.polynomial.legendre import leggauss
from tiny import NEIGHBOUR_TOLERANCE, pair_batch, random_pair, text_batch, tiny_model
from transformers import AutoTokenizer

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification

LABELS = {"problem_type": "single_label_classification", "num_labels": 3}
TEXTS = [[4, 9, 2, 17, 5, 8, 8, 1], [3], [], [7, 2], [11, 5, 20, 6, 2]]


def classifier() -> SelfAttentiveForSequenceClassification:
    return tiny_model(SelfAttentiveForSequenceClassification, **LABELS)


def probability(model: Any, tokens: Sequence[tuple[int, int]], label: int) -> float:
    ids, types = ([[token[part] for token in tokens]] for part in (0, 1))
    with torch.no_grad():
        outputs = model(
            input_ids=torch.tensor(ids).view(1, -1),
            token_type_ids=torch.tensor(types).view(1, -1).long(),
            attention_mask=torch.ones(1, len(tokens)),
        )
    return outputs.logits.softmax(-1)[0, label].item()


def slow_curve(
    model: Any, tokens: Sequence[tuple[int, int]], scores: Sequence[float], label: int, way: str
) -> list[float]:
    """Delete the tokens one by one, or all others, and ask the model each time."""
    order = sorted(range(len(tokens)), key=lambda place: -scores[place])
    by_count: dict[int, float] = {}
    counts = [math.ceil(Fraction(percent, 100) * len(tokens)) for percent in PERCENTS]
    for count in set(counts):
        first, inserts = set(order[:count]), way == "insertion"
        left = [token for place, token in enumerate(tokens) if (place in first) == inserts]
        by_count[count] = probability(model, left, label)
    return [by_count[count] for count in counts]


@pytest.mark.parametrize("is_pair", [False, True])
def test_probability_curves_equal_those_of_texts_without_the_tokens(is_pair: bool) -> None:
    rng = random.Random(2)
    if is_pair:
        model: Any = tiny_model(SelfAttentiveForNLI, **LABELS)
        pairs = [random_pair(rng) for _ in range(3)]
        batch = pair_batch(pairs, "holed", rng)
        tokens = [[*((i, 0) for i in left), *((i, 1) for i in right)] for left, right in pairs]
    else:
        model, batch = classifier(), text_batch(TEXTS, "holed", rng)
        tokens = [[(token, 0) for token in text] for text in TEXTS]
    scores = [torch.rand(batch["input_ids"].shape) for _ in range(2)]
    classes = torch.tensor([rng.randrange(3) for _ in tokens])
    curves = probability_curves(model, batch, classes, scores)
    assert curves.shape == (2, 2, len(tokens), len(PERCENTS))
    for text, own in enumerate(tokens):
        real = batch["attention_mask"][text].bool()
        for ranking, values in enumerate(scores):
            for number, way in enumerate(DIRECTIONS):
                own_scores = values[text][real].tolist()
                expected = slow_curve(model, own, own_scores, int(classes[text]), way)
                actual = curves[ranking, number, text]
                torch.testing.assert_close(
                    actual, torch.tensor(expected).double(), **NEIGHBOUR_TOLERANCE
                )


def test_leaving_out_is_the_probability_lost_without_each_token() -> None:
    model, batch = classifier(), text_batch(TEXTS, "holed", random.Random(2))
    classes = torch.tensor([2, 0, 1, 1, 0])
    (fallen,) = leaving_out(model, batch, classes)
    for text, ids in enumerate(TEXTS):
        tokens, label = [(token, 0) for token in ids], int(classes[text])
        whole = probability(model, tokens, label)
        lost = [
            whole - probability(model, tokens[:place] + tokens[place + 1 :], label)
            for place in range(len(tokens))
        ]
        real = batch["attention_mask"][text].bool()
        assert fallen[text][real].tolist() == pytest.approx(lost, abs=1e-5)
        assert not fallen[text][~real].any()


def test_ranks_of_order_equal_scores_as_in_the_text_before_padding() -> None:
    scores = torch.tensor([[0.2, 0.9, 0.2, 0.9, 5.0], [0.0, -1.0, 0.0, 0.0, 5.0]])
    real = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 1, 0]]).bool()
    assert ranks_of(scores, real).tolist() == [[2, 0, 3, 1, 4], [0, 2, 3, 1, 4]]


def test_integrated_gradients_are_the_integral_of_the_gradients() -> None:
    """Captum's batches and steps against a loop over points and texts."""
    model = classifier()
    batch = text_batch(TEXTS[:2] + TEXTS[3:], "holed")
    classes = torch.tensor([2, 0, 1, 1])
    scores, _, errors = integrated_gradients(model, batch, classes, steps=6)
    points, weights = leggauss(6)
    for text, label in enumerate(classes.tolist()):
        one = {name: part[text : text + 1] for name, part in batch.items()}
        embeds = model.get_input_embeddings()(one["input_ids"]).detach()
        total = torch.zeros_like(embeds)
        ends = []
        for point, weight in [*zip((points + 1) / 2, weights / 2, strict=True), (0, 0), (1, 0)]:
            at = (float(point) * embeds).requires_grad_()
            out = model(inputs_embeds=at, attention_mask=one["attention_mask"]).logits.softmax(-1)
            total += float(weight) * torch.autograd.grad(out[0, label], at)[0]
            ends.append(out[0, label].item())
        expected = (total * embeds).sum(-1)[0].detach()
        torch.testing.assert_close(scores[text].float(), expected, rtol=1e-4, atol=1e-5)
        change = ends[-1] - ends[-2]
        assert errors[text].item() == pytest.approx(expected.sum().item() - change, abs=1e-5)


def test_measures_are_areas_and_falls() -> None:
    """Two curves by hand: one straight from 1 to 0, one that is 1 at once."""
    shares = np.array(PERCENTS) / 100
    at_once = np.where(shares > 0, 1.0, 0.0)
    by_measure = measures(np.stack([1 - shares, at_once])[:, None])
    assert set(by_measure) == set(MEASURES)
    assert by_measure["deletion_area"] == pytest.approx(0.5)
    assert by_measure["insertion_area"] == pytest.approx(1 - 0.05 / 2)
    assert by_measure["comprehensiveness"] == pytest.approx((0.05 + 0.1 + 0.2 + 0.5) / 4)
    assert by_measure["sufficiency"] == pytest.approx(0)


def test_mean_with_interval_agrees_with_the_normal_distribution() -> None:
    values = np.random.default_rng(0).normal(1, 2, 300)
    interval = mean_with_interval(values, seed=0)
    half = 1.96 * values.std() / math.sqrt(len(values))
    bounds = [values.mean(), values.mean() - half, values.mean() + half]
    assert list(interval.values()) == pytest.approx(bounds, abs=0.1 * half)


def test_mean_with_interval_of_one_text_is_its_number() -> None:
    interval = mean_with_interval(np.array([0.25]), seed=0)
    assert interval == {"mean": 0.25, "low": 0.25, "high": 0.25}


@pytest.fixture
def dataset(tmp_path: Path) -> EvaluationDataset:
    checkpoint = save_checkpoint(tmp_path / "tiny")
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = SelfAttentiveForSequenceClassification.from_pretrained(checkpoint).eval()
    texts = ["The soup was cold.", "", "Good!", "A warm place with friendly people.", "?"]
    return EvaluationDataset(model, tokenizer, Dataset.from_dict(dict(tokenizer(texts))), {})


@pytest.mark.slow
def test_measure_faithfulness_does_not_depend_on_the_batch_size(dataset: EvaluationDataset) -> None:
    options: dict[str, Any] = {"integrated_gradients_steps": 4, "random_orders": 2}
    together = measure_faithfulness(dataset, batch_size=5, **options)
    alone = measure_faithfulness(dataset, batch_size=2, **options)
    assert together["metrics"] == pytest.approx(alone["metrics"], abs=1e-5)
    rankings = ["attention", "contributions", "word_contributions", "gradient_times_input"]
    rankings += ["leaving_out", "integrated_gradients", "integrated_gradients_unsigned", "random"]
    assert list(together["curves"]["deletion"]) == rankings
    names = {f"{ranking}_{measure}" for ranking in rankings for measure in MEASURES}
    assert set(together["metrics"]) == names
    ends = {name: (curve[0], curve[-1]) for name, curve in together["curves"]["deletion"].items()}
    assert len(set(ends.values())) == 1, "every attribution begins and ends with the same text"


def test_measure_faithfulness_names_what_it_needs(
    dataset: EvaluationDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    results = measure_faithfulness(dataset, integrated_gradients_steps=0)
    assert "integrated_gradients" not in results["curves"]["deletion"]
    assert "convergence_error" not in results
    with pytest.raises(ImportError, match=r"need captum: pip install 'sase_hf\[lab\]'"):
        measure_faithfulness(dataset, integrated_gradients_steps=4)
    with torch.no_grad():
        dataset.model.get_input_embeddings().weight.fill_(math.nan)
    with pytest.raises(ValueError, match="gives scores that are not finite"):
        measure_faithfulness(dataset, integrated_gradients_steps=0)
    dataset.model.config.problem_type = "regression"
    with pytest.raises(ValueError, match=r"answers regression; it must be single_"):
        measure_faithfulness(dataset)
