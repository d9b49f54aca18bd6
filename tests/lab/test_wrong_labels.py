"""scripts/lab/wrong_labels.py: labels that are made wrong, and the order that finds them."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from records import read_records
from wrong_labels import SHARE, TRUE, flipped_rows, main, metrics_of


def test_flipped_rows_have_another_label_in_a_share_of_rows() -> None:
    rows = [{"text": str(number), "label": number % 3} for number in range(500)]
    flipped = flipped_rows(rows, 400, seed=1)
    assert len({row["text"] for row in flipped}) == 400
    wrong = [row for row in flipped if row["label"] != row[TRUE]]
    assert len(wrong) == round(SHARE * 400)
    assert all(row[TRUE] == int(row["text"]) % 3 for row in flipped)
    assert {row["label"] for row in wrong} == {0, 1, 2}
    assert flipped_rows(rows, 400, seed=1) == flipped
    assert flipped_rows(rows, 400, seed=2) != flipped


def test_metrics_are_precisions_of_the_order() -> None:
    doubts = np.array([0.9, 0.1, 0.8, 0.2])
    metrics = metrics_of(doubts, np.array([True, False, False, True]))
    assert metrics["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert metrics["precision_among_as_many"] == 0.5
    assert (metrics["wrong_rows"], metrics["rows"]) == (2, 4)


def test_record_of_a_set_says_how_well_the_order_finds_wrong_labels(tmp_path: Path) -> None:
    rows = []
    for number in range(400):
        word = "awful" if number % 2 else "lovely"
        rows.append({"text": f"{word} soup on day {number}", "label": number % 2})
    with gzip.open(tmp_path / "soups.train.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    main([str(tmp_path), "--sets", "soups", "--seeds", "7", "--records", str(tmp_path)])
    record = read_records(tmp_path / "wrong_labels.jsonl")["soups/within_class-seed7"]
    assert record["metrics"]["average_precision"] > 0.9
    assert record["metrics"]["rows"] == 400
    assert record["sources"]["train"]["file"] == "soups.train.jsonl.gz"
    assert str(tmp_path) not in json.dumps(record)
