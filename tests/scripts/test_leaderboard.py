"""scripts/leaderboard.py: what it measures, skips and leaves out, and what its table shows."""

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import comparing.runs
import pytest
from comparing.baselines import line_of, most_frequent
from comparing.linear import fit_linear
from comparing.runs import SYSTEMS, Run, System, train_flags
from comparing.tables import leaderboard_points, leaderboard_rows, read_leaderboard
from runs import QUIET, TINY_MODEL, flags, pair_rows, review_rows, write_rows
from script_files import load_script

from sase_hf.training.command_line import parse_arguments


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return the command line of a leaderboard with one set of texts and one of pairs."""
    for name, make_rows in (("trec", review_rows), ("sick", pair_rows)):
        write_rows(tmp_path / f"{name}.train.jsonl.gz", make_rows(60))
        write_rows(tmp_path / f"{name}.dev.jsonl.gz", make_rows(20, seed=1))
    folders = [f"--{name}={tmp_path / name}" for name in ("runs", "records")]
    return ["run", str(tmp_path), *folders]


def records_of(folder: Path) -> dict[str, dict[str, Any]]:
    paths = sorted((folder / "records").rglob("*.json"))
    return {path.stem: json.loads(path.read_text("utf-8")) for path in paths}


@pytest.mark.slow
def test_leaderboard_measures_the_baselines_and_skips_what_has_a_record(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The label stands in each text, so what reads the texts is right; the rest is counted."""
    main = load_script("leaderboard").main
    systems = ["most_frequent", "tfidf"]
    if importlib.util.find_spec("fasttext"):
        systems.append("fasttext")
    remains = tmp_path / "runs" / "trec" / "tfidf" / "model.of_an_interrupted_run"
    remains.parent.mkdir(parents=True)
    remains.write_bytes(bytes(10**7))
    main([*words, "--sets", "trec", "--seeds", "1", "2", "--systems", *systems])
    records = records_of(tmp_path)
    drawing = {"fasttext-seed1", "fasttext-seed2"} if "fasttext" in systems else set()
    assert records.keys() == {"most_frequent", "tfidf"} | drawing
    assert records["most_frequent"]["metrics"] == {
        "accuracy": pytest.approx(7 / 20),
        "macro_f1": pytest.approx(2 * 7 / (20 + 7) / 3),
        "calibration_error": pytest.approx(7 / 20 - 18 / 54),
    }
    tfidf = records["tfidf"]
    assert tfidf["metrics"]["accuracy"] > 0.9
    assert {name: source["rows"] for name, source in tfidf["sources"].items()} == {
        "train": 54,
        "validation": 6,
        "test": 20,
    }
    assert tfidf["training_seconds"] > records["most_frequent"]["training_seconds"] > 0
    assert tfidf["texts_per_second"] > 0
    assert 1_000 < tfidf["bytes_on_disk"] < 10**6
    assert "scikit-learn" in tfidf["versions"]
    assert not (tmp_path / "runs" / "trec" / "tfidf").exists()
    capsys.readouterr()
    main([*words, "--sets", "trec", "--systems", "tfidf"])
    assert capsys.readouterr().out == "trec/tfidf: has a record\n"


@pytest.mark.slow
def test_leaderboard_trains_and_predicts_by_the_command_of_the_readme(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = tuple(flags(**TINY_MODEL, **{**QUIET, "disable_tqdm": None}, num_train_epochs=1))
    monkeypatch.setitem(SYSTEMS, "ours", System("ours", vectors=False, flags=tiny))
    load_script("leaderboard").main([*words, "--sets", "sick", "--systems", "ours"])
    record = records_of(tmp_path)["ours-seed42"]
    assert 0 <= record["metrics"]["calibration_error"] <= 1
    assert record["sources"]["test"]["rows"] == 20
    assert record["training_seconds"] > 0
    assert record["texts_per_second"] > 0
    assert record["bytes_on_disk"] > 4 * record["num_parameters"]
    assert record["config"]["num_hops"] == TINY_MODEL["num_hops"]


def test_train_flags_are_those_of_train_py(tmp_path: Path) -> None:
    """Word vectors and max pooling for the BiLSTM, two columns for pairs."""
    run = Run("sick", "bilstm_max", 7, tmp_path, tmp_path, tmp_path)
    model_args, data_args, training_args = parse_arguments(train_flags(run, tmp_path / "model"))
    assert (model_args.pooling, training_args.seed) == ("max", 7)
    assert [Path(path).name[:6] for path in model_args.word_vectors or ()] == ["words.", "potion"]
    assert data_args.text_column_names == ["premise", "hypothesis"]
    assert data_args.train_file == str(tmp_path / "sick.train.jsonl.gz")
    assert data_args.test_file == str(tmp_path / "sick.dev.jsonl.gz")


def test_leaderboard_goes_on_without_what_is_not_installed_and_after_a_failure(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = System("missing", needs=("no_such_package", "leaderboard"))
    monkeypatch.setitem(SYSTEMS, "fasttext", missing)
    monkeypatch.setattr(comparing.runs.sys, "executable", "false")
    systems = ["fasttext", "most_frequent", "tfidf"]
    with pytest.raises(SystemExit, match=r"2 of 3 failed: trec/most_frequent, trec/tfidf"):
        load_script("leaderboard").main([*words, "--sets", "trec", "--systems", *systems])
    printed = capsys.readouterr().out
    assert "trec/fasttext-seed42: left out, needs no_such_package: pip install" in printed
    assert "trec/tfidf: failed with status 1; see " in printed
    assert records_of(tmp_path) == {}


def test_leaderboard_names_the_file_that_a_set_lacks(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "sick.dev.jsonl.gz").unlink()
    with pytest.raises(SystemExit, match=r"no file .*sick\.dev\.jsonl\.gz; .* --sets"):
        load_script("leaderboard").main([*words, "--sets", "trec", "sick"])
    assert not (tmp_path / "records").exists()


def test_line_of_marks_the_words_of_the_second_text_and_hides_labels() -> None:
    """A word such as __label__0 would be read as a label."""
    assert line_of(["A __label__0!\n"]) == "a _ _ label _ _ 0 !"
    assert line_of(["Two dogs", "No dogs, no"]) == "two dogs new:no both:dogs new:, new:no"


def test_fit_linear_compares_the_texts_of_a_pair() -> None:
    """Whether a word is in both texts cannot be seen in the words of either."""
    names = ("red", "blue", "green", "black")
    pairs = [(a, b) for a in names for b in names] * 3
    labels = [int(a == b) for a, b in pairs]
    columns = [list(column) for column in zip(*pairs, strict=True)]
    model = fit_linear(columns, labels, columns, labels)
    assert (model.probabilities(columns).argmax(1) == labels).all()
    assert model.accuracies[model.classifier.C] == max(model.accuracies.values())


def test_most_frequent_gives_the_shares_of_the_training_labels(tmp_path: Path) -> None:
    rows: Any = SimpleNamespace(labels=[2, 0, 2, 2])
    fitted = most_frequent(rows, rows, 0, tmp_path / "model")
    assert fitted.predict([["a"], ["b"]]).tolist() == [[0.25, 0, 0.75]] * 2


def test_leaderboard_shows_means_over_seeds(tmp_path: Path) -> None:
    folder = tmp_path / "sst2"
    folder.mkdir()
    for name, accuracy in (("fasttext-seed1", 0.8), ("fasttext-seed2", 0.9), ("tfidf", 0.81)):
        metrics = {"accuracy": accuracy, "macro_f1": 0.5, "calibration_error": 0.125}
        more = {"training_seconds": 10 * accuracy, "texts_per_second": 1234.5}
        record = {"metrics": metrics, "bytes_on_disk": 2_000_000, **more}
        (folder / f"{name}.json").write_text(json.dumps(record))
    leaderboard = read_leaderboard(tmp_path)
    assert leaderboard_rows(leaderboard)[1] == [
        ["sst2", SYSTEMS["tfidf"].title, "81.0", "50.0", "12.5", "8.1", "1,234", "2.0"],
        [
            "sst2",
            SYSTEMS["fasttext"].title,
            "85.0 ± 7.1 (2 seeds)",
            "50.0",
            "12.5",
            "8.5",
            "1,234",
            "2.0",
        ],
    ]
    assert leaderboard_points(leaderboard)["sst2"][SYSTEMS["tfidf"].title] == (
        pytest.approx(8.1),
        81.0,
    )
