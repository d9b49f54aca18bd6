"""What label values mean: the kind of problem, the names, their order, their encoding."""

from typing import Any

import pytest
from datasets import Dataset, Features

from sase_hf.data.label_values import is_unlabelled
from sase_hf.data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL, LabelColumn, label_doubts

ROWS = 4  # of each label, so that no file has as many labels as half of its rows


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
        ([["a"], []], {}, MULTI_LABEL),
        (["a;b", "b"], {"separator": ";"}, MULTI_LABEL),
        ([(0.0, 1.0), (1.0, 1.0)], {"class_names": ["a", "b"]}, MULTI_LABEL),
        ([(0.25, 0.75), (1.0, 0.0)], {"class_names": ["a", "b"]}, SINGLE_LABEL),
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
JOINED = LabelColumn.learn(["joy; anger", "joy", ""], separator=";")
ALONE = LabelColumn.learn([["joy"], ["anger"], []])
FLAGS = LabelColumn.learn([(0.0, 1.0, 1.0)], class_names=["a", "b", "c"])
BLANKS = LabelColumn.learn([], label_names=[" neg", "neg", "pos "])
SCORE = LabelColumn.learn([1.5, 2.0])
SCORES = LabelColumn.learn([[1, 2], [3, 4]], REGRESSION)
SOFT = LabelColumn.learn([(0.25, 0.75)], class_names=["no", "yes"])


@pytest.mark.parametrize(
    ("labels", "values", "expected"),
    [
        # Many files hold ids and no names; where the names are numbers, they are meant.
        (WORDS, [0, "1", 1.0, "negative"], [0, 1, 1, 0]),
        (STARS, [1, "2", 3.0, "1.0", "3.0"], [0, 1, 2, 0, 2]),
        (TAGS, [["joy", "joy"], [], ["joy", "anger"]], [[0, 1], [0, 0], [1, 1]]),
        # An empty cell has no label, but none of the labels where other cells hold several.
        (TAGS, [None, " "], [[0, 0], [0, 0]]),
        (JOINED, ["anger;joy", "joy;", " ; ", ""], [[1, 1], [0, 1], [0, 0], [0, 0]]),
        (ALONE, [None, []], [None, [0, 0]]),
        (FLAGS, [(1.0, 0.0, 1.0), ["b"], None], [[1, 0, 1], [0, 1, 0], None]),
        (SCORE, [1, " 2.5", "-.5e1", 3.25], [1.0, 2.5, -5.0, 3.25]),
        (SCORES, [[1, 0.5]], [[1.0, 0.5]]),
        # A plain label, as of a correction, has a probability of 1.
        (SOFT, [(0.5, 0.5), "no"], [[0.5, 0.5], [1, 0]]),
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
        (LabelColumn.learn(["no", "yes"]), "Yes.", "'Yes.' is not .*looks like 'yes', but is 'Yes"),
        (STARS, {"b": 1}, r"\{'b': 1\} is a dict"),
        (TAGS, "sad", "'sad' is not one of the labels"),
        (FLAGS, (0.0, 0.5, 1.0), "0.5, 1.0.* are not 0 and 1"),
        (SOFT, (0.5, 0.25), "0.5, 0.25.* no probabilities"),
        (SOFT, (-0.5, 1.5), "no probabilities"),
        (SOFT, "maybe", "'maybe' is not one of the labels"),
        (SCORE, "much", "'much' is not a finite number"),
        (SCORE, 10**400, r"10+\.\.\.0+ is not a finite number"),
        (SCORE, -100, "-100 marks targets"),
        (SCORE, [1, 2], r"\[1, 2\] has 2 value\(s\); the regression has 1 output\(s\), 'score'"),
    ],
)
def test_label_column_refuses_labels_without_meaning(
    labels: LabelColumn, bad: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        labels.encode(bad)


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (["a", "b"], {"label_names": ["a", "a"]}, "--label_names .*'a', 'a'"),
        (["a", "b"], {"problem_type": "ranking"}, "--problem_type is 'ranking'"),
        (["a;b"], {"separator": ";", "problem_type": SINGLE_LABEL}, "--label_separator .* single_"),
        (["a", "a"], {}, "labels 'a'"),
        (["0.5", "n/a", "1.5"], {}, "numbers, but for 'n/a'"),
        ([*range(51)] * ROWS, {}, "51 different whole numbers; .*--problem_type regression"),
        ([f"name {n}" for n in range(20)], {}, "20 different labels in 20 rows, .*'name 0'"),
        ([f"${n / 7:.2f}" for n in range(20)] * 2, {}, "20 different labels in 40 rows"),
        (["['a', 'b']", "x"], {}, r"\['a', 'b'\].* is a list in one cell; .*--label_separator"),
        (["frozenset({'a', 'b'})", "x"], {}, "frozenset.* is a list in one cell"),
        ([[0, 1], [1, 1]], {}, r"\[0, 1\] may be a 0 or 1 for each"),
        ([{"a": 0.5}, "a"], {}, r"\{'a': 0.5\} is a dict"),
        (["b", "a\ud800"], {}, "lone surrogate"),
    ],
)
def test_label_column_refuses_columns_that_may_be_something_else(
    cells: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LabelColumn.learn(cells, **options)


@pytest.mark.parametrize(
    "cells", [[*range(51)] * ROWS, [f"name {n}" for n in range(20)], ["0.5", "n/a", "1.5"]]
)
def test_label_column_takes_classes_by_flag(cells: list[Any]) -> None:
    assert LabelColumn.learn(cells, SINGLE_LABEL).names
    assert len(LabelColumn.learn([f"name {n}" for n in range(20)] * 3).names) == 20


@pytest.mark.parametrize("number", [0.23, -1.5, 3.0, 1e-30, 123456789.0, 123456.789])
def test_rows_of_a_label_column_hold_the_numbers_of_the_file(number: float) -> None:
    """Also those of more digits than float32 has."""
    scores = LabelColumn(REGRESSION, ("first", "second"))
    for column, label in ((SCORE, number), (scores, [number, 0.5])):
        rows = Dataset.from_dict({"label": [label]}, Features({"label": column.feature}))
        assert column.decode(rows[0]["label"]) == label


@pytest.mark.parametrize(
    ("names", "doubt"),
    [
        ("Good good bad", "look alike: 'Good', 'good'"),
        ("good. good bad", "look alike: 'good.', 'good'"),
        ("caf\xe9 cafe\u0301", r"look alike: 'caf\xe9', 'cafe\u0301'"),
        ("ice-cream ice\u2013cream", r"look alike: 'ice-cream', 'ice\u2013cream'"),
        ("1 \uff11", r"look alike: '1', '\uff11'"),
        ("1.5 1.50", "look alike: '1.5', '1.50'"),
        ("fun;sad fun sad", "may be several: 'fun;sad'"),
        ("fun#sad fun", "may be several: 'fun#sad'"),
        ("fun;sad sad;mad mad;fun", "may be several: 'fun;sad', 'sad;mad', 'mad;fun'"),
        ("good bad N/A", "may mean none: 'N/A'"),
    ],
)
def test_label_doubts_names_labels_that_may_be_mistakes(names: str, doubt: str) -> None:
    (found,) = label_doubts(names.split(" "))
    assert found.startswith(f"labels that {doubt};")


@pytest.mark.parametrize(
    "names", [["New York", "York"], ["-1", "0", "1"], ["1.5", "15"], ["+", "-"], ["*", "**"]]
)
def test_label_doubts_are_not_of_different_labels(names: list[str]) -> None:
    assert not [*label_doubts(names)]
