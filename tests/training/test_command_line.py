"""Flags, recipes and help."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sase_hf.tasks import LabelTask
from sase_hf.training import settings
from sase_hf.training.command_line import make_task, parse_arguments
from sase_hf.training.settings import RunArguments
from sase_hf.utils.cli import flag_words


def test_recipe_values_have_the_types_of_their_flags_which_override_them(tmp_path: Path) -> None:
    """YAML 1.1 reads 1e-3 as a text and the label `no` as false; here the flags say the type."""
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "learning_rate: 1e-3\nlabel_names: [no, yes, 3]\nvalidation_file:\n"
        "lr_scheduler_kwargs: '{\"min_lr\": 1e-5}'\nlowercase: no\nnum_hops: 5\n"
    )
    task = parse_arguments(LabelTask, [str(path), "--num_hops", "7"])
    settings: Any = task.settings
    assert task.args.learning_rate == 1e-3
    assert task.args.lr_scheduler_kwargs == {"min_lr": 1e-5}
    assert settings.label_names == ["no", "yes", "3"]
    assert settings.validation_file is None
    assert settings.lowercase is False
    assert settings.num_hops == 7


def test_what_no_flag_takes_is_refused_in_a_recipe_a_program_and_the_command(
    tmp_path: Path,
) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("penalty_coeff: 3")
    with pytest.raises(ValueError, match=r"no flag for .*penalty_coeff"):
        parse_arguments(LabelTask, [str(path)])
    with pytest.raises(ValueError, match=r"\['num_hop'\]"):
        make_task(LabelTask, {"num_hop": 3})
    with pytest.raises(ValueError, match=r"subwords .* --task translation"):
        make_task(LabelTask, {"task": "nli", "subwords": True})
    with pytest.raises(ValueError, match="there is no flag for '--nm_hops'"):
        parse_arguments(LabelTask, ["--nm_hops", "3"])


HELD_OUT = {"do_train", "learning_rate", "do_eval", "calibrate", "report"}


@pytest.mark.parametrize(
    ("words", "chosen", "left"),
    [
        ("--train_file=a.csv", {*HELD_OUT, "matching", "min_frequency"}, set()),
        ("--train_file=a.csv --tokenizer_name=words", HELD_OUT, {"min_frequency"}),
        ("--train_file=a.csv --model_name_or_path=runs/a", HELD_OUT, {"matching"}),
        ("--validation_file=b.csv --model_name_or_path=a", {"do_eval"}, {"do_train", "report"}),
        ("--train_file=a.csv --do_train", {"do_train"}, {"do_eval", "matching"}),
        ("--train_file=a.csv --validation_fraction=0", {"calibrate"}, {"do_eval", "report"}),
    ],
)
def test_command_that_names_no_step_takes_defaults_by_its_rows_and_model(
    words: str, chosen: set[str], left: set[str]
) -> None:
    """A flag overrides its default, also by the default of transformers."""
    made = parse_arguments(LabelTask, [*words.split(), "--warmup_steps=0"])
    assert chosen <= made.given.keys()
    assert not left & made.given.keys()
    assert made.args.warmup_steps == 0


def test_folder_of_results_has_the_names_of_model_and_file() -> None:
    words = ["--model_name_or_path=/top/other/a", "--test_file=/b/new.2024.csv.gz"]
    assert parse_arguments(LabelTask, words).args.output_dir == "runs/a-new.2024"


def test_command_without_validation_rows_trains_on_all_rows_and_evaluates_nothing() -> None:
    task = parse_arguments(LabelTask, ["--train_file=a.csv", "--validation_fraction=0"])
    settings, training = task.settings, task.args
    assert (training.do_train, training.do_eval, settings.report) == (True, False, False)
    assert (training.eval_strategy, settings.validation_fraction) == ("no", 0)


def test_task_of_a_program_has_the_arguments_of_the_command_with_a_file() -> None:
    entries = {"seed": np.int64(3), "word_vectors": ("own", "b.vec"), "validation_fraction": 0}
    made = make_task(LabelTask, {**entries, "output_dir": Path("mine")}, in_memory=["train"])
    words = flag_words({**entries, "output_dir": "mine"})
    of_command = parse_arguments(LabelTask, ["--train_file=rows.csv", *words])
    assert made.settings == replace(of_command.settings, train_file=None)
    assert {**made.given, "train_file": "rows.csv"} == of_command.given
    json.dumps(made.given)


@pytest.mark.parametrize("is_fast", [False, True])
def test_run_arguments_train_in_the_precision_that_the_machine_is_fast_in(
    is_fast: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(settings, "is_fast_in_bfloat16", lambda _: is_fast)
    assert RunArguments(tmp_path, do_train=True).bf16 is is_fast
    assert RunArguments(tmp_path, do_train=True, bf16=not is_fast).bf16 is not is_fast
    assert not RunArguments(tmp_path).bf16, "predictions are those of any machine"


@pytest.mark.parametrize(
    ("metric", "greater"), [("eval_mse", False), ("penalty", False), ("score", True)]
)
def test_run_arguments_minimise_errors(metric: str, greater: bool, tmp_path: Path) -> None:
    run = RunArguments(tmp_path, metric_for_best_model=metric)
    assert run.greater_is_better is greater
