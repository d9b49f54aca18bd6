"""Flags, recipes and help: what a user types must arrive, and a slip of the pen must not pass."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedConfig, TrainingArguments

from sase_hf import SelfAttentiveConfig
from sase_hf.data.arguments import DataArguments
from sase_hf.training.arguments import (
    ModelArguments,
    RunArguments,
    changed_arguments,
)
from sase_hf.training.command_line import parse_arguments, read_recipe

RECIPES = sorted(Path(__file__).parents[2].glob("scripts/recipes/*.yaml"))


@pytest.fixture
def recipe(tmp_path: Path) -> Any:
    """A function that writes a recipe and returns its path as a word of a command line."""

    def write(text: str, name: str = "recipe.yaml") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_flags_win_over_the_recipe(recipe: Any) -> None:
    """A recipe is a starting point: one flag on the command line tries something else."""
    path = recipe("num_hops: 5\nlearning_rate: 0.5\ndo_train: true\nmetric_name: [accuracy]\n")
    words = ["--num_hops", "7", "--do_train", "false", "--metric_name", "a", "b"]
    model, _, training = parse_arguments([path, *words])
    assert (model.num_hops, training.learning_rate, training.do_train) == (7, 0.5, False)
    assert training.metric_name == ["a", "b"]


def test_recipe_values_mean_what_they_look_like(recipe: Any) -> None:
    """YAML 1.1 reads 1e-3 as a text and the label `no` as false; here the flags say the type."""
    path = recipe(
        "learning_rate: 1e-3\nlabel_names: [no, yes, 3]\nvalidation_file:\nmax_seq_length: null\n"
        "lr_scheduler_kwargs: {min_lr: 1e-5}\nlowercase: no\n"
    )
    model, data, training = parse_arguments([path])
    assert training.learning_rate == 1e-3
    assert data.label_names == ["no", "yes", "3"]
    assert data.validation_file is None
    assert data.max_seq_length is None
    assert training.lr_scheduler_kwargs == {"min_lr": 1e-5}
    assert model.lowercase is False


def test_a_json_recipe_is_a_recipe(recipe: Any) -> None:
    """Programs write JSON more easily than YAML."""
    settings = {"num_hops": 4, "do_eval": True, "label_names": ["a", "b"], "record": None}
    model, data, training = parse_arguments([recipe(json.dumps(settings, indent=2), "run.json")])
    assert (model.num_hops, training.do_eval, training.record) == (4, True, None)
    assert data.label_names == ["a", "b"]


def test_a_recipe_may_build_on_another(recipe: Any, tmp_path: Path) -> None:
    """What a series of runs shares stands in one place; each file holds what is special to it."""
    (tmp_path / "sub").mkdir()
    recipe('{"num_hops": 5, "penalty_coef": 0.3, "max_seq_length": 9, "seed": 1}', "first.json")
    recipe("base: ../first.json\nnum_hops: 6\nmax_seq_length:\n", "sub/second.yaml")
    path = recipe("base: sub/second.yaml\npooling: max\nseed: 3\n", "third.yaml")
    model, data, training = parse_arguments([path, "--seed", "4"])
    assert (model.num_hops, model.penalty_coef, model.pooling) == (6, 0.3, "max")
    assert (data.max_seq_length, training.seed) == (None, 4)
    assert read_recipe(path)["seed"] == "3"
    assert "base" not in read_recipe(path)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (
            "nowhere.yaml",
            r"no recipe .*nowhere\.yaml, the base of .*recipe\.yaml; a base is a path",
        ),
        ("recipe.yaml", r"in a circle: .*recipe\.yaml -> .*recipe\.yaml"),
        ("other.yaml", r"circle: .*recipe\.yaml -> .*other\.yaml -> .*recipe\.yaml"),
        (
            "[a.yaml, b.yaml]",
            r"recipe\.yaml: base is \['a\.yaml', 'b\.yaml'\]; it must be the path",
        ),
        ("misspelt.yaml", r"misspelt\.yaml: there is no flag --num_hop; did you mean --num_hops"),
    ],
)
def test_a_base_that_cannot_be_one_is_refused(recipe: Any, base: str, message: str) -> None:
    """By the file in which it is to be mended."""
    recipe("base: recipe.yaml\n", "other.yaml")
    recipe("num_hop: 3\n", "misspelt.yaml")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        parse_arguments([recipe(f"base: {base}\n")])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nm_hops", "3"], "no flag --nm_hops; did you mean --num_hops"),
        (["--num_hop=3"], "no flag --num_hop; did you mean --num_hops"),
        (["--train-fil", "x"], "no flag --train_fil; did you mean --train_file"),
        (["--zzzzz"], "no flag --zzzzz; --help_all lists all flags"),
        (["--num_hops", "3", "run.yaml"], "unexpected 'run.yaml': a recipe comes first"),
    ],
)
def test_an_unknown_flag_is_refused_with_the_closest_one(words: list[str], message: str) -> None:
    """A misspelt flag that is ignored costs a whole training run."""
    with pytest.raises(ValueError, match=message):
        parse_arguments(words)


def test_an_unknown_recipe_key_is_refused_with_the_closest_one(recipe: Any) -> None:
    """The same in a file, which is named."""
    with pytest.raises(ValueError, match=r"recipe.yaml: there is no flag --penalty_coeff; did you"):
        parse_arguments([recipe("penalty_coeff: 0.3\n")])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run.txt", "num_hops: 3", r"no recipe: it must end in \.yaml, \.yml or \.json"),
        ("run.yaml", "num_hops: [3", "not valid YAML"),
        ("run.yaml", "- num_hops", "must hold lines of the form"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(
    recipe: Any, name: str, text: str, message: str
) -> None:
    """The first word may be a data file, or a recipe that was cut short."""
    with pytest.raises(ValueError, match=message):
        parse_arguments([recipe(text, name)])


def test_a_missing_recipe_is_named() -> None:
    """Most often the working directory is the wrong one."""
    with pytest.raises(FileNotFoundError, match=r"no recipe nowhere/run\.yaml"):
        parse_arguments(["nowhere/run.yaml"])


def test_a_wrong_choice_shows_the_right_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """The choices are those of the config, where they are declared."""
    with pytest.raises(SystemExit, match="2"):
        parse_arguments(["--pooling", "median"])
    assert "'self_attention', 'generalized', 'max', 'mean', 'last'" in capsys.readouterr().err


def test_every_field_of_the_config_is_a_flag() -> None:
    """What the config gains, the script gains; vocabulary and padding are the tokenizer's."""
    from_tokenizer = {"vocab_size", "pad_token_id"}
    own = SelfAttentiveConfig.__annotations__.keys() - PreTrainedConfig.__annotations__.keys()
    assert len(own) > 15, "the premise"
    flags = {entry.name for entry in fields(ModelArguments)}
    assert own - from_tokenizer <= flags
    given = ModelArguments(num_hops=3, vocab_size=10, lowercase=False, pooling="max")
    assert given.given_config_fields() == {"pooling": "max", "num_hops": 3}
    assert given.given_tokenizer_options() == {"vocab_size": 10, "lowercase": False}


def test_help_fits_on_a_few_screens_and_help_all_has_everything(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hundred flags of TrainingArguments bury those that one looks for."""
    texts = {}
    for word in ("--help", "--help_all"):
        with pytest.raises(SystemExit, match="0"):
            parse_arguments([word], description="What it does.")
        texts[word] = capsys.readouterr().out
    for group in ("model:", "data:", "training (transformers.TrainingArguments):"):
        assert group in texts["--help"]
    assert "What it does." in texts["--help"]
    shown = {word: set(re.findall(r"^  --(\w+)", text, re.M)) for word, text in texts.items()}
    for group in (ModelArguments, DataArguments):
        assert {entry.name for entry in fields(group)} <= shown["--help"]
    own = RunArguments.__annotations__.keys() - TrainingArguments.__annotations__.keys()
    assert own - {"_argument_group_name"} <= shown["--help"]
    assert {"output_dir", "learning_rate", "resume_from_checkpoint"} <= shown["--help"]
    assert "adam_beta1" not in shown["--help"]
    stock = {entry.name for entry in fields(TrainingArguments) if entry.init}
    assert stock <= shown["--help_all"]
    for text in texts.values():
        assert "(default: None)" not in text
        assert "Largest learning rate of the schedule. (default: 0.001)" in text


def test_column_names_are_split_at_commas() -> None:
    """As transformers' own scripts take them; a recipe may write a list instead."""
    _, comma, _ = parse_arguments(["--text_column_names", "premise, hypothesis"])
    _, several, _ = parse_arguments(["--text_column_names", "premise", "hypothesis"])
    assert comma.text_column_names == several.text_column_names == ["premise", "hypothesis"]


@pytest.mark.parametrize(
    ("metric", "greater"), [("mse", False), ("eval_mse", False), ("loss", False), ("pearson", True)]
)
def test_the_best_error_is_the_lowest(metric: str, greater: bool, tmp_path: Path) -> None:
    """Transformers takes every metric but the loss for one to be raised."""
    run = RunArguments(str(tmp_path), metric_for_best_model=metric, use_cpu=True)
    assert run.greater_is_better is greater
    assert RunArguments(
        str(tmp_path), metric_for_best_model=metric, greater_is_better=True, use_cpu=True
    ).greater_is_better


def test_bfloat16_needs_no_further_flag_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A recipe in bfloat16 runs as it is with a GPU and without; transformers asks for use_cpu."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    for name in ("bf16", "bf16_full_eval"):
        run = RunArguments(str(tmp_path), **{name: True})
        assert run.device.type == "cpu"
        assert changed_arguments(run).keys() == {"output_dir", name}, "no word of this machine"


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_that_no_token_fits_into_is_refused(limit: int) -> None:
    """At least one row is read at a time, so nothing less than one token means anything."""
    with pytest.raises(ValueError, match=rf"--max_batch_tokens is {limit}; it must be 1 or more"):
        RunArguments(max_batch_tokens=limit)


def test_changed_arguments_are_those_that_were_set_and_no_secrets(tmp_path: Path) -> None:
    """They go into a record that is published."""
    run = RunArguments(str(tmp_path), eval_strategy="epoch", hub_token="hf_x", seed=42)
    changed = changed_arguments(ModelArguments(num_hops=3), DataArguments(token="hf_y"), run)
    assert changed == {
        "num_hops": 3,
        "output_dir": str(tmp_path),
        "do_eval": True,
        "eval_strategy": "epoch",
    }
    json.dumps(changed)


def test_comparing_with_the_defaults_leaves_the_device_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every instance connects this process anew; for a GPU it would part with those on the CPU."""
    settle, devices = RunArguments.__post_init__, []

    def watched(run: RunArguments) -> None:
        devices.append("cpu" if run.use_cpu else "gpu")
        settle(run)

    monkeypatch.setattr(RunArguments, "__post_init__", watched)
    changed_arguments(RunArguments(str(tmp_path), use_cpu=True))
    assert devices == ["cpu", "cpu"]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_read(path: Path) -> None:
    """A recipe states a published run in full: where it goes, its seed, its sizes, its length."""
    _, data, training = parse_arguments([str(path), "--use_cpu"])
    stated = read_recipe(path)
    assert {"output_dir", "seed", "num_hops", "penalty_coef", "num_train_epochs"} <= stated.keys()
    assert training.do_train
    assert training.do_eval
    assert data.train_file.startswith("data/")
    assert training.output_dir == f"runs/{path.stem}"


def test_there_are_recipes() -> None:
    """The test above would pass without any."""
    assert {"yelp5", "snli", "trec"} <= {path.stem for path in RECIPES}
