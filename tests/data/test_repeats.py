"""Texts that stand in several rows are counted, whatever task reads them."""

from pathlib import Path

import pytest
from rows import write_jsonl

from sase_hf.data.arguments import DataArguments
from sase_hf.data.rows import load_rows

TRAIN = [{"text": f"text number {index}", "label": "ab"[index % 2]} for index in range(10)]


def test_load_rows_counts_texts_of_a_split_in_an_earlier_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In any case, with any blanks, in any encoding: results on them say nothing about new ones."""
    train = [*TRAIN, {"text": "T\u00e9xt", "label": "a"}]
    known = ["TEXT number 3", " text  number\n4 ", "te\u0301xt"]
    validation = [{"text": text, "label": "a"} for text in (*known, "new text")]
    test = [{"text": text} for text in (TRAIN[5]["text"], "New text")]
    files = {}
    for name, rows in {"train": train, "validation": validation, "test": test}.items():
        files[f"{name}_file"] = str(write_jsonl(tmp_path / f"{name}.jsonl", rows))
    load_rows(DataArguments(**files))
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [message.partition(",")[0] for message in warnings] == [
        "3 validation texts are also in the train rows",
        "1 test texts are also in the train rows",
        "1 test texts are also in the validation rows",
    ]
