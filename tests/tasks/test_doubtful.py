"""The training rows with doubtful labels: their file, and the table in the report."""

import csv
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset
from rows import write_jsonl

from sase_hf.data.columns import DataArguments
from sase_hf.data.rows import load_rows
from sase_hf.tasks.labels import report
from sase_hf.tasks.labels.report import write_doubtful
from sase_hf.utils.text import Table
from sase_hf.visualization.page import page_html, table_section

HOSTILE = '=HYPERLINK("http://x"), <script>alert(1)</script>'


def reviews_with_a_wrong_label() -> list[dict[str, Any]]:
    """Return such rows, of which row 31 has the other label."""
    rows = reviews()
    rows[31]["label"] = "good"
    return rows


def reviews(count: int = 120) -> list[dict[str, Any]]:
    """Return rows in which one word tells the label."""
    kinds = (("lovely", "good"), ("Awful", "bad"))
    return [
        {"text": f"the {kinds[number % 2][0]} soup of day {number}", "label": kinds[number % 2][1]}
        for number in range(count)
    ]


def written(folder: Path, rows: list[dict[str, Any]], **options: Any) -> list[Table]:
    """Write the doubtful rows of a file of rows."""
    path = str(write_jsonl(folder / "rows.jsonl", rows))
    read = load_rows(DataArguments(train_file=path, **options))
    setup: Any = SimpleNamespace(rows=read, tokens=defaultdict(lambda: None), model=None)
    return write_doubtful(folder, setup)


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubt every row without its word."""

    def doubtful_rows(train: Dataset, *_: Any) -> pd.DataFrame:
        is_awful = np.array(["awful" in text.lower() for text in train["text"]])
        labels = np.array(train["label"][:])
        label_of_awful = np.bincount(labels[is_awful]).argmax()
        suggested = np.where(is_awful, label_of_awful, 1 - label_of_awful)
        judged = pd.DataFrame({"label": labels, "suggested": suggested}).reset_index(names="row")
        return judged.assign(probability=0.9, label_probability=0.1)[suggested != labels]

    monkeypatch.setattr(report, "doubtful_rows", doubtful_rows)


def lines_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "doubtful.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_doubtful_table_has_the_first_ten_as_text(tmp_path: Path) -> None:
    rows = reviews(240)
    for number in range(0, 240, 16):
        rows[number] = {"text": f"{HOSTILE} lovely soup \u202e", "label": "bad"}
    [table] = written(tmp_path, rows)
    assert [row[0] for row in table.rows] == [line["row"] for line in lines_of(tmp_path)][:10]
    page = page_html("title", [table_section(table)])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page


def test_doubtful_csv_names_the_row_and_the_suggestion(tmp_path: Path) -> None:
    """Rows count from 0 in the file, although some are split off and all are shuffled."""
    rows = reviews_with_a_wrong_label()
    written(tmp_path, rows, validation_fraction=0.2, shuffle_seed=3)
    [line] = lines_of(tmp_path)
    assert line == {
        "row": "31",
        "text": rows[31]["text"],
        "label": "good",
        "suggested_label": "bad",
        "probability": "0.9000",
        "label_probability": "0.1000",
    }


def test_doubtful_csv_is_of_single_texts_with_one_label(tmp_path: Path) -> None:
    rows = reviews_with_a_wrong_label()
    pairs = [{**row, "text_pair": "a day"} for row in rows]
    numbers = [{**row, "label": len(row["label"]) + 0.25} for row in rows]
    assert written(tmp_path, pairs) == written(tmp_path, numbers) == []
    assert not (tmp_path / "doubtful.csv").exists()
