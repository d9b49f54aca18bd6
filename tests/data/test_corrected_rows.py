"""Rows that people corrected, in the place of others and as more rows."""

import json
import logging
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
    files = {"train_file": str(train_file), "corrections_file": [str(path)]}
    return load_rows(DataArguments(**{**files, **flags}))


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


def test_correction_without_marks_deletes_those_of_its_row(tmp_path: Path) -> None:
    marked = [{"text": text, "label": text, "rationale": [[0, 1]]} for text in "ab"]
    rows = load(write_jsonl(tmp_path / "rows.jsonl", marked), [{"text": "a", "label": "b"}])
    assert rows.splits["train"]["rationale"][:] == [None, [[0, 1]]]


def test_correction_of_another_text_is_one_more_training_row(reviews: Path) -> None:
    rows = load(reviews, [{"text": "new", "label": "1"}])
    assert shown(rows)[3:] == [("new", "1")]


def test_correction_of_a_validation_text_is_not_trained_on(reviews: Path) -> None:
    """Test rows stay as they are."""
    other = str(write_csv(reviews.parent / "dev.csv", [{"review": "fine", "stars": "1"}]))
    correction = {"text": "fine", "label": "4"}
    rows = load(reviews, [correction], validation_file=other, test_file=other)
    assert shown(rows, "validation") == [("fine", "4")]
    assert shown(rows, "test") == [("fine", "1")]
    assert rows.splits["train"].num_rows == len(REVIEWS)


def test_corrections_of_one_text_the_last_counts(reviews: Path, tmp_path: Path) -> None:
    """In one file, and in several."""
    files = []
    for number, labels in enumerate((["1", "4"], ["1"])):
        rows = [{"text": "new", "label": label} for label in labels]
        files.append(str(write_jsonl(tmp_path / f"{number}.jsonl", rows)))
    assert shown(load(reviews, [], corrections_file=files[:1]))[3:] == [("new", "4")]
    assert shown(load(reviews, [], corrections_file=files))[3:] == [("new", "1")]


def test_marks_against_of_corrections_leave_words_out_of_training_rows(reviews: Path) -> None:
    corrections = [
        {"text": text, "label": "4", "rationale_against": [[0, 8]]}
        for text in ("by staff again", "by staff, ok")
    ]
    rows = load(reviews, corrections)
    assert rows.left_out == ("by", "staff")
    assert "staff" not in " ".join(rows.splits["train"]["text"])


def test_corrections_of_pairs_are_found_by_both_texts(tmp_path: Path) -> None:
    pairs = [{"premise": "a", "hypothesis": text, "label": "yes"} for text in ("b", "c")]
    train = write_csv(tmp_path / "pairs.csv", [*pairs, {**pairs[0], "premise": "d", "label": "no"}])
    rows = load(train, [{"text": "a", "text_pair": "c", "label": "no"}])
    labels = [rows.label_names[label] for label in rows.splits["train"]["label"]]
    assert labels == ["yes", "no", "no"]


def test_corrections_of_several_labels_are_lists_also_beside_columns(tmp_path: Path) -> None:
    cells = [{"text": "a", "fun": 1, "sad": 0}, {"text": "b", "fun": 0, "sad": 1}]
    train = write_csv(tmp_path / "tags.csv", cells)
    flags = {"label_column_name": "fun,sad"}
    rows = load(train, [{"text": "b", "label": ["fun", "sad"]}], **flags)
    assert rows.splits["train"]["label"][:] == [[1.0, 0.0], [1.0, 1.0]]


def test_correction_among_soft_labels_is_certain(tmp_path: Path) -> None:
    soft = [{"text": text, "no": 0.3, "yes": 0.7} for text in ("a", "b")]
    train = write_jsonl(tmp_path / "soft.jsonl", soft)
    rows = load(train, [{"text": "b", "label": "no"}], label_column_name="no,yes")
    assert rows.splits["train"]["probabilities"][:] == [[0.3, 0.7], [1.0, 0.0]]


def test_corrections_are_in_the_log_and_among_the_sources(
    reviews: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sase_hf.data.marks")
    rows = load(reviews, [{"text": text, "label": "1"} for text in ("good food", "new")])
    assert "corrections: 2 texts, training rows added: 1" in caplog.messages
    assert rows.sources["corrections_1"]["file"] == "corrections.jsonl"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "a", "label": "5"}, r"corrections\.jsonl.*column 'label'.*'5'"),
        ({"review": "a", "stars": "1"}, r"Column name \['text'\] not in .*\['review', 'stars'"),
    ],
    ids=json.dumps,
)
def test_bad_correction_is_named(reviews: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(reviews, [row])


def test_corrections_without_training_rows_are_refused(reviews: Path) -> None:
    path = write_jsonl(reviews.parent / "corrections.jsonl", [{"text": "a", "label": "1"}])
    flags = {"validation_file": str(reviews), "corrections_file": [str(path)]}
    with pytest.raises(ValueError, match="--corrections_file"):
        load_rows(DataArguments(label_names=["1", "4"], **flags))
