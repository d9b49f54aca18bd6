"""What a model answers: one label, several labels, or numbers."""

from typing import Any

import pytest
import torch
from torch import Tensor

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
    ("answers", "scores", "chosen"),
    [
        (SINGLE, torch.tensor([0.0, 2.0, -1.0]).softmax(0), [1]),
        (SEVERAL, torch.tensor([0.0, 2.0, -1.0]).sigmoid(), [[0, 1, 0]]),
        (NUMBERS, torch.tensor([0.0, 2.0, -1.0]), [[0.0, 2.0, -1.0]]),
    ],
)
def test_answers_turn_logits_into_scores_and_a_choice(
    answers: Answers, scores: Tensor, chosen: list[Any]
) -> None:
    logits = torch.tensor([0.0, 2.0, -1.0])
    assert torch.equal(answers.scores(logits), scores)
    assert answers.chosen(logits[None]).tolist() == chosen


@pytest.mark.parametrize(
    ("answers", "predicted", "columns"),
    [
        (SINGLE, "mild", {"predicted_label": "mild", "confidence": 0.7}),
        (SEVERAL, ["mild", "hot"], {"predicted_labels": ["mild", "hot"]}),
        (
            NUMBERS,
            SCORES,
            {"predicted_cold": 0.2, "predicted_mild": 0.7, "predicted_hot": 0.6},
        ),
    ],
)
def test_answers_name_what_is_predicted(
    answers: Answers, predicted: Any, columns: dict[str, Any]
) -> None:
    scores = {} if answers is NUMBERS else {"scores": dict(zip(NAMES, SCORES, strict=True))}
    assert answers.predicted(SCORES) == predicted
    assert answers.columns(SCORES) == {**columns, **scores}
    assert SEVERAL.predicted([0.5, 0.51, 0.0]) == ["mild"], "those above a half"


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
    assert answers.columns([0.1, 0.9]).get("answer_set") == expected
    assert answers.result([0.1, 0.9]).get("answer_set") == expected


@pytest.mark.parametrize(
    ("kind", "threshold", "least_sure_first"),
    [
        # The largest answer set, then the smallest lead of the best label.
        (
            SINGLE_LABEL,
            0.3,
            [[0.4, 0.35, 0.3], [0.5, 0.45, 0.05], [0.55, 0.35, 0.1], [0.8, 0.2, 0]],
        ),
        (SINGLE_LABEL, None, [[0.5, 0.5, 0], [0.4, 0.3, 0.3], [0.7, 0.2, 0.1]]),
        # The label that is nearest to applying, or to not applying.
        (MULTI_LABEL, None, [[0, 0.51, 1], [0.45, 0.9, 1], [0.1, 0, 1]]),
    ],
)
def test_sureness_sorts_the_least_sure_first(
    kind: str, threshold: float | None, least_sure_first: list[list[float]]
) -> None:
    answers: Any = answers_of_kind(kind, NAMES, threshold)
    surest_first = least_sure_first[::-1]
    surest_first.sort(key=answers.sureness)
    assert surest_first == least_sure_first


def test_sureness_of_one_label_is_its_probability_and_numbers_have_none() -> None:
    assert answers_of_kind(SINGLE_LABEL, ["only"]).sureness([1.0]) == (0, 1.0)
    assert NUMBERS.sureness(SCORES) is None


@pytest.mark.parametrize(
    ("answers", "true_label", "expected"),
    [
        (SINGLE, "mild", True),
        (SINGLE, "hot", False),
        (SINGLE, ["mild"], None),
        (SEVERAL, ["hot", "mild"], True),
        (SEVERAL, ["mild"], False),
        (SEVERAL, "mild", False),
        (NUMBERS, [0.2, 0.7, 0.6], None),
    ],
)
def test_answers_say_whether_a_result_is_right(
    answers: Answers, true_label: Any, expected: bool | None
) -> None:
    assert answers.is_right(true_label, answers.result(SCORES)) is expected


@pytest.mark.parametrize(
    ("answers", "shown"), [(SINGLE, "60.0%"), (SEVERAL, "0.600"), (NUMBERS, "0.600")]
)
def test_answers_say_how_a_score_is_shown(answers: Answers, shown: str) -> None:
    assert answers.shown(0.6) == shown


@pytest.mark.parametrize(
    ("answers", "labels", "expected", "constant"),
    [
        (SINGLE, [2, 0, 2], [2, 0, 2], [1.0, 0.0, 2.0]),
        (SINGLE, [[0.1, 0.2, 0.7]], [2], [0.0, 0.0, 1.0]),
        (SEVERAL, [[1.0, 0.0, 1.0]], [[1.0, 0.0, 1.0]], [0.5, -0.5, 0.5]),
        (NUMBERS, [[1.0, 2.0, 3.0], [3.0, 2.0, 5.0]], None, [2.0, 2.0, 4.0]),
    ],
)
def test_answers_read_labels_and_what_alone_predicts_them(
    answers: Answers, labels: list[Any], expected: list[Any] | None, constant: list[float]
) -> None:
    read = answers.labels(torch.tensor(labels))
    assert read.tolist() == (labels if expected is None else expected)
    assert answers.constant_logits(read).tolist() == constant


@pytest.mark.parametrize(
    ("answers", "logits", "labels", "expected"),
    [
        (SINGLE, [[9.0, 0.0, 0.0], [0.0, 2.0, 0.0]], [0, 2], [0.0, 0.787]),
        (SEVERAL, [[1.0, 1.0, -1.0]], [[1.0, 0.0, 1.0]], [2.0]),
        (
            NUMBERS,
            [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0], [9.0, 0.0, 0.0]],
            [[0.0] * 3] * 3,
            [0.0, 0.0, 9.0],
        ),
    ],
)
def test_answers_measure_the_error_of_each_row(
    answers: Answers, logits: list[Any], labels: list[Any], expected: list[float]
) -> None:
    errors = answers.errors(torch.tensor(logits), torch.tensor(labels))
    assert errors.tolist() == pytest.approx(expected, abs=1e-3)
