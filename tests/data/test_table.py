"""Rows of files and datasets: what is read, what is refused, and what stays on the disk."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List
from rows import REVIEWS, write_csv, write_jsonl

from sase_hf.data.arguments import PredictionArguments
from sase_hf.data.rows import open_sources
from sase_hf.data.table import load_splits, table, usual_splits

GUESSED = ["NA", "null", "007", "1.50", "2020-01-01 00:00:00"]
CSV = "text,label\nsoup,1\nbread,0\n"
ROWS = [{"text": "soup", "label": "1"}, {"text": "bread", "label": "0"}]

# Files of `ROWS`.
SAME = {
    "comma": ("r.csv", CSV),
    "semicolon": ("r.csv", "text;label\nsoup;1\nbread;0\n"),
    "bar": ("r.csv", "text|label\nsoup|1\nbread|0\n"),
    "tab": ("R.CSV", "text\tlabel\nsoup\t1\nbread\t0\n"),
    "comma in tsv": ("r.tsv", CSV),
    "byte-order mark": ("r.csv", "\ufefftext,label\r\nsoup,1\r\nbread,0"),
    "UTF-16 with its mark": ("r.csv", CSV.encode("utf-16")),
    "blank lines": ("r.csv", "text,label\n\nsoup,1\n\nbread,0\n\n"),
    "gz": ("r.csv.gz", gzip.compress(CSV.encode())),
    "empty columns": ("r.csv", "text,label,,\nsoup,1,,\nbread,0,,\n"),
    "index of pandas": ("r.csv", ",text,label\n0,soup,1\n1,bread,0\n"),
    "array in gz": ("r.json.gz", gzip.compress(b"\n" + json.dumps(ROWS).encode())),
    "lines": ("r.json", "\ufeff" + "\n".join(map(json.dumps, ROWS))),
}
# Files, and their rows as JSON.
OTHER = {
    "marks in rows": ("r.csv", "a,b\nx;y;z,1\n", '[{"a": "x;y;z", "b": "1"}]'),
    "marks in quotes": ("r.csv", 'a;"b,c,d"\nx;1\n', '[{"a": "x", "b,c,d": "1"}]'),
    "equal marks": ("r.tsv", "a\tb (0,1)\nx, y\t1\n", '[{"a": "x, y", "b (0,1)": "1"}]'),
    "quotes": ("r.csv", 'a,b\n"x, ""y""\nz",\n', r'[{"a": "x, \"y\"\nz", "b": ""}]'),
    "numbers": ("r.jsonl", '{"a": 0.1, "b": 7}\n', '[{"a": 0.1, "b": 7}]'),
    "lists": ("r.jsonl", '{"a": ["x", "y"]}\n{"a": []}\n', '[{"a": ["x", "y"]}, {"a": []}]'),
    "keys": ("r.jsonl", '{"a": "x"}\n{"b": "y"}', '[{"a": "x", "b": null}, {"a": null, "b": "y"}]'),
    "breaks": ("r.jsonl", '{"a": "1\u20282\x853"}\n', '[{"a": "1\u20282\x853"}]'),
    "dates": ("r.jsonl", '{"date": "2020-01-01"}', '[{"date": "2020-01-01"}]'),
}


def written(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(("name", "content"), SAME.values(), ids=SAME)
def test_table_holds_the_same_rows(name: str, content: str | bytes, tmp_path: Path) -> None:
    assert table(written(tmp_path / name, content)).to_list() == ROWS


@pytest.mark.parametrize(("name", "content", "rows"), OTHER.values(), ids=OTHER)
def test_table_holds_cells_as_they_are(name: str, content: str, rows: str, tmp_path: Path) -> None:
    assert table(written(tmp_path / name, content)).to_list() == json.loads(rows)


@pytest.mark.parametrize("name", ["r.csv", "r.jsonl", "r.xlsx"])
def test_table_makes_nothing_else_of_texts(name: str, tmp_path: Path) -> None:
    """Readers that guess types make a missing value, a number or a date of some; one is long."""
    path, rows = tmp_path / name, [{"text": text} for text in [*GUESSED, "word " * 6000]]
    if "xlsx" in name:
        pd.DataFrame(rows).to_excel(path, index=False)
    else:
        (write_csv if "csv" in name else write_jsonl)(path, rows)
    assert table(str(path)).to_list() == rows


def test_table_joins_parts_of_a_long_file_of_json(tmp_path: Path) -> None:
    """A part in which all values are missing has no type of its own."""
    path = written(tmp_path / "r.jsonl", '{"a": null}\n' * 10_001 + '{"a": "soup"}')
    assert table(path)["a"][-2:] == [None, "soup"]


def test_table_of_parquet_keeps_the_names_of_classes(tmp_path: Path) -> None:
    features = Features({"tags": List(ClassLabel(names=["no", "yes"]))})
    Dataset.from_list([{"tags": [0, 1]}], features).to_parquet(tmp_path / "r.parquet")
    assert table(str(tmp_path / "r.parquet")).features == features


def test_table_holds_the_values_of_categories(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS).astype("category")
    frame.to_parquet(tmp_path / "r.parquet")
    assert table(frame).to_list() == table(str(tmp_path / "r.parquet")).to_list() == ROWS


def test_table_reads_the_first_sheet_and_names_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pd.ExcelWriter(tmp_path / "r.xlsx") as file:
        pd.DataFrame({"a": [None, 1]}).to_excel(file, index=False)
        pd.DataFrame({"a": [2]}).to_excel(file, sheet_name="codes")
        pd.DataFrame().to_excel(file, sheet_name="blank")
    assert table(str(tmp_path / "r.xlsx")).to_dict() == {"a": [None, "1"]}
    assert re.findall("'codes'|'blank'", caplog.text) == ["'codes'"]


def test_table_of_rows_in_memory() -> None:
    rows = Dataset.from_list(ROWS)
    assert table(rows) is rows
    assert table(rows.to_dict()).to_list() == table(pd.DataFrame(ROWS, [7, 9])).to_list() == ROWS


REFUSED = {
    "long row": ("r.csv", "a,b\n1,2\n1,2,3\n", "Row #3: Expected 2 columns, got 3"),
    "Latin-1": ("r.csv", b"a\nZo\xeb\n", "invalid UTF8"),
    "UTF-16 without its mark": ("r.csv", CSV.encode("utf-16-le"), "UTF-8"),
    "cell without a name": ("r.csv", "a,b,,\nx,1,,\ny,0,,z\n", "the cell 'z'"),
    "equal names": ("r.csv", "a,b,a\nx,1,y\n", "two columns 'a'"),
    "break between tabs": ("r.tsv", 'a\tb\nx\t1\n"y\t1\nz"\t0\n', "row 3 of the sheet .*'a'"),
    "mixed types": ("r.jsonl", '{"a": "x"}\n{"a": 1}\n', "column 'a'"),
    "broken line": ("r.jsonl", '{"a": 1}\n{"a":\n', "UTF-8"),
    "broken array": ("r.json", '[{"a": 1},\n{"a"}]', "UTF-8"),
    "empty": ("r.csv", "", "Empty CSV file"),
    "empty array": ("r.json", "[]", "has no rows"),
    "unknown ending": ("r.txt", "a\n", "allowed are .csv, "),
    "pointer": ("r.csv", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "lfs pull"),
    "page": ("r.json.gz", "\n<!DOCTYPE HTML>\n<html>", "HTML"),
    "torn gz": ("r.csv.gz", gzip.compress(CSV.encode())[:-9], "[Tt]runcated|corrupt|ended"),
    "torn gz of JSON": ("r.json.gz", b"\x1f\x8b and no more", "r.json"),
    "torn Parquet": ("r.parquet", "PAR1 and no more", "Parquet"),
    "torn Excel": ("r.xlsx", "PK and no more", "Excel|zip"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "fault"), REFUSED.values(), ids=REFUSED)
def test_open_sources_names_a_file_that_it_refuses(
    name: str, content: str | bytes, fault: str, tmp_path: Path
) -> None:
    path = written(tmp_path / name, content)
    with pytest.raises(ValueError, match=fault) as error:
        open_sources(PredictionArguments(test_file=path))
    assert re.search(f"^[^\n]*{path}[^\n]*$", str(error.value))


@pytest.mark.parametrize(
    "source",
    [
        pd.DataFrame({"a": ["x", 1]}),
        {"a": ["x", 1]},
        {"a": ["\ud800"]},
        pd.DataFrame(columns=["a", "a"]),
    ],
)
def test_table_refuses_rows_in_memory(source: Any) -> None:
    """Values of two types, half a character, and two columns of one name."""
    with pytest.raises(ValueError, match=r"one type|another name"):
        table(source)


def test_table_of_a_file_that_is_not_there_names_it() -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.csv"):
        table("absent.csv")


# ---- datasets with splits ------------------------------------------------------------------------


def test_load_splits_of_a_folder_leaves_nothing_beside_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the folder is that of the shell."""
    write_csv(tmp_path / "train.csv", REVIEWS)
    write_csv(tmp_path / "test.csv", ROWS[:1])
    monkeypatch.chdir(tmp_path)
    assert load_splits(".")["train"].to_list() == REVIEWS
    assert len(os.listdir()) == 2


def test_load_splits_reads_what_save_to_disk_wrote(tmp_path: Path) -> None:
    rows, folder = Dataset.from_list(ROWS), str(tmp_path / "saved")
    for saved, name in ((rows, "train"), (DatasetDict(dev=rows), "dev")):
        saved.save_to_disk(folder)
        assert load_splits(folder)[name].to_list() == ROWS
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("{folder}.py", "raise SystemExit"),
        ("README.md", "---\nconfigs: 3\n---\n"),
        ("dataset_dict.json", "[]"),
        ("train.parquet", "text"),
    ],
)
def test_load_splits_names_a_folder_that_cannot_be_read(
    name: str, content: str, tmp_path: Path
) -> None:
    write_csv(tmp_path / "test.csv", REVIEWS)
    written(tmp_path / name.format(folder=tmp_path.name), content)
    with pytest.raises(ValueError, match=re.escape(str(tmp_path))) as error:
        load_splits(str(tmp_path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("splits", "chosen"),
    [
        ("Training dev eval", "Training dev eval"),
        ("extra test dev validation-matched", "dev test"),
        ("validation-matched", "validation-matched"),
    ],
)
def test_usual_splits_are_known_by_their_names(
    splits: str, chosen: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that are not read are named."""
    read = [*usual_splits("some/set", splits.split()).values()]
    assert read == chosen.split()
    unread = re.findall("the split '(.+)' of", caplog.text)
    assert sorted([*unread, *read]) == sorted(splits.split())


def test_usual_splits_refuses_names_that_are_all_unknown() -> None:
    with pytest.raises(ValueError, match=r"some/set .*\['unsupervised'\]; .*train, training"):
        usual_splits("some/set", ["unsupervised"])


def test_open_sources_records_commit_of_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch moves on; the record must say which rows it was. No remote code is asked for."""
    commit = "0123456789" * 4
    asked: list[Any] = []

    def load_dataset(*names: str, **options: Any) -> DatasetDict:
        asked.extend([*names, options])
        rows = Dataset.from_list(ROWS)
        rows.info.download_checksums = {f"hf://datasets/some/set@{commit}/data/train.parquet": {}}
        return DatasetDict(train=rows, validation=Dataset.from_list(ROWS))

    monkeypatch.setattr("sase_hf.data.table.load_dataset", load_dataset)
    flags = {"dataset_name": "some/set", "dataset_config_name": "en", "dataset_revision": "main"}
    sources = open_sources(PredictionArguments(**flags, cache_dir="c", token="t"))
    assert [source.origin["revision"] for source in sources] == [commit, "main"]
    assert asked == ["some/set", "en", {"revision": "main", "cache_dir": "c", "token": "t"}]


def test_open_sources_records_the_name_of_a_folder_only(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", ROWS)
    (train,) = open_sources(PredictionArguments(dataset_name=str(tmp_path)))
    assert train.origin == {"dataset": tmp_path.name, "config": None, "revision": None}


@pytest.mark.parametrize("flags", [{}, {"dataset_name": "a/b", "train_file": "r.jsonl"}])
def test_open_sources_takes_either_a_dataset_or_files(flags: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"--dataset_name is (None|'a/b') and the files are"):
        open_sources(PredictionArguments(**flags))


# ---- temporary files -----------------------------------------------------------------------------


def test_table_leaves_no_temporary_files_behind(tmp_path: Path) -> None:
    """Not even where the process fails."""
    code = (
        "import os, sys, tempfile\n"
        "tempfile.tempdir = sys.argv[1]\n"
        "from sase_hf.data.table import table\n"
        "rows = table(sys.argv[2])\n"
        "raise ValueError(os.listdir(sys.argv[1]))\n"
    )
    path, folder = written(tmp_path / "r.csv", CSV), tmp_path / "temporary"
    folder.mkdir()
    command = [sys.executable, "-c", code, folder, path]
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert b"ValueError: ['sase_hf-" in done.stderr
    assert not [*folder.iterdir()]
