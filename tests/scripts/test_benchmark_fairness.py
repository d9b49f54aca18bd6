"""The plain implementation computes what ours computes, and the benchmark would notice if not."""

from types import MethodType
from typing import Any

import pytest
import torch
from benchmarking.passes import encoder_pass, logit_difference, sample_batch
from benchmarking.plain import plain_name, plain_twin
from benchmarking.settings import OURS, PLAIN, Settings, build_model
from benchmarking.workloads import batches_of, draw_texts
from tiny import SIZES, tiny_config
from torch import Tensor, nn

from sase_hf import SelfAttentiveForSequenceClassification

CPU = torch.device("cpu")
LENGTHS = [3, 7, 1, 5, 2]
NUMBERS = {name: size for name, size in SIZES.items() if not name.endswith("dropout")}


def ours_and_plain(**fields: object) -> tuple[SelfAttentiveForSequenceClassification, nn.Module]:
    """Return a tiny model whose every weight is random, and its plain twin."""
    model = SelfAttentiveForSequenceClassification(tiny_config(num_labels=4, **fields))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.6)
    return model, plain_twin(model)


@pytest.mark.parametrize("classifier", ["mlp", "pruned_mlp"])
def test_the_plain_model_is_the_same_function(classifier: str) -> None:
    """Loss, logits and gradients on unsorted lengths; else two different things would be timed."""
    ours, plain = ours_and_plain(classifier=classifier)
    (batch,) = batches_of(draw_texts(LENGTHS, 23, 4), 5, grouped=False, device=CPU)
    outputs = ours(**batch)
    loss, logits = plain(**batch)
    torch.testing.assert_close(logits, outputs.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(loss, outputs.loss)
    outputs.loss.backward()
    loss.backward()
    gradients = {name: weight.grad for name, weight in plain.named_parameters()}
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(gradients[plain_name(name)], weight.grad, rtol=1e-4, atol=1e-5)


def test_a_model_without_plain_twin_is_refused_by_name() -> None:
    """A weight left out would leave a smaller, faster model to compare with."""
    with pytest.raises(ValueError, match=r"no parameter like encoder\.token_encoder\.layers\.1\."):
        ours_and_plain(num_lstm_layers=2)


def test_models_that_differ_are_not_timed() -> None:
    """What is faster because it computes something else is not faster."""
    ours, plain = ours_and_plain()
    (batch,) = batches_of(draw_texts(LENGTHS, 23, 4), 5, grouped=False, device=CPU)
    assert logit_difference(plain, PLAIN, ours, batch) < 1e-5
    with torch.no_grad():
        plain.lstm.weight_hh_l0_reverse[0, 0] += 5
    with pytest.raises(RuntimeError, match=r"plain: its logits differ by 0\.\d+ of their size"):
        logit_difference(plain, PLAIN, ours, batch)


def test_models_that_learn_otherwise_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same outputs can come with a cut gradient, which is faster to compute."""
    ours, plain = ours_and_plain()
    batch = sample_batch(23, 4, CPU)
    forward = plain.lstm.forward
    monkeypatch.setattr(plain.lstm, "forward", lambda packed: forward(cut_off(packed)))
    with pytest.raises(RuntimeError, match=r"its gradients of embeddings.weight differ by"):
        logit_difference(plain, PLAIN, ours, batch)


def cut_off(packed: Any) -> Any:
    """Keep the gradient from going on to the word vectors."""
    return packed._replace(data=packed.data * 0.5 + packed.data.detach() * 0.5)


def test_a_padded_lstm_is_not_taken_for_a_packed_one() -> None:
    """The classic error, which weights fresh from the initialisation would hide."""
    ours = build_model(OURS, NUMBERS, CPU, seed=0)
    plain = plain_twin(ours)
    plain.encode = MethodType(padded_encode, plain)
    with pytest.raises(RuntimeError, match="its logits differ by"):
        logit_difference(plain, PLAIN, ours, sample_batch(23, 5, CPU))


def padded_encode(model: Any, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Do as `PlainClassifier.encode`, but let the backward LSTM begin in the padding."""
    states, _ = model.lstm(model.embeddings(ids))
    scores = model.hops(torch.tanh(model.projection(states))).mT
    attention = scores.masked_fill(mask.unsqueeze(1) == 0, float("-inf")).softmax(-1)
    return attention @ states, attention.sum((1, 2))


def test_the_encoder_pass_goes_back_as_well() -> None:
    """Without it the training step would be inference."""
    model = build_model(OURS, NUMBERS, CPU, seed=0)
    settings = Settings("kept", set_to_none=False)
    batch = sample_batch(23, 5, CPU)
    gradients: list[float] = []
    weight = model.encoder.embeddings.weight
    weight.register_post_accumulate_grad_hook(lambda w: gradients.append(w.grad.abs().sum().item()))
    encoder_pass(model, settings, [batch, batch])()
    assert len(gradients) == 2
    assert min(gradients) > 0
