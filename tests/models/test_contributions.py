"""Contributions: exact sums over hops and tokens, as in loops over the path and the words."""

import random
from typing import Any

import pytest
import reference
import torch
from tiny import name_of, pair_batch, reference_weights, text_batch, tiny_model

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification
from sase_hf.models.contributions_self_attentive import explain

TEXTS = [([4, 9, 2, 17, 5],), ([3],), ([],), ([11, 5, 20, 6, 2, 7, 8],)]
PAIRS = [([4, 9, 2], [5, 8]), ([3], []), ([], [7]), ([6, 1, 2, 2], [11, 5, 20])]
REGRESSION = {"problem_type": "regression", "num_labels": 2}
REGRESSION |= {"target_mean": [2.0, -1.0], "target_deviation": [3.0, 0.5]}
HEADS: tuple[dict[str, Any], ...] = (
    {"classifier": "mlp"},
    {"classifier": "pruned_mlp", "encoder": "cnn"},
    {"classifier": "mlp", "problem_type": "multi_label_classification"},
    {"classifier": "pruned_mlp", **REGRESSION},
    {"matching": "concat", "attention_function": "softmax"},
    {"matching": "gated", "classifier": "pruned_mlp"},
    {"matching": "gated", "pooling": "generalized"},
    {"pooling": "generalized", "encoder": "dilated_cnn"},
)
SINGLE = {"problem_type": "single_label_classification", "num_labels": 3}


def model_and_texts(head: dict[str, Any]) -> tuple[Any, Any, Any]:
    is_pair = "matching" in head
    model_class: Any = SelfAttentiveForNLI if is_pair else SelfAttentiveForSequenceClassification
    model = tiny_model(model_class, **{**SINGLE, **head})
    return model, PAIRS if is_pair else TEXTS, pair_batch if is_pair else text_batch


@pytest.mark.parametrize("head", HEADS, ids=name_of)
def test_contributions_sum_to_the_logit_minus_that_of_a_text_without_tokens(
    head: dict[str, Any],
) -> None:
    model, texts, batch_of = model_and_texts(head)
    rows = texts if "matching" in head else [text for (text,) in texts]
    batch, nothing = batch_of(rows, "holed", random.Random(3)), batch_of([rows[2]])
    nothing["attention_mask"].zero_()
    labels = torch.tensor([1, 0, 1, 0])
    why = explain(model, **batch, labels=labels)
    with torch.no_grad():
        logits = torch.cat([model(**batch).logits, model(**nothing).logits])
    if model.config.problem_type == "single_label_classification":
        logits = logits - logits.mean(1, keepdim=True)
    expected = logits[:-1] - logits[-1]
    torch.testing.assert_close(why.hops.flatten(2).sum(2), expected, rtol=1e-4, atol=1e-4)
    of_label = expected[torch.arange(4), labels]
    torch.testing.assert_close(why.contributions.flatten(1).sum(1), of_label, rtol=1e-4, atol=1e-4)
    padding = batch["attention_mask"] == 0
    assert not why.words[padding].any()
    assert not why.contributions.flatten(1, -2).mT[padding].any()


@pytest.mark.parametrize("head", HEADS[:6], ids=name_of)
def test_contributions_equal_loops_over_the_path(head: dict[str, Any]) -> None:
    model, texts, batch_of = model_and_texts(head)
    rows = texts if "matching" in head else [text for (text,) in texts]
    batch = batch_of(rows, "holed", random.Random(5))
    weights = reference_weights(model)
    labels = torch.tensor([0, 1, 1, 0])
    why = explain(model, **batch, labels=labels)
    for row, sentences in enumerate(texts):
        if not all(sentences):  # the loops have no state to normalize
            continue
        hops, words = reference.contributions(
            model.config, weights, sentences, int(labels[row]), steps=400
        )
        real = batch["attention_mask"][row].bool()
        # The loop meets the kinks of the ReLUs to a step.
        close = {"rtol": 1e-3, "atol": 5e-2, "check_dtype": False}
        torch.testing.assert_close(why.words[row][real], torch.cat(words), **close)
        found = why.contributions[row][..., real]
        for side, expected in enumerate(hops):
            mine = found if len(hops) == 1 else found[side]
            types = batch.get("token_type_ids")
            own = slice(None) if types is None else types[row][real] == side
            torch.testing.assert_close(mine[:, own], expected, **close)


def test_explain_takes_the_best_label_and_refuses_what_has_no_contributions() -> None:
    model = tiny_model(SelfAttentiveForSequenceClassification, **SINGLE)
    batch = text_batch([[4, 9, 2], [3, 5]])
    assert explain(model, **batch).labels.tolist() == model(**batch).logits.argmax(1).tolist()
    with pytest.raises(ValueError, match=r"in training mode, .*; call eval\(\)"):
        explain(model.train(), **batch)
    pooled = tiny_model(SelfAttentiveForSequenceClassification, pooling="max", **SINGLE)
    with pytest.raises(ValueError, match=r"pooling='max' has no contributions; they need a class"):
        explain(pooled, **batch)
