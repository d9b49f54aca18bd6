"""Translating many texts."""

from typing import Any

import torch
from tiny_translation import tiny_translator

from sase_hf import build_translation_tokenizer
from sase_hf.utils.translate import translate

SOURCES = ["a b c", "d e f g h i", "a z"]


def test_translate_returns_texts_in_the_order_of_their_sources() -> None:
    tokenizer = build_translation_tokenizer(SOURCES)
    torch.manual_seed(1)
    model = tiny_translator(1.2, vocab_size=len(tokenizer))
    options: dict[str, Any] = {"max_new_tokens": 5}
    together = translate(model, tokenizer, SOURCES, batch_size=2, **options)
    alone = [translate(model, tokenizer, [one], batch_size=1, **options) for one in SOURCES]
    assert together == [text for [text] in alone]
    assert len(set(together)) > 1
