"""The browser that looks at pages, and what a run says of them where there is none."""

import importlib.util
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str:
    """Return where a Chromium is; without one the test is skipped, or fails where it must run."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    return found or go_without("no Chromium is installed (Debian: apt-get install chromium)")


@contextmanager
def running_chromium() -> Iterator[Any]:
    """Start a Chromium by playwright; return a context, whose tabs share their window's size."""
    executable = find_browser()
    if importlib.util.find_spec("playwright") is None:
        go_without("playwright is not installed (pip install 'sase_hf[test]')")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its own sandbox needs rights that containers do not give; the pages are ours.
        program = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield program.new_context(viewport={"width": 1000, "height": 800})
        program.close()


@contextmanager
def watched_tab(browser: Any) -> Iterator[Any]:
    """Empty the tab of a browser; a new one would take longer than most tests.

    Its script must not fail, its policy hold, and it must ask for its file alone.
    """
    tab = browser.pages[0] if browser.pages else browser.new_page()
    problems = []
    asked = set()
    watchers = {
        "pageerror": lambda error: problems.append(error),
        "console": lambda message: problems.append(message.text),
        "request": lambda request: asked.add(request.url),
    }
    for event, watch in watchers.items():
        tab.on(event, watch)
    yield tab
    tab.goto("about:blank")
    for event, watch in watchers.items():
        tab.remove_listener(event, watch)
    assert problems == []
    assert len(asked) <= 1


def open_source(tab: Any, folder: Path, source: str) -> None:
    """Write a page to a file, and open that."""
    file = folder / "page.html"
    file.write_text(source, encoding="utf-8")
    tab.goto(file.as_uri())


def downloaded(tab: Any) -> list[dict[str, Any]]:
    """Return the rows of the corrections that a page offers as a file."""
    with tab.expect_download() as download:
        tab.click(".download")
    assert download.value.suggested_filename == "corrections.jsonl"
    content = Path(download.value.path()).read_text(encoding="utf-8")
    return [json.loads(line) for line in content.splitlines()]


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
