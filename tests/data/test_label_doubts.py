"""What a run says of labels that may be mistakes."""

from typing import Any

import pytest

from sase_hf.data.label_doubts import label_doubts
from sase_hf.data.labels import MULTI_LABEL, SINGLE_LABEL, LabelColumn


def doubts(rows: list[Any], *problem_type: str | None, **options: Any) -> list[str]:
    return [*label_doubts(LabelColumn.learn(rows, *problem_type, **options))]


def test_label_doubts_labels_that_differ_only_in_case() -> None:
    (doubt,) = doubts(["Good", "good", "bad"])
    assert doubt.startswith("labels that differ only in case: Good, good;")


def test_label_doubts_labels_that_may_mean_none() -> None:
    labels = LabelColumn.learn(["good", "bad", "NaN", "none of these"])
    (missing,) = label_doubts(labels)
    assert missing.startswith("labels that may mean none: NaN;")
    assert missing.endswith("empty such cells and add --drop_unlabelled")
    (missing,) = label_doubts(labels, drops_unlabelled=True)
    assert missing.endswith("empty such cells"), "the run has the flag already"


def test_label_doubts_missing_labels_of_sets_are_empty_sets() -> None:
    (missing,) = label_doubts(LabelColumn.learn([["fun", "none"]]), drops_unlabelled=True)
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
def test_label_doubts_labels_that_hold_another_one(
    rows: list[Any], problem_type: str | None, shown: str
) -> None:
    """The cells leave open whether they are one class, or divided by a second mark."""
    (doubt,) = doubts(rows, problem_type)
    assert doubt.startswith(f"labels that may be several: {shown}; if they are, write their cells")


@pytest.mark.parametrize("problem_type", [SINGLE_LABEL, MULTI_LABEL])
def test_label_column_does_not_doubt_that_a_label_is_one(problem_type: str) -> None:
    names = ["New York", "York", "C", "C#", "A+", "A", "co-op", "co", "fun (a bit)", "fun", "***"]
    assert not doubts(names, problem_type)
    assert not doubts(["fun#sad", "fun"], SINGLE_LABEL), "the flag says so"
    assert not doubts(["fun#sad", "fun"], label_names=["fun#sad", "fun"]), "they were named"


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
def test_label_doubts_labels_that_look_alike(pair: str, shown: str) -> None:
    """Each would be a class; escapes show what the eye cannot tell."""
    first, second = pair.split(" ")
    names = sorted((first, second))
    (doubt,) = doubts([first, second, "x"], SINGLE_LABEL)
    assert doubt.startswith(f"labels that look alike: {shown};"), names
    assert not doubts([first, "x"], SINGLE_LABEL)


@pytest.mark.parametrize("blanks", ["ice\xa0cream", "ice  cream", "ice\u3000cream", "ice\tcream"])
def test_label_doubts_labels_that_differ_in_blanks(blanks: str) -> None:
    (doubt,) = doubts([blanks, "ice cream", "x"], SINGLE_LABEL)
    assert "labels that look alike" in doubt
    assert repr(blanks) in doubt or ascii(blanks) in doubt


def test_label_column_takes_different_labels_for_different() -> None:
    names = ["1", "10", "-1", "0.1", "a", "\xe0", "a.", "C", "C#", "C++", "9007199254740993"]
    names += ["9007199254740992", "co-op", "coop", "\u5317\u4eac", "\u6771\u4eac"]
    assert not doubts(names, SINGLE_LABEL)


def test_label_column_says_that_lists_of_one_item_are_sets() -> None:
    rows = [["pos"], ["neg"], []]
    (doubt,) = doubts(rows)
    assert doubt.startswith("labels in lists of one item each are read as sets; --problem_type sin")
    assert not doubts(rows, MULTI_LABEL), "it was asked for"
    assert not doubts([*rows, ["pos", "neg"]])
