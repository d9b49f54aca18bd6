"""A bounded search for good settings: every trial trains a new model, the best becomes a recipe.

It is the stock `Trainer.hyperparameter_search` with Optuna, on rows, a tokenizer and word vectors
that are read once. A trial is trained as any run is, so the recipe repeats its result. What was
tried is kept in a file, from which a search that was stopped goes on.
"""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from transformers import set_seed
from transformers.trainer_utils import SaveStrategy

from ..data.arguments import DataArguments
from ..evaluation.records import describe_environment, write_record
from ..models.self_attentive.modeling_self_attentive import SelfAttentivePreTrainedModel
from ..utils.memory import keep_freed_memory
from .arguments import ModelArguments, RunArguments, changed_arguments
from .run import log_summary, make_trainer, move_label_smoothing
from .run_checks import check_arguments, check_splits
from .search_space import choose_metric, suggest
from .setup import Parts, assemble
from .trainer import SelfAttentiveTrainer

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import BaseTrial, FrozenTrial

STORAGE_NAME = "search.db"
TRIALS_NAME = "trials.json"
RECIPE_NAME = "best.yaml"
STUDY_NAME = "search"


def search(
    model_args: ModelArguments,
    data_args: DataArguments,
    training_args: RunArguments,
    num_trials: int,
) -> dict[str, Any]:
    """Train with one setting after the other, until there are so many trials.

    The folder `output_dir` holds `search.db` afterwards, Optuna's own file, from which the same
    call goes on; `trials.json`, a record with the settings and the result of every trial; and
    `best.yaml`, a recipe of all that was given and the best settings. No model is kept.

    A trial counts as good as its best evaluation. One that lags behind the median of the others is
    broken off; one that diverges has no result.

    Args:
        model_args: Which model; settings that are searched are drawn in place of those given.
        data_args: Which rows.
        training_args: How; `metric_for_best_model` is what is searched for, by default the task's
            own score: accuracy, or for regressions the squared error.
        num_trials: How many trials there shall be, those of earlier calls included.

    Returns:
        `number`, `state`, `value` and `settings` of the best trial, the name of the `metric`, and
        the paths of both files: `trials` and `recipe`.

    Raises:
        ValueError: If arguments contradict one another, the data or the search in the folder, or
            if no trial came to a result.
        OSError: If a file cannot be read or written.
        ImportError: Without Optuna.
    """
    training_args.do_train = training_args.do_eval = True
    check_arguments(model_args, training_args)
    _check(model_args, training_args)
    given = changed_arguments(model_args, data_args, training_args)
    folder = Path(given.pop("output_dir", str(training_args.output_dir)))
    given = json.loads(json.dumps(given))
    move_label_smoothing(model_args, training_args)
    _keep_no_models(training_args)
    keep_freed_memory()
    set_seed(training_args.seed)
    parts = assemble(model_args, data_args)
    training_args.do_predict = False  # left to the recipe
    check_splits(parts.task, training_args)
    log_summary(parts, model_args, data_args, training_args)
    given |= choose_metric(parts, training_args.metric_name, training_args)
    trainer = make_trainer(parts, training_args)
    study = _open_study(folder, bool(training_args.greater_is_better), given)
    running = _Search(folder, study, given, trainer, parts, bool(model_args.word_vectors))
    num_finished = sum(trial.state.is_finished() for trial in study.trials)
    if num_finished < num_trials:
        try:
            running.go_on(num_trials - num_finished)
        finally:
            running.write_trials()
    return running.write_best()


def _check(model_args: ModelArguments, training_args: RunArguments) -> None:
    """Refuse what a search cannot do."""
    try:
        import optuna  # noqa: F401
    except ImportError as reason:
        raise ImportError("a search needs Optuna: pip install 'sase_hf[optuna]'") from reason
    if model_args.model_name_or_path is not None:
        raise ValueError(
            f"--model_name_or_path is {model_args.model_name_or_path}, but the models of a search "
            "are new and of many sizes; leave the flag out"
        )
    if training_args.world_size > 1:
        raise ValueError(
            f"a search runs in one process, but here are {training_args.world_size}; start it "
            "with python alone, and train what it finds in several"
        )


def _keep_no_models(training_args: RunArguments) -> None:
    """Let trials be measured and forgotten."""
    training_args.save_strategy = SaveStrategy.NO
    training_args.load_best_model_at_end = False
    training_args.push_to_hub = False


def _open_study(folder: Path, greater_is_better: bool, given: dict[str, Any]) -> "Study":
    """Begin a search in a folder, or open the one in it if that was begun with the same flags."""
    import optuna

    folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=_storage(folder),
        study_name=STUDY_NAME,
        direction="maximize" if greater_is_better else "minimize",
        load_if_exists=True,
    )
    begun_with = study.user_attrs.get("given", given)
    names = begun_with.keys() | given.keys()
    changed = [f"--{name}" for name in names if begun_with.get(name) != given.get(name)]
    if changed:
        raise ValueError(
            f"the search in {folder} was begun with another value of {', '.join(sorted(changed))}; "
            "give the same flags to go on with it, or choose another --output_dir"
        )
    study.set_user_attr("given", given)
    return study


def _storage(folder: Path) -> str:
    return f"sqlite:///{folder / STORAGE_NAME}"


@dataclass(frozen=True)
class _Search:
    """A search, and what its trials have in common."""

    folder: Path
    study: "Study"
    given: dict[str, Any]
    trainer: SelfAttentiveTrainer
    parts: Parts  # its model is never trained: the sizes and vectors to start from
    has_vectors: bool

    @property
    def metric(self) -> str:
        """The name of what is searched for."""
        return str(self.trainer.args.metric_for_best_model).removeprefix("eval_")

    def settings(self, trial: "BaseTrial") -> dict[str, Any]:
        """Return the settings of a trial."""
        return suggest(trial, self.parts.model.config)

    def go_on(self, num_trials: int) -> None:
        """Run so many trials more."""
        import optuna

        # Given now and not at the start, where the trainer would ask for a model without a trial.
        self.trainer.model_init = self.build
        # With the same seed, a search that goes on would draw once more what it drew first.
        seed = self.trainer.args.seed + len(self.study.trials)
        try:
            self.trainer.hyperparameter_search(
                self.arguments,
                self.best_so_far,
                num_trials,
                direction=self.study.direction.name.lower(),
                backend="optuna",
                storage=_storage(self.folder),
                study_name=STUDY_NAME,
                load_if_exists=True,
                sampler=optuna.samplers.TPESampler(seed=seed),
                catch=(FloatingPointError,),
            )
        except ValueError as error:
            trials = self.study.trials
            if any(trial.state is optuna.trial.TrialState.COMPLETE for trial in trials):
                raise
            raise ValueError(
                f"none of the {len(trials)} trials came to a result; "
                f"{self.folder / TRIALS_NAME} says how each ended. Look for huge values in the "
                "word vectors or labels"
            ) from error

    def arguments(self, trial: "BaseTrial") -> dict[str, Any]:
        """Return the settings that are not the model's, before a trial begins."""
        self.write_trials()  # those before it
        return {
            name: value
            for name, value in self.settings(trial).items()
            if not hasattr(self.parts.model.config, name)
        }

    def build(self, trial: "BaseTrial") -> SelfAttentivePreTrainedModel:
        """Return a new model with the settings of a trial."""
        config = copy.deepcopy(self.parts.model.config)
        for name, value in self.settings(trial).items():
            if hasattr(config, name):
                setattr(config, name, value)
        model = type(self.parts.model)(config)
        if self.has_vectors:
            vectors: Any = self.parts.model.get_input_embeddings()
            model.get_input_embeddings().load_state_dict(vectors.state_dict())
        set_seed(self.trainer.args.seed)  # as a run does between building and training
        return model

    def best_so_far(self, metrics: dict[str, float]) -> float:
        """Return the metric of the best evaluation of the running trial, the last one included."""
        value, earlier = metrics[f"eval_{self.metric}"], self.trainer.state.best_metric
        if earlier is None:
            return value
        return (max if self.trainer.args.greater_is_better else min)(value, earlier)

    def write_trials(self) -> None:
        """Write what has been tried; code, versions and hardware are those of the newest trials."""
        record = {
            "metric": self.metric,
            "split": "validation",
            "seed": self.trainer.args.seed,
            "sources": self.parts.task.sources,
            "arguments": self.given,
            "trials": [
                self.tell(trial) for trial in self.study.trials if trial.state.is_finished()
            ],
            **describe_environment(),
        }
        write_record(record, self.folder / TRIALS_NAME)

    def tell(self, trial: "FrozenTrial") -> dict[str, Any]:
        """Return what came of a trial."""
        ended = {"number": trial.number, "state": trial.state.name.lower(), "value": trial.value}
        # One that was interrupted before its first draw has none, and would draw them now.
        return {**ended, "settings": self.settings(trial) if trial.params else {}}

    def keeping_the_best(self) -> dict[str, Any]:
        """Return the flags by which a run ends with its best model, as a trial counts."""
        args: Any = self.trainer.args
        if args.eval_strategy == SaveStrategy.NO:
            return {}
        strategy = args.eval_strategy.value
        return {
            "save_strategy": strategy,
            "load_best_model_at_end": True,
            "metric_for_best_model": self.metric,
            **({"save_steps": args.eval_steps} if strategy == "steps" else {}),
        }

    def write_best(self) -> dict[str, Any]:
        """Write the recipe and return what `search` does."""
        best = self.tell(self.study.best_trial)
        path = self.folder / RECIPE_NAME
        entries = {**self.given, **self.keeping_the_best(), **best["settings"]}
        entries["output_dir"] = str(self.folder / "best")
        text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True)
        title = (
            f"# Trial {best['number']}: {self.metric} {best['value']:.4g} on the validation rows."
        )
        path.write_text(f"{title}\n{text}", encoding="utf-8")
        files = {"trials": str(self.folder / TRIALS_NAME), "recipe": str(path)}
        return {**best, "metric": self.metric, **files}


__all__ = ["search", "suggest"]
