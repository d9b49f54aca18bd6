"""The part of the benchmark that times one text: in a page in Chromium, a pipeline and ONNX."""

import importlib
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import pipeline

from sase_hf import SelfAttentiveConfig, SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.serving.html_export import live_page
from sase_hf.serving.onnx_export import export
from sase_hf.serving.onnx_predictor import Predictor

from .texts import made_words
from .timing import compared, in_turn, seconds_of

WORDS = made_words(20_000)
# Tokens, label, attention and contributions of a text, as the page computes them.
READ = """([text, repeats]) => {
  const started = performance.now();
  for (let k = 0; k < repeats; k++) {
    const reading = read([text]);
    while (!reading.next().done);
  }
  return (performance.now() - started) / repeats / 1000;
}"""


def pages(flags: Namespace) -> Iterator[dict[str, Any]]:
    """Compare the time of one text of 20, 100 and 300 words with that of a bare label by torch."""
    torch.manual_seed(flags.seed)
    tokenizer = build_tokenizer([" ".join(WORDS)])
    config = SelfAttentiveConfig(**{"vocab_size": len(tokenizer), "num_labels": 5, **flags.fields})
    playwright = importlib.import_module("playwright.sync_api")  # of the extra `test`
    with tempfile.TemporaryDirectory() as root, playwright.sync_playwright() as browsers:
        checkpoint, file = f"{root}/model", Path(root, "page.html")
        SelfAttentiveForSequenceClassification(config).save_pretrained(checkpoint)
        tokenizer.save_pretrained(checkpoint)
        export(checkpoint, f"{root}/onnx")
        source, report = live_page(checkpoint)
        file.write_text(source, encoding="utf-8")
        sizes = {"page_bytes": report["bytes"]}
        sizes["onnx_bytes"] = Path(root, "onnx", "model.onnx").stat().st_size
        options = {"executable_path": shutil.which("chromium"), "args": ["--no-sandbox"]}
        tab = browsers.chromium.launch(**options).new_page()
        tab.goto(file.as_uri())
        tab.wait_for_selector("body[data-ready]")
        sizes["seconds_to_first_label"] = tab.evaluate("performance.now()") / 1000
        read: Any = pipeline  # its overloads know only stock tasks
        label, explain = (
            read(task, checkpoint) for task in ("text-classification", "self-attention")
        )
        predict = Predictor(f"{root}/onnx", num_threads=flags.threads)
        for length in (20, 100, 300):
            text = " ".join(WORDS[k * 61] for k in range(length))
            ways: dict[str, Any] = {"label": label, "ONNX Runtime": predict, "attention": explain}
            cases: dict[str, Any] = {
                name: partial(seconds_of, partial(way, text), "cpu") for name, way in ways.items()
            }
            cases["page"] = lambda repeats, text=text: tab.evaluate(READ, [text, repeats])
            times = in_turn(cases, flags.rounds, flags.seconds)
            yield {"words": length, **sizes, **compared(times, "label", "times_label")}
