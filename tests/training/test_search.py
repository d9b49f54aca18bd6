"""The search for settings: its recipe, a start after a stop, and what it refuses."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
import yaml
from checkpoints import script_main
from runs import QUIET, TINY_MODEL, flags, write_splits
from transformers import Trainer

from sase_hf import SelfAttentiveConfig
from sase_hf.training.arguments import ModelArguments, RunArguments
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.run import run
from sase_hf.training.search_space import choose_metric, suggest

SEARCHED = {
    "learning_rate",
    "num_hops",
    "attention_size",
    "penalty_coef",
    "embedding_dropout",
    "classifier_dropout",
}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A command line for two epochs on tiny rows, with vectors for some of their words."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("poor 1 2 3 4 5 6\ngreat 6 5 4 3 2 1\n", encoding="utf-8")
    files = write_splits(tmp_path)
    del files["test_file"]
    options = {
        **QUIET,
        **TINY_MODEL,
        **files,
        "word_vectors": str(vectors),
        "per_device_train_batch_size": 16,
        "num_train_epochs": 2,
        "eval_strategy": "epoch",
        "output_dir": tmp_path / "search",
    }
    return flags(**options)


def search(*words: str) -> None:
    """Run the script."""
    script_main("search")(list(words))


def tried(command: list[str]) -> list[dict[str, Any]]:
    """Return the trials that the file in the folder of a command tells of."""
    trials: list[dict[str, Any]] = record_of(command)["trials"]
    return trials


def record_of(command: list[str]) -> dict[str, Any]:
    """Return the record in the folder of a command."""
    folder = Path(command[-1].partition("=")[2])
    record: dict[str, Any] = json.loads((folder / "trials.json").read_text())
    return record


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """What every evaluation of the test returns."""
    evaluate, seen = Trainer.evaluate, list[dict[str, float]]()

    def note(*args: Any, **kwargs: Any) -> dict[str, float]:
        seen.append(evaluate(*args, **kwargs))
        return seen[-1]

    monkeypatch.setattr(Trainer, "evaluate", note)
    return seen


def parts_of(problem_type: str, **config: Any) -> Any:
    """Return what choosing a metric reads of the parts of a run."""
    model = SimpleNamespace(config=SelfAttentiveConfig(**config))
    return SimpleNamespace(task=SimpleNamespace(problem_type=problem_type), model=model)


def test_the_best_trial_is_a_recipe_that_repeats_its_result(
    command: list[str],
    tmp_path: Path,
    evaluations: list[dict[str, float]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Settings are worth what scripts/train.py makes of them, word vectors and all."""
    search(*command, "--trials", "3")
    lines = [line for line in capsys.readouterr().out.splitlines() if line[0] != "{"]
    printed = dict(line.split(maxsplit=1) for line in lines)
    trials = tried(command)
    assert [trial["number"] for trial in trials] == [0, 1, 2]
    assert {trial["state"] for trial in trials} == {"complete"}
    assert len({json.dumps(trial["settings"]) for trial in trials}) == 3
    best = trials[int(printed["trial"])]
    assert best["value"] == max(trial["value"] for trial in trials)
    assert printed["accuracy"] == f"{best['value']:.4g}"

    recipe = tmp_path / "search" / "best.yaml"
    assert printed["recipe"] == str(recipe)
    entries = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    assert best["settings"].keys() == SEARCHED
    assert entries | best["settings"] == entries
    epochs = evaluations[2 * best["number"] :][:2]
    outcome = run(*parse_arguments([str(recipe), *flags(**QUIET)]))
    repeated = outcome["metrics"]
    assert repeated["eval_accuracy"] == best["value"]
    losses = [epoch["eval_loss"] for epoch in epochs if epoch["eval_accuracy"] == best["value"]]
    assert repeated["eval_loss"] == pytest.approx(losses[0], abs=1e-6), "18 rows agree by chance"
    searched, record = record_of(command), outcome["record"]
    for name in ("split", "seed", "sources", "versions", "hardware", "code"):
        assert searched[name] == record[name], "both say what their numbers are worth"
    assert record["config"]["num_hops"] == best["settings"]["num_hops"]


def test_a_search_that_was_stopped_goes_on(command: list[str]) -> None:
    """What was tried stays; what a kill left unfinished does not count; nothing is drawn twice."""
    search(*command, "--trials", "1")
    (first,) = tried(command)
    storage = f"sqlite:///{command[-1].partition('=')[2]}/search.db"
    study = optuna.load_study(study_name="search", storage=storage)
    study.ask()  # as if it had been killed
    study.tell(study.ask(), state=optuna.trial.TrialState.FAIL)  # as Ctrl-C before its first draw
    search(*command, "--trials", "3")
    trials = tried(command)
    assert trials[0] == first
    assert trials[1] == {"number": 2, "state": "fail", "value": None, "settings": {}}
    assert trials[2]["number"] == 3
    assert trials[2]["settings"] != first["settings"]
    with pytest.raises(SystemExit, match=r"begun with another value of --num_train_epochs; give"):
        search(*command, "--num_train_epochs", "3", "--trials", "4")


def test_a_trial_that_diverges_does_not_end_the_search(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some settings always do; only if all do is there no answer."""
    step, calls = Trainer.training_step, []

    def diverge_at_first(*args: Any) -> Any:
        calls.append(args)
        return step(*args) * (float("nan") if len(calls) == 1 else 1)

    monkeypatch.setattr(Trainer, "training_step", diverge_at_first)
    with pytest.raises(SystemExit, match=r"none of the 1 trials came to a result; .*trials\.json"):
        search(*command, "--trials", "1")
    search(*command, "--trials", "2")
    assert [trial["state"] for trial in tried(command)] == ["fail", "complete"]


def test_a_trial_is_as_good_as_its_best_evaluation(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is the model a run keeps, so that too many epochs do not speak against a setting."""
    evaluate, scores = Trainer.evaluate, iter([0.25, 0.75, 0.5])

    def pretend(*args: Any, **kwargs: Any) -> dict[str, float]:
        return {**evaluate(*args, **kwargs), "eval_accuracy": next(scores)}

    monkeypatch.setattr(Trainer, "evaluate", pretend)
    search(*command, "--trials", "1", "--num_train_epochs", "3")
    assert [trial["value"] for trial in tried(command)] == [0.75]


def test_every_setting_is_a_flag_and_within_its_bounds() -> None:
    """The recipe is read by scripts/train.py; a pooling without attention has no hops to search."""
    known = {*ModelArguments.__dataclass_fields__, *RunArguments.__dataclass_fields__}
    assert known >= SEARCHED
    drawn = optuna.create_study().ask()
    settings = suggest(drawn, SelfAttentiveConfig())
    assert settings.keys() == SEARCHED
    SelfAttentiveConfig(**{name: settings[name] for name in SEARCHED - {"learning_rate"}})
    without = suggest(optuna.create_study().ask(), SelfAttentiveConfig(pooling="max"))
    assert without.keys() == {"learning_rate", "embedding_dropout", "classifier_dropout"}
    flat = suggest(optuna.create_study().ask(), SelfAttentiveConfig(pooling="generalized"))
    assert flat.keys() == SEARCHED - {"penalty_coef"}, "its penalty is 0 as a rule"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trials", "0"], r"^search\.py: --trials is 0; it must be 1 or more"),
        (["--model_name_or_path", "x"], r"^search\.py: --model_name_or_path is x, but the models"),
        (["--classifier_hidden_size", "0"], r"^search\.py: classifier_hidden_size is 0; it must"),
        (["--gradient_accumulation_steps", "0"], r"^search\.py: --gradient_acc.* 1 or more"),
        (["--num_hop", "3"], r"^search\.py: there is no flag --num_hop; did you mean"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    command: list[str], words: list[str], message: str
) -> None:
    """Before anything is read or written."""
    with pytest.raises(SystemExit, match=message):
        search(*command, *words)
    assert not Path(command[-1].partition("=")[2]).exists()


def test_a_search_needs_rows_to_compare_on(command: list[str]) -> None:
    """Chosen on the training rows, the largest model would win."""
    words = [word for word in command if not word.startswith("--validation_file")]
    with pytest.raises(SystemExit, match=r"needs a validation split, .*_fraction 0\.1"):
        search(*words, "--load_best_model_at_end=false", "--eval_strategy=no")


def test_a_search_says_what_it_reads(command: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """A limit that cuts every text would cost all trials, without a word."""
    search(*command, "--trials=1", "--num_train_epochs=1", "--max_seq_length=2", "--do_predict")
    assert "rows: 48 train, 18 validation" in caplog.text
    assert "rows have 2 tokens, where they are cut (--max_seq_length)" in caplog.text


def test_a_search_is_one_process(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would break off different trials."""
    monkeypatch.setattr(RunArguments, "world_size", 2)
    with pytest.raises(SystemExit, match="a search runs in one process, but here are 2"):
        search(*command)


def test_the_recipe_ends_with_the_best_evaluation_of_the_trial(
    command: list[str], tmp_path: Path, evaluations: list[dict[str, float]]
) -> None:
    """A trial counts as good as its best epoch, so the run must not end with its last."""
    words = flags(pooling="max", metric_for_best_model="loss", num_train_epochs=6, trials=1)
    search(*command, *words)
    entries = yaml.safe_load((tmp_path / "search" / "best.yaml").read_text(encoding="utf-8"))
    assert entries["save_strategy"] == entries["eval_strategy"] == "epoch"
    assert entries["load_best_model_at_end"] is True
    assert entries["metric_for_best_model"] == "loss"
    losses = [metrics["eval_loss"] for metrics in evaluations]
    assert tried(command)[0]["value"] == pytest.approx(min(losses)), "no penalty, so it may be"


def test_a_slip_does_not_spoil_the_folder(command: list[str]) -> None:
    """No trial has run, so there is nothing that the right command would contradict."""
    with pytest.raises(SystemExit, match=r"metric_for_best_model is acuracy"):
        search(*command, "--metric_for_best_model", "acuracy", "--trials", "1")
    search(*command, "--metric_for_best_model", "accuracy", "--trials", "1")
    assert len(tried(command)) == 1


@pytest.mark.parametrize(
    ("problem_type", "names", "metric", "is_more_better"),
    [
        ("single_label_classification", None, "accuracy", True),
        ("multi_label_classification", None, "accuracy", True),
        ("regression", None, "mse", False),
        ("regression", ["some/metric", "pearson"], "pearson", True),
    ],
)
def test_trials_are_compared_by_the_score_of_their_task(
    problem_type: str, names: list[str] | None, metric: str, is_more_better: bool
) -> None:
    """By the loss, small coefficients of the penalty and few hops would win."""
    training_args = RunArguments(output_dir="unused", report_to="none")
    chosen = choose_metric(parts_of(problem_type), names, training_args)
    assert chosen == {"metric_for_best_model": metric, "greater_is_better": is_more_better}
    assert training_args.metric_for_best_model == metric
    assert training_args.greater_is_better is is_more_better


def test_a_search_for_a_loss_that_holds_a_drawn_penalty_is_refused(command: list[str]) -> None:
    """The flag that keeps the best model means the loss too, without a word."""
    message = r"--metric_for_best_model is loss, which --load_best.* --metric_for_best_model accur"
    for words in (flags(metric_for_best_model="loss"), flags(load_best_model_at_end=True)):
        with pytest.raises(SystemExit, match=message):
            search(*command, *words)
    assert not Path(command[-1].partition("=")[2]).exists()


def test_a_search_by_foreign_metrics_alone_must_say_which_result_counts(
    command: list[str],
) -> None:
    """Nobody knows what they call their results, and whether more is better."""
    message = r"--metric_name is some/metric, none of accuracy, .*; say it by --metric_for_best"
    with pytest.raises(SystemExit, match=message):
        search(*command, "--metric_name", "some/metric")


def test_a_search_that_was_begun_for_another_score_does_not_go_on(command: list[str]) -> None:
    """Its best trial would be the best of neither."""
    search(*command, "--trials", "1")
    with pytest.raises(SystemExit, match=r"begun with another value of --metric_for_best_model; "):
        search(*command, "--metric_for_best_model", "macro_f1", "--trials", "2")
