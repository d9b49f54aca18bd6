"""scripts/search.py: its recipe, its continuation, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from runs import QUIET, TINY_MODEL, flags, write_rows, write_splits
from script_files import load_script
from transformers import Trainer

from sase_hf import SelfAttentiveConfig
from sase_hf.tasks import LabelTask
from sase_hf.training import run
from sase_hf.training.command_line import parse_arguments

pytestmark = pytest.mark.slow

SEARCHED = {"learning_rate", "num_hops", "attention_size", "penalty_coef"}
SEARCHED |= {"embedding_dropout", "classifier_dropout"}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("poor 1 2 3 4 5 6\ngreat 6 5 4 3 2 1\n", encoding="utf-8")
    files: dict[str, Any] = {**write_splits(tmp_path), "test_file": None}
    return flags(
        **{**QUIET, **TINY_MODEL, **files},
        word_vectors=vectors,
        per_device_train_batch_size=16,
        num_train_epochs=2,
        eval_strategy="epoch",
        output_dir=tmp_path / "search",
    )


def search(*words: str) -> None:
    load_script("search").main(list(words))


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "search" / "trials.json").read_text())
    return record


def test_search_writes_a_recipe_that_repeats_its_best_trial(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe also states the word vectors and all else that scripts/train.py needs."""
    search(*command, "--trials", "3")
    lines = capsys.readouterr().out.splitlines()
    printed = dict(line.split(maxsplit=1) for line in lines)
    searched = record_of(tmp_path)
    trials = searched["trials"]
    assert [(trial["number"], trial["state"]) for trial in trials] == [
        (number, "complete") for number in range(3)
    ]
    best = trials[int(printed["trial"])]
    assert best["value"] == max(trial["value"] for trial in trials)
    assert printed["accuracy"] == f"{best['value']:.4g}"

    recipe = tmp_path / "search" / "best.yaml"
    assert printed["recipe"] == str(recipe)
    entries = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    assert best["settings"].keys() == SEARCHED
    assert entries | best["settings"] == entries
    outcome = run(parse_arguments(LabelTask, [str(recipe), *flags(**QUIET)]))
    assert outcome["metrics"]["eval_accuracy"] == best["value"]
    for name in ("split", "seed", "sources", "versions", "hardware", "code"):
        assert searched[name] == outcome["record"][name]


def test_search_continues_after_a_stop(command: list[str], tmp_path: Path) -> None:
    """What was tried stays; what a kill left unfinished does not count; nothing is drawn twice."""
    search(*command, "--trials", "1")
    (first,) = record_of(tmp_path)["trials"]
    storage = f"sqlite:///{tmp_path / 'search' / 'search.db'}"
    study = optuna.load_study(study_name="search", storage=storage)
    study.ask()  # as if it had been killed
    study.tell(study.ask(), state=optuna.trial.TrialState.FAIL)  # as Ctrl-C before its first draw
    search(*command, "--trials", "3")
    trials = record_of(tmp_path)["trials"]
    assert trials[0] == first
    assert trials[1] == {"number": 2, "state": "fail", "value": None, "settings": {}}
    assert trials[2]["number"] == 3
    assert trials[2]["settings"] != first["settings"]
    with pytest.raises(SystemExit, match=r"began with another value of --num_train_epochs; give"):
        search(*command, "--num_train_epochs", "3", "--trials", "4")


def test_search_of_a_regression_survives_a_trial_that_diverges(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some settings always do; only if all do is there no answer."""
    rows = [{"text": f"a great meal {i}", "label": i / 4} for i in range(24)]
    file = write_rows(tmp_path / "rows.jsonl", rows)
    command += [f"--train_file={file}", f"--validation_file={file}"]
    step, calls = Trainer.training_step, []

    def diverge_at_first(*args: Any) -> Any:
        calls.append(args)
        return step(*args) * (float("nan") if len(calls) == 1 else 1)

    monkeypatch.setattr(Trainer, "training_step", diverge_at_first)
    with pytest.raises(SystemExit, match=r"no trial has a result; see .*trials\.json"):
        search(*command, "--trials", "1")
    search(*command, "--trials", "2")
    record = record_of(tmp_path)
    assert [trial["state"] for trial in record["trials"]] == ["fail", "complete"]
    assert record["metric"] == "mse"
    assert record["arguments"]["greater_is_better"] is False


def test_search_judges_a_trial_by_its_best_evaluation(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recipe keeps the best model of a run, so later epochs must not lower its value."""
    evaluate, scores = Trainer.evaluate, iter([0.25, 0.75, 0.5])

    def pretend(*args: Any, **kwargs: Any) -> dict[str, float]:
        return {**evaluate(*args, **kwargs), "eval_accuracy": next(scores)}

    monkeypatch.setattr(Trainer, "evaluate", pretend)
    search(*command, "--trials", "1", "--num_train_epochs", "3")
    assert [trial["value"] for trial in record_of(tmp_path)["trials"]] == [0.75]
    recipe = yaml.safe_load((tmp_path / "search" / "best.yaml").read_text(encoding="utf-8"))
    assert recipe["save_strategy"] == recipe["eval_strategy"] == "epoch"
    assert recipe["load_best_model_at_end"] is True


def test_sample_settings_draws_fields_that_the_pooling_uses() -> None:
    for pooling, left_out in (
        ("self_attention", set()),
        ("generalized", {"penalty_coef"}),
        ("max", {"penalty_coef", "num_hops", "attention_size"}),
    ):
        config = SelfAttentiveConfig(pooling=pooling)
        settings = load_script("search").sample_settings(optuna.create_study().ask(), config)
        assert settings.keys() == SEARCHED - left_out
        del settings["learning_rate"]
        SelfAttentiveConfig(pooling=pooling, **settings)


def test_search_refuses_in_one_line_and_writes_nothing(command: list[str], tmp_path: Path) -> None:
    for words, message in (
        ("--model_name_or_path=x", r"^search\.py: --model_name_or_path is given, but"),
        ("--encoder_name_or_path=x", r"--encoder_name_or_path is given, but a search builds"),
        ("--load_best_model_at_end", r"contains the penalty; .* such as --metric_for_be"),
        ("--metric_name=some/metric", r"--metric_name needs --metric_for_best_model"),
    ):
        with pytest.raises(SystemExit, match=message):
            search(*command, words)
    assert not (tmp_path / "search").exists()
