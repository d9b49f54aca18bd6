"""What a model answers: one label, several labels, or numbers."""

from typing import Any

import pytest

from sase_hf import SelfAttentiveConfig
from sase_hf.models.answers import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    answers_of,
    answers_of_kind,
)
from sase_hf.visualization.attended_text import answer_text

NAMES = ("cold", "mild", "hot")


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
    ("threshold", "expected"),
    [(0.02, ["no", "yes"]), (0.1, ["no", "yes"]), (0.5, ["no"]), (0.95, ["no"]), (None, None)],
)
def test_answer_set_has_the_best_label_and_all_from_the_threshold_on(
    threshold: float | None, expected: list[str] | None
) -> None:
    answers = answers_of_kind(SINGLE_LABEL, ("yes", "no"), threshold)
    assert answers.result([0.1, 0.9]).get("answer_set") == expected


def test_numbers_are_not_compared_with_one_another() -> None:
    """Each has a unit of its own: the first one leads, and all are shown."""
    result = answers_of_kind(REGRESSION, ("stars", "length")).result([4.5, 90.0])
    assert (result["label"], result["score"]) == ("stars", 4.5)
    assert answer_text(result) == "stars 4.500, length 90.000"
