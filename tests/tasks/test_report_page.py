"""The page of right and wrong predictions of a trained model."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rows import write_jsonl
from shown import to_correct
from tiny import tiny_model

from sase_hf import SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.data.batching import encode_rows
from sase_hf.data.columns import DataArguments
from sase_hf.data.rows import load_rows
from sase_hf.evaluation.metrics import load_metrics, metrics_function
from sase_hf.tasks.labels.report import write_report


def test_report_lists_bad_and_good_predictions_under_their_names(tmp_path: Path) -> None:
    rows = [{"text": f"text {number}", "label": number + 0.5} for number in range(4)]
    fields = {"problem_type": "regression", "id2label": {0: "stars"}}
    model = tiny_model(SelfAttentiveForSequenceClassification, **fields)
    page = report_of(model, rows, [[0.5], [1.6], [9.5], [-5]], tmp_path)
    shown = re.sub("<(?!h2).*?>", "", page)
    _, bad, good, _ = re.split("<h2>Predictions that are |<h2>Results", shown)
    assert (bad[:7], good[:5]) == ("far off", "close")
    assert [f"text {number}" in bad for number in range(4)] == [False, False, True, True]
    assert [f"text {number}" in good for number in range(4)] == [True, True, False, False]


def test_report_gives_its_script_the_marks_of_people(tmp_path: Path) -> None:
    """A correction of the label alone would otherwise erase them."""
    rows = [
        {"text": "warm soup", "label": "good", "rationale": [[0, 4]]},
        {"text": "cold soup", "label": "bad", "rationale_against": [[5, 9]]},
    ]
    model = tiny_model(SelfAttentiveForSequenceClassification, id2label={0: "bad", 1: "good"})
    page = report_of(model, rows, [[0, 1]] * 2, tmp_path)
    marks = {item["texts"][0]: item["marks"] for item in to_correct(page)["texts"]}
    assert marks == {"warm soup": [[[[0, 4]]], [[]]], "cold soup": [[[]], [[[5, 9]]]]}


def report_of(model: Any, rows: Any, outputs: Any, folder: Path) -> str:
    """Return the page about rows for which a model has the outputs (B, C)."""
    path = str(write_jsonl(folder / "rows.jsonl", rows))
    task = load_rows(DataArguments(train_file=path, validation_file=path))
    tokenizer = build_tokenizer([row["text"] for row in rows])
    metrics = metrics_function(load_metrics(None, task.kind), task.answers)
    output = SimpleNamespace(predictions=np.array(outputs, dtype=np.float32), metrics={})
    trainer: Any = SimpleNamespace(
        predict=lambda *_, **__: output,
        is_world_process_zero=lambda: True,
        pop_callback=lambda _: None,
        compute_metrics=metrics,
        args=SimpleNamespace(do_train=True, output_dir=folder),
        score_metric="accuracy",
        state=SimpleNamespace(best_global_step=0, log_history=[]),
        family=SimpleNamespace(loss=None),
    )
    setup: Any = SimpleNamespace(
        rows=task, tokens=encode_rows(task, tokenizer), tokenizer=tokenizer, model=model
    )
    write_report(trainer, setup)
    return (folder / "report.html").read_text(encoding="utf-8")
