"""scripts/lab/wrong_labels.py: labels that are made wrong, and the scores that find them."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from records import read_records
from wrong_labels import SHARE, TRUE, flipped_rows, main, metrics_of, scores_of


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


def test_scores_are_losses_margins_and_their_mean() -> None:
    linear = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]]).double().log()
    model = torch.tensor([[0.2, 0.5, 0.3], [0.3, 0.3, 0.4]]).log()
    scores = scores_of(linear, model, torch.tensor([0, 2]))
    assert scores["linear"] == pytest.approx([-np.log(0.7), -np.log(0.4)])
    assert scores["margin"] == pytest.approx([0.2 - 0.7, 0.5 - 0.4])
    assert scores["model"] == pytest.approx([-np.log(0.2), -np.log(0.4)])
    assert scores["both"] == pytest.approx([-np.log(0.14) / 2, -np.log(0.16) / 2])
    assert not {"model", "both"} & scores_of(linear, None, torch.tensor([0, 2])).keys()


def test_metrics_are_precisions_of_the_order() -> None:
    doubts = np.array([0.9, 0.1, 0.8, 0.2])
    metrics = metrics_of(doubts, np.array([True, False, False, True]))
    assert metrics["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert metrics["precision_among_as_many"] == 0.5
    assert (metrics["wrong_rows"], metrics["rows"]) == (2, 4)


@pytest.mark.slow
def test_records_of_a_set_have_each_score(tmp_path: Path) -> None:
    rows = []
    for number in range(400):
        word = "awful" if number % 2 else "lovely"
        rows.append({"text": f"{word} soup on day {number}", "label": number % 2})
    with gzip.open(tmp_path / "soups.train.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    words = [str(tmp_path), "--sets", "soups", "--seeds", "7", "--records", str(tmp_path)]
    main([*words, "--runs", str(tmp_path / "runs")])
    records = read_records(tmp_path / "wrong_labels.jsonl")
    assert records.keys() >= {"soups/linear-seed7", "soups/margin-seed7"}
    record = records["soups/linear-seed7"]
    assert record["metrics"]["average_precision"] > 0.9
    assert record["metrics"]["rows"] == 360
    assert record["sources"]["train"]["file"] == "soups.train.jsonl.gz"
    assert str(tmp_path) not in json.dumps(record)
