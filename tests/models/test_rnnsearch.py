"""RNNsearch and RNNencdec: equations, padding, initialisation, loss, what a config refuses."""

import random
from typing import Any

import pytest
import reference
import tiny
import torch
from tiny_translation import KINDS, tiny_translator
from torch import nn

from sase_hf import RNNSearchConfig, RNNSearchForConditionalGeneration
from sase_hf.models.modeling_rnnsearch import CACHE_NAME

SOURCES = [[3, 4, 5, 6, 7], [8], [9, 3, 12]]
TARGETS = [[1, 5, 3], [1, 4, 7], [1, 6, 6]]
EXACT = {"rtol": 1e-12, "atol": 1e-12}

kinds = pytest.mark.parametrize("has_attention", KINDS.values(), ids=KINDS)


@kinds
@pytest.mark.parametrize("padding", tiny.PADDINGS)
def test_translation_model_computes_the_paper_and_its_gradients(
    has_attention: bool, padding: str
) -> None:
    """In a padded batch every sentence gets what the paper's loops give it alone."""
    model = tiny_translator(has_attention=has_attention).double()
    weights = tiny.reference_weights(model)
    batch = tiny.text_batch(SOURCES, padding, random.Random(padding), extra=2)
    outputs = model(**batch, decoder_input_ids=torch.tensor(TARGETS), output_attentions=True)
    embedded = model.encoder(**batch).sentence_embedding
    probe = torch.randn(3, model.config.vocab_size, dtype=torch.float64)
    (outputs.logits.softmax(-1) * probe).sum().backward()
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected = reference.translate(model.config, weights, source, target)
        (expected.p * probe).sum().backward()
        real = batch["attention_mask"][row].bool()
        states = outputs.encoder_last_hidden_state[row, real]
        torch.testing.assert_close(states, expected.h, **EXACT)
        last = [states[-1, :4], states[0, 4:]]  # [-> h_T ; <- h_1]
        torch.testing.assert_close(
            embedded[row], torch.cat(last) if has_attention else states[-1], **EXACT
        )
        torch.testing.assert_close(outputs.logits[row].softmax(-1), expected.p, **EXACT)
        torch.testing.assert_close(outputs[CACHE_NAME].state[row], expected.s[-1], **EXACT)
        if has_attention:
            alpha = outputs.cross_attentions[0][row, 0]
            torch.testing.assert_close(alpha[:, real], expected.alpha, **EXACT)
            assert not alpha[:, ~real].any()
        else:
            assert outputs.cross_attentions is None
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    expected_gradients = {name: weights[name].grad for name in gradients}
    torch.testing.assert_close(gradients, expected_gradients, **EXACT)


def test_new_model_starts_as_the_paper() -> None:
    """Nine orthogonal squares, deviations, zeros, and a first alignment that is even."""
    torch.manual_seed(0)
    model = RNNSearchForConditionalGeneration(
        RNNSearchConfig(vocab_size=50, embedding_size=40, hidden_size=30, attention_size=35)
    )
    squares = []
    for name, weight in model.named_parameters():
        if name.endswith(("gates_weight", "state_weight")):
            squares += weight.split(30)
        elif name.endswith(("bias", "score_weight")):
            assert not weight.any(), name
        else:
            deviation = 0.001 if "query" in name or "key" in name else 0.01
            assert weight.std().item() == pytest.approx(deviation, rel=0.1), name
    assert len(squares) == 9
    for square in squares:
        torch.testing.assert_close(square @ square.t(), torch.eye(30), rtol=0, atol=1e-5)
    assert not torch.equal(squares[0], squares[1])
    outputs = model(
        **tiny.text_batch([[3, 4, 5]]),
        decoder_input_ids=torch.zeros(1, 1).long(),
        output_attentions=True,
    )
    torch.testing.assert_close(outputs.cross_attentions[0], torch.full((1, 1, 1, 3), 1 / 3))


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_translation_loss_is_that_of_torch_and_adds_up_over_parts(smoothing: float) -> None:
    """Only counted words weigh, and labels are smoothed in training only."""
    model = tiny_translator(label_smoothing=smoothing).train()
    labels = torch.tensor([[5, 6, 2], [4, -100, -100], [-100, -100, -100]])
    batch = {**tiny.text_batch(SOURCES), "labels": labels}
    whole = model(**batch)
    measure = nn.functional.cross_entropy
    smoothed = measure(whole.logits.mT, labels, label_smoothing=smoothing)
    torch.testing.assert_close(whole.loss, smoothed)
    parts = [
        model(**{k: v[rows] for k, v in batch.items()}, num_items_in_batch=torch.tensor(4)).loss
        for rows in (slice(0, 1), slice(1, 3))
    ]
    torch.testing.assert_close(sum(parts), whole.loss)
    torch.testing.assert_close(model.eval()(**batch).loss, measure(whole.logits.mT, labels))


def test_labels_padded_on_either_side_have_the_same_loss() -> None:
    """Also where y_0 is not the padding; and what was read can stand for the source."""
    model = tiny_translator(decoder_start_token_id=2)
    source, labels = tiny.text_batch(SOURCES[:1]), torch.tensor([[5, 6, 2]])
    expected = model(**source, labels=labels).loss
    for padding in ((2, 0), (0, 1)):
        padded = nn.functional.pad(labels, padding, value=-100)
        torch.testing.assert_close(model(**source, labels=padded).loss, expected)
    given = {"encoder_outputs": model.get_encoder()(**source), "labels": labels}
    found = model(**given, attention_mask=source["attention_mask"]).loss
    torch.testing.assert_close(found, expected)


@kinds
def test_empty_and_long_sources_give_finite_scores(has_attention: bool) -> None:
    """No token, a row of padding beside another, 2,000 tokens."""
    model = tiny_translator(has_attention=has_attention)
    words = torch.tensor([[0, 5, 3]])
    empty = model(input_ids=torch.empty(1, 0), decoder_input_ids=words)
    beside = tiny.text_batch([[], [3, 4]])
    two = model(**beside, decoder_input_ids=words.expand(2, -1), output_attentions=True)
    assert empty.logits.isfinite().all()
    torch.testing.assert_close(two.logits[:1], empty.logits)
    assert not has_attention or not two.cross_attentions[0][0].any()
    long = torch.randint(3, 23, (1, 2000))
    assert model(input_ids=long, decoder_input_ids=words).logits.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_translation_model_runs_in_half_precision(dtype: torch.dtype) -> None:
    model = tiny_translator(0.3)
    batch = {**tiny.text_batch(SOURCES), "labels": torch.tensor(TARGETS)}
    exact = model(**batch)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model(**batch).loss, exact.loss, rtol=0.02, atol=0)
    half = model.to(dtype)(**batch, output_attentions=True)
    torch.testing.assert_close(half.loss, exact.loss, rtol=0.02, atol=0)
    assert half.cross_attentions[0].dtype == torch.float32


IDS = {"input_ids": torch.ones(1, 3)}
LABELS = torch.ones(1, 2).long()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({**IDS, "labels": LABELS}, r"labels has shape \(1, 2\); .* per token, \(1, 1\)"),
        (
            {**IDS, "decoder_input_ids": LABELS, "decoder_attention_mask": torch.ones(1, 1)},
            r"decoder_attention_mask has shape \(1, 1\); .* one entry per token, \(1, 2\)",
        ),
    ],
)
def test_translation_model_refuses_other_inputs(inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tiny_translator()(**{"decoder_input_ids": torch.zeros(1, 1).long(), **inputs})
