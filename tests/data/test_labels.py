"""What label values mean: the kind of problem, the names, their order, their encoding."""

from typing import Any

import pytest

from sase_hf.data.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    LabelColumn,
    is_unlabelled,
)

MANY = [*range(51)] * 4
IDS = [f"name {number}" for number in range(20)]


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (["good", "bad"], {}, SINGLE_LABEL),
        # Pandas writes whole numbers so beside a missing cell.
        ([1.0, 2.0], {}, SINGLE_LABEL),
        ([1.0, 2.5], {}, REGRESSION),
        ([["a"], []], {}, MULTI_LABEL),
        (["a;b", "b"], {"separator": ";"}, MULTI_LABEL),
        ([(0.25, 0.75), (1, 0)], {"names": ["a", "b"]}, SINGLE_LABEL),
        # Half stars are classes to some; naming the problem must be enough.
        ([0.5, 1.0], {"problem_type": SINGLE_LABEL}, SINGLE_LABEL),
        # And so of labels that may be quantities or ids; few of many rows are classes.
        (IDS, {"problem_type": SINGLE_LABEL}, SINGLE_LABEL),
        (IDS * 3, {}, SINGLE_LABEL),
    ],
)
def test_label_column_infers_problem_type(
    values: list[Any], options: dict[str, Any], expected: str
) -> None:
    assert LabelColumn.learn(values, **options).kind == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([10, 9, "9", 9.0, "9.0", -0.0, "0", "10"], ("0", "9", "10")),
        (["b", "B", "a", "10"], ("10", "B", "a", "b")),
        # Blanks around a label, which spreadsheets and `, ` leave, make no other class.
        (["pos", "pos ", " neg", "neg\t"], ("neg", "pos")),
        ([[2], [10, 3]], ("2", "3", "10")),
        (["False", True], ("False", "True")),
    ],
)
def test_label_column_orders_names_by_number_or_alphabet(
    values: list[Any], expected: tuple[str, ...]
) -> None:
    """The order decides the ids that a checkpoint keeps, so it must not depend on the rows'."""
    kind = MULTI_LABEL if isinstance(values[0], list) else SINGLE_LABEL
    assert LabelColumn.learn(values, kind).names == expected
    assert LabelColumn.learn(["b"], names=["b", "a"]).names == ("b", "a")


STARS = LabelColumn.learn([1, 2, 3], names=["1", "2", "3.0"])
TAGS = LabelColumn.learn([["joy"], ["anger", "joy"], []])
JOINED = LabelColumn.learn(["joy; anger", "joy", ""], separator=";")
FLAGS = LabelColumn.learn([("0", 1.0, "TRUE")], names=["a", "b", "c"])
SCORE = LabelColumn.learn([1.5, 2.0])
SOFT = LabelColumn.learn([(0.25, 0.75)], names=["no", "yes"])


@pytest.mark.parametrize(
    ("labels", "values", "expected"),
    [
        (STARS, [1, "2", 3.0, "1.0", "3.0"], [0, 1, 2, 0, 2]),
        (TAGS, [["joy", "joy"], [], ["joy", "anger"]], [[0, 1], [0, 0], [1, 1]]),
        (JOINED, ["anger;joy", "joy;", " ; ", ""], [[1, 1], [0, 1], [0, 0], [0, 0]]),
        (FLAGS, [(1.0, "0", "true"), ["b"], None], [[1, 0, 1], [0, 1, 0], None]),
        (SCORE, [1, " 2.5", "-.5e1", 3.25], [1.0, 2.5, -5.0, 3.25]),
        # A plain label, as of a correction, has a probability of 1.
        (SOFT, [(0.5, 0.5), "no"], [[0.5, 0.5], [1, 0]]),
    ],
)
def test_label_column_encodes_labels_for_the_loss(
    labels: LabelColumn, values: list[Any], expected: list[Any]
) -> None:
    assert [labels.encode(value) for value in values] == expected


def test_is_unlabelled_tells_missing_labels_from_labels() -> None:
    assert all(is_unlabelled(value) for value in (None, float("nan"), "  "))
    assert not any(map(is_unlabelled, (-1, 0, "None", "NA", "-", [])))


@pytest.mark.parametrize(
    ("labels", "bad", "message"),
    [
        (LabelColumn.learn(["no", "yes"]), 1, r"1 fits no single_label_.* of \('no', 'yes'\)"),
        (FLAGS, (0, 0.5, 1), r"0.5, 1\) fits no multi_label"),
        (SOFT, (0.5, 0.25), r"0.25\) fits no .*sum to 1"),
        (SOFT, (-0.5, 1.5), r"1.5\) fits no"),
        (SCORE, "much", "'much' fits no regression of .'score'"),
        (SCORE, -100, "-100 fits no regression .* and not -100"),
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
        (MANY, {}, "51 different labels in 204 rows.*--problem_type regression"),
        ([[0, 1], [1, 1]], {"names": ["0", "1"]}, r"lists of labels hold \['0', '1'\]"),
        ([["a", None], ["b"]], {}, "None is a NoneType"),
    ],
)
def test_label_column_refuses_columns_that_may_be_something_else(
    cells: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LabelColumn.learn(cells, **options)


def test_label_column_decodes_the_numbers_and_labels_of_the_file() -> None:
    """Also those of more digits than float32 has."""
    for number in (0.23, 123456.789):
        assert SCORE.decode(SCORE.encode(number)) == number
    assert TAGS.decode([1, 0]) == ["anger"]
