"""Contributions: exact sums over hops and words, as in loops over the path and the encoder."""

import random
from typing import Any

import peft
import pytest
import reference
import torch
from tiny import (
    BESIDE_BERT,
    name_of,
    pair_batch,
    reference_weights,
    text_batch,
    tiny_model,
)

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification
from sase_hf.models.explanation_self_attentive import explain

TEXTS = [[4, 9, 2, 17, 5], [3], [], [11, 5, 20, 6, 2, 7, 8]]
PAIRS = [([4, 9, 2], [5, 8]), ([3], []), ([], [7]), ([6, 1, 2, 2], [11, 5, 20])]
REGRESSION = {"problem_type": "regression", "num_labels": 2}
REGRESSION |= {"target_mean": [2.0, -1.0], "target_deviation": [3.0, 0.5]}
HEADS: tuple[dict[str, Any], ...] = (
    {"classifier": "mlp"},
    {
        "classifier": "mlp",
        "problem_type": "multi_label_classification",
        "linear_part": "words_and_pairs",
    },
    {"classifier": "pruned_mlp", **REGRESSION, "linear_part": "words"},
    {"matching": "concat", "attention_function": "softmax", "linear_part": "words_and_pairs"},
    {"matching": "gated", "classifier": "pruned_mlp", "linear_part": "words"},
    {"classifier": "pruned_mlp", "encoder": "dilated_cnn"},
    {"num_lstm_layers": 2, "lstm_shortcuts": True},
    {"encoder": "none"},
)
SINGLE = {"problem_type": "single_label_classification", "num_labels": 3}


def model_and_texts(head: dict[str, Any]) -> tuple[Any, Any, Any]:
    is_pair = "matching" in head
    model_class: Any = SelfAttentiveForNLI if is_pair else SelfAttentiveForSequenceClassification
    model = tiny_model(model_class, **{**SINGLE, **head})
    return model, PAIRS if is_pair else TEXTS, pair_batch if is_pair else text_batch


# Of these, words alone do not add up.
MIXING: tuple[dict[str, Any], ...] = (
    BESIDE_BERT,
    {**BESIDE_BERT, "matching": "concat", "problem_type": "multi_label_classification"},
    {"encoder": "relation_network"},
)


@pytest.mark.parametrize("head", [*HEADS, *MIXING], ids=name_of)
def test_contributions_sum_to_the_logit_minus_that_of_a_text_without_tokens(
    head: dict[str, Any],
) -> None:
    """Those of the hops, and those of the words with what they leave."""
    model, texts, batch_of = model_and_texts(head)
    batch, nothing = batch_of(texts, "holed", random.Random(3)), batch_of([texts[2]])
    nothing["attention_mask"].zero_()
    labels = torch.tensor([1, 0, 1, 0])
    why = explain(model, **batch, labels=labels)
    with torch.no_grad():
        logits = model(**batch).logits - model(**nothing).logits
    if model.config.problem_type == "single_label_classification":
        logits = logits - logits.mean(1, keepdim=True)
    of_label = logits[torch.arange(4), labels]
    rest = why.rest.view(4, -1).sum(1)
    for total in (
        why.contributions.flatten(1).sum(1) + why.linear.sum(1),
        why.words.sum(1) + rest,
    ):
        torch.testing.assert_close(total, of_label, rtol=1e-4, atol=1e-4)
    assert (rest.abs().max() > 1e-3) == (head in MIXING)
    padding = batch["attention_mask"] == 0
    for of_tokens in (why.words, why.linear, why.contributions.flatten(1, -2).mT):
        assert not of_tokens[padding].any()


@pytest.mark.parametrize("head", HEADS, ids=name_of)
def test_contributions_equal_loops_over_the_path(head: dict[str, Any]) -> None:
    model, texts, batch_of = model_and_texts(head)
    batch = batch_of(texts, "holed", random.Random(5))
    weights = reference_weights(model)
    labels = torch.tensor([0, 1, 1, 0])
    why = explain(model, **batch, labels=labels)
    for row, sentences in enumerate(texts if "matching" in head else [(text,) for text in texts]):
        if not all(sentences):  # the loops have no state to normalize
            continue
        hops, words = reference.contributions(
            model.config, weights, sentences, int(labels[row]), steps=400
        )
        real = batch["attention_mask"][row].bool()
        # The loop meets the kinks of the ReLUs to a step.
        close = {"rtol": 1e-3, "atol": 5e-2, "check_dtype": False}
        by_label = reference.linear_part(model.config, weights, sentences).detach()
        is_single = model.config.problem_type == "single_label_classification"
        linear = by_label[:, labels[row]] - (by_label.mean(1) if is_single else 0)
        torch.testing.assert_close(why.linear[row][real], linear, **close)
        torch.testing.assert_close(why.words[row][real], torch.cat(words) + linear, **close)
        found = why.contributions[row][..., real]
        for side, expected in enumerate(hops):
            mine = found if len(hops) == 1 else found[side]
            types = batch.get("token_type_ids")
            own = slice(None) if types is None else types[row][real] == side
            torch.testing.assert_close(mine[:, own], expected, **close)


def test_words_that_grow_beyond_all_measure_get_what_the_hops_added_there() -> None:
    """Held gates bound nothing in an LSTM with large weights, in one text of a batch or in all."""
    model, _, _ = model_and_texts({"initializer_range": 1.0})
    for name, weight in model.encoder.token_encoder.named_parameters():
        if "weight_hh" in name:
            weight.data.normal_(0, 8)
    long = [2 + place % 19 for place in range(400)]
    batch = text_batch([long, [4]])
    why = explain(model, **batch)
    assert why.words.isfinite().all()
    torch.testing.assert_close(why.words[0], why.contributions[0].sum(0))
    torch.testing.assert_close(why.rest, torch.zeros(2), rtol=0, atol=1e-4)


def test_words_of_word_vectors_and_biases_of_zero_are_zero() -> None:
    """tanh(z) / z is 1 at 0."""
    model, _, _ = model_and_texts({})
    for name, weight in model.encoder.named_parameters():
        if "bias" in name or "embeddings" in name:
            weight.data.zero_()
    why = explain(model, **text_batch([[4, 9, 2]]))
    assert not why.words.any()


def test_explain_takes_the_best_label_and_refuses_what_has_no_contributions() -> None:
    model = tiny_model(SelfAttentiveForSequenceClassification, **SINGLE)
    batch = text_batch([[4, 9, 2], [3, 5]])
    assert explain(model, **batch).labels.tolist() == model(**batch).logits.argmax(1).tolist()
    with pytest.raises(ValueError, match=r"in training mode, .*; call eval\(\)"):
        explain(model.train(), **batch)
    pooled = tiny_model(SelfAttentiveForSequenceClassification, pooling="max", **SINGLE)
    with pytest.raises(ValueError, match=r"pooling='max' has no contributions; they need a class"):
        explain(pooled, **batch)


@pytest.mark.parametrize(
    "ids",
    [
        torch.tensor([0, -1]),
        torch.tensor([3, 0]),
        torch.tensor([0.0, 1.0]),
    ],
    ids=str,
)
def test_labels_to_explain_are_checked(ids: torch.Tensor) -> None:
    """A wrong shape or id would explain another label without an error."""
    model = tiny_model(SelfAttentiveForSequenceClassification, **SINGLE)
    with pytest.raises((ValueError, RuntimeError), match=r"labels|[Cc]lass values|one_hot"):
        explain(model, **text_batch([[4, 9, 2], [3, 5]]), labels=ids)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft reads it
@pytest.mark.parametrize("layer", ["hidden", "output"])
def test_explain_refuses_an_adapted_classifier(layer: str) -> None:
    """The weights beside an adapter would explain another model."""
    batch, labels = text_batch([[4, 9, 2], [3, 5]]), torch.tensor([0, 1])
    model = tiny_model(SelfAttentiveForSequenceClassification, **SINGLE)
    config = peft.LoraConfig(r=2, target_modules=[layer], init_lora_weights=False)
    adapted = peft.get_peft_model(model, config).eval()
    with pytest.raises(ValueError, match=rf"classifier.{layer} is a Linear.*merge_and_unload"):
        explain(adapted, **batch, labels=labels)


def test_autocast_changes_no_contribution() -> None:
    """Processors without AVX-512 read no LSTM in half precision where a gradient is needed."""
    model, texts, batch_of = model_and_texts({})
    batch = batch_of(texts)
    expected = explain(model, **batch)
    with torch.autocast("cpu", torch.bfloat16):
        cast = explain(model, **batch)
    for value, whole in zip(cast, expected, strict=True):
        torch.testing.assert_close(value, whole, rtol=0, atol=0)
