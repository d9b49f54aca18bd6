"""The attributions that compete with the contributions: their classes and precision."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from explanations.attributions import (
    gradient_times_input,
    integrated_gradients,
    probability,
)
from tiny import pair_batch, text_batch, tiny_model

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification

LABELS = {"problem_type": "single_label_classification", "num_labels": 3}
CLASSES = torch.tensor([2, 0, 1])
INTEGRAL = partial(integrated_gradients, steps=2)


def model_and_batch(name: str) -> tuple[Any, dict[str, torch.Tensor]]:
    if name == "pair":
        fields = {"matching": "concat", "linear_part": "words_and_pairs", **LABELS}
        model = tiny_model(SelfAttentiveForNLI, **fields)
        return model, pair_batch([([4, 9, 2], [5, 8]), ([3], []), ([], [7])])
    model = tiny_model(SelfAttentiveForSequenceClassification, **LABELS)
    return model, text_batch([[4, 9, 2, 17, 5], [3], []])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["text", "pair"])
@pytest.mark.parametrize("attribute", [gradient_times_input, INTEGRAL], ids=["slopes", "integrals"])
def test_autocast_changes_no_attribution(
    attribute: Callable[..., Any], name: str, dtype: torch.dtype
) -> None:
    """Processors without AVX-512 read no LSTM in half precision where a gradient is needed."""
    model, batch = model_and_batch(name)
    expected = attribute(model, batch, CLASSES)
    with torch.autocast("cpu", dtype):
        cast = attribute(model, batch, CLASSES)
    for value, whole in zip(cast, expected, strict=True):
        torch.testing.assert_close(value, whole, rtol=0, atol=0)


def test_integrated_gradients_add_up_with_a_linear_part_too() -> None:
    """To the change of the probability from word vectors of zeros and no words."""
    model = tiny_model(
        SelfAttentiveForSequenceClassification,
        linear_part="words_and_pairs",
        initializer_range=0.5,
        **LABELS,
    )
    batch = text_batch([[4, 9, 2, 17, 5], [3], [8, 8]])
    scores, _, _ = integrated_gradients(model, batch, CLASSES, steps=64)
    zeros = torch.zeros(*batch["input_ids"].shape, model.config.embedding_size)
    with torch.no_grad():
        end = probability(model, batch, CLASSES)
        model.linear_part = None
        start = model(inputs_embeds=zeros, attention_mask=batch["attention_mask"]).logits.softmax(
            -1
        )
    expected = end - start.gather(1, CLASSES.unsqueeze(1))[:, 0]
    torch.testing.assert_close(scores.sum(1), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        (torch.tensor([0]), r"classes has shape \(1,\); .* one label per text, \(3,\)"),
        (torch.tensor([0, 3, 0]), "classes holds 3; the labels of the model are 0 to 2"),
    ],
    ids=["shape", "label"],
)
@pytest.mark.parametrize("attribute", [probability, INTEGRAL], ids=["probability", "integrals"])
def test_classes_to_attribute_are_checked(
    attribute: Callable[..., Any], classes: torch.Tensor, message: str
) -> None:
    """A wrong shape or id would explain another class without an error."""
    model, batch = model_and_batch("text")
    with pytest.raises(ValueError, match=message):
        attribute(model, batch, classes)
