"""The number of weights: the formulas of Appendix A and Table 4 of the paper."""

import pytest
import tiny
import torch

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification

TEXT = {"embedding_size": 100, "attention_size": 350, "num_labels": 5}
PAIR = {"embedding_size": 300, "attention_size": 150, "num_labels": 3}
TABLE_4 = [
    (TEXT, {"classifier_hidden_size": 3000}, 54_003_000, 15_000),
    (TEXT, {"classifier_hidden_size": 4000}, 72_004_000, 20_000),
    (TEXT, {"pruned_row_size": 150, "pruned_column_size": 10}, 2_890_500, 52_500),
    (TEXT, {"pruned_row_size": 25, "pruned_column_size": 20}, 822_750, 63_750),
    (PAIR, {"classifier_hidden_size": 4000}, 72_004_000, 12_000),
    (PAIR, {"pruned_row_size": 300, "pruned_column_size": 10}, 5_595_000, 45_000),
]


@pytest.mark.parametrize(("task", "units", "hidden", "softmax"), TABLE_4, ids=str)
def test_parameter_counts_follow_the_formulas_of_appendix_a(
    task: dict[str, int], units: dict[str, int], hidden: int, softmax: int
) -> None:
    """Full: r U b + b. Pruned: r U p + r p + U r q + U q. The softmax columns of Table 4 are exact.

    `hidden` are the printed figures with the biases, which the table rounds to 54M, 72M, 822K and
    5.6M; for the pruned Yelp model it prints the part of the rows alone, 2.7M.
    """
    is_pair, d, d_a = task is PAIR, task["embedding_size"], task["attention_size"]
    model_class = SelfAttentiveForNLI if is_pair else SelfAttentiveForSequenceClassification
    classifier = "mlp" if "classifier_hidden_size" in units else "pruned_mlp"
    sizes_of_all = {"vocab_size": 1, "lstm_hidden_size": 300, "num_hops": 30}
    config = tiny.tiny_config(classifier=classifier, **sizes_of_all, **task, **units)
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
