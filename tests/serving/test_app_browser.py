"""The page of scripts/app.py in a real browser: what is typed, chosen, shown and sent."""

import http.client
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import answers
import pytest
from pages import PAIR, TEXT, find_browser, go_without, save_tiny

from sase_hf import SelfAttentiveForNLI, SelfAttentiveForSequenceClassification

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCRIPT = Path(__file__).parents[2] / "scripts" / "app.py"
HELPERS = str(Path(answers.__file__).parent)
PAYLOADS = (
    "<script>window.hit = 1</script>",
    '<img src="x" onerror="window.hit = 1">',
    "${window.hit = 1} {{constructor.constructor('window.hit = 1')()}}",
    "</textarea></style><svg onload='window.hit = 1'> &lt;b&gt; \u202e",
)
NUM_HOPS = 3

# Starts the script; whatever would leave this machine is refused and noted on standard error.
WATCHED = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
from answers import refuse_network
sys.addaudithook(refuse_network)
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Server(NamedTuple):
    """A running script: the address of its page, and the file of its standard error."""

    address: str
    errors: Path


def serving(folder: Path, model_class: type[Any]) -> Iterator[Server]:
    """Run the script in a process of its own, where no warning of Gradio's is an error."""
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
            yield Server(found[0], errors)
            assert "must work offline" not in errors.read_text()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serving(tmp_path_factory.mktemp("app"), SelfAttentiveForSequenceClassification)


@pytest.fixture(scope="module")
def pair_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from serving(tmp_path_factory.mktemp("pair_app"), SelfAttentiveForNLI)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = find_browser()
    if importlib.util.find_spec("playwright") is None:
        go_without("playwright is not installed (pip install 'sase_hf[test]')")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Its own sandbox needs rights that containers do not give; the pages are ours.
        program = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield program.new_context(color_scheme="light")
        program.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """Give a tab; its script must not fail, and nothing that is typed may leave this machine."""
    tab = browser.new_page()
    tab.set_default_timeout(30_000)
    problems: list[str] = []
    requests: list[str] = []
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    yield tab
    tab.close()
    assert problems == []
    addresses = [address for address in map(urlsplit, requests) if address.scheme != "data"]
    assert len(addresses) > 5, "the premise: requests are seen"
    assert {address.hostname for address in addresses} == {"127.0.0.1"}


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


def test_page_shows_typed_markup_as_text(app: Server, page: Any) -> None:
    payload = "\n".join(PAYLOADS)
    open_page(page, app.address)
    read(page, payload)
    assert shown_texts(page) == [payload.replace("\u202e", "[U+202E]")]
    assert page.evaluate("window.hit") is None
    foreign = "#picture :is(script, img, svg, iframe, [onerror], [onload])"
    assert page.locator(foreign).count() == 0


def test_page_shows_the_scores_and_the_colours_of_each_hop(app: Server, page: Any) -> None:
    open_page(page, app.address)
    read(page, TEXT)
    rows = page.locator("#picture .scores tr").all_text_contents()
    assert [re.sub(r"[\d.]+%$", "", row.strip()) for row in rows] == ["bad", "fair", "<b>good</b>"]
    shares = [float(re.findall(r"([\d.]+)%", row)[0]) for row in rows]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    colours = set()
    for choice in range(1 + NUM_HOPS):
        page.locator("#picture input[type=radio]").nth(choice).check()
        drawn = "all => all.map(one => getComputedStyle(one).backgroundColor)"
        colours.add(tuple(page.eval_on_selector_all("#picture .words span", drawn)))
    assert len(colours) == 1 + NUM_HOPS


def test_page_keeps_what_is_typed_while_it_loads(app: Server, page: Any) -> None:
    page.goto(app.address, wait_until="commit")
    page.fill("#text textarea", TEXT)
    page.wait_for_load_state("networkidle")
    assert page.input_value("#text textarea") == TEXT


def test_page_keeps_nothing_that_was_typed_or_chosen(app: Server, page: Any) -> None:
    """Neither in the address nor for the next visit; an example is read at one click."""
    open_page(page, app.address)
    (first_example,) = shown_texts(page)
    read(page, TEXT)
    assert shown_texts(page) == [TEXT]
    example = page.locator("#examples button").nth(1)
    text = example.text_content().strip()
    example.click()
    page.wait_for_function(
        "text => document.querySelector('.words').textContent === text", arg=text
    )
    assert page.input_value("#text textarea") == text
    assert urlsplit(page.url).query == ""
    page.reload()
    page.wait_for_selector("#picture p")
    assert page.input_value("#text textarea") == first_example
    assert shown_texts(page) == [first_example]


@pytest.mark.parametrize("texts", [PAIR, ("W" * 300, "i.e. " * 200)])
def test_page_of_a_pair_fits_a_phone(pair_app: Server, page: Any, texts: tuple[str, str]) -> None:
    """It does not scroll sideways, and the heatmap of both texts stands right below the button."""
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(page, pair_app.address)
    read(page, *texts)
    assert shown_texts(page) == list(texts)
    button = page.locator("button:has-text('Read')").bounding_box()
    picture = page.locator("#picture").bounding_box()
    assert 0 < picture["y"] - (button["y"] + button["height"]) < 60, "the picture is out of reach"
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_heatmap_is_as_dark_as_the_page(app: Server, page: Any, theme: str) -> None:
    """Also where the page's theme is not that of the system."""
    page.emulate_media(color_scheme="light" if theme == "dark" else "dark")
    open_page(page, f"{app.address}?__theme={theme}")
    scheme = page.eval_on_selector(".sase-attention", "one => getComputedStyle(one).colorScheme")
    assert scheme == theme


@pytest.mark.parametrize(("size", "status"), [(1, 200), (2, 413)])
def test_app_takes_no_files(app: Server, size: int, status: int) -> None:
    head = '--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n'
    body = f"{head}{'a' * size}\r\n--x--\r\n"
    connection = http.client.HTTPConnection(urlsplit(app.address).netloc, timeout=30)
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    connection.request("POST", "/gradio_api/upload", body, form)
    assert connection.getresponse().status == status
    connection.close()
    assert "Traceback" not in app.errors.read_text()
