"""The suite itself: what it says of tests that did not run, and what all tests wait for."""

import os
import subprocess
import sys
from typing import Any

import browsers
import pytest
from browsers import find_browser, untested_pages


@pytest.fixture
def skipped(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the reports of a test in a browser where none is installed, and of another test."""
    monkeypatch.setattr(browsers, "BROWSERS", ("no-such-browser",))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception) as reason:
        find_browser()
    options: Any = {"location": ("test_page.py", 1, ""), "outcome": "skipped", "when": "call"}
    of_browser = ("test_page.py", 1, f"Skipped: {reason.value}")
    of_other = ("test_heads.py", 1, "Skipped: no bfloat16")
    return [
        pytest.TestReport("shown", keywords={"browser": 1}, longrepr=of_browser, **options),
        pytest.TestReport("other", keywords={}, longrepr=of_other, **options),
    ]


def test_run_without_a_browser_says_that_pages_are_untested(skipped: list[Any]) -> None:
    said = untested_pages(skipped)
    assert said is not None
    assert "1 tests in a browser" in said
    assert "apt-get install chromium" in said
    assert untested_pages(skipped[1:]) is None


def test_browser_tests_fail_where_every_test_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsers, "BROWSERS", ("no-such-browser",))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no Chromium"):
        find_browser()


def test_process_that_hands_out_the_tests_imports_no_torch() -> None:
    """It loads the fixtures of all tests, and the others wait for it."""
    code = "import sys, conftest; print({'torch', 'transformers', 'sase_hf'} & sys.modules.keys())"
    options: Any = {"env": {"PYTHONPATH": os.pathsep.join(sys.path)}, "check": True}
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, **options).stdout
    assert printed == b"set()\n"
