"""What a model answers: one label, several labels, or numbers."""

from typing import Any

import pytest
import torch

from sase_hf.models.answers import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    Answers,
    answers_of_kind,
)

NAMES = ("cold", "mild", "hot")
SCORES = [0.2, 0.7, 0.6]
SINGLE, SEVERAL, NUMBERS = (
    answers_of_kind(kind, NAMES) for kind in (SINGLE_LABEL, MULTI_LABEL, REGRESSION)
)


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
