"""Texts that stand in several rows are counted, whatever task reads them."""

from pathlib import Path
from typing import Any

import pytest
from rows import write_jsonl

from sase_hf.data.columns import DataArguments, SourceArguments
from sase_hf.data.rows import load_rows

TRAIN = [{"text": f"text number {index}", "label": "ab"[index % 2]} for index in range(10)]


def files_of(folder: Path, **splits: list[dict[str, Any]]) -> dict[str, str]:
    return {
        f"{name}_file": str(write_jsonl(folder / f"{name}.jsonl", rows))
        for name, rows in splits.items()
    }


def overlaps_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    return [message.partition(",")[0] for message in warnings]


def test_load_rows_counts_texts_of_a_split_in_an_earlier_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In any case, with any blanks, in any encoding: results on them say nothing about new ones."""
    train = [*TRAIN, {"text": "T\u00e9xt", "label": "a"}]
    known = ["TEXT number 3", " text  number\n4 ", "te\u0301xt"]
    validation = [{"text": text, "label": "a"} for text in (*known, "new text")]
    test = [{"text": text} for text in (TRAIN[5]["text"], "New text")]
    files = files_of(tmp_path, train=train, validation=validation, test=test)
    load_rows(DataArguments(**files))
    assert overlaps_of(caplog) == [
        "3 validation texts are also in the train rows",
        "1 test texts are also in the train rows",
        "1 test texts are also in the validation rows",
    ]


def test_load_rows_counts_pairs_that_are_also_trained_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A pair is known if both of its texts are."""
    train = [{"en": f"a house {index}", "fr": f"une maison {index}"} for index in range(4)]
    others = [{"en": "une maison 1", "fr": "a house 1"}, {**train[0], "fr": "y"}]
    files = files_of(tmp_path, train=train, validation=[train[0], *others])
    load_rows(SourceArguments(**files))
    assert overlaps_of(caplog) == ["1 validation texts are also in the train rows"]
