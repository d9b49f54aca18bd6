"""Metrics, and the record of what was measured.

A record is a JSON file that says what a number is worth: on which rows it was measured, from which
code and settings, with which versions, on what hardware. It holds no absolute path, no name of a
user or machine, and no token.
"""

import json
import os
import reprlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
from transformers import EvalPrediction, PreTrainedConfig

from ..data.labels import MULTI_LABEL, REGRESSION, SINGLE_LABEL
from ..data.sources import FilePath
from ..models.self_attentive.modeling_self_attentive import IGNORED_LABEL
from .environment import describe_environment
from .metrics.accuracy.accuracy import Accuracy
from .metrics.macro_f1.macro_f1 import MacroF1
from .metrics.mse.mse import Mse
from .metrics.pearson.pearson import Pearson
from .privacy import publishable

METRICS = {"accuracy": Accuracy, "macro_f1": MacroF1, "mse": Mse, "pearson": Pearson}

# The metrics of each kind of problem: what is measured if nothing is asked for, and all that the
# package has.
DEFAULT_METRICS = {
    SINGLE_LABEL: ("accuracy", "macro_f1"),
    MULTI_LABEL: ("accuracy", "macro_f1"),
    REGRESSION: ("mse", "pearson"),
}

# Endings of what Trainer puts among the metrics, but what is no result.
NO_RESULTS = ("_runtime", "_per_second", "_preparation_time", "_flos")


def load_metrics(names: Sequence[str] | None, problem_type: str) -> list[evaluate.EvaluationModule]:
    """Load metrics, the package's own first, which need no download.

    Its own are accuracy and macro F1, which take class ids or, for multi-label problems, lists of
    0 and 1, and for regressions mean squared error and Pearson's correlation. Their folders in
    `sase_hf/metrics` say what each computes.

    Args:
        names: One of `METRICS`, or what `evaluate.load` takes: a name on the Hub, or the path of a
            module, whose code is then run. None for all own metrics that fit.
        problem_type: One of `labels.PROBLEM_TYPES`.

    Returns:
        The modules, in the order of the names.

    Raises:
        ValueError: If the problem type is unknown, an own metric does not fit it, or another one
            cannot be loaded.
    """
    if problem_type not in DEFAULT_METRICS:
        raise ValueError(
            f"problem_type is {problem_type!r}; allowed are {', '.join(DEFAULT_METRICS)}"
        )
    fitting = DEFAULT_METRICS[problem_type]
    modules = []
    for name in names or fitting:
        if name in METRICS and name not in fitting:
            raise ValueError(
                f"metric {name!r} does not fit a problem of type {problem_type}; use "
                f"{' or '.join(fitting)}, or another module of evaluate"
            )
        modules.append(_own_metric(name) if name in METRICS else _foreign_metric(name))
    return modules


def metrics_function(
    modules: Sequence[evaluate.EvaluationModule], problem_type: str
) -> Callable[[EvalPrediction], dict[str, float]]:
    """Return the `compute_metrics` of a `Trainer`.

    The modules get class ids (the largest logit), for multi-label problems a 0 or 1 for every label
    (1 where the probability is above a half), for regressions the outputs themselves.

    Args:
        modules: What `load_metrics` returned.
        problem_type: One of `labels.PROBLEM_TYPES`.

    Returns:
        A function from predictions to all results by name. It raises ValueError if a result is no
        number, which a `Trainer` could not log.
    """
    combined = evaluate.combine(list(modules))

    def compute(evaluated: EvalPrediction) -> dict[str, float]:
        outputs = evaluated.predictions
        logits = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)
        labels = np.asarray(evaluated.label_ids)
        if problem_type == SINGLE_LABEL:
            counted = labels != IGNORED_LABEL
            predictions, labels = logits.argmax(-1)[counted], labels[counted]
        elif problem_type == MULTI_LABEL:
            predictions, labels = (logits > 0).astype(int), labels.astype(int)
        else:
            predictions = logits.reshape(labels.shape)
        results = combined.compute(predictions=predictions, references=labels)
        return {name: _number(name, value) for name, value in results.items()}

    return compute


def results_of(metrics: Mapping[str, float], prefix: str) -> dict[str, float]:
    """Return the results of one split by their names alone.

    Args:
        metrics: What a `Trainer` measured: names with the prefix of their split, runtimes as well.
        prefix: Such as `eval_`.
    """
    return {
        name.removeprefix(prefix): value
        for name, value in metrics.items()
        if name.startswith(prefix) and not name.endswith(NO_RESULTS)
    }


def evaluation_history(log: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the results of every evaluation during training, in order, each with its epoch.

    Args:
        log: The `log_history` of a trainer's state, which a resumed run takes over.
    """
    return [
        {"epoch": entry["epoch"], **results_of(entry, "eval_")}
        for entry in log
        if "eval_loss" in entry
    ]


def measured_record(
    *,
    name: str,
    metrics: Mapping[str, float],
    split: str,
    sources: Mapping[str, Mapping[str, Any]],
    seed: int,
    arguments: Mapping[str, Any],
    config: PreTrainedConfig | Mapping[str, Any],
    num_parameters: int,
    wall_seconds: float,
) -> dict[str, Any]:
    """Describe a measurement so that others can judge and repeat it.

    Args:
        name: What the run is called.
        metrics: What was measured.
        split: The split it was measured on.
        sources: `TaskData.sources`.
        seed: The run's seed.
        arguments: All settings that differ from their defaults.
        config: The model's.
        num_parameters: Of the whole model.
        wall_seconds: How long it took; of a resumed run, its last part.

    Returns:
        All that, with the versions, the commit, the hardware and the date, as plain JSON values.

    Raises:
        TypeError: If a value has no form in JSON.
    """
    settings = config.to_diff_dict() if isinstance(config, PreTrainedConfig) else config
    record = {
        "name": name,
        "split": split,
        "metrics": metrics,
        "sources": sources,
        "seed": seed,
        "arguments": arguments,
        "config": settings,
        "num_parameters": num_parameters,
        "wall_seconds": round(wall_seconds, 1),
        **describe_environment(),
    }
    clean: dict[str, Any] = publishable(record, "record")
    return clean


def write_record(record: Mapping[str, Any], path: FilePath) -> None:
    """Write a record as JSON, whole or not at all; the same record gives the same bytes.

    What `privacy.publishable` keeps private is not written.

    Args:
        record: What `measured_record` returned, or a dictionary like it.
        path: The file; missing folders are made.

    Raises:
        TypeError: If a value has no form in JSON.
    """
    clean = publishable(record, "record")
    text = json.dumps(clean, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _own_metric(name: str) -> evaluate.EvaluationModule:
    # Given no folder, a metric makes one in the user's cache, even if it keeps all in memory.
    with tempfile.TemporaryDirectory() as scratch:
        return METRICS[name](keep_in_memory=True, cache_dir=scratch)


def _foreign_metric(name: str) -> evaluate.EvaluationModule:
    try:
        return evaluate.load(name)
    except (OSError, ImportError) as reason:
        raise ValueError(
            f"metric {name!r} is none of {', '.join(METRICS)}, and evaluate cannot load it: "
            f"{reason}. Give the name of one on the Hub, or the path of a module"
        ) from reason


def _number(name: str, value: Any) -> float:
    if not isinstance(value, int | float | np.number):
        raise ValueError(
            f"metric {name!r} is {reprlib.repr(value)}, which is no number; choose a metric with "
            "one number as result"
        )
    return float(value)
