"""The leaderboard of scripts/lab/study.py: its measurements, and the runs that it skips."""

from pathlib import Path

import pytest
import study
from baselines import Rows, line_of, linear
from leaderboard import SYSTEMS
from records import read_records
from runs import QUIET, TINY_MODEL, flags, pair_rows, review_rows, write_rows


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return the command line of a leaderboard with one set of texts and one of pairs."""
    # A tenth of 200 pairs is enough to choose the threshold of answer sets.
    for name, make_rows, count in (("trec", review_rows, 60), ("sick", pair_rows, 200)):
        write_rows(tmp_path / f"{name}.train.jsonl.gz", make_rows(count))
        write_rows(tmp_path / f"{name}.dev.jsonl.gz", make_rows(20, seed=1))
    return [str(tmp_path), f"--runs={tmp_path / 'runs'}", f"--records={tmp_path / 'records'}"]


@pytest.mark.slow
def test_leaderboard_measures_the_baselines(words: list[str], tmp_path: Path) -> None:
    """The label stands in each text, so a system that reads texts is right; the rest is counted."""
    systems = ["most_frequent", "tfidf", "tfidf_characters", "nbsvm"]
    study.main(["leaderboard", *words, "--sets=trec", "--systems", *systems])
    records = read_records(tmp_path / "records/leaderboard.jsonl")
    assert records.keys() == {f"trec/{name}" for name in systems}
    assert records["trec/most_frequent"]["metrics"] == {
        "accuracy": pytest.approx(7 / 20),
        "macro_f1": pytest.approx(2 * 7 / (20 + 7) / 3),
        "calibration_error": pytest.approx(7 / 20 - 18 / 54),
    }
    for name in systems[1:]:
        assert records[f"trec/{name}"]["metrics"]["accuracy"] >= 0.9
    measured = records["trec/tfidf"]
    rows = {name: source["rows"] for name, source in measured["sources"].items()}
    assert rows == {"train": 54, "validation": 6, "test": 20}
    assert 1_000 < measured["bytes_on_disk"] < 10**6


@pytest.mark.slow
def test_leaderboard_trains_and_predicts_by_the_command_of_the_readme(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = flags(**TINY_MODEL, **{**QUIET, "disable_tqdm": None}, num_train_epochs=1)
    monkeypatch.setitem(SYSTEMS, "ours", {"title": "ours", "vectors": False, "flags": tiny})
    study.main(["leaderboard", *words, "--sets", "sick", "--systems", "ours"])
    record = read_records(tmp_path / "records/leaderboard.jsonl")["sick/ours-seed42"]
    assert 0 <= record["metrics"]["calibration_error"] <= 1
    assert record["sources"]["test"]["rows"] == 20
    assert 1 <= record["answer_sets"]["size"] <= 3
    assert record["config"]["num_hops"] == TINY_MODEL["num_hops"]


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
