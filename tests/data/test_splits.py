"""From files to splits and tokens: columns, labels, and errors about bad rows."""

import multiprocessing
import resource
import signal
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, Features, Value, load_from_disk
from rows import PAIRS, REVIEWS, write_csv, write_jsonl
from tokenizers import Tokenizer, models, processors
from transformers import TokenizersBackend

from sase_hf import build_tokenizer
from sase_hf.data.arguments import DataArguments, PairArguments
from sase_hf.data.sources import scratch_file
from sase_hf.data.splits import Rows, encode_rows, load_pairs, load_rows
from sase_hf.models import checked_model
from sase_hf.models.answers import MULTI_LABEL


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


def test_load_rows_matches_class_ids_by_name_between_splits(tmp_path: Path) -> None:
    """Two files may number the same classes differently, which ids alone would hide."""
    for name, classes in (("train", ["no", "yes", "maybe"]), ("dev", ["yes", "no"])):
        features = Features({"text": Value("string"), "label": ClassLabel(names=classes)})
        rows = {"text": ["a", "b"], "label": [0, 1]}
        Dataset.from_dict(rows, features=features).to_parquet(tmp_path / f"{name}.parquet")
    task = load(train_file=tmp_path / "train.parquet", validation_file=tmp_path / "dev.parquet")
    assert task.label_names == ("no", "yes", "maybe"), "the dataset's order, with unused names"
    assert (labels_of(task), labels_of(task, "validation")) == ([0, 1], [1, 0])
    alone = load(validation_file=tmp_path / "dev.parquet")
    assert alone.label_names == ("yes", "no"), "they need no train split"


TAGS = [["fun", "sad"], ["sad"], []]


@pytest.mark.parametrize(
    ("rows", "flags"),
    [
        ([{"label": ";".join(row)} for row in TAGS], {"label_separator": ";"}),
        (
            [{tag: int(tag in row) for tag in ("fun", "sad")} for row in TAGS],
            {"label_column_name": "fun,sad"},
        ),
        (
            [{tag: int(tag in row) for tag in ("fun", "sad")} for row in TAGS],
            {"label_column_name": "sad,fun"},
        ),
    ],
    ids=["separated", "columns", "columns in another order"],
)
def test_load_rows_reads_several_labels_of_a_csv(
    rows: list[dict[str, Any]], flags: dict[str, str], tmp_path: Path
) -> None:
    """With a separator, or as columns in the order of the flag: the same labels."""
    path = write_csv(tmp_path / "a.csv", [{"text": "a", **row} for row in rows])
    task = load(train_file=path, test_file=path, **flags)
    assert task.kind == MULTI_LABEL
    assert task.label_names == tuple(flags.get("label_column_name", "fun,sad").split(","))
    expected = [[float(name in row) for name in task.label_names] for row in TAGS]
    assert labels_of(task) == labels_of(task, "test") == expected


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
    with pytest.raises(
        ValueError,
        match=r"row 3 of the sheet, line 3 of the file .*a\.csv, column 'y': 'yes' is not a number",
    ):
        load(validation_file=path, **options)


@pytest.mark.parametrize("row", [{}, {"label": None}, {"label": "-"}], ids=str)
def test_load_rows_to_predict_need_no_label(
    tmp_path: Path, reviews: Path, row: dict[str, Any]
) -> None:
    """The column may be missing."""
    test = write_jsonl(tmp_path / "test.jsonl", [{"text": "a", **row}])
    task = load(train_file=reviews, test_file=test)
    assert task.splits["test"].column_names == ["text"]


def test_load_rows_without_a_train_split_take_the_names_of_a_checkpoint(tmp_path: Path) -> None:
    names = ["no", "yes"]
    test = write_jsonl(tmp_path / "test.jsonl", [{"text": "a"}])
    assert load(test_file=test, label_names=names).label_names == ("no", "yes")
    rows = write_jsonl(tmp_path / "dev.jsonl", [{"text": "a", "label": "yes"}])
    assert labels_of(load(validation_file=rows, label_names=names), "validation") == [1]


def test_load_rows_of_a_regression_need_no_train_split(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": 4.5}, {"text": "b", "label": -1}]
    scores = write_jsonl(tmp_path / "dev.jsonl", rows)
    task = load(validation_file=scores, problem_type="regression")
    assert (task.label_names, labels_of(task, "validation")) == (("score",), [4.5, -1.0])


def test_load_rows_leaves_out_and_counts_rows_without_a_text_or_a_label(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SNLI has such rows, with "-"."""
    bad = [{"text": "", "label": "good"}, {"text": "x", "label": None}, {"text": "y", "label": "-"}]
    task = load_written(tmp_path, [*bad, *REVIEWS])
    assert task.splits["train"]["text"][:] == [row["text"] for row in REVIEWS]
    source = task.sources["train"]
    assert source.keys() == {"file", "sha256", "rows", "left_out"}
    assert (source["file"], source["rows"], source["left_out"]) == ("rows.jsonl", 4, 3)
    assert "3 of 7 rows of" in caplog.text
    assert caplog.text.rstrip().endswith("are left out; the first: 0, 1, 2")
    with pytest.raises(ValueError, match=r"3 of 5 rows of .*rows.jsonl have no text or no label"):
        load_written(tmp_path, [*bad, *REVIEWS[:2]])


def test_load_rows_reads_empty_cells_beside_several_labels_as_none_of_them(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": label} for label in ("fun;sad", "", "sad")]
    path = write_csv(tmp_path / "a.csv", rows)
    new = write_csv(tmp_path / "new.csv", [{"text": "a", "label": ""}])
    task = load(train_file=path, test_file=new, label_separator=";")
    assert labels_of(task) == [[1, 1], [0, 0], [0, 1]]
    assert task.splits["test"].column_names == ["text"], "rows to predict have no labels"


@pytest.mark.parametrize("names", [("Text", "LABEL"), (" text", "label "), ("text", "Label")])
def test_load_rows_finds_columns_whose_names_differ_in_case(
    names: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of another file than the first: tools and people write them otherwise."""
    rows = [dict(zip(names, row.values(), strict=True)) for row in REVIEWS]
    files = {"train_file": write_csv(tmp_path / "a.csv", REVIEWS)}
    files["validation_file"] = write_jsonl(tmp_path / "b.jsonl", rows)
    files["test_file"] = tmp_path / "c.parquet"
    Dataset.from_list(rows).to_parquet(files["test_file"])
    task = load(**files)
    for name in ("validation", "test"):
        for column in ("text", "label"):
            assert task.splits[name][column][:] == task.splits["train"][column][:]
    assert f"column {names[1]!r} of {files['test_file']} is read as 'label'" in caplog.messages
    write_jsonl(tmp_path / "b.jsonl", [{"TEXT": "a", "Text": "b", "label": "good"}])
    with pytest.raises(
        ValueError, match=r"b\.jsonl has no column 'text'; it has 'TEXT', 'Text', 'l"
    ):
        load(**files)


def test_load_rows_minus_is_a_class_by_name(tmp_path: Path) -> None:
    """Elsewhere it is no label, as in SNLI."""
    rows = [{"text": "a", "label": label} for label in "ox-"]
    assert load_written(tmp_path, rows).sources["train"]["left_out"] == 1
    task = load_written(tmp_path, rows, label_names=["o", "-", "x"])
    assert labels_of(task) == [0, 2, 1]


def test_load_rows_shuffles_by_seed_before_the_limit(tmp_path: Path) -> None:
    """Files are often sorted by label; the first rows would then be of one label only."""
    rows = [{"text": f"text {index}", "label": str(index // 50)} for index in range(100)]

    def first(seed: int | None) -> list[str]:
        task = load_written(tmp_path, rows, shuffle_seed=seed, max_train_samples=20)
        return task.splits["train"]["text"][:]

    assert first(1) == first(1)
    assert first(1) != first(2)
    assert first(None) == [row["text"] for row in rows[:20]]


def test_load_rows_validation_fraction_keeps_the_proportions(tmp_path: Path) -> None:
    """The same seed gives the same rows, those of earlier records, and the record says so."""
    for labels in ("abcdefghij", [i / 2 for i in range(10)], [["a"]] * 10):
        rows = [{"text": f"text {index}", "label": label} for index, label in enumerate(labels)]
        splits = load_written(tmp_path, rows, validation_fraction=0.3).splits.values()
        assert [split.num_rows for split in splits] == [7, 3], "single labels, numbers and lists"
    for label, picked in (("ab", ["3", "5", "6", "7", "9"]), ([["a"]], ["0", "1", "3", "6", "18"])):
        rows = [{"text": str(i), "label": label[(i % 5 == 0) % len(label)]} for i in range(20)]
        task = load_written(tmp_path, rows, validation_fraction=0.25)
        assert task.splits["validation"]["text"][:] == picked
        assert {*task.splits["train"]["text"], *picked} == {row["text"] for row in rows}
    source = task.sources["validation"]
    assert (source["file"], source["split_off"], source["rows"]) == ("rows.jsonl", 0.25, 5)
    other = load_written(tmp_path, rows, validation_fraction=0.25, shuffle_seed=1)
    assert other.splits["validation"]["text"][:] != picked


@pytest.mark.parametrize("source", ["validation_file", "validation_fraction"])
def test_load_rows_of_soft_labels_validates_with_the_most_probable_class(
    source: str, tmp_path: Path
) -> None:
    """Only train rows have probabilities to learn; accuracy needs one class a row."""
    shares = [{"no": 0.7, "yes": 0.3}, {"no": 0.2, "yes": 0.8}] * 4
    rows = [{"text": f"text {n}", **columns} for n, columns in enumerate(shares)]
    held_out: Any = 0.5
    if source == "validation_file":
        held_out = write_jsonl(tmp_path / "validation.jsonl", rows)
    task = load_written(tmp_path, rows, label_column_name="no,yes", **{source: held_out})
    assert "probabilities" in task.splits["train"].column_names, "the premise"
    tokenizer = build_tokenizer(row["text"] for row in rows)
    encoded = encode_rows(task, tokenizer)
    ids = {name: [int(text[5:]) % 2 for text in part["text"]] for name, part in task.splits.items()}
    to_learn = [[0.2, 0.8] if is_yes else [0.7, 0.3] for is_yes in ids["train"]]
    assert encoded["train"]["labels"][:] == to_learn
    assert encoded["validation"]["labels"][:] == ids["validation"]


def test_load_rows_validation_fraction_keeps_equal_texts_together(tmp_path: Path) -> None:
    """Accuracy on texts that were trained on says nothing about new ones."""
    counts = [1] * 60 + [2] * 30 + [5] * 15 + [30]
    texts = [f"text {index}" for index, count in enumerate(counts) for _ in range(count)]
    rows = [{"text": text, "label": "abc"[int(text[5:]) % 3]} for text in texts]
    train, validation = load_written(tmp_path, rows, validation_fraction=0.2).splits.values()
    assert set(train["text"]).isdisjoint(validation["text"])
    assert sorted([*train["text"], *validation["text"]]) == sorted(texts)
    assert Counter(validation["label"]) == {0: 19, 1: 13, 2: 13}, "a fifth of each"
    sizes = Counter(Counter(validation["text"]).values())
    assert sizes == {1: 11, 2: 7, 5: 4}, "frequent texts as well as rare ones"
    rows = [{"text": "same", "label": label} for label in "abab"]
    for fraction in (0.2, 0.6):
        message = f"{fraction} of 4 train rows leaves none .*; add rows with other texts"
        with pytest.raises(ValueError, match=message):
            load_written(tmp_path, rows, validation_fraction=fraction)
    # One of the two texts of a pair may be on both sides: a premise has several hypotheses.
    rows = [{"text": f"{i // 4}", "text_pair": f"{i // 2}", "label": i % 2} for i in range(40)]
    splits = load_written(tmp_path, rows, validation_fraction=0.5).splits.values()
    of_train, others = (set(zip(s["text"], s["text_pair"], strict=True)) for s in splits)
    assert of_train.isdisjoint(others)
    assert {first for first, _ in of_train} & {first for first, _ in others}


def test_load_rows_and_encode_task_leave_nothing_beside_the_rows_of_a_user(
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
    ("row", "message"),
    [
        ({"text": 5, "label": "bad"}, "'text': 5 is of type int, not a string"),
    ],
)
def test_load_rows_names_bad_row_by_file_row_and_column(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    """Otherwise a tensor error would follow much later, without the place."""
    place = r"row 1 \(counted from 0\) of .+rows\.jsonl, column "
    with pytest.raises(ValueError, match=place + message):
        load_written(tmp_path, [REVIEWS[0], row, REVIEWS[1]])


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([], {}, r"dev.jsonl has no rows; add some, or"),
        ([{"text": "a"}], {}, r"dev.jsonl has no column 'label'; it has 'text'. Choose with --te"),
        ([{"text": "a", "label": "-"}], {}, r"1 of 1 rows of .*dev.jsonl have no text or no"),
        ([REVIEWS[0], {"text": "y", "label": "great"}], {}, r"row 1 .*: 'great' is not one of the"),
        (REVIEWS, {"train_file": None}, "no train split to learn from; list the --label_names"),
    ],
)
def test_load_rows_refuses_a_bad_validation_split(
    tmp_path: Path, reviews: Path, rows: list[Any], options: dict[str, Any], message: str
) -> None:
    dev = write_jsonl(tmp_path / "dev.jsonl", rows)
    files = {"train_file": reviews, "validation_file": dev}
    with pytest.raises(ValueError, match=message):
        load(**{**files, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_train_samples": 0}, "max_train_samples is 0; it must be 1 or more, or left out"),
        ({"validation_fraction": 1.5}, "--validation_fraction is 1.5; it must be at least 0"),
    ],
)
def test_data_arguments_refuse_what_is_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataArguments(**options)


def test_encode_rows_keeps_the_order_of_rows(reviews: Path) -> None:
    """Predictions are matched with their texts by row."""
    task = load(train_file=reviews, test_file=reviews)
    tokenizer = build_tokenizer(task.splits["train"]["text"])
    for split, rows in encode_rows(task, tokenizer).items():
        assert set(rows.column_names) == {"input_ids", "labels"}, "the collator adds the mask"
        assert rows["labels"][:] == task.splits[split]["label"][:]
        assert rows["input_ids"][:] == [tokenizer(row["text"]).input_ids for row in REVIEWS]


def test_encode_rows_keeps_the_first_tokens(reviews: Path) -> None:
    task = load(train_file=reviews)
    tokenizer = build_tokenizer(task.splits["train"]["text"])
    ids = [tokenizer(row["text"]).input_ids for row in REVIEWS]
    assert max(map(len, ids)) > 3, "the premise"
    cut = encode_rows(task, tokenizer, max_tokens=3)["train"]["input_ids"][:]
    assert cut == [first[:3] for first in ids]


def test_load_rows_of_pairs_have_standard_columns(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "pairs.jsonl", [{**row, "id": 7} for row in PAIRS])
    flags = {"text_column_names": ["premise,hypothesis"], "label_column_name": "gold"}
    task = load(train_file=path, **flags)
    train = task.splits["train"]
    assert train.column_names == ["text", "text_pair", "label", "row"]
    assert train["text_pair"][:] == [row["hypothesis"] for row in PAIRS]
    assert task.label_names == ("contradiction", "entailment", "neutral")
    assert [task.label_names[label] for label in labels_of(task)] == [row["gold"] for row in PAIRS]
    assert train.features["label"] == ClassLabel(names=list(task.label_names))


@pytest.mark.parametrize(("write", "first"), [(write_csv, 2), (write_jsonl, 0)])
def test_load_rows_training_rows_know_their_number(write: Any, first: int, tmp_path: Path) -> None:
    """As a spreadsheet counts those of a CSV file, whatever was left out, split off, shuffled."""
    rows = [{"text": f"text {n}", "label": "ab"[n % 2] if n % 5 else ""} for n in range(20)]
    path = write(tmp_path / ("rows.csv" if first else "rows.jsonl"), rows)
    options = {"validation_fraction": 0.25, "shuffle_seed": 1}
    train = load(train_file=path, **options).splits["train"]
    expected = [int(text.split()[1]) + first for text in train["text"]]
    assert train["row"][:] == expected != sorted(expected)


def test_load_rows_training_rows_of_several_files_know_their_file(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    write_csv(tmp_path / "train" / "b.csv", REVIEWS[:2])
    write_csv(tmp_path / "train" / "a.csv", REVIEWS[2:])
    train = load(dataset_name=str(tmp_path)).splits["train"]
    places = zip(train["file"], train["row"], train["text"], strict=True)
    files = [("a.csv", 2), ("a.csv", 3), ("b.csv", 2), ("b.csv", 3)]
    texts = [row["text"] for row in (*REVIEWS[2:], *REVIEWS[:2])]
    assert [*places] == [(*place, text) for place, text in zip(files, texts, strict=True)]


@pytest.fixture
def pairs(tmp_path: Path) -> Rows:
    return load(train_file=write_jsonl(tmp_path / "pairs.jsonl", PAIRS), label_column_name="gold")


def test_encode_rows_of_pairs_have_token_types(pairs: Rows) -> None:
    """The entailment head tells the two texts apart by their token types alone."""
    tokenizer = build_tokenizer(pairs.splits["train"]["text"])
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    assert encode_rows(pairs, tokenizer)["train"][0]["token_type_ids"] == [0] * 4 + [1] * 5
    cut = encode_rows(pairs, tokenizer, max_tokens=3)["train"][0]
    assert cut["token_type_ids"] == [0, 0, 0, 1, 1, 1]


def test_encode_rows_refuses_a_tokenizer_that_tells_no_texts_apart(pairs: Rows) -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.post_processor = processors.TemplateProcessing(single="$A", pair="$A $B:0")
    blind = TokenizersBackend(tokenizer_object=words, unk_token="[UNK]")
    with pytest.raises(ValueError, match="TokenizersBackend gives both texts of a pair the same"):
        encode_rows(pairs, blind)


def test_encode_rows_reads_a_text_up_to_a_million_characters(
    reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of 20 MB would take gigabytes."""
    monkeypatch.setattr(checked_model, "MAX_CHARACTERS", 8)
    task = load(train_file=reviews)
    tokenizer = build_tokenizer(task.splits["train"]["text"])
    ids = [tokenizer(row["text"][:8]).input_ids for row in REVIEWS]
    assert encode_rows(task, tokenizer)["train"]["input_ids"][:] == ids


def test_load_rows_reads_rows_in_memory_as_those_of_a_file(tmp_path: Path) -> None:
    rows = [*REVIEWS, *REVIEWS]
    file = write_jsonl(tmp_path / "rows.jsonl", rows)
    of_file = load_rows(DataArguments(train_file=str(file)))
    in_memory = {"train": Dataset.from_list(rows)}
    of_memory = load_rows(DataArguments(), in_memory=in_memory)
    assert of_memory.splits["train"].to_list() == of_file.splits["train"].to_list()
    assert of_memory.labels.names == of_file.labels.names
    source = of_memory.sources["train"]
    assert (source["dataset"], source["rows"]) == ("rows in memory", 8)
    again = load_rows(DataArguments(), in_memory={"train": Dataset.from_list(rows)})
    assert again.sources == of_memory.sources
    rows[2] = {"text": None, "label": "bad"}
    of_memory = load_rows(DataArguments(), in_memory={"train": Dataset.from_list(rows)})
    assert of_memory.sources["train"]["left_out"] == 1


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
