"""Tiny translation models whose every weight is random."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tiny import save_both

from sase_hf import (
    RNNSearchConfig,
    RNNSearchForConditionalGeneration,
    build_translation_tokenizer,
)

KINDS = {"search": True, "encdec": False}  # RNNsearch and RNNencdec, by `has_attention`
SIZES: dict[str, Any] = {
    "vocab_size": 23,
    "embedding_size": 5,
    "hidden_size": 4,
    "attention_size": 3,
    "maxout_size": 3,
}


def tiny_translator(deviation: float = 0.8, **fields: Any) -> RNNSearchForConditionalGeneration:
    """Return a model in evaluation mode; with this deviation its translations differ."""
    model = RNNSearchForConditionalGeneration(RNNSearchConfig(**{**SIZES, **fields})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, deviation)
    return model


def save_translator(folder: Path, texts: Sequence[str], **options: Any) -> tuple[Any, Any]:
    """Save a model of the words of the texts; return it with its tokenizer."""
    tokenizer = build_translation_tokenizer(texts)
    model = tiny_translator(vocab_size=len(tokenizer))
    save_both(folder, model, tokenizer, **options)
    return model, tokenizer
