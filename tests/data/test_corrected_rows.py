"""Rows that people corrected, in the place of others and as more rows."""

from pathlib import Path
from typing import Any

import pytest
from rows import write_csv, write_jsonl

from sase_hf.data.columns import DataArguments
from sase_hf.data.rows import Rows, load_rows

REVIEWS = [
    {"review": "good food", "stars": "4"},
    {"review": "bad food", "stars": "1"},
    {"review": "by staff", "stars": "4"},
]


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Rows whose columns have other names than those of corrections."""
    return write_csv(tmp_path / "reviews.csv", REVIEWS)


def load(train_file: Path, corrections: list[dict[str, Any]], **flags: Any) -> Rows:
    path = write_jsonl(train_file.parent / "corrections.jsonl", corrections)
    files = {"train_file": train_file, "corrections_file": [path], **flags}
    return load_rows(DataArguments(**files))


def shown(rows: Rows, split: str = "train") -> list[tuple[str, str]]:
    names = rows.label_names
    return [(row["text"], names[row["label"]]) for row in rows.splits[split]]


def test_correction_takes_the_place_of_all_rows_with_its_text(reviews: Path) -> None:
    """Blanks and capitals may differ; its marks are on its own text."""
    write_csv(reviews, [*REVIEWS, REVIEWS[1]])
    rows = load(reviews, [{"text": "Bad  food", "label": "4", "rationale": [[5, 9]]}])
    corrected = ("Bad  food", "4")
    assert shown(rows) == [("good food", "4"), corrected, ("by staff", "4"), corrected]
    train = rows.splits["train"]
    assert train["rationale"][:] == [None, [[5, 9]], None, [[5, 9]]]
    assert train["row"][:] == [0, None, 2, None], "the file holds no correction"
    assert rows.sources["corrections_1"]["file"] == "corrections.jsonl"


def test_correction_of_a_validation_text_is_not_trained_on(reviews: Path) -> None:
    """Test rows stay as they are."""
    other = write_csv(reviews.parent / "dev.csv", [{"review": "fine", "stars": "1"}])
    correction = {"text": "fine", "label": "4"}
    rows = load(reviews, [correction], validation_file=other, test_file=other)
    assert shown(rows, "validation") == [("fine", "4")]
    assert shown(rows, "test") == [("fine", "1")]
    assert rows.splits["train"].num_rows == len(REVIEWS)


def test_corrections_of_one_text_the_last_counts(reviews: Path, tmp_path: Path) -> None:
    """In one file, and in several; another text is one more training row."""
    both = [{"text": "new", "label": label} for label in ("1", "4")]
    assert shown(load(reviews, both))[3:] == [("new", "4")]
    files = [write_jsonl(tmp_path / f"{row['label']}.jsonl", [row]) for row in both]
    assert shown(load(reviews, [], corrections_file=files[::-1]))[3:] == [("new", "1")]


def test_corrections_of_pairs_are_found_by_both_texts(tmp_path: Path) -> None:
    pairs = [{"premise": "a", "hypothesis": text, "label": "yes"} for text in ("b", "c")]
    train = write_csv(tmp_path / "pairs.csv", [*pairs, {**pairs[0], "premise": "d", "label": "no"}])
    rows = load(train, [{"text": "a", "text_pair": "c", "label": "no"}])
    labels = [rows.label_names[label] for label in rows.splits["train"]["label"]]
    assert labels == ["yes", "no", "no"]
