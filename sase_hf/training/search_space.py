"""What a search draws for a trial, and what it compares trials by."""

from typing import TYPE_CHECKING, Any

from ..evaluation.records import DEFAULT_METRICS, METRICS
from ..models.self_attentive.configuration_self_attentive import SelfAttentiveConfig
from .arguments import LOWER_IS_BETTER, RunArguments
from .setup import Parts

if TYPE_CHECKING:
    from optuna.trial import BaseTrial


def suggest(trial: "BaseTrial", config: SelfAttentiveConfig) -> dict[str, Any]:
    """Return the settings of a trial: the search space.

    Args:
        trial: One that runs draws them, one that has ended tells them again.
        config: The model's; without attention there is less to search, and the penalty of
            generalized pooling is 0 as a rule, whatever its coefficient.

    Returns:
        Flags and their values, those with a decimal point to two digits.
    """
    numbers = {
        "learning_rate": trial.suggest_float("learning_rate", 2e-4, 5e-3, log=True),
        "embedding_dropout": trial.suggest_float("embedding_dropout", 0.0, 0.5),
        "classifier_dropout": trial.suggest_float("classifier_dropout", 0.0, 0.6),
    }
    sizes = {}
    if _draws_penalty(config):
        numbers["penalty_coef"] = trial.suggest_float("penalty_coef", 1e-4, 1.0, log=True)
    if config.has_attention:
        sizes["num_hops"] = trial.suggest_int("num_hops", 1, 30, log=True)
        sizes["attention_size"] = trial.suggest_int("attention_size", 50, 350, step=50)
    return {name: float(f"{value:.2g}") for name, value in numbers.items()} | sizes


def choose_metric(
    parts: Parts, names: list[str] | None, training_args: RunArguments
) -> dict[str, Any]:
    """Settle what trials are compared by.

    Not the loss: it holds the penalty times its coefficient, so that of two trials as good at the
    task the one with the smaller coefficient or the fewer hops would win.

    Args:
        parts: Rows and model; what is measured depends on the labels.
        names: What `--metric_name` gives, or None.
        training_args: Gets the task's own score where it names none.

    Returns:
        The flags that name the metric, and whether more of it is better.

    Raises:
        ValueError: If the loss is asked for while the penalty's coefficient is drawn, or if no
            metric is named and those measured are foreign.
    """
    metric = training_args.metric_for_best_model
    measured = names or DEFAULT_METRICS[parts.task.problem_type]
    own = next((name for name in measured if name in METRICS), None)
    if metric is None:
        if own is None:
            raise ValueError(
                f"--metric_name is {', '.join(measured)}, none of {', '.join(METRICS)}, so what it "
                "calls its result is unknown; say it by --metric_for_best_model"
            )
        training_args.metric_for_best_model = own
        training_args.greater_is_better = own not in LOWER_IS_BETTER
    elif metric.removeprefix("eval_") == "loss" and _draws_penalty(parts.model.config):
        raise ValueError(
            f"--metric_for_best_model is {metric}, which --load_best_model_at_end alone means too, "
            "but the loss holds the penalty, whose coefficient is drawn: small ones would win. "
            f"Give a score of the task, such as --metric_for_best_model {own or 'accuracy'}"
        )
    flags = ("metric_for_best_model", "greater_is_better")
    return {name: getattr(training_args, name) for name in flags}


def _draws_penalty(config: SelfAttentiveConfig) -> bool:
    return config.pooling == "self_attention"


__all__ = ["choose_metric", "suggest"]
