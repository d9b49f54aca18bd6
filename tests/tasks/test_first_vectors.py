"""The word vectors that a new model of labels starts from: files, its own texts, or random ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rows import write_csv
from runs import (
    TINY_MODEL,
    flags,
    pair_rows,
    read_lines,
    review_rows,
    same_weights,
    train_tiny,
    weights,
    write_rows,
    write_splits,
)

from sase_hf import own_word_vectors
from sase_hf.tasks import LabelTask
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.defaults import chosen_by_rows
from sase_hf.training.task import TrainingSetup


class TaskOfFewTokens(LabelTask):
    """`LabelTask` that takes vectors of its own texts from 50 tokens on."""

    least_own_tokens = 50


def set_up(task_class: type[LabelTask] = LabelTask, **options: Any) -> TrainingSetup:
    return parse_arguments(task_class, flags(**{**TINY_MODEL, **options})).assemble()


def embeddings(setup: TrainingSetup) -> torch.Tensor:
    return setup.model.get_input_embeddings().get_parameter("weight").detach()


@pytest.fixture
def vector_file(tmp_path: Path) -> Path:
    path = tmp_path / "own"
    path.write_text("meal 1 2 3\ntable 0 1 0\n")
    return path


def test_own_vectors_are_learnt_from_the_training_texts(reviews: dict[str, str]) -> None:
    setup = set_up(**reviews, word_vectors="own", seed=3, initializer_range=0.2)
    texts = [row["text"] for row in read_lines(Path(reviews["train_file"]))]
    expected, share = own_word_vectors(texts, setup.tokenizer, width=6, std=0.2, seed=3)
    assert torch.equal(embeddings(setup), expected)
    assert setup.vectors_found == {"own": share}


@pytest.mark.parametrize(("asked", "width"), [(None, 103), (9, 9)])
def test_own_vectors_stand_beside_those_of_a_file(
    asked: int | None, width: int, reviews: dict[str, str], vector_file: Path
) -> None:
    setup = set_up(**reviews, word_vectors=[vector_file, "own"], embedding_size=asked)
    meal = embeddings(setup)[setup.tokenizer.get_vocab()["meal"]]
    assert meal.shape == (width,)
    assert meal[:3].tolist() == [1, 2, 3]
    assert meal[3:].norm().item() == pytest.approx(0.1 * (width - 3) ** 0.5, rel=1e-5)


def test_a_file_called_own_is_named_by_a_path(
    reviews: dict[str, str], vector_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(vector_file.parent)
    setup = set_up(**reviews, word_vectors="./own", embedding_size=None)
    assert embeddings(setup).shape[1] == 3


def test_many_tokens_of_single_texts_start_from_own_vectors(reviews: dict[str, str]) -> None:
    assert set_up(TaskOfFewTokens, **reviews).vectors_found.keys() == {"own"}
    assert not set_up(LabelTask, **reviews).vectors_found
    assert not set_up(TaskOfFewTokens, **reviews, word_vectors="none").vectors_found


def test_pairs_start_from_own_vectors_only_if_asked(tmp_path: Path) -> None:
    files = write_splits(tmp_path, pair_rows)
    assert not set_up(TaskOfFewTokens, **files).vectors_found
    assert set_up(TaskOfFewTokens, **files, word_vectors="own").vectors_found.keys() == {"own"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"word_vectors": ["none", "own"]}, r"--word_vectors are none own; .* \./none"),
        ({"word_vectors": ["v.txt", "v.txt"]}, "--word_vectors are v.txt v.txt; name each once"),
        (
            {"word_vectors": ["FILE", "own"], "embedding_size": 3},
            "--embedding_size is 3, but .* are 3 wide; leave it out",
        ),
    ],
    ids=["none", "twice", "width"],
)
def test_contradictions_about_word_vectors_are_refused(
    options: dict[str, Any], message: str, reviews: dict[str, str], vector_file: Path
) -> None:
    names = [str(vector_file) if name == "FILE" else name for name in options["word_vectors"]]
    with pytest.raises(ValueError, match=message):
        set_up(**{**reviews, **options, "word_vectors": names})


def test_a_resumed_run_plans_the_updates_of_its_first_vectors(reviews: dict[str, str]) -> None:
    """A checkpoint holds the vectors, and does not say where they came from."""
    for task_class in (LabelTask, TaskOfFewTokens):
        task = parse_arguments(task_class, flags(**TINY_MODEL, **reviews))
        setup = task.assemble()
        resumed = replace(setup, vectors_found={})
        assert chosen_by_rows(task, resumed) == chosen_by_rows(task, setup)


def test_a_resumed_run_keeps_the_vectors_of_its_checkpoint(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    options = {"word_vectors": "own", "max_steps": 2, "save_steps": 1}
    outcome = train_tiny(tmp_path / "run", train_file=reviews["train_file"], **options)
    assert outcome["record"]["word_vectors"] == ["own"]
    whole = weights(tmp_path / "run")
    checkpoint = tmp_path / "run" / "checkpoint-1"
    train_tiny(
        tmp_path / "run",
        train_file=reviews["train_file"],
        **options,
        resume_from_checkpoint=checkpoint,
    )
    assert same_weights(weights(tmp_path / "run"), whole)


def more_texts(folder: Path) -> list[str]:
    """Write two files of texts without labels, under other names of the column."""
    rows = [{"Text": "A zebra sat at the table.", "label": ""}, {"Text": "Zebra!", "label": ""}]
    other = [{"review": f"The lion ate number {number} of the zebras."} for number in range(4)]
    return [
        str(write_csv(folder / "more.csv", rows)),
        str(write_rows(folder / "other.jsonl", other)),
    ]


def test_unlabelled_texts_give_words_and_vectors(reviews: dict[str, str], tmp_path: Path) -> None:
    files = more_texts(tmp_path)
    setup = set_up(**reviews, unlabelled_file=files, word_vectors="own", min_frequency=2)
    texts = [row["text"] for row in read_lines(Path(reviews["train_file"]))]
    texts += ["A zebra sat at the table.", "Zebra!"]
    texts += [f"The lion ate number {number} of the zebras." for number in range(4)]
    expected, _ = own_word_vectors(texts, setup.tokenizer, width=6, seed=42)
    assert {"zebra", "lion"} <= setup.tokenizer.get_vocab().keys()
    assert torch.equal(embeddings(setup), expected)
    sources = setup.rows.sources
    assert {name: source["rows"] for name, source in sources.items()} == {
        "train": 48,
        "validation": 18,
        "test": 12,
        "unlabelled": 2,
        "unlabelled_2": 4,
    }
    assert sources["unlabelled_2"]["file"] == "other.jsonl"


def test_unlabelled_tokens_count_for_own_vectors(tmp_path: Path) -> None:
    train = write_rows(tmp_path / "train.jsonl", review_rows(3))
    more = write_rows(tmp_path / "more.jsonl", review_rows(20))
    assert not set_up(TaskOfFewTokens, train_file=train).vectors_found
    assert set_up(TaskOfFewTokens, train_file=train, unlabelled_file=more).vectors_found


def test_log_counts_unlabelled_texts(reviews: dict[str, str], tmp_path: Path) -> None:
    words = flags(**TINY_MODEL, **reviews, unlabelled_file=more_texts(tmp_path))
    task = parse_arguments(LabelTask, words)
    assert "unlabelled: 6 texts" in list(task.describe(task.assemble()))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model_name_or_path", "run", "is for .* --model_name_or_path run has its"),
        ("encoder_name_or_path", "bert", "is for .* --encoder_name_or_path bert has its"),
    ],
)
def test_unlabelled_texts_are_refused_where_no_words_and_vectors_come_from_them(
    name: str, value: str, message: str, reviews: dict[str, str]
) -> None:
    options = {"unlabelled_file": "more.csv", name: value}
    task = parse_arguments(LabelTask, flags(**TINY_MODEL, **reviews, **options))
    with pytest.raises(ValueError, match=f"--unlabelled_file .*{message}"):
        task.load_rows()


def test_unlabelled_texts_are_refused_for_pairs(tmp_path: Path) -> None:
    files = write_splits(tmp_path, pair_rows)
    with pytest.raises(ValueError, match=r"--unlabelled_file is .* pairs of texts"):
        set_up(**files, unlabelled_file=more_texts(tmp_path))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([dict.fromkeys("abc", "x")], "more.jsonl: .* 'a' .* 'b' .*--text_column_names a"),
        ([{"text": None}], "1 of 1 rows of .*more.jsonl"),
        ([], "more.jsonl has no rows"),
    ],
    ids=["unclear", "missing", "empty"],
)
def test_unlabelled_rows_without_texts_are_refused(
    rows: list[dict[str, Any]], message: str, reviews: dict[str, str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "more.jsonl", rows)
    with pytest.raises(ValueError, match=message):
        set_up(**reviews, unlabelled_file=path)


@pytest.mark.parametrize(
    ("rows", "texts", "said"),
    [
        # One empty row among thousands of scraped texts does not end a run.
        (
            [{"text": "a"}, {"text": " "}, {"text": None}, {"text": "b"}],
            ["a", "b"],
            "2 of 4 rows of",
        ),
        (
            [{"film": "good"}, {"film": "bad"}],
            ["good", "bad"],
            "more.jsonl: the texts are read from column 'film'",
        ),
    ],
    ids=["rows without a text", "short texts in the only column"],
)
def test_unlabelled_texts_are_read_and_what_was_done_is_said(
    rows: list[dict[str, Any]],
    texts: list[str],
    said: str,
    reviews: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = write_rows(tmp_path / "more.jsonl", rows)
    unlabelled = set_up(**reviews, unlabelled_file=path).rows.unlabelled
    assert unlabelled is not None
    assert unlabelled["text"][:] == texts
    assert said in caplog.text


def test_run_replaces_no_file_of_unlabelled_texts(reviews: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    path = write_rows(tmp_path / "run" / "predictions.jsonl", review_rows(3))
    with pytest.raises(FileExistsError, match=r"predictions\.jsonl would be replaced"):
        train_tiny(tmp_path / "run", **reviews, unlabelled_file=path, max_steps=1)


def test_a_resumed_run_reads_the_same_unlabelled_texts(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    options = {"train_file": reviews["train_file"], "max_steps": 2, "save_steps": 1}
    files = more_texts(tmp_path)
    train_tiny(tmp_path / "run", **options, unlabelled_file=files)
    again = {**options, "resume_from_checkpoint": tmp_path / "run" / "checkpoint-1"}
    with pytest.raises(ValueError, match="has unlabelled = "):
        train_tiny(tmp_path / "run", **again, unlabelled_file=files[:1])
