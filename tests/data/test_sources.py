"""Rows of files and datasets: every format as it is, nothing guessed, nothing left behind."""

import csv
import gzip
import hashlib
import json
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from rows import REVIEWS, write_csv, write_jsonl

from sase_hf.data import sources
from sase_hf.data.arguments import PredictionArguments
from sase_hf.data.rows import read_rows
from sase_hf.data.sources import Columns, StoredSplit, open_sources

LONG = "word " * 40_000  # beyond the csv module's own limit of 128 KiB
GUESSED = ["NA", "null", "007", "1.50", "2020-01-01 00:00:00"]
PLAIN = ['"Fine.', "bad", '"so"', 'yes"']
WANTED = Columns(("text",), ("label",))
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def read_file(path: Path, columns: Columns = WANTED) -> StoredSplit:
    with open_sources(PredictionArguments(test_file=str(path))) as (split,):
        next(split.batches())
        split.read(columns)
    return split


def read_splits(**flags: Any) -> list[StoredSplit]:
    with open_sources(PredictionArguments(**flags)) as splits:
        for split in splits:
            split.read(WANTED)
    return splits


def texts_of(split: StoredSplit) -> list[str]:
    return split.named_texts({"text": "text"})["text"][:]


@pytest.mark.parametrize("name", ["r.jsonl", "r.json.gz", "R.TSV.GZ", "r.csv", "R.Parquet"])
def test_read_file_formats_hold_the_same_rows(tmp_path: Path, name: str) -> None:
    """Packed or not, whatever the case of the ending; columns that nobody asked for are left."""
    rows = [{**row, "other": 1} for row in REVIEWS]
    path = tmp_path / name.lower()
    if "parquet" in path.name:
        Dataset.from_list(rows).to_parquet(path)
    elif "json" in path.name:
        write_jsonl(path, rows)
    else:
        write_csv(path, rows, "\t" if "tsv" in path.name else ",")
    path = path.rename(tmp_path / name)
    split = read_file(path)
    assert texts_of(split) == [row["text"] for row in REVIEWS]
    assert split.labels["label"] == [row["label"] for row in REVIEWS]
    assert (split.num_rows, [*split.column_names]) == (4, ["text", "label", "other"])
    assert split.source == {"file": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("r.json", "\n" + json.dumps(REVIEWS), [row["text"] for row in REVIEWS]),
        # Readers that guess types make a missing value, a number or a date of such texts.
        ("r.csv", "text\nNA\nnull\n007\n1.50\n2020-01-01 00:00:00\n", GUESSED),
        ("r.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in GUESSED), GUESSED),
        # Quoted fields hold separators, quotes and line ends; other quotes are text.
        ("r.csv", 'text,label\n"a ""b"",\tc\r\nd",1\n', ['a "b",\tc\r\nd']),
        # Programs that know no quotes write a row per line: quotes on, lines would be lost.
        ("r.tsv", 'label\ttext\n1\t"Fine.\n0\tbad\n1\t"so"\n1\tyes"\n', PLAIN),
        ("r.csv", '\ufefftext\tlabel\r\n"Fine.\t1\r\nbad\t0\r\n"so"\t1\r\nyes"\t1\r\n', PLAIN),
        ("r.tsv", 'text\tlabel\na\t1\n"b\t1\n\n', ["a", '"b']),
        # Doubled quotes within a text show nothing, those of a field in quotes do.
        (
            "r.tsv",
            'text\tlabel\nthe ""best"" soup\t1\n""\t0\n"Fine.\t1\nso"\t0\n',
            ['the ""best"" soup', '""', '"Fine.', 'so"'],
        ),
        (
            "r.tsv",
            'text\tlabel\n"the ""best"" soup"\t1\n"a\tb\n0"\t0\n',
            ['the "best" soup', "a\tb\n0"],
        ),
        (
            "r.tsv",
            'text\tlabel\n"""Best"" soup"\t1\n"a\tb\n0"\t0\n',
            ['"Best" soup', "a\tb\n0"],
        ),
        # Lines that are no rows by themselves are one quoted field.
        ("r.tsv", 'label\ttext\tid\n1\t"a\nb\tc"\t7\n0\t"d"\t8\n', ["a\nb\tc", "d"]),
        ("r.tsv", '"text"\t"label"\n"a\nb"\t"1"\n', ["a\nb"]),
        # Another separator is known by the header line, outside quotes; rows do not count.
        ("r.csv", 'text;"a,b,c"\n"soup; bread";1\n', ["soup; bread"]),
        ("r.csv", "text|label\nsoup; bread|1\n", ["soup; bread"]),
        ("r.tsv", "text,label\nsoup,1\n", ["soup"]),
        ("r.csv", "text,a;b;c\nsoup,1\n", ["soup"]),
        ("r.csv", 'id,text,good (0|1)\n1,"soup | bread\nand tea",0\n', ["soup | bread\nand tea"]),
        ("r.csv", "text\nsoup; bread|tea\n", ["soup; bread|tea"]),
        # Of two marks that are equally frequent in both lines, the usual one of the ending.
        ("r.tsv", "text\tlabel (0,1)\nsoup, warm\t1\n", ["soup, warm"]),
        ("r.csv", "text,label (0;1)\nsoup; warm,1\n", ["soup; warm"]),
        ("r.csv", "text,label (0\t1)\nsoup\twarm,1\n", ["soup\twarm"]),
        # Excel writes it above the header line, and needs it.
        ("r.csv", "sep=;\r\ntext;label\r\nsoup, bread;1\r\n", ["soup, bread"]),
        # They write empty columns behind the others, and empty rows below them.
        ("r.csv", "text,label,,\r\nsoup,1,,\r\nbread,1,,\r\n,,,\r\n,,,\r\n", ["soup", "bread"]),
        # Spreadsheets write a byte-order mark.
        ("r.csv", "\ufefftext,label\r\nZoë,1\r\n", ["Zoë"]),
        # Excel's "Unicode text" is UTF-16, with a mark.
        ("r.csv", "text\tlabel\r\nZoë\t1\r\n".encode("utf-16"), ["Zoë"]),
        ("r.jsonl", '{"text": "Zoë"}\n'.encode("utf-16"), ["Zoë"]),
        # Python's splitlines cuts at these two.
        ("r.jsonl", '{"text": "one\u2028two\x85three"}\n', ["one\u2028two\x85three"]),
        pytest.param("r.csv", "text\n" + LONG, [LONG], id="long field"),
    ],
)
def test_read_file_keeps_texts_as_they_are(
    tmp_path: Path, name: str, content: str | bytes, texts: list[str]
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert texts_of(read_file(tmp_path / name)) == texts


def test_read_rows_keeps_an_empty_row_among_others(tmp_path: Path) -> None:
    """It is no end of the sheet, and is named where its text is missed."""
    (tmp_path / "r.csv").write_text("a,b\n1,2\n,\n\t, \n3,4\n,\n", encoding="utf-8")
    assert [row["a"] for row in read_rows(str(tmp_path / "r.csv"))] == ["1", "", "\t", "3"]


def test_read_rows_objects_of_lists_are_rows_if_there_are_several(tmp_path: Path) -> None:
    """Only a single one is a table by columns."""
    rows = [{"words": ["a", "b"], "tags": ["x", "y"]}] * 2
    assert list(read_rows(str(write_jsonl(tmp_path / "r.jsonl", rows)))) == rows


def test_read_rows_says_that_quotes_after_a_blank_are_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "r.csv"
    path.write_text('label,text\n1, "fine"\n', encoding="utf-8")
    assert list(read_rows(str(path))) == [{"label": "1", "text": ' "fine"'}]
    assert f"{path} has blanks before quotation marks" in caplog.text


def test_read_file_turns_class_ids_into_names(tmp_path: Path) -> None:
    """Splits may number the same names differently; -1 stands for no label."""
    named = ClassLabel(names=["no", "yes"])
    rows = Dataset.from_dict(
        {"text": ["a", "b", "c"], "label": [1, -1, None], "tags": [[0, 1], [], None]},
        features=Features({"text": Value("string"), "label": named, "tags": List(named)}),
    )
    rows.to_parquet(tmp_path / "r.parquet")
    split = read_file(tmp_path / "r.parquet", Columns(("text",), ("label", "tags")))
    assert split.labels["label"] == ["yes", None, None]
    assert split.labels["tags"] == [["no", "yes"], [], None]
    assert split.class_names == {"label": ("no", "yes"), "tags": ("no", "yes")}


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
GOOD_CSV = b"text,label\na,1\n"
BROKEN = {
    "unknown ending": ("r.xlsx", b"a", r"unknown ending; allowed are .csv, .*; save a spreadsheet"),
    "long row": ("r.csv", GOOD_CSV + b"b,1,2\n", "line 3 has 3 fields and the header 2; a field"),
    "blank lines": ("r.csv", GOOD_CSV + b"\n\nb,1\n", "line 3 is blank; delete it"),
    "blank line in one column": ("r.csv", b"text\n\nb\n", "line 2 is blank; delete it"),
    "tsv with quotes": ("r.tsv", b'"a"\t"b"\n"a" c\t1\n', "line 2: '\t' expected after '\"'; q"),
    "tsv without": ("r.tsv", b'a\tb\n"a\t1\nb"\t1\n"\n', "line 4 has 1 fields and the header 2"),
    "open quote": ("r.csv", GOOD_CSV + b'"b,1\n', "line 3: unexpected end of data; quotes inside"),
    "bad line": ("r.jsonl", b'{"a": 1}\n{"a":\n', "line 2, character 6: Expecting value"),
    "nested line": ("r.jsonl", b'{"a": 1}\n{"a":' + b"[" * 100_000, "line 2: brackets are nested"),
    "bad array": ("r.json", b'[{"a": 1},\n{"a"}]', "line 2, character 5: Expecting ':'"),
    "latin-1": ("r.csv", "text\nZoë\n".encode("latin-1"), "'CSV UTF-8'.*: iconv .*/r-utf8.csv'?$"),
    "latin-1 gzip": ("r.csv.gz", gzip.compress(b"text\nZo\xeb\n"), "byte; save it as UTF-8$"),
    "no mark": ("r.csv", "text\nsoup\n".encode("utf-16-le"), "line 1 holds a NUL .*: UTF-16 w"),
    "no mark, umlaut": ("r.jsonl", "Zoë\n".encode("utf-16-be"), "; it holds NUL .*: UTF-16 witho"),
    "torn utf-16": ("r.csv", "Zoë".encode("utf-16")[:-1], "data; save it as UTF-8$"),
    "lines of text": ("r.txt", b"a\n", "; put a header line such as text,label above it"),
    "torn gzip": ("r.csv.gz", gzip.compress(GOOD_CSV)[:-9], "ended before the end-of"),
    "empty columns with a value": (
        "r.csv",
        b"a,b,,\nx,1,,\ny,0,,z\n",
        "line 3 has 'z' in a column w",
    ),
    "blank before a quote": ("r.csv", b'a,b\n1, "x, y"\n', "line 2 has 3 .*; delete the blanks"),
    "blank after a quote": ("r.csv", b'a,b\n"1" ,"x, y"\n', "line 2: .*; delete the blanks"),
    "key twice": (
        "r.jsonl",
        b'{"a": 1}\n{"a": 1, "a": 2}\n',
        "line 2: an object has the key 'a' t",
    ),
    "inner key twice": (
        "r.json",
        b'[{"a": {"x": 1, "x": 2}}]',
        "line 1: an object has the key 'x' t",
    ),
    "columns": (
        "r.json",
        b'{"a": {"0": 1}, "b": {"0": 2}}',
        "a table by columns .*orient=.records",
    ),
    "lists": (
        "r.json",
        b'{"a": ["x", "y"], "b": ["p", "q"]}',
        "a table by columns, not rows; save",
    ),
    "split": (
        "r.json",
        b'{"columns": ["a"], "data": [["x"]]}',
        "its columns apart, not rows; save",
    ),
    "nested rows": ("r.json", b'{"data": [{"a": 1}]}', "its rows in 'data', not rows; save"),
    "pointer": ("r.csv", POINTER, "it is a pointer of Git LFS, .* `git lfs pull`"),
    "packed pointer": ("r.json.gz", POINTER, "it is a pointer of Git LFS"),
    "parquet pointer": ("r.parquet", POINTER, "it is a pointer of Git LFS"),
    "page": (
        "r.csv",
        b"\n<!DOCTYPE HTML>\n<html>",
        "it is a page of the web .*; download it again",
    ),
    "torn parquet": ("r.parquet", b"PAR1 and no more", "Parquet magic bytes not found"),
}


@pytest.mark.parametrize(("name", "content", "message"), BROKEN.values(), ids=BROKEN)
def test_read_file_names_line_of_broken_file(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path / name))}.*{message}"):
        read_file(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.jsonl", '{"text": "a"}\n{"text": "long"}\n', "line 2 has 15 characters or more; are"),
        ("r.csv", "text\nsoup\nsixteen characters\n", "line 3 has 15 characters or more; are"),
        ("r.csv", 'text\n"soup\n with\n bread"\n', "field larger than field limit"),
        ("r.csv.gz", "a\n" * 10_000, "unpacks to more than .* 100 for each byte; if that is right"),
        ("r.json.gz", "[" + "\n" * 20_000, "unpacks to more than .* 100 for each byte; if that"),
    ],
)
def test_read_rows_refuses_what_would_fill_the_memory(
    tmp_path: Path, name: str, content: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a few bytes unpack to it; an array may be one line, as programs write it."""
    path = tmp_path / name
    data = content.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    limit = csv.field_size_limit()
    monkeypatch.setattr("sase_hf.data.rows.MAX_LINE", 15)
    with pytest.raises(ValueError, match=message):
        list(read_rows(str(path)))
    csv.field_size_limit(limit)  # of the process: importlib reads csv too
    path = tmp_path / "array.json"
    path.write_text(json.dumps(REVIEWS))
    assert list(read_rows(str(path))) == REVIEWS


def test_open_sources_needs_a_dataset_or_a_file() -> None:
    with pytest.raises(ValueError, match=r"--dataset_name is None and the files are \{\}; give"):
        read_splits()


def test_open_sources_refuses_a_file_beside_a_dataset() -> None:
    with pytest.raises(ValueError, match=r"--dataset_name is 'some/set' and the files are \{'tr"):
        read_splits(dataset_name="some/set", train_file="r.jsonl")


def test_open_sources_refuses_a_dataset_of_unknown_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    splits = DatasetDict(unsupervised=Dataset.from_list(REVIEWS))
    monkeypatch.setattr(sources, "load_dataset", lambda *_, **__: splits)
    with pytest.raises(ValueError, match=r"has the splits \['unsupervised'\], but none of \['tr"):
        read_splits(dataset_name="some/set")


def test_open_sources_local_folder_is_a_dataset(tmp_path: Path) -> None:
    """The record keeps the folder's name only."""
    folder = tmp_path / "reviews"
    folder.mkdir()
    write_jsonl(folder / "train.jsonl", REVIEWS)
    write_jsonl(folder / "test.jsonl", REVIEWS[:1])
    cache = tmp_path / "cache"
    splits = read_splits(dataset_name=str(folder), cache_dir=str(cache))
    assert [(split.name, split.num_rows) for split in splits] == [("train", 4), ("test", 1)]
    assert splits[0].source == {"dataset": "reviews", "config": None, "revision": None}
    assert splits[1].title == str(folder / "test.jsonl")
    assert not cache.exists(), "what is here already needs no copy"


def test_open_sources_records_commit_of_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch moves on; the record must say which rows it was."""
    url = f"hf://datasets/some/set@{COMMIT}/data/train.parquet"
    asked: dict[str, Any] = {}

    def load_dataset(path: str, **options: Any) -> DatasetDict:
        asked.update(options, path=path)
        rows = Dataset.from_list(REVIEWS)
        rows.info.download_checksums = {url: {"num_bytes": 1, "checksum": None}}
        return DatasetDict(train=rows, validation=Dataset.from_list(REVIEWS), extra=rows)

    monkeypatch.setattr(sources, "load_dataset", load_dataset)
    hub = {"revision": "main", "cache_dir": "c", "token": "t"}
    flags = {"dataset_config_name": "en", "dataset_revision": "main", "cache_dir": "c"}
    splits = read_splits(dataset_name="some/set", token="t", **flags)
    assert [split.source["revision"] for split in splits] == [COMMIT, "main"]
    assert splits[0].source == {"dataset": "some/set", "config": "en", "revision": COMMIT}
    assert asked == {"path": "some/set", "name": "en", **hub}, "no remote code is asked for"


FORMATS = ["train.csv", "train.tsv", "train.csv.gz", "train.json", "train.jsonl.gz"]


@pytest.mark.parametrize("name", FORMATS)
def test_open_sources_folder_holds_the_rows_of_its_file(tmp_path: Path, name: str) -> None:
    """Of `NA` and `null` the readers of `datasets` make missing texts, of `007` a number."""
    rows = [{"text": text, "label": text} for text in GUESSED]
    path = tmp_path / name
    if "json" in name:
        write_jsonl(path, rows)
    else:
        write_csv(path, rows, "\t" if "tsv" in name else ",")
    (of_folder,) = read_splits(dataset_name=str(tmp_path))
    (of_file,) = read_splits(train_file=str(path))
    assert texts_of(of_folder) == texts_of(of_file) == GUESSED
    assert of_folder.labels == of_file.labels


def test_open_sources_folder_names_the_file_of_a_bad_row(tmp_path: Path) -> None:
    """A split of several files counts the rows of each."""
    folder = tmp_path / "train"
    folder.mkdir()
    write_csv(folder / "a.csv", REVIEWS)
    write_csv(folder / "b.csv", [*REVIEWS, {"text": "", "label": "bad"}, {"text": "x", "label": 1}])
    Dataset.from_list(REVIEWS).to_parquet(tmp_path / "test.parquet")
    (split,) = read_splits(dataset_name=str(tmp_path))
    assert (split.num_rows, split.title) == (10, f"the train split of {tmp_path.name}")
    place = f"row 6 of the sheet, line 6 of the file {folder / 'b.csv'}, column 'text': there is no"
    with pytest.raises(ValueError, match=re.escape(place)):
        texts_of(split)


@pytest.mark.parametrize("is_described", [False, True])
def test_open_sources_passes_over_columns_of_types_that_datasets_does_not_know(
    is_described: bool, tmp_path: Path
) -> None:
    """A file of `datasets` keeps what it says of its columns where others come in."""
    notes = pa.array([[("by", "Ann")], []], pa.map_(pa.string(), pa.string()))
    path = tmp_path / "r.parquet"
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    rows = Dataset.from_dict({"text": ["good", "bad"], "label": [1, 0]}, features)
    rows.to_parquet(path)
    table = pq.read_table(path).append_column("notes", notes).append_column("empty", pa.nulls(2))
    pq.write_table(table if is_described else table.replace_schema_metadata(), path)
    split = read_file(path, Columns(("text",), ("label",)))
    assert texts_of(split) == ["good", "bad"]
    assert split.labels["label"] == (["pos", "neg"] if is_described else [1, 0])
    assert list(split.column_names) == ["text", "label", "notes", "empty"]


def write_shard(path: Path, label: Any, feature: Any) -> None:
    features = Features({"text": Value("string"), "label": feature})
    Dataset.from_dict({"text": ["a"], "label": [label]}, features).to_parquet(path)


@pytest.mark.parametrize(
    ("feature", "label", "shown"),
    [
        (ClassLabel(names=["pos", "neg"]), 0, r"\['pos', 'neg'\]"),
        (List(ClassLabel(names=["pos", "neg"])), [0], r"\['pos', 'neg'\]"),
        (Value("int64"), 0, "without names"),
        (Value("string"), "neg", "without names"),
    ],
)
def test_open_sources_folder_refuses_classes_in_another_order(
    tmp_path: Path, feature: Any, label: Any, shown: str
) -> None:
    """Read as one, the second file had the labels of the first the other way round."""
    named = ClassLabel(names=["neg", "pos"])
    write_shard(tmp_path / "train-0.parquet", 0, named)
    write_shard(tmp_path / "train-1.parquet", label, feature)
    expected = rf"column 'label' are \['neg', 'pos'\] in .*train-0.* and {shown} in .*train-1"
    with pytest.raises(ValueError, match=f"{expected}.*; store its labels as strings"):
        read_splits(dataset_name=str(tmp_path))


def test_open_sources_folder_reads_lists_of_classes_that_are_all_empty(tmp_path: Path) -> None:
    write_shard(tmp_path / "train-0.parquet", [], List(Value("null")))
    write_shard(tmp_path / "train-1.parquet", [1], List(ClassLabel(names=["neg", "pos"])))
    write_shard(tmp_path / "train-2.parquet", [], List(Value("null")))
    (split,) = read_splits(dataset_name=str(tmp_path))
    assert split.labels["label"] == [[], ["pos"], []]


def test_open_sources_folder_reads_files_whose_classes_are_the_same(tmp_path: Path) -> None:
    """One file has no labels; the classes of a column that is not read do not count."""
    named, other = ClassLabel(names=["neg", "pos"]), ClassLabel(names=["pos"])
    columns = {"text": Value("string"), "label": named}
    for number, feature in enumerate((named, other)):
        rows = Dataset.from_dict(
            {"text": ["a"], "label": [number], "other": [0]},
            Features({**columns, "other": feature}),
        )
        rows.to_parquet(tmp_path / f"train-{number}.parquet")
    Dataset.from_dict({"text": ["b"], "label": [None]}).to_parquet(tmp_path / "train-2.parquet")
    (split,) = read_splits(dataset_name=str(tmp_path))
    assert split.labels["label"] == ["neg", "pos", None]


def test_open_sources_folder_names_no_file_without_rows(tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "a.csv").write_text("text,label\n", encoding="utf-8")
    write_csv(folder / "b.csv", [{"text": "", "label": "bad"}])
    (split,) = read_splits(dataset_name=str(tmp_path))
    with pytest.raises(ValueError, match=r"line 2 of the file .*b\.csv, column 'text'"):
        texts_of(split)


def test_open_sources_reads_the_folder_of_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "train.csv", REVIEWS)
    monkeypatch.chdir(tmp_path)
    (split,) = read_splits(dataset_name=".")
    assert split.source["dataset"] == tmp_path.name


def test_open_sources_folder_with_a_description_is_read_by_datasets(tmp_path: Path) -> None:
    """Names of classes, or another separator, may stand in its README.md."""
    (tmp_path / "rows.csv").write_text("first#text\n1#soup\n", encoding="utf-8")
    card = "---\nconfigs:\n- config_name: all\n  sep: '#'\n  data_files: rows.csv\n---\n"
    (tmp_path / "README.md").write_text(card, encoding="utf-8")
    (split,) = read_splits(dataset_name=str(tmp_path))
    assert (split.name, texts_of(split)) == ("train", ["soup"])


@pytest.mark.parametrize("is_saved", [True, False], ids=["saved", "loaded"])
def test_open_sources_reads_splits_by_their_usual_names(
    is_saved: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else a tenth of the training rows is held out, and the own validation rows are lost."""
    caplog.set_level("INFO")
    names = ["Training", "validation_mismatched", "validation-matched", "dev", "eval"]
    splits = DatasetDict(
        {name: Dataset.from_list([{"text": name, "label": "a"}]) for name in names}
    )
    if is_saved:
        splits.save_to_disk(tmp_path / "set")
    else:
        monkeypatch.setattr(sources, "load_dataset", lambda *_, **__: splits)
    name = str(tmp_path / "set") if is_saved else "some/set"
    read = read_splits(dataset_name=name)
    assert [(split.name, *texts_of(split)) for split in read] == [
        ("train", "Training"),
        ("validation", "dev"),
        ("test", "eval"),
    ]
    assert f"the split 'dev' of {name} is read as validation rows" in caplog.text
    unread = "these splits are not read: 'validation_mismatched', 'validation-matched'; to read"
    assert unread in caplog.text


@pytest.mark.parametrize(
    ("split", "name"), [(None, "train"), ("dev", "validation"), ("test[:10%]", "test")]
)
def test_open_sources_saved_dataset_is_a_split(
    split: str | None, name: str, tmp_path: Path
) -> None:
    Dataset.from_list(REVIEWS, split=split).save_to_disk(tmp_path / "reviews")
    (read,) = read_splits(dataset_name=str(tmp_path / "reviews"))
    assert (read.name, texts_of(read)) == (name, [row["text"] for row in REVIEWS])
    assert read.source == {"dataset": "reviews", "config": None, "revision": None}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "{folder}.py",
            "raise SystemExit",
            r"no longer supported, but found .*\.py; give",
        ),
        ("README.md", "---\nconfigs: 3\n---\n", "cannot read the dataset .*; give its files"),
        ("dataset_dict.json", "[]", "cannot read the dataset .*; give its files"),
        ("train.parquet", "text", "cannot read '.*train.parquet'"),
    ],
)
def test_open_sources_folder_that_cannot_be_read_is_named(
    name: str, content: str, message: str, tmp_path: Path
) -> None:
    write_csv(tmp_path / "train.csv", REVIEWS)
    (tmp_path / name.format(folder=tmp_path.name)).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=f"(?s){message}") as error:
        read_splits(dataset_name=str(tmp_path))
    assert "\n" not in str(error.value)


def test_open_sources_dataset_name_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv", REVIEWS)
    with pytest.raises(ValueError, match=f"--dataset_name {path} is a file; give it by --train_f"):
        read_splits(dataset_name=str(path))


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([Decimal("1.50"), Decimal("2.00")], [1.5, 2]),
        ([date(2020, 1, 2), None], ["2020-01-02", None]),
    ],
    ids=["decimals", "dates"],
)
def test_read_file_parquet_labels_are_what_a_csv_file_would_hold(
    tmp_path: Path, values: list[Any], labels: list[Any]
) -> None:
    pq.write_table(pa.table({"text": ["a", "b"], "label": values}), tmp_path / "r.parquet")
    split = read_file(tmp_path / "r.parquet", Columns(("text",), ("label",)))
    assert split.labels == {"label": labels}
    if isinstance(values[0], Decimal):
        assert next(split.batches())["label"] == labels, "also where columns are found by values"


@pytest.mark.parametrize("name", ["absent.csv", "absent.parquet", "absent.jsonl.gz"])
def test_read_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(FileNotFoundError, match=f"^there is no file {path}; check its name"):
        read_file(path)
