"""What label values mean: the kind of problem, the names, their order, their encoding."""

from typing import Any

import pytest
from datasets import Dataset, Features

from sase_hf.data.label_values import is_unlabelled
from sase_hf.data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL, LabelColumn


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (["good", "bad"], {}, SINGLE_LABEL),
        ([1, 2, 3], {}, SINGLE_LABEL),
        # Pandas writes whole numbers so beside a missing cell.
        ([1.0, 2.0], {}, SINGLE_LABEL),
        ([1.0, 2.5], {}, REGRESSION),
        ([1, 10**400], {}, REGRESSION),  # which refuses the row
        (["3", " 2.5"], {}, REGRESSION),
        ([[0.5, 1], [1, 0]], {}, REGRESSION),
        ([[0.0, 1.0], [1.0, 0.0]], {}, MULTI_LABEL),
        ([["a"], []], {}, MULTI_LABEL),
        # Half stars are classes to some; naming them, or the problem, must be enough.
        ([0.5, 1.0], {"problem_type": SINGLE_LABEL}, SINGLE_LABEL),
        (["0.5", "1.0"], {"class_names": ["0.5", "1.0"]}, SINGLE_LABEL),
    ],
)
def test_label_column_infers_problem_type(
    values: list[Any], options: dict[str, Any], expected: str
) -> None:
    assert LabelColumn.learn(values, **options).kind == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["10", "9", "-1"], ("-1", "9", "10")),
        ([10, 9, "9", 9.0, "9.0", "10"], ("9", "10")),
        (["b", "B", "a", "10"], ("10", "B", "a", "b")),
        ([["b"], ["a", "c"]], ("a", "b", "c")),
        # Blanks around a label, which spreadsheets and `, ` leave, make no other class.
        (["pos", "pos ", " neg", "neg\t"], ("neg", "pos")),
        ([[2], [10, 3]], ("2", "3", "10")),
    ],
)
def test_label_column_orders_names_by_number_or_alphabet(
    values: list[Any], expected: tuple[str, ...]
) -> None:
    """The order decides the ids that a checkpoint keeps, so it must not depend on the rows'."""
    kind = MULTI_LABEL if isinstance(values[0], list) else SINGLE_LABEL
    assert LabelColumn.learn(values, kind).names == expected
    assert LabelColumn.learn(values[::-1], kind).names == expected
    given = LabelColumn.learn(["b"], label_names=["b", "a"], class_names=["a", "b"])
    assert given.names == ("b", "a")


WORDS = LabelColumn.learn([0, "1"], label_names=["negative", "positive"])
STARS = LabelColumn.learn([1, 2, 3], label_names=["1", "2", "3.0"])
TAGS = LabelColumn.learn([["joy"], ["anger", "joy"], []])
FLAGS = LabelColumn.learn([[0, 1, 1], [0, 0, 0]])
BLANKS = LabelColumn.learn([], label_names=[" neg", "neg", "pos "])
SCORE = LabelColumn.learn([1.5, 2.0])
SCORES = LabelColumn.learn([[1, 2], [3, 4]], REGRESSION)
SOFT = LabelColumn.learn([{"no": 0.75, "yes": None}, "?"])
SOFT_LISTS = LabelColumn.learn([[0.5, 0.5]], SINGLE_LABEL, ["no", "yes"])


@pytest.mark.parametrize(
    ("labels", "values", "expected"),
    [
        # Many files hold ids and no names; where the names are numbers, they are meant.
        (WORDS, [0, "1", 1.0, "negative"], [0, 1, 1, 0]),
        (STARS, [1, "2", 3.0, "1.0", "3.0"], [0, 1, 2, 0, 2]),
        (TAGS, [["joy", "joy"], [], ["joy", "anger"]], [[0, 1], [0, 0], [1, 1]]),
        (FLAGS, [[True, False, 1.0]], [[1, 0, 1]]),
        # Zeros and ones in rows of other lengths are ids.
        (LabelColumn.learn([[0, 1], [1]]), [[1]], [[0, 1]]),
        (SCORE, [1, " 2.5", "-.5e1", 3.25], [1.0, 2.5, -5.0, 3.25]),
        (SCORES, [[1, 0.5]], [[1.0, 0.5]]),
        # The order is ?, no, yes. A plain label has a probability of 1; missing ones have 0.
        (SOFT, [{"yes": 0.75, "no": 0.25, "?": None}, "no"], [[0, 0.25, 0.75], [0, 1, 0]]),
        (SOFT_LISTS, [[0.25, 0.75], "no", {"yes": 1}], [[0.25, 0.75], [1, 0], [0, 1]]),
        # Checkpoints have learnt names with blanks, beside the same without.
        (BLANKS, [" neg", "neg", "neg ", "pos", "pos "], [0, 1, 1, 2, 2]),
    ],
)
def test_label_column_encodes_labels_for_the_loss(
    labels: LabelColumn, values: list[Any], expected: list[Any]
) -> None:
    assert [labels.encode(value) for value in values] == expected


def test_is_unlabelled_tells_missing_labels_from_labels() -> None:
    """SNLI writes "-" for no label; -1 and 0 are ordinary labels where ids have no names."""
    assert all(is_unlabelled(value, ()) for value in (None, float("nan"), "  ", " - "))
    assert is_unlabelled("-1 ", ["no", "yes"])
    assert not is_unlabelled("-", ["-", "+"])
    assert not is_unlabelled(-1, ())
    assert not is_unlabelled(-1, ["-1", "1"])


@pytest.mark.parametrize(
    ("labels", "bad", "message"),
    [
        (LabelColumn.learn(["no", "yes"]), 1, "1 is not one of the labels 'no', 'yes'; correct it"),
        (STARS, {"b": 1}, r"\{'b': 1\} is a dict; a label is a text or a number"),
        (TAGS, "joy", "'joy' is not a list .*; write \\['a', 'b'\\], or add --problem_type multi_"),
        (SOFT, {"no": 0.5}, r"\{'no': 0.5\} is not \{label: probability\}.* sum to 1"),
        (SOFT, {"no": -0.5, "yes": 1.5}, "is not .*sum to 1"),
        (SOFT, {"maybe": 1.0}, "'maybe' is not one of the labels"),
        (SOFT_LISTS, [1.0], "a probability for each label"),
        (FLAGS, [0, 2, 0], r"\[0, 2, 0\] is not a list of 3 numbers, each 0 or 1"),
        (SCORE, "much", "'much' is not a finite number, which a regression needs"),
        (SCORE, 10**400, r"10+\.\.\.0+ is not a finite number"),
        (SCORE, -100, "-100 marks targets that the loss ignores; shift"),
        (SCORE, [1, 2], r"\[1, 2\] has 2 value\(s\); the regression has 1 output\(s\), 'score'"),
    ],
)
def test_label_column_refuses_labels_without_meaning(
    labels: LabelColumn, bad: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        labels.encode(bad)


@pytest.mark.parametrize(
    ("known", "cell", "twin"),
    [
        ("caf\xe9", "cafe\u0301", r"looks like the label 'caf\xe9', but is 'cafe\\u0301'"),
        ("Yes", "yes", "looks like the label 'Yes', but is 'yes'"),
        ("1", "01", "looks like the label '1', but is '01'"),
    ],
)
def test_label_column_names_the_twin_of_an_unknown_label(known: str, cell: str, twin: str) -> None:
    """Of another file, or of --label_names."""
    for labels in (
        LabelColumn.learn([known, "x"]),
        LabelColumn.learn([], label_names=[known, "x"]),
        LabelColumn.learn([[known], ["x", known]]),
    ):
        with pytest.raises(ValueError, match=f"is not one of the labels .*; it {twin}; write both"):
            labels.encode([cell] if labels.kind == MULTI_LABEL else cell)


@pytest.mark.parametrize(
    "rows", [[["pos"], ["neg"]], ["['pos']", '["neg"]'], ["pos", ["neg"]], [["pos"], "neg"]]
)
def test_label_column_reads_lists_of_one_item_as_single_labels_if_asked_to(rows: list[Any]) -> None:
    labels = LabelColumn.learn(rows, SINGLE_LABEL)
    assert labels.names == ("neg", "pos")
    assert [labels.encode(row) for row in rows] == [1, 0]
    ids = LabelColumn.learn([[1], [0], [1.0]], SINGLE_LABEL)
    assert (ids.names, ids.encode([1]), ids.encode([])) == (("0", "1"), 1, None)
    with pytest.raises(
        ValueError, match=r"\['pos', 'neg'\] has 2 labels, but --problem_type single"
    ):
        labels.encode(["pos", "neg"])


@pytest.mark.parametrize(
    ("cell", "numbers"),
    [
        ("2,5", "2.5"),
        ("-0,25", "-0.25"),
        ("1,000", "1.000 or 1000"),
        ("1,000,000", "1000000"),
    ],
)
def test_label_column_names_both_readings_of_a_number_with_a_comma(cell: str, numbers: str) -> None:
    """Two ids of labels, or a number."""
    parts = " and ".join(cell.split(","))
    message = f"'{cell}' may be a number or several labels; write {numbers} if it is a number, add "
    with pytest.raises(ValueError, match=f"{message}--problem_type multi.* the labels {parts}, or"):
        LabelColumn.learn([cell, "7"])
    with pytest.raises(ValueError, match=f"'{cell}' is not a finite number.*; write {numbers},"):
        LabelColumn.learn([0.5, 1.5]).encode(cell)
    assert LabelColumn.learn([cell, "7"], SINGLE_LABEL).names == tuple(sorted([cell, "7"]))
    assert LabelColumn.learn([cell], MULTI_LABEL).names == tuple(sorted({*cell.split(",")}))


def test_label_column_refuses_a_name_twice() -> None:
    with pytest.raises(ValueError, match=r"--label_names .*'a', 'a'"):
        LabelColumn.learn(["a", "b"], label_names=["a", "a"])


def test_label_column_refuses_an_unknown_problem_type() -> None:
    with pytest.raises(ValueError, match="--problem_type is 'ranking'; allowed are"):
        LabelColumn.learn(["a", "b"], "ranking")


def test_label_column_refuses_a_single_label() -> None:
    with pytest.raises(ValueError, match="labels 'a'; at least 2"):
        LabelColumn.learn(["a", "a"])


@pytest.mark.parametrize("item", ["nan", "N/A", "-inf"])
def test_label_column_refuses_numbers_beside_what_is_none(item: str) -> None:
    """Else each score would be a class."""
    with pytest.raises(ValueError, match=f"numbers, but for '{item}'"):
        LabelColumn.learn(["0.5", item, "1.5"])
    assert LabelColumn.learn(["0.5", item, "1.5"], SINGLE_LABEL).kind == SINGLE_LABEL


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        ([*range(99), "nan"], "nan"),
        ([f"{n / 7:.3f}%" for n in range(99)], "0.000%"),
        ([*range(99), "#REF!"], "#REF!"),
    ],
    ids=["nan", "percent", "error of a sheet"],
)
def test_label_column_names_the_first_cell_of_many_that_is_no_number(
    cells: list[Any], first: str
) -> None:
    with pytest.raises(ValueError, match=f"labels are numbers, but for '{first}'"):
        LabelColumn.learn(cells)


@pytest.mark.parametrize("cells", [["b", "a\ud800"], [["b"], ["b", "a\ud800"]]])
def test_label_column_refuses_a_lone_surrogate(cells: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"^\(1, .*lone surrogate"):
        LabelColumn.learn(cells)


@pytest.mark.parametrize("number", [0.23, -1.5, 3.0, 1e-30, 123456789.0, 123456.789])
def test_rows_of_a_label_column_hold_the_numbers_of_the_file(number: float) -> None:
    """Also those of more digits than float32 has."""
    scores = LabelColumn(REGRESSION, ("first", "second"))
    for column, label in ((SCORE, number), (scores, [number, 0.5])):
        rows = Dataset.from_dict({"label": [label]}, Features({"label": column.feature}))
        assert column.decode(rows[0]["label"]) == label


def test_label_column_asks_whether_many_whole_numbers_are_classes() -> None:
    prices = [str(number) for number in range(60)]
    with pytest.raises(ValueError, match="60 different whole numbers in 62 rows; add --problem_ty"):
        LabelColumn.learn(prices + prices[:2])
    assert LabelColumn.learn(prices + prices[:2], REGRESSION).kind == REGRESSION
    assert len(LabelColumn.learn(prices * 2).names) == 60
