"""Marks of people: from cells to spans, tokens and batches, and what a run makes of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from rows import PAIRS, write_csv, write_jsonl
from runs import TINY_MODEL, flags, review_rows, run_tiny, train_tiny, write_splits

from sase_hf import build_tokenizer
from sase_hf.data.batching import RationaleCollator, encode_rows
from sase_hf.data.columns import DataArguments
from sase_hf.data.rows import load_rows
from sase_hf.tasks import LabelTask
from sase_hf.training.command_line import parse_arguments

# An emoji is two units of UTF-16, one accent a character of its own, a line end two characters.
TEXT = "\ufeff🙂 C\u2019est   tre\u0300s\r\nbon, 👍🏽 GOOD!"
MARKS = [[TEXT.index("tre"), TEXT.index("bon") + 1], [TEXT.index("GOOD"), len(TEXT)]]
ROWS: list[dict[str, Any]] = [
    {"text": "Fine, thanks.", "label": "yes", "rationale": None},
    {"text": TEXT, "label": "no", "rationale": MARKS},
    {"text": "Not at all", "label": "no", "rationale": []},
    {"text": "good", "label": "yes", "rationale": [[0, 4]]},
]


def marked(path: Path, max_tokens: int = 99) -> list[list[str]]:
    """Return the marked tokens of each row of a file."""
    task = load_rows(DataArguments(train_file=str(path)))
    tokenizer = build_tokenizer(task.texts_to_learn_from())
    rows = encode_rows(task, tokenizer, max_tokens)["train"]
    pairs = (zip(row["input_ids"], row["rationale"], strict=True) for row in rows)
    return [[tokenizer.decode(token) for token, mark in row if mark] for row in pairs]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_marks_of_cells_and_of_lists_land_on_their_words(form: str, tmp_path: Path) -> None:
    """A span may end inside a word. A text that is cut loses the marks behind the cut."""
    path = tmp_path / f"rows.{form}"
    if form == "csv":
        cells = [json.dumps(row["rationale"]) for row in ROWS]  # the first is null
        cells[2] = " "
        write_csv(path, [{**row, "rationale": own} for row, own in zip(ROWS, cells, strict=True)])
    else:
        write_jsonl(path, ROWS)
    assert marked(path) == [[], ["très", "bon", "good", "!"], [], ["good"]]
    assert marked(path, 6) == [[], ["très"], [], ["good"]]


@pytest.mark.parametrize("mark", [[4, 4], [0, 5]])
def test_load_rows_names_the_mark_that_is_none(mark: list[int], tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [ROWS[2], {**ROWS[3], "rationale": [[0, 4], mark]}])
    message = rf"row 1 .*, column 'rationale': \{mark} .* end <= 4"
    with pytest.raises(ValueError, match=message):
        load_rows(DataArguments(train_file=str(path)))


def test_collator_puts_the_weight_where_the_marked_tokens_are() -> None:
    tokenizer = build_tokenizer(["a b c"])
    tokenizer.padding_side = "left"
    rows = [{"input_ids": [2, 3, 4], "rationale": [0, 0, 1]}, {"input_ids": [3], "rationale": [1]}]
    batch = RationaleCollator(tokenizer, weight=2.5)(rows)
    assert batch["rationale"].tolist() == [[0, 0, 2.5]] * 2
    assert "rationale" not in RationaleCollator(tokenizer)([{"input_ids": [2]}])


def write_marked(folder: Path) -> dict[str, str]:
    """Write splits whose every third row is marked at its last word, which is the label."""

    def rows(count: int, seed: int) -> list[dict[str, Any]]:
        marked = review_rows(count, seed)
        for row in marked[::3]:
            row["rationale"] = [[len(row["text"]) - 4, len(row["text"])]]
        return marked

    return write_splits(folder, rows)


def test_run_learns_marks_and_evaluates_the_loss_without_them(
    tmp_path: Path, reviews: dict[str, str]
) -> None:
    """A coefficient of 0 gives the run that ignores marks."""
    marked, options = write_marked(tmp_path), {"do_eval": True, "max_steps": 6}
    marks = train_tiny(tmp_path / "marks", **marked, **options, rationale_coef=1)["metrics"]
    none = train_tiny(tmp_path / "none", **marked, **options, rationale_coef=0)["metrics"]
    ignored = train_tiny(tmp_path / "ignored", **reviews, **options)["metrics"]
    for name in ("eval_loss", "train_loss"):
        assert none[name] == ignored[name]
    assert marks["train_loss"] > none["train_loss"]
    again = {"model_name_or_path": tmp_path / "marks", "do_eval": True}
    again["validation_file"] = reviews["validation_file"]
    alone = run_tiny(tmp_path / "again", **again)["metrics"]
    assert marks["eval_loss"] == pytest.approx(alone["eval_loss"], abs=1e-5)


def test_task_weighs_a_marked_row_as_all_rows_for_it(tmp_path: Path) -> None:
    task = parse_arguments(LabelTask, flags(**TINY_MODEL, **write_marked(tmp_path)))
    assert task.trainer_options(task.assemble())["data_collator"].weight == 48 / 16


def test_run_refuses_marks_without_attention(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--pooling is max, .* column rationale "):
        train_tiny(tmp_path / "run", **write_marked(tmp_path), pooling="max")


def test_marks_for_and_against_have_a_column_for_each_text_of_a_pair(tmp_path: Path) -> None:
    """Rows may have marks on one text alone. Training rows lack the words marked against."""
    rows = [{**row, "label": row["gold"]} for row in PAIRS]
    rows[0] |= {"rationale_pair": [[0, 2]], "rationale_against": [[0, 2]]}
    rows[1] |= {"rationale": [[2, 5]], "rationale_against_pair": [[0, 1]]}
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    assert marked(path) == [["no"], ["man"], []]
    train = load_rows(DataArguments(train_file=str(path))).splits["train"]
    assert train["text"][:2] == ["    dogs sleep.", "A man sings."]
    assert train["text_pair"][:2] == ["No dog is awake.", "        sings."]
