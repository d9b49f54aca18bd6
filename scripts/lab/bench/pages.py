"""The part of the benchmark that times one text in a page that holds the model, in Chromium."""

import importlib
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from transformers import pipeline

from sase_hf.serving.html_export import live_page
from sase_hf.serving.onnx_export import export
from sase_hf.serving.onnx_predictor import Predictor

from .commands import save_model
from .texts import WORDS
from .timing import compared, in_turn, seconds_of

# Tokens, label, attention and contributions of a text; returns the mean seconds.
READ = """([text, repeats]) => {
  const started = performance.now();
  for (let k = 0; k < repeats; k++) for (const reading = read([text]); !reading.next().done; );
  return (performance.now() - started) / repeats / 1000;
}"""


@contextmanager
def opened_page(checkpoint: str, **options: Any) -> Iterator[tuple[int, Any]]:
    """Give the bytes of the page of a checkpoint, and a tab that shows its first answer."""
    playwright = importlib.import_module("playwright.sync_api")  # of the extra `test`
    with tempfile.TemporaryDirectory() as folder, playwright.sync_playwright() as browsers:
        file = Path(folder, "page.html")
        file.write_text(live_page(checkpoint)[0], encoding="utf-8")
        program = {"executable_path": shutil.which("chromium"), "args": ["--no-sandbox"]}
        tab = browsers.chromium.launch(**program).new_page(**options)
        tab.goto(file.as_uri())
        tab.wait_for_selector("body[data-ready]")
        yield file.stat().st_size, tab


def pages(flags: Namespace) -> Iterator[dict[str, Any]]:
    """Compare the time of one text of 20, 100 and 300 words with that of a bare label by torch."""
    with tempfile.TemporaryDirectory() as model, tempfile.TemporaryDirectory() as exported:
        save_model(model, flags.seed, num_labels=5, **flags.fields)
        onnx = export(model, exported)["files"]["model.onnx"]
        read: Any = pipeline  # its overloads know only stock tasks
        ways = {name: read(name, model) for name in ("text-classification", "self-attention")}
        ways["ONNX Runtime"] = Predictor(exported, num_threads=flags.threads)
        with opened_page(model) as (size, tab):
            first = tab.evaluate("performance.now()") / 1000
            for words in (20, 100, 300):
                text = " ".join(WORDS[k * 61] for k in range(words))
                cases: dict[str, Any] = {
                    name: partial(seconds_of, partial(way, text), "cpu")
                    for name, way in ways.items()
                }
                cases["page"] = lambda repeats, text=text: tab.evaluate(READ, [text, repeats])
                times = in_turn(cases, flags.rounds, flags.seconds)
                result = compared(times, "text-classification", "times_label")
                sizes = {"page_bytes": size, "onnx_bytes": onnx["bytes"]}
                yield {"words": words, **sizes, "seconds_to_first_label": first, **result}
