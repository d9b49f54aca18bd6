"""What label values mean: the kind of problem, the names, their order, their encoding."""

from typing import Any

import pytest
from datasets import ClassLabel, List, Value

from sase_hf.data.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    LabelError,
    LabelScheme,
    is_unlabelled,
    learn_labels,
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["good", "bad"], SINGLE_LABEL),
        ([1, 2, 3], SINGLE_LABEL),
        (["1", "2"], SINGLE_LABEL),
        ([True, False], SINGLE_LABEL),
        (["1.5 stars", "2 stars"], SINGLE_LABEL),
        ([1.0, 2.0], REGRESSION),
        ([3, 2.5], REGRESSION),
        (["3", "2.5"], REGRESSION),
        ([[0.5, 1], [1, 0]], REGRESSION),
        ([[0.0, 1.0], [1.0, 0.0]], MULTI_LABEL),
        ([["a"], []], MULTI_LABEL),
        ([[0, 1], [1, 1]], MULTI_LABEL),
    ],
)
def test_the_kind_of_problem_is_read_off_the_values(values: list[Any], expected: str) -> None:
    """A user who has said nothing gets what the column looks like, by the stated rule."""
    assert learn_labels(values).problem_type == expected


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([0.5, 1.0], {"problem_type": SINGLE_LABEL}),
        (["0.5", "1.0"], {"label_names": ["0.5", "1.0"]}),
        (["0.5", "1.0"], {"class_names": ["0.5", "1.0"]}),
    ],
)
def test_numbers_with_a_point_are_classes_if_one_says_so(
    values: list[Any], options: dict[str, Any]
) -> None:
    """Half stars are classes to some; naming them, or the problem, must be enough."""
    assert learn_labels(values, **options).problem_type == SINGLE_LABEL


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["10", "9", "-1"], ("-1", "9", "10")),
        ([10, 9, "9", 9.0, "10"], ("9", "10")),
        (["b", "B", "a", "10"], ("10", "B", "a", "b")),
        ([True, False], ("false", "true")),
        ([["b"], ["a", "c"]], ("a", "b", "c")),
        ([[2], [10, 3]], ("2", "3", "10")),
    ],
)
def test_names_are_ordered_by_number_or_alphabet(
    values: list[Any], expected: tuple[str, ...]
) -> None:
    """The order decides the ids that a checkpoint keeps, so it must not depend on the rows'."""
    kind = MULTI_LABEL if isinstance(values[0], list) else SINGLE_LABEL
    assert learn_labels(values, kind).names == expected
    assert learn_labels(values[::-1], kind).names == expected


def test_given_names_come_before_those_of_the_data_set() -> None:
    """`label_names` fixes the order; else the data set's own order, unused names included."""
    assert learn_labels(["b"], label_names=["b", "a"], class_names=["a", "b"]).names == ("b", "a")
    assert learn_labels(["b"], class_names=["c", "b", "a"]).names == ("c", "b", "a")


def test_whole_numbers_are_positions_in_given_names_that_are_words() -> None:
    """Many files hold ids and no names; the names are then given in the order of the ids."""
    labels = learn_labels([0, "1"], label_names=["negative", "positive"])
    assert labels.encode_all([0, "1", 1.0, "negative"]) == [0, 1, 1, 0]
    assert labels.problem_type == SINGLE_LABEL


def test_whole_numbers_are_names_where_names_are_numbers() -> None:
    """Stars 1 to 3 would otherwise be read as the positions 1 to 3."""
    labels = learn_labels([1, 2, 3], label_names=["1", "2", "3"])
    assert labels.encode_all([1, "2", 3.0]) == [0, 1, 2]


def test_learnt_names_have_no_positions() -> None:
    """A file of ids beside a file of names is a mistake, not a convention."""
    labels = learn_labels(["no", "yes"])
    with pytest.raises(LabelError, match="1 is none of the known labels 'no', 'yes'; correct it"):
        labels.encode_all(["no", 1])


def test_lists_of_labels_become_a_number_for_every_class() -> None:
    """The multi-label loss wants floats, one for each class, and an empty list has none."""
    labels = learn_labels([["joy"], ["anger", "joy"], []])
    assert labels.encode_all([["joy", "joy"], [], ["joy", "anger"]]) == [[0, 1], [0, 0], [1, 1]]
    assert labels.feature == List(Value("float32"))


def test_a_multi_label_row_that_is_no_list_is_named() -> None:
    """From a CSV file every row is one, and an error about missing labels would lead nowhere."""
    with pytest.raises(LabelError, match=r"'joy' is not a list; .* CSV file cannot hold") as caught:
        learn_labels([["anger"], "joy"], MULTI_LABEL)
    assert caught.value.index == 1


def test_lists_of_zeros_and_ones_are_taken_as_they_are() -> None:
    """Rows of equal length that hold nothing else say for every class whether it applies."""
    labels = learn_labels([[0, 1, 1], [0, 0, 0]])
    assert labels == LabelScheme(MULTI_LABEL, ("0", "1", "2"), indicators=True)
    assert labels.encode_all([[True, False, 1.0]]) == [[1, 0, 1]]


def test_lists_of_ids_are_not_taken_for_zeros_and_ones() -> None:
    """Ids 0 and 1 in rows of other lengths, or of one, are ids."""
    assert learn_labels([[0, 1], [1]]).encode_all([[1]]) == [[0, 1]]
    assert learn_labels([[0], [1]]).encode_all([[1]]) == [[0, 1]]
    named = learn_labels([[0, 1], [1, 0]], label_names=["a", "b", "c"])
    assert named.encode_all([[1, 0]]) == [[1, 1, 0]]


def test_a_regression_reads_numbers_however_they_are_written() -> None:
    """A CSV file has only texts."""
    labels = learn_labels([1.5, 2.0])
    assert labels.encode_all([1, "2.5", "-.5e1", 3.25]) == [1.0, 2.5, -5.0, 3.25]
    assert (labels.names, labels.feature) == (("score",), Value("float32"))


def test_a_regression_may_have_several_outputs() -> None:
    """Each has a name, as labels have."""
    labels = learn_labels([[1, 2], [3, 4]], REGRESSION)
    assert labels.names == ("score_0", "score_1")
    assert labels.encode_all([[1, 0.5]]) == [[1.0, 0.5]]
    assert labels.feature == List(Value("float32"))


def test_a_single_label_column_knows_its_names() -> None:
    """`datasets` shows them, and splits by them."""
    assert learn_labels(["b", "a"]).feature == ClassLabel(names=["a", "b"])


@pytest.mark.parametrize(
    ("value", "names", "expected"),
    [
        (None, None, True),
        (float("nan"), None, True),
        ("  ", None, True),
        ("-", None, True),
        ("-", ["-", "+"], False),
        (-1, None, False),
        (-1, ["no", "yes"], True),
        ("-1", ["no", "yes"], True),
        (-1, ["-1", "1"], False),
        (0, None, False),
        ([], None, False),
        ("none", None, False),
    ],
)
def test_a_missing_label_is_told_from_a_label(
    value: Any, names: list[str] | None, expected: bool
) -> None:
    """SNLI writes "-" for no label; -1 and 0 are ordinary labels where ids have no names."""
    assert is_unlabelled(value, names) is expected


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (["a", "b"], {"label_names": ["a", "a"]}, "holds a name twice: 'a', 'a'"),
        (["a", "b"], {"problem_type": "ranking"}, "problem_type is 'ranking'; allowed are single_"),
        (["a", "a"], {}, "the labels are 'a'; 2 or more are needed. Add rows"),
        ([[], []], {}, "the labels are none at all; 1 or more are needed"),
        (["a", {"b": 1}], {}, r"\{'b': 1\} is a dict; a label is a text or a number"),
    ],
)
def test_labels_that_cannot_be_learnt_are_refused(
    values: list[Any], options: dict[str, Any], message: str
) -> None:
    """The message says what is wrong and what to do."""
    with pytest.raises(ValueError, match=message):
        learn_labels(values, **options)


MANY = LabelScheme(SINGLE_LABEL, tuple(f"n{index}" for index in range(30)))
TAGS = learn_labels([["a"], ["b", "a"]])
FLAGS = learn_labels([[0, 1], [1, 1]])
SCORE = learn_labels([0.5])


@pytest.mark.parametrize(
    ("labels", "good", "bad", "message"),
    [
        (MANY, "n0", "x", "'x' is none of the known labels 'n0', .*'n19' and 10 more; correct"),
        (MANY, "n1", ["n1"], r"\['n1'\] is a list; a label is a text or a number"),
        (
            learn_labels(["no"], label_names=["no", "yes"]),
            1,
            2,
            "2 is none of the known labels 'no', 'yes' or their positions from 0 to 1; correct",
        ),
        (TAGS, ["a"], "a", "'a' is not a list; a multi-label problem has a list of labels"),
        (TAGS, ["a"], ["c"], "'c' is none of the known labels 'a', 'b'; correct it"),
        (FLAGS, [0, 0], [0], r"\[0\] is not a list of 2 numbers, each 0 or 1"),
        (FLAGS, [0, 0], [0, 2], r"\[0, 2\] is not a list of 2 numbers, each 0 or 1"),
        (SCORE, 1, "much", "'much' is not a finite number, which a regression needs"),
        (SCORE, 1, -100, "-100 marks what a loss leaves out, so no model can learn it"),
        (SCORE, 1, True, "True is not a finite number"),
        (SCORE, 1, float("inf"), "inf is not a finite number"),
        (SCORE, 1, [1, 2], r"\[1, 2\] has 2 value\(s\); the regression has 1 output\(s\), 'score'"),
    ],
)
def test_a_label_without_meaning_is_named_with_what_is_allowed(
    labels: LabelScheme, good: Any, bad: Any, message: str
) -> None:
    """The caller learns which one it is, and so can name the row."""
    with pytest.raises(LabelError, match=message) as caught:
        labels.encode_all([good, bad])
    assert caught.value.index == 1
