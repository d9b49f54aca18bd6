"""scripts/train.py: its results, report and errors, and how it goes on after a stop."""

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import script_main
from runs import (
    QUIET,
    STARS,
    TINY_MODEL,
    flags,
    read_lines,
    review_rows,
    same_weights,
    weights,
    write_rows,
    write_splits,
)
from transformers import AutoConfig, pipeline

from sase_hf.tasks.labels.report import write_report
from sase_hf.training.run import is_complete, list_checkpoints
from sase_hf.training.trainer import SelfAttentiveTrainer
from sase_hf.utils.process import trains_lstm_in_bfloat16

SCRIPT = Path(__file__).parents[2] / "scripts" / "train.py"
main = script_main("train")
TINY = {**QUIET, **TINY_MODEL, "num_train_epochs": 2, "learning_rate": 0.02}


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    rows = review_rows(60)
    rows[0]["text"] = "<script>alert(1)</script> was not good"
    path.write_text("text,label\n" + "".join(f'"{r["text"]}",{r["label"]}\n' for r in rows))
    return path


def results_of(run: Path, name: str = "all_results") -> Any:
    return json.loads((run / f"{name}.json").read_text())


def test_train_file_alone_trains_evaluates_reports_and_says_what_to_do_next(
    reviews: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The commands that it prints work as they stand: a page to send, and new rows."""
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text("id,text\n1,the meal was good\n")
    options = {"test_file": "new.csv", "record": "record.json", "disable_tqdm": False}
    main(flags(**{**TINY, **options}, train_file=reviews))
    run = Path("runs/reviews")
    results = results_of(run)
    assert {"train_loss", "eval_accuracy", "eval_macro_f1"} <= results.keys()
    names = '"id","text","predicted_label","confidence",'
    assert (run / "predictions.csv").read_text().startswith(names)
    state = results_of(run, "trainer_state")
    assert [entry["epoch"] for entry in state["log_history"] if "eval_loss" in entry] == [1, 2]
    assert state["best_metric"] is not None
    page = (run / "report.html").read_text()
    assert "linear model" in page
    parts = (">What the model learned<", "True label, by predict", "Results on", "recall")
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "<script>alert(1)" not in page

    output = capsys.readouterr()
    assert "level: word (" in caplog.text, "measured on the texts, for want of --level"
    written = output.err.replace("\x1b[A", "\n")  # a bar above, of another test
    epochs = [line for line in written.splitlines() if line.startswith("epoch ")]
    assert [line.partition(":")[0] for line in epochs] == ["epoch 1 of 2", "epoch 2 of 2"]
    assert all("right for " in line and "runtime" not in line for line in epochs)
    lines = [line for line in output.out.splitlines() if line]
    assert not any(line.startswith("{") for line in lines)
    assert "results in                      runs/reviews" in lines
    report, export, predict = (line.strip() for line in lines[-3:])
    assert report == f"open {(run / 'report.html').resolve().as_uri()}"
    script_main("export")(words_of(export, "export"))
    assert Path("runs/reviews.html").is_file()
    command, _, output_file = predict.partition(" > ")
    words = [word.replace("NEW.csv", "new.csv") for word in words_of(command, "predict")]
    script_main("predict")(words)
    assert output_file == "predictions.csv"
    assert capsys.readouterr().out.splitlines()[-1].startswith('"1","the meal was good",')


def words_of(line: str, command: str) -> list[str]:
    """Return what follows the command in a line for a shell."""
    words = shlex.split(line)
    place = words.index(command)
    assert words[place - 1] == "sase_hf"
    return words[place + 1 :]


def test_run_keeps_the_threshold_of_answer_sets_for_the_weights_that_it_fits(
    tmp_path: Path, reviews: Path
) -> None:
    """It stays in the model and its predictions; training without --calibrate drops it."""
    model, more = tmp_path / "model", tmp_path / "more"
    new = write_rows(tmp_path / "new.jsonl", review_rows(60))
    options = {**TINY, "train_file": reviews, "validation_fraction": 0.4, "test_file": new}
    options |= {"do_train": True, "do_eval": True, "do_predict": True, "answer_error": 0.2}
    main(flags(**options, output_dir=model, calibrate=True))
    rows = read_lines(model / "predictions.jsonl")
    assert sum(row["label"] in row["answer_set"] for row in rows) > 0.7 * len(rows)
    results = pipeline("self-attention", model=str(model))([row["text"] for row in rows])
    assert [one["answer_set"] for one in results] == [row["answer_set"] for row in rows]
    again = {**QUIET, "model_name_or_path": model, "train_file": reviews, "do_train": True}
    main(flags(**again, max_steps=1, output_dir=more))
    assert AutoConfig.from_pretrained(more).answer_threshold is None


@pytest.mark.parametrize("step", ["train", "predict"])
def test_run_that_is_interrupted_says_how_to_go_on(
    step: str, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """In training, and in the report, whose rows it predicts."""

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    options = {"train_file": reviews, "output_dir": tmp_path / "run"}
    options |= {"validation_fraction": 0.2, "report": True, "resume_from_checkpoint": "auto"}
    words = flags(**{**TINY, **options}, do_train=True, do_eval=True, max_steps=1)
    monkeypatch.setattr(SelfAttentiveTrainer, step, interrupt)
    with pytest.raises(SystemExit):
        main(words)
    monkeypatch.undo()
    assert "stopped; the same command with --resume_from_checkpoint auto" in capsys.readouterr().err
    main(words)
    assert (tmp_path / "run" / "report.html").is_file()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert process.poll() is None, "the premise: it is still running"
        assert time.monotonic() < deadline
        time.sleep(0.005)


def newest_step(run: Path) -> int:
    return max((int(path.name.rpartition("-")[2]) for path in list_checkpoints(run)), default=0)


@pytest.mark.slow
def test_train_that_is_terminated_says_how_to_go_on(reviews: Path, tmp_path: Path) -> None:
    """In one line, without a model that could be taken for a finished one; and so it goes on."""
    run = tmp_path / "run"
    options = {"train_file": reviews, "output_dir": run, "do_train": True, "save_steps": 1}
    options |= {"resume_from_checkpoint": "auto", "save_total_limit": 1, "logging_steps": 1}
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
    wait_until(lambda: newest_step(run) > 1, process)
    rows = list(scratch.glob("sase_hf-*/*"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 130
    assert rows
    assert not list(scratch.glob("sase_hf-*")), "no copy of the texts is left"
    lines = log.read_text().splitlines()
    assert re.search(r"train\.py: stopped; the same command with --resume_from_ch", lines[-1])
    assert "Traceback" not in "".join(lines)
    assert not {"model.safetensors", "config.json", "README.md"} & {p.name for p in run.iterdir()}
    step = newest_step(run)
    main([*words, f"--max_steps={step + 3}"])
    state = results_of(run, "trainer_state")
    assert state["global_step"] == step + 3
    logged = [entry["step"] for entry in state["log_history"] if "loss" in entry]
    assert logged == list(range(1, step + 4))


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
    results = results_of(tmp_path / "run")
    assert results["eval_mse"] < 300  # of 6,667 for their mean
    [simple] = re.findall(r">linear model<.*?([\d,.]+)", (tmp_path / "run/report.html").read_text())
    assert float(simple.replace(",", "")) < 6000


@pytest.mark.slow
def test_train_resumes_a_killed_run_bit_for_bit(tmp_path: Path) -> None:
    """SIGKILL at a random moment, then the same command with one flag more: the same weights.

    The seed of the moment is the clock's: over time every moment is tried.
    """
    options = {
        **TINY,
        "train_file": write_splits(tmp_path)["train_file"],
        "do_train": True,
        "per_device_train_batch_size": 4,
        "max_steps": 40,
        "save_strategy": "steps",
        "save_steps": 1,
        "train_sampling_strategy": "group_by_length",
    }
    main(flags(**options, output_dir=tmp_path / "whole"))

    folder = tmp_path / "killed"
    command = flags(**options, output_dir=folder)
    goal = random.Random().randint(2, 20)  # after 1, a whole one is there
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), *command],
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: newest_step(folder) >= goal, process)
    process.kill()
    process.wait()
    assert newest_step(folder) < 40, "the premise: it was not done"

    main([*command, "--resume_from_checkpoint"])
    assert same_weights(weights(folder), weights(tmp_path / "whole")), f"killed at {goal}"


def test_report_shows_what_was_measured(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of texts that were cut, the whole might be right where the part was wrong."""
    shown: dict[str, Any] = {}
    module = sys.modules[write_report.__module__]
    section = module.texts_section

    def kept(results: Any, heading: str, **options: Any) -> Any:
        shown[heading] = results
        return section(results, heading, **options)

    monkeypatch.setattr(module, "texts_section", kept)
    options = {**TINY, "num_train_epochs": 1, "train_file": reviews, "max_tokens": 3}
    main(flags(**options, output_dir=tmp_path / "run"))
    for heading, results in shown.items():
        for result in results:
            assert len(result["tokens"]) <= 3
            is_right = result["label"] == result["true_label"]
            assert heading.startswith("Three") or is_right == heading.endswith("right")
    assert sum(map(len, shown.values())) > 1


@pytest.fixture(scope="module")
def trained(reviews: Path) -> Path:
    run = reviews.parent / "run"
    main(flags(**TINY, train_file=reviews, output_dir=run))
    return run


def test_predictions_read_no_labels_of_another_column(trained: Path, tmp_path: Path) -> None:
    """Even if it has a usual name."""
    (tmp_path / "new.csv").write_text("text;category\nthe meal was cold;x1\n")
    files = {"test_file": tmp_path / "new.csv", "output_dir": tmp_path / "out"}
    words = flags(**QUIET, model_name_or_path=trained, **files)
    main(words)
    header = (tmp_path / "out" / "predictions.csv").read_text().splitlines()[0]
    names = header.replace('"', "").split(",")
    assert names[:4] == ["text", "category", "predicted_label", "confidence"]
    assert names[4:] == ["scores_fine", "scores_great", "scores_poor"]


# A limit on the size of files stands for a full disk: no large file can be written any more.
FULL_DISK = """
import resource, runpy, signal, sys
from transformers import TrainerState

def fill(*_):
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
save = TrainerState.save_to_json
TrainerState.save_to_json = lambda state, path: fill(save(state, path))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_train_on_a_full_disk_loses_no_checkpoint(reviews: Path, tmp_path: Path) -> None:
    options = {**TINY, "embedding_size": 600, "train_file": reviews, "do_train": True}
    options |= {"max_steps": 6, "save_strategy": "steps", "save_steps": 2}
    run = tmp_path / "run"
    words = [str(SCRIPT), *flags(**options, output_dir=run)]
    # Without byte code, which Python would write cut off, beside the modules it imports.
    command = [sys.executable, "-B", "-c", FULL_DISK, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    kept = [path.name for path in list_checkpoints(run) if is_complete(path)]
    assert kept == ["checkpoint-2"]
    main([*flags(**options, output_dir=run), "--resume_from_checkpoint", "auto"])
    main(flags(**options, output_dir=tmp_path / "unbroken"))
    assert same_weights(weights(run), weights(tmp_path / "unbroken"))
