"""Tiny checkpoints to be exported to a page."""

from pathlib import Path
from typing import Any

from browsers import open_source
from tiny import save_both, tiny_model
from transformers import pipeline

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.serving.html_export import live_page, rounded

TEXT = "The soup was not good,  but the bread was."
PAIR = ("Two dogs sleep.", "No dog is awake.")
LABELS = {
    SelfAttentiveForSequenceClassification: ("bad", "fair", "<b>good</b>"),
    SelfAttentiveForNLI: ("entailment", "neutral", "contradiction"),
}


def save_tiny(folder: Path, model_class: type[Any], **fields: Any) -> str:
    tokenizer = build_tokenizer([TEXT, *PAIR])
    names = dict(enumerate(LABELS[model_class]))
    options = {"vocab_size": len(tokenizer), "max_tokens": 64, "id2label": names, **fields}
    return save_both(folder, tiny_model(model_class, **options), tokenizer)


def open_live_page(tab: Any, checkpoint: str) -> None:
    """Export a checkpoint to a page beside it, and open it."""
    open_source(tab, Path(checkpoint).parent, live_page(checkpoint))
    tab.wait_for_selector("body[data-ready]")


def reader_of_page(checkpoint: str) -> Any:
    """Return the pipeline of the model that a page holds."""
    explain = pipeline("self-attention", model=checkpoint)
    explain.model = rounded(explain.model)
    return explain
