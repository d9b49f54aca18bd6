"""The models that are timed, the ways to run them, and the proof that these compute the same."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification

from .plain import PlainClassifier, plain_name
from .texts import batches_of, draw_texts

NUM_LABELS = 5
# The sizes of the paper, with its attention and without dropout of word vectors, as the plain
# implementation has it.
ATTENTION = {"attention_function": "softmax", "normalize_states": False}
ATTENTION |= {"penalty": "frobenius", "penalty_coef": 1.0}
PAPER: dict[str, Any] = {"vocab_size": 20_000, "num_labels": NUM_LABELS, "embedding_dropout": 0.0}
PAPER |= {"embedding_size": 100, "lstm_hidden_size": 300, "attention_size": 350, "num_hops": 30}
PAPER |= ATTENTION
SIZES = "embedding_size lstm_hidden_size attention_size num_hops classifier_hidden_size"
# The differences from `PAPER`: the classifiers of its experiments on Age and on Yelp and of its
# Appendix A, and the sizes of `SelfAttentiveConfig()`.
MODELS: dict[str, dict[str, Any]] = {
    "mlp2000": {"classifier_hidden_size": 2000},
    "mlp3000": {"classifier_hidden_size": 3000},
    "pruned": {"classifier": "pruned_mlp"},
    "default_sizes": {name: getattr(SelfAttentiveConfig, name) for name in SIZES.split()},
}
TOLERANCE = 1e-3  # of float32 sums in another order, as a share of the largest value


@dataclass(frozen=True)
class Settings:
    """One way to run the model; `name` is that in tables and records."""

    name: str
    plain: bool = False  # the plain implementation instead of the package's
    # As train.py with `--bf16 true --train_sampling_strategy group_by_length`: in bfloat16 if that
    # is faster here, texts of similar length in a batch, fused Adam, freed memory kept for a step.
    recommended: bool = False
    bf16_weights: bool = False  # inference only
    checkpointing: bool = False  # recompute states in the backward pass
    focused: bool = False  # the attention of `SelfAttentiveConfig()` instead of the paper's


PLAIN = Settings("plain", plain=True)
OURS = Settings("ours")
RECOMMENDED = Settings("recommended", recommended=True)
FOCUSED = replace(RECOMMENDED, name="recommended, default attention", focused=True)
BF16_WEIGHTS = Settings("ours, bf16 weights", bf16_weights=True)
FOCUSED_BF16 = replace(BF16_WEIGHTS, name="bf16 weights, default attention", focused=True)
# The first of each is the baseline.
TRAINING = (PLAIN, OURS, RECOMMENDED, FOCUSED)
LENGTHS = (PLAIN, OURS, Settings("ours, checkpointing", checkpointing=True), RECOMMENDED)
INFERENCE = (PLAIN, OURS, BF16_WEIGHTS, FOCUSED_BF16)


def build_model(
    settings: Settings, fields: Mapping[str, Any], device: str = "cpu", seed: int = 0
) -> nn.Module:
    """Return a model; the same fields and seed give the same weights under all settings."""
    if settings.focused:
        own = [name for name in ATTENTION if fields[name] == PAPER[name]]
        fields = {**fields, **{name: getattr(SelfAttentiveConfig, name) for name in own}}
    torch.manual_seed(seed)
    ours = SelfAttentiveForSequenceClassification(SelfAttentiveConfig(**fields))
    with torch.no_grad():
        # New models have zeros as biases and as the vector of padding. With zeros, a model that
        # reads padding by mistake would give the same outputs.
        for name, weight in ours.named_parameters():
            if "bias" in name:
                weight.uniform_(-0.1, 0.1)
        ours.encoder.embeddings.weight.normal_()
    ours.to(device)  # type: ignore[arg-type]  # a decorator of transformers hides `self`
    if settings.checkpointing:  # renamed in transformers 5.23
        enable = getattr(ours, "activation_checkpointing_enable", None)
        (enable or ours.gradient_checkpointing_enable)()
    model = PlainClassifier(ours) if settings.plain else ours
    return model.bfloat16() if settings.bf16_weights else model


def check_same_results(
    settings: Sequence[Settings], fields: Mapping[str, Any], flags: Namespace
) -> None:
    """Raise RuntimeError if logits or gradients differ from the first settings' beyond rounding.

    Settings with another attention, or that may have another precision, are left out.
    """
    fields = {**fields, "embedding_dropout": 0.0, "classifier_dropout": 0.0}
    texts = draw_texts([5, 17, 1, 9], fields["vocab_size"], NUM_LABELS)
    (sample,) = batches_of(texts, len(texts), device=flags.device)
    expected: dict[str, Any] = {}
    for one in settings:
        if one.focused or one.recommended or one.bf16_weights:
            continue
        model = build_model(one, fields, flags.device, flags.seed).train()
        # cuDNN may use TF32 for float32, which would hide a difference.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            result = model(**sample)
            result.loss.backward()
        weights = {plain_name(name): weight for name, weight in model.named_parameters()}
        found: dict[str, Any] = {"logits": result.logits.detach()}
        found |= {f"gradients of {name}": x.grad for name, x in weights.items() if x.requires_grad}
        expected = expected or found
        for name, right in expected.items():
            difference = ((found[name] - right).abs().max() / right.abs().max()).item()
            if not difference <= TOLERANCE:
                fault = f"differ from the baseline's by {difference:.2g} of the largest value"
                way_out = f"allowed is {TOLERANCE}; correct the model"
                raise RuntimeError(f"{one.name}: {name} {fault}, {way_out}")
