"""Which columns are the texts and the labels where no flag names them."""

from pathlib import Path
from typing import Any

import pytest
from rows import write_csv, write_jsonl

from sase_hf.data import sources
from sase_hf.data.arguments import DataArguments
from sase_hf.data.columns import find_columns
from sase_hf.data.sources import FileSplit
from sase_hf.data.splits import load_rows

BODIES = [f"the soup was {word} and I paid" for word in ("hot", "cold", "fine", "thin", "bad")]
KINDS = ["yes!", "no!", "yes!", "no!", "yes!"]
FLAGS = [0, 1, 1, 0, 1]


def find(columns: dict[str, list[Any]], labelled: bool = True, **flags: Any) -> tuple[Any, ...]:
    found = find_columns("f.csv", columns, DataArguments(**flags), labelled=labelled)
    return found.texts, found.labels


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Sentiment", "Review"], (("Review",), ("Sentiment",))),
        (["Review Text", "Rating"], (("Review Text",), ("Rating",))),
        # The plainest name comes first; a title is the text only where there is no other.
        (["text", "label", "label_text", "comment"], (("text",), ("label",))),
        (["title", "body", "class"], (("body",), ("class",))),
        (["title", "class"], (("title",), ("class",))),
        (["title", "description", "class"], (("description",), ("class",))),
        # Two texts are found by the names of pairs, and only by these.
        (["premise", "hypothesis", "label"], (("premise", "hypothesis"), ("label",))),
        (["Sentence2", "Sentence1", "score"], (("Sentence1", "Sentence2"), ("score",))),
    ],
)
def test_find_columns_knows_usual_names(names: list[str], expected: tuple[Any, ...]) -> None:
    """A column that a flag names as the label is no text."""
    assert find({name: ["a", "b"] for name in names}) == expected
    answers = {name: ["a", "b"] for name in ("question", "answer")}
    assert find(answers, label_column_name="answer") == (("question",), ("answer",))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["first"], ("first",)),
        (["first, second"], ("first", "second")),
        (["first", "second"], ("first", "second")),
        (["What was good, and why?"], ("What was good, and why?",)),
        (["What was good, and why?,first"], ("What was good, and why?", "first")),
        (["first,What was good, and why?"], ("first", "What was good, and why?")),
    ],
    ids=str,
)
def test_text_columns_are_parted_at_commas_outside_of_names(
    words: list[str], expected: tuple[str, ...]
) -> None:
    with_comma = "What was good, and why?"
    columns = {"first": BODIES, "second": BODIES, with_comma: BODIES, "label": KINDS}
    assert find(columns, text_column_names=words) == (expected, ("label",))


@pytest.mark.parametrize("words", [["a,b,c"], ["first,first"], ["first", "second", "label"]])
def test_another_number_of_text_columns_is_refused(words: list[str]) -> None:
    columns = {"first": BODIES, "second": BODIES, "label": KINDS}
    message = r"--text_column_names is \[.*must name one column, or two"
    with pytest.raises(ValueError, match=message):
        find(columns, text_column_names=words)


@pytest.mark.parametrize("kinds", [KINDS, FLAGS, [["x", "y"], ["x"], [], ["y"], ["x"]]])
def test_find_columns_takes_the_only_one_whose_values_fit(kinds: list[Any]) -> None:
    """Dates, links, numbers that all differ, constants and empty columns are neither."""
    columns = {
        "id": [11, 12, 13, 14, 15],
        "when": [f"2020-01-0{day} 00:00" for day in range(1, 6)],
        "site": ["a shop in town"] * 5,
        "empty": [None, "", None, "", None],
        "v1": kinds,
        "v2": BODIES,
    }
    assert find(columns) == (("v2",), ("v1",))
    assert find(columns, labelled=False) == (("v2",), ()), "rows to predict need no labels"
    assert find({**columns, "v3": BODIES}, text_column_names=["v3"], label_column_name="id") == (
        ("v3",),
        ("id",),
    )
    assert find({**columns, "v3": BODIES}, label_column_name="v3") == (("v2",), ("v3",))


def write_sorted(folder: Path, **columns: list[Any]) -> DataArguments:
    """Write 90 rows that are sorted by `mood`."""
    texts = [f"the soup of day {day} was hot" for day in range(90)]
    moods = ["glad"] * 60 + ["sad"] * 30
    rows = [
        {"comment": text, "mood": mood, **{name: cells[row] for name, cells in columns.items()}}
        for row, (text, mood) in enumerate(zip(texts, moods, strict=True))
    ]
    return DataArguments(train_file=str(write_csv(folder / "rows.csv", rows)))


def test_load_rows_finds_the_labels_of_a_file_that_is_sorted_by_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BATCH", 10)
    assert load_rows(write_sorted(tmp_path)).label_columns == ("mood",)


def test_load_rows_takes_no_other_column_for_the_labels_of_a_sorted_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BATCH", 10)
    arguments = write_sorted(tmp_path, verified=["Y", "N", "Y"] * 30)
    with pytest.raises(ValueError, match=r"not clear which column holds the labels.*mood"):
        load_rows(arguments)


def test_spread_sample_has_rows_of_all_parts_and_of_any_rhythm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BATCH", 40)
    path = write_csv(tmp_path / "rows.csv", [{"a": row} for row in range(4_000)])
    sample = FileSplit.of_file("train", str(path)).spread_sample()
    numbers = [int(cell) for cell in sample["a"]]
    assert len(set(numbers)) == 40
    assert 10 < sum(number % 2 for number in numbers) < 30
    assert 10 < sum(number < 2_000 for number in numbers) < 30


def test_spread_sample_of_few_rows_has_all_in_their_order(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv", [{"a": str(row)} for row in range(90)])
    sample = FileSplit.of_file("train", str(path)).spread_sample()
    assert sample == {"a": [str(row) for row in range(90)]}


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("这家餐厅的菜很好吃{}服务也很周到", ("正面", "负面")),
        ("この店の料理{}はとても美味しかったです", ("ポジティブ", "ネガティブ")),
        ("อาหารอร่อยมาก{}บริการดี", ("บวก", "ลบ")),
        ("이 식당 음식은 정말 맛있어요 {}", ("긍정", "부정")),
        ("खाना बहुत अच्छा था {}", ("अच्छा", "बुरा")),
    ],
    ids=["Chinese", "Japanese", "Thai", "Korean", "Hindi"],
)
def test_find_columns_finds_texts_of_scripts_without_blanks(
    text: str, labels: tuple[str, str]
) -> None:
    """And refuses to choose between two columns of texts, or two of labels."""
    texts = [text.format(number) for number in range(20)]
    columns: dict[str, list[Any]] = {"1st": texts, "2nd": [*labels] * 10}
    assert find(columns) == (("1st",), ("2nd",))
    for name, values in (("texts", texts[::-1]), ("labels", [labels[0]] * 10 + [labels[1]] * 10)):
        with pytest.raises(ValueError, match=f"not clear which column holds the {name}"):
            find({**columns, "3rd": values})


def test_find_columns_does_not_take_the_column_of_marks_for_texts() -> None:
    columns: dict[str, list[Any]] = {"comment": [[]] * 5, "v1": BODIES, "v2": KINDS}
    assert find(columns, rationale_column_name="comment") == (("v1",), ("v2",))


def test_find_columns_refusal_lists_every_column_with_its_flags() -> None:
    columns = {"id": [5, 6, 7, 8, 9], "a": BODIES, "b": BODIES, "x": KINDS, "y": KINDS}
    with pytest.raises(ValueError, match=r"^f\.csv: it is not clear which ") as caught:
        find(columns)
    for part in (
        "column holds the texts ('a' or 'b') and which the labels ('x' or 'y')",
        "'id' (numbers such as 5, 5 distinct), 'a' (texts such as 'the soup was hot and I paid',",
        "'x' (texts such as 'yes!', 2 distinct)",
        "Choose with --text_column_names and --label_column_name",
    ):
        assert part in str(caught.value)
    assert "each of these is a label" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "unclear"),
    [
        (
            {"title": BODIES, "subject": BODIES, "label": KINDS},
            r"holds the texts \('title' or 'subject'\)\. It",
        ),
        (
            {"text": BODIES, "stars": KINDS, "topic": KINDS},
            r"holds the labels \('stars' or 'topic'\)\. It",
        ),
        (
            {"x": KINDS, "none": [None] * 5},
            r"holds the texts\. It has 'x' .*, 'none' \(empty\)\. C",
        ),
    ],
    ids=["texts", "labels", "none"],
)
def test_find_columns_refusal_names_what_is_unclear(
    columns: dict[str, list[Any]], unclear: str
) -> None:
    with pytest.raises(ValueError, match=unclear):
        find(columns)


def test_find_columns_says_which_texts_it_leaves_unread(caplog: pytest.LogCaptureFixture) -> None:
    columns = {"title": BODIES, "body": BODIES, "note": [""] * 5, "label": KINDS}
    assert find(columns) == find(columns, text_column_names=["body"]) == (("body",), ("label",))
    assert find({**columns, "text": BODIES, "text_pair": BODIES})[0] == ("text", "text_pair")
    assert caplog.messages == [  # a flag has chosen already
        "column 'body' is read as the text, not 'title'; --text_column_names NAME reads others",
        "columns 'text' and 'text_pair' are read as the texts, not 'title' and 'body'; "
        "--text_column_names FIRST,SECOND reads others",
    ]


@pytest.mark.parametrize(
    ("header", "odd"),
    [
        ("so it was,Yes!", "'Yes!'"),
        ("so it was,3", "'3'"),
        ("the soup was hot yesterday,kind", "'the soup was hot yesterday'"),
        ("the soup was bad and I paid,no!", "'the soup was bad and I paid', 'no!'"),
        (f"{'a' * 80}b,kind", "'aaaaaaaaaaaa...aaaaaaaaaaaab'"),
    ],
)
def test_load_rows_doubts_a_header_line_that_is_like_a_row(
    header: str, odd: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of CSV files alone, and of the columns that no flag names."""
    text, label = header.split(",")
    rows = [{text: body, label: kind} for body, kind in zip(BODIES, KINDS, strict=True)]
    path = str(write_csv(tmp_path / "a.csv", rows))
    load_rows(DataArguments(train_file=str(write_jsonl(tmp_path / "a.jsonl", rows))))
    named = {"text_column_names": [text], "label_column_name": label}
    load_rows(DataArguments(train_file=path, **named))
    assert not caplog.messages
    load_rows(DataArguments(train_file=path))
    advice = "like the values of a row; if it is a row, put a line of names above it"
    assert caplog.messages[0] == f"the header line names {odd}, {advice}"
    write_csv(tmp_path / "a.csv", [{text: body} for body in BODIES])
    with pytest.raises(ValueError, match=r"Choose with .*; if its first line is a row, put a line"):
        load_rows(DataArguments(train_file=path))


def test_find_columns_shows_the_flag_for_several_columns_of_0_and_1() -> None:
    """One class for each of them, and not the first of them alone, is what they mean."""
    columns = {"comment_text": BODIES, "toxic": FLAGS, "rude": FLAGS[::-1]}
    with pytest.raises(ValueError, match=r"each of these is a label, --label_column_name toxic,ru"):
        find(columns)
    assert find(columns, label_column_name="toxic, rude")[1] == ("toxic", "rude")
    columns = {"comment_text": BODIES, "target": FLAGS, "rude": [0] * 5, "age": [3] * 5}
    with pytest.raises(ValueError, match=r"each of these is a label, --label_column_name target,r"):
        find(columns)
    assert find(columns, labelled=False)[1] == ("target",)
    assert find({**columns, "label": FLAGS})[1] == ("label",)
    columns["target,rude"] = KINDS
    assert find(columns, label_column_name="target,rude")[1] == ("target,rude",)


def test_load_rows_columns_of_the_train_split_hold_for_the_others(tmp_path: Path) -> None:
    """Another split may have a column with a more usual name."""
    rows = [{"v1": kind, "v2": body} for kind, body in zip(KINDS, BODIES, strict=True)]
    train = write_csv(tmp_path / "a.csv", rows)
    test = write_jsonl(tmp_path / "b.jsonl", [{"text": "x", "label": "y", **row} for row in rows])
    task = load_rows(DataArguments(train_file=str(train), test_file=str(test)))
    assert (task.text_columns, task.label_columns) == (("v2",), ("v1",))
    assert all(split["text"][:] == BODIES for split in task.splits.values())
    assert task.splits["test"]["label"][:] == task.splits["train"]["label"][:]
