"""Attention as a page, an SVG, terminal text or notebook output.

All functions take results of the `self-attention` pipeline, or of `aligned-translation` where the
name says alignment. `attention_svg` takes both.
"""

from ..utils.text import visible
from .learned_words import LearnedWords, read_learned_words
from .page import (
    Attention,
    alignment_html,
    attention_fragment,
    attention_html,
    attention_svg,
    comparison_html,
)
from .terminal import attention_text

__all__ = [
    "Attention",
    "LearnedWords",
    "alignment_html",
    "attention_fragment",
    "attention_html",
    "attention_svg",
    "attention_text",
    "comparison_html",
    "read_learned_words",
    "visible",
]
