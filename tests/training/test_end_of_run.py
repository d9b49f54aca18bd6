"""The end of a run that names no step: what it trained, calibrated and reported."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import script_main
from runs import QUIET, STARS, TINY_MODEL, flags, review_rows, write_rows
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from sase_hf.evaluation.calibration import fit_temperature
from sase_hf.training.checkpoints import list_checkpoints, why_incomplete
from sase_hf.training.report import write_report
from sase_hf.training.trainer import SelfAttentiveTrainer
from sase_hf.utils.process import trains_lstm_in_bfloat16

SCRIPT = Path(__file__).parents[2] / "scripts" / "train.py"
main = script_main("train")
TINY = {**QUIET, **TINY_MODEL, "num_train_epochs": 2, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a command that names nothing but its file."""
    folder = tmp_path_factory.mktemp("own")
    rows = review_rows(60)
    rows[0]["text"] = "<script>alert(1)</script> was not good"
    lines = "".join(f'"{row["text"]}",{row["label"]}\n' for row in rows)
    (folder / "reviews.csv").write_text(f"text,label\n{lines}")
    (folder / "new.csv").write_text(f"id,text\n1,the meal was {rows[0]['label']}\n")
    before = Path.cwd()
    os.chdir(folder)
    try:
        main(flags(train_file="reviews.csv", test_file="new.csv", **TINY))
    finally:
        os.chdir(before)
    return folder


def test_train_file_alone_trains_evaluates_and_reports(folder: Path) -> None:
    run = folder / "runs" / "reviews"
    results = json.loads((run / "all_results.json").read_text())
    assert {"train_loss", "eval_accuracy", "eval_macro_f1"} <= results.keys()
    assert (run / "predictions.csv").read_text().startswith("id,text,predicted_label,confidence,")
    state = json.loads((run / "trainer_state.json").read_text())
    assert [entry["epoch"] for entry in state["log_history"] if "eval_loss" in entry] == [1, 2]
    assert state["best_metric"] is not None
    page = (run / "report.html").read_text()
    for part in ("bag of words", "most frequent label", "true label, by predicted", "recall"):
        assert part in page
    assert "<script>" not in page


def test_train_says_what_to_do_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that it prints predicts new rows, and writes into no folder of a model."""
    monkeypatch.chdir(folder)
    main(flags(train_file="reviews.csv", **TINY, output_dir="runs/second"))
    output = capsys.readouterr().out
    for name in ("model", "report"):
        [path] = re.findall(rf"^{name} +(\S+)$", output, flags=re.MULTILINE)
        assert Path(path).exists()
    *_, line = output.splitlines()
    python, script, *words = shlex.split(line)
    assert shutil.which(python) is not None
    assert Path(script).samefile(SCRIPT), "the scripts are elsewhere than the folder"
    main([*words, *flags(**QUIET)])
    assert Path("runs/new-results/predictions.csv").is_file()


def test_calibration_leaves_no_better_temperature_and_no_other_prediction(
    tmp_path: Path, folder: Path
) -> None:
    """The saved model has it in its weights: the best temperature of its logits is 1."""
    options = {**TINY, "train_file": folder / "reviews.csv", "validation_fraction": 0.4}
    options |= {"do_train": True, "do_eval": True}
    logits = {}
    for name in ("plain", "calibrated"):
        output = tmp_path / name
        main(flags(**options, output_dir=output, calibrate=name == "calibrated"))
        model = AutoModelForSequenceClassification.from_pretrained(output)
        tokenizer = AutoTokenizer.from_pretrained(output)
        rows = review_rows(60)
        batch = tokenizer([row["text"] for row in rows], padding=True, return_tensors="pt")
        with torch.no_grad():
            logits[name] = model(**batch).logits
    ratio = logits["plain"] / logits["calibrated"]
    assert ratio.std() < 1e-3
    assert abs(ratio.mean() - 1) > 1e-3
    assert torch.equal(logits["plain"].argmax(-1), logits["calibrated"].argmax(-1))
    assert fit_temperature(logits["plain"], [0] * 60)  # finite for any labels


@pytest.mark.parametrize("weights", [["balanced"], ["0.5", "1", "3"]], ids=str)
def test_class_weights_are_those_of_the_training_rows_or_given(
    weights: list[str], folder: Path, tmp_path: Path
) -> None:
    files = {"train_file": str(folder / "reviews.csv"), "output_dir": tmp_path / "run"}
    main(["--do_train", "--max_steps=1", *flags(**TINY, **files, class_weights=weights)])
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    expected = [1.0, 1.0, 1.0] if weights == ["balanced"] else [0.5, 1.0, 3.0]
    assert config["class_weights"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "saved", "message"),
    [
        ("train", "no", "the same command begins anew"),
        ("predict", "no", "the trained model is in .*--model_name_or_path evaluates it"),
        ("predict", "epoch", "the same command with --resume_from_checkpoint goes on"),
    ],
)
def test_run_that_is_interrupted_says_how_to_go_on(
    step: str,
    saved: str,
    message: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In training, and in the report, whose rows it predicts."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SelfAttentiveTrainer, step, interrupt)
    options = {"train_file": folder / "reviews.csv", "output_dir": tmp_path / "run"}
    options |= {"save_strategy": saved, "validation_fraction": 0.2, "report": True}
    words = flags(**{**TINY, **options}, do_train=True, do_eval=True, max_steps=1)
    with pytest.raises(SystemExit):
        main(words)
    assert re.search(f"stopped; {message}", capsys.readouterr().err)


@pytest.mark.slow
def test_train_that_is_terminated_saves_and_says_how_to_go_on(folder: Path, tmp_path: Path) -> None:
    """In one line, without a model that could be taken for a finished one; and so it goes on."""
    run = tmp_path / "run"
    options = {"train_file": folder / "reviews.csv", "output_dir": run, "do_train": True}
    options |= {"save_strategy": "no", "resume_from_checkpoint": "auto", "logging_steps": 1}
    words = flags(**{**TINY, **options, "num_train_epochs": 5_000})
    log, scratch = tmp_path / "log.txt", tmp_path / "scratch"
    scratch.mkdir()
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-u", str(SCRIPT), *words],
            env={**os.environ, "TMPDIR": str(scratch)},
            stdout=output,
            stderr=output,
        )
    deadline = time.monotonic() + 200
    while "{'loss'" not in log.read_text():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    rows = list(scratch.glob("sase_hf-*/*"))
    assert process.wait(60) == 143
    assert rows
    assert not list(scratch.glob("sase_hf-*")), "no copy of the texts is left"
    lines = log.read_text().splitlines()
    assert re.search(r"train\.py: stopped; the same command with --resume_from_ch", lines[-1])
    assert "Traceback" not in "".join(lines)
    [checkpoint] = list_checkpoints(run)
    assert why_incomplete(checkpoint) is None
    assert not {"model.safetensors", "config.json", "README.md"} & {p.name for p in run.iterdir()}
    step = int(checkpoint.name.rpartition("-")[2])
    main([*words, f"--max_steps={step + 3}"])
    state = json.loads((run / "trainer_state.json").read_text())
    assert state["global_step"] == step + 3
    logged = [entry["step"] for entry in state["log_history"] if "loss" in entry]
    assert logged == list(range(1, step + 4))


# A limit on the size of files stands for a full disk: no large file can be written any more.
FULL_DISK = """
import resource, runpy, signal, sys
from sase_hf.training import resume

def fill(*_):
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
when, *sys.argv = sys.argv[1:]
if when == "from the start":
    fill()
else:
    write_manifest = resume.write_manifest
    resume.write_manifest = lambda folder: fill(write_manifest(folder))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["from the start", "after a checkpoint"])
def test_train_on_a_full_disk_ends_in_one_line_and_loses_nothing(
    when: str, folder: Path, tmp_path: Path
) -> None:
    options = {**TINY, "embedding_size": 600, "train_file": folder / "reviews.csv"}
    options |= {"do_train": True, "max_steps": 6, "save_strategy": "steps", "save_steps": 2}
    run = tmp_path / "run"
    words = [str(SCRIPT), *flags(**options, output_dir=run)]
    done = subprocess.run(
        # Without byte code, which Python would write cut off, beside the modules it imports.
        [sys.executable, "-B", "-c", FULL_DISK, when, *words],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(r"^train\.py: .*(File too large|disk full)", done.stderr, flags=re.MULTILINE)
    kept = [path.name for path in list_checkpoints(run) if why_incomplete(path) is None]
    assert kept == ([] if when == "from the start" else ["checkpoint-2"])
    main([*flags(**options, output_dir=run), "--resume_from_checkpoint", "auto"])
    main(flags(**options, output_dir=tmp_path / "unbroken"))
    weights = (run / "model.safetensors").read_bytes()
    assert weights == (tmp_path / "unbroken" / "model.safetensors").read_bytes()


def test_calibration_of_rows_that_are_all_right_leaves_the_logits(tmp_path: Path) -> None:
    """They ask for a confidence without limit, which other texts would not deserve."""
    rows = [f"meal {i // 2} was {word},{word}\n" for i, word in enumerate(("good", "bad") * 20)]
    (tmp_path / "easy.csv").write_text(f"text,label\n{''.join(rows)}")
    easy = {**TINY, "num_train_epochs": 20, "lstm_hidden_size": 16, "classifier_hidden_size": 16}
    main(flags(**easy, train_file=tmp_path / "easy.csv", output_dir=tmp_path / "run"))
    results = json.loads((tmp_path / "run" / "all_results.json").read_text())
    assert results["eval_accuracy"] == 1, "the premise"
    page = (tmp_path / "run" / "report.html").read_text()
    assert re.search(r"temperature</bdi></th><td>1\.000<", page)


def test_train_without_validation_rows_trains_all_epochs_on_all_rows(
    folder: Path, tmp_path: Path
) -> None:
    files = {"train_file": folder / "reviews.csv", "output_dir": tmp_path / "run"}
    main(flags(**TINY, **files, validation_fraction=0))
    state = json.loads((tmp_path / "run" / "trainer_state.json").read_text())
    assert state["epoch"] == 2
    assert not (tmp_path / "run" / "report.html").exists()


def test_report_shows_what_was_measured(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of texts that were cut, the whole might be right where the part was wrong."""
    shown: dict[str, Any] = {}

    def keep(_: Any, examples: dict[str, Any], __: str) -> str:
        shown.update(examples)
        return ""

    monkeypatch.setattr(sys.modules[write_report.__module__], "tables_html", keep)
    options = {"train_file": folder / "reviews.csv", "output_dir": tmp_path / "run"}
    main(flags(**{**TINY, "num_train_epochs": 1}, **options, max_seq_length=3))
    for kind, results in shown.items():
        assert all(len(result["tokens"]) <= 3 for result in results)
        for result in results:
            assert (result["label"] == result["true_label"]) == (
                kind == "Predictions that are right"
            )
    assert sum(map(len, shown.values())) > 1


def test_train_learns_targets_far_from_zero(tmp_path: Path) -> None:
    """Prices and years are none of the few hundred numbers that bfloat16 knows there.

    A processor without an LSTM in bfloat16 trains in float32.
    """
    prices = {name: 2000.5 + 100 * place for place, name in enumerate(STARS)}
    rows = [{**row, "label": prices[row["label"]]} for row in review_rows(120)]
    files = {"train_file": write_rows(tmp_path / "rows.jsonl", rows)}
    options = {**TINY, "num_train_epochs": 20, "output_dir": tmp_path / "run"}
    options["bf16"] = trains_lstm_in_bfloat16()
    dropout = {"embedding_dropout": 0.0, "classifier_dropout": 0.0}
    main(flags(**options, **files, **dropout))
    results = json.loads((tmp_path / "run" / "all_results.json").read_text())
    assert results["eval_mse"] < 300  # of 6,667 for their mean
    [simple] = re.findall(r"bag of words.*?([\d,.]+)", (tmp_path / "run/report.html").read_text())
    assert float(simple.replace(",", "")) < 6000


def test_train_writes_into_no_folder_of_other_rows_or_of_a_model(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of one file would be given out as those of another."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "runs" / "reviews", "runs/other-results")
    other = (folder / "reviews.csv").read_text().replace("was", "is")
    Path("other.csv").write_text(other)
    words = flags(**TINY, train_file="other.csv", output_dir="runs/other-results")
    with pytest.raises(SystemExit, match=r"trains on other rows, .* choose another --output_dir"):
        main([*words, "--resume_from_checkpoint"])
    with pytest.raises(SystemExit, match=r"other-results is not empty, it holds a trained model"):
        main(words)
    with pytest.raises(SystemExit, match="would go into runs/other-results, which holds a model"):
        main(flags(**QUIET, model_name_or_path="runs/other-results", test_file="other.csv"))


def test_predictions_read_no_labels_that_the_model_does_not_know(
    folder: Path, tmp_path: Path
) -> None:
    """A column of another subject has a usual name; no flag names it."""
    (tmp_path / "new.csv").write_text("text;category\nthe meal was cold;x1\n")
    files = {"test_file": tmp_path / "new.csv", "output_dir": tmp_path / "out"}
    main(flags(**QUIET, model_name_or_path=folder / "runs" / "reviews", **files))
    header = (tmp_path / "out" / "predictions.csv").read_text().splitlines()[0]
    assert header == "text;category;predicted_label;confidence;scores"
