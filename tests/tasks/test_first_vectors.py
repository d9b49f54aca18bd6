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
from sase_hf.training.command_line import epochs_for, parse_arguments
from sase_hf.training.task import TrainingSetup


class TaskOfFewTokens(LabelTask):
    """`LabelTask` that takes vectors of its own texts, and leaves words out, from 50 tokens on."""

    few_tokens = least_own_tokens = 50


def set_up(task_class: type[LabelTask] = LabelTask, **options: Any) -> TrainingSetup:
    return parse_arguments(task_class, flags(**{**TINY_MODEL, **options})).assemble()


def test_words_that_occur_once_stay_below_the_least_number_of_tokens(tmp_path: Path) -> None:
    rows = review_rows(60)
    rows[0]["text"] += " once"
    train_file = write_rows(tmp_path / "few.jsonl", rows)
    numbers = []
    for task_class in (LabelTask, TaskOfFewTokens):
        for frequency in (0, 1, 2):
            setup = set_up(task_class, train_file=train_file, min_frequency=frequency)
            numbers.append(len(setup.tokenizer))
    of_few, of_each, of_two = numbers[:3]
    assert of_few == of_each == of_two + 1
    assert numbers[3:] == [of_two, of_each, of_two]


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


def test_own_word_vectors_have_the_width_that_files_leave(
    reviews: dict[str, str], vector_file: Path
) -> None:
    options = {"word_vectors": [str(vector_file), "own"], "embedding_size": 5}
    assert set_up(**reviews, **options).model.config.embedding_size == 5


def test_a_resumed_run_plans_the_updates_of_its_first_vectors(reviews: dict[str, str]) -> None:
    """A checkpoint holds the vectors, and does not say where they came from."""
    for task_class in (LabelTask, TaskOfFewTokens):
        task = parse_arguments(task_class, flags(**TINY_MODEL, **reviews))
        setup = task.assemble()
        resumed = replace(setup, vectors_found={})
        assert epochs_for(task, resumed) == epochs_for(task, setup)


def test_a_resumed_run_keeps_the_vectors_of_its_checkpoint(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    options = {"word_vectors": "own", "max_steps": 2, "save_steps": 1}
    train_tiny(tmp_path / "run", train_file=reviews["train_file"], **options)
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
    """Write two files of texts without labels."""
    rows = [{"text": "A zebra sat at the table.", "label": ""}, {"text": "Zebra!", "label": ""}]
    other = [{"text": f"The lion ate number {number} of the zebras."} for number in range(4)]
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
        "unlabelled_1": 2,
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
    unlabelled = task.assemble().rows.unlabelled
    assert unlabelled is not None
    assert unlabelled.num_rows == 6


def test_unlabelled_texts_are_refused_where_no_words_and_vectors_come_from_them(
    reviews: dict[str, str],
) -> None:
    options = {"unlabelled_file": "more.csv", "encoder_name_or_path": "bert"}
    task = parse_arguments(LabelTask, flags(**TINY_MODEL, **reviews, **options))
    with pytest.raises(ValueError, match=r"--unlabelled_file .* --encoder_name_or_path brings"):
        task.load_rows()


def test_unlabelled_pairs_give_words(tmp_path: Path) -> None:
    more = [{"premise": "A zebra.", "hypothesis": "The lion."}]
    path = write_rows(tmp_path / "more.jsonl", more)
    rows = set_up(**write_splits(tmp_path, pair_rows), unlabelled_file=path).rows
    assert {"A zebra.", "The lion."} <= {*rows.texts_to_learn_from()}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([dict.fromkeys("abc", "x")], r"more.jsonl: Column name \['text'\]"),
        ([{"text": " "}], "more.jsonl: 1 of 1 rows"),
    ],
    ids=["another column", "missing"],
)
def test_unlabelled_rows_without_texts_are_refused(
    rows: list[dict[str, Any]], message: str, reviews: dict[str, str], tmp_path: Path
) -> None:
    path = write_rows(tmp_path / "more.jsonl", rows)
    with pytest.raises(ValueError, match=message):
        set_up(**reviews, unlabelled_file=path)


def test_unlabelled_rows_without_a_text_are_left_out(
    reviews: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One empty row among thousands of scraped texts does not end a run."""
    rows = [{"text": text} for text in ("a", " ", None, "b")]
    path = write_rows(tmp_path / "more.jsonl", rows)
    unlabelled = set_up(**reviews, unlabelled_file=path).rows.unlabelled
    assert unlabelled is not None
    assert unlabelled["text"][:] == ["a", "b"]
    assert "2 of 4 rows have" in caplog.text


def test_run_replaces_no_file_of_unlabelled_texts(reviews: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    path = write_rows(tmp_path / "run" / "predictions.jsonl", review_rows(3))
    with pytest.raises(FileExistsError, match=r"predictions\.jsonl could be replaced"):
        train_tiny(tmp_path / "run", **reviews, unlabelled_file=path, max_steps=1)


def test_a_resumed_run_reads_the_same_unlabelled_texts(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    options = {"train_file": reviews["train_file"], "max_steps": 2, "save_steps": 1}
    files = more_texts(tmp_path)
    train_tiny(tmp_path / "run", **options, unlabelled_file=files)
    again = {**options, "resume_from_checkpoint": tmp_path / "run" / "checkpoint-1"}
    with pytest.raises(ValueError, match="has unlabelled_2 = "):
        train_tiny(tmp_path / "run", **again, unlabelled_file=files[:1])
