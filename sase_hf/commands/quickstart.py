"""Train a model on a synthetic corpus, print its accuracy and draw its attention, in a minute.

    sase_hf quickstart

The command writes a corpus that a grammar made and no person wrote, trains on it as sase_hf train
does, compares the model on held-out rows with two baselines, and reads its attention. For sentence
pairs instead of reviews, which takes twice as long:

    sase_hf quickstart --task pairs --output_dir runs/quickstart-pairs

All other flags are those of sase_hf train, but for files and models; they override the recipe.
"""

import gzip
import logging
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent

import torch

from ..data.arguments import SPLITS
from ..tasks import LabelTask
from ..training import run
from ..training.command_line import parse_arguments
from ..utils.cli import errors_in_one_line, make_parser
from ..utils.errors import refusal
from ..utils.loading import load_pipeline
from ..utils.text import table_lines
from ..visualization import attention_html, attention_text
from ..visualization.attended_text import Result
from .training_frame import program

CORPUS = Path(__file__).parent / "synthetic"  # its rows, and a recipe for each task
NUM_SHOWN = 10


def main(argv: Sequence[str] | None = None) -> None:
    """Write the corpus, train, compare and draw; print the results and where the files are."""
    parser = make_parser(__doc__)
    add, tasks = parser.add_argument, ["reviews", "pairs"]
    add("--task", choices=tasks, default="reviews", help="what to train on")
    add("--output_dir", type=Path, default=Path("runs/quickstart"), help="the folder to write")
    arguments, training_flags = parser.parse_known_args(argv)
    folder, name = arguments.output_dir, arguments.task
    checkpoint, heatmap = folder / "model", folder / "attention.html"
    files = [folder / f"corpus/{name}.{split}.jsonl" for split in SPLITS]
    words = [f"{CORPUS}/{name}.yaml", "--seed=0", "--report", f"--output_dir={checkpoint}"]
    words += map("--{}_file={}".format, SPLITS, files)
    with errors_in_one_line(__file__):
        task = parse_arguments(LabelTask, words + training_flags)
        if [path for _, path in task.settings.inputs()] != [*map(str, files)]:
            raise refusal("quickstart takes no other files or models", "give them to sase_hf train")
        write_corpus(folder, files)
        logging.basicConfig(format="%(message)s")
        logging.getLogger("sase_hf.training").setLevel(logging.INFO)
        torch.set_num_threads(1)  # on such small matrices, sharing the work costs more than it
        outcome = run(task)
    rows = task.load_rows()
    shown = rows.splits["test"].to_list()[:NUM_SHOWN]
    labels = [rows.label_names[row.pop("label")] for row in shown]
    results = load_pipeline(str(checkpoint))(shown)
    for result, label in zip(results, labels, strict=True):
        result["true_label"] = label
    attention = attention_html(results, f"Synthetic {name}: where the model looks")
    heatmap.write_text(attention, encoding="utf-8")

    accuracies = next(table for table in outcome["report"] if table.title.startswith("Results"))
    print(*table_lines(accuracies), "", *example(results), "", sep="\n")
    page = f"{os.path.relpath(folder)}.html"
    print(f"open {heatmap.resolve().as_uri()}")
    print(shlex.join([*program(), "export", os.path.relpath(checkpoint), page]))
    print(shlex.join([*program(), "train", "--train_file", "YOUR_FILE.csv"]))


def write_corpus(folder: Path, files: Sequence[Path]) -> None:
    """Write files of the corpus into a folder, in the place of an earlier quickstart.

    Raises ValueError if the folder holds other files.
    """
    found = {*folder.glob("*"), *folder.glob("corpus/*")}
    ours = {*files, folder / "corpus", folder / "model", folder / "attention.html"}
    if found and not {*files} <= found <= ours:
        raise refusal(f"--output_dir {folder} holds other files", "name a new or empty folder")
    shutil.rmtree(folder, ignore_errors=not found)
    (folder / "corpus").mkdir(parents=True)
    for file in files:
        file.write_bytes(gzip.decompress((CORPUS / f"{file.name}.gz").read_bytes()))


def example(results: Sequence[Result]) -> Iterator[str]:
    """Yield the longest of the texts, the answer and why."""
    result = max(results, key=lambda result: len("".join(result["text"])))
    texts = result["text"] if isinstance(result["text"], list) else [result["text"]]
    yield from map('"{}"'.format, texts)
    yield indent(attention_text(result), "  ")
