"""What label values mean: the kind of problem, the names, their order, their encoding."""

from typing import Any

import pytest

from sase_hf.data.labels import (
    MULTI_LABEL,
    REGRESSION,
    SINGLE_LABEL,
    CellReader,
    LabelColumn,
    is_unlabelled,
)


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
    assert LabelColumn.learn(values, **options).problem_type == expected


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


def test_label_column_doubts_names_that_may_be_mistakes() -> None:
    case, missing = LabelColumn.learn(["Good", "good", "bad", "NaN", "none of these"]).doubts()
    assert case.startswith("labels that differ only in case: Good, good;")
    assert missing.startswith("labels that may mean none: NaN;")


def test_label_column_refuses_bad_names_and_too_few() -> None:
    with pytest.raises(ValueError, match=r"'4,5' may have a decimal comma; write 4\.5"):
        LabelColumn.learn(["4,5", "3,5", "2,0"])
    with pytest.raises(ValueError, match="--label_names has a name twice: 'a', 'a'"):
        LabelColumn.learn(["a", "b"], label_names=["a", "a"])
    with pytest.raises(ValueError, match="--problem_type is 'ranking'; allowed are"):
        LabelColumn.learn(["a", "b"], "ranking")
    with pytest.raises(ValueError, match="the labels 'a'; at least 2 are needed"):
        LabelColumn.learn(["a", "a"])
    for item in ("nan", "N/A", "-inf"):  # else each score would be a class
        with pytest.raises(ValueError, match=rf"numbers, but for '{item}'; write numbers as 0"):
            LabelColumn.learn(["0.5", item, "1.5"])
        assert LabelColumn.learn(["0.5", item, "1.5"], SINGLE_LABEL).problem_type == SINGLE_LABEL
    for spoilt in (
        [*range(99), "nan"],
        [f"{n / 7:.3f}%" for n in range(99)],
        [*range(99), "#REF!"],
    ):
        with pytest.raises(ValueError, match="the labels are numbers, but for '"):
            LabelColumn.learn(spoilt)
    for cells in (["b", "a\ud800"], [["b"], ["b", "a\ud800"]]):
        with pytest.raises(ValueError, match=r"^\(1, .*lone surrogate"):
            LabelColumn.learn(cells)
    prices = [str(number) for number in range(60)]
    with pytest.raises(ValueError, match="60 different whole numbers in 62 rows; add --problem_ty"):
        LabelColumn.learn(prices + prices[:2])
    assert LabelColumn.learn(prices + prices[:2], REGRESSION).problem_type == REGRESSION
    assert len(LabelColumn.learn(prices * 2).names) == 60


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        # A list that a text spells, in JSON or in Python, whatever the other cells hold.
        (["['fun', 'sad']", '["fun"]', "[]"], {}, [["fun", "sad"], ["fun"], []]),
        ([" [0, 1.5]", "[true]"], {}, [[0, 1.5], [True]]),
        (["['fun']", "[spam]"], {"problem_type": SINGLE_LABEL}, ["['fun']", "[spam]"]),
        # Of a multi-label problem, with the separator that the column has.
        (["fun; sad", "sad", "", None], {"problem_type": MULTI_LABEL}, [["fun", "sad"], ["sad"]]),
        (["a,b|c", "c"], {"problem_type": MULTI_LABEL}, [["a,b", "c"], ["c"]]),
        (["a,b", "c,d"], {"problem_type": MULTI_LABEL, "names": ["a,b"]}, [["a,b"], ["c", "d"]]),
        (["['a;b']", "c,d"], {"problem_type": MULTI_LABEL}, [["a;b"], ["c", "d"]]),
        (["fun;sad", "fun"], {"problem_type": SINGLE_LABEL}, ["fun;sad", "fun"]),
        # One class: no part of it is in another, or not every part of what has a comma and space.
        (["black/white", "red"], {}, ["black/white", "red"]),
        (["Korea, South", "Korea, North"], {}, ["Korea, South", "Korea, North"]),
        (["a;b", "a"], {"names": ["a", "a;b"]}, ["a;b", "a"]),
        ([1, 0.5, True, ["fun;sad"]], {}, [1, 0.5, True, ["fun;sad"]]),
    ],
)
def test_cell_reader_reads_several_labels_in_one_text(
    values: list[Any], options: dict[str, Any], expected: list[Any]
) -> None:
    read = CellReader(values, **{"problem_type": None, "names": (), **options}).read
    labels = [read(value) for value in values]
    assert [label for label in labels if not is_unlabelled(label)] == expected


@pytest.mark.parametrize(
    ("values", "bad", "message"),
    [
        (["fun;sad", "angry;bored"], "angry;bored", "with ';' between; add --problem_type multi_"),
        (["fun,sad", "fun,angry"], "fun,sad", "looks like several labels, with ','"),
        (["fun | sad", "sad"], "fun | sad", "'|' between; .* or --problem_type single_label_class"),
        (["business/art", "art"], "business/art", "several labels, with '/' between"),
        (["[fun, sad]"], "[fun, sad]", "looks like a list, but cannot be read"),
        (["['fun' 'sad']"], "['fun' 'sad']", "is a list without commas; write"),
    ],
)
def test_cell_reader_refuses_several_labels_as_one_class(
    values: list[str], bad: str, message: str
) -> None:
    """A class for each combination that occurs would be trained without a word."""
    read = CellReader(values, None, ()).read
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        read(bad)
