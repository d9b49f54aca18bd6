"""Which predictions are shown."""

from typing import Any

import pytest

from sase_hf.visualization import select_predictions

LABELS = ["b", "a", "b", "a", "b", "a", "b"]
SCORES = [0.9, 0.8, 0.7, 0.95, 0.99, 0.5, 0.85]
TRUE = ["b", "b", "a", "a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 3, 0, 4, 6]),
        ({"min_score": 0.9}, [3, 0, 4]),
        ({"kind": "wrong", "min_score": 0.0}, [1, 5, 2, 4]),
        ({"kind": "wrong"}, [1, 4]),
        ({"kind": "random"}, [1, 3, 5, 0, 2, 4, 6]),
    ],
)
def test_selection_takes_predictions_label_by_label(
    options: dict[str, Any], expected: list[int]
) -> None:
    assert select_predictions(LABELS, SCORES, TRUE, **options) == expected


def test_selection_follows_the_seed() -> None:
    labels, scores = ["a", "b"] * 500, [0.9] * 1000
    one, other = (select_predictions(labels, scores, per_label=5, seed=seed) for seed in (1, 2))
    assert [labels[place] for place in one] == ["a"] * 5 + ["b"] * 5
    assert one != other


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "best"}, "kind is 'best'; allowed are confident, wrong, random"),
        ({"min_score": 1.0}, "none of 7 predictions is confident with min_score 1.0; lower"),
        ({"kind": "wrong", "true_labels": None}, "kind='wrong' needs true_labels; give them"),
    ],
)
def test_selection_refuses_what_it_cannot_draw(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        select_predictions(LABELS, SCORES, **{"true_labels": TRUE, **options})
