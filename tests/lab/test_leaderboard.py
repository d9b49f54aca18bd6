"""The leaderboard of scripts/lab/study.py: its measurements, and the runs that it skips."""

import importlib.util
from pathlib import Path

import pytest
import runner
import study
from baselines import Rows, line_of, linear
from leaderboard import SYSTEMS, Comparison
from records import read_records
from runs import QUIET, TINY_MODEL, flags, pair_rows, review_rows, write_rows

from sase_hf.data.table import table
from sase_hf.tasks import LabelTask
from sase_hf.training.command_line import parse_arguments


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return the command line of a leaderboard with one set of texts and one of pairs."""
    # A tenth of 200 pairs is enough to choose the threshold of answer sets.
    for name, make_rows, count in (("trec", review_rows, 60), ("sick", pair_rows, 200)):
        write_rows(tmp_path / f"{name}.train.jsonl.gz", make_rows(count))
        write_rows(tmp_path / f"{name}.dev.jsonl.gz", make_rows(20, seed=1))
    folders = [f"--{name}={tmp_path / name}" for name in ("runs", "records")]
    return [str(tmp_path), *folders]


@pytest.mark.slow
def test_leaderboard_measures_the_baselines_and_skips_what_has_a_record(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The label stands in each text, so a system that reads texts is right; the rest is counted."""
    # trec has no other rows than all.
    systems = ["most_frequent", "tfidf", "tfidf_characters", "nbsvm", "command_others"]
    if importlib.util.find_spec("fasttext"):
        systems.append("fasttext")
    remains = tmp_path / "runs" / "trec" / "tfidf" / "model.of_an_interrupted_run"
    remains.parent.mkdir(parents=True)
    remains.write_bytes(bytes(10**7))
    study.main(
        ["leaderboard", *words, "--sets", "trec", "--seeds", "1", "2", "--systems", *systems]
    )
    records = read_records(tmp_path / "records" / "leaderboard.jsonl")
    drawing = {"trec/fasttext-seed1", "trec/fasttext-seed2"} if "fasttext" in systems else set()
    assert records.keys() == {f"trec/{name}" for name in systems[:4]} | drawing
    assert records["trec/most_frequent"]["metrics"] == {
        "accuracy": pytest.approx(7 / 20),
        "macro_f1": pytest.approx(2 * 7 / (20 + 7) / 3),
        "calibration_error": pytest.approx(7 / 20 - 18 / 54),
    }
    for name in systems[1:4]:
        assert records[f"trec/{name}"]["metrics"]["accuracy"] >= 0.9
    measured = records["trec/tfidf"]
    rows = {name: source["rows"] for name, source in measured["sources"].items()}
    assert rows == {"train": 54, "validation": 6, "test": 20}
    assert measured["training_seconds"] > records["trec/most_frequent"]["training_seconds"] > 0
    assert measured["texts_per_second"] > 0
    assert 1_000 < measured["bytes_on_disk"] < 10**6
    assert "scikit-learn" in measured["versions"]
    assert not (tmp_path / "runs" / "trec" / "tfidf").exists()
    capsys.readouterr()
    study.main(["leaderboard", *words, "--sets", "trec", "--systems", "tfidf"])
    assert capsys.readouterr().out.startswith("trec/tfidf: done, accuracy ")
    study.main(["leaderboard", *words, "--sets=trec", "--systems=tfidf", "--rows", "30", "20"])
    records = read_records(tmp_path / "records" / "leaderboard.jsonl")
    for count in (20, 30):
        sources = records[f"trec/tfidf/{count}-seed42"]["sources"]
        assert sources["train"]["rows"] + sources["validation"]["rows"] == count


@pytest.mark.slow
def test_leaderboard_trains_and_predicts_by_the_command_of_the_readme(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = flags(**TINY_MODEL, **{**QUIET, "disable_tqdm": None}, num_train_epochs=1)
    monkeypatch.setitem(SYSTEMS, "ours", {"title": "ours", "vectors": False, "flags": tiny})
    study.main(["leaderboard", *words, "--sets", "sick", "--systems", "ours"])
    record = read_records(tmp_path / "records" / "leaderboard.jsonl")["sick/ours-seed42"]
    assert 0 <= record["metrics"]["calibration_error"] <= 1
    assert record["sources"]["test"]["rows"] == 20
    assert 0 <= record["answer_sets"]["coverage"] <= 1
    assert 1 <= record["answer_sets"]["size"] <= 3
    assert record["training_seconds"] > 0
    assert record["texts_per_second"] > 0
    assert record["bytes_on_disk"] > 4 * record["num_parameters"]
    assert record["config"]["num_hops"] == TINY_MODEL["num_hops"]


def test_train_flags_are_those_of_train_py(tmp_path: Path) -> None:
    """Word vectors and what else a system has, two columns for pairs."""
    columns = ["premise", "hypothesis"]
    settings = {**SYSTEMS["command_potion"], **SYSTEMS["command_max"], "system": "name"}
    settings["vectors"] = ["vectors/potion.128d.txt.gz"]
    run = Comparison("name", 7, settings, tmp_path, tmp_path, columns, tmp_path / "sick")
    task = parse_arguments(LabelTask, run.flags(tmp_path / "model"))
    made = task.settings
    assert (made.given(["pooling"])["pooling"], task.args.seed) == ("max", 7)
    assert [Path(path).name[:6] for path in made.word_vectors or ()] == ["potion"]
    assert made.text_column_names == [",".join(columns)]
    assert made.test_file == str(tmp_path / "sick.dev.jsonl.gz")


def test_others_are_the_rows_that_are_not_drawn_without_their_labels(
    words: list[str], tmp_path: Path
) -> None:
    stem = Path(words[0]) / "trec"
    settings = {**SYSTEMS["command_others"], "system": "command_others", "rows": 20}
    run = Comparison("trec", 7, settings, tmp_path, tmp_path, ["text"], stem)
    run.start_over()
    run._draw_rows(20)
    flags = run.flags(tmp_path / "model")
    assert f"--unlabelled_file={run.file('others')}" in flags
    drawn = list(table(run.file("train")))
    others = list(table(run.file("others")))
    assert len(drawn) == 20
    texts = [row["text"] for row in [*drawn, *others]]
    assert sorted(texts) == sorted(row["text"] for row in table(f"{stem}.train.jsonl.gz"))
    assert {tuple(row) for row in others} == {("text",)}


def test_leaderboard_goes_on_without_what_is_not_installed(
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(SYSTEMS, "fasttext", {"title": "missing", "needs": "no_such_package"})
    study.main(["leaderboard", *words, "--sets", "trec", "--systems", "fasttext"])
    assert "fasttext: left out, needs no_such_package: pip install" in capsys.readouterr().out


def test_leaderboard_goes_on_after_a_failure(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runner.sys, "executable", "false")
    systems = ["most_frequent", "tfidf"]
    with pytest.raises(SystemExit, match=r"2 of 2 runs failed: trec/most_frequent, trec/tfidf"):
        study.main(["leaderboard", *words, "--sets", "trec", "--systems", *systems])
    assert "trec/tfidf: failed with status 1; see " in capsys.readouterr().out
    assert not (tmp_path / "records" / "leaderboard.jsonl").exists()


def test_leaderboard_names_a_file_that_is_missing(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "sick.dev.jsonl.gz").unlink()
    with pytest.raises(SystemExit, match=r"no file .*sick\.dev\.jsonl\.gz; .* --sets"):
        study.main(["leaderboard", *words, "--sets", "trec", "sick"])
    assert not (tmp_path / "records" / "leaderboard.jsonl").exists()


def test_baselines_compare_the_texts_of_a_pair(tmp_path: Path) -> None:
    """Whether a word is in both texts cannot be seen in the words of either."""
    assert line_of(["A __label__0!\n"]) == "a _ _ label _ _ 0 !", "a label would be read as one"
    assert line_of(["Two dogs", "No dogs, no"]) == "two dogs new:no both:dogs new:, new:no"
    names = ("red", "blue", "green", "black")
    pairs = [(a, b) for a in names for b in names] * 6
    rows = Rows(pairs, [int(a == b) for a, b in pairs])
    for kind in ("tfidf", "tfidf_characters", "nbsvm"):
        model = linear(kind, rows, rows, 0, tmp_path / "model")
        assert (model.predict(pairs).argmax(1) == rows.labels).all()
        accuracies = model.settings["accuracies"]
        assert accuracies[model.settings["C"]] == max(accuracies.values())
