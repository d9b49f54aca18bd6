"""From sources to the splits of a task: columns, labels, and errors about bad rows."""

import multiprocessing
import re
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
from sase_hf.data.batching import encode_rows
from sase_hf.data.columns import DataArguments
from sase_hf.data.rows import Rows, load_rows
from sase_hf.data.table import TEXT_COLUMNS, present
from sase_hf.utils.files import scratch_file


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
    dev = write_csv(tmp_path / "dev.csv", REVIEWS[1::-1])
    test = write_csv(tmp_path / "test.tsv.gz", REVIEWS[2:], "\t")
    limits = {"max_train_samples": 3, "max_eval_samples": 1, "max_predict_samples": 99}
    task = load(train_file=reviews, validation_file=dev, test_file=test, **limits)
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
    task = load(train_file=train, validation_file=dev)
    assert task.label_names == ("no", "yes", "maybe"), "the dataset's order, with unused names"
    assert (labels_of(task), labels_of(task, "validation")) == ([0, 1], [1, 0])


TAGS = {"label": ["fun;sad", "sad", ""], "fun": [1, 0, 0], "sad": [1, 1, 0]}


@pytest.mark.parametrize(
    ("columns", "flags", "names", "labels"),
    [
        ({"label": ["yes", "no"]}, {"label_names": ["yes", "no"]}, "yes,no", [0, 1]),
        ({"label": [4.5, -1]}, {"problem_type": "regression"}, "score", [4.5, -1.0]),
        # - is no label, as in SNLI.
        ({"label": ["o", "x", "-"]}, {}, "o,x", [0, 1]),
        # Several labels, with a separator, or as columns in the order of the flag.
        (TAGS, {"label_separator": ";"}, "fun,sad", [[1, 1], [0, 1], [0, 0]]),
        (TAGS, {"label_column_name": "fun,sad"}, "fun,sad", [[1, 1], [0, 1], [0, 0]]),
        (TAGS, {"label_column_name": "sad,fun"}, "sad,fun", [[1, 1], [1, 0], [0, 0]]),
        # A row that lacks one of them has no label.
        ({"x": [1, None], "y": [0, 0]}, {"label_column_name": "y,x"}, "y,x", [[0, 1]]),
    ],
    ids=str,
)
def test_load_rows_encodes_labels_by_those_of_the_train_rows_or_of_a_checkpoint(
    columns: dict[str, Any], flags: dict[str, Any], names: str, labels: list[Any], tmp_path: Path
) -> None:
    texts = list("abc")[: len(next(iter(columns.values())))]
    path = write_csv(tmp_path / "a.csv", Dataset.from_dict({"text": texts, **columns}).to_list())
    task = load(train_file=path, **flags)
    assert (",".join(task.label_names), labels_of(task)) == (names, labels)
    known = {**flags, "problem_type": task.kind, "label_names": names.split(",")}
    assert labels_of(load(validation_file=path, **known), "validation") == labels
    new = write_csv(tmp_path / "new.csv", [{"text": "a"}])
    assert load(test_file=new, **known).splits["test"].column_names == ["text"]


@pytest.mark.parametrize("row", [{}, {"label": None}, {"label": "-"}, {"label": ""}], ids=str)
def test_load_rows_to_predict_need_no_label(
    row: dict[str, Any], tmp_path: Path, reviews: Path
) -> None:
    test = write_jsonl(tmp_path / "test.jsonl", [{"text": "a", **row}])
    assert load(train_file=reviews, test_file=test).splits["test"].column_names == ["text"]


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
    assert re.search("rows.jsonl: 3 of 7 rows .*: .0, 1, 2.$", caplog.text.strip())
    with pytest.raises(ValueError, match=r"rows.jsonl: 3 of 5 rows have no text or no label"):
        load_written(tmp_path, [*BAD, *REVIEWS[:2]])


def test_test_table_has_all_columns_of_the_rows_that_are_read(
    tmp_path: Path, reviews: Path
) -> None:
    """A prediction is written beside the row that it is for, whichever are left out before it."""
    rows = [{**row, "id": number} for number, row in enumerate((*BAD, *REVIEWS))]
    test = write_jsonl(tmp_path / "test.jsonl", rows)
    task = load(train_file=reviews, test_file=test, max_predict_samples=3)
    texts = [row["text"] for row in REVIEWS[:3]]
    assert task.test_table is not None
    assert (task.splits["test"]["text"][:], task.test_table.to_list()) == (texts, rows[3:])


@pytest.mark.parametrize(
    ("columns", "texts"),
    [
        ("title+body", [("A\nb", "D", "e")]),
        ("body+title", [("b\nA", "D", "e")]),
        ("title + body, id", [("A\nb", "D", "e"), ("x", "y", "z")]),
        ("one+two", [("p", "q", "r", "s")]),
    ],
)
def test_load_rows_joins_columns_into_one_text(
    columns: str, texts: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """A part may be empty, but not all. A column of the whole name comes first."""
    table = {"title": ["A", "D", None, None], "body": ["b", "", "e", None], "id": [*"xyzw"]}
    table |= {"one+two": [*"pqrs"], "label": ["1", "2", "1", "2"]}
    path = write_jsonl(tmp_path / "a.jsonl", Dataset.from_dict(table).to_list())
    train = load(train_file=path, text_column_names=[columns]).splits["train"]
    assert [tuple(train[name]) for name in present(TEXT_COLUMNS, train)] == texts


def test_load_rows_shuffles_by_seed_before_the_limit(tmp_path: Path) -> None:
    """Files are often sorted by label; the first rows would then be of one label only."""
    rows = labelled("ab" * 50)
    first, again, other, unshuffled = (
        load_written(tmp_path, rows, shuffle_seed=seed, max_train_samples=20).splits["train"]["row"]
        for seed in (1, 1, 2, None)
    )
    assert unshuffled[:] == [*range(20)]
    assert first[:] == again[:]
    assert first[:] not in (unshuffled[:], other[:])


@pytest.mark.parametrize(
    ("labels", "picked"),
    [
        ("baaaa" * 4, [3, 5, 6, 7, 9]),
        ([["a"]] * 20, [0, 1, 3, 6, 18]),
        ([n % 4 + 0.5 for n in range(20)], [5, 6, 7, 8, 14]),
        ("abcdefghi" + "j" * 11, [2, 6, 9, 12, 13]),
    ],
    ids=["single", "several", "numbers", "each once"],
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
    shares = [[0.7, 0.3], [0.2, 0.8]] * 4
    rows = [{"text": str(n), "a": a, "b": b} for n, (a, b) in enumerate(shares)]
    task = load_written(tmp_path, rows, label_column_name="a,b", **held_out)
    encoded = encode_rows(task, build_tokenizer(["a text"]))
    train, validation = (map(int, split["text"]) for split in task.splits.values())
    assert encoded["train"]["labels"][:] == [shares[row] for row in train]
    assert encoded["validation"]["labels"][:] == [row % 2 for row in validation]


def test_load_rows_validation_fraction_keeps_equal_texts_together(tmp_path: Path) -> None:
    """Accuracy on texts that were trained on says nothing about new ones."""
    counts = [1] * 60 + [2] * 30 + [5] * 15 + [30]
    rows = []
    for index, count in enumerate(counts):
        rows += [{"text": f"text {index}", "label": "abc"[index % 3]}] * count
    train, validation = load_written(tmp_path, rows, validation_fraction=0.2).splits.values()
    of_text = Counter(validation["text"])
    assert of_text.keys().isdisjoint(train["text"])
    assert Counter(validation["label"]) == {0: 19, 1: 13, 2: 13}, "a fifth of each"
    assert Counter(of_text.values()) == {1: 11, 2: 7, 5: 4}, "frequent texts as well as rare ones"


def test_load_rows_validation_fraction_may_part_pairs_with_one_equal_text(tmp_path: Path) -> None:
    """A premise has several hypotheses; pairs of equal texts stay together."""
    rows = [{"text": f"{n // 4}", "text_pair": f"{n // 2}", "label": n % 2} for n in range(40)]
    train, validation = load_written(tmp_path, rows, validation_fraction=0.5).splits.values()
    assert {*train["text"]} & {*validation["text"]}
    assert {*train["text_pair"]}.isdisjoint(validation["text_pair"])


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
    for split in rows.values():
        assert {Path(file["filename"]).parent for file in split.cache_files} == {folder}


def test_scratch_file_of_each_fork_is_another_one_in_the_same_folder() -> None:
    """As processes that a notebook launches; the folder outlives them."""
    own = scratch_file()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        others = pool.starmap(scratch_file, [()] * 4)
        pool.close()
        pool.join()
    assert len({own, *others}) == 5
    assert {Path(file).parent for file in others} == {Path(own).parent}
    assert Path(own).parent.is_dir()


ALONE = {"train_file": None}
SPLIT = {"train_file": "dev.jsonl", "validation_file": None, "label_names": ["bad", "x"]}
TWO = {**ALONE, "label_column_name": "x,y", "label_names": ["y", "x"]}


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, r"dev\.jsonl: Column name"),
        ([{"text": "a"}], {}, r"dev\.jsonl: Column name \['label'\] not in .*\['text'"),
        ([{"text": 5, "label": "bad"}], {}, r"column 'text' of .*dev\.jsonl holds .*int64"),
        ([{"text": "a", "label": "-"}], {}, r"dev\.jsonl: 1 of 1 rows have no text or no"),
        (labelled(["bad", "great"]), {}, r"row 1 \(counted from 0\), .*'label': 'great' fits no"),
        (REVIEWS, ALONE, "--label_names"),
        (REVIEWS, {"max_train_samples": 0}, "no train rows; raise --max_train_samples"),
        (
            [REVIEWS[0]] * 4,
            {**SPLIT, "validation_fraction": 1.5},
            "no train rows",
        ),
        (
            [REVIEWS[0]] * 4,
            {**SPLIT, "validation_fraction": -0.5},
            "no validation rows",
        ),
        # Rows with one text stay together.
        (
            [REVIEWS[0]] * 4,
            {**SPLIT, "validation_fraction": 0.2},
            "no validation rows",
        ),
        (
            [REVIEWS[0]] * 4,
            {**SPLIT, "validation_fraction": 0.6},
            "no train rows",
        ),
        # Columns of labels.
        ([{"text": "a", "x": "b", "y": 0}], TWO, r"row 0 .*, column 'y,x': \(0, 'b'\)"),
    ],
    ids=str,
)
def test_load_rows_refuses_validation_rows(
    rows: list[Any],
    options: dict[str, Any],
    message: str,
    tmp_path: Path,
    reviews: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bad row by its file, its number and its column."""
    monkeypatch.chdir(tmp_path)
    write_jsonl(Path("dev.jsonl"), rows)
    files = {"train_file": reviews, "validation_file": "dev.jsonl"}
    with pytest.raises(ValueError, match=message):
        load(**{**files, **options})


@pytest.mark.parametrize(
    ("pattern", "warning"),
    [
        ("I liked it.\n\nSent from my phone", "have 'Sent from my phone'"),
        ("I liked it.<br />{}", "have '<br />'"),
        ('<p class="x">{}</p>', "have '</p>'"),
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
    assert "which is read" not in caplog.text, "a few of the texts have it"
    load_written(tmp_path, rows)
    assert warning in caplog.text
    assert bool(warning) == ("which is read" in caplog.text)


def test_load_rows_of_pairs_have_standard_columns(tmp_path: Path) -> None:
    rows = [{**row, "id": 7} for row in PAIRS]
    task = load_written(tmp_path, rows, label_column_name="gold")
    assert task.label_names == ("contradiction", "entailment", "neutral")
    assert [tuple(row.values()) for row in task.splits["train"]] == [
        (premise, hypothesis, task.label_names.index(gold), number)
        for number, (premise, hypothesis, gold) in enumerate(map(dict.values, PAIRS))
    ]


def test_load_rows_training_rows_know_their_number(tmp_path: Path) -> None:
    """Whatever was left out, split off, shuffled."""
    rows = labelled(["ab"[n % 2] if n % 5 else "" for n in range(20)])
    path = write_csv(tmp_path / "rows.csv", rows)
    train = load(train_file=path, validation_fraction=0.25, shuffle_seed=1).splits["train"]
    expected = [int(text.split()[1]) for text in train["text"]]
    assert train["row"][:] == expected != sorted(expected)


def test_load_rows_reads_rows_in_memory_as_those_of_a_file(tmp_path: Path) -> None:
    rows = [*REVIEWS, *REVIEWS, {"text": None, "label": "bad"}]
    of_file = load_written(tmp_path, rows)
    of_memory, again = (
        load_rows(DataArguments(), in_memory={"train": Dataset.from_list(rows)}) for _ in range(2)
    )
    assert of_memory.splits["train"].to_list() == of_file.splits["train"].to_list()
    assert of_memory.labels.names == of_file.labels.names
    assert of_memory.sources == again.sources
    source = of_memory.sources["train"]
    assert (source["dataset"], source["rows"], source["left_out"]) == ("rows in memory", 8, 1)
