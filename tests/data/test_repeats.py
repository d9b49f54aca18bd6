"""Texts that stand in several rows are counted, whatever task reads them."""

from pathlib import Path
from typing import Any

import pytest
from rows import write_jsonl

from sase_hf.data.arguments import DataArguments, PairArguments
from sase_hf.data.rows import load_rows

TRAIN = [{"text": f"text number {index}", "label": "ab"[index % 2]} for index in range(10)]


def files_of(folder: Path, **splits: list[dict[str, Any]]) -> dict[str, str]:
    return {
        f"{name}_file": str(write_jsonl(folder / f"{name}.jsonl", rows))
        for name, rows in splits.items()
    }


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelname == "WARNING"]


def test_load_rows_counts_texts_of_a_split_in_an_earlier_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Results on texts that were trained on say nothing about new ones."""
    new = [{"text": f"new text {index}", "label": "ab"[index % 2]} for index in range(4)]
    other_label = {"text": TRAIN[1]["text"], "label": "a"}
    load_rows(
        DataArguments(
            **files_of(
                tmp_path,
                train=TRAIN,
                validation=[*TRAIN[2:4], other_label, *new],
                test=[{"text": row["text"]} for row in (TRAIN[5], new[0])],
            )
        )
    )
    overlaps = [line.partition(":")[0] for line in warnings_of(caplog)]
    assert overlaps == [
        "3 of 7 validation texts are also in the training rows, 1 of them with another label",
        "1 of 2 test texts are also in the training rows",
        "1 of 2 test texts are also in the validation rows",
    ]


@pytest.mark.parametrize("text", ["TEXT number 3", " text  number\n3 ", "te\u0301xt", "t\u00e9xt"])
def test_load_rows_counts_texts_that_differ_only_in_case_blanks_and_encoding(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = [*TRAIN, {"text": "T\u00e9xt", "label": "a"}]
    files = files_of(tmp_path, train=train, validation=[{"text": text, "label": "a"}])
    load_rows(DataArguments(**files))
    assert "1 of 1 validation texts are also in the training rows" in caplog.text


@pytest.mark.parametrize(
    ("labels", "problem_type"),
    [
        ("aabb", "single_label_classification"),
        ([["a"], ["a", "b"], ["b", "c"], ["a"]], "multi_label_classification"),
        ([0.5, 1.5, 2.5, 3.5], "regression"),
    ],
)
def test_load_rows_counts_texts_with_more_than_one_label(
    labels: Any, problem_type: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No model can learn both labels of one text."""
    rows = [
        {"text": text, "label": label}
        for text, label in zip(("Fine.", "bad", "fine.", "cold"), labels, strict=True)
    ]
    load_rows(DataArguments(**files_of(tmp_path, train=rows), problem_type=problem_type))
    assert warnings_of(caplog) == [
        "1 of 3 different texts in the training rows have more than one label; "
        "correct the labels, or delete such rows"
    ]


def test_load_rows_counts_pairs_by_both_texts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A premise has several hypotheses, so that one of the two may be the same."""
    train = [{"premise": "p q r", "hypothesis": f"h {i}", "label": "ab"[i % 2]} for i in range(6)]
    validation = [{**train[0], "hypothesis": "another"}, train[1]]
    load_rows(DataArguments(**files_of(tmp_path, train=train, validation=validation)))
    assert [line.partition(":")[0] for line in warnings_of(caplog)] == [
        "1 of 2 validation texts are also in the training rows"
    ]


def test_load_rows_counts_pairs_that_are_also_trained_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train = [{"en": f"a house {index}", "fr": f"une maison {index}"} for index in range(4)]
    validation = [train[0], {"en": "une maison 1", "fr": "a house 1"}, {"en": "x", "fr": "y"}]
    files = files_of(tmp_path, train=train, validation=validation)
    load_rows(PairArguments(**files))
    assert [line.partition(":")[0] for line in warnings_of(caplog)] == [
        "1 of 3 validation texts are also in the training rows",
    ]


def test_load_rows_held_out_rows_have_no_text_of_the_training_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spellings of one text stay on one side, too."""
    rows = [
        {"text": text, "label": "ab"[index % 2]}
        for index in range(40)
        for text in (f"text {index}", f"TEXT  {index}", f" Text {index}")
    ]
    task = load_rows(DataArguments(**files_of(tmp_path, train=rows), validation_fraction=0.3))
    numbers = [{text.split()[1] for text in split["text"]} for split in task.splits.values()]
    assert numbers[0].isdisjoint(numbers[1])
    assert warnings_of(caplog) == []
