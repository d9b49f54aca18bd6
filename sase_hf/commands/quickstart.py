"""Train a model on a synthetic corpus, print its accuracy and draw its attention, in a minute.

    sase_hf quickstart

The command writes a synthetic corpus, trains on it as sase_hf train does, and compares the model
on held-out rows with two baselines. Then a fresh process without `sase_hf` loads the checkpoint and
reads the attention. For sentence pairs instead of reviews, which takes twice as long:

    sase_hf quickstart --task pairs --output_dir runs/quickstart-pairs

--seed is that of the corpus, too. All other flags are those of sase_hf train; they override the
recipe.
"""

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from ..data.arguments import SPLITS
from ..data.splits import Rows
from ..tasks import LabelTask
from ..training import AnyTask, run
from ..training.command_line import flag_names, parse_arguments
from ..utils.cli import errors_in_one_line, make_parser
from ..utils.files import is_inside
from ..utils.text import table_lines
from ..visualization import attention_html, attention_text
from ..visualization.attended_text import Result
from .synthetic import write_corpus

SETTINGS = Path(__file__).parent / "synthetic"
NUM_SHOWN = 10

# A fresh interpreter runs this: the checkpoint brings all the code that it needs.
STRANGER = """
import json, pathlib, sys
sys.modules["sase_hf"] = None  # an import of it now fails as if it were not installed
from transformers import pipeline
read = pipeline("self-attention", model=sys.argv[1], trust_remote_code=True)
pathlib.Path(sys.argv[2]).write_text(json.dumps(read(json.load(sys.stdin))))
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Write the corpus, train, compare and draw; print the results and where the files are."""
    parser = make_parser(__doc__)
    add, tasks = parser.add_argument, ["reviews", "pairs"]
    add("--task", choices=tasks, default="reviews", help="what to train on")
    add("--output_dir", type=Path, default=Path("runs/quickstart"), help="the folder to write")
    add("--seed", type=int, default=0, help="seed of the corpus and the training")
    arguments, training_flags = parser.parse_known_args(argv)
    corpus = arguments.output_dir / "corpus"
    checkpoint = arguments.output_dir / "model"
    heatmap = arguments.output_dir / "attention.html"
    words = [str(SETTINGS / f"{arguments.task}.yaml"), f"--seed={arguments.seed}"]
    given = flag_names(training_flags)
    for split in SPLITS:
        if f"{split}_file" not in given:
            words.append(f"--{split}_file={corpus / f'{arguments.task}.{split}.jsonl'}")
    words += [f"--output_dir={checkpoint}", "--report", *training_flags]
    with errors_in_one_line(__file__):
        task = parse_arguments(LabelTask, words)
        check_inputs(task, arguments.output_dir, corpus)
        clear(arguments.output_dir)
        logging.basicConfig(format="%(message)s")
        logging.getLogger("sase_hf.training").setLevel(logging.INFO)
        torch.set_num_threads(1)  # on such small matrices, sharing the work costs more than it
        write_corpus(corpus, arguments.seed)
        outcome = run(task)
    results = results_of_a_stranger(checkpoint, task.load_rows())
    title = f"Synthetic {arguments.task}: where the model looks"
    heatmap.write_text(attention_html(results, title), encoding="utf-8")

    print(*table_lines(outcome["report"][0]), "", sep="\n")
    print(*example(results), "", sep="\n")
    print(f"checkpoint  {os.path.relpath(checkpoint)}")
    print(f"heatmap     {os.path.relpath(heatmap)}")


def check_inputs(task: AnyTask, folder: Path, corpus: Path) -> None:
    """Raise ValueError if a file that a flag names would be deleted with an earlier quickstart."""
    for name, values in task.inputs().items():
        for value in values:
            if is_inside(value, folder) and Path(value).parent != corpus:
                raise ValueError(
                    f"--{name} {value} is in {folder}, which is written anew; name another "
                    "--output_dir"
                )


def clear(folder: Path) -> None:
    """Remove an earlier quickstart; raise ValueError if the folder holds other files."""
    found = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    readme = folder / "corpus" / "README.md"
    is_ours = readme.is_file() and "synthetic" in readme.read_text(encoding="utf-8")
    if found and not (is_ours and found <= {"corpus", "model", "attention.html"}):
        raise ValueError(f"--output_dir {folder} holds other files; name a new or empty folder")
    shutil.rmtree(folder, ignore_errors=not found)


def results_of_a_stranger(checkpoint: Path, task: Rows) -> list[Result]:
    """Let a process that cannot import sase_hf load the checkpoint and read some test rows."""
    rows = task.splits["test"].to_list()[:NUM_SHOWN]
    names = [task.label_names[row.pop("label")] for row in rows]
    with tempfile.TemporaryDirectory() as elsewhere:
        output = Path(elsewhere, "results.json")
        command = [sys.executable, "-I", "-c", STRANGER, str(checkpoint.resolve()), str(output)]
        offline = {"HF_HOME": elsewhere, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
        environment = os.environ | offline
        subprocess.run(
            command, input=json.dumps(rows), cwd=elsewhere, env=environment, text=True, check=True
        )
        results = json.loads(output.read_text(encoding="utf-8"))
    return [{**result, "true_label": name} for result, name in zip(results, names, strict=True)]


def example(results: Sequence[Result]) -> Iterator[str]:
    """Yield the longest of the texts, its strongest words and the prediction."""
    result = max(results, key=lambda result: len("".join(result["text"])))
    texts = result["text"] if isinstance(result["text"], list) else [result["text"]]
    for text in texts:
        yield f'"{text}"'
    for line in attention_text(result, color=False).splitlines():
        yield f"  {line}"
    yield f"  predicted: {result['label']} ({result['score']:.0%}); true: {result['true_label']}"
