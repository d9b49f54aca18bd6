"""scripts/predict.py, and the command that runs any script by its name."""

import csv
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from checkpoints import save_kinds
from rows import write_csv
from script_files import load_command
from transformers import pipeline

from sase_hf.__main__ import main as run_command

TOO_LONG = "good bread and cold soup " * 30
TEXTS = ["The soup was cold.", "", "Good, and warm,\tbread!", TOO_LONG]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    save_kinds(folder)
    return folder


def expected_of(model: str, texts: list[str]) -> list[tuple[str, Any]]:
    """Return the labels and scores of the pipeline, to four digits."""
    found = pipeline("text-classification", model=model)(texts)
    return [(answer["label"], pytest.approx(answer["score"], abs=6e-5)) for answer in found]


def test_predict_prints_what_the_pipeline_finds(checkpoints: Path, capsys: Any) -> None:
    """For lines behind a byte-order mark in a pipe, which is read once."""
    model = str(checkpoints / "classifier")
    (read, write), usual = os.pipe(), os.dup(0)
    os.write(write, "\r\n".join(TEXTS).encode("utf-8-sig"))
    os.close(write)
    os.dup2(read, 0)
    load_command("predict").main([model])
    os.dup2(usual, 0)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["text"] for row in rows] == TEXTS
    answers = [(row["predicted_label"], float(row["confidence"])) for row in rows]
    assert answers == expected_of(model, TEXTS)


def test_predict_prints_a_file_with_its_columns(
    checkpoints: Path, capsys: Any, tmp_path: Path
) -> None:
    """A name that is taken gets an underscore, and a row without a text is left out."""
    model = str(checkpoints / "classifier")
    rows = [{"text": text, "confidence": "x"} for text in TEXTS]
    path = write_csv(tmp_path / "new.csv", rows)
    load_command("predict").main([model, str(path)])
    predicted = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [{name: row[name] for name in rows[0]} for row in predicted] == rows[:1] + rows[2:]
    answers = [(row["predicted_label"], float(row["confidence_"])) for row in predicted]
    assert answers == expected_of(model, TEXTS[:1] + TEXTS[2:])


def test_predict_writes_utf_8_whatever_the_locale(
    checkpoints: Path, tmp_path: Path, capsysbinary: Any
) -> None:
    """Other programs read what it writes."""
    (tmp_path / "new.txt").write_text("Zo\u00eb \u6211\n", encoding="utf-8")
    sys.stdout.reconfigure(encoding="ascii")  # type: ignore[union-attr]
    load_command("predict").main([str(checkpoints / "classifier"), str(tmp_path / "new.txt")])
    assert '"Zo\u00eb \u6211",' in capsysbinary.readouterr().out.decode("utf-8")


def test_command_runs_the_script_that_it_names(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A line of a pair has a tab."""
    lines = tmp_path / "lines.txt"
    words = ["sase_hf", "predict", str(checkpoints / "nli"), str(lines), "--format=jsonl"]
    monkeypatch.setattr(sys, "argv", words[:])
    lines.write_text("Two dogs sleep.\tNo dog.\n")
    run_command()
    found = json.loads(capsys.readouterr().out)
    assert (found["text"], found["text_pair"]) == ("Two dogs sleep.", "No dog.")
    lines.write_text("One cat.\n")
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="tab"):
        run_command()
