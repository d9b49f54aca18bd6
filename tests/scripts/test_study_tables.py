"""The tables and the figure of a study: they show the records, and nothing else."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from script_files import load_script
from studying import tables
from studying.tables import hops_curves, page, read_records, render, weights_of

from sase_hf import SelfAttentiveConfig

CARDS = Path(__file__).parents[2] / "model_cards"
CONSTRAINTS = CARDS.with_name("constraints.txt")
HISTORY = [{"epoch": 1.0, "accuracy": 0.5}, {"epoch": 2.0, "accuracy": 0.75}]


def record(accuracy: float = 0.5, **more: Any) -> dict[str, Any]:
    """Return what the tables read of a record."""
    known = {"split": "validation", "metrics": {"accuracy": accuracy}, "history": HISTORY}
    return {**known, "config": {}, **more}


def cells(table: str, *row: str) -> list[str]:
    """Return the cells of the row that begins with these."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    [found] = [cells for cells in rows if cells[: len(row)] == [*row]]
    return found[len(row) :]


def test_table1_shows_means_over_seeds_and_the_numbers_of_the_paper() -> None:
    shares = (0.61, 0.63, 0.68)
    records = {
        "yelp5/self_attentive": [record(share) for share in shares],
        "yelp5/cnn_max": [record(0.61994)],
    }
    table = tables.TABLES["table1"](records)
    assert table.splitlines()[:2] == [
        "| model | yelp5 | yelp5, paper | blog_age | blog_age, paper |",
        "|---|---|---|---|---|",
    ]
    assert cells(table, "self-attentive") == ["64.00 ± 3.61 (3 seeds)", "64.21", "-", "80.45"]
    assert cells(table, "CNN + max pooling") == ["61.99 (1 seed)", "62.05", "-", "78.15"]
    assert cells(table, "linear model of TF-IDF") == ["-", "", "-", ""]


def test_table3_reads_the_coefficient_from_the_config() -> None:
    attention = {"attention": {"overlap": 0.25, "entropy": 0.5}}
    records = {
        "yelp5/penalty_0": [record(0.6, config={"penalty_coef": 0.0}, **attention)],
        "yelp5/penalty_0.1": [record(0.7, config={"penalty_coef": 0.1})],
        "yelp5/self_attentive": [record(0.8)],  # the default coefficient, 1.0
    }
    table = tables.table3(records)
    assert cells(table, "yelp5", "0") == ["60.00 (1 seed)", "61.74", "0.500", "0.250"]
    assert cells(table, "yelp5", "0.1") == ["70.00 (1 seed)", "", "-", "-"]
    assert cells(table, "yelp5", "1") == ["80.00 (1 seed)", "64.21", "-", "-"]
    assert cells(table, "blog_age", "1") == ["-", "80.45", "-", "-"]


def test_figure5_shows_the_best_epochs_and_its_curves_the_epochs_of_all_seeds() -> None:
    """A mean over fewer seeds would look like a jump."""
    longer = [{"epoch": 1.0, "accuracy": 0.7}, {"epoch": 2.0, "accuracy": 0.65}]
    longer.append({"epoch": 3.0, "accuracy": 0.95})
    records = {
        "snli/hops_5": [record(config={"num_hops": 5}), record(history=longer)],
        "snli/self_attentive": [record()],  # 30 hops by default
    }
    curves = hops_curves(records)
    assert curves["snli"]["r = 5"] == [(1.0, pytest.approx(0.6)), (2.0, pytest.approx(0.7))]
    assert [len(points) for points in curves["snli"].values()] == [0, 2, 0, 0, 2]
    table = tables.figure5(records)
    assert cells(table, "5") == ["-", "79.80", "85.00 ± 14.14 (2 seeds)", "82.48"]
    assert cells(table, "30") == ["-", "79.90", "75.00 (1 seed)", "83.47"]


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


def test_label_shift_shows_adapted_beside_plain_accuracy() -> None:
    table = tables.label_shift({"yelp5/cnn_max": [record(0.6, label_shift={"accuracy": 0.7})]})
    assert cells(table, "yelp5", "cnn max") == ["60.00 (1 seed)", "70.00 (1 seed)"]
    assert len(table.splitlines()) == 3, "models without a record are left out"


def test_trials_show_the_settings_that_one_of_them_chose_and_every_result() -> None:
    arguments = {"learning_rate": 0.002, "record": "s7.json"}
    table = tables.tuning({"tuning/snli/s7": [record(0.76, arguments=arguments)]})
    assert table.splitlines()[0] == "| task | trial | learning rate | accuracy in % |"
    assert cells(table, "snli", "s7") == ["0.002", "76.00 (1 seed)"]
    trials = [
        {"number": 0, "state": "complete", "value": 0.5, "settings": {"learning_rate": 0.001}},
        {"number": 1, "state": "pruned", "value": 0.4, "settings": {"num_hops": 3}},
        {"number": 2, "state": "fail", "value": None, "settings": {}},
    ]
    table = tables.searches({"search/yelp5/cnn_max": [record(trials=trials)]})
    assert table.splitlines()[0] == "| task | model | trial | r | learning rate | accuracy in % |"
    rows = [cells(table, "yelp5", "cnn max", str(number)) for number in range(3)]
    assert rows == [["", "0.001", "50.00"], ["3", "", "40.00 (pruned)"], ["", "", "- (fail)"]]


def write(path: Path, **more: Any) -> None:
    """Write a record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record(**more)))


def test_read_records_refuses_what_the_tables_cannot_show(tmp_path: Path) -> None:
    """A resumed run has the same settings."""
    resumed = {"lstm_hidden_size": 150, "output_dir": "run-42", "resume_from_checkpoint": "true"}
    write(tmp_path / "yelp5/cnn-seed42.json", arguments=resumed)
    write(tmp_path / "yelp5/cnn-seed43.json", arguments={"seed": 43, "lstm_hidden_size": 150})
    assert len(read_records(tmp_path)["yelp5/cnn"]) == 2
    write(tmp_path / "yelp5/cnn-seed44.json", arguments={"seed": 44, "lstm_hidden_size": 300})
    with pytest.raises(ValueError, match="the seeds of yelp5/cnn have different settings"):
        read_records(tmp_path)
    write(tmp_path / "linear.json", split="test")
    main = load_script("study").main
    for folder, message in ((tmp_path, r"linear\.json .* test rows"), ("nowhere", "no folder now")):
        with pytest.raises(SystemExit, match=message):
            main(["render", f"--records={folder}", f"--output={tmp_path / 'PAGE.md'}"])


def test_page_in_the_repository_is_that_of_its_records() -> None:
    fresh = page(read_records(CARDS / "records" / "study"))
    assert "{{" not in fresh
    assert (CARDS / "EXPERIMENTS.md").read_text(encoding="utf-8") == fresh, "render it again"


@pytest.mark.skipif(
    f"matplotlib=={version('matplotlib')}\n" not in CONSTRAINTS.read_text(encoding="utf-8"),
    reason="another version of matplotlib than that of constraints.txt places things elsewhere",
)
def test_figure_in_the_repository_is_that_of_its_records(tmp_path: Path) -> None:
    _, fresh = render(CARDS / "records" / "study", tmp_path / "EXPERIMENTS.md")
    assert (CARDS / fresh.name).read_bytes() == fresh.read_bytes(), "render it again"
