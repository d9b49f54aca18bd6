"""The tokens and vectors that a new model of labels starts from: of files, or its own texts."""

import random
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
    set_up,
    train_tiny,
    weights,
    write_rows,
    write_splits,
)

from sase_hf import own_word_vectors
from sase_hf.data.tokenizer import built_settings
from sase_hf.tasks import LabelTask
from sase_hf.training.command_line import epochs_for, parse_arguments
from sase_hf.training.task import TrainingSetup

ZEBRA = {"text": "no zebra", "label": "great"}


class TaskOfFewTokens(LabelTask):
    """`LabelTask` that takes vectors of its own texts, and leaves words out, from 50 tokens on."""

    few_tokens = least_own_tokens = 50


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


@pytest.mark.parametrize(
    ("options", "is_known"),
    [({}, True), ({"min_frequency": 2}, False), ({"level": "subword"}, False)],
    ids=str,
)
def test_words_of_held_out_rows_are_known_at_last_but_change_nothing_that_hops_read(
    options: dict[str, Any], is_known: bool, tmp_path: Path
) -> None:
    rows = review_rows(60)
    files = {
        "train_file": write_rows(tmp_path / "train.jsonl", rows[:40]),
        "validation_file": write_rows(tmp_path / "held_out.jsonl", [*rows[40:], ZEBRA]),
        "test_file": write_rows(tmp_path / "new.jsonl", [{"text": "a zebra"}]),
    }
    task = parse_arguments(LabelTask, flags(**{**TINY_MODEL, **files, **options}))
    setup = task.assemble()
    before, *_ = answers(setup)
    task.know_held_out_words(setup)
    after, ids = answers(setup)
    assert torch.equal(before, after)
    assert (setup.tokenizer.get_vocab().get("zebra") in ids) is is_known
    assert setup.model.config.vocab_size == len(setup.tokenizer)


def answers(setup: TrainingSetup) -> tuple[torch.Tensor, list[int]]:
    ids = setup.tokens["test"]["input_ids"][0]
    return setup.model.eval()(torch.tensor([ids])).logits.detach(), ids


def embeddings(setup: TrainingSetup) -> torch.Tensor:
    return setup.model.get_input_embeddings().get_parameter("weight").detach()


def test_own_vectors_stand_beside_those_of_a_file(reviews: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("meal 1 2 3\ntable 0 1 0\n")
    setup = set_up(**reviews, word_vectors=[file, "own"], embedding_size=9)
    meal = embeddings(setup)[setup.tokenizer.get_vocab()["meal"]]
    assert meal[:3].tolist() == [1, 2, 3]
    assert meal[3:].norm().item() == pytest.approx(0.1 * 6**0.5, rel=1e-5)


def test_many_tokens_start_from_own_vectors(reviews: dict[str, str], tmp_path: Path) -> None:
    assert set_up(TaskOfFewTokens, **reviews).vectors_found.keys() == {"own"}
    assert not set_up(LabelTask, **reviews).vectors_found
    assert not set_up(TaskOfFewTokens, **reviews, word_vectors="none").vectors_found
    pairs = write_splits(tmp_path, pair_rows)
    assert set_up(TaskOfFewTokens, **pairs).vectors_found.keys() == {"own"}


def test_a_resumed_run_plans_the_updates_of_its_first_vectors(reviews: dict[str, str]) -> None:
    """A checkpoint holds the vectors, and does not say where they came from."""
    for task_class in (LabelTask, TaskOfFewTokens):
        task = parse_arguments(task_class, flags(**TINY_MODEL, **reviews))
        setup = task.assemble()
        resumed = replace(setup, vectors_found={})
        assert epochs_for(task, resumed) == epochs_for(task, setup)


MORE = ["A zebra sat at the table.", "Zebra!", "The lion ate the zebras."]


def more_texts(folder: Path) -> list[str]:
    """Write two files of texts without labels."""
    rows = [{"text": text} for text in MORE]
    first, second = (folder / f"{name}.jsonl" for name in ("more", "other"))
    return [write_rows(first, [*rows[:2], {"text": " "}]), write_rows(second, rows[2:])]


def test_unlabelled_texts_give_words_and_vectors(reviews: dict[str, str], tmp_path: Path) -> None:
    """One empty row among thousands of scraped texts does not end a run."""
    files = more_texts(tmp_path)
    options = {"word_vectors": "own", "min_frequency": 2, "seed": 3, "initializer_range": 0.2}
    setup = set_up(**reviews, unlabelled_file=files, **options)
    texts = [row["text"] for row in read_lines(Path(reviews["train_file"]))]
    expected, _ = own_word_vectors([*texts, *MORE], setup.tokenizer, width=6, std=0.2, seed=3)
    assert "zebra" in setup.tokenizer.get_vocab()
    assert torch.equal(embeddings(setup), expected)
    sources = [setup.rows.sources[f"unlabelled_{number}"] for number in (1, 2)]
    assert [source["rows"] for source in sources] == [2, 1]
    assert sources[1]["file"] == "other.jsonl"


def test_a_resumed_run_reads_the_same_texts_and_keeps_the_vectors(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    files, run = more_texts(tmp_path), tmp_path / "run"
    options = {"train_file": reviews["train_file"], "word_vectors": "own"}
    options |= {"max_steps": 2, "save_steps": 1}
    train_tiny(run, **options, unlabelled_file=files)
    whole = weights(run)
    options["resume_from_checkpoint"] = run / "checkpoint-1"
    train_tiny(run, **options, unlabelled_file=files)
    assert same_weights(weights(run), whole)
    with pytest.raises(ValueError, match="has unlabelled_2 = "):
        train_tiny(run, **options, unlabelled_file=files[:1])


STEMS = ["kitap", "deniz", "orman", "yaprak", "pencere", "sokak", "toprak", "yazar"]
ENDINGS = ["", "lar", "da", "larda", "im", "larim", "dan", "larimdan", "in", "larinda", "la", "sin"]


@pytest.fixture
def endings(tmp_path: Path) -> dict[str, str]:
    """A file of 80 texts whose words have endings."""
    rng = random.Random(0)

    def word() -> str:
        return rng.choice(STEMS) + rng.choice("aeiou") + rng.choice(ENDINGS) + rng.choice(ENDINGS)

    rows = [{"text": " ".join(word() for _ in range(9)), "label": "ab"[n % 2]} for n in range(80)]
    return {"train_file": write_rows(tmp_path / "endings.jsonl", rows)}


def level_of(**options: Any) -> Any:
    """Return the level of a new model's tokenizer."""
    return (built_settings(set_up(**options).tokenizer) or {}).get("level")


def test_level_is_measured_on_the_texts(endings: dict[str, str], reviews: dict[str, str]) -> None:
    assert level_of(**endings) == "subword"
    assert level_of(**endings, level="word") == "word"
    assert level_of(**reviews) == "word"


def test_level_of_pairs_and_beside_vectors_of_a_file_is_words(
    endings: dict[str, str], tmp_path: Path
) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("kitapalar 1 2 3\nkitapa 0 1 0\n")
    options = {"word_vectors": vectors, "embedding_size": None}
    assert level_of(**endings, **options) == "word"
    assert level_of(**write_splits(tmp_path, pair_rows)) == "word"
