"""Promises that hold for every model: padding, neighbours, empty texts, precision."""

import random
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, SelfAttentiveModel
from sase_hf.models.explanation_self_attentive import explain
from sase_hf.models.modeling_self_attentive import SelfAttentivePreTrainedModel

every_model = tiny.every_model(tiny.MODELS)
MODELS = (SelfAttentiveModel, SelfAttentiveForSequenceClassification, SelfAttentiveForNLI)
EVERYTHING = {"output_attentions": True, "output_hidden_states": True}


@pytest.fixture
def model(model_class: type, fields: dict[str, Any]) -> Any:
    """Return a model of the parameters of a test."""
    return tiny.tiny_model(model_class, **fields)


def result(model: SelfAttentivePreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    """Return what the model says about each row, and its penalty."""
    outputs = model(**batch)
    answer = outputs["logits"] if "logits" in outputs else outputs["sentence_embedding"]
    return torch.cat([answer, outputs.penalty.unsqueeze(1)], dim=1).detach()


@every_model
def test_a_row_has_the_same_result_in_every_batch(model: Any, fields: dict[str, Any]) -> None:
    """Whatever its neighbours, their number and order, the padding and the type of the mask.

    Padding beyond the longest text is never read and does not change the last bit.
    """
    rng = random.Random(0)
    # A state of a relation network is a sum over all tokens, whose order moves more digits.
    sums = fields.get("encoder") == "relation_network"
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if sums else tiny.NEIGHBOUR_TOLERANCE
    pairs = [*tiny.random_pairs(rng, 21), ([], []), ([1, 2], []), ([], [3])]
    alone = torch.cat([result(model, tiny.pair_batch([pair])) for pair in pairs])
    dtypes = (torch.long, torch.bool, torch.float32)
    for size, padding, dtype in zip((2, 7, 24), tiny.PADDINGS, dtypes, strict=True):
        order = rng.sample(range(len(pairs)), len(pairs))
        for part in (order[start : start + size] for start in range(0, len(order), size)):
            chosen = [pairs[number] for number in part]
            together = result(model, tiny.pair_batch(chosen))
            torch.testing.assert_close(together, alone[part], **tolerance)
            padded = tiny.pair_batch(chosen, padding, rng, extra=50)
            padded["attention_mask"] = padded["attention_mask"].to(dtype)
            assert torch.equal(result(model, padded), together)


@every_model
def test_a_model_reads_the_first_tokens_of_each_text(model: Any, fields: dict[str, Any]) -> None:
    """A longer text has the answer, the attention and the reasons of its first tokens."""
    rng = random.Random(f"{type(model).__name__} {fields}")
    pairs = [*tiny.random_pairs(rng, 9), ([], []), ([1] * 9, []), ([], [3] * 9)]
    if model.reads_pairs:
        first_tokens = [(premise[:4], hypothesis[:4]) for premise, hypothesis in pairs]
    else:
        first_tokens = [((premise + hypothesis)[:4], []) for premise, hypothesis in pairs]
    expected = result(model, tiny.pair_batch(first_tokens))
    whole = tiny.pair_batch(pairs, rng.choice(tiny.PADDINGS), rng, extra=3)
    assert not torch.allclose(result(model, whole), expected, atol=1e-3), "the premise"
    model.config.max_tokens = 4
    torch.testing.assert_close(result(model, whole), expected, **tiny.NEIGHBOUR_TOLERANCE)
    [attention] = model(**whole, **EVERYTHING).attentions  # (B, r, T), or (B, 2, r, T)
    assert ((attention > 0).sum(-1) <= 4).all()
    if hasattr(model, "neighbours"):
        reasons = explain(model, **whole)
        of_first = explain(model, **tiny.pair_batch(first_tokens), labels=reasons.labels)
        sums = (reasons.words.sum(1), of_first.words.sum(1))
        torch.testing.assert_close(*sums, rtol=1e-4, atol=1e-5)
        assert (reasons.words != 0).sum(1).max() <= 8


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(torch.float32, 1), (torch.bfloat16, 1000)],
)
@pytest.mark.parametrize(
    "fields",
    [tiny.PAPER, {}, {"attention_function": "sparsemax"}],
    ids=tiny.name_of,
)
@pytest.mark.parametrize("model_class", MODELS)
def test_attention_sums_to_one_over_real_tokens_and_is_zero_on_padding(
    model: Any, scale: int, dtype: torch.dtype
) -> None:
    """In every precision, and also when saturated scores leave one token."""
    rng = random.Random(0)
    with torch.no_grad():
        model.base_model.pooling.hops.weight.mul_(scale)
    pairs = [*tiny.random_pairs(rng, 6), ([], [])]
    batch = tiny.pair_batch(pairs, "holed", rng, extra=5)
    outputs = model.to(dtype)(**batch, output_attentions=True)
    real = batch["attention_mask"].bool()
    if model.reads_pairs:  # (B, 2, r, T): each side has tokens of its own
        types = batch["token_type_ids"]
        real = torch.stack([real & (types == side) for side in (0, 1)], dim=1)
    (attention,) = outputs.attentions
    sums = real.any(-1, keepdim=True).to(attention.dtype).expand(attention.shape[:-1])
    torch.testing.assert_close(attention.sum(-1), sums, rtol=0, atol=1e-6)
    assert attention.masked_select(~real.unsqueeze(-2)).abs().max() == 0
    assert outputs.penalty.isfinite().all()


@every_model
def test_an_empty_text_has_an_answer_and_finite_gradients(model: Any, model_class: type) -> None:
    """Alone, tokenizers make a float tensor (1, 0) of it, which an LSTM would refuse."""
    empty = dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), torch.zeros(1, 0))
    alone = model(**empty, **EVERYTHING)
    sides = (2,) if model.reads_pairs else ()
    assert alone.penalty.tolist() == [0], "no hop of an empty text is like another"
    assert alone.hidden_states[-1].shape == (1, *sides, 0, 8)
    assert alone.attentions[0].shape == (1, *sides, model.config.num_rows, 0)
    assert result(model, empty).isfinite().all()

    outputs = model(**tiny.pair_batch([([1, 2, 3], [4, 5]), ([], [])]), **EVERYTHING)
    assert outputs.attentions[0][1].abs().max() == 0
    answer = outputs[1 if model_class is SelfAttentiveModel else 0]
    if model_class is SelfAttentiveModel:
        assert answer[1].abs().max() == 0 < answer[0].abs().max()
    answer.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@every_model
def test_every_output_is_batch_first(model: Any) -> None:
    """Pipelines and accelerate cut along dimension 0; a batch without texts is allowed."""
    for count, tokens in ((5, 4), (0, 4), (0, 0)):
        ids = torch.ones(count, tokens, dtype=torch.long)
        types = (torch.arange(tokens) > 1).long().expand(count, tokens)
        outputs = model(ids, attention_mask=ids, token_type_ids=types, **EVERYTHING)
        found = [value if isinstance(value, tuple) else (value,) for value in outputs.values()]
        assert {len(tensor) for tensors in found for tensor in tensors} == {count}
        assert "hidden_states" in outputs


def _loss(model: SelfAttentivePreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    if isinstance(model, SelfAttentiveModel):
        outputs = model(**batch)
        return outputs.sentence_embedding.float().square().mean() + outputs.penalty.mean()
    return model(**batch, labels=torch.tensor([0, 1, 1, 0], device=model.device)).loss


# Without autocast to float16 on a CPU: not every one has an LSTM for it.
PRECISIONS = [
    ("cpu", torch.bfloat16, False),
    ("cpu", torch.float16, False),
    pytest.param("cpu", torch.bfloat16, True, marks=tiny.needs_bfloat16_lstm),
]
if torch.cuda.is_available():
    PRECISIONS += [("cuda", torch.float32, False)]
    PRECISIONS += [("cuda", dtype, a) for dtype in (torch.bfloat16, torch.float16) for a in (0, 1)]


@every_model
@pytest.mark.parametrize(("device", "dtype", "autocast"), PRECISIONS)
def test_every_precision_trains(
    model: Any, device: str, dtype: torch.dtype, autocast: bool
) -> None:
    """Weights in half precision, or autocast: a loss near the full one, finite gradients."""
    rng = random.Random(0)
    batch = tiny.pair_batch([*tiny.random_pairs(rng, 3), ([], [])], "holed", rng)
    expected = _loss(model, batch)
    model.to(device, torch.float32 if autocast else dtype)
    batch = {name: values.to(device) for name, values in batch.items()}
    with torch.autocast(device, dtype, enabled=bool(autocast)):
        loss = _loss(model, batch)
        assert model(**batch).penalty.dtype == torch.float32
    loss.backward()
    torch.testing.assert_close(loss.float().cpu(), expected, rtol=0.05, atol=0.05)
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
