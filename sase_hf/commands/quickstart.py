"""Train a model on a synthetic corpus, in a minute, and show its accuracy and its reasons.

    sase_hf quickstart

The command writes a corpus that a grammar made and no person wrote, and trains on it as sase_hf
train does. The report compares the model with simple ones on held-out rows, and shows what it read.
For sentence pairs instead of reviews, which takes twice as long:

    sase_hf quickstart --task pairs --output_dir runs/quickstart-pairs

All other flags are those of sase_hf train; they override the recipe. A second quickstart in the
same folder goes on from where the first one ended.
"""

import gzip
from collections.abc import Sequence
from pathlib import Path

import torch

from ..data.columns import SPLITS
from ..utils.cli import errors_in_one_line, make_parser
from ..utils.files import write_text
from . import train

CORPUS = Path(__file__).parent / "synthetic"  # its rows, and a recipe for each task


def main(argv: Sequence[str] | None = None) -> None:
    """Write the corpus and train; print the results and where the files are."""
    parser = make_parser(__doc__)
    add, tasks = parser.add_argument, ["reviews", "pairs"]
    add("--task", choices=tasks, default="reviews", help="what to train on")
    add("--output_dir", type=Path, default=Path("runs/quickstart"), help="the folder to write")
    arguments, training_flags = parser.parse_known_args(argv)
    folder, name = arguments.output_dir, arguments.task
    words = [f"{CORPUS}/{name}.yaml", "--seed=0", "--report", f"--output_dir={folder}/model"]
    words.append("--resume_from_checkpoint=auto")
    with errors_in_one_line(__file__):
        for split in SPLITS:
            file = folder / "corpus" / f"{name}.{split}.jsonl"
            packed = CORPUS / f"{file.name}.gz"
            write_text(file, gzip.decompress(packed.read_bytes()).decode())
            words.append(f"--{split}_file={file}")
    torch.set_num_threads(1)  # on such small matrices, sharing the work costs more than it
    train.main(words + training_flags)
