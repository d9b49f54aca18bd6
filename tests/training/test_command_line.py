"""Flags, recipes and help."""

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedConfig

from sase_hf import SelfAttentiveConfig
from sase_hf.data.columns import DataArguments
from sase_hf.tasks import LabelTask
from sase_hf.training import settings
from sase_hf.training.command_line import make_task, parse_arguments
from sase_hf.training.settings import RunArguments
from sase_hf.utils.cli import flag_words, read_recipe

FOLDER = Path(__file__).parents[2] / "scripts/recipes"
WITHOUT_ROWS = FOLDER / "paper.yaml"
SYNTHETIC = FOLDER.parents[1] / "sase_hf/commands/synthetic"
RECIPES = sorted({*FOLDER.glob("*.yaml"), *SYNTHETIC.glob("*.yaml")} - {WITHOUT_ROWS})


@pytest.fixture
def recipe(tmp_path: Path) -> Any:
    def write(text: str, name: str = "recipe.yaml") -> str:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def test_recipe_values_have_the_types_of_their_flags_which_override_them(recipe: Any) -> None:
    """YAML 1.1 reads 1e-3 as a text and the label `no` as false; here the flags say the type."""
    path = recipe(
        "learning_rate: 1e-3\nlabel_names: [no, yes, 3]\nvalidation_file:\nmax_tokens: null\n"
        "lr_scheduler_kwargs: '{\"min_lr\": 1e-5}'\nlowercase: no\nnum_hops: 5\n"
        "do_train: true\nmetric_name: [x]\n"
    )
    words = ["--num_hops", "7", "--do_train", "false", "--metric_name", "mse", "b"]
    task = parse_arguments(LabelTask, [path, *words])
    settings: Any = task.settings
    training = task.args
    assert training.learning_rate == 1e-3
    assert settings.label_names == ["no", "yes", "3"]
    assert settings.validation_file is None
    assert settings.max_tokens is None
    assert training.lr_scheduler_kwargs == {"min_lr": 1e-5}
    assert settings.lowercase is False
    assert (settings.num_hops, training.do_train) == (7, False)
    assert settings.metric_name == ["mse", "b"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.txt", "num_hops: 3", r"run\.txt is no recipe.*--train_file"),
        ("run.yaml", "- num_hops", r"recipe .*run\.yaml: .* is not a mapping"),
        ("run.yaml", "seed: 'a", r"recipe .*run\.yaml: .*quoted scalar"),
    ],
)
def test_recipe_that_cannot_be_read_is_refused(
    recipe: Any, name: str, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse_arguments(LabelTask, [recipe(text, name)])


def test_recipe_entry_that_no_flag_takes_is_named(
    recipe: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=r"no flag for .*penalty_coeff"):
        parse_arguments(LabelTask, [recipe("penalty_coeff: 3")])
    with pytest.raises(SystemExit):
        parse_arguments(LabelTask, [recipe("seed: 3.0")])
    assert "argument --seed: invalid int value: '3.0'" in capsys.readouterr().err


HELD_OUT = {"do_train", "do_eval", "calibrate", "report"}
MATCHING = {*HELD_OUT, "matching"}


@pytest.mark.parametrize(
    ("words", "chosen", "left"),
    [
        ("--train_file=a.csv", {*MATCHING, "min_frequency"}, set()),
        ("--train_file=a.csv --tokenizer_name=words", MATCHING, {"min_frequency"}),
        (
            "--dataset_name=OWNER/rows --encoder_name_or_path=bert",
            {*MATCHING, "embedding_dropout"},
            {"min_frequency"},
        ),
        ("--train_file=a.csv --model_name_or_path=runs/a", HELD_OUT, {"matching"}),
        ("--validation_file=b.csv --model_name_or_path=a", {"do_eval"}, {"do_train", "report"}),
        ("--train_file=a.csv --do_train", {"do_train"}, {"do_eval", "matching"}),
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
    if "encoder" in words:
        assert made.args.learning_rate == 0, "chosen once it is known whether the encoder learns"


@pytest.mark.parametrize(
    ("model", "rows", "folder"),
    [
        ("runs/a", "new.csv", "runs/a-new"),
        ("runs/a/model", "data/x.test.jsonl.gz", "runs/a-model-x"),
        ("OWNER/NAME", "../new.csv", "runs/OWNER-NAME-new"),
        ("/top/other/a", "/b/new.csv", "runs/top-other-a-new"),
    ],
)
def test_results_of_one_model_replace_no_results_of_another(
    model: str, rows: str, folder: str
) -> None:
    task = parse_arguments(LabelTask, [f"--model_name_or_path={model}", f"--test_file={rows}"])
    assert task.args.output_dir == folder


def test_command_without_validation_rows_trains_on_all_rows_and_evaluates_nothing() -> None:
    words = ["--train_file=a.csv", "--validation_fraction=0"]
    task = parse_arguments(LabelTask, words)
    settings, training = task.settings, task.args
    assert (training.do_train, training.do_eval, settings.report) == (True, False, False)
    assert (training.eval_strategy, settings.validation_fraction) == ("no", 0)
    validated = parse_arguments(LabelTask, [*words, "--validation_file=b.csv"]).args
    assert (validated.do_eval, validated.eval_strategy) == (True, "epoch")


def test_task_of_a_program_has_the_arguments_of_the_command_with_a_file() -> None:
    entries = {"seed": np.int64(3), "word_vectors": "own", "validation_fraction": 0}
    made = make_task(LabelTask, {**entries, "output_dir": Path("mine")}, in_memory=["train"])
    words = flag_words({**entries, "output_dir": "mine"})
    of_command = parse_arguments(LabelTask, ["--train_file=rows.csv", *words])
    assert made.settings == replace(of_command.settings, train_file=None)
    assert {**made.given, "train_file": "rows.csv"} == of_command.given
    json.dumps(made.given)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"num_hop": 3}, r"not used by the HfArgumentParser: \['num_hop'\]"),
        ({"task": "nli", "subwords": True}, "subwords .* --task nli .*; .* --task translation"),
        ({"task": "retrieval"}, "--task is 'retrieval'; here it is labels or nli"),
    ],
    ids=str,
)
def test_task_of_a_program_refuses_what_no_flag_takes(entries: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_task(LabelTask, entries)


@pytest.mark.parametrize("words", [["--nm_hops", "3"], ["run.yaml"]])
def test_parse_arguments_refuses_words_that_no_flag_takes(words: list[str]) -> None:
    with pytest.raises(ValueError, match=f"there is no flag for '{words[0]}'"):
        parse_arguments(LabelTask, ["--num_hops", "3", *words])


def test_parse_arguments_help_all_lists_the_flags_of_rows_model_and_training(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every field of the config has a flag but those that come from the rows."""
    with pytest.raises(SystemExit, match="0"):
        parse_arguments(LabelTask, ["--help_all"])
    shown = {*re.findall(r"^  --(\w+)", capsys.readouterr().out, re.M)}
    of_config = SelfAttentiveConfig.__annotations__.keys() - PreTrainedConfig.__annotations__.keys()
    of_config -= {"vocab_size", "pad_token_id", "target_mean", "target_deviation", "encoder_config"}
    of_config -= {"answer_threshold", "label_type"}
    of_data = {entry.name for entry in fields(DataArguments)}
    of_training = {entry.name for entry in fields(RunArguments) if entry.init}
    assert of_config | of_data | of_training | {"record"} <= shown


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ("epoch", 500, "epoch")),
        ("--save_steps=6", ("steps", 6, "steps")),
        ("--save_steps=2 --save_strategy=no --load_best_model_at_end=no", ("no", 2, "steps")),
    ],
)
def test_command_saves_every_save_steps_and_evaluates_whenever_it_saves(
    words: str, expected: tuple[str, float, str]
) -> None:
    run = parse_arguments(LabelTask, ["--train_file=rows.csv", *words.split()]).args
    assert (run.save_strategy, run.save_steps, run.eval_strategy) == expected
    assert run.eval_steps in (None, run.save_steps)


def test_run_arguments_train_in_the_precision_that_the_machine_is_fast_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A recipe in bfloat16 runs as it is with a GPU and without; transformers asks for use_cpu."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    for is_fast in (False, True):
        monkeypatch.setattr(settings, "is_fast_in_bfloat16", lambda use_cpu, fast=is_fast: fast)
        assert RunArguments(str(tmp_path), do_train=True).bf16 is is_fast
        assert RunArguments(str(tmp_path), do_train=True, bf16=not is_fast).bf16 is not is_fast
        assert not RunArguments(str(tmp_path)).bf16, "predictions are those of any machine"
    assert RunArguments(str(tmp_path), bf16=True).device.type == "cpu"


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_of_the_project_is_complete(path: Path) -> None:
    """A recipe states a published run in full: where it goes, its seed, its sizes, its length."""
    task = parse_arguments(LabelTask, [str(path), "--use_cpu"])
    settings, training = task.settings, task.args
    stated = read_recipe(path)
    assert {"output_dir", "seed", "num_hops", "num_train_epochs"} <= stated.keys()
    assert (training.do_train, training.do_eval) == (True, True)
    assert settings.train_file.startswith(("data/", "runs/quickstart"))
    assert training.output_dir.endswith(path.stem)


def test_recipe_without_rows_has_the_settings_of_the_paper_and_the_steps_of_a_command() -> None:
    task = parse_arguments(LabelTask, [str(WITHOUT_ROWS), "--train_file=my/reviews.csv"])
    sizes = {"lstm_hidden_size": 300, "attention_size": 350, "num_hops": 30}
    sizes["classifier_hidden_size"] = 2000
    assert {name: getattr(task.settings, name) for name in sizes} == sizes
    alone = {"classifier_hidden_size"}
    alone.add("word_vectors")  # those of the rows are trained on such texts
    of_yelp = read_recipe(FOLDER / "paper_yelp.yaml")
    stated = read_recipe(WITHOUT_ROWS)
    assert {name: of_yelp[name] for name in stated.keys() - alone} == {
        name: value for name, value in stated.items() if name not in alone
    }
    assert (task.args.do_train, task.args.do_eval) == (True, True)
    assert task.args.output_dir == "runs/reviews"


def test_run_arguments_minimise_errors(tmp_path: Path) -> None:
    """An unknown metric may be better high or low, and the score may be made of none of these."""
    for metric, greater in (("eval_mse", False), ("penalty", False), ("score", True)):
        run = RunArguments(str(tmp_path), metric_for_best_model=metric)
        assert run.greater_is_better is greater
    with pytest.raises(ValueError, match=r"is mape, which .*; add --greater_is_better"):
        RunArguments(str(tmp_path), metric_for_best_model="mape")
    run = RunArguments(str(tmp_path), metric_for_best_model="mape", greater_is_better=False)
    assert run.greater_is_better is False
    with pytest.raises(ValueError, match="mape may be better high or low; put one of accuracy"):
        make_task(LabelTask, {"metric_name": ["mape", "mse"], "metric_for_best_model": "score"})


def test_flag_words_of_a_program_are_those_of_its_values_and_lists() -> None:
    words = flag_words({"word_vectors": ("own", "b.vec"), "seed": 3, "run_name": None})
    assert words == ["--word_vectors", "own", "b.vec", "--seed=3"]
