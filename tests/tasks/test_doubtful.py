"""The training rows with doubtful labels: their file, and the table in the report."""

import csv
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rows import write_csv, write_jsonl
from runs import QUIET, TINY_MODEL, flags, review_rows
from tiny import tiny_model
from transformers import AutoModelForSequenceClassification, TrainerState

from sase_hf import SelfAttentiveForSequenceClassification, build_tokenizer
from sase_hf.data.arguments import DataArguments
from sase_hf.data.splits import encode_rows, load_rows
from sase_hf.evaluation.linear_part import logits_of
from sase_hf.tasks import LabelTask
from sase_hf.tasks.labels import doubtful
from sase_hf.tasks.labels.doubtful import (
    ReadsTrainingRows,
    reader_of_training_rows,
    write_doubtful,
)
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments
from sase_hf.utils.text import Table
from sase_hf.visualization.page import tables_html

HOSTILE = '=HYPERLINK("http://x"), <script>alert(1)</script>'


def reviews(count: int = 120) -> list[dict[str, Any]]:
    """Return rows in which one word tells the label."""
    rows = []
    for number in range(count):
        word = "Awful" if number % 2 else "lovely"
        text = f"the {word} soup {number % 7} we had on day {number % 11}"
        rows.append({"text": text, "label": "bad" if number % 2 else "good"})
    return rows


def written(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Table | None:
    """Write the doubtful rows of a file of rows."""
    path = write_jsonl(folder / "rows.jsonl", rows)
    return written_of(folder, DataArguments(train_file=str(path), **options))


def written_of(folder: Path, arguments: DataArguments) -> Table | None:
    return write_doubtful(folder, setup_of(arguments))


def setup_of(arguments: DataArguments) -> Any:
    rows = load_rows(arguments)
    tokenizer = build_tokenizer(rows.texts_to_learn_from())
    return SimpleNamespace(rows=rows, tokens=encode_rows(rows, tokenizer), tokenizer=tokenizer)


def lines_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "doubtful.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_doubtful_csv_names_the_row_the_suggestion_and_the_words(tmp_path: Path) -> None:
    rows = reviews()
    rows[31]["label"] = "good"
    rows[80]["label"] = "bad"
    written(tmp_path, rows)
    lines = {int(line["row"]): line for line in lines_of(tmp_path)}
    assert lines.keys() == {31, 80}
    columns = ["row", "text", "label", "suggested_label", "probability", "label_probability", "why"]
    assert list(lines[31]) == columns
    assert lines[31]["text"] == rows[31]["text"]
    assert (lines[31]["label"], lines[31]["suggested_label"]) == ("good", "bad")
    assert float(lines[31]["probability"]) > 0.5 > float(lines[31]["label_probability"])
    assert lines[31]["why"].split(", ")[0] == "awful"
    assert lines[80]["why"].split(", ")[0] == "lovely"


def test_doubtful_csv_names_no_weak_words_and_no_marks(tmp_path: Path) -> None:
    rows = reviews()
    rows[31] = {"text": "An awful , awful soup !", "label": "good"}
    for row in rows[1::2]:
        row["text"] += " !"
    written(tmp_path, rows)
    [line] = lines_of(tmp_path)
    assert line["why"] == "awful"


def test_doubtful_csv_counts_rows_as_the_file_does(tmp_path: Path) -> None:
    """Those of a CSV file as a spreadsheet, although rows are split off and shuffled."""
    rows = reviews()
    rows[31]["label"] = "good"
    path = write_csv(tmp_path / "reviews.csv", rows)
    options = {"validation_fraction": 0.2, "shuffle_seed": 3}
    written_of(tmp_path, DataArguments(train_file=str(path), **options))
    [line] = lines_of(tmp_path)
    assert (line["row"], line["text"]) == ("33", rows[31]["text"])


def test_doubtful_csv_names_the_file_of_several(tmp_path: Path) -> None:
    rows = reviews()
    rows[100]["label"] = "bad"
    (tmp_path / "train").mkdir()
    write_jsonl(tmp_path / "train" / "a.jsonl", rows[:60])
    write_jsonl(tmp_path / "train" / "b.jsonl", rows[60:])
    written_of(tmp_path, DataArguments(dataset_name=str(tmp_path)))
    [line] = lines_of(tmp_path)
    assert (line["file"], line["row"]) == ("b.jsonl", "40")


def test_doubtful_row_that_a_correction_added_has_no_place(tmp_path: Path) -> None:
    corrections = [{"text": "the awful soup of the corrections", "label": "good"}]
    path = write_jsonl(tmp_path / "corrections.jsonl", corrections)
    table = written(tmp_path, reviews(), corrections_file=[str(path)])
    assert table is not None
    [line] = lines_of(tmp_path)
    assert (line["row"], line["text"]) == ("", corrections[0]["text"])
    assert table.rows[0][0] == ""


def test_doubtful_csv_holds_no_formula(tmp_path: Path) -> None:
    """Numbers stay, also those below zero."""
    rows = reviews()
    rows[31] = {"text": f"{HOSTILE} awful soup", "label": "@good"}
    for row in rows[::2]:
        row["label"] = "@good"
    for row in rows[33::2]:
        row["label"] = "-1"
    for row in rows[1:31:2]:
        row["label"] = "-1"
    written(tmp_path, rows)
    [line] = lines_of(tmp_path)
    assert line["text"].startswith("'=HYPERLINK")
    assert line["label"] == "'@good"
    assert line["suggested_label"] == "-1"


def test_doubtful_table_shows_texts_as_text(tmp_path: Path) -> None:
    rows = reviews()
    rows[31] = {"text": f"{HOSTILE} awful soup \u202e", "label": "good"}
    table = written(tmp_path, rows)
    assert table is not None
    page = tables_html([table], {}, "title")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "\u202e" not in page
    assert "the first 1 of 1 in doubtful.csv" in page


def test_doubtful_table_has_the_first_ten(tmp_path: Path) -> None:
    rows = reviews(240)
    for number in range(0, 240, 16):
        rows[number]["label"] = "bad"
    table = written(tmp_path, rows)
    assert table is not None
    assert table.title.endswith("the first 10 of 15 in doubtful.csv")
    numbers = [line["row"] for line in lines_of(tmp_path)]
    assert [row[0] for row in table.rows] == numbers[:10]


def test_doubtful_csv_of_pairs_has_both_texts(tmp_path: Path) -> None:
    rows = []
    for number in range(160):
        first = f"word{number % 8}"
        second = first if number % 2 else f"word{(number + 3) % 8}"
        rows.append({"a": first, "b": second, "label": "same" if number % 2 else "other"})
    rows[51]["label"] = "other"
    for row in rows:
        row["a"] += f" {rows.index(row)}"  # no two pairs are equal
    written(tmp_path, rows, text_column_names=["a", "b"])
    line = lines_of(tmp_path)[0]
    assert (line["row"], line["text"], line["text_pair"]) == ("51", rows[51]["a"], rows[51]["b"])
    assert line["suggested_label"] == "same"


def test_doubtful_csv_of_several_labels_suggests_a_set(tmp_path: Path) -> None:
    rows = [{**row, "label": [row["label"], "soup"]} for row in reviews()]
    rows[:3] = [{**row, "label": row["label"][:1]} for row in rows[:3]]
    rows[31]["label"] = ["good", "bad", "soup"]
    written(tmp_path, rows)
    lines = {int(line["row"]): line for line in lines_of(tmp_path)}
    assert lines[31]["label"] == "bad, good, soup"
    assert lines[31]["suggested_label"] == "bad, soup"


def test_doubtful_csv_of_numbers_has_deviations(tmp_path: Path) -> None:
    rows = [{**row, "label": 1.5 if row["label"] == "bad" else 4.25} for row in reviews()]
    rows[31]["label"] = 9.5
    table = written(tmp_path, rows)
    [line] = lines_of(tmp_path)
    columns = ["row", "text", "label", "suggested_label", "deviations", "why"]
    assert (list(line), line["label"]) == (columns, "9.5")
    assert float(line["suggested_label"]) == pytest.approx(1.5, abs=0.5)
    assert float(line["deviations"]) > 2
    assert table is not None
    assert table.heads[4] == "deviations"


def test_doubtful_csv_of_no_doubts_is_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That of a former run in the folder would be of other rows."""
    caplog.set_level(logging.INFO, "sase_hf.tasks.labels.doubtful")
    rows = reviews()
    rows[31]["label"] = "good"
    written(tmp_path, rows)
    assert f"doubtful labels: 1 training row in {tmp_path / 'doubtful.csv'}" in caplog.messages
    assert written(tmp_path, reviews()) is None
    assert not (tmp_path / "doubtful.csv").exists()
    assert "doubtful labels: none among the training rows" in caplog.messages


def test_reader_asks_after_the_second_and_third_epoch(tmp_path: Path) -> None:
    """Without dropout, and the training goes on."""
    setup = setup_of(DataArguments(train_file=str(write_jsonl(tmp_path / "a.jsonl", reviews(9)))))
    rows = setup.tokens["train"]
    sizes = {"vocab_size": len(setup.tokenizer), "num_labels": 2, "classifier_dropout": 0.5}
    models = [tiny_model(SelfAttentiveForSequenceClassification, **sizes) for _ in range(4)]
    reader = ReadsTrainingRows(rows)
    for epoch, model in enumerate(models, start=1):
        model.train()
        untouched: Any = None
        reader.on_epoch_end(untouched, TrainerState(epoch=epoch), untouched, model=model)
        assert model.training
    said = [logits_of(model, rows).log_softmax(-1) for model in models[1:3]]
    assert reader.opinions is not None
    torch.testing.assert_close(reader.opinions, (said[0] + said[1]) / 2)


def test_reader_is_for_one_label_per_row_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write_jsonl(tmp_path / "a.jsonl", reviews(20)))
    setup = setup_of(DataArguments(train_file=path))
    sets = setup_of(DataArguments(train_file=path, problem_type="multi_label_classification"))
    assert reader_of_training_rows(setup, 1) is not None
    assert reader_of_training_rows(setup, 2) is None
    assert reader_of_training_rows(sets, 1) is None
    monkeypatch.setattr(doubtful, "MAX_OPINIONS", 39)
    assert reader_of_training_rows(setup, 1) is None, "20 rows times 2 labels"


@pytest.mark.slow
def test_run_writes_doubtful_rows_and_learns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is asked in its training, which changes nothing in it."""
    rows = review_rows(90)
    rows[40]["label"] = "poor" if rows[40]["label"] == "great" else "great"
    file = write_jsonl(tmp_path / "rows.jsonl", rows)
    options = {**TINY_MODEL, **QUIET, "train_file": file, "do_train": True, "do_eval": True}
    options |= {"validation_fraction": 0.2, "num_train_epochs": 3}
    asked = []
    write = doubtful.doubtful_rows

    def listening(*arguments: Any, **found: Any) -> Any:
        asked.append(found["opinions"])
        return write(*arguments, **found)

    monkeypatch.setattr(doubtful, "doubtful_rows", listening)
    for name, own in (("with", {"report": True}), ("without", {})):
        run(parse_arguments(LabelTask, flags(**options, **own, output_dir=tmp_path / name)))
    with_report, without = (
        AutoModelForSequenceClassification.from_pretrained(tmp_path / name).state_dict()
        for name in ("with", "without")
    )
    torch.testing.assert_close(with_report, without, rtol=0, atol=0)
    assert [tuple(opinions.shape) for opinions in asked] == [(72, 3)]
