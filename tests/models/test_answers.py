"""What a model answers: one label, several labels, or numbers."""

from typing import Any

import pytest
import torch

from sase_hf import SelfAttentiveConfig
from sase_hf.models.answers import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Answers,
    answers_of,
    answers_of_kind,
)

NAMES = ("cold", "mild", "hot")
SCORES = [0.2, 0.7, 0.6]
SINGLE, SEVERAL, NUMBERS = (
    answers_of_kind(kind, NAMES) for kind in (SINGLE_LABEL, MULTI_LABEL, REGRESSION)
)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, SINGLE_LABEL),
        ({"problem_type": MULTI_LABEL}, MULTI_LABEL),
        ({"problem_type": REGRESSION}, REGRESSION),
    ],
)
def test_answers_of_a_config_have_its_kind_names_and_threshold(
    fields: dict[str, Any], kind: str
) -> None:
    config = SelfAttentiveConfig(id2label=dict(enumerate(NAMES)), **fields)
    config.answer_threshold = 0.25
    answers = answers_of(config)
    assert (answers.kind, answers.names, answers.threshold) == (kind, NAMES, 0.25)


@pytest.mark.parametrize(
    ("answers", "scores"),
    [
        (SINGLE, torch.tensor([0.0, 2.0, -1.0]).softmax(0)),
        (SEVERAL, torch.tensor([0.0, 2.0, -1.0]).sigmoid()),
        (NUMBERS, torch.tensor([0.0, 2.0, -1.0])),
    ],
)
def test_answers_turn_logits_into_scores(answers: Answers, scores: torch.Tensor) -> None:
    assert torch.equal(answers.scores(torch.tensor([0.0, 2.0, -1.0])), scores)


@pytest.mark.parametrize("answers", [SINGLE, SEVERAL, NUMBERS])
def test_result_has_the_best_score_and_all_of_them(answers: Answers) -> None:
    result = answers.result(SCORES)
    labels = {"labels": ["mild", "hot"]} if answers is SEVERAL else {}
    assert result == {
        "kind": answers.kind,
        "label": "mild",
        "score": 0.7,
        "scores": dict(zip(NAMES, SCORES, strict=True)),
        **labels,
    }


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0.02, ["no", "yes"]), (0.1, ["no", "yes"]), (0.5, ["no"]), (0.95, ["no"]), (None, None)],
)
def test_answer_set_has_the_best_label_and_all_from_the_threshold_on(
    threshold: float | None, expected: list[str] | None
) -> None:
    answers = answers_of_kind(SINGLE_LABEL, ("yes", "no"), threshold)
    assert answers.result([0.1, 0.9]).get("answer_set") == expected
