"""Rows of files and datasets: what is read, what is refused, and what stays on the disk."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List
from rows import REVIEWS, write_csv

from sase_hf.data.columns import SourceArguments
from sase_hf.data.rows import load_rows, open_sources
from sase_hf.data.table import load_splits, table

# Among them are some of which readers that guess types make a missing value, a number or a date.
TEXTS = ["NA", "null", "007", "1.50", "2020-01-01 00:00:00", "word " * 6000]
CSV = "text,label\nsoup,1\nbread,0\n"
SAME = '[{"text": "soup", "label": "1"}, {"text": "bread", "label": "0"}]'
ROWS = json.loads(SAME)

# Files, and their rows as JSON.
READ = {
    "comma": ("r.csv", CSV, SAME),
    "semicolon": ("r.csv", "text;label\nsoup;1\nbread;0\n", SAME),
    "byte-order mark": ("r.csv", "\ufefftext,label\r\nsoup,1\r\nbread,0", SAME),
    "empty columns": ("r.csv", "text,label,,\nsoup,1,,\nbread,0,,\n", SAME),
    "index of pandas": ("r.csv", ",text,label\n0,soup,1\n1,bread,0\n", SAME),
    "array in gz": ("r.json.gz", gzip.compress(b"\n" + SAME.encode()), SAME),
    "lines": ("r.json", "\ufeff" + SAME[1:-1].replace("}, ", "}\r\n\n"), SAME),
    "marks in quotes": ("r.csv", 'a;"b,c,d"\nx;1\n', '[{"a": "x", "b,c,d": "1"}]'),
    "equal marks": ("r.tsv", "a\tb (0,1)\nx, y\t1\n", '[{"a": "x, y", "b (0,1)": "1"}]'),
    "quotes": ("r.csv", 'a,b\n"x, ""y""\nz",\n', r'[{"a": "x, \"y\"\nz", "b": ""}]'),
    "missing": ("r.jsonl", '{"a": 9007199254740993}\n{}', '[{"a": 9007199254740993}, {"a": null}]'),
    "breaks": ("r.jsonl", '{"a": "1\u20282\x853"}\n', '[{"a": "1\u20282\x853"}]'),
}


def written(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(("name", "content", "rows"), READ.values(), ids=READ)
def test_table_holds_cells_as_they_are(
    name: str, content: str | bytes, rows: str, tmp_path: Path
) -> None:
    assert table(written(tmp_path / name, content)).to_list() == json.loads(rows)


def test_table_makes_nothing_else_of_texts(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": TEXTS})
    frame.to_csv(tmp_path / "r.csv", index=False)
    frame.to_excel(tmp_path / "r.xlsx", index=False)
    assert table(tmp_path / "r.csv")["text"][:] == table(tmp_path / "r.xlsx")["text"][:] == TEXTS


def test_table_of_parquet_keeps_the_names_of_classes(tmp_path: Path) -> None:
    features = Features({"tags": List(ClassLabel(names=["no", "yes"]))})
    Dataset.from_list([{"tags": [0, 1]}], features).to_parquet(tmp_path / "r.parquet")
    assert table(tmp_path / "r.parquet").features == features


REFUSED = {
    "long row": ("r.csv", "a,b\n1,2\n1,2,3\n", "Row #3: Expected 2 columns, got 3"),
    "Latin-1": ("r.csv", b"a\n" + 9000 * b"x\n" + b"Zo\xeb\n", "invalid UTF8"),
    "UTF-16 without its mark": ("r.csv", "text\nsoup".encode("utf-16-le"), "not UTF-8"),
    "names again": ("r.csv", CSV + CSV, "repeats the names"),
    "break between tabs": ("r.tsv", 'a\tb\nx\t1\n"y\t1\nz"\t0\n', "line 4: .* join lines"),
    "open quote": ("r.csv", 'a,b\n"x,1\ny,1\nz" it,0\n', "line 4: ',' expected after"),
    "mixed types": ("r.jsonl", '{"a": "x"}\n{"a": 1}\n', "convert 'x'"),
    "torn gz": ("r.csv.gz", gzip.compress(CSV.encode())[:-9], "[Tt]runcated|corrupt|ended"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "fault"), REFUSED.values(), ids=REFUSED)
def test_open_sources_names_a_file_that_it_refuses(
    name: str, content: str | bytes, fault: str, tmp_path: Path
) -> None:
    path = written(tmp_path / name, content)
    with pytest.raises(ValueError, match=fault) as error:
        load_rows(SourceArguments(test_file=path))
    assert re.search(f"^[^\n]*{path}[^\n]*$", str(error.value))


# ---- datasets with splits ------------------------------------------------------------------------


def test_load_splits_refuses_other_classes_in_another_file(tmp_path: Path) -> None:
    """`datasets` would read the ids of all files as the classes of one."""
    for name, names in {"train": ["no", "yes"], "test": ["yes", "no"]}.items():
        rows = Dataset.from_dict({"tag": ["yes"]}, Features(tag=ClassLabel(names=names)))
        rows.to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match="two classes"):
        load_splits(tmp_path)


def test_load_splits_runs_no_code_of_a_folder(tmp_path: Path) -> None:
    write_csv(tmp_path / "test.csv", REVIEWS)
    written(tmp_path / f"{tmp_path.name}.py", "raise SystemExit")
    with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
        load_splits(tmp_path)


def test_open_sources_records_commit_of_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch moves on; the record must say which rows it was. No remote code is asked for."""
    commit = "0123456789" * 4
    asked = []

    def load_dataset(*names: str, **options: Any) -> DatasetDict:
        asked.extend([*names, options])
        rows = Dataset.from_list(ROWS)
        rows.info.download_checksums = {f"hf://datasets/some/set@{commit}/data/train.parquet": {}}
        return DatasetDict(train=rows)

    monkeypatch.setattr("sase_hf.data.table.load_dataset", load_dataset)
    flags = {"dataset_name": "some/set@main", "dataset_config_name": "en"}
    sources = open_sources(SourceArguments(**flags))
    origin = {"dataset": "some/set", "config": "en", "revision": commit}
    assert sources["train"].origin == origin
    assert asked == ["some/set", "en", {"revision": "main", "cache_dir": None}]
