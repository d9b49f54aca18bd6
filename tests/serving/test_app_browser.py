"""The page of scripts/app.py in a real browser: what is typed, chosen, shown and sent."""

import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import answers
import pytest
from browsers import find_browser
from pages import TEXT, save_tiny

from sase_hf import SelfAttentiveForSequenceClassification

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCRIPT = Path(__file__).parents[2] / "scripts" / "app.py"
HELPERS = str(Path(answers.__file__).parent)
PAYLOAD = """<script>window.hit = 1</script>
<img src="x" onerror="window.hit = 1">
${window.hit = 1} {{constructor.constructor('window.hit = 1')()}}
</textarea></style><svg onload='window.hit = 1'> &lt;b&gt; \u202e"""

# Starts the script; whatever would leave this machine is refused and noted on standard error.
WATCHED = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
from answers import refuse_network
sys.addaudithook(refuse_network)
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@contextmanager
def serving(folder: Path, model_class: type[Any]) -> Iterator[str]:
    """Run the script in a process of its own, where no warning of Gradio's is an error.

    Give the address of its page; the script must fail at nothing and ask no other machine.
    """
    find_browser()
    checkpoint, errors = save_tiny(folder / "model", model_class), folder / "errors.txt"
    command = [sys.executable, "-c", WATCHED, HELPERS, str(SCRIPT), checkpoint]
    with (
        errors.open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
        try:
            assert found, errors.read_text()
            yield found[0]
            assert not re.search("must work offline|Traceback", errors.read_text())
        finally:
            process.kill()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("app")
    with serving(root, SelfAttentiveForSequenceClassification) as address:
        yield address


@pytest.fixture(scope="module")
def browser(chromium: Any) -> Any:
    return chromium.new_context(color_scheme="light")


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """Give a tab; its script must not fail, and nothing that is typed may leave this machine."""
    tab = browser.new_page()
    tab.set_default_timeout(30_000)
    problems: list[Any] = []
    hosts: list[Any] = []
    tab.on("pageerror", lambda error: problems.append(error))
    tab.on("request", lambda request: hosts.append(urlsplit(request.url).hostname))
    yield tab
    tab.close()
    assert problems == []
    assert set(hosts) - {None} == {"127.0.0.1"}, "None is data in the address itself"


def open_page(tab: Any, address: str) -> None:
    tab.goto(address)
    tab.wait_for_selector("#picture p")
    tab.wait_for_selector("#stage textarea")  # is laid out by itself


def read(tab: Any, *texts: str) -> None:
    for name, text in zip(("text", "text_pair"), texts, strict=False):
        tab.fill(f"#{name} textarea", text)
    tab.evaluate("document.querySelector('#picture p').dataset.old = 1")
    tab.click("button:has-text('Read')")
    tab.wait_for_function("!document.querySelector('#picture p[data-old]')")


def shown_texts(tab: Any) -> list[str]:
    return [words.text_content() for words in tab.locator("#picture .words").all()]


def test_page_shows_typed_markup_as_text(app: str, page: Any) -> None:
    open_page(page, app)
    read(page, PAYLOAD)
    assert shown_texts(page) == [PAYLOAD.replace("\u202e", "[U+202E]")]
    assert page.evaluate("window.hit") is None


def test_page_reads_what_is_typed_without_a_click(app: str, page: Any) -> None:
    """An answer to an older text would be taken for that of the text above it."""
    open_page(page, app)
    page.click("#text textarea")
    page.keyboard.press("End")
    page.keyboard.type(" And cold.", delay=5)
    typed = page.input_value("#text textarea")
    assert typed.endswith(" And cold.")
    is_shown = "text => document.querySelector('#picture .words').textContent === text"
    page.wait_for_function(is_shown, arg=typed)


def test_page_keeps_nothing_that_was_typed_or_chosen(app: str, page: Any) -> None:
    """Neither in the address nor for the next visit; an example is read at one click."""
    open_page(page, app)
    (first_example,) = shown_texts(page)
    read(page, TEXT)
    assert shown_texts(page) == [TEXT]
    example = page.locator("#examples button").nth(1)
    text = example.text_content().strip()
    example.click()
    is_shown = "text => document.querySelector('.words').textContent === text"
    page.wait_for_function(is_shown, arg=text)
    assert page.input_value("#text textarea") == text
    assert urlsplit(page.url).query == ""
    page.reload()
    page.wait_for_selector("#picture p")
    assert page.input_value("#text textarea") == first_example
    assert shown_texts(page) == [first_example]


@pytest.mark.parametrize(("size", "status"), [(1, 200), (2, 413)])
def test_app_takes_no_files(app: str, size: int, status: int) -> None:
    head = '--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
    body = f"{head}{'a' * size}\r\n--x--\r\n"
    connection = http.client.HTTPConnection(urlsplit(app).netloc, timeout=30)
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    connection.request("POST", "/gradio_api/upload", body, form)
    assert connection.getresponse().status == status
    connection.close()
