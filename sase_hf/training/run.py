"""A whole run: train, evaluate, predict, save the results; its folder and its checkpoints."""

import json
import logging
import time
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from transformers import TrainerState, set_seed
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import sort_checkpoints

from ..data.batching import share_of_token, token_counts
from ..data.columns import ROWS_NAME, training_rows_of
from ..evaluation.metrics import SCORE
from ..evaluation.predictions import write_predictions
from ..evaluation.records import measured_record, results_of, write_record
from ..hub import write_model_card
from ..utils.files import FilePath, check_output, is_inside, write_text
from ..utils.process import keep_freed_memory, limit_compiled_code
from ..utils.text import Table, one_line, redact, refusal
from .command_line import epochs_for, rate_for
from .settings import RunArguments, Settings
from .task import Task, TrainingSetup
from .trainer import only_training_bar

logger = logging.getLogger(__name__)

MANY_UNKNOWN = 0.2  # of the tokens of a split


def run(task: Task) -> dict[str, Any]:
    """Do the steps that the arguments of a task name: train, evaluate, predict.

    A trained model is in `output_dir` afterwards with its tokenizer, its code and a README.md, and
    loads by `from_pretrained`; predictions are there as `write_predictions` writes them.

    Returns `metrics` (all, named as in the logs), `record` (as `measured_record`, of the test split
    if it was measured, after training with its `history`: every evaluation), `output_dir`,
    `predictions` (their file, or None), `report` (its tables, none without `--report`), `setup`
    (the model, its tokenizer and the rows).

    Raises ValueError for arguments that contradict one another, the data or a checkpoint; OSError
    if a file cannot be read or written; FloatingPointError if loss, gradient or weights cease to be
    finite.
    """
    args = task.args
    check_plan(task.settings, args)
    output_dir = str(args.output_dir)
    with locked(output_dir, args.process_index), only_training_bar():
        checkpoint = None
        if args.do_train:
            checkpoint = checkpoint_to_resume(args.resume_from_checkpoint, output_dir)
        if checkpoint is None or not is_inside(checkpoint, output_dir):
            check_unused(output_dir)
        steps = _Run(task, checkpoint)
        if args.do_train:
            steps.train(checkpoint)
        if args.do_eval:
            steps.evaluate()
        if args.do_train and task.after_evaluation(steps.setup):
            steps.trainer.save_model()
        if args.do_predict:
            steps.predict()
        return steps.outcome()


class _Run:
    """The steps of a run, and their common state.

    measured: the prefix of the metrics that the record tells: those of the last step.
    """

    history: list[dict[str, Any]] | None = None  # None without training
    predictions: Path | None = None
    measured = "train"

    def __init__(self, task: Task, checkpoint: Path | None) -> None:
        """Load rows and model, and log what is trained."""
        self.start = time.perf_counter()
        self.task = task
        self.metrics: dict[str, float] = {}
        self.tables: list[Table] = []
        args = copy(task.args)
        self.output_dir = str(args.output_dir)
        keep_freed_memory()
        limit_compiled_code()
        set_seed(args.seed)
        self.setup = task.assemble(checkpoint)
        check_splits(self.setup, args)
        if args.do_train:
            args.num_train_epochs = epochs_for(task, self.setup)
            args.learning_rate = rate_for(task, self.setup)
        task.prepare(self.setup)
        log_summary(task, self.setup, args)
        if args.do_train:
            read = task.what_is_read(self.setup)
            check_same_run(self.output_dir, checkpoint, read, args.process_index)
        self.trainer = task.make_trainer(self.setup, args)

    def train(self, checkpoint: Path | None) -> None:
        """Train, and save the model."""
        trainer = self.trainer
        result = trainer.train(None if checkpoint is None else str(checkpoint))
        if trainer.state.global_step == 0:
            raise ValueError("no update was made, so nothing was learnt; train on more rows")
        self.metrics.update(self.task.after_training(trainer, self.setup))
        trainer.save_model()
        trainer.save_state()
        if checkpoint is not None:
            del result.metrics["train_loss"]  # that of the last part, and not of the whole
        self.keep("train", result.metrics)
        # The history is read here, because the final evaluation would add a second entry for the
        # last epoch.
        self.history = [
            {"epoch": entry["epoch"], **results_of(entry, "eval_")}
            for entry in trainer.state.log_history
            if "eval_loss" in entry
        ]

    def evaluate(self) -> None:
        """Evaluate on the validation rows."""
        metrics, self.tables = self.task.evaluate(self.trainer, self.setup)
        metrics.pop(f"eval_{SCORE}", None)  # it has chosen the epoch, and says no more
        self.keep("eval", metrics)

    def predict(self) -> None:
        """Predict the test rows into a copy of their file; measure those with labels.

        A ranker adds no columns, and needs no labels.
        """
        rows = labelled = self.setup.tokens["test"]
        has_labels = "labels" in rows.column_names
        if has_labels:
            labelled = rows.select(np.flatnonzero(self.setup.rows.is_measured()))
        without = rows.num_rows - labelled.num_rows
        if without:
            rows = rows.remove_columns("labels")
            logger.warning(f"not measured: {without:,} test rows without a label or target")
        output = self.trainer.predict(rows)
        if self.trainer.is_world_process_zero():
            source = self.task.settings.test_file
            added = self.task.columns(self.trainer, self.setup, output.predictions)
            if added:
                self.predictions = write_predictions(
                    added, self.setup.rows, source, self.output_dir
                )
        if labelled.num_rows and (has_labels or self.trainer.can_return_loss):
            if without:
                output = self.trainer.predict(labelled)
            self.keep("test", output.metrics or {})

    def keep(self, prefix: str, metrics: dict[str, float]) -> None:
        """Save what a step measured."""
        self.trainer.save_metrics(prefix, metrics)
        self.metrics.update(metrics)
        self.measured = prefix

    def outcome(self) -> dict[str, Any]:
        """Write card and record; return what `run` returns."""
        record = self.record()
        settings, trainer = self.task.settings, self.trainer
        if trainer.is_world_process_zero():
            if self.task.args.do_train:
                # The model answers without autocast and on the CPU, as a reader would load it.
                unwrap = trainer.accelerator.unwrap_model
                model = unwrap(self.setup.model, keep_fp32_wrapper=False).cpu().eval()
                write_model_card(self.output_dir, record, loaded=(model, self.setup.tokenizer))
            if settings.record is not None:
                write_record(record, settings.record)
        trainer.end()
        return {
            "metrics": self.metrics,
            "record": record,
            "output_dir": self.output_dir,
            "predictions": self.predictions,
            "report": self.tables,
            "setup": self.setup,
        }

    def record(self) -> dict[str, Any]:
        """Describe the measurement of the last step."""
        args, setup = self.trainer.args, self.setup
        chosen = {"num_train_epochs": args.num_train_epochs, "learning_rate": args.learning_rate}
        record = measured_record(
            name=args.run_name or Path(self.output_dir).name,
            metrics=results_of(self.metrics, f"{self.measured}_"),
            split={"eval": "validation"}.get(self.measured, self.measured),
            sources=setup.rows.sources,
            seed=args.seed,
            arguments={**self.task.given, **chosen},
            config=setup.model.config,
            num_parameters=setup.model.num_parameters(),
            wall_seconds=time.perf_counter() - self.start,
        )
        record["rows_per_second"] = self.metrics.get(f"{self.measured}_samples_per_second")
        if self.history is not None:
            record["history"] = self.history
        return {**record, **self.task.details()}


def check_plan(settings: Settings, args: RunArguments) -> None:
    """Raise ValueError or OSError, before anything is loaded, if a run must fail later."""
    if not (args.do_train or args.do_eval or args.do_predict):
        raise ValueError("nothing to do; give --train_file, --validation_file or --test_file")
    if not args.do_train and settings.model_name_or_path is None:
        raise ValueError("without --do_train, --model_name_or_path must name a checkpoint")
    if settings.calibrate and not args.do_train:
        raise ValueError("--calibrate fits a model after training; add --do_train")
    inputs = settings.inputs()
    check_output(settings.record, inputs)
    for path in inputs:
        if Path(path).is_file() and is_inside(path, str(args.output_dir)):
            raise refusal(
                f"{path} could be replaced by results of the run",
                "choose an --output_dir that holds no input",
                FileExistsError,
            )


def check_splits(setup: TrainingSetup, args: RunArguments) -> None:
    """Raise ValueError if a step lacks its rows."""
    steps = {"train": args.do_train, "validation": args.do_eval, "test": args.do_predict}
    for split, is_asked in steps.items():
        if is_asked and split not in setup.rows.splits:
            raise refusal(
                f"there are no {split} rows",
                f"give --{split}_file, or for validation --validation_fraction 0.1",
            )


def log_summary(task: Task, setup: TrainingSetup, args: RunArguments) -> None:
    """Log rows, words, sizes and the device; warn of rows that measure something else."""
    model, checkpoint = setup.model, task.settings.model_name_or_path
    for line in task.describe(setup):
        logger.info(one_line(line))
    for path, share in setup.vectors_found.items():
        logger.info(f"word vectors: {Path(path).name}, for {share:.1%} of the vocabulary")
    logger.info(
        f"model: {type(model).__name__}, {len(setup.tokenizer):,} words, "
        f"{model.num_parameters():,} parameters, on {args.device}, bfloat16: {args.bf16}"
    )
    for split, rows in setup.tokens.items():
        num_cut = sum(length >= model.config.max_tokens for length in token_counts(rows))
        if num_cut and not model.reads_pairs:
            logger.info(f"length: {num_cut:,} {split} rows reach --max_tokens, and the rest is cut")
        unknown = share_of_token(rows, setup.tokenizer.unk_token_id)
        if unknown > MANY_UNKNOWN:
            logger.warning(
                f"{unknown:.0%} of the tokens of the {split} rows are words that the tokenizer "
                "does not know; train on more texts of the same language, or a new model with "
                "--word_vectors or --level subword (of a translation, --subwords)"
            )
    if args.do_train and checkpoint and "split_off" in setup.rows.sources.get("validation", {}):
        logger.warning(
            f"{checkpoint} may have learned from rows that are held out now, and look better on "
            "them than on new ones; give rows that it has not learned from as --validation_file"
        )


# ---- the checkpoints of a run, and its folder ----------------------------------------------------
# transformers writes `trainer_state.json` last, so a checkpoint is complete if it can be read.


def is_complete(folder: FilePath) -> bool:
    """Return whether a checkpoint can be resumed."""
    try:
        TrainerState.load_from_json(str(Path(folder, TRAINER_STATE_NAME)))
    except (OSError, ValueError, TypeError):
        return False
    return True


def list_checkpoints(output_dir: FilePath) -> list[Path]:
    """Return the checkpoint folders of a run, the newest first, complete or not."""
    return [Path(folder) for folder in reversed(sort_checkpoints(str(output_dir)))]


def newest_complete_checkpoint(output_dir: FilePath) -> Path | None:
    """Return the newest complete checkpoint of a run."""
    return next(filter(is_complete, list_checkpoints(output_dir)), None)


def checkpoint_to_resume(requested: str, output_dir: FilePath) -> Path | None:
    """Return the checkpoint that `--resume_from_checkpoint` names; None if a run begins anew.

    `auto` and `true` take the newest complete one, if there is one.
    """
    choice = str(requested).lower()  # also True, as in transformers
    if choice == "false":
        return None
    if choice in ("auto", "true"):
        return newest_complete_checkpoint(output_dir)
    if not is_complete(requested):
        raise refusal(
            f"--resume_from_checkpoint is {requested}, which is no complete checkpoint, with a "
            f"{TRAINER_STATE_NAME}",
            "auto takes the newest complete one, or begins anew",
        )
    return Path(requested)


def locked(output_dir: FilePath, process: int) -> AbstractContextManager[Any]:
    """Keep other runs out of a folder, on every machine that sees it.

    Process 0 locks the file `.lock`. The lock ends with process 0 and the processes that it forks,
    also if they are killed; the workers of a data loader end a few seconds after process 0.

    Raises:
        ValueError: In process 0, if another run is in the folder.
        OSError: If the folder cannot be written.
    """
    if process > 0:
        return nullcontext()
    Path(output_dir).mkdir(parents=True, exist_ok=True)
    try:
        return FileLock(Path(output_dir, ".lock")).acquire(timeout=0)
    except Timeout as reason:
        raise refusal(
            f"another run is writing in {output_dir}",
            "wait until it ends, stop it, or choose another --output_dir",
        ) from reason


def check_unused(output_dir: FilePath) -> None:
    """Raise ValueError if a folder holds more than the beginning of a run without a checkpoint."""
    names = {path.name for path in Path(output_dir).glob("[!.]*")}
    # The state is the last file of a trained model: without it, a model of a run is a torn one.
    if names and not (
        ROWS_NAME in names
        and TRAINER_STATE_NAME not in names
        and newest_complete_checkpoint(output_dir) is None
    ):
        raise refusal(
            f"--output_dir {output_dir} is not empty",
            "choose another, or delete it; --resume_from_checkpoint auto continues a training",
        )


def check_same_run(
    output_dir: FilePath, checkpoint: Path | None, settings: dict[str, Any], process: int
) -> None:
    """Raise ValueError if a run would go on from a checkpoint with other rows or settings.

    They are recorded in the folder of the run. A checkpoint without a record goes on with any.
    """
    now = redact(settings)
    before = training_rows_of(checkpoint)
    changes = [
        f"{name} = {before.get(name)} and not {now.get(name)}"
        for name in before | now
        if before.get(name) != now.get(name)
    ]
    if before and changes:
        raise refusal(
            f"the run of {checkpoint} has {', '.join(changes)}",
            "repeat what it has to go on, or begin another run in another --output_dir",
        )
    if process == 0:
        write_text(Path(output_dir, ROWS_NAME), json.dumps(now))
