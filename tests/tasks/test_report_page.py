"""The page of right and wrong predictions of a trained model."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rows import write_jsonl

from sase_hf import build_tokenizer
from sase_hf.data.arguments import DataArguments
from sase_hf.data.splits import encode_rows, load_rows
from sase_hf.evaluation.metrics import load_metrics, metrics_function
from sase_hf.tasks.labels.report_page import write_report


@pytest.mark.parametrize(
    ("labels", "outputs", "headings"),
    [
        ([1.5, 2.5, 3.5, 4.5], [[1.5], [2.6], [9.5], [0.5]], ("far off", "close")),
        (["a", "a", "b", "b"], [[2, 0], [2, 0], [2, 0], [2, 0]], ("wrong", "right")),
    ],
)
def test_report_lists_bad_and_good_predictions_under_their_names(
    labels: list[Any], outputs: list[list[float]], headings: tuple[str, str], tmp_path: Path
) -> None:
    texts = ["text one", "text two", "text three", "text four"]
    rows = [{"text": t, "label": label} for t, label in zip(texts, labels, strict=True)]
    path = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    task = load_rows(DataArguments(train_file=path, validation_file=path))
    tokenizer = build_tokenizer(texts)
    metrics = metrics_function(load_metrics(None, task.kind), task.answers)
    output = SimpleNamespace(predictions=np.array(outputs, dtype=np.float32), metrics={})
    trainer: Any = SimpleNamespace(
        predict=lambda *_, **__: output,
        is_world_process_zero=lambda: True,
        compute_metrics=metrics,
        args=SimpleNamespace(output_dir=str(tmp_path), metric_for_best_model="accuracy"),
        family=SimpleNamespace(loss=None),
    )
    model = SimpleNamespace(config=SimpleNamespace(has_attention=False))
    setup: Any = SimpleNamespace(
        rows=task, tokens=encode_rows(task, tokenizer), tokenizer=tokenizer, model=model
    )
    write_report(trainer, setup, {}, "train on more rows", "add rows")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    bad, good = (page.index(f"Predictions that are {heading}") for heading in headings)
    places = {text: [found.start() for found in re.finditer(text, page)] for text in texts}
    for text in texts[2:]:
        assert all(bad < place < good for place in places[text])
    for text in texts[:2]:
        assert all(place > good for place in places[text])
    assert all(places.values())
