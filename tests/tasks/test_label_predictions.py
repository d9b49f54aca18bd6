"""The columns that predictions of labels add to a file of rows."""

from typing import Any

import pytest
import torch

from sase_hf.evaluation.predictions import predicted_labels
from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL, answers_of_kind

NAMES = ("cold", "hot")


@pytest.mark.parametrize(
    ("kind", "logits", "expected"),
    [
        (
            SINGLE_LABEL,
            [0.0, 1.0],
            {
                "predicted_label": "hot",
                "confidence": 0.7311,
                "scores": {"cold": 0.2689, "hot": 0.7311},
                "answer_set": ["hot", "cold"],
            },
        ),
        (
            MULTI_LABEL,
            [0.0, 1.0],
            {"predicted_labels": ["hot"], "scores": {"cold": 0.5, "hot": 0.7311}},
        ),
        (REGRESSION, [0.25, 4.0], {"predicted_cold": 0.25, "predicted_hot": 4.0}),
    ],
)
def test_predicted_labels_are_columns_of_each_kind_of_answer(
    kind: str, logits: list[float], expected: dict[str, Any]
) -> None:
    threshold = 0.2 if kind == SINGLE_LABEL else None
    answers = answers_of_kind(kind, NAMES, threshold)
    assert predicted_labels(torch.tensor([logits]), answers) == [expected]
