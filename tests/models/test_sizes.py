"""How many weights a model has: the formulas of Appendix A and the figures of Table 4."""

from typing import Any

import pytest
import tiny
import torch

from sase_hf import (
    SelfAttentiveConfig,
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
)
from sase_hf.models.self_attentive.modeling_self_attentive import SelfAttentivePreTrainedModel


def _head_parameters(
    model_class: type[SelfAttentivePreTrainedModel], **fields: Any
) -> tuple[int, int, int]:
    """Count the weights of Table 4: hidden layer, softmax (weights only), all others.

    Built without memory; word vectors are not counted, as in the table.
    """
    with torch.device("meta"):
        model = model_class(tiny.tiny_config(vocab_size=1, **fields))
    hidden = softmax = other = 0
    for name, parameter in model.named_parameters():
        if name == "classifier.output.weight":
            softmax += parameter.numel()
        elif name.startswith("classifier.") and not name.startswith("classifier.output."):
            hidden += parameter.numel()
        elif not name.startswith(("classifier.", "encoder.embeddings.")):
            other += parameter.numel()
    return hidden, softmax, other


TABLE_4 = [
    # Text, 5 classes: d = 100, u = 300, d_a = 350, r = 30.
    ("yelp", "mlp", 3000, 54_003_000, 15_000),
    ("age", "mlp", 4000, 72_004_000, 20_000),
    ("yelp", "pruned_mlp", (150, 10), 2_890_500, 52_500),
    ("age", "pruned_mlp", (25, 20), 822_750, 63_750),
    # Pairs, 3 classes: d = 300, u = 300, d_a = 150, r = 30.
    ("snli", "mlp", 4000, 72_004_000, 12_000),
    ("snli", "pruned_mlp", (300, 10), 5_595_000, 45_000),
]


@pytest.mark.parametrize(("task", "classifier", "units", "hidden", "softmax"), TABLE_4)
def test_parameter_counts_follow_the_formulas_of_appendix_a(
    task: str, classifier: str, units: Any, hidden: int, softmax: int
) -> None:
    """Full: r U b + b. Pruned: r U p + r p + U r q + U q. The softmax columns of Table 4 are exact.

    `hidden` are the printed figures with the biases, which the table rounds to 54M, 72M, 822K and
    5.6M; for the pruned Yelp model it prints the part of the rows alone, 2.7M.
    """
    pair = task == "snli"
    fields: dict[str, Any] = (
        {"classifier_hidden_size": units}
        if classifier == "mlp"
        else {"pruned_row_size": units[0], "pruned_column_size": units[1]}
    )
    counted = _head_parameters(
        SelfAttentiveForNLI if pair else SelfAttentiveForSequenceClassification,
        classifier=classifier,
        embedding_size=300 if pair else 100,
        lstm_hidden_size=300,
        attention_size=150 if pair else 350,
        num_hops=30,
        num_labels=3 if pair else 5,
        **fields,
    )
    # Two LSTMs with two bias vectors each (the paper's have one), W_s1 and W_s2, and per hop and
    # side of a pair a 2u x 2u matrix.
    lstm = 2 * (4 * 300 * ((300 if pair else 100) + 300) + 2 * 4 * 300)
    attention = (150 if pair else 350) * (600 + 30)
    gates = 2 * 30 * 600 * 600 if pair else 0
    assert counted == (hidden, softmax, lstm + attention + gates)


@pytest.mark.parametrize(
    ("part", "fields", "expected"),
    [
        (
            "token_encoder",  # the second layer reads d + 2u, the third d + 4u
            {"lstm_shortcuts": True, "num_lstm_layers": 3},
            sum(2 * (4 * 300 * (width + 300) + 2 * 4 * 300) for width in (100, 700, 1300)),
        ),
        ("token_encoder", {"encoder": "cnn"}, (3 + 4 + 5) * 100 * 200 + 3 * 200),
        (
            "token_encoder",
            {"encoder": "dilated_cnn"},
            100 * 600 + 600 + 4 * (3 * 600 * 600 + 600),
        ),
        (
            "token_encoder",
            {"encoder": "relation_network", "relation_gate": True},
            2 * 100 * 128 + 128 + 128 * 128 + 128 + 2 * 100 + 1,
        ),
        # A bias of the second matrix would cancel in the softmax.
        ("pooling", {"pooling": "generalized"}, 30 * (600 * 350 + 350 + 350 * 600)),
    ],
)
def test_other_encoders_and_poolings_have_the_weights_of_their_formulas(
    part: str, fields: dict[str, Any], expected: int
) -> None:
    """At the default sizes."""
    with torch.device("meta"):
        model = SelfAttentiveModel(SelfAttentiveConfig(**fields))
    assert sum(weight.numel() for weight in model.get_submodule(part).parameters()) == expected
