"""The frame of the commands that train: run a task, print the results and what to do next."""

import logging
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..data.arguments import DataArguments
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
LESS_MEMORY = (
    "halve --per_device_train_batch_size and double --gradient_accumulation_steps, or lower "
    "--max_tokens or the sizes of the model, such as --num_hops"
)
SENTENCES = ("The room was small.", "The room was not large.")  # of a pair, to try a model


def run_script(
    script: str, description: str | None, argv: Sequence[str] | None, task_class: type[Task]
) -> None:
    """Run the steps of a task that the command line names, and print the results."""
    with errors_in_one_line(script, on_out_of_memory=LESS_MEMORY):
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
        commands = next_commands(model, outcome, task.settings)
        print("\nNext:", *map(one_line, commands), sep="\n  ")
        columns = ",".join(outcome["text_columns"])
        flags = ["--model_name_or_path", model, "--text_column_names", columns, "--test_file"]
        of_file = shlex.join([*program(), "train", *flags])
        print("\nFor a file of new rows, with its name at the end:", one_line(of_file), sep="\n  ")


def next_commands(model: str, outcome: dict[str, Any], data: DataArguments) -> Iterator[str]:
    """Yield commands that look into the model and predict a text; they work as they stand.

    The first shows some of the rows that the run has read, or a sentence if they came from the Hub.
    """
    texts = SENTENCES if outcome["reads_pairs"] else SENTENCES[:1]
    if outcome["record"]["config"].get("pooling") == "self_attention":
        flags = []
        for name, text in zip(("--text", "--text_pair"), texts, strict=False):
            flags += [name, text]
        file = data.validation_file or data.train_file
        if file is not None:
            flags = ["--file", file, "--select=random"]
            flags += ["--text_column_names", ",".join(outcome["text_columns"])]
            if data.label_column_name is not None:
                flags += ["--label_column_name", data.label_column_name]
        yield shlex.join([*program(), "visualize", model, *flags, "--output=page.html"])
    line = shlex.join(["printf", "\\t".join(texts) + "\\n"])
    yield f"{line} | {shlex.join([*program(), 'predict', model])}"


def program() -> list[str]:
    """Return the words that run this package from the current folder."""
    python = Path(sys.executable)
    if shutil.which("sase_hf") == str(python.with_name("sase_hf")):
        return ["sase_hf"]
    return [os.path.relpath(python), "-m", "sase_hf"]
