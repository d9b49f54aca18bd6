"""The number of weights: the formulas of Appendix A and Table 4 of the paper."""

import pytest
import tiny
import torch

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification

TABLE_4 = [
    # Text, 5 classes: d = 100, u = 300, d_a = 350, r = 30.
    ("yelp", "mlp", (3000,), 54_003_000, 15_000),
    ("age", "mlp", (4000,), 72_004_000, 20_000),
    ("yelp", "pruned_mlp", (150, 10), 2_890_500, 52_500),
    ("age", "pruned_mlp", (25, 20), 822_750, 63_750),
    # Pairs, 3 classes: d = 300, u = 300, d_a = 150, r = 30.
    ("snli", "mlp", (4000,), 72_004_000, 12_000),
    ("snli", "pruned_mlp", (300, 10), 5_595_000, 45_000),
]


@pytest.mark.parametrize(("task", "classifier", "units", "hidden", "softmax"), TABLE_4)
def test_parameter_counts_follow_the_formulas_of_appendix_a(
    task: str, classifier: str, units: tuple[int, ...], hidden: int, softmax: int
) -> None:
    """Full: r U b + b. Pruned: r U p + r p + U r q + U q. The softmax columns of Table 4 are exact.

    `hidden` are the printed figures with the biases, which the table rounds to 54M, 72M, 822K and
    5.6M; for the pruned Yelp model it prints the part of the rows alone, 2.7M.
    """
    is_pair = task == "snli"
    model_class = SelfAttentiveForNLI if is_pair else SelfAttentiveForSequenceClassification
    d, d_a = (300, 150) if is_pair else (100, 350)
    names = ("classifier_hidden_size",)
    if classifier == "pruned_mlp":
        names = ("pruned_row_size", "pruned_column_size")
    config = tiny.tiny_config(
        vocab_size=1,
        classifier=classifier,
        embedding_size=d,
        lstm_hidden_size=300,
        attention_size=d_a,
        num_hops=30,
        num_labels=3 if is_pair else 5,
        **dict(zip(names, units, strict=True)),
    )
    with torch.device("meta"):
        model = model_class(config)
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    assert sizes.pop("classifier.output.weight") == softmax
    del sizes["classifier.output.bias"], sizes["encoder.embeddings.weight"]
    assert sum(size for name, size in sizes.items() if name.startswith("classifier.")) == hidden
    # Two LSTMs with two bias vectors each (the paper's have one), W_s1 and W_s2, and per hop and
    # side of a pair a 2u x 2u matrix.
    lstm = 2 * (4 * 300 * (d + 300) + 2 * 4 * 300)
    gates = 2 * 30 * 600 * 600 if is_pair else 0
    assert sum(sizes.values()) - hidden == lstm + d_a * (600 + 30) + gates
