"""A whole run, as the scripts start it: train, evaluate, predict, and save the results."""

import logging
import os
import re
import time
from copy import copy
from operator import itemgetter
from pathlib import Path
from typing import Any

from transformers import enable_full_determinism, set_seed

from ..data.batching import longest_sides, share_of_token, token_counts
from ..evaluation.metrics import SCORE
from ..evaluation.records import measured_record, results_of, write_record
from ..hub import write_model_card
from ..utils.errors import refusal
from ..utils.files import (
    check_output,
    is_checkpoint_file,
    is_inside,
    is_same_file,
)
from ..utils.process import keep_freed_memory, limit_compiled_code
from ..utils.text import Table, one_line
from .arguments import RunArguments, changed_arguments
from .checkpoints import (
    check_same_run,
    check_unused,
    checkpoint_to_resume,
    locked,
    warn_of_learned_rows,
)
from .defaults import chosen_by_rows
from .predictions import write_predictions
from .progress import only_training_bar
from .settings import Settings
from .task import Task, TrainingSetup
from .trainer import SelfAttentiveTrainer

logger = logging.getLogger(__name__)

# What a run writes beside a model.
RESULTS = re.compile(
    r"predictions\..+|report\.html|doubtful\.csv|(all|train|eval|test)_results\.json"
)
MANY_UNKNOWN = 0.2  # of the tokens of a split


def run(task: Task) -> dict[str, Any]:
    """Do the steps that the arguments of a task name: train, evaluate, predict.

    A trained model is in `output_dir` afterwards with its tokenizer, its code and a README.md, and
    loads by `from_pretrained`; predictions are there as `write_predictions` writes them.

    Returns `metrics` (all, named as in the logs), `record` (as `measured_record`, of the test split
    if it was measured, after training with its `history`: every evaluation), `output_dir`,
    `predictions` (their file, or None), `report` (its tables, none without `--report`), `rows` (as
    the task loads them).

    Raises ValueError for arguments that contradict one another, the data or a checkpoint; OSError
    if a run to resume has no complete checkpoint or a file cannot be written; FloatingPointError if
    loss, gradient or weights cease to be finite.
    """
    args = task.args
    check_plan(task.settings, args)
    steps = _Run(task)
    output_dir = str(args.output_dir)
    with locked(output_dir, args.process_index), only_training_bar():
        if not args.do_train:
            return steps.outcome(None)
        requested = args.resume_from_checkpoint or "false"
        checkpoint = checkpoint_to_resume(requested, output_dir)
        if checkpoint is None or not is_inside(checkpoint, output_dir):
            check_unused(output_dir)
        return steps.outcome(checkpoint)


class _Run:
    """The steps of a run, and their common state.

    args: the arguments as they were given; the trainer has a copy that the rows have completed.
    given: those that differ from their defaults, by name, for the record.
    """

    setup: TrainingSetup
    trainer: SelfAttentiveTrainer

    def __init__(self, task: Task) -> None:
        self.start = time.perf_counter()
        self.task = task
        self.args = task.args
        self.output_dir = str(self.args.output_dir)
        self.given = changed_arguments(task.settings, self.args)
        self.metrics: dict[str, float] = {}
        self.history: list[dict[str, Any]] | None = None  # None without training
        self.tables: list[Table] = []
        self.predictions: Path | None = None

    def outcome(self, checkpoint: Path | None) -> dict[str, Any]:
        """Do all steps, from a checkpoint if there is one to resume; return what `run` returns."""
        self.prepare(checkpoint)
        if self.args.do_train:
            self.train(checkpoint)
        if self.args.do_eval:
            evaluated, self.tables = self.task.evaluate(self.trainer, self.setup, self.metrics)
            evaluated.pop(f"eval_{SCORE}", None)  # it has chosen the epoch, and says no more
            self.trainer.save_metrics("eval", evaluated)
            self.metrics.update(evaluated)
        if self.args.do_train and self.task.after_evaluation(self.setup):
            self.trainer.save_model()
        if self.args.do_predict:
            self.predict()
        record = self.record()
        if self.trainer.is_world_process_zero():
            self.publish(record)
        self.trainer.end()
        return {
            "metrics": self.metrics,
            "record": record,
            "output_dir": self.output_dir,
            "predictions": self.predictions,
            "report": self.tables,
            "rows": self.setup.rows,
        }

    def prepare(self, checkpoint: Path | None) -> None:
        """Load rows and model, complete the arguments, and log what is trained."""
        keep_freed_memory()
        limit_compiled_code()
        args = self.args
        if args.full_determinism:
            enable_full_determinism(args.seed)
        else:
            set_seed(args.seed)
        self.setup = self.task.assemble(checkpoint)
        chosen = chosen_by_rows(self.task, self.setup)
        self.given.update(chosen)
        complete = changed(args, chosen)
        check_splits(self.setup, complete)
        self.task.prepare(self.setup)
        log_summary(self.task, self.setup, complete)
        if args.do_train:
            read = self.task.what_is_read(self.setup.rows)
            settings = {**read, **self.task.what_stays(self.setup.model.config)}
            check_same_run(self.output_dir, checkpoint, settings, args.process_index)
            held_out = self.setup.rows.sources.get("validation", {})
            warn_of_learned_rows(self.task.settings.model_name_or_path, read, held_out)
        self.trainer = self.task.make_trainer(self.setup, complete)

    def train(self, checkpoint: Path | None) -> None:
        """Train, and save the model."""
        trainer = self.trainer
        result = trainer.train(None if checkpoint is None else str(checkpoint))
        if trainer.state.global_step == 0:
            raise ValueError("no update was made, so nothing was learnt; train on more rows")
        self.metrics.update(self.task.after_training(trainer, self.setup))
        trainer.save_model()
        trainer.save_state()
        trainer.save_metrics("train", result.metrics)
        self.metrics.update(result.metrics)
        # The history is read here, because the final evaluation would add a second entry for the
        # last epoch.
        self.history = [
            {"epoch": entry["epoch"], **results_of(entry, "eval_")}
            for entry in trainer.state.log_history
            if "eval_loss" in entry
        ]

    def predict(self) -> None:
        """Predict the test rows into a copy of their file; measure those with labels."""
        rows = self.setup.tokens["test"]
        output = self.trainer.predict(rows)
        if self.trainer.is_world_process_zero():
            added = self.task.columns(self.trainer, self.setup, output.predictions)
            self.predictions = write_predictions(
                added, self.setup.rows, self.task.settings, self.output_dir
            )
        if "labels" in rows.column_names:
            metrics = output.metrics or {}
            self.trainer.save_metrics("test", metrics)
            self.metrics.update(metrics)

    def record(self) -> dict[str, Any]:
        """Describe the measurement: on the test, else the validation, else the train split."""
        prefixes = {"test": "test_", "validation": "eval_", "train": "train_"}
        split = "test"
        for name, prefix in prefixes.items():
            if f"{prefix}loss" in self.metrics:
                split = name
                break
        record = measured_record(
            name=self.args.run_name or Path(self.output_dir).name,
            metrics=results_of(self.metrics, prefixes[split]),
            split=split,
            sources=self.setup.rows.sources,
            seed=self.args.seed,
            arguments=self.given,
            config=self.setup.model.config,
            num_parameters=self.setup.model.num_parameters(),
            wall_seconds=time.perf_counter() - self.start,
            with_code=self.task.settings.record is not None,
        )
        speed = self.metrics.get(f"{prefixes[split]}samples_per_second")
        details = self.task.details(self.trainer, self.setup, self.metrics)
        of_training: dict[str, object] = {"rows_per_second": speed}
        if self.history is not None:
            of_training["history"] = self.history
        return {**record, **of_training, **details}

    def publish(self, record: dict[str, Any]) -> None:
        """Write the card of a trained model, and the record."""
        if self.args.do_train:
            # The model answers without autocast and on the CPU, as a reader would load it.
            model = self.trainer.accelerator.unwrap_model(self.setup.model, keep_fp32_wrapper=False)
            loaded = (model.cpu().eval(), self.setup.tokenizer)
            write_model_card(self.output_dir, record, loaded=loaded)
        if self.task.settings.record is not None:
            write_record(record, self.task.settings.record)


def check_plan(settings: Settings, args: RunArguments) -> None:
    """Raise ValueError or OSError, before anything is loaded, if a run must fail later."""
    if not (args.do_train or args.do_eval or args.do_predict):
        raise ValueError("nothing to do; give --train_file, --validation_file or --test_file")
    if not args.do_train and settings.model_name_or_path is None:
        raise ValueError("without --do_train, --model_name_or_path must name a checkpoint")
    if settings.calibrate and not (args.do_train and args.do_eval):
        raise ValueError("--calibrate fits a model after training; add --do_train --do_eval")
    if settings.report and not args.do_eval:
        raise ValueError("--report is about the validation rows; add --do_eval")
    if args.label_smoothing_factor:  # it would replace the loss of the model
        raise refusal(
            f"--label_smoothing_factor is {args.label_smoothing_factor}",
            "leave it out; classifiers and translation have --label_smoothing",
        )
    check_files(settings, Path(str(args.output_dir)).absolute())


def check_files(settings: Settings, output_dir: Path) -> None:
    """Raise OSError if a file of rows is not there, or the run would replace what it reads."""
    inputs = list(settings.inputs())
    for name, path in inputs:
        if name.endswith("_file") and not os.path.exists(path):
            raise FileNotFoundError(
                f"--{name}: there is no file {path}; give --{name} another value"
            )
        # `datasets` would read a new folder in place of the data set of this name on the Hub.
        is_replaced = name == "dataset_name" and is_same_file(path, output_dir)
        if is_inside(path, output_dir) and RESULTS.fullmatch(Path(path).name):
            is_replaced = True
        if is_replaced:
            raise refusal(
                f"--{name} {path} would be replaced by results of the run",
                "choose another --output_dir",
                FileExistsError,
            )
    record = settings.record
    check_output(record, [path for _, path in inputs])
    if record is not None and is_inside(record, output_dir) and is_checkpoint_file(record):
        raise FileExistsError(f"--record {record} is a file of a model; give it another name")


def changed(args: RunArguments, values: dict[str, Any]) -> RunArguments:
    """Return a copy of arguments with other values, which nothing checks again."""
    copied = copy(args)
    for name, value in values.items():
        setattr(copied, name, value)
    return copied


def check_splits(setup: TrainingSetup, args: RunArguments) -> None:
    """Raise ValueError if a step lacks its rows."""
    for split, step, way_out in (
        ("train", "do_train", "--train_file"),
        ("validation", "do_eval", "--validation_file or --validation_fraction 0.1"),
        ("test", "do_predict", "--test_file"),
    ):
        if getattr(args, step) and split not in setup.rows.splits:
            raise refusal(f"--{step} needs a {split} split", f"give {way_out}")


def log_summary(task: Task, setup: TrainingSetup, args: RunArguments) -> None:
    """Log rows, words, sizes and the device before training."""
    for line in task.describe(setup):
        logger.info(one_line(line))
    _log_words(setup)
    limit = setup.model.config.max_tokens
    num_cut = 0
    for rows in setup.tokens.values():
        lengths = longest_sides(rows) if setup.model.reads_pairs else token_counts(rows)
        num_cut += sum(length >= limit for length in lengths)
    if num_cut:
        logger.info(f"length: {num_cut:,} rows reach the limit of {limit:,} tokens (--max_tokens)")
    for path, share in setup.vectors_found.items():
        logger.info(f"word vectors: {os.path.basename(path)}, for {share:.1%} of the vocabulary")
    model = setup.model
    logger.info(f"model: {type(model).__name__}, {model.num_parameters():,} parameters")
    logger.info(f"device: {args.device} in {_precision(args)}, processes: {args.world_size}")
    if not args.do_train:
        return
    if args.max_steps > 0:
        logger.info(f"updates: {args.max_steps:,}")
    else:
        logger.info(f"epochs: {args.num_train_epochs:g}")


def _precision(args: RunArguments) -> str:
    if args.bf16:
        return "bfloat16"
    return "float16" if args.fp16 else "float32"


def _log_words(setup: TrainingSetup) -> None:
    """Log the size of the vocabulary; warn of a split with many unknown words."""
    unknown_token = setup.tokenizer.unk_token_id
    shares = {name: share_of_token(rows, unknown_token) for name, rows in setup.tokens.items()}
    split, unknown = max(shares.items(), key=itemgetter(1))
    logger.info(
        f"vocabulary: {len(setup.tokenizer):,} entries, {unknown:.1%} of the tokens unknown"
    )
    if unknown > MANY_UNKNOWN:
        logger.warning(
            f"{unknown:.0%} of the tokens of the {split} rows are words that the tokenizer does "
            "not know; train on more texts of the same language, or a new model with "
            "--word_vectors or --level subword (of a translation, --subwords)"
        )
