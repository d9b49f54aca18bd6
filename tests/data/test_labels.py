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


def test_label_column_doubts_names_that_may_be_mistakes() -> None:
    labels = LabelColumn.learn(["Good", "good", "bad", "NaN", "none of these"])
    case, missing = labels.doubts()
    assert case.startswith("labels that differ only in case: Good, good;")
    assert missing.startswith("labels that may mean none: NaN;")
    assert missing.endswith("empty such cells and add --drop_unlabelled")
    *_, missing = labels.doubts(drops_unlabelled=True)
    assert missing.endswith("empty such cells"), "the run has the flag already"
    (missing,) = LabelColumn.learn([["fun", "none"]]).doubts(drops_unlabelled=True)
    assert missing.endswith(r"write [] in their place"), "else rows without a label would go"


@pytest.mark.parametrize(
    ("rows", "problem_type", "shown"),
    [
        (["fun#sad", "fun", "mad"], None, "'fun#sad'"),
        (["fun & sad", "fun", "mad"], None, "'fun & sad'"),
        ([["fun#sad"], ["fun", "sad"]], None, "'fun#sad'"),
        (["fun;sad", "fun|sad"], MULTI_LABEL, "'fun|sad'"),
        (["fun,sad and mad", "sad", "mad"], MULTI_LABEL, "'sad and mad'"),
    ],
    ids=str,
)
def test_label_column_doubts_labels_that_hold_another_one(
    rows: list[Any], problem_type: str | None, shown: str
) -> None:
    """The cells leave open whether they are one class, or divided by a second mark."""
    (doubt,) = LabelColumn.learn(rows, problem_type).doubts()
    assert doubt.startswith(f"labels that may be several: {shown}; if they are, write their cells")


@pytest.mark.parametrize("problem_type", [SINGLE_LABEL, MULTI_LABEL])
def test_label_column_does_not_doubt_that_a_label_is_one(problem_type: str) -> None:
    names = ["New York", "York", "C", "C#", "A+", "A", "co-op", "co", "fun (a bit)", "fun", "***"]
    assert not [*LabelColumn.learn(names, problem_type).doubts()]
    assert not [*LabelColumn.learn(["fun#sad", "fun"], SINGLE_LABEL).doubts()], "the flag says so"
    labels = LabelColumn.learn(["fun#sad", "fun"], label_names=["fun#sad", "fun"])
    assert not [*labels.doubts()], "they were named"


@pytest.mark.parametrize(
    ("pair", "shown"),
    [
        ("caf\xe9 cafe\u0301", "'cafe\\u0301', 'caf\xe9'"),
        ("\uac00 \u1100\u1161", "'\\u1100\\u1161', '\uac00'"),  # Korean, composed and not
        ("ice-cream ice\u2013cream", "'ice-cream', 'ice\u2013cream'"),
        ("it's it\u2019s", "\"it's\", 'it\u2019s'"),
        ('"good" \u201cgood\u201d', "'\"good\"', '\u201cgood\u201d'"),
        ("it's it`s", "\"it's\", 'it`s'"),
        ("yes yes\u200b", r"'yes', 'yes\u200b'"),
        ("yes \ufeffyes", r"'yes', '\ufeffyes'"),
        ("yes y\u200des", r"'yes', 'y\u200des'"),
        ("1 \uff11", r"'1', '\uff11'"),
        ("1 01", "'01', '1'"),
        ("1.5 1.50", "'1.5', '1.50'"),
        ("fine \ufb01ne", r"'fine', '\ufb01ne'"),
        ("Fine \ufb01ne", r"'Fine', '\ufb01ne'"),
    ],
)
def test_label_column_doubts_labels_that_look_alike(pair: str, shown: str) -> None:
    """Each would be a class; escapes show what the eye cannot tell."""
    first, second = pair.split(" ")
    names = sorted((first, second))
    (doubt,) = LabelColumn.learn([first, second, "x"], SINGLE_LABEL).doubts()
    assert doubt.startswith(f"labels that look alike: {shown};"), names
    assert not [*LabelColumn.learn([first, "x"], SINGLE_LABEL).doubts()]


@pytest.mark.parametrize("blanks", ["ice\xa0cream", "ice  cream", "ice\u3000cream", "ice\tcream"])
def test_label_column_doubts_labels_that_differ_in_blanks(blanks: str) -> None:
    (doubt,) = LabelColumn.learn([blanks, "ice cream", "x"], SINGLE_LABEL).doubts()
    assert "labels that look alike" in doubt
    assert repr(blanks) in doubt or ascii(blanks) in doubt


def test_label_column_takes_different_labels_for_different() -> None:
    names = ["1", "10", "-1", "0.1", "a", "\xe0", "a.", "C", "C#", "C++", "9007199254740993"]
    names += ["9007199254740992", "co-op", "coop", "\u5317\u4eac", "\u6771\u4eac"]
    assert not [*LabelColumn.learn(names, SINGLE_LABEL).doubts()]


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


def test_label_column_says_that_lists_of_one_item_are_sets() -> None:
    rows = [["pos"], ["neg"], []]
    (doubt,) = LabelColumn.learn(rows).doubts()
    assert doubt.startswith("labels in lists of one item each are read as sets; --problem_type sin")
    assert not [*LabelColumn.learn(rows, MULTI_LABEL).doubts()], "it was asked for"
    assert not [*LabelColumn.learn([*rows, ["pos", "neg"]]).doubts()]


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


def test_label_column_asks_whether_many_whole_numbers_are_classes() -> None:
    prices = [str(number) for number in range(60)]
    with pytest.raises(ValueError, match="60 different whole numbers in 62 rows; add --problem_ty"):
        LabelColumn.learn(prices + prices[:2])
    assert LabelColumn.learn(prices + prices[:2], REGRESSION).kind == REGRESSION
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
        (["fun\nsad", "fun,mad"], {"problem_type": MULTI_LABEL}, [["fun", "sad"], ["fun,mad"]]),
        (["sci/fi, fun", "sad"], {"problem_type": MULTI_LABEL}, [["sci/fi", "fun"], ["sad"]]),
        (["\u559c\u3001\u60b2"], {"problem_type": MULTI_LABEL}, [["\u559c", "\u60b2"]]),
        (
            ["a#b", "b#c", "c#a"],
            {"problem_type": MULTI_LABEL},
            [["a", "b"], ["b", "c"], ["c", "a"]],
        ),
        (["C#", "C"], {"problem_type": MULTI_LABEL}, [["C#"], ["C"]]),
        (
            ["fun + C#", "fun and not-sad", "C#", "fun", "not-sad"],
            {"problem_type": MULTI_LABEL},
            [["fun", "C#"], ["fun", "not-sad"], ["C#"], ["fun"], ["not-sad"]],
        ),
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


MARKS = ["#", "\n", "\t", " ", "  ", "-", " - ", "_", ":", "+", " + ", "&", " & ", " and ", " AND "]
MARKS += [
    " / ",
    "//",
    "||",
    ", ",
    " > ",
    "->",
    "~",
    "^",
    "*",
    "@",
    "\\",
    "\u2022",
    "\u25cf",
    "\xb7",
    "\u3001",
]
MARKS += ["\uff1b", "\uff0c", "\uff5c", "\uff0f", "\uff03", "\u061b", "\u060c", " \u548c ", " und "]


@pytest.mark.parametrize("mark", MARKS)
def test_cell_reader_refuses_labels_of_other_cells_whatever_stands_between(mark: str) -> None:
    """And divides there in a multi-label problem."""
    several = f"fun{mark}very sad"
    cells = ["fun", several, "very sad", "Angry", f"angry{mark}FUN{mark}very sad"]
    for bad in (several, cells[-1]):
        with pytest.raises(ValueError, match=r"looks like several labels, with .* between; add --"):
            CellReader(cells, None, ()).read(bad)
    assert CellReader(cells, None, ()).read("very sad") == "very sad"
    read = CellReader(cells, MULTI_LABEL, ()).read
    assert (read(several), read("very sad")) == (["fun", "very sad"], ["very sad"])
    assert CellReader(cells, SINGLE_LABEL, ()).read(several) == several


@pytest.mark.parametrize(
    "names",
    [
        ["$", "$$", "$$$", "$$$$"],
        ["*", "**", "***", "****"],
        ["+", "++", "+++", "++++"],
        ["N/A", "A", "B"],
        ["(other)", "{x}", "<y>", "(please say, which) other"],
        ["New York", "York", "New Jersey"],
        ["C#", "C", "C++", "F#", "F"],
        ["not-funny", "funny", "not-sad", "sad"],
        ["very good", "good", "very bad", "bad"],
        ["ARTS & CULTURE", "ARTS", "CULTURE & ARTS"],
        ["rock and roll", "rock", "jazz"],
        ["DESC:other", "NUM:other", "NUM:date", "DESC"],
        ["comp.os", "comp.graphics", "os.x", "comp"],
        ["A", "B", "AB", "O"],
        ["A+", "A", "B+", "B"],
        ["1", "2", "-1", "+1", "10"],
        ["bug#1", "bug#2", "bug"],
        ["bora bora", "bora"],
        ["18-25", "26-35", "25", "65+"],
        [
            "\u0939\u093f\u0928\u094d\u0926\u0940",
            "\u0939",
            "\u0926\u0940",
        ],  # signs of vowels are no marks
    ],
)
def test_cell_reader_takes_a_name_of_several_parts_for_one_class(names: list[str]) -> None:
    """Unless each part is a label of other cells."""
    read = CellReader(names, None, ()).read
    assert [read(name) for name in names] == names


@pytest.mark.parametrize("problem_type", [None, MULTI_LABEL])
@pytest.mark.parametrize("cell", ["('fun', 'sad')", "{'fun', 'sad'}", '("fun", "sad")'])
def test_cell_reader_reads_tuples_and_sets_of_texts(cell: str, problem_type: str | None) -> None:
    others = ["('fun',)", "{'fun'}"]
    read = CellReader([cell, *others], problem_type, ()).read
    assert sorted(read(cell)) == ["fun", "sad"]
    assert [read(other) for other in others] == [["fun"], ["fun"]]


@pytest.mark.parametrize("problem_type", [None, MULTI_LABEL])
@pytest.mark.parametrize(
    "cell", ["{fun,sad}", "(fun, sad)", "(fun;sad)", "<fun><sad>", "{fun}{sad}", "(1,500)", "('a')"]
)
def test_cell_reader_refuses_lists_that_it_cannot_read(cell: str, problem_type: str | None) -> None:
    """Divided at the comma, they would be labels such as `{fun`."""
    with pytest.raises(ValueError, match="looks like a list, but cannot be read"):
        CellReader([cell, "fun", "x"], problem_type, ()).read(cell)
    assert CellReader([cell], SINGLE_LABEL, ()).read(cell) == cell


def test_cell_reader_takes_numbers_for_labels_of_other_cells() -> None:
    with pytest.raises(ValueError, match="looks like several labels, with '#' between"):
        CellReader([1, 2, "1#2"], None, ()).read("1#2")


def test_cell_reader_divides_no_grade_and_no_missing_value() -> None:
    cells = ["*", "**", "****", "fun/sad", "N/A", "A", "N"]
    read = CellReader(cells, MULTI_LABEL, ()).read
    assert (read("****"), read("N/A"), read("fun/sad")) == (["****"], ["N/A"], ["fun", "sad"])


def test_cell_reader_needs_little_time_for_texts_that_are_no_labels() -> None:
    """Those that repeat one word would be divided in countless ways."""
    names = [" ".join(["a"] * count) for count in range(1, 8)]
    text = f"{'a ' * 80}b"
    assert CellReader([*names, text], None, ()).read(text) == text
