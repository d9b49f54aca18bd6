"""scripts/predict.py, and the command that runs any script by its name."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checkpoints import save_kinds
from rows import write_csv
from script_files import load_command
from transformers import pipeline

from sase_hf.__main__ import main as run_command

TEXTS = ["The soup was cold.", "", "Good, and warm,\tbread!", "?"]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    save_kinds(folder)
    return folder


@pytest.mark.parametrize("source", ["new.txt", "/dev/stdin", "-"])
def test_predict_prints_what_the_pipeline_finds(
    source: str, checkpoints: Path, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For lines behind a byte-order mark in a file, in a pipe, which is read once, and as input."""
    model, content = str(checkpoints / "classifier"), "\r\n".join(TEXTS).encode("utf-8-sig")
    classify: Any = pipeline("text-classification", model=model)
    expected = [
        (found["label"], pytest.approx(found["score"], abs=6e-5)) for found in classify(TEXTS)
    ]
    monkeypatch.chdir(tmp_path)
    Path("new.txt").write_bytes(content)
    (read, write), usual = os.pipe(), os.dup(0)
    os.write(write, content)
    os.close(write)
    os.dup2(read, 0)
    load_command("predict").main([model, source])
    os.dup2(usual, 0)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["text"] for row in rows] == TEXTS
    assert [(row["predicted_label"], float(row["confidence"])) for row in rows] == expected
    assert all(row[f"scores_{row['predicted_label']}"] == row["confidence"] for row in rows)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_predict_prints_a_file_with_its_columns(
    form: str, checkpoints: Path, capsys: Any, tmp_path: Path
) -> None:
    """A name that is taken gets an underscore, and a row without a text is left out."""
    model = str(checkpoints / "classifier")
    rows = [
        {"id": str(number), "text": text, "confidence": "x"} for number, text in enumerate(TEXTS)
    ]
    path = write_csv(tmp_path / "new.csv", rows)
    load_command("predict").main([model, str(path), "--format", form])
    lines = io.StringIO(capsys.readouterr().out)
    predicted = list(csv.DictReader(lines) if form == "csv" else map(json.loads, lines))
    assert [{name: row[name] for name in rows[0]} for row in predicted] == rows[:1] + rows[2:]
    found = pipeline("text-classification", model=model)(TEXTS[:1] + TEXTS[2:])
    expected = [(one["label"], pytest.approx(one["score"], abs=6e-5)) for one in found]
    answers = [(row["predicted_label"], float(row["confidence_"])) for row in predicted]
    assert answers == expected


def test_predict_says_that_it_does_not_read_all_tokens(
    checkpoints: Path, tmp_path: Path, capfd: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The part that is read is that of the pipeline."""
    model, text = str(checkpoints / "classifier"), "good bread and cold soup " * 30
    (tmp_path / "new.txt").write_text(f"{text}\ngood\n \n", encoding="utf-8")
    load_command("predict").main([model, str(tmp_path / "new.txt"), "--format=jsonl"])
    first, *_ = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert "\n".join(caplog.messages).count("the model reads 20 tokens") == 1
    expected = pipeline("self-attention", model=model)(text)
    assert first["scores"] == pytest.approx(expected["scores"], abs=6e-5)


def test_predict_writes_utf_8_whatever_the_locale(checkpoints: Path, tmp_path: Path) -> None:
    """Other programs read what it writes."""
    (tmp_path / "new.txt").write_text("Zo\u00eb \u6211\n", encoding="utf-8")
    words = ["-m", "sase_hf", "predict", str(checkpoints / "classifier"), str(tmp_path / "new.txt")]
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, env={**os.environ, **ascii_only}, timeout=120
    )
    assert '"Zo\u00eb \u6211",' in done.stdout.decode("utf-8"), done.stderr


def test_predict_names_a_text_file_that_is_not_there(checkpoints: Path) -> None:
    with pytest.raises(SystemExit, match=r"^predict\.py: .*absent\.txt"):
        load_command("predict").main([str(checkpoints / "classifier"), "absent.txt"])


def test_predict_names_a_file_that_is_not_utf_8(checkpoints: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_bytes("Zoë".encode("cp1252"))
    with pytest.raises(SystemExit, match="'utf-8' codec can't decode"):
        load_command("predict").main([str(checkpoints / "classifier"), str(tmp_path / "new.txt")])


def test_command_runs_the_script_that_it_names(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A line of a pair has a tab. Help names the command, not the file of a clone."""
    lines, model = tmp_path / "lines.txt", str(checkpoints / "nli")
    monkeypatch.setattr(sys, "path", sys.path[:])

    def run(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["sase_hf", *words])
        run_command()

    lines.write_text("Two dogs sleep.\tNo dog.\n")
    run("predict", model, str(lines), "--format=jsonl")
    lines.write_text("One cat.\n")
    for words, message in (
        (("predict", model, str(lines)), "tab"),
        (("nothing",), r"no command 'nothing'\n.*\n\n  embed "),
    ):
        with pytest.raises(SystemExit, match=message):
            run(*words)
    run("predict", "--help")
    line, shown = capsys.readouterr().out.split("\n", maxsplit=1)
    found = json.loads(line)
    assert (found["text"], found["text_pair"]) == ("Two dogs sleep.", "No dog.")
    assert "| sase_hf predict runs/quickstart/model" in shown
