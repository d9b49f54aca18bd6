"""The models that are timed, the ways to run them, and the proof that these compute the same.

The plain model has the encoder as most people write it in PyTorch, not tuned, with a copy of our
classifier. Its arguments and outputs have the package's names. Shapes: B texts, T tokens, H = 2u
width of the states, r hops, c labels.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
import yaml
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification

from .texts import batches_of, draw_texts

Fields = Mapping[str, Any]  # of a config

FIELDS = yaml.safe_load(Path(__file__).with_name("models.yaml").read_text(encoding="utf-8"))
ATTENTION, MODELS = FIELDS["attention"], FIELDS["models"]
PAPER: dict[str, Any] = FIELDS["paper"] | ATTENTION
SIZES = MODELS["default_sizes"]
SIZES |= {name: getattr(SelfAttentiveConfig, name) for name in SIZES}
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


class PlainEncoder(nn.Module):
    """Word vectors, one BiLSTM layer and self-attention."""

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__()
        width, size = config.embedding_size, config.lstm_hidden_size
        self.embeddings = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.lstm = nn.LSTM(width, size, batch_first=True, bidirectional=True)
        self.projection = nn.Linear(config.hidden_size, config.attention_size, bias=False)
        self.hops = nn.Linear(config.attention_size, config.num_hops, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        """Return `sentence_embedding` (B, r, H) and `penalty` (B,) of ids padded on the right."""
        lengths = attention_mask.sum(1).cpu()
        vectors = self.embeddings(input_ids)
        packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)  # (B, T, H)
        scores = self.hops(torch.tanh(self.projection(states))).transpose(1, 2)  # (B, r, T)
        scores = scores.masked_fill(attention_mask.unsqueeze(1) == 0, float("-inf"))
        attention = F.softmax(scores, dim=-1)
        overlap = attention @ attention.transpose(1, 2)  # (B, r, r)
        identity = torch.eye(overlap.shape[-1], device=overlap.device)
        penalty = ((overlap - identity) ** 2).sum((1, 2))
        return SimpleNamespace(sentence_embedding=attention @ states, penalty=penalty)


class PlainClassifier(nn.Module):
    """The whole model, for one label per text, with a copy of the weights of ours."""

    def __init__(self, ours: SelfAttentiveForSequenceClassification) -> None:
        super().__init__()
        self.penalty_coef = ours.config.penalty_coef
        self.encoder = PlainEncoder(ours.config)
        self.classifier = deepcopy(ours.classifier)
        self.load_state_dict({plain_name(name): value for name, value in ours.state_dict().items()})
        self.to(ours.device)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None
    ) -> SimpleNamespace:
        """Return `logits` (B, c) and, if there are labels (B,), `loss`."""
        encoded = self.encoder(input_ids, attention_mask)
        logits = self.classifier(encoded.sentence_embedding)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits, labels) + self.penalty_coef * encoded.penalty.mean()
        return SimpleNamespace(loss=loss, logits=logits)


def plain_name(name: str) -> str:
    """Return the name that one of our parameters has in the plain model."""
    name = name.replace("encoder.token_encoder.layers.0.", "encoder.lstm.")
    return name.replace("encoder.pooling.", "encoder.")


def build_model(settings: Settings, fields: Fields, flags: Namespace) -> nn.Module:
    """Return a model; the same fields and seed give the same weights under all settings."""
    if settings.focused:
        own = [name for name in ATTENTION if fields[name] == PAPER[name]]
        fields = {**fields, **{name: getattr(SelfAttentiveConfig, name) for name in own}}
    torch.manual_seed(flags.seed)
    ours = SelfAttentiveForSequenceClassification(SelfAttentiveConfig(**fields))
    with torch.no_grad():
        # New models have zeros as biases and as the vector of padding. With zeros, a model that
        # reads padding by mistake would give the same outputs.
        for name, weight in ours.named_parameters():
            if "bias" in name:
                weight.uniform_(-0.1, 0.1)
        ours.encoder.embeddings.weight.normal_()
    ours.to(flags.device)
    if settings.checkpointing:  # renamed in transformers 5.23
        enable = getattr(ours, "activation_checkpointing_enable", None)
        (enable or ours.gradient_checkpointing_enable)()
    model = PlainClassifier(ours) if settings.plain else ours
    return model.bfloat16() if settings.bf16_weights else model


def check_same_results(settings: Sequence[Settings], fields: Fields, flags: Namespace) -> None:
    """Raise RuntimeError if logits or gradients differ from the first settings' beyond rounding.

    Settings with another attention, or that may have another precision, are left out.
    """
    fields = {**fields, "embedding_dropout": 0.0, "classifier_dropout": 0.0}
    texts = draw_texts([5, 17, 1, 9], fields["vocab_size"], PAPER["num_labels"])
    (sample,) = batches_of(texts, len(texts), device=flags.device)
    expected: dict[str, Any] = {}
    for way in settings:
        if way.focused or way.recommended or way.bf16_weights:
            continue
        model = build_model(way, fields, flags).train()
        # cuDNN may use TF32 for float32, which would hide a difference.
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            result = model(**sample)
            result.loss.backward()
        weights = {plain_name(name): weight for name, weight in model.named_parameters()}
        values: dict[str, Any] = {"logits": result.logits.detach()}
        for name, weight in weights.items():
            if weight.requires_grad:
                values[f"gradients of {name}"] = weight.grad
        expected = expected or values
        for name, right in expected.items():
            difference = ((values[name] - right).abs().max() / right.abs().max()).item()
            if not difference <= TOLERANCE:
                raise RuntimeError(
                    f"{way.name}: {name} differ from the baseline's by {difference:.2g} of the "
                    f"largest value, allowed is {TOLERANCE}; correct the model"
                )
