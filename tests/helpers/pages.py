"""Tiny checkpoints to be shown by scripts/app.py, and the browser that looks at them."""

import importlib.util
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tiny import tiny_model

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.serving.html_export import live_page

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


@contextmanager
def browser_context(**options: Any) -> Iterator[Any]:
    """Open a Chromium by playwright."""
    executable = find_browser()
    if importlib.util.find_spec("playwright") is None:
        go_without("playwright is not installed (pip install 'sase_hf[test]')")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its own sandbox needs rights that containers do not give; the pages are ours.
        program = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield program.new_context(**options)
        program.close()


@contextmanager
def watched_tab(browser: Any) -> Iterator[Any]:
    """Open a tab; its script must not fail, its policy hold, and it must ask for its file alone."""
    tab = browser.new_page()
    problems: list[Any] = []
    asked: set[str] = set()
    tab.on("pageerror", lambda error: problems.append(error))
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("request", lambda request: asked.add(request.url))
    yield tab
    tab.close()
    assert problems == []
    assert len(asked) <= 1


def open_live_page(tab: Any, checkpoint: str, *, float32: bool = True) -> None:
    """Export a checkpoint to a page beside it, and open it."""
    file = Path(f"{checkpoint}.html")
    file.write_text(live_page(checkpoint, float32=float32)[0], encoding="utf-8")
    tab.goto(file.as_uri())
    tab.wait_for_selector("body[data-ready]")


def untested_pages(skipped: Iterable[Any]) -> str | None:
    """Return what a run has to say if it skipped tests in a browser, by its skipped reports."""
    reasons = [report.longrepr[2] for report in skipped if "browser" in report.keywords]
    if not reasons:
        return None
    reason = reasons[0].removeprefix("Skipped: ")
    return f"PAGES ARE UNTESTED: {len(reasons)} tests in a browser did not run: {reason}"


def go_without(reason: str) -> NoReturn:
    """Skip the test, or fail it under CI=true, where nobody reads what was skipped."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and CI=true asks for every test")
    pytest.skip(reason)
