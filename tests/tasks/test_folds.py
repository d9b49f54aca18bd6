"""Cross-validation: which rows are a fold, what is measured, and that the model stays the same."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from runs import QUIET, TINY_MODEL, flags, review_rows, weights, write_rows

from sase_hf.data.arguments import DataArguments
from sase_hf.data.held_out import Fold
from sase_hf.data.splits import load_rows
from sase_hf.evaluation.metrics import Accuracy, MacroF1, Mse
from sase_hf.models.answers import SingleLabel
from sase_hf.tasks import LabelTask
from sase_hf.tasks.labels import folds, task
from sase_hf.tasks.labels.folds import FoldOutputs, interval, intervals_of, pooled, wilson
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a bootstrap take a tenth of its time."""
    monkeypatch.setattr(folds, "NUM_RESAMPLES", 100)


def outcome(folder: Path, **options: Any) -> dict[str, Any]:
    rows = write_rows(folder / "rows.jsonl", review_rows(40))
    few = {"num_train_epochs": 1, "validation_fraction": 0.2, "folds": "none"}
    options = {**TINY_MODEL, **QUIET, **few, **options}
    return run(parse_arguments(LabelTask, flags(**options, train_file=rows)))


def rows_of_fold(rows: Dataset, number: int, **options: Any) -> Any:
    arguments = DataArguments(**options)
    return load_rows(arguments, in_memory={"train": rows}, fold=Fold(number, 4)).splits


def test_folds_are_parts_of_the_rows_with_like_labels_and_no_text_on_both_sides() -> None:
    rows = [{"text": f"text {row // 2}", "label": "ab"[row % 4 == 0]} for row in range(80)]
    table = Dataset.from_list(rows)
    seen: list[str] = []
    for number in range(4):
        splits = rows_of_fold(table, number, validation_fraction=0.25)
        assert splits.keys() == {"train", "test", "validation"}
        texts = {name: set(split["text"]) for name, split in splits.items()}
        assert not texts["test"] & (texts["train"] | texts["validation"])
        assert not texts["train"] & texts["validation"]
        assert 18 <= splits["test"].num_rows <= 22
        seen += splits["test"]["text"]
    assert sorted(seen) == sorted(row["text"] for row in rows)


def test_folds_have_like_labels() -> None:
    rows = [{"text": f"text {row}", "label": "ab"[row % 4 == 0]} for row in range(80)]
    for number in range(4):
        labels = rows_of_fold(Dataset.from_list(rows), number)["test"]["label"][:]
        assert (len(labels), sum(labels)) == (20, 5)


def test_more_folds_than_texts_are_refused() -> None:
    rows = Dataset.from_list([{"text": f"text {n % 3}", "label": "ab"[n % 2]} for n in range(8)])
    with pytest.raises(ValueError, match="--folds is 4, but the train rows have 3 different texts"):
        rows_of_fold(rows, 0)


def test_run_measures_all_rows_in_folds_and_trains_the_same_model(tmp_path: Path) -> None:
    found = outcome(tmp_path, folds=3, output_dir=tmp_path / "folds", record=tmp_path / "r.json")
    measured = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["out_of_fold"]
    assert (measured["folds"], measured["rows"]) == (3, 40)
    low, high = measured["intervals"]["accuracy"]
    assert low < measured["metrics"]["accuracy"] < high
    assert measured["simple"].keys() == {"most frequent label", "linear model"}
    table = found["report"][0]
    assert table.title == "In folds, on 40 training rows"
    page = (tmp_path / "folds/report.html").read_text(encoding="utf-8")
    assert "In folds" in page
    right = round(40 * measured["metrics"]["accuracy"])
    assert measured["in_short"].startswith(f"in folds, right for {right} of 40 training rows, the ")
    sentence = measured["in_short"].removeprefix("in folds")
    assert f'<p class="line">In folds{sentence}.</p>' in page
    assert "right for" not in page.replace(sentence, "")  # of the held-out rows
    without = outcome(tmp_path, output_dir=tmp_path / "without")
    assert "out_of_fold" not in without["record"]
    plain = weights(tmp_path / "without")
    for name, weight in weights(tmp_path / "folds").items():
        assert weight.equal(plain[name]), name


def test_fold_is_measured_on_all_of_its_rows_where_few_test_rows_are_predicted(
    tmp_path: Path,
) -> None:
    test_rows = write_rows(tmp_path / "test.jsonl", review_rows(9))
    limited = {"test_file": test_rows, "max_predict_samples": 3}
    found = outcome(tmp_path, folds=2, output_dir=tmp_path / "model", **limited)
    assert found["record"]["out_of_fold"]["rows"] == 40


def test_fold_is_reported_to_no_tracker(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", review_rows(40))
    given = parse_arguments(LabelTask, [f"--train_file={rows}", "--report_to=tensorboard"])
    of_fold = folds._task_of_fold(given, Fold(0, 5), tmp_path / "fold")
    assert of_fold.arguments.run.report_to == []


def test_run_that_continues_says_which_measured_rows_its_checkpoint_may_know(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In folds of its own training file it knows every row; this is refused."""
    checkpoint = tmp_path / "model"
    outcome(tmp_path, output_dir=checkpoint, validation_fraction=0.1)
    assert "was trained on" not in caplog.text
    rows = write_rows(tmp_path / "rows.jsonl", review_rows(40))
    few = {"train_file": rows, "num_train_epochs": 1, "validation_fraction": 0.2}
    again = {**QUIET, **few, "model_name_or_path": checkpoint}
    run(parse_arguments(LabelTask, flags(**again, output_dir=tmp_path / "one", folds="none")))
    assert "was trained on 36 rows of rows.jsonl, which are not those of now" in caplog.text
    for number in (2, "auto"):
        with pytest.raises(ValueError, match=rf"--folds is {number}, but .*model has learned from"):
            run(parse_arguments(LabelTask, flags(**again, output_dir=tmp_path / "x", folds=number)))


def test_run_without_folds_on_few_rows_says_that_they_measure_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outcome(tmp_path, output_dir=tmp_path / "model")
    assert "--folds 5 measures on all training rows" in caplog.text


def folds_by_default(folder: Path, num_rows: int, *words: str) -> int:
    """Return the folds of a command that names its rows alone."""
    rows = write_rows(folder / "rows.jsonl", review_rows(num_rows))
    task = parse_arguments(LabelTask, [f"--train_file={rows}", *words])
    return task.num_folds()


def test_few_rows_are_measured_in_folds_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "FEW_TO_HOLD_OUT", 60)
    assert [folds_by_default(tmp_path, count) for count in (19, 20, 59, 60)] == [0, 5, 5, 0]
    monkeypatch.setattr(task, "MAX_BYTES_OF_FEW", 100)
    assert folds_by_default(tmp_path, 40) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--folds=none"],
        ["--folds="],
        ["--validation_fraction=0"],
        ["--validation_file=FILE"],
        ["--report=false"],
        ["--max_train_samples=30"],
        ["--unlabelled_file=FILE"],
        ["--word_vectors=FILE"],
        ["--do_train", "--do_eval", "--report", "--output_dir=FOLDER"],
    ],
)
def test_folds_are_left_out_by_default_where_they_take_time_or_no_rows_are_held_out(
    words: list[str], tmp_path: Path
) -> None:
    validation = write_rows(tmp_path / "validation.jsonl", review_rows(20))
    words = [word.replace("FILE", validation).replace("FOLDER", str(tmp_path)) for word in words]
    assert folds_by_default(tmp_path, 40, *words) == 0


def test_rows_that_allow_no_folds_are_trained_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of few texts, all equal in a part, none can be held out of a fold's own rows."""
    monkeypatch.chdir(tmp_path)
    texts = [{"text": f"word number {n}", "label": "ab"[n % 2]} for n in range(6)]
    words = ["--num_train_epochs=1", *flags(**TINY_MODEL, **QUIET)]
    write_rows(tmp_path / "rows.jsonl", texts * 5)
    outcome = run(parse_arguments(LabelTask, ["--train_file=rows.jsonl", *words]))
    assert not outcome["report"][0].title.startswith("In folds")
    assert "not measured in folds: fold 1 of 5: --validation_fraction 0.1 of 2" in caplog.text
    options = ["--train_file=rows.jsonl", "--folds=5", "--output_dir=other"]
    asked = parse_arguments(LabelTask, [*options, *words])
    with pytest.raises(ValueError, match=r"fold 1 of 5: --validation_fraction 0\.1 of"):
        run(asked)


def test_resumed_run_measures_no_folds_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", review_rows(40))
    made = parse_arguments(LabelTask, [f"--train_file={rows}"])
    monkeypatch.setattr(folds, "measure_folds", lambda *_: "measured")
    made.before_training(is_resumed=True)
    assert made.out_of_fold is None
    made.before_training(is_resumed=False)
    assert made.out_of_fold == "measured"


def test_command_on_few_rows_reports_what_the_folds_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A label of one row, which only one of the folds has seen, is no obstacle."""
    monkeypatch.chdir(tmp_path)
    rows = [*review_rows(30), {"text": "a word alone", "label": "rare"}]
    write_rows(tmp_path / "rows.jsonl", rows)
    sizes = flags(**TINY_MODEL, **QUIET)
    words = ["--train_file=rows.jsonl", "--num_train_epochs=1", *sizes]
    report = run(parse_arguments(LabelTask, words))["report"]
    assert report[0].title == "In folds, on 31 training rows"
    assert "--folds 5" not in caplog.text


def test_folds_need_training_and_two_parts(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="--folds is 1; give 2 or more, auto, or none for no folds"
    ):
        outcome(tmp_path, folds=1, output_dir=tmp_path / "model")
    with pytest.raises(ValueError, match="--folds is 2, but nothing is trained; leave it out"):
        outcome(tmp_path, folds=2, do_eval=True, model_name_or_path="x", output_dir=tmp_path / "m")


def test_rows_of_all_folds_count_alike() -> None:
    answers = SingleLabel(["a", "b"])
    right = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    parts = [
        FoldOutputs(
            {"this model": right, "mean": right[::-1], "linear model": right},
            np.array([0, 1, 1]),
            answers,
        ),
        FoldOutputs({"this model": right[:1], "mean": right[:1]}, np.array([1]), answers),
    ]
    measured = pooled(parts, 2)
    assert measured.rows == 4
    assert measured.simple.keys() == {"mean"}  # one fold has no other one
    assert measured.metrics["accuracy"] == 0.75
    assert measured.simple["mean"]["accuracy"] == 0.25
    assert intervals_of(parts)["accuracy"] == wilson(0.75, 4)


def test_interval_of_wilson_is_that_of_the_paper() -> None:
    """The bounds solve (p - share)^2 = z^2 p (1 - p) / N."""
    for share, num_rows in ((0.8, 30), (1.0, 10), (0.0, 10), (0.5, 1000)):
        for bound in wilson(share, num_rows):
            assert (bound - share) ** 2 == pytest.approx(
                1.959964**2 * bound * (1 - bound) / num_rows, abs=1e-12
            )


@pytest.mark.parametrize("metric", [Accuracy, MacroF1, Mse])
def test_interval_holds_the_metric_and_shrinks_with_rows(metric: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    true = rng.integers(2, size=400)
    predicted = np.where(rng.random(400) < 0.8, true, 1 - true)
    module = metric(keep_in_memory=True, cache_dir=str(tmp_path))
    low, high = interval(module, true, predicted)
    assert low < module.score(true, predicted) < high
    low_of_few, high_of_few = interval(module, true[:50], predicted[:50])
    assert high - low < high_of_few - low_of_few
