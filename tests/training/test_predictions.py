"""Predictions in the form of their file."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset

from sase_hf.data.arguments import DataArguments
from sase_hf.data.rows import read_rows
from sase_hf.data.splits import load_task
from sase_hf.training.predictions import predicted_labels, write_predictions

ROWS = [
    {"text": "cold, they said", "id": "7", "scores": "x"},
    {"text": "hot", "id": "8", "scores": ""},
]
LOGITS = torch.tensor([[2.0, 0.0], [0.0, 3.0]])


def write(path: Path) -> str:
    """Write `ROWS` in the form that the ending names."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    if path.suffix == ".parquet":
        Dataset.from_list(ROWS).to_parquet(path)
        return str(path)
    with opener(path, "wt", newline="") as file:
        if ".json" in path.name:
            text = "".join(json.dumps(row) + "\n" for row in ROWS)
            file.write(text if "jsonl" in path.name else json.dumps(ROWS))
        else:
            separator = "\t" if ".tsv" in path.name else ","
            writer = csv.DictWriter(file, ROWS[0], delimiter=separator)
            writer.writeheader()
            writer.writerows(ROWS)
    return str(path)


def read(path: Path) -> list[dict[str, Any]]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with opener(path, "rt", newline="") as file:
        if ".json" in path.name:
            text = file.read()
            return json.loads(text if text[0] == "[" else f"[{','.join(text.splitlines())}]")
        return list(csv.DictReader(file, delimiter="\t" if ".tsv" in path.name else ","))


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "jsonl", "jsonl.gz", "json", "parquet"])
def test_predictions_keep_the_columns_and_the_form_of_their_file(
    ending: str, tmp_path: Path
) -> None:
    """A name that is taken gets an underscore; nothing of the input is lost."""
    arguments = DataArguments(
        test_file=write(tmp_path / f"New.Rows.{ending}"), label_names=["no", "yes"]
    )
    task = load_task(arguments)
    added = predicted_labels(LOGITS, task)
    path = write_predictions(added, task, arguments, str(tmp_path / "out"))
    assert path == tmp_path / "out" / f"predictions.{ending}"
    rows = read(path)
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert [row["predicted_label"] for row in rows] == ["no", "yes"]
    assert float(rows[0]["confidence"]) == pytest.approx(LOGITS[0].softmax(0)[0].item())
    scores = rows[1]["scores_"]
    scores = json.loads(scores) if isinstance(scores, str) else scores
    assert scores == pytest.approx(
        dict(zip(["no", "yes"], LOGITS[1].softmax(0).tolist(), strict=True))
    )


@pytest.mark.parametrize(
    "given",
    [
        b"\xef\xbb\xbftext;id\r\ncold;007\r\n",
        b"sep=;\r\ntext;id\r\ncold;007\r\n",
        b"text|id\ncold|007\n",
        b'text,id\n"cold\rhot",007\n',
    ],
)
def test_predictions_keep_marks_separators_and_line_ends(given: bytes, tmp_path: Path) -> None:
    """A carriage return in a cell does not end its row either."""
    (tmp_path / "rows.csv").write_bytes(given)
    arguments = DataArguments(test_file=str(tmp_path / "rows.csv"), label_names=["no", "yes"])
    path = write_predictions([{"score": 1}], load_task(arguments), arguments, str(tmp_path))
    separator = b"," if b"," in given else b"|" if b"|" in given else b";"
    *above, row, end = given.replace(b"\r\n", b"\n").split(b"\n")
    above[-1] += separator + b"score"
    row = b'"cold\rhot","007","1"' if b"hot" in row else row + separator + b"1"
    expected = b"\n".join([*above, row, end])
    expected = expected.replace(b"\n", b"\r\n") if b"\r\n" in given else expected
    assert path.read_bytes() == expected


def test_predictions_keep_quotes_that_are_text(tmp_path: Path) -> None:
    """They are quoted in turn, so that readers that know quotes and those here see the same."""
    texts = ['"Fine.', '"so"', 'she said "yes"', '"a" b', 'no"']
    (tmp_path / "rows.tsv").write_text("".join(f"{t}\t7\n" for t in ["text", *texts]))
    arguments = DataArguments(test_file=str(tmp_path / "rows.tsv"), label_names=["no", "yes"])
    added = [{"score": 1}] * len(texts)
    path = write_predictions(added, load_task(arguments), arguments, str(tmp_path / "out"))
    assert [row["text"] for row in read(path)] == texts
    assert [row["text"] for row in read_rows(str(path))] == texts


def test_predictions_keep_half_a_character(tmp_path: Path) -> None:
    """A lone surrogate in a column that is not read; other rows stay as they are."""
    rows = '{"text": "Zoë", "note": "\\ud83d"}\n{"text": "Zoë", "note": ""}\n'
    (tmp_path / "rows.jsonl").write_text(rows, encoding="utf-8")
    arguments = DataArguments(test_file=str(tmp_path / "rows.jsonl"), label_names=["no", "yes"])
    path = write_predictions([{"a": 1}] * 2, load_task(arguments), arguments, str(tmp_path))
    assert [row["note"] for row in read(path)] == ["\ud83d", ""]
    assert "Zoë" in path.read_text(encoding="utf-8").splitlines()[1]


def test_predictions_of_some_rows_only_are_of_the_first(tmp_path: Path) -> None:
    arguments = DataArguments(
        test_file=write(tmp_path / "rows.csv"), label_names=["no", "yes"], max_predict_samples=1
    )
    task = load_task(arguments)
    added = predicted_labels(LOGITS[:1], task)
    path = write_predictions(added, task, arguments, str(tmp_path))
    assert [row["id"] for row in read(path)] == ["7"]
