"""Raw rows: every format as it is, nothing guessed, nothing left behind."""

import csv
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from rows import REVIEWS, write_csv, write_jsonl

from sase_hf.data import files
from sase_hf.data.arguments import DataArguments
from sase_hf.data.files import RawSplit, read_file, read_splits

WANTED = ("text", "label")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def read(path: Path, wanted: tuple[str, ...] = WANTED) -> RawSplit:
    """Read a file as train split."""
    return read_file(path, wanted, "train")


def read_bytes(path: Path, content: bytes, wanted: tuple[str, ...] = WANTED) -> RawSplit:
    """Read a file with this content as train split."""
    path.write_bytes(content)
    return read(path, wanted)


def texts_of(split: RawSplit) -> list[Any]:
    """Return what was read."""
    return split.columns["text"]


@pytest.mark.parametrize(
    "name",
    ["r.jsonl", "r.json", "r.jsonl.gz", "R.TSV.GZ", "r.csv", "r.csv.gz", "r.tsv", "r.tsv.gz"],
)
def test_read_file_formats_hold_the_same_rows(tmp_path: Path, name: str) -> None:
    """Packed or not, whatever the case of the ending."""
    path = tmp_path / name.lower()
    if "json" in path.name:
        write_jsonl(path, REVIEWS)
    else:
        write_csv(path, REVIEWS, "\t" if "tsv" in path.name else ",")
    path = path.rename(tmp_path / name)
    split = read(path)
    assert split.columns == {key: [row[key] for row in REVIEWS] for key in WANTED}
    assert (split.num_rows, split.column_names) == (4, ["text", "label"])
    assert split.source == {"file": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def test_read_file_parquet_leaves_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` would keep a copy of it in the user's cache."""
    cache = tmp_path / "cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    Dataset.from_list(REVIEWS).to_parquet(tmp_path / "r.parquet")
    split = read(tmp_path / "r.parquet")
    assert split.columns == {key: [row[key] for row in REVIEWS] for key in WANTED}
    assert not cache.exists()


def test_read_file_json_may_hold_an_array(tmp_path: Path) -> None:
    """`json.dump` of a list, on one line or on many, is the other common form."""
    for indent in (None, 2):
        (tmp_path / "r.json").write_text("\n" + json.dumps(REVIEWS, indent=indent))
        assert texts_of(read(tmp_path / "r.json")) == [row["text"] for row in REVIEWS]


@pytest.mark.parametrize(
    "text", ["NA", "None", "null", "nan", "1", "007", "1.50", "2020-01-01 00:00:00"]
)
def test_read_file_keeps_texts_that_look_like_other_types(tmp_path: Path, text: str) -> None:
    """Readers that guess types make a missing value, a number or a date of such a review."""
    row = {"text": text, "label": text}
    for path in (
        write_csv(tmp_path / "r.csv", [row]),
        write_csv(tmp_path / "r.tsv", [row], "\t"),
        write_jsonl(tmp_path / "r.jsonl", [row]),
    ):
        assert read(path).columns == {"text": [text], "label": [text]}


def test_read_file_json_values_keep_their_types(tmp_path: Path) -> None:
    """Only then can a wrong one be named; a missing key is a missing value."""
    labels = [1, "1", 1.5, True, None, ["a", 2]]
    rows = [{"text": "x", "label": label} for label in labels]
    split = read(write_jsonl(tmp_path / "r.jsonl", [*rows, {"text": "y"}]))
    assert split.columns["label"] == [*labels, None]
    assert [type(value) for value in split.columns["label"][:4]] == [int, str, float, bool]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_read_file_quoted_fields_hold_separators(tmp_path: Path, ending: str) -> None:
    """Reviews have all of these, and line ends are kept as they are."""
    text = 'He said: "wait",\nthen\tleft.\r\nWe, too.'
    rows = [{"text": text, "label": "bad"}, REVIEWS[1]]
    path = write_csv(tmp_path / f"r.{ending}", rows, "," if ending == "csv" else "\t")
    assert texts_of(read(path)) == [text, REVIEWS[1]["text"]]


def test_read_file_quotes_inside_a_field_are_text(tmp_path: Path) -> None:
    """Only a field that begins with a quote is a quoted one."""
    assert texts_of(read_bytes(tmp_path / "r.tsv", b'text\tlabel\nso "good"\t1\n')) == ['so "good"']


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.csv", "\ufefftext,label\r\nZoë,1\r\n"),
        ("r.jsonl", '\ufeff{"text": "Zoë", "label": 1}\n'),
        ("r.json", '\ufeff[{"text": "Zoë", "label": 1}]'),
    ],
)
def test_read_file_drops_byte_order_mark(tmp_path: Path, name: str, content: str) -> None:
    """Spreadsheets write one, and the first column would not be found."""
    assert texts_of(read_bytes(tmp_path / name, content.encode())) == ["Zoë"]


def test_read_file_json_text_may_hold_line_separators(tmp_path: Path) -> None:
    """U+2028 and U+0085 are legal there; Python's splitlines cuts at them."""
    text = "one\u2028two\x85three"
    content = json.dumps({"text": text, "label": "a"}, ensure_ascii=False)
    assert texts_of(read_bytes(tmp_path / "r.jsonl", content.encode())) == [text]


def test_read_file_csv_field_may_be_long(tmp_path: Path) -> None:
    """The csv module's own limit is 128 KiB, and it is the whole process's."""
    limit = csv.field_size_limit()
    text = "word " * 40_000
    assert len(text) > limit, "the premise: longer than the limit"
    assert texts_of(read(write_csv(tmp_path / "r.csv", [{"text": text, "label": 1}]))) == [text]
    assert csv.field_size_limit() == limit


def test_read_file_ignores_blank_lines_at_the_end(tmp_path: Path) -> None:
    """Editors leave them there."""
    assert read_bytes(tmp_path / "r.csv", b"text,label\na,1\n\n\n").num_rows == 1
    assert read_bytes(tmp_path / "r.jsonl", b'{"text": "a", "label": 1}\n\n \n').num_rows == 1


def test_read_file_keeps_only_wanted_columns(tmp_path: Path) -> None:
    """They may be large, and their types are nobody's business."""
    rows = [{"text": "a", "other": 1}, {"text": "b", "other": [{}]}]
    split = read(write_jsonl(tmp_path / "r.jsonl", rows))
    assert split.columns == {"text": ["a", "b"]}
    assert split.column_names == ["text", "other"]


def test_read_file_turns_class_ids_into_names(tmp_path: Path) -> None:
    """Splits may number the same names differently; -1 stands for no label."""
    named = ClassLabel(names=["no", "yes"])
    rows = Dataset.from_dict(
        {"text": ["a", "b", "c"], "label": [1, -1, None], "tags": [[0, 1], [], None]},
        features=Features({"text": Value("string"), "label": named, "tags": List(named)}),
    )
    rows.to_parquet(tmp_path / "r.parquet")
    split = read(tmp_path / "r.parquet", ("text", "label", "tags"))
    assert split.columns["label"] == ["yes", None, None]
    assert split.columns["tags"] == [["no", "yes"], [], None]
    assert split.class_names == {"label": ("no", "yes"), "tags": ("no", "yes")}


GOOD_CSV = b"text,label\na,1\n"


BROKEN = {
    "unknown ending": (
        "r.txt",
        b"a",
        r"r.txt' has an unknown ending; allowed are .csv, .tsv, .json,",
    ),
    "long row": (
        "r.csv",
        GOOD_CSV + b"b,1,2\n",
        "in line 3 has 3 fields and the header 2; a field",
    ),
    "short row": ("r.csv", GOOD_CSV + b"b\n", "in line 3 has 1 fields and the header 2"),
    "blank line": ("r.csv", GOOD_CSV + b"\nb,1\n", "line 3 is blank; only the last ones may be"),
    "one name twice": ("r.csv", b"text,text\na,1\n", r"a column twice: \['text', 'text'\]"),
    "open quote": ("r.csv", GOOD_CSV + b'"b,1\n', "line 3: unexpected end of data; quotes inside"),
    "loose quote": (
        "r.tsv",
        b'text\tlabel\n"a" b\t1\n',
        "line 2: .*expected after.*; quotes inside",
    ),
    "open string": (
        "r.jsonl",
        b'{"a": 1}\n\n{"a": "b}\n',
        "line 3, character 10: Invalid .*; a JSON",
    ),
    "spread object": (
        "r.json",
        b'{"a":\n1}',
        "line 2, character 1: Expecting value; a JS",
    ),
    "bad array": (
        "r.json",
        b'[{"a": 1},\n{"a"}]',
        "line 2, character 5: Expecting ':'",
    ),
    "no object": ("r.jsonl", b'{"a": 1}\n"b"\n', "line 2: a row of type str; it must be an object"),
    "no objects": ("r.json", b"[1]", "line 1: a row of type int; it must be an object"),
    "latin-1": ("r.csv", "text\nZoë\n".encode("latin-1"), "'utf-8' codec .*; save it as UTF-8"),
    "not packed": (
        "r.csv.gz",
        GOOD_CSV,
        "cannot read .*: Not a gzipped file .*; is the file complete",
    ),
    "torn gzip": (
        "r.csv.gz",
        gzip.compress(GOOD_CSV)[:-9],
        "cannot read .*ended before the end-of-stream",
    ),
    "bad gzip": (
        "r.csv.gz",
        gzip.compress(GOOD_CSV)[:10] + b"\xff" * 9,
        "cannot read .*Error -3",
    ),
    "torn parquet": ("r.parquet", b"PAR1 and no more", "cannot read .*r.parquet': .*[Pp]arquet"),
}


@pytest.mark.parametrize(("name", "content", "message"), BROKEN.values(), ids=BROKEN)
def test_read_file_names_line_of_broken_file(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    """A reader that skips, shifts or fills up teaches a model what nobody wrote."""
    with pytest.raises(ValueError, match=message) as caught:
        read_bytes(tmp_path / name, content)
    assert str(tmp_path / name) in str(caught.value)


def test_read_file_missing_file_is_named(tmp_path: Path) -> None:
    """Python's own error says it well."""
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        read(tmp_path / "nowhere.csv")


def test_read_splits_puts_train_first(tmp_path: Path) -> None:
    """The first split is the one to learn the labels from."""
    path = write_jsonl(tmp_path / "r.jsonl", REVIEWS)
    splits = read_splits(DataArguments(test_file=path, validation_file=path, train_file=path))
    assert [split.name for split in splits] == ["train", "validation", "test"]


def test_read_splits_needs_either_dataset_or_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--dataset_name is None and the files are \{\}; give"):
        read_splits(DataArguments())
    with pytest.raises(ValueError, match=r"--dataset_name is 'some/set' and the files are \{'tr"):
        read_splits(DataArguments(dataset_name="some/set", train_file=tmp_path / "r.jsonl"))


def test_read_splits_local_folder_is_a_dataset(tmp_path: Path) -> None:
    """It loads as its copy on the Hub would; the record keeps the folder's name only."""
    folder = tmp_path / "reviews"
    folder.mkdir()
    write_jsonl(folder / "train.jsonl", REVIEWS)
    write_jsonl(folder / "test.jsonl", REVIEWS[:1])
    cache = tmp_path / "cache"
    splits = read_splits(DataArguments(dataset_name=str(folder), cache_dir=str(cache)))
    assert [(split.name, split.num_rows) for split in splits] == [("train", 4), ("test", 1)]
    assert splits[0].source == {"dataset": "reviews", "config": None, "revision": None}
    assert splits[1].title == "the test split of reviews"
    assert not cache.exists(), "what is here already needs no copy"


def test_read_splits_records_commit_of_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch moves on; the record must say which rows it was."""
    url = f"hf://datasets/some/set@{COMMIT}/data/train.parquet"
    asked: dict[str, Any] = {}

    def load_dataset(path: str, **options: Any) -> DatasetDict:
        asked.update(options, path=path)
        rows = Dataset.from_list(REVIEWS)
        rows.info.download_checksums = {url: {"num_bytes": 1, "checksum": None}}
        return DatasetDict(train=rows, validation=Dataset.from_list(REVIEWS), extra=rows)

    monkeypatch.setattr(files, "load_dataset", load_dataset)
    hub = {"revision": "main", "cache_dir": "c", "token": "t"}
    arguments = DataArguments(
        dataset_name="some/set",
        dataset_config_name="en",
        dataset_revision="main",
        cache_dir="c",
        token="t",
    )
    splits = read_splits(arguments)
    assert [split.source["revision"] for split in splits] == [COMMIT, "main"]
    assert splits[0].source == {"dataset": "some/set", "config": "en", "revision": COMMIT}
    assert asked == {"path": "some/set", "name": "en", **hub}, "no remote code is asked for"


def test_read_splits_refuses_dataset_without_known_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some have splits of other names only; guessing which one is meant would be wrong."""
    splits = DatasetDict(unsupervised=Dataset.from_list(REVIEWS))
    monkeypatch.setattr(files, "load_dataset", lambda *_, **__: splits)
    with pytest.raises(ValueError, match="has the splits 'unsupervised', but none of 'train'"):
        read_splits(DataArguments(dataset_name="some/set"))
