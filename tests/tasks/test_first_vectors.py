"""The word vectors that a new model of labels starts from: files, its own texts, or random ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
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
from sase_hf.training.defaults import epochs_for
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
    few, many = (
        "once" in set_up(task_class, train_file=train_file, min_frequency=0).tokenizer.get_vocab()
        for task_class in (LabelTask, TaskOfFewTokens)
    )
    assert few
    assert not many


def embeddings(setup: TrainingSetup) -> torch.Tensor:
    return setup.model.get_input_embeddings().get_parameter("weight").detach()


def test_own_vectors_are_learnt_from_the_training_texts(reviews: dict[str, str]) -> None:
    setup = set_up(**reviews, word_vectors="own", seed=3, initializer_range=0.2)
    texts = [row["text"] for row in read_lines(Path(reviews["train_file"]))]
    expected, share = own_word_vectors(texts, setup.tokenizer, width=6, std=0.2, seed=3)
    assert torch.equal(embeddings(setup), expected)
    assert setup.vectors_found == {"own": share}


def test_own_vectors_stand_beside_those_of_a_file(reviews: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("meal 1 2 3\ntable 0 1 0\n")
    setup = set_up(**reviews, word_vectors=[file, "own"], embedding_size=9)
    meal = embeddings(setup)[setup.tokenizer.get_vocab()["meal"]]
    assert meal[:3].tolist() == [1, 2, 3]
    assert meal[3:].norm().item() == pytest.approx(0.1 * 6**0.5, rel=1e-5)


def test_many_tokens_of_single_texts_start_from_own_vectors(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    assert set_up(TaskOfFewTokens, **reviews).vectors_found.keys() == {"own"}
    assert not set_up(LabelTask, **reviews).vectors_found
    assert not set_up(TaskOfFewTokens, **reviews, word_vectors="none").vectors_found
    assert not set_up(TaskOfFewTokens, **write_splits(tmp_path, pair_rows)).vectors_found


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
    options = {"train_file": reviews["train_file"], "word_vectors": "own"}
    options |= {"max_steps": 2, "save_steps": 1}
    run = tmp_path / "run"
    assert train_tiny(run, **options)["record"]["word_vectors"] == ["own"]
    whole = weights(run)
    train_tiny(run, **options, resume_from_checkpoint=run / "checkpoint-1")
    assert same_weights(weights(run), whole)


MORE = ["A zebra sat at the table.", "Zebra!", "The lion ate the zebras."]


def more_texts(folder: Path) -> list[str]:
    """Write two files of texts without labels."""
    rows = [{"text": text} for text in MORE]
    first, second = (folder / f"{name}.jsonl" for name in ("more", "other"))
    return [write_rows(first, [*rows[:2], {"text": " "}]), write_rows(second, rows[2:])]


def test_unlabelled_texts_give_words_and_vectors(reviews: dict[str, str], tmp_path: Path) -> None:
    """One empty row among thousands of scraped texts does not end a run."""
    files = more_texts(tmp_path)
    setup = set_up(**reviews, unlabelled_file=files, word_vectors="own", min_frequency=2)
    texts = [row["text"] for row in read_lines(Path(reviews["train_file"]))]
    expected, _ = own_word_vectors([*texts, *MORE], setup.tokenizer, width=6, seed=42)
    assert "zebra" in setup.tokenizer.get_vocab()
    assert torch.equal(embeddings(setup), expected)
    sources = [setup.rows.sources[f"unlabelled_{number}"] for number in (1, 2)]
    assert [source["rows"] for source in sources] == [2, 1]
    assert sources[1]["file"] == "other.jsonl"


def test_unlabelled_tokens_count_for_own_vectors(tmp_path: Path) -> None:
    train = write_rows(tmp_path / "train.jsonl", review_rows(3))
    more = write_rows(tmp_path / "more.jsonl", review_rows(20))
    assert not set_up(TaskOfFewTokens, train_file=train).vectors_found
    assert set_up(TaskOfFewTokens, train_file=train, unlabelled_file=more).vectors_found


def test_unlabelled_texts_are_refused_where_no_words_and_vectors_come_from_them(
    reviews: dict[str, str],
) -> None:
    options = {"unlabelled_file": "more.csv", "encoder_name_or_path": "bert"}
    task = parse_arguments(LabelTask, flags(**TINY_MODEL, **reviews, **options))
    with pytest.raises(ValueError, match=r"--unlabelled_file .* --encoder_name_or_path brings"):
        task.load_rows()


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
