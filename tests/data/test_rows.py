"""From sources to the splits of a task: columns, labels, and errors about bad rows."""

import multiprocessing
import resource
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, Features, Value, load_from_disk
from rows import PAIRS, REVIEWS, write_csv, write_jsonl
from transformers import TokenizersBackend

from sase_hf import build_tokenizer
from sase_hf.data.arguments import DataArguments, PairArguments
from sase_hf.data.encoding import encode_rows
from sase_hf.data.labels import MULTI_LABEL
from sase_hf.data.rows import Rows, load_pairs, load_rows
from sase_hf.data.table import scratch_file


def load(**fields: Any) -> Rows:
    return load_rows(DataArguments(**fields))


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "reviews.jsonl", REVIEWS)


@pytest.fixture
def tokenizer() -> TokenizersBackend:
    return build_tokenizer(row["text"] for row in REVIEWS)


def load_written(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Rows:
    return load(train_file=write_jsonl(folder / "rows.jsonl", rows), **options)


def labelled(labels: Sequence[Any]) -> list[dict[str, Any]]:
    return [{"text": f"text {number}", "label": label} for number, label in enumerate(labels)]


def labels_of(task: Rows, split: str = "train") -> list[Any]:
    return task.splits[split]["label"][:]


def test_load_rows_splits_share_the_ids_of_the_train_split(tmp_path: Path, reviews: Path) -> None:
    """The ids do not depend on the format or order of a split, nor on a limit on its rows."""
    task = load(
        train_file=reviews,
        validation_file=write_csv(tmp_path / "dev.csv", REVIEWS[1::-1]),
        test_file=write_csv(tmp_path / "test.tsv.gz", REVIEWS[2:], "\t"),
        max_train_samples=3,
        max_eval_samples=1,
        max_predict_samples=99,
    )
    assert task.label_names == ("bad", "fair", "good")
    assert [labels_of(task, name) for name in task.splits] == [[0, 2, 1], [2], [1, 0]]


def write_classes(path: Path, ids: list[int], names: list[str]) -> Path:
    """Write rows with class ids and their names, as datasets of the Hub have them."""
    features = Features({"text": Value("string"), "label": ClassLabel(names=names)})
    Dataset.from_list(labelled(ids), features=features).to_parquet(path)
    return path


def test_load_rows_matches_class_ids_by_name_between_splits(tmp_path: Path) -> None:
    """Two files may number the same classes differently; -1 is no label, as in SNLI."""
    train = write_classes(tmp_path / "train.parquet", [0, 1, -1], ["no", "yes", "maybe"])
    dev = write_classes(tmp_path / "dev.parquet", [0, 1], ["yes", "no"])
    test = write_classes(tmp_path / "test.parquet", [-1, -1], ["yes", "no"])
    task = load(train_file=train, validation_file=dev, test_file=test)
    assert task.label_names == ("no", "yes", "maybe"), "the dataset's order, with unused names"
    assert (labels_of(task), labels_of(task, "validation")) == ([0, 1], [1, 0])
    assert task.sources["train"]["left_out"] == 1
    assert task.splits["test"].column_names == ["text"], "labels that are secret"
    assert load(validation_file=dev).label_names == ("yes", "no"), "they need no train split"


@pytest.mark.parametrize("columns", ["label", "fun,sad", "sad,fun"])
def test_load_rows_reads_several_labels_of_a_csv(columns: str, tmp_path: Path) -> None:
    """With a separator, or as columns in the order of the flag: the same labels."""
    tags = ["fun;sad", "sad", ""]
    rows = [
        {"text": "a", "label": row, "fun": int("f" in row), "sad": int("s" in row)} for row in tags
    ]
    path = write_csv(tmp_path / "a.csv", rows)
    flags = {"label_column_name": columns, "label_separator": ";" if columns == "label" else None}
    task = load(train_file=path, validation_file=path, **flags)
    names = ("sad", "fun") if columns == "sad,fun" else ("fun", "sad")
    assert (task.kind, task.label_names) == (MULTI_LABEL, names)
    expected = [[float(name in row) for name in names] for row in tags]
    assert labels_of(task) == labels_of(task, "validation") == expected
    new = write_csv(tmp_path / "new.csv", [{"text": "a", "label": "", "fun": "", "sad": ""}])
    task = load(train_file=path, test_file=new, **flags)
    assert task.splits["test"].column_names == ["text"], "rows to predict have no labels"


def test_load_rows_columns_of_labels_in_the_order_of_a_checkpoint(tmp_path: Path) -> None:
    """A file of rows to predict need not have them."""
    rows = [{"text": "a", "x": "1", "y": "0"}, {"text": "b", "x": "", "y": "0"}]
    path, new = write_csv(tmp_path / "a.csv", rows), write_csv(tmp_path / "b.csv", [{"text": "a"}])
    options = {"label_column_name": "y,x", "label_names": ["y", "x"]}
    task = load(validation_file=path, test_file=new, **options)
    assert labels_of(task, "validation") == [[0.0, 1.0]], "a row that lacks one has no label"
    assert task.splits["test"].column_names == ["text"]
    with pytest.raises(ValueError, match=r"columns .'x', 'y'.*in the order of the labels"):
        load(validation_file=path, **{**options, "label_column_name": "x,y"})
    write_csv(path, [*rows[:1], {**rows[0], "y": "yes"}])
    with pytest.raises(ValueError, match=r"row 3 of the sheet .*a\.csv, column 'y,x': \('yes', '1"):
        load(validation_file=path, **options)


@pytest.mark.parametrize("row", [{}, {"label": None}, {"label": "-"}], ids=str)
def test_load_rows_to_predict_need_no_label(
    tmp_path: Path, reviews: Path, row: dict[str, Any]
) -> None:
    """The column may be missing."""
    test = write_jsonl(tmp_path / "test.jsonl", [{"text": "a", **row}])
    task = load(train_file=reviews, test_file=test)
    assert task.splits["test"].column_names == ["text"]


@pytest.mark.parametrize(
    ("flags", "cells", "names", "expected"),
    [
        ({"label_names": ["no", "yes"]}, ["yes", "no"], ("no", "yes"), [1, 0]),
        ({"problem_type": "regression"}, [4.5, -1], ("score",), [4.5, -1.0]),
    ],
)
def test_load_rows_without_a_train_split_take_the_names_of_a_checkpoint(
    flags: dict[str, Any], cells: list[Any], names: Any, expected: list[Any], tmp_path: Path
) -> None:
    """A regression needs none."""
    rows = write_jsonl(tmp_path / "dev.jsonl", labelled(cells))
    task = load(validation_file=rows, **flags)
    assert (task.label_names, labels_of(task, "validation")) == (names, expected)
    test = write_jsonl(tmp_path / "test.jsonl", [{"text": "a"}])
    assert load(test_file=test, **flags).label_names == names


BAD = [{"text": "", "label": "good"}, {"text": "x", "label": None}, {"text": "y", "label": "-"}]


def test_load_rows_leaves_out_and_counts_rows_without_a_text_or_a_label(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SNLI has such rows, with "-"."""
    task = load_written(tmp_path, [*BAD, *REVIEWS])
    assert task.splits["train"]["text"][:] == [row["text"] for row in REVIEWS]
    source = task.sources["train"]
    assert source.keys() == {"file", "sha256", "rows", "left_out"}
    assert (source["file"], source["rows"], source["left_out"]) == ("rows.jsonl", 4, 3)
    assert "3 of 7 rows of" in caplog.text
    assert caplog.text.rstrip().endswith("are left out; the first: 0, 1, 2")
    with pytest.raises(ValueError, match=r"3 of 5 rows of .*rows.jsonl have no text or no label"):
        load_written(tmp_path, [*BAD, *REVIEWS[:2]])


def test_test_table_has_all_columns_of_the_rows_that_are_read(
    tmp_path: Path, reviews: Path
) -> None:
    """A prediction is written beside the row that it is for, whichever are left out before it."""
    rows = [{**row, "id": number} for number, row in enumerate((*BAD, *REVIEWS))]
    test = write_jsonl(tmp_path / "test.jsonl", rows)
    task = load(train_file=reviews, test_file=test, max_predict_samples=3)
    assert task.splits["test"]["text"][:] == [row["text"] for row in REVIEWS[:3]]
    assert task.test_table is not None
    assert task.test_table.to_list() == rows[3:6]
    assert load(train_file=reviews).test_table is None


def test_load_rows_minus_is_a_class_by_name(tmp_path: Path) -> None:
    """Elsewhere it is no label, as in SNLI."""
    assert load_written(tmp_path, labelled("ox-")).sources["train"]["left_out"] == 1
    task = load_written(tmp_path, labelled("ox-"), label_names=["o", "-", "x"])
    assert labels_of(task) == [0, 2, 1]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("title+body", {"text": ["A\nb", "D", "e"]}),
        ("body+title", {"text": ["b\nA", "D", "e"]}),
        ("Title + body, id", {"text": ["A\nb", "D", "e"], "text_pair": ["x", "y", "z"]}),
        ("one+two", {"text": ["p", "q", "r"]}),
    ],
)
def test_load_rows_joins_columns_into_one_text(
    columns: str, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    """A part may be empty, but not all. A column of the whole name comes first."""
    names = ("title", "body", "id", "one+two", "label")
    cells = [("A", "b", "x", "p", "1"), ("D", "", "y", "q", "2"), (None, "e", "z", "r", "1")]
    rows = [dict(zip(names, row, strict=True)) for row in cells]
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    train = load(train_file=path, text_column_names=[columns]).splits["train"]
    assert {name: train[name][:] for name in expected} == expected


def test_load_rows_shuffles_by_seed_before_the_limit(tmp_path: Path) -> None:
    """Files are often sorted by label; the first rows would then be of one label only."""
    first, again, other, unshuffled = (
        load_written(tmp_path, labelled("ab" * 50), shuffle_seed=seed, max_train_samples=20)
        for seed in (1, 1, 2, None)
    )
    texts = [row["text"] for row in labelled("a" * 20)]
    assert unshuffled.splits["train"]["text"][:] == texts
    assert first.splits["train"].to_list() == again.splits["train"].to_list()
    assert first.splits["train"]["text"][:] not in (texts, other.splits["train"]["text"][:])


@pytest.mark.parametrize("labels", ["abcdefghij", [i / 2 for i in range(10)], [["a"]] * 10])
def test_load_rows_validation_fraction_is_that_of_the_rows(labels: Any, tmp_path: Path) -> None:
    splits = load_written(tmp_path, labelled(labels), validation_fraction=0.3).splits
    assert [split.num_rows for split in splits.values()] == [7, 3]


@pytest.mark.parametrize(
    ("labels", "picked"),
    [("baaaa" * 4, [3, 5, 6, 7, 9]), ([["a"]] * 20, [0, 1, 3, 6, 18])],
    ids=["single", "several"],
)
def test_load_rows_holds_out_the_rows_of_earlier_records(
    labels: Any, picked: list[int], tmp_path: Path
) -> None:
    """The same seed gives the same rows, and the record says so."""
    rows = [{"text": str(number), "label": label} for number, label in enumerate(labels)]
    task = load_written(tmp_path, rows, validation_fraction=0.25)
    assert [*map(int, task.splits["validation"]["text"])] == picked
    assert {*map(int, task.splits["train"]["text"])} == {*range(20)} - {*picked}
    source = task.sources["validation"]
    assert (source["file"], source["split_off"], source["rows"]) == ("rows.jsonl", 0.25, 5)
    other = load_written(tmp_path, rows, validation_fraction=0.25, shuffle_seed=1)
    assert [*map(int, other.splits["validation"]["text"])] != picked


@pytest.mark.parametrize(
    "held_out", [{"validation_file": "rows.jsonl"}, {"validation_fraction": 0.5}]
)
def test_load_rows_of_soft_labels_validates_with_the_most_probable_class(
    held_out: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only train rows have probabilities to learn; accuracy needs one class a row."""
    monkeypatch.chdir(tmp_path)
    shares = {"no": [0.7, 0.3], "yes": [0.2, 0.8]}
    rows = [
        {"text": f"{text} {n}", "no": no, "yes": yes}
        for n in range(4)
        for text, (no, yes) in shares.items()
    ]
    task = load_written(tmp_path, rows, label_column_name="no,yes", **held_out)
    encoded = encode_rows(task, build_tokenizer(row["text"] for row in rows))
    said = {
        name: [text.split()[0] for text in split["text"]] for name, split in task.splits.items()
    }
    assert encoded["train"]["labels"][:] == [shares[text] for text in said["train"]]
    assert encoded["validation"]["labels"][:] == [int(text == "yes") for text in said["validation"]]


def test_load_rows_validation_fraction_keeps_equal_texts_together(tmp_path: Path) -> None:
    """Accuracy on texts that were trained on says nothing about new ones."""
    counts = [1] * 60 + [2] * 30 + [5] * 15 + [30]
    rows = [
        {"text": f"text {index}", "label": "abc"[index % 3]}
        for index, count in enumerate(counts)
        for _ in range(count)
    ]
    train, validation = load_written(tmp_path, rows, validation_fraction=0.2).splits.values()
    of_text = Counter(validation["text"])
    assert Counter(train["text"]) + of_text == Counter(row["text"] for row in rows)
    assert of_text.keys().isdisjoint(train["text"])
    assert Counter(validation["label"]) == {0: 19, 1: 13, 2: 13}, "a fifth of each"
    assert Counter(of_text.values()) == {1: 11, 2: 7, 5: 4}, "frequent texts as well as rare ones"


def test_load_rows_validation_fraction_may_part_pairs_with_one_equal_text(tmp_path: Path) -> None:
    """A premise has several hypotheses; pairs of equal texts stay together."""
    rows = [{"text": f"{i // 4}", "text_pair": f"{i // 2}", "label": i % 2} for i in range(40)]
    splits = load_written(tmp_path, rows, validation_fraction=0.5).splits.values()
    assert set.intersection(*(set(split["text"]) for split in splits))
    assert not set.intersection(*(set(split["text_pair"]) for split in splits))


def test_load_rows_and_encode_rows_leave_nothing_beside_the_rows_of_a_user(
    tmp_path: Path, reviews: Path, tokenizer: TokenizersBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of somebody's data is in a folder that ends with the process, and nowhere else."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    test = tmp_path / "test.parquet"
    Dataset.from_list(REVIEWS).to_parquet(test)
    load(train_file=reviews).splits.save_to_disk(tmp_path / "mine")
    before = set(tmp_path.rglob("*"))
    task = load(train_file=reviews, test_file=test, validation_fraction=0.5, shuffle_seed=1)
    rows = encode_rows(task, tokenizer)
    mine = encode_rows(replace(task, splits=load_from_disk(tmp_path / "mine")), tokenizer)
    assert mine["train"]["input_ids"][:] == [tokenizer(row["text"]).input_ids for row in REVIEWS]
    assert set(tmp_path.rglob("*")) == before
    folder = Path(scratch_file()).parent
    for split in (*task.splits.values(), *rows.values()):
        assert {Path(file["filename"]).parent for file in split.cache_files} == {folder}


def test_load_rows_in_forks_reads_the_rows_of_each(tmp_path: Path) -> None:
    """As processes that a notebook launches: they have inherited the folder of the rows."""
    paths = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for path in paths:
        write_jsonl(path, [{"text": path.stem, "label": label} for label in "yn"])
    load(train_file=paths[0])
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(_first_text, paths, chunksize=1) == ["a", "b", "c"]


def _first_text(path: Path) -> str:
    task = load(train_file=path)
    time.sleep(0.2)  # until the others have read, too
    return str(task.splits["train"][0]["text"])


def test_load_rows_says_that_the_disk_is_full(tmp_path: Path, tokenizer: TokenizersBackend) -> None:
    """A limit on the size of files stands for a full disk; the folder can be another one."""
    path = write_jsonl(tmp_path / "rows.jsonl", REVIEWS * 100)
    task = load(train_file=path)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, usual[1]))
    try:
        for write in (lambda: load(train_file=path), lambda: encode_rows(task, tokenizer)):
            with pytest.raises(OSError, match=r"rows do not fit into .*; free space"):
                write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, r"dev\.jsonl has no rows"),
        ([{"text": "a"}], {}, r"dev\.jsonl has no column 'label'; it has 'text'"),
        ([{"text": 5, "label": "bad"}], {}, r"column 'text' of .*dev\.jsonl holds .* int64"),
        ([{"text": "a", "label": "-"}], {}, r"1 of 1 rows of .*dev\.jsonl have no text or no"),
        (labelled(["bad", "great"]), {}, r"row 1 \(counted from 0\) .*'label': 'great' is not one"),
        (REVIEWS, {"train_file": None}, "--label_names"),
        (REVIEWS, {"max_train_samples": 0}, "max_train_samples is 0"),
        (REVIEWS, {"validation_fraction": 1.5}, "validation_fraction is 1.5"),
    ],
    ids=str,
)
def test_load_rows_refuses_a_bad_validation_split(
    tmp_path: Path, reviews: Path, rows: list[Any], options: dict[str, Any], message: str
) -> None:
    """A bad row by its file, its number and its column."""
    dev = write_jsonl(tmp_path / "dev.jsonl", rows)
    files = {"train_file": reviews, "validation_file": dev}
    with pytest.raises(ValueError, match=message):
        load(**{**files, **options})


@pytest.mark.parametrize("fraction", [0.2, 0.6])
def test_load_rows_refuses_to_hold_out_all_rows_or_none(fraction: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{fraction} of 4 train rows leaves none"):
        load_written(
            tmp_path, [REVIEWS[0]] * 4, validation_fraction=fraction, label_names=["bad", "x"]
        )


@pytest.mark.parametrize(
    ("pattern", "warning"),
    [
        ("I liked it.\n\nSent from my phone", "have the line 'Sent from my phone'"),
        ("I liked it.<br />{}", "hold tags of HTML"),
        ('<p class="x">{}</p>', "hold tags of HTML"),
        ("I <3 it, 2 < {} > 1, List<String>", ""),
        ("Dear shop,\nI bought {}.", ""),
    ],
)
def test_load_rows_warns_of_markup(
    pattern: str, warning: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tags, and a line that nearly all texts have, as signatures are; a greeting is none."""
    rows = [{"text": f"{pattern.format(n)}", "label": "ab"[n % 2]} for n in range(20)]
    load_written(tmp_path, rows[:1] + labelled("ab" * 20))
    assert "of the first" not in caplog.text, "a few of the texts have it"
    load_written(tmp_path, rows)
    assert warning in caplog.text
    assert bool(warning) == ("of the first" in caplog.text)


def test_load_rows_of_pairs_have_standard_columns(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "pairs.jsonl", [{**row, "id": 7} for row in PAIRS])
    train = load(train_file=path, label_column_name="gold").splits["train"]
    feature = ClassLabel(names=["contradiction", "entailment", "neutral"])
    assert train.features["label"] == feature
    assert train.to_list() == [
        {"text": premise, "text_pair": hypothesis, "label": feature.str2int(gold), "row": number}
        for number, (premise, hypothesis, gold) in enumerate(map(dict.values, PAIRS))
    ]


@pytest.mark.parametrize(("write", "first"), [(write_csv, 2), (write_jsonl, 0)])
def test_load_rows_training_rows_know_their_number(write: Any, first: int, tmp_path: Path) -> None:
    """As a spreadsheet counts those of a CSV file, whatever was left out, split off, shuffled."""
    rows = labelled(["ab"[n % 2] if n % 5 else "" for n in range(20)])
    path = write(tmp_path / ("rows.csv" if first else "rows.jsonl"), rows)
    options = {"validation_fraction": 0.25, "shuffle_seed": 1}
    train = load(train_file=path, **options).splits["train"]
    expected = [int(text.split()[1]) + first for text in train["text"]]
    assert train["row"][:] == expected != sorted(expected)


def test_load_rows_reads_rows_in_memory_as_those_of_a_file(tmp_path: Path) -> None:
    rows = [*REVIEWS, *REVIEWS]
    of_file = load_written(tmp_path, rows)

    def load_memory() -> Rows:
        return load_rows(DataArguments(), in_memory={"train": Dataset.from_list(rows)})

    of_memory = load_memory()
    assert of_memory.splits["train"].to_list() == of_file.splits["train"].to_list()
    assert of_memory.labels.names == of_file.labels.names
    source = of_memory.sources["train"]
    assert (source["dataset"], source["rows"]) == ("rows in memory", 8)
    assert load_memory().sources == of_memory.sources
    rows[2] = {"text": None, "label": "bad"}
    assert load_memory().sources["train"]["left_out"] == 1


def test_load_pairs_both_ways_counts_a_row_and_its_words_once(tmp_path: Path) -> None:
    """A flag on rows means those of the file, and a word that one row has stays a rare one."""
    rows = [{"a": f"dog {number}", "b": f"chien {number}"} for number in range(9)]
    files = PairArguments(
        train_file=str(write_jsonl(tmp_path / "t.jsonl", rows)),
        text_column_names=["a", "b"],
        max_train_samples=4,
        shuffle_seed=0,
    )
    both = load_pairs(files, both_directions=True)
    read = list(zip(both.splits["train"]["text"], both.splits["train"]["text_pair"], strict=True))
    once = load_pairs(files).splits["train"]
    assert read[::2] == list(zip(once["text"], once["text_pair"], strict=True))
    assert read[1::2] == [(second, first) for first, second in read[::2]]
    assert sorted(both.texts_to_learn_from()) == sorted([*once["text"], *once["text_pair"]])
