"""Attention as a page, a figure, terminal text or notebook output.

All functions take results of the `self-attention` pipeline, or of `aligned-translation` where the
name says alignment, and raise ValueError for others. Figures need matplotlib, the extra `viz`, or
raise ImportError.
"""

from ..utils.text import visible
from .alignment import alignment_figure, alignment_fragment, alignment_html, alignment_text
from .figures import (
    attention_figure,
    check_figure_path,
    comparison_figure,
    pair_figure,
    save_figure,
)
from .learned_page import learned_text
from .learned_words import LearnedWords, read_learned_words
from .page import Attention, attention_fragment, attention_html, comparison_html
from .selection import select_predictions
from .terminal import attention_text, comparison_text

__all__ = [
    "Attention",
    "LearnedWords",
    "alignment_figure",
    "alignment_fragment",
    "alignment_html",
    "alignment_text",
    "attention_figure",
    "attention_fragment",
    "attention_html",
    "attention_text",
    "check_figure_path",
    "comparison_figure",
    "comparison_html",
    "comparison_text",
    "learned_text",
    "pair_figure",
    "read_learned_words",
    "save_figure",
    "select_predictions",
    "visible",
]
