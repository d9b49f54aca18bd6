"""Which predictions are shown."""

from typing import Any

import pytest
from tiny import tiny_model

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
    build_tokenizer,
)
from sase_hf.models.answers import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from sase_hf.utils.loading import attention_pipeline
from sase_hf.visualization import select_predictions
from sase_hf.visualization.selection import read_answers, read_rows

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


def test_selection_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(ValueError, match=r"'best'.* confident, wrong, random"):
        select_predictions(RESULTS, "best")
    with pytest.raises(ValueError, match=r"none of 7 .* min_score"):
        select_predictions(RESULTS, min_score=1.0)


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        (SelfAttentiveForSequenceClassification, {"problem_type": SINGLE_LABEL, "num_labels": 3}),
        (SelfAttentiveForSequenceClassification, {"problem_type": MULTI_LABEL, "num_labels": 3}),
        (SelfAttentiveForSequenceClassification, {"problem_type": REGRESSION, "num_labels": 1}),
        (SelfAttentiveForSequenceClassification, {"problem_type": REGRESSION, "num_labels": 2}),
        (SelfAttentiveForNLI, {"problem_type": SINGLE_LABEL, "num_labels": 3}),
        (SelfAttentiveForRetrieval, {}),
    ],
)
def test_read_answers_are_those_of_the_results_with_explanations(
    head: Any, fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = build_tokenizer(["the soup was good", "the bread was not"])
    reader = attention_pipeline(tiny_model(head, vocab_size=len(tokenizer), **fields), tokenizer)
    texts: list[Any] = ["the soup", "the bread was not good", "unknown"]
    if reader.model.reads_pairs:
        texts = [{"text": text, "text_pair": "the soup was"} for text in texts]
    rows: list[Any] = [(text, {"true_label": "x"}) for text in texts]
    reader.model.config.max_tokens = 4
    answers = read_answers(reader, rows, 2)
    results = read_rows(reader, rows, 2)
    for answer, result in zip(answers, results, strict=True):
        assert answer.keys() <= result.keys()
        assert answer["scores"] == pytest.approx(result.pop("scores"), abs=1e-6)
        assert answer["score"] == pytest.approx(result.pop("score"), abs=1e-6)
        rest = answer.keys() - {"scores", "score"}
        assert {name: answer[name] for name in rest} == {name: result[name] for name in rest}
    assert "not supported" not in caplog.text
