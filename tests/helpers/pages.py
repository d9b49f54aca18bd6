"""Tiny checkpoints to be shown by scripts/app.py, and the browser that looks at them."""

import os
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tiny import tiny_model

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, build_tokenizer

TEXT = "The soup was not good,  but the bread was."
PAIR = ("Two dogs sleep.", "No dog is awake.")
LABELS = {
    SelfAttentiveForSequenceClassification: ("bad", "fair", "<b>good</b>"),
    SelfAttentiveForNLI: ("entailment", "neutral", "contradiction"),
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def save_tiny(folder: Path, model_class: type[Any], **fields: Any) -> str:
    tokenizer = build_tokenizer([TEXT, *PAIR])
    tokenizer.model_max_length = 64
    names = dict(enumerate(LABELS[model_class]))
    tiny_model(model_class, vocab_size=len(tokenizer), id2label=names, **fields).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    return str(folder)


def find_browser() -> str:
    """Return where a Chromium is; without one the test is skipped, or fails where it must run."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    return found or go_without("no Chromium is installed (Debian: apt-get install chromium)")


def go_without(reason: str) -> NoReturn:
    """Skip the test, or fail it under CI=true, where nobody reads what was skipped."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and CI=true asks for every test")
    pytest.skip(reason)
