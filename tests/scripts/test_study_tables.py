"""The tables and the figures of a study: they show the records, and nothing else."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from comparing.tables import read_leaderboard
from script_files import load_script
from studying import tables
from studying.tables import hops_curves, page, read_records, render, weights_of

from sase_hf import SelfAttentiveConfig

CARDS = Path(__file__).parents[2] / "model_cards"
STUDY, LEADERBOARD = CARDS / "records" / "study", CARDS / "records" / "leaderboard"
CONSTRAINTS = CARDS.with_name("constraints.txt")
HISTORY = [{"epoch": 1.0, "accuracy": 0.5}, {"epoch": 2.0, "accuracy": 0.75}]


def record(accuracy: float = 0.5, **more: Any) -> dict[str, Any]:
    """Return what the tables read of a record."""
    known = {"split": "validation", "metrics": {"accuracy": accuracy}, "history": HISTORY}
    return {**known, "config": {"penalty_coef": 1.0}, **more}


def cells(table: str, *row: str) -> list[str]:
    """Return the cells of the row that begins with these."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    [found] = [cells for cells in rows if cells[: len(row)] == [*row]]
    return found[len(row) :]


def test_tables_show_means_over_seeds_and_the_numbers_of_the_paper() -> None:
    """The page in the repository, below, shows the other tables."""
    records = {
        "yelp5/self_attentive": [record(share) for share in (0.61, 0.63, 0.68)],
        "yelp5/cnn_max": [record(0.61994, label_shift={"accuracy": 0.7})],
        "yelp5/penalty_0": [record(0.6, config={"penalty_coef": 0.0})],
    }
    table = tables.TABLES["table1"](records)
    assert cells(table, "self-attentive") == ["64.00 ± 3.61 (3 seeds)", "64.21", "-", "80.45"]
    assert cells(table, "CNN + max pooling") == ["61.99 (1 seed)", "62.05", "-", "78.15"]
    assert "linear model" not in table, "nothing was measured of it"
    seeds = {"snli/cnn": [{"wall_seconds": seconds} for seconds in (61.6, 60.4, 90.0)]}
    assert cells(tables.times(seeds), "CNN + self-attention") == ["-", "-", "60"]
    focus = {"entropy": 0.25, "effective_words": 3.5, "cosine": 0.125, "lift": 4.5}
    measured = {
        "sst2/focused": [record(0.8, attention=focus, seed=43)],
        "sst2/self_attentive": [record(share, seed=42 + i) for i, share in enumerate((0.9, 0.75))],
    }
    row = ["80.00 (1 seed)", "5.00 (1 seed)", "0.250", "3.500", "0.125", "4.500"]
    assert cells(tables.focus(measured), "sst2", "default") == row, "beside the same seed"
    assert tables.focus_points(measured) == {"sst2": {"default": (0.25, pytest.approx(5))}}
    table = tables.table3(records)
    assert cells(table, "yelp5", "0") == ["60.00 (1 seed)", "61.74", "-", "-", "-"]
    assert cells(table, "yelp5", "1") == ["64.00 ± 3.61 (3 seeds)", "64.21", "-", "-", "-"]
    assert cells(tables.label_shift(records), "yelp5", "cnn max")[1] == "70.00 (1 seed)"


def test_figure5_shows_the_best_epochs_and_its_curves_the_epochs_of_all_seeds() -> None:
    """A mean over fewer seeds would look like a jump."""
    longer = [{"epoch": 1.0, "accuracy": 0.7}, {"epoch": 2.0, "accuracy": 0.65}]
    longer.append({"epoch": 3.0, "accuracy": 0.95})
    records = {
        "snli/hops_5": [record(config={"num_hops": 5}), record(history=longer)],
        "snli/self_attentive": [record()],  # 10 hops by default
    }
    curves = hops_curves(records)
    assert curves["snli"]["r = 5"] == [(1.0, pytest.approx(0.6)), (2.0, pytest.approx(0.7))]
    assert [len(points) for points in curves["snli"].values()] == [0, 2, 2, 0, 0]
    table = tables.figure5(records)
    assert cells(table, "5") == ["-", "79.80", "85.00 ± 14.14 (2 seeds)", "82.48"]
    assert cells(table, "10") == ["-", "80.47", "75.00 (1 seed)", "83.03"]


def test_length_shows_each_group_with_its_interval() -> None:
    """A hundred rows, four of five right: Wilson's interval is 71.1 to 86.7 %."""
    group = {"from": 5, "to": 20, "tokens": 12.5, "rows": 100, "accuracy": 0.75}
    seeds = [record(by_length=[group | {"accuracy": share}]) for share in (0.75, 0.85)]
    records = {"length/snli/mean": seeds, "length/snli/max": seeds}
    row = cells(tables.length(records), "snli")
    cell = "80.0 (71.1 to 86.7)"
    assert row == ["5 to 20", "100", "-", cell, cell, "-", "-"]
    curves = tables.length_curves(records)
    assert curves["snli"]["maximum"] == [(12.5, pytest.approx(0.8))]
    assert curves["snli"]["last state"] == []


def test_table4_counts_weights_as_the_paper_does() -> None:
    """The sizes of its Yelp model give its numbers, rounded: 54M, 15K and 1.3M."""
    sizes = {"lstm_hidden_size": 300, "attention_size": 350, "num_hops": 30, "num_labels": 5}
    config = SelfAttentiveConfig(classifier_hidden_size=3000, **sizes)
    full = record(0.6421, config=config.to_diff_dict())
    lstm, attention = 2 * (4 * 300 * (100 + 300) + 2 * 4 * 300), 350 * (600 + 30)
    assert weights_of(full) == (54_003_000, 15_000, lstm + attention)
    row = cells(tables.table4({"yelp5/self_attentive": [full]}), "yelp5", "full")
    assert row[:4] == ["54,003,000", "54M", "15,000", "15K"]
    assert row[-2:] == ["64.21 (1 seed)", "64.21"]
    missing = cells(tables.table4({}), "snli", "pruned")
    assert missing == ["-", "5.6M", "-", "45K", "-", "22.9M", "-", "83.16"]


def test_read_records_refuses_what_the_tables_cannot_show(tmp_path: Path) -> None:
    """A resumed run has the same settings."""

    def write(name: str, **more: Any) -> None:
        (tmp_path / name).write_text(json.dumps(record(**more)))

    resumed = {"lstm_hidden_size": 150, "output_dir": "run-42", "resume_from_checkpoint": "true"}
    write("cnn-seed42.json", arguments=resumed)
    write("cnn-seed43.json", arguments={"seed": 43, "lstm_hidden_size": 150})
    assert len(read_records(tmp_path)["cnn"]) == 2
    write("cnn-seed44.json", arguments={"seed": 44, "lstm_hidden_size": 300})
    with pytest.raises(ValueError, match="the seeds of cnn have different settings"):
        read_records(tmp_path)
    write("linear.json", split="test")
    main = load_script("study").main
    for folder, message in ((tmp_path, r"linear\.json .* test rows"), ("nowhere", "no folder now")):
        with pytest.raises(SystemExit, match=message):
            main(["render", f"--records={folder}", f"--output={tmp_path / 'PAGE.md'}"])


def test_page_in_the_repository_is_that_of_its_records() -> None:
    fresh = page(read_records(STUDY), read_leaderboard(LEADERBOARD))
    assert "{{" not in fresh
    assert (CARDS / "EXPERIMENTS.md").read_text(encoding="utf-8") == fresh, "render it again"


@pytest.mark.slow
@pytest.mark.skipif(
    f"matplotlib=={version('matplotlib')}\n" not in CONSTRAINTS.read_text(encoding="utf-8"),
    reason="another version of matplotlib than that of constraints.txt places things elsewhere",
)
def test_figure_in_the_repository_is_that_of_its_records(tmp_path: Path) -> None:
    for fresh in render(STUDY, LEADERBOARD, tmp_path / "EXPERIMENTS.md"):
        assert (CARDS / fresh.name).read_bytes() == fresh.read_bytes(), "render it again"
