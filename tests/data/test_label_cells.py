"""What one cell of labels spells: a label, a list of several, or none."""

from typing import Any

import pytest

from sase_hf.data.label_cells import CellReader
from sase_hf.data.label_values import is_unlabelled
from sase_hf.data.labels import MULTI_LABEL, SINGLE_LABEL

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


@pytest.mark.parametrize(
    ("cell", "labels"), [("****", ["****"]), ("N/A", ["N/A"]), ("fun/sad", ["fun", "sad"])]
)
def test_cell_reader_divides_what_is_no_grade_or_missing_value(
    cell: str, labels: list[str]
) -> None:
    cells = ["*", "**", "****", "fun/sad", "N/A", "A", "N"]
    assert CellReader(cells, MULTI_LABEL, ()).read(cell) == labels


def test_cell_reader_needs_little_time_for_texts_that_are_no_labels() -> None:
    """Those that repeat one word would be divided in countless ways."""
    names = [" ".join(["a"] * count) for count in range(1, 8)]
    text = f"{'a ' * 80}b"
    assert CellReader([*names, text], None, ()).read(text) == text
