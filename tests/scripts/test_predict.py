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
from script_files import load_script
from transformers import pipeline

from sase_hf.__main__ import main as run_command
from sase_hf.utils.loading import load_checkpoint

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
    """For lines of UTF-16 in a file, in a pipe, which can be read once, and as input."""
    model, content = str(checkpoints / "classifier"), "\r\n".join(TEXTS).encode("utf-16")
    classify: Any = pipeline("text-classification", model=model)
    expected = [(found["label"], pytest.approx(found["score"])) for found in classify(TEXTS)]
    monkeypatch.chdir(tmp_path)
    Path("new.txt").write_bytes(content)
    (read, write), usual = os.pipe(), os.dup(0)
    os.write(write, content)
    os.close(write)
    os.dup2(read, 0)
    load_script("predict").main([model, source, "--per_device_eval_batch_size=3"])
    os.dup2(usual, 0)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["text"] for row in rows] == TEXTS
    assert [(row["predicted_label"], float(row["confidence"])) for row in rows] == expected
    assert all(row[f"scores_{row['predicted_label']}"] == row["confidence"] for row in rows)


def test_predict_answers_some_lines_before_it_reads_more(checkpoints: Path) -> None:
    lines = iter(TEXTS)
    model = load_checkpoint(str(checkpoints / "classifier"))
    assert next(load_script("predict").predict(*model, lines, 2))["text"] == TEXTS[0]
    assert list(lines) == TEXTS[2:]


def test_predict_ends_without_a_line_where_its_reader_has_enough(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new.txt").write_text("good\n", encoding="utf-8")
    read, write = os.pipe()
    os.close(read)
    words = [str(checkpoints / "classifier"), str(tmp_path / "new.txt")]
    with open(write, "w", encoding="utf-8") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit) as stopped:
            load_script("predict").main(words)
    assert stopped.value.code == 141


def test_predict_says_how_to_convert_a_text_of_windows(checkpoints: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_bytes("Zoë".encode("cp1252"))
    with pytest.raises(SystemExit, match=r"cannot read .*new\.txt.*: iconv .*/new-utf8\.txt"):
        load_script("predict").main([str(checkpoints / "classifier"), str(tmp_path / "new.txt")])


def test_command_runs_the_script_that_it_names(
    checkpoints: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """A line of a pair has a tab. Help names the command, not the file of a clone."""
    lines, model = tmp_path / "lines.txt", str(checkpoints / "nli")
    monkeypatch.setattr(sys, "path", sys.path[:])

    def run(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["sase_hf", *words])
        run_command()

    lines.write_text("Two dogs sleep.\tNo dog.\nOne cat.\n")
    for words, message in (
        (("predict", model, str(lines), "--format=jsonl", "--per_device_eval_batch_size=1"), "tab"),
        (("predict", model, "new.csv"), r"new\.csv has columns; .* train\.py --test_file"),
        (("nothing",), r"no command 'nothing'\n.*\n\n  app "),
        (("predict", "--help"), "0"),
    ):
        with pytest.raises(SystemExit, match=message):
            run(*words)
    line, shown = capsys.readouterr().out.split("\n", maxsplit=1)
    found = json.loads(line)
    assert (found["text"], found["text_pair"]) == ("Two dogs sleep.", "No dog.")
    assert "| sase_hf predict runs/quickstart/model" in shown
