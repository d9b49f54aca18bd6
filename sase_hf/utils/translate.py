"""Translating many texts."""

from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedModel, TokenizersBackend
from transformers.utils import logging

from ..models.checked_model import encode_read
from ..models.pipeline_rnnsearch import ONE_TRANSLATION


def translate(
    model: PreTrainedModel,
    tokenizer: TokenizersBackend,
    sources: Sequence[str],
    *,
    batch_size: int,
    **options: Any,
) -> list[str]:
    """Translate texts, the longest first; `options` go to `generate`."""
    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    translations = [""] * len(sources)
    for start in logging.tqdm(range(0, len(order), batch_size), desc="Translating", delay=1):
        rows = order[start : start + batch_size]
        encoded = [encode_read(model, tokenizer, [sources[row]])[0]["input_ids"] for row in rows]
        batch = tokenizer.pad({"input_ids": encoded}, return_tensors="pt").to(model.device)
        longest = 2 * batch["input_ids"].shape[1] + 20
        limits = {"max_new_tokens": longest, "max_length": None}  # a checkpoint may set the latter
        generate: Any = model.generate
        words = generate(**batch, **{**ONE_TRANSLATION, **limits, **options})
        texts = tokenizer.batch_decode(words, skip_special_tokens=True)
        for row, text in zip(rows, texts, strict=True):
            translations[row] = text
    return translations
