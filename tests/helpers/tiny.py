"""Tiny models, batches with padding anywhere, and comparisons with the reference."""

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
import reference
import torch
from packaging.version import Version
from torch import Tensor, nn

from sase_hf import (
    SelfAttentiveConfig,
    SelfAttentiveForNLI,
    SelfAttentiveForSequenceClassification,
    SelfAttentiveModel,
)
from sase_hf.models.answers import answers_of
from sase_hf.utils.neighbours import Neighbours
from sase_hf.utils.process import trains_lstm_in_bfloat16

AnyModel = TypeVar("AnyModel", bound=nn.Module)
Ids = list[int]

VOCAB_SIZE = 23
PADDINGS = ("right", "left", "holed")
# Rows: full, right-padded, left-padded, holed, empty.
MASK = torch.tensor(
    [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]]
).bool()
# Error of float32 after some hundred operations on numbers near 1.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
# The neighbours of a sentence may change the order of its float32 sums.
NEIGHBOUR_TOLERANCE = {"rtol": 3e-6, "atol": 1e-6}

exports = pytest.mark.skipif(
    Version(torch.__version__) < Version("2.13"), reason="exporting an LSTM needs torch 2.13"
)

needs_bfloat16_lstm = pytest.mark.skipif(
    not trains_lstm_in_bfloat16(), reason="this processor trains no LSTM in bfloat16"
)

# Every encoder, with and without its own options, and every pooling.
ENCODERS: tuple[dict[str, Any], ...] = (
    {"encoder": "bilstm"},
    {"encoder": "bilstm", "num_lstm_layers": 2, "lstm_shortcuts": True},
    {"encoder": "cnn"},
    {"encoder": "cnn", "cnn_num_layers": 3},
    {"encoder": "dilated_cnn"},
    {"encoder": "relation_network"},
    {"encoder": "relation_network", "relation_weights": "sigmoid"},
    {"encoder": "relation_network", "relation_weights": "softmax"},
    {"encoder": "relation_network", "relation_weights": "softmax", "relation_window": 2},
    {"encoder": "none", "embedding_size": 8},
)
# An encoder of transformers, in the sizes of the others; it has no loops in the reference.
BERT: dict[str, Any] = {"model_type": "bert", "vocab_size": 23, "hidden_size": 8}
BERT |= {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
BERT |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
BERT |= {"max_position_embeddings": 64}
ON_BERT = {"encoder": "auto_model", "encoder_config": BERT, "embedding_size": 8}
BESIDE_BERT = {**ON_BERT, "linear_part": "words"}  # which reads the mean state, too
POOLINGS = ("self_attention", "max", "mean", "last")
# The attention of the paper; the default is another.
PAPER = {"attention_function": "softmax", "normalize_states": False, "penalty": "frobenius"}
# All combinations that are allowed: only a BiLSTM has a last state.
ARCHITECTURES = (
    *(
        {**encoder, "pooling": pooling}
        for encoder in ENCODERS
        for pooling in POOLINGS
        if pooling != "last" or encoder["encoder"] == "bilstm"
    ),
    PAPER,
    {"attention_function": "sparsemax"},
)
# Every model under every encoder, pooling, matching and classifier.
OWN_MODELS: tuple[tuple[type[Any], dict[str, Any]], ...] = (
    *((SelfAttentiveModel, {"pooling": pooling}) for pooling in POOLINGS),
    *((SelfAttentiveModel, {**encoder, "num_lstm_layers": 2}) for encoder in ENCODERS[1:]),
    (SelfAttentiveForNLI, {"encoder": "relation_network"}),
    (SelfAttentiveForSequenceClassification, {"encoder": "cnn", "pooling": "max"}),
    (SelfAttentiveForSequenceClassification, {"classifier": "mlp", "num_lstm_layers": 2}),
    (SelfAttentiveForSequenceClassification, {"classifier": "pruned_mlp"}),
    (SelfAttentiveForSequenceClassification, {"linear_part": "words"}),
    (SelfAttentiveForSequenceClassification, {"linear_part": "words_and_pairs"}),
    (SelfAttentiveForNLI, {"matching": "gated", "classifier": "pruned_mlp"}),
    (SelfAttentiveForNLI, {"matching": "gated", "linear_part": "words_and_pairs"}),
    (SelfAttentiveForNLI, {"matching": "concat", "pooling": "max"}),
)
MODELS = (*OWN_MODELS, (SelfAttentiveModel, ON_BERT), (SelfAttentiveForNLI, BESIDE_BERT))

SIZES = {
    "vocab_size": VOCAB_SIZE,
    "embedding_size": 6,
    "lstm_hidden_size": 4,
    "attention_size": 5,
    "num_hops": 3,
    "classifier_hidden_size": 7,
    "pruned_row_size": 2,
    "pruned_column_size": 3,
    "embedding_dropout": 0.0,
    "classifier_dropout": 0.0,
}
# The states of all encoders are 8 wide.
ENCODER_SIZES = {
    "cnn_kernel_sizes": (2, 3),
    "cnn_num_filters": 4,
    "dilated_cnn_hidden_size": 8,
    "dilated_cnn_num_layers": 2,
    "relation_hidden_size": 8,
}


def tiny_config(**fields: Any) -> SelfAttentiveConfig:
    return SelfAttentiveConfig(**{**SIZES, **ENCODER_SIZES, **fields})


def name_of(fields: dict[str, Any]) -> str:
    """Name a test after the choices it makes: `cnn-max`, `bilstm-2-lstm_shortcuts-last`."""
    shown = {name: value for name, value in fields.items() if not isinstance(value, dict)}
    return "-".join(name if value is True else str(value) for name, value in shown.items())


def every_model(models: Sequence[tuple[type[Any], dict[str, Any]]]) -> pytest.MarkDecorator:
    """Run a test on each model of the table."""
    ids = [f"{model_class.__name__}-{name_of(fields)}" for model_class, fields in models]
    return pytest.mark.parametrize(("model_class", "fields"), models, ids=ids)


def random_sizes(rng: random.Random, **chosen: Any) -> dict[str, Any]:
    return {
        **chosen,
        "embedding_size": rng.randint(1, 7),
        "lstm_hidden_size": rng.randint(1, 5),
        "num_lstm_layers": rng.randint(2 if chosen.get("lstm_shortcuts") else 1, 3),
        "cnn_kernel_sizes": [rng.randint(1, 6) for _ in range(rng.randint(1, 3))],
        "cnn_num_filters": rng.randint(1, 4),
        "dilated_cnn_hidden_size": rng.randint(1, 8),
        "dilated_cnn_kernel_size": rng.randint(1, 4),
        "dilated_cnn_num_layers": rng.randint(1, 3),
        "relation_hidden_size": rng.randint(1, 8),
        "attention_size": rng.randint(1, 6),
        "num_hops": rng.randint(1, 5),
        "classifier_hidden_size": rng.randint(1, 8),
        "pruned_row_size": rng.randint(1, 4),
        "pruned_column_size": rng.randint(1, 4),
    }


def tiny_model(model_class: type[AnyModel], **fields: Any) -> AnyModel:
    """Return a model in evaluation mode whose every parameter is random, biases included."""
    model = model_class(tiny_config(**fields)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0, 0.6)
            if name.endswith("pooling.hidden_weight"):
                # Squared distances near 1: the penalty sees some pairs of hops and not the others.
                parameter.div_(0.6 * math.sqrt(2 * parameter[0].numel()))
    return model


def give_neighbours(model: Any) -> None:
    """Give a classifier some training rows to compare texts with."""
    num_texts = 1 + model.reads_pairs
    width = num_texts * model.config.num_rows * model.config.hidden_size
    places = torch.arange(width)
    has_one_label = answers_of(model.config).has_one_label
    model.neighbours = Neighbours(
        rows=torch.stack([places % number for number in (5, 60, 127)]).to(torch.int8),
        mean=places.cos(),
        unit=places.sin() + 1.5,
        labels=torch.tensor([0, 1, 0]) if has_one_label else torch.eye(3, model.config.num_labels),
        held_out=torch.linspace(0.5, 2, 50),
        texts=[["one", "two"][:num_texts]] * 3,
    )


def random_text(rng: random.Random, shortest: int = 1, longest: int = 7) -> Ids:
    return [rng.randrange(1, VOCAB_SIZE) for _ in range(rng.randint(shortest, longest))]


def random_pairs(rng: random.Random, count: int) -> list[tuple[Ids, Ids]]:
    return [(random_text(rng), random_text(rng)) for _ in range(count)]


def save_both(folder: Path, model: Any, tokenizer: Any, **options: Any) -> str:
    """Save a model, with options, and its tokenizer; return the path of the folder."""
    model.save_pretrained(folder, **options)
    tokenizer.save_pretrained(folder)
    return str(folder)


def text_batch(
    texts: Sequence[Ids], padding: str = "right", rng: random.Random | None = None, extra: int = 0
) -> dict[str, Tensor]:
    """Lay texts out as the rows of a batch.

    Padding positions hold any ids, not only that of padding: the mask alone must decide.
    """
    rng = rng or random.Random(0)
    width = max(map(len, texts)) + extra
    ids = torch.tensor([[rng.randrange(VOCAB_SIZE) for _ in range(width)] for _ in texts])
    mask = torch.zeros(len(texts), width, dtype=torch.long)
    for row, text in enumerate(texts):
        columns = {
            "right": range(len(text)),
            "left": range(width - len(text), width),
            "holed": sorted(rng.sample(range(width), len(text))),
        }[padding]
        for column, token in zip(columns, text, strict=True):
            ids[row, column] = token
            mask[row, column] = 1
    return {"input_ids": ids.view(len(texts), width), "attention_mask": mask}


def pair_batch(
    pairs: Sequence[tuple[Ids, Ids]],
    padding: str = "right",
    rng: random.Random | None = None,
    extra: int = 0,
) -> dict[str, Tensor]:
    """Lay pairs out as a tokenizer does: one row for both, told apart by `token_type_ids`."""
    batch = text_batch([premise + hypothesis for premise, hypothesis in pairs], padding, rng, extra)
    tokens_so_far = batch["attention_mask"].cumsum(1)
    premise_lengths = torch.tensor([[len(premise)] for premise, _ in pairs])
    return {**batch, "token_type_ids": (tokens_so_far > premise_lengths).long()}


def reference_weights(model: nn.Module) -> dict[str, Tensor]:
    """Copy a model's weights as float64 leaves that collect the reference's gradients."""
    return {
        name: weight.detach().double().requires_grad_()
        for name, weight in model.state_dict().items()
    }


def assert_agree(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual.detach().double(), expected.detach(), **_tolerance(expected))


def assert_gradients_agree(model: nn.Module, weights: reference.Weights) -> None:
    parameters = dict(model.named_parameters())
    assert parameters.keys() == weights.keys()
    # The sum of large gradients that cancel has the error of the large ones.
    tolerance = _tolerance(
        torch.stack([w.grad.abs().max() for w in weights.values() if w.grad.numel()])
    )
    for name, parameter in parameters.items():
        assert parameter.grad is not None, f"{name} got no gradient"
        actual, expected = parameter.grad.double(), weights[name].grad
        torch.testing.assert_close(
            actual, expected, **tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


def _tolerance(expected: Tensor) -> dict[str, float]:
    """Allow the error of the largest number: a smaller one may be a sum of large ones."""
    largest = float(expected.detach().abs().max()) if expected.numel() else 0.0
    return {**TOLERANCE, "atol": TOLERANCE["atol"] * max(1.0, largest)}
