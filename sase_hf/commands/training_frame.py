"""The frame of the commands that train: run a task, print the results and what to do next."""

import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..evaluation.records import NO_RESULTS
from ..tasks.labels.report_page import REPORT_NAME
from ..training import Task, run
from ..training.command_line import parse_arguments
from ..utils.cli import errors_in_one_line
from ..utils.text import one_line, table_lines

# The modules whose information a person reads in the log.
LOGGED = (
    "data.marks",
    "data.tokenizer",
    "evaluation.linear_part",
    "tasks.labels.doubtful",
    "training.run",
)
HOW_TO_GO_ON = (
    "stopped; the same command with --resume_from_checkpoint auto goes on, or begins anew"
)
LESS_MEMORY = (
    "halve --per_device_train_batch_size and double --gradient_accumulation_steps, or lower "
    "--max_tokens or the sizes of the model, such as --num_hops"
)


def run_script(
    script: str, description: str | None, argv: Sequence[str] | None, task_class: type[Task]
) -> None:
    """Run the steps of a task that the command line names, and print the results."""
    with errors_in_one_line(script, HOW_TO_GO_ON, LESS_MEMORY):
        logging.basicConfig(format="%(message)s")
        logging.getLogger("sase_hf.training.command_line").setLevel(logging.INFO)
        task = parse_arguments(task_class, argv, description)
        training_args = task.args
        is_first_process = training_args.process_index == 0
        if is_first_process:
            for name in LOGGED:
                logging.getLogger(f"sase_hf.{name}").setLevel(logging.INFO)
        outcome = run(task)
    if not is_first_process:
        return
    for table in outcome["report"]:
        print("", *table_lines(table), sep="\n")
    folder = outcome["output_dir"]
    if not outcome["report"]:
        for name, value in outcome["metrics"].items():
            if not name.endswith(NO_RESULTS):
                print(f"{name:<32}{value:.4g}")
    files = {
        "model": folder if training_args.do_train else None,
        "report": Path(folder, REPORT_NAME) if outcome["report"] else None,
        "predictions": outcome["predictions"],
        "record": task.settings.record,
    }
    print()
    for name, file in files.items():
        if file is not None:
            print(f"{name:<32}{file}")
    if outcome["report"]:
        model = folder if training_args.do_train else str(task.settings.model_name_or_path)
        print("\nNext:", *map(one_line, next_steps(model, outcome)), sep="\n  ")


def next_steps(model: str, outcome: dict[str, Any]) -> Iterator[str]:
    """Yield the address of the report, and commands that write the page to send, and predict."""
    yield f"open {Path(outcome['output_dir'], REPORT_NAME).resolve().as_uri()}"
    config = outcome["record"]["config"]
    if (config.get("encoder"), config.get("pooling")) == ("bilstm", "self_attention"):
        yield shlex.join([*program(), "export", model, f"{model}.html"])
    flags = ["--text_column_names", ",".join(outcome["rows"].text_columns)]
    yield f"{shlex.join([*program(), 'predict', model, 'NEW.csv', *flags])} > predictions.csv"


def program() -> list[str]:
    """Return the words that run this package from the current folder."""
    python = Path(sys.executable)
    if shutil.which("sase_hf") == str(python.with_name("sase_hf")):
        return ["sase_hf"]
    return [os.path.relpath(python), "-m", "sase_hf"]
