"""Which predictions are shown."""

from typing import Any

import pytest

from sase_hf.visualization import select_predictions

LABELS = ["b", "a", "b", "a", "b", "a", "b"]
SCORES = [0.9, 0.8, 0.7, 0.95, 0.99, 0.5, 0.85]
TRUE = ["b", "b", "a", "a", "a", "b", "b"]
RESULTS = [
    {"label": label, "score": score, "true_label": true_label}
    for label, score, true_label in zip(LABELS, SCORES, TRUE, strict=True)
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 3, 0, 4, 6]),
        ({"min_score": 0.9}, [3, 0, 4]),
        ({"select": "wrong"}, [1, 5, 2, 4]),
        ({"select": "wrong", "min_score": 0.8}, [1, 4]),
        ({"select": "random"}, [1, 3, 5, 0, 2, 4, 6]),
    ],
)
def test_selection_takes_predictions_label_by_label(
    options: dict[str, Any], expected: list[int]
) -> None:
    assert select_predictions(RESULTS, **options) == expected


def test_selection_follows_the_seed() -> None:
    results = [{"label": label, "score": 0.9} for label in "ab" * 500]
    one, other = (select_predictions(results, per_label=5, seed=seed) for seed in (1, 2))
    assert [results[place]["label"] for place in one] == ["a"] * 5 + ["b"] * 5
    assert one != other


def test_selection_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(ValueError, match="select is 'best'; allowed are confident, wrong, random"):
        select_predictions(RESULTS, "best")
    with pytest.raises(ValueError, match="none of 7 predictions is confident with min_score"):
        select_predictions(RESULTS, min_score=1.0)
