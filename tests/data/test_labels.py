"""What label values mean: the kind of problem, the names, their order, their encoding."""

from typing import Any

import pytest
from datasets import ClassLabel, List, Value

from sase_hf.data.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    LabelScheme,
    is_unlabelled,
    learn_labels,
)


def encode_all(labels: LabelScheme, values: list[Any]) -> list[Any]:
    """Encode every label."""
    return [labels.encode(value) for value in values]


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
def test_learn_labels_infers_problem_type(values: list[Any], expected: str) -> None:
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
def test_learn_labels_numbers_with_a_point_are_classes_if_named(
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
def test_learn_labels_orders_names_by_number_or_alphabet(
    values: list[Any], expected: tuple[str, ...]
) -> None:
    """The order decides the ids that a checkpoint keeps, so it must not depend on the rows'."""
    kind = MULTI_LABEL if isinstance(values[0], list) else SINGLE_LABEL
    assert learn_labels(values, kind).names == expected
    assert learn_labels(values[::-1], kind).names == expected


def test_learn_labels_prefers_given_names_to_those_of_the_dataset() -> None:
    """`label_names` fixes the order; else the data set's own order, unused names included."""
    assert learn_labels(["b"], label_names=["b", "a"], class_names=["a", "b"]).names == ("b", "a")
    assert learn_labels(["b"], class_names=["c", "b", "a"]).names == ("c", "b", "a")


def test_learn_labels_whole_numbers_are_positions_in_given_words() -> None:
    """Many files hold ids and no names; the names are then given in the order of the ids."""
    labels = learn_labels([0, "1"], label_names=["negative", "positive"])
    assert encode_all(labels, [0, "1", 1.0, "negative"]) == [0, 1, 1, 0]
    assert labels.problem_type == SINGLE_LABEL


def test_learn_labels_whole_numbers_are_names_where_names_are_numbers() -> None:
    """Stars 1 to 3 would otherwise be read as the positions 1 to 3."""
    labels = learn_labels([1, 2, 3], label_names=["1", "2", "3"])
    assert encode_all(labels, [1, "2", 3.0]) == [0, 1, 2]


def test_learn_labels_learnt_names_have_no_positions() -> None:
    """A file of ids beside a file of names is a mistake, not a convention."""
    labels = learn_labels(["no", "yes"])
    with pytest.raises(ValueError, match="1 is not one of the labels 'no', 'yes'; correct it"):
        encode_all(labels, ["no", 1])


def test_label_scheme_encodes_lists_as_a_number_per_class() -> None:
    """The multi-label loss wants floats, one for each class, and an empty list has none."""
    labels = learn_labels([["joy"], ["anger", "joy"], []])
    assert encode_all(labels, [["joy", "joy"], [], ["joy", "anger"]]) == [[0, 1], [0, 0], [1, 1]]
    assert labels.feature == List(Value("float32"))


def test_label_scheme_names_multi_label_row_that_is_not_a_list() -> None:
    """From a CSV file every row is one, and an error about missing labels would lead nowhere."""
    for values in (["joy"], [["anger"], "joy"]):
        with pytest.raises(ValueError, match=r"'joy' is not a list; .* CSV file cannot"):
            learn_labels(values, MULTI_LABEL).encode("joy")


def test_label_scheme_takes_lists_of_zeros_and_ones_as_they_are() -> None:
    """Rows of equal length that hold nothing else say for every class whether it applies."""
    labels = learn_labels([[0, 1, 1], [0, 0, 0]])
    assert labels == LabelScheme(MULTI_LABEL, ("0", "1", "2"), indicators=True)
    assert encode_all(labels, [[True, False, 1.0]]) == [[1, 0, 1]]


def test_label_scheme_lists_of_ids_are_not_zeros_and_ones() -> None:
    """Ids 0 and 1 in rows of other lengths, or of one, are ids."""
    assert encode_all(learn_labels([[0, 1], [1]]), [[1]]) == [[0, 1]]
    assert encode_all(learn_labels([[0], [1]]), [[1]]) == [[0, 1]]
    named = learn_labels([[0, 1], [1, 0]], label_names=["a", "b", "c"])
    assert encode_all(named, [[1, 0]]) == [[1, 1, 0]]


def test_label_scheme_regression_reads_numbers_in_any_notation() -> None:
    """A CSV file has only texts."""
    labels = learn_labels([1.5, 2.0])
    assert encode_all(labels, [1, "2.5", "-.5e1", 3.25]) == [1.0, 2.5, -5.0, 3.25]
    assert (labels.names, labels.feature) == (("score",), Value("float32"))


def test_label_scheme_regression_may_have_several_outputs() -> None:
    """Each has a name, as labels have."""
    labels = learn_labels([[1, 2], [3, 4]], REGRESSION)
    assert labels.names == ("score_0", "score_1")
    assert encode_all(labels, [[1, 0.5]]) == [[1.0, 0.5]]
    assert labels.feature == List(Value("float32"))


def test_label_scheme_single_label_column_is_a_class_label() -> None:
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
def test_is_unlabelled_tells_missing_labels_from_labels(
    value: Any, names: list[str] | None, expected: bool
) -> None:
    """SNLI writes "-" for no label; -1 and 0 are ordinary labels where ids have no names."""
    assert is_unlabelled(value, names) is expected


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (["a", "b"], {"label_names": ["a", "a"]}, "--label_names has a name twice: 'a', 'a'"),
        (
            ["a", "b"],
            {"problem_type": "ranking"},
            "--problem_type is 'ranking'; allowed are",
        ),
        (["a", "a"], {}, "have the labels 'a'; at least 2 are needed. Add rows"),
        ([[], []], {}, r"have the labels \(none\); at least 1 are needed"),
    ],
)
def test_learn_labels_refuses_bad_names_and_too_few(
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
        (MANY, "n0", "x", "'x' is not one of the labels 'n0', .*'n19' and 10 more; correct"),
        (MANY, "n1", {"b": 1}, r"\{'b': 1\} is a dict; a label is a text or a number"),
        (MANY, "n1", ["n1"], r"\['n1'\] is a list; a label is a text or a number"),
        (
            learn_labels(["no"], label_names=["no", "yes"]),
            1,
            2,
            "2 is not one of the labels 'no', 'yes' or their positions from 0 to 1; correct",
        ),
        (TAGS, ["a"], "a", "'a' is not a list; a multi-label problem has a list of labels"),
        (TAGS, ["a"], ["c"], "'c' is not one of the labels 'a', 'b'; correct it"),
        (FLAGS, [0, 0], [0], r"\[0\] is not a list of 2 numbers, each 0 or 1"),
        (FLAGS, [0, 0], [0, 2], r"\[0, 2\] is not a list of 2 numbers, each 0 or 1"),
        (SCORE, 1, "much", "'much' is not a finite number, which a regression needs"),
        (SCORE, 1, -100, "-100 marks targets that the loss ignores; shift"),
        (SCORE, 1, True, "True is not a finite number"),
        (SCORE, 1, float("inf"), "inf is not a finite number"),
        (SCORE, 1, [1, 2], r"\[1, 2\] has 2 value\(s\); the regression has 1 output\(s\), 'score'"),
    ],
)
def test_label_scheme_refuses_labels_without_meaning(
    labels: LabelScheme, good: Any, bad: Any, message: str
) -> None:
    labels.encode(good)
    with pytest.raises(ValueError, match=message):
        labels.encode(bad)
