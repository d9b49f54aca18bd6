"""Contributions: exact sums over hops and words, as in loops over the path and the encoder."""

import random
from typing import Any

import peft
import pytest
import reference
import torch
from tiny import (
    BESIDE_BERT,
    ON_BERT,
    name_of,
    pair_batch,
    reference_weights,
    text_batch,
    tiny_model,
)

from sase_hf import (
    SelfAttentiveForNLI,
    SelfAttentiveForRetrieval,
    SelfAttentiveForSequenceClassification,
)
from sase_hf.models.explanation_self_attentive import explain

TEXTS = [[4, 9, 2, 17, 5], [3], [], [11, 5, 20, 6, 2, 7, 8]]
PAIRS = [([4, 9, 2], [5, 8]), ([3], []), ([], [7]), ([6, 1, 2, 2], [11, 5, 20])]
REGRESSION = {"problem_type": "regression", "num_labels": 2}
REGRESSION |= {"target_mean": [2.0, -1.0], "target_deviation": [3.0, 0.5]}
HEADS = (
    {"classifier": "mlp"},
    {"classifier": "pruned_mlp", "encoder": "cnn"},
    {
        "classifier": "mlp",
        "problem_type": "multi_label_classification",
        "linear_part": "words_and_pairs",
    },
    {"classifier": "pruned_mlp", **REGRESSION, "linear_part": "words"},
    {"matching": "concat", "attention_function": "softmax", "linear_part": "words_and_pairs"},
    {"matching": "gated", "classifier": "pruned_mlp", "linear_part": "words"},
    {"matching": "gated"},
    {"encoder": "dilated_cnn"},
    {"num_lstm_layers": 2, "lstm_shortcuts": True},
    {"encoder": "none"},
    {"pooling": "max", "linear_part": "words"},
    {"pooling": "mean", "matching": "gated"},
    {"pooling": "last", "matching": "concat"},
)
SINGLE = {"problem_type": "single_label_classification", "num_labels": 3}
LABELS = torch.tensor([1, 0, 1, 0])


def model_and_texts(head: dict[str, Any]) -> tuple[Any, Any, Any]:
    is_pair = "matching" in head
    model_class = SelfAttentiveForNLI if is_pair else SelfAttentiveForSequenceClassification
    model = tiny_model(model_class, **{**SINGLE, **head})
    return model, PAIRS if is_pair else TEXTS, pair_batch if is_pair else text_batch


def explained(head: dict[str, Any], tolerance: float = 1e-4) -> tuple[Any, Any, Any, torch.Tensor]:
    """Return a model, a batch, why it has the logits of `LABELS`, and these beyond no text."""
    model, texts, batch_of = model_and_texts(head)
    batch, nothing = batch_of(texts, "holed", random.Random(3)), batch_of([texts[2]])
    nothing["attention_mask"].zero_()
    why = explain(model, **batch, labels=LABELS)
    with torch.no_grad():
        logits = torch.cat([model(**batch).logits, model(**nothing).logits])
    if model.config.problem_type == "single_label_classification":
        logits = logits - logits.mean(1, keepdim=True)
    of_label = logits[:-1, LABELS].diagonal()
    torch.testing.assert_close(why.logit, of_label)
    of_label = of_label - logits[-1, LABELS]
    total = why.contributions.flatten(1).sum(1) + why.linear.sum(1)
    torch.testing.assert_close(total, of_label, rtol=tolerance, atol=tolerance)
    return model, batch, why, of_label


def assert_rest_fills_up(why: Any) -> Any:
    """Check that words and rest have the sum of the hops; return it."""
    total = why.contributions.sum((1, 2))
    torch.testing.assert_close(why.words.sum(1) + why.rest, total, rtol=1e-5, atol=1e-5)
    return total


@pytest.mark.parametrize("head", HEADS, ids=name_of)
def test_contributions_sum_to_the_logit_minus_that_of_a_text_without_tokens(
    head: dict[str, Any],
) -> None:
    _, batch, why, of_label = explained(head)
    padding = batch["attention_mask"] == 0
    assert not why.words[padding].any()
    of_words = why.words.sum(1)
    torch.testing.assert_close(of_words, of_label, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(why.rest, torch.zeros_like(why.rest), rtol=0, atol=1e-4)
    assert not why.linear[padding].any()
    assert not why.contributions.flatten(1, -2).mT[padding].any()


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
            model.config, weights, sentences, int(labels[row]), steps=100
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


@pytest.mark.parametrize("encoder", [ON_BERT, {"encoder": "relation_network"}], ids=name_of)
def test_words_of_an_encoder_that_mixes_words_leave_a_rest(encoder: dict[str, Any]) -> None:
    model, texts, batch_of = model_and_texts(encoder)
    batch = batch_of(texts)
    why = explain(model, **batch)
    assert why.rest.abs().max() > 0.01 * assert_rest_fills_up(why).abs().max()


@pytest.mark.parametrize(
    "head",
    [{}, {"matching": "concat", "problem_type": "multi_label_classification"}, REGRESSION],
    ids=name_of,
)
def test_mean_state_of_a_pretrained_encoder_is_explained_as_a_hop_with_even_attention(
    head: dict[str, Any],
) -> None:
    model, batch, why, of_label = explained({**BESIDE_BERT, **head}, 1e-5)
    model.linear_part.state_weight.data.zero_()
    without = explain(model, **batch, labels=LABELS)
    of_words = why.words.sum(1) + why.rest.view(4, -1).sum(1)
    torch.testing.assert_close(of_words, of_label, rtol=1e-5, atol=1e-5)
    *hops, of_mean = why.contributions.unbind(-2)
    *as_before, nothing_of_mean = without.contributions.unbind(-2)
    torch.testing.assert_close(hops, as_before)
    assert of_mean.any()
    assert not nothing_of_mean.any()
    assert not why.words[batch["attention_mask"] == 0].any()


def test_words_that_grow_beyond_all_measure_get_what_the_hops_added_there() -> None:
    """Held gates bound nothing in an LSTM with large weights, in one text of a batch or in all."""
    model, _, _ = model_and_texts({"initializer_range": 1.0})
    for name, weight in model.encoder.token_encoder.named_parameters():
        if "weight_hh" in name:
            weight.data.normal_(0, 8)
    long = [2 + place % 19 for place in range(400)]
    why = explain(model, **text_batch([long, [4]]))
    assert why.words.isfinite().all()
    torch.testing.assert_close(why.words[0], why.contributions[0].sum(0))
    torch.testing.assert_close(why.rest, torch.zeros(2), rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft reads it
@pytest.mark.parametrize("target", ["weight_hh_l0", "embeddings"])
def test_words_of_an_adapted_encoder_add_up_with_their_rest(target: str) -> None:
    """Weights beside an adapter are not those of the model: an adapted LSTM leaves a rest."""
    model, texts, batch_of = model_and_texts({})
    batch = batch_of(texts)
    target_parameters = target_modules = None
    if target == "embeddings":
        target_modules = [target]
    else:
        names = [name for name, _ in model.named_parameters()]
        target_parameters = [name for name in names if name.endswith(target)]
    config = peft.LoraConfig(
        r=2,
        target_modules=target_modules or [],
        target_parameters=target_parameters,
        init_lora_weights=False,
    )
    adapted = peft.get_peft_model(model, config).eval()
    why = explain(adapted, **batch)
    assert_rest_fills_up(why)
    assert (why.rest.abs().max() < 1e-4) == (target == "embeddings")


def test_explain_takes_the_best_label_and_refuses_what_has_no_contributions() -> None:
    model = tiny_model(SelfAttentiveForSequenceClassification, **SINGLE)
    batch = text_batch([[4, 9, 2], [3, 5]])
    assert explain(model, **batch).labels.tolist() == model(**batch).logits.argmax(1).tolist()
    with pytest.raises(ValueError, match=r"in training mode, .*; call eval\(\)"):
        explain(model.train(), **batch)
    with pytest.raises(ValueError, match="Retrieval has no contributions; they need a class"):
        explain(tiny_model(SelfAttentiveForRetrieval), **batch)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")  # peft reads it
@pytest.mark.parametrize("layer", ["hidden", "output"])
def test_explain_refuses_an_adapted_classifier_and_explains_it_merged(layer: str) -> None:
    """The weights beside an adapter would explain another model."""
    batch, labels = text_batch([[4, 9, 2], [3, 5]]), torch.tensor([0, 1])
    nothing = {**batch, "attention_mask": torch.zeros_like(batch["attention_mask"])}
    model = tiny_model(SelfAttentiveForSequenceClassification, **SINGLE)
    config = peft.LoraConfig(r=2, target_modules=[layer], init_lora_weights=False)
    adapted = peft.get_peft_model(model, config).eval()
    with pytest.raises(ValueError, match=rf"classifier.{layer} is a Linear.*merge_and_unload"):
        explain(adapted, **batch, labels=labels)
    with torch.no_grad():
        added = adapted(**batch).logits - adapted(**nothing).logits
    expected = (added - added.mean(1, keepdim=True))[torch.arange(2), labels]
    why = explain(adapted.merge_and_unload(), **batch, labels=labels)
    torch.testing.assert_close(why.contributions.sum((1, 2)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("head", [{}, {"matching": "concat"}], ids=["text", "pair"])
def test_autocast_changes_no_contribution(dtype: torch.dtype, head: dict[str, Any]) -> None:
    """Processors without AVX-512 read no LSTM in half precision where a gradient is needed."""
    model, texts, batch_of = model_and_texts(head)
    batch = batch_of(texts)
    expected = explain(model, **batch)
    with torch.autocast("cpu", dtype):
        cast = explain(model, **batch)
    for value, whole in zip(cast, expected, strict=True):
        torch.testing.assert_close(value, whole, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_contributions_of_a_model_in_half_precision_are_near_those_in_float32(
    dtype: torch.dtype,
) -> None:
    model, texts, batch_of = model_and_texts({"encoder": "cnn"})
    batch = batch_of(texts)
    labels = torch.tensor([1, 0, 1, 0])
    model = model.to(dtype)
    found = explain(model, **batch, labels=labels)
    expected = explain(model.float(), **batch, labels=labels)
    for name in ("contributions", "words"):
        part, whole = getattr(found, name), getattr(expected, name)
        assert part.dtype == torch.float32
        torch.testing.assert_close(part, whole, rtol=0.1, atol=0.1 * whole.abs().max().item())
