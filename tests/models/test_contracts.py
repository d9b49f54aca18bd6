"""Promises that hold for every model: padding, neighbours, empty texts, precision, copies."""

import copy
import pickle
import random
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, SelfAttentiveModel
from sase_hf.models.self_attentive.modeling_self_attentive import SelfAttentivePreTrainedModel

# Every model under every encoder, pooling and matching, as one table for the tests below.
VARIANTS = [
    *((SelfAttentiveModel, {"pooling": pooling}) for pooling in tiny.POOLINGS),
    *((SelfAttentiveModel, {**encoder, "num_lstm_layers": 2}) for encoder in tiny.ENCODERS[1:]),
    (SelfAttentiveForNLI, {"encoder": "relation_network", "pooling": "generalized"}),
    (SelfAttentiveForSequenceClassification, {"encoder": "cnn", "pooling": "max"}),
    (SelfAttentiveForSequenceClassification, {"classifier": "mlp", "num_lstm_layers": 2}),
    (SelfAttentiveForSequenceClassification, {"classifier": "pruned_mlp"}),
    (SelfAttentiveForNLI, {"matching": "gated"}),
    (SelfAttentiveForNLI, {"matching": "concat", "pooling": "max"}),
]
every_model = pytest.mark.parametrize(
    ("model_class", "fields"),
    VARIANTS,
    ids=lambda value: getattr(value, "__name__", None) or tiny.name_of(value),
)
MODELS = (SelfAttentiveModel, SelfAttentiveForSequenceClassification, SelfAttentiveForNLI)


def result(model: SelfAttentivePreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    """Return what the model says about each row, and its penalty."""
    outputs = model(**batch)
    answer = outputs["logits"] if "logits" in outputs else outputs["sentence_embedding"]
    return torch.cat([answer, outputs.penalty.unsqueeze(1)], dim=1).detach()


# Padding and neighbours


@every_model
def test_a_row_has_the_same_result_in_every_batch(
    model_class: type, fields: dict[str, Any]
) -> None:
    """Whatever its neighbours, their number and order, the padding and the type of the mask.

    Padding beyond the longest text is never read and does not change the last bit.
    """
    rng = random.Random(0)
    model = tiny.tiny_model(model_class, **fields)
    pairs = [*(tiny.random_pair(rng) for _ in range(21)), ([], []), ([1, 2], []), ([], [3])]
    alone = torch.cat([result(model, tiny.pair_batch([pair])) for pair in pairs])
    dtypes = (torch.long, torch.bool, torch.float32)
    for size, padding, dtype in zip((2, 7, 24), tiny.PADDINGS, dtypes, strict=True):
        order = rng.sample(range(len(pairs)), len(pairs))
        for part in (order[start : start + size] for start in range(0, len(order), size)):
            chosen = [pairs[number] for number in part]
            together = result(model, tiny.pair_batch(chosen))
            torch.testing.assert_close(together, alone[part], **tiny.NEIGHBOUR_TOLERANCE)
            padded = tiny.pair_batch(chosen, padding, rng, extra=50)
            padded["attention_mask"] = padded["attention_mask"].to(dtype)
            assert torch.equal(result(model, padded), together)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize(
    ("pooling", "scored_by"),
    [("self_attention", "hops.weight"), ("generalized", "feature_weight")],
)
@pytest.mark.parametrize("model_class", MODELS)
def test_attention_sums_to_one_over_real_tokens_and_is_zero_on_padding(
    model_class: type, pooling: str, scored_by: str, scale: int, dtype: torch.dtype
) -> None:
    """In every precision, and also when a saturated softmax leaves one token."""
    rng = random.Random(0)
    model = tiny.tiny_model(model_class, pooling=pooling)
    with torch.no_grad():
        model.base_model.pooling.get_parameter(scored_by).mul_(scale)
    batch = tiny.pair_batch([tiny.random_pair(rng) for _ in range(6)], "holed", rng, extra=5)
    (attention,) = model.to(dtype)(**batch, output_attentions=True).attentions
    real = batch["attention_mask"].bool()
    if model_class is SelfAttentiveForNLI:  # (B, 2, r, T): each side has tokens of its own
        types = batch["token_type_ids"]
        real = torch.stack([real & (types == side) for side in (0, 1)], dim=1)
    sums = attention.sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-6)
    assert attention.masked_select(~real.unsqueeze(-2)).abs().max() == 0


# Texts without tokens


@every_model
def test_an_empty_text_alone_gives_an_answer(model_class: type, fields: dict[str, Any]) -> None:
    """Tokenizers make a float tensor (1, 0) of it, which an LSTM would refuse."""
    model = tiny.tiny_model(model_class, **fields)
    empty = torch.zeros(1, 0)
    outputs = model(
        empty,
        attention_mask=empty,
        token_type_ids=empty,
        output_attentions=True,
        output_hidden_states=True,
    )
    sides = (2,) if model_class is SelfAttentiveForNLI else ()
    texts = len(sides) + 1
    penalties = {"self_attention": 3 * texts}  # one for each hop; that of generalized pooling
    if model.config.pooling == "generalized":  # knows neither the text nor how many there are
        penalties["generalized"] = model.base_model.pooling.penalty().item()
    assert outputs.penalty.tolist() == [penalties.get(model.config.pooling, 0)]
    assert outputs.hidden_states[-1].shape == (1, *sides, 0, 8)
    if model.config.has_attention:
        assert outputs.attentions[0].shape == (1, *sides, 3, 0)
    assert result(model, {"input_ids": empty, "token_type_ids": empty}).isfinite().all()


@every_model
def test_an_empty_text_in_a_batch_has_zero_attention_and_finite_gradients(
    model_class: type, fields: dict[str, Any]
) -> None:
    model = tiny.tiny_model(model_class, **fields)
    outputs = model(**tiny.pair_batch([([1, 2, 3], [4, 5]), ([], [])]), output_attentions=True)
    if outputs.attentions is not None:
        assert outputs.attentions[0][1].abs().max() == 0
    if model_class is SelfAttentiveModel:
        embedding = outputs.sentence_embedding
        assert embedding[1].abs().max() == 0 < embedding[0].abs().max()
    outputs.to_tuple()[1 if model_class is SelfAttentiveModel else 0].sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def tensors(outputs: Any) -> list[Tensor]:
    """Return every tensor of an output, those inside tuples too, but not the loss."""
    found = []
    for name, value in outputs.items():
        if name != "loss":
            found += list(value) if isinstance(value, tuple) else [value]
    return found


@every_model
def test_every_output_is_batch_first(model_class: type, fields: dict[str, Any]) -> None:
    """Pipelines and accelerate cut along dimension 0; a batch of nothing gives nothing."""
    model = tiny.tiny_model(model_class, **fields)
    options = {"output_attentions": True, "output_hidden_states": True}
    found = tensors(model(**tiny.pair_batch([([1, 2, 3], [4, 5])] * 5), **options))
    assert len(found) >= 4, "hidden states are among them"
    assert {len(tensor) for tensor in found} == {5}
    for tokens in (0, 4):
        ids = torch.zeros(0, tokens, dtype=torch.long)
        outputs = model(ids, attention_mask=ids, token_type_ids=ids, **options)
        assert {len(tensor) for tensor in tensors(outputs)} == {0}


# Precision


def _loss(model: SelfAttentivePreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    if isinstance(model, SelfAttentiveModel):
        outputs = model(**batch)
        return outputs.sentence_embedding.float().square().mean() + outputs.penalty.mean()
    return model(**batch, labels=torch.tensor([0, 1, 1, 0])).loss


@every_model
@pytest.mark.parametrize(
    ("dtype", "autocast"),
    # Without (torch.float16, True): not every CPU has an LSTM for it.
    [(torch.bfloat16, False), (torch.float16, False), (torch.bfloat16, True)],
)
def test_half_precision_trains(
    dtype: torch.dtype, autocast: bool, model_class: type, fields: dict[str, Any]
) -> None:
    """Weights in half precision, or autocast: a loss near the full one, finite gradients."""
    rng = random.Random(0)
    model = tiny.tiny_model(model_class, **fields)
    batch = tiny.pair_batch([tiny.random_pair(rng) for _ in range(3)] + [([], [])], "holed", rng)
    expected = _loss(model, batch)
    if not autocast:
        model.to(dtype)
    with torch.autocast("cpu", dtype, enabled=autocast):
        loss = _loss(model, batch)
        assert model(**batch).penalty.dtype == torch.float32
    loss.backward()
    torch.testing.assert_close(loss.float(), expected, rtol=0.05, atol=0.05)
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


# Copies and calls


@every_model
def test_a_copy_gives_the_same_answer_and_calls_change_no_config(
    model_class: type, fields: dict[str, Any]
) -> None:
    """Workers and pools send models around by these two ways."""
    model = tiny.tiny_model(model_class, num_labels=3, **fields)
    before = copy.deepcopy(model.config.to_dict())
    batch = tiny.pair_batch([([1, 2, 3], [4, 5]), ([6], [7])])
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(result(twin, batch), result(model, batch))
        assert next(twin.parameters()).data_ptr() != next(model.parameters()).data_ptr()
    labels = {} if model_class is SelfAttentiveModel else {"labels": torch.tensor([0, 1])}
    model(**batch, **labels)
    assert model.config.to_dict() == before, "the problem type is not filled in"


@pytest.mark.parametrize("model_class", MODELS)
def test_data_parallel_is_refused_with_the_command_to_use_instead(model_class: type) -> None:
    model = tiny.tiny_model(model_class)
    with pytest.raises(RuntimeError, match="torchrun --nproc_per_node"):
        model._replicate_for_data_parallel()
