"""What labels are learnt with: a new model from vectors and sizes, or a checkpoint."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runs import (
    read_lines,
    run_tiny,
    set_up,
    train_tiny,
    weights,
    write_rows,
)

from sase_hf import build_tokenizer
from sase_hf.tasks import LabelTask
from sase_hf.training.command_line import parse_arguments


@pytest.fixture(scope="module")
def checkpoint(
    reviews: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("checkpoint") / "run"
    options = {"do_eval": True, "do_predict": True, "max_steps": 1, "linear_part": "words"}
    return folder, train_tiny(folder, **reviews, **options)


def test_setup_joins_the_vectors_and_words_of_several_files(
    reviews: dict[str, str], tmp_path: Path
) -> None:
    files = [tmp_path / "vectors.txt", tmp_path / "more.txt"]
    files[0].write_text("meal 1 2 3\nzebra 4 4 4\n")
    files[1].write_text("meal 5 6\nlion 7 8\n")
    both = set_up(**reviews, embedding_size=None, word_vectors=files)
    words = both.tokenizer.get_vocab()
    rows = both.model.get_input_embeddings().weight
    assert rows[words["meal"]].tolist() == [1, 2, 3, 5, 6]
    assert not rows[both.tokenizer.pad_token_id].any()
    assert rows[words["zebra"]][:3].tolist() == [4, 4, 4]


def test_balanced_weights_choose_the_epoch_by_macro_f1() -> None:
    """Accuracy prefers the epoch that neglects the rare labels, which the weights are for."""
    for words, metric in (([], "accuracy"), (["--class_weights=balanced"], "macro_f1")):
        task = parse_arguments(LabelTask, ["--train_file=rows.csv", *words])
        assert task.score_metric("single_label_classification") == metric


def test_setup_balances_the_classes_that_have_rows(tmp_path: Path) -> None:
    rows = [{"text": f"meal {i}", "label": label} for i, label in enumerate("abbb")]
    options = {
        "train_file": write_rows(tmp_path / "rows.jsonl", rows),
        "do_train": True,
        "label_names": ["a", "b", "none", "nothing"],
    }
    config = set_up(**options, class_weights=["balanced"]).model.config
    assert config.class_weights == [3, 1, 1, 1]
    given = set_up(**options, class_weights=["0.5", "1", "3", "1"]).model.config
    assert given.class_weights == [0.5, 1, 3, 1]


def test_setup_scales_the_targets_of_a_regression(tmp_path: Path) -> None:
    # The deviation of the latter is computed as 1e-17.
    for targets, deviation in (((1000.5, 1002.5, 1004.5), (8 / 3) ** 0.5), ((0.1,) * 200, 1)):
        rows = [{"text": "warm soup", "label": value} for value in targets]
        file = write_rows(tmp_path / "rows.jsonl", rows)
        config = set_up(do_train=True, train_file=file).model.config
        assert config.target_mean == pytest.approx((np.mean(targets),))
        assert config.target_deviation == pytest.approx((deviation,))


def test_setup_refuses_targets_that_float32_does_not_tell_apart(tmp_path: Path) -> None:
    """Of those learnt; the rounding of near ones to evaluate is far below a model's errors."""
    near, far = (
        write_rows(
            tmp_path / f"{seconds}.jsonl",
            [{"text": "warm soup", "label": 1.7e9 + seconds * row} for row in range(60)],
        )
        for seconds in (1, 5_000_000)
    )
    options = {"do_train": True, "problem_type": "regression"}
    with pytest.raises(ValueError, match=r"by up to 59 in float32.*; subtract an offset"):
        set_up(train_file=near, **options)
    set_up(train_file=far, validation_file=near, **options)


def test_setup_takes_a_ready_tokenizer(reviews: dict[str, str], tmp_path: Path) -> None:
    """One for several models; the model has the limit."""
    build_tokenizer(["meal table"]).save_pretrained(tmp_path)
    ready = set_up(**reviews, tokenizer_name=tmp_path, max_tokens=3)
    assert ready.model.config.vocab_size == len(ready.tokenizer) == 4
    assert ready.model.config.max_tokens == 3
    assert max(map(len, ready.tokens["train"]["input_ids"])) == 3


def test_checkpoint_is_evaluated_and_predicts_new_rows(
    checkpoint: tuple[Path, dict[str, Any]], reviews: dict[str, str], tmp_path: Path
) -> None:
    """Its labels and its tokenizer come with it; new rows need no label. No results are lost."""
    folder, outcome = checkpoint
    new = tmp_path / "again"
    unlabelled = [{"text": row["text"]} for row in read_lines(Path(reviews["test_file"]))]
    options: Any = {"model_name_or_path": folder, "do_eval": True, "do_predict": True}
    options["validation_file"] = reviews["validation_file"]
    options["test_file"] = write_rows(tmp_path / "new.jsonl", unlabelled)
    again = run_tiny(new, **options)
    loss = pytest.approx(outcome["metrics"]["eval_loss"], abs=1e-6)
    assert again["metrics"]["eval_loss"] == loss
    first, second = (
        [line["predicted_label"] for line in read_lines(run / "predictions.jsonl")]
        for run in (folder, new)
    )
    assert first == second
    with pytest.raises(ValueError, match="again is not empty"):
        run_tiny(new, **options)


def test_checkpoint_is_fine_tuned_on_other_labels(
    checkpoint: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """The output layer is new, the encoder is not, and the config changes where weights allow."""
    folder, _ = checkpoint
    file = write_rows(tmp_path / "rows.jsonl", [{"text": x, "label": x} for x in ("yes", "no")])
    options = {"model_name_or_path": folder, "embedding_size": None, "penalty_coef": 0.25}
    options |= {"ignore_mismatched_sizes": True, "do_train": True}
    model = set_up(train_file=file, **options).model
    assert len(model.state_dict()["classifier.output.weight"]) == 2
    name = "encoder.embeddings.weight"
    assert torch.equal(model.state_dict()[name], weights(folder)[name])
    assert list(model.config.id2label.values()) == ["no", "yes"]
    assert model.config.penalty_coef == 0.25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_hops": 4}, "--num_hops is 4, but the checkpoint was made with 3"),
        ({"text_column_names": "text,label"}, r"reads 1 text\(s\) a row, but --text_column_names"),
        ({"vocab_size": 9, "word_vectors": "v.txt"}, "--vocab_size, --word_vectors shape a new"),
    ],
)
def test_checkpoint_refuses_flags_that_contradict_it(
    options: dict[str, Any],
    message: str,
    checkpoint: tuple[Path, dict[str, Any]],
    reviews: dict[str, str],
) -> None:
    """A flag without effect would mislead."""
    options |= {"model_name_or_path": checkpoint[0], "embedding_size": None}
    with pytest.raises(ValueError, match=message):
        set_up(**reviews, **options)
