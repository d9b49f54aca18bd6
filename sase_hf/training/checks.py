"""What a run checks and completes in its arguments, before anything is loaded and after."""

from pathlib import Path
from typing import Any

from torch import nn
from transformers.integrations.integration_utils import get_available_reporting_integrations
from transformers.trainer_utils import HubStrategy, IntervalStrategy

from ..models import FAMILIES
from ..utils.files import check_output
from ..utils.process import trains_lstm_in_bfloat16
from .arguments import LOWER_IS_BETTER
from .task import Task, TrainingSetup


def move_label_smoothing(task: Task) -> None:
    """Let the model smooth its labels itself: `Trainer` would keep them from it."""
    model_args, run_args = task.model_args, task.run_args
    smoothing = run_args.label_smoothing_factor
    if smoothing == 0:
        return
    if "label_smoothing" not in model_args.config_fields:
        raise ValueError("--label_smoothing_factor is for labels, which this task has none of")
    if model_args.label_smoothing not in (None, smoothing):
        raise ValueError(
            f"--label_smoothing is {model_args.label_smoothing}, --label_smoothing_factor "
            f"{smoothing}; both mean the same, give one"
        )
    model_args.label_smoothing = smoothing
    run_args.label_smoothing_factor = 0.0


def check_arguments(task: Task) -> None:
    """Raise ValueError or OSError, before anything is loaded, if arguments must fail later."""
    args, smallest = task.run_args, ("gradient_accumulation_steps", "per_device_train_batch_size")
    installed = get_available_reporting_integrations()
    strategy = HubStrategy(args.hub_strategy)
    evaluates = args.eval_strategy != IntervalStrategy.NO
    faults = [
        (
            not (args.do_train or args.do_eval or args.do_predict),
            "nothing to do; give --train_file, --validation_file or --test_file",
        ),
        (
            not args.do_train and task.model_args.model_name_or_path is None,
            "without --do_train, --model_name_or_path must name a checkpoint",
        ),
        *(
            (getattr(args, name) < 1, f"--{name} is {getattr(args, name)}; it must be 1 or more")
            for name in smallest
        ),
        *(
            (
                name not in installed,
                f"--report_to is {name}, which is unknown or not installed; installed are "
                f"{', '.join(installed) or 'none'}",
            )
            for name in args.report_to
        ),
        (
            args.record and Path(args.record).absolute() == Path(args.output_dir).absolute(),
            f"--record {args.record} is the --output_dir; name a file in it",
        ),
        (
            args.early_stopping_patience is not None
            and not (args.load_best_model_at_end and evaluates),
            "--early_stopping_patience needs evaluations and the best model; add --eval_strategy "
            "epoch --load_best_model_at_end",
        ),
        (
            args.push_to_hub and strategy not in (HubStrategy.END, HubStrategy.EVERY_SAVE),
            f"--hub_strategy is {strategy.value}, but the model is pushed only after training; "
            "leave the flag out",
        ),
    ]
    for is_fault, message in faults:
        if is_fault:
            raise ValueError(message)
    check_output(args.record)


def complete_arguments(run_args: Any, setup: TrainingSetup) -> dict[str, Any]:
    """Set the arguments that were left to the rows; return those by name."""
    chosen: dict[str, Any] = {}
    if run_args.num_train_epochs == 0:
        # About 1,500 updates. Early stopping ends earlier where rows are few; where they are many,
        # a third pass learns them by heart.
        rows = setup.rows["train"].num_rows if "train" in setup.rows else 1
        per_update = run_args.per_device_train_batch_size * run_args.world_size
        per_update *= run_args.gradient_accumulation_steps
        chosen["num_train_epochs"] = min(max(round(1500 * per_update / rows), 2), 30)
    if run_args.metric_for_best_model == "auto":
        names = run_args.metric_name or setup.default_metrics
        chosen["metric_for_best_model"] = names[0]
        chosen["greater_is_better"] = names[0] not in LOWER_IS_BETTER
    for name, value in chosen.items():
        setattr(run_args, name, value)
    return chosen


def check_setup(run_args: Any, setup: TrainingSetup) -> None:
    """Raise ValueError if a step lacks its rows, or what the model cannot do was asked for."""
    for split, step, way_out in (
        ("train", "do_train", "--train_file"),
        ("validation", "do_eval", "--validation_file or --validation_fraction 0.1"),
        ("test", "do_predict", "--test_file"),
    ):
        if getattr(run_args, step) and split not in setup.task.splits:
            raise ValueError(f"--{step} needs a {split} split; give {way_out}")
    name = run_args.metric_for_best_model
    logged = FAMILIES[setup.model.config.model_type].logged_outputs
    measured = ("loss", *logged, *setup.default_metrics)
    is_known = name is None or name.removeprefix("eval_") in measured
    if run_args.metric_name is None and not is_known:
        raise ValueError(
            f"--metric_for_best_model is {name}; choose {', '.join(measured)}, or measure another "
            "metric with --metric_name"
        )
    has_lstm = any(isinstance(module, nn.LSTM) for module in setup.model.modules())
    in_bfloat16 = run_args.bf16 and run_args.device.type == "cpu"
    if in_bfloat16 and has_lstm and not trains_lstm_in_bfloat16():
        raise ValueError(
            "--bf16 is true, but this processor trains no LSTM in bfloat16; leave --bf16 out, or "
            "set it to false, to train in float32"
        )
