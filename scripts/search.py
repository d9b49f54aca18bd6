"""Search for good settings: train with one after the other, and write the best as a recipe.

    python scripts/search.py scripts/recipes/yelp5.yaml --eval_strategy epoch --trials 20
        --output_dir runs/search
    python scripts/train.py runs/search/best.yaml

All flags but --trials, by default 20, are those of scripts/train.py. Optuna searches the learning
rate, the dropouts, the hops, the attention size and the coefficient of the penalty for the best
--metric_for_best_model on the validation rows: by default accuracy, or mse for regressions. A trial
worse than the median of the others stops at its next evaluation, so give --eval_strategy epoch. The
same command continues a search. Needs Optuna: pip install 'sase_hf[optuna]'
"""

import argparse
import copy
import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from transformers import set_seed
from transformers.trainer_utils import SaveStrategy

from sase_hf.evaluation.records import describe_environment, write_record
from sase_hf.tasks import LabelTask
from sase_hf.training.arguments import changed_arguments
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.run import assemble, check_arguments
from sase_hf.utils.cli import errors_in_one_line, positive_int
from sase_hf.utils.files import check_output, write_text

RESULTS = ("search.db", "trials.json", "best.yaml")


def sample_settings(trial: Any, config: Any) -> dict[str, Any]:
    """Sample the flags of a trial, the same at each call for it.

    The penalty of generalized pooling is usually 0, so its coefficient is not searched.
    """
    drawn = {
        "learning_rate": trial.suggest_float("learning_rate", 2e-4, 5e-3, log=True),
        "embedding_dropout": trial.suggest_float("embedding_dropout", 0.0, 0.5),
        "classifier_dropout": trial.suggest_float("classifier_dropout", 0.0, 0.6),
    }
    if config.pooling == "self_attention":
        drawn["penalty_coef"] = trial.suggest_float("penalty_coef", 1e-4, 1.0, log=True)
    drawn = {name: float(f"{value:.2g}") for name, value in drawn.items()}
    if config.has_attention:
        drawn["num_hops"] = trial.suggest_int("num_hops", 1, 30, log=True)
        drawn["attention_size"] = trial.suggest_int("attention_size", 50, 350, step=50)
    return drawn


def prepare(argv: Sequence[str]) -> tuple[Any, Any, dict[str, Any]]:
    """Return a trainer, its setup, and the flags that were given or chosen."""
    steps = ["--do_train", "--do_eval"] if argv else []
    task = parse_arguments(LabelTask, [*argv, *steps], __doc__)
    run_args = task.run_args
    if find_spec("optuna") is None:
        raise ImportError("a search needs Optuna: pip install 'sase_hf[optuna]'")
    for name in ("model_name_or_path", "encoder_name_or_path"):
        if getattr(task.model_args, name) is not None:
            raise ValueError(f"--{name} is given, but a search builds new models")
    if run_args.world_size > 1:
        raise ValueError("a search runs in one process; start it without torchrun")
    if run_args.metric_for_best_model is None and run_args.metric_name is not None:
        raise ValueError("--metric_name needs --metric_for_best_model: the result to search for")
    check_arguments(task)
    for name in RESULTS:
        check_output(Path(run_args.output_dir, name), task.recipes)
    given = changed_arguments(task.model_args, task.data_args, run_args)
    given.pop("output_dir", None)
    metric = run_args.metric_for_best_model or "auto"
    run_args.metric_for_best_model = metric.removeprefix("eval_")
    run_args.save_strategy = SaveStrategy.NO  # trials are measured and forgotten
    run_args.load_best_model_at_end = run_args.push_to_hub = False
    run_args.do_predict = False  # left to the recipe
    setup, chosen = assemble(task)  # its model, never trained, is the start of all trials
    given |= chosen
    if run_args.metric_for_best_model == "loss" and setup.model.config.pooling == "self_attention":
        raise ValueError(
            "--metric_for_best_model is loss, the default of --load_best_model_at_end, but it "
            "contains the penalty; give one such as --metric_for_best_model accuracy"
        )
    for name in ("metric_for_best_model", "greater_is_better"):
        given[name] = getattr(run_args, name)
    return task.make_trainer(setup), setup, given


def open_study(run_args: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Begin or continue a study; return it with the options that name it and draw its trials."""
    import optuna

    folder = Path(run_args.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    options: Any = {
        "storage": f"sqlite:///{folder / 'search.db'}",
        "study_name": "search",
        "direction": "maximize" if run_args.greater_is_better else "minimize",
        "load_if_exists": True,
    }
    study = optuna.create_study(**options)
    earlier = study.user_attrs.get("given", given)
    if changed := {name for name in earlier | given if earlier.get(name) != given.get(name)}:
        raise ValueError(
            f"the search in {folder} began with another value of --{', --'.join(sorted(changed))}; "
            "give the same flags to continue it, or choose another --output_dir"
        )
    study.set_user_attr("given", given)
    # With the same seed, a continued search would sample its first trials again.
    sampler = optuna.samplers.TPESampler(seed=run_args.seed + len(study.trials))
    return study, options | {"sampler": sampler, "catch": (FloatingPointError,)}


def search(argv: Sequence[str], num_trials: int) -> dict[str, Any]:
    """Train trials until there are `num_trials`; return the results that `main` prints."""
    trainer, setup, given = prepare(argv)
    metric = given["metric_for_best_model"]

    def searched_arguments(trial: Any) -> dict[str, Any]:
        settings = sample_settings(trial, setup.model.config)
        trial.set_user_attr("settings", settings)
        return {"learning_rate": settings["learning_rate"]}

    def build_model(trial: Any) -> Any:
        config = copy.deepcopy(setup.model.config)
        for name, value in sample_settings(trial, config).items():
            if name != "learning_rate":
                setattr(config, name, value)
        model = type(setup.model)(config)
        if setup.vectors_found:
            vectors = setup.model.get_input_embeddings().state_dict()
            model.get_input_embeddings().load_state_dict(vectors)
        set_seed(trainer.args.seed)  # as a run does between building and training
        return model

    def best_evaluation(metrics: dict[str, float]) -> float:
        value, earlier = metrics[f"eval_{metric}"], trainer.state.best_metric
        best_of = max if given["greater_is_better"] else min
        return value if earlier is None else best_of(value, earlier)

    study, options = open_study(trainer.args, given)
    remaining = num_trials - sum(trial.state.is_finished() for trial in study.trials)
    # `model_init` is set here, because the constructor would build a model without a trial.
    trainer.model_init = build_model
    folder = Path(trainer.args.output_dir)
    try:
        if remaining > 0:
            trainer.hyperparameter_search(
                searched_arguments, best_evaluation, remaining, backend="optuna", **options
            )
        best = describe(study.best_trial)
    except ValueError as error:
        if any(trial.value is not None for trial in study.trials):
            raise
        raise ValueError(f"no trial has a result; see {folder / 'trials.json'}") from error
    finally:
        trials = [describe(trial) for trial in study.trials if trial.state.is_finished()]
        record = {"metric": metric, "split": "validation", "seed": trainer.args.seed}
        record |= {"sources": setup.rows.sources, "arguments": given, "trials": trials}
        write_record(record | describe_environment(), folder / "trials.json")
    recipe: dict[str, Any] = given | best["settings"] | {"output_dir": str(folder / "best")}
    if "eval_strategy" in given:  # a trial counts by its best evaluation, so keep that model
        recipe |= {"save_strategy": given["eval_strategy"], "load_best_model_at_end": True}
        if given["eval_strategy"] == "steps":
            recipe["save_steps"] = trainer.args.eval_steps
    text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True)
    shown = {"trial": best["number"], metric: f"{best['value']:.4g}"}
    title = f"# Trial {shown['trial']}: {metric} {shown[metric]} on the validation rows."
    write_text(folder / "best.yaml", f"{title}\n{text}")
    files = {"trials": folder / "trials.json", "recipe": folder / "best.yaml"}
    return {**shown, **best["settings"], **files}


def describe(trial: Any) -> dict[str, Any]:
    """Return the entry of a finished trial in trials.json; it may have no result."""
    result = {"number": trial.number, "state": trial.state.name.lower(), "value": trial.value}
    return {**result, "settings": trial.user_attrs.get("settings", {})}


def main(argv: Sequence[str] | None = None) -> None:
    """Search, and print the best settings and the files."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--trials", type=positive_int, default=20)
    flags, words = parser.parse_known_args(argv)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("sase_hf.training.run").setLevel(logging.INFO)
    with errors_in_one_line(__file__, on_interrupt="stopped; the same command continues"):
        for name, value in search(words, flags.trials).items():
            print(f"{name:<32}{value}")


if __name__ == "__main__":
    main()
