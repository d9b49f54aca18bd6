"""Which predictions are shown."""

from typing import Any

import pytest

from sase_hf.models.answers import REGRESSION, SINGLE_LABEL
from sase_hf.visualization import select_predictions

# Label, score and true label.
PREDICTIONS = ["b 0.9 b", "a 0.8 b", "b 0.7 a", "a 0.95 a", "b 0.99 a", "a 0.5 b", "b 0.85 b"]
RESULTS = [
    {"kind": SINGLE_LABEL, "label": label, "score": float(score), "true_label": true_label}
    for label, score, true_label in map(str.split, PREDICTIONS)
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 3, 0, 4, 6]),
        ({"select": "wrong"}, [1, 5, 2, 4]),
        ({"select": "random"}, [1, 3, 5, 0, 2, 4, 6]),
    ],
)
def test_selection_takes_predictions_label_by_label(
    options: dict[str, Any], expected: list[int]
) -> None:
    assert select_predictions(RESULTS, **options) == expected


def test_selection_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(ValueError, match=r"'best'.* confident, wrong, random"):
        select_predictions(RESULTS, "best")
    numbers = [{**result, "kind": REGRESSION} for result in RESULTS]
    for select in ("confident", "wrong"):
        with pytest.raises(ValueError, match=f"none of 7 predictions is known to be {select}"):
            select_predictions(numbers, select)
