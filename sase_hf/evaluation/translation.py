"""Translating many texts."""

from collections.abc import Sequence
from typing import Any

from transformers import TokenizersBackend
from transformers.utils import logging


def translate(
    model: Any,
    tokenizer: TokenizersBackend,
    sources: Sequence[str],
    *,
    batch_size: int,
    **options: Any,
) -> list[str]:
    """Translate texts, the longest first; `options` go to `generate`."""
    order = sorted(range(len(sources)), key=lambda row: -len(sources[row]))
    found = [""] * len(sources)
    for start in logging.tqdm(range(0, len(order), batch_size), desc="Translating", delay=1):
        rows = order[start : start + batch_size]
        batch = tokenizer([sources[row] for row in rows], padding=True, return_tensors="pt")
        batch = batch.to(model.device)
        longest = 2 * batch["input_ids"].shape[1] + 20
        limits = {"max_new_tokens": longest, "max_length": None}  # a checkpoint may set the latter
        words = model.generate(**batch, **{**limits, **options})
        texts = tokenizer.batch_decode(words, skip_special_tokens=True)
        for row, text in zip(rows, texts, strict=True):
            found[row] = text
    return found
