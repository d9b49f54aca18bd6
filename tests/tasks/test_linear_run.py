"""The linear part in a run: which models have one, when it learns, and what is kept."""

from pathlib import Path
from typing import Any

import pytest
import torch
from runs import QUIET, TINY_MODEL, flags, pair_rows, review_rows, write_rows
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from sase_hf.evaluation.linear_part import WITHOUT_ROWS
from sase_hf.tasks import LabelTask
from sase_hf.tasks.labels import task as label_task
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments

STEPS = {"do_train": True, "do_eval": True, "validation_fraction": 0.3, "num_train_epochs": 1}


def set_up(train_file: Path, **options: Any) -> Any:
    options = {**TINY_MODEL, **STEPS, "train_file": train_file, **options}
    task = parse_arguments(LabelTask, flags(**options))
    setup = task.assemble()
    task.prepare(setup)
    return setup


def outcome(train_file: Path, output: Path, **options: Any) -> dict[str, Any]:
    options = {**TINY_MODEL, **STEPS, **QUIET, "train_file": train_file, **options}
    return run(parse_arguments(LabelTask, flags(**options, output_dir=output)))


@pytest.fixture
def review_file(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "reviews.jsonl", review_rows(60))


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return dict(AutoModelForSequenceClassification.from_pretrained(folder).state_dict())


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "none"),
        ({"calibrate": True}, "words_and_pairs"),
        ({"calibrate": True, "linear_part": "none"}, "none"),
        ({"linear_part": "words"}, "words"),
    ],
    ids=str,
)
def test_new_model_of_single_texts_that_is_calibrated_has_a_linear_part(
    options: dict[str, Any], kind: str, review_file: Path
) -> None:
    """A flag decides otherwise."""
    assert set_up(review_file, **options).model.config.linear_part == kind


@pytest.mark.slow
def test_run_fits_the_linear_part_of_pairs_and_records_their_scales(tmp_path: Path) -> None:
    pairs = write_rows(tmp_path / "pairs.jsonl", pair_rows(60))
    record = outcome(pairs, tmp_path / "model", calibrate=True)["record"]
    assert min(record["scale_of_hops"], record["scale_of_words"], record["scale_of_bias"]) > 0
    assert weights_of(tmp_path / "model")["linear_part.pair_weight"].shape == (3, 2**17, 3)


def test_run_without_held_out_rows_scales_the_parts_as_usual(
    review_file: Path, tmp_path: Path
) -> None:
    options = {"calibrate": True, "validation_fraction": 0, "do_eval": False}
    made = outcome(review_file, tmp_path / "model", **options)
    assert made["record"]["scale_of_hops"] == WITHOUT_ROWS.hops


@pytest.mark.parametrize(("most", "kind"), [(10_000, "words"), (10, "none")])
def test_model_of_many_labels_has_a_smaller_linear_part(
    most: int, kind: str, review_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_task, "MAX_LINEAR_WEIGHTS", most)
    assert set_up(review_file, calibrate=True).model.config.linear_part == kind


def test_training_leaves_the_linear_part_to_the_fit(review_file: Path) -> None:
    """It learns nothing by gradients, and nothing that it adds is in the loss."""
    setup = set_up(review_file, calibrate=True)
    linear_part = setup.model.linear_part
    assert not any(weight.requires_grad or weight.any() for weight in linear_part.parameters())
    linear_part.word_weight.fill_(1)
    parse_arguments(LabelTask, ["--ignore_mismatched_sizes", "--train_file=a.csv"]).prepare(setup)
    assert not linear_part.word_weight.any(), "it spoke of other labels"


@pytest.mark.slow
@pytest.mark.parametrize("has_marks", [False, True], ids=["", "words marked against"])
def test_saved_model_has_learned_the_held_out_rows_after_they_were_measured(
    has_marks: bool, tmp_path: Path
) -> None:
    """And knows their words. The training rows lack words marked against, the held-out do not."""
    marks = {"rationale_against": [[0, 3]]} if has_marks else {}
    rows = [{**row, **marks, "text": f"{row['text']} {k}"} for k, row in enumerate(review_rows(60))]
    model = tmp_path / "model"
    found = outcome(write_rows(tmp_path / "reviews.jsonl", rows), model, calibrate=True)
    assert found["record"]["learned_held_out"] is not has_marks
    weights = weights_of(model)["linear_part.word_weight"][0]
    vocabulary = AutoTokenizer.from_pretrained(model).get_vocab()
    learned = [word for word, row in vocabulary.items() if word.isdigit() and weights[row].any()]
    assert (len(learned) == 60) is not has_marks
