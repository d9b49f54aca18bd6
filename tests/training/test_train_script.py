"""scripts/train.py: its results, report and errors, and how it goes on after a stop."""

import json
import multiprocessing
import random
import resource
import shlex
import sys
import time
from multiprocessing.process import BaseProcess
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
from transformers import AutoConfig, TrainerState, pipeline

from sase_hf.training.run import is_complete, list_checkpoints
from sase_hf.utils.process import trains_lstm_in_bfloat16

# So warns Python 3.12; the threads of these tests hold no lock that a run takes.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.* is multi-threaded, use of fork:DeprecationWarning"
)
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
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """The commands that it prints work as they stand: a page to send, and new rows."""
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text("id,text,category\n1,the meal was good,x1\n")
    main(flags(**{**TINY, "disable_tqdm": False}, train_file=reviews, test_file="new.csv"))
    run = Path("runs/reviews")
    assert {"train_loss", "eval_accuracy", "eval_macro_f1"} <= results_of(run).keys()
    page = (run / "report.html").read_text()
    parts = (
        ">What the model learned<",
        "Confusion matrix (rows: true)",
        "Results on",
        "its hops alone",
        "recall",
    )
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "<script>alert(1)" not in page

    output = capsys.readouterr()
    written = output.err.replace("\x1b[A", "\n")  # a bar above, of another test
    epochs = [line for line in written.splitlines() if line.startswith("epoch ")]
    assert [line.partition(":")[0] for line in epochs] == ["epoch 1 of 2", "epoch 2 of 2"]
    report, export, predict = (shlex.split(line) for line in output.out.splitlines()[-3:])
    assert report == ["open", (run / "report.html").resolve().as_uri()]
    script_main("export")(export[4:])
    assert Path("runs/reviews.html").is_file()
    place = predict.index("NEW.csv")
    script_main("predict")([*predict[4:place], "new.csv"])
    predicted = (run / "predictions.csv").read_text()
    assert capsys.readouterr().out.endswith(predicted)
    assert predicted.splitlines()[0].endswith(',"familiarity"')


def test_run_keeps_the_threshold_of_answer_sets_for_the_weights_that_it_fits(
    tmp_path: Path, reviews: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays in the model and its predictions; training without --calibrate drops it."""
    model, more = tmp_path / "model", tmp_path / "more"
    new = write_rows(tmp_path / "new.jsonl", review_rows(60))
    options = {**TINY, "train_file": reviews, "validation_fraction": 0.4, "test_file": new}
    options |= {"do_train": True, "do_eval": True, "do_predict": True, "answer_error": 0.2}
    main(flags(**options, output_dir=model, calibrate=True))
    rows = read_lines(model / "predictions.jsonl")
    assert sum(row["label"] in row["answer_set"] for row in rows) > 0.7 * len(rows)
    results = pipeline("self-attention", model=model)([row["text"] for row in rows])
    assert [one["answer_set"] for one in results] == [row["answer_set"] for row in rows]
    again = {**QUIET, "model_name_or_path": model, "train_file": reviews, "do_train": True}
    again |= {"do_eval": True, "validation_fraction": 0.2}
    main(flags(**again, max_steps=1, output_dir=more))
    assert AutoConfig.from_pretrained(more).answer_threshold is None
    assert "may have learned from rows that are held out now" in caplog.text


def newest_step(run: Path) -> int:
    return max((int(path.name.rpartition("-")[2]) for path in list_checkpoints(run)), default=0)


def in_child(words: list[str], run: Path, step: int) -> BaseProcess:
    """Return a process that runs the command and has just written the checkpoint of a step."""
    if torch.cuda.is_initialized():
        pytest.skip("a process that uses a GPU cannot fork")
    process = multiprocessing.get_context("fork").Process(target=main, args=(words,))
    process.start()
    while newest_step(run) < step:
        assert process.is_alive(), "the premise: it is still running"
        time.sleep(0.005)
    return process


def test_train_that_is_terminated_says_how_to_go_on(
    reviews: Path, tmp_path: Path, capfd: Any
) -> None:
    """Without a model that could be taken for a finished one; and so it goes on."""
    run = tmp_path / "run"
    options = {"train_file": reviews, "output_dir": run, "do_train": True, "save_steps": 1}
    options |= {"resume_from_checkpoint": "auto", "save_total_limit": 1, "logging_steps": 1}
    words = flags(**{**TINY, **options, "num_train_epochs": 5_000})
    process = in_child(words, run, 2)
    process.terminate()
    process.join(60)
    assert process.exitcode == 130
    written = capfd.readouterr().err
    assert "stopped; the same command with --resume_from_ch" in written.splitlines()[-1]
    assert "Traceback" not in written
    assert not {"model.safetensors", "config.json", "README.md"} & {p.name for p in run.iterdir()}
    step = newest_step(run)
    main([*words, f"--max_steps={step + 3}"])
    history = results_of(run, "trainer_state")["log_history"]
    assert [entry["step"] for entry in history if "loss" in entry] == list(range(1, step + 4))


def test_train_learns_targets_far_from_zero(tmp_path: Path) -> None:
    """Prices and years are none of the few hundred numbers that bfloat16 knows there.

    A processor without an LSTM in bfloat16 trains in float32.
    """
    prices = {name: 2000.5 + 100 * place for place, name in enumerate(STARS)}
    rows = [{**row, "label": prices[row["label"]]} for row in review_rows(120)]
    file = write_rows(tmp_path / "rows.jsonl", rows)
    options = {**TINY, "train_file": file, "validation_file": file, "num_train_epochs": 20}
    options |= {"embedding_dropout": 0.0, "classifier_dropout": 0.0}
    options |= {"do_train": True, "do_eval": True, "bf16": trains_lstm_in_bfloat16()}
    main(flags(**options, output_dir=tmp_path / "run"))
    assert results_of(tmp_path / "run")["eval_mse"] < 300  # of 6,667 for their mean


def test_train_resumes_a_killed_run_bit_for_bit(tmp_path: Path) -> None:
    """SIGKILL at a random moment, then the same command with one flag more: the same weights.

    The seed of the moment is the clock's: over time every moment is tried. The widths are those at
    which a sum depends on where the weights lie.
    """
    options = {**TINY, "train_file": write_splits(tmp_path)["train_file"], "do_train": True}
    options |= {"max_steps": 24, "save_strategy": "steps", "save_steps": 1}
    options |= {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    options |= {"embedding_size": 50, "lstm_hidden_size": 37, "attention_size": 45}
    options |= {"classifier_hidden_size": 61, "train_sampling_strategy": "group_by_length"}
    main(flags(**options, output_dir=tmp_path / "whole"))

    folder = tmp_path / "killed"
    command = flags(**options, output_dir=folder)
    goal = random.Random().randint(2, 12)  # after 1, a whole one is there
    process = in_child(command, folder, goal)
    process.kill()
    process.join()
    assert newest_step(folder) < 24, "the premise: it was not done"
    main([*command, "--resume_from_checkpoint"])
    assert same_weights(weights(folder), weights(tmp_path / "whole")), f"killed at {goal}"


def test_train_on_a_full_disk_loses_no_checkpoint(
    reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files stands for the disk: no large file can be written any more."""
    options = {**TINY, "embedding_size": 600, "train_file": reviews, "do_train": True}
    options |= {"max_steps": 6, "save_strategy": "steps", "save_steps": 2}
    words = flags(**options, output_dir=tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    save = TrainerState.save_to_json

    def save_and_fill(*given: Any) -> None:
        save(*given)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limits[1]))

    with monkeypatch.context() as patched:
        patched.setattr(TrainerState, "save_to_json", save_and_fill)
        patched.setattr(sys, "dont_write_bytecode", True)  # it would be cut off
        try:
            with pytest.raises(SystemExit):
                main(words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    kept = [path.name for path in list_checkpoints(tmp_path) if is_complete(path)]
    assert kept == ["checkpoint-2"]
    main([*words, "--resume_from_checkpoint", "auto"])
    assert results_of(tmp_path, "trainer_state")["global_step"] == 6
