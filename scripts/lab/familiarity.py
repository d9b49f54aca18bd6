"""Measure how well `familiarity` tells other texts from those like the training texts.

Arguments are a checkpoint, a file of texts like its training texts, and files of other texts; of
each the first 1,000 are read, of pairs the first ones, and besides texts of random letters. The
record of the checkpoint holds for each the share of texts that are unlike, and the area under the
ROC curve.
"""

import random
import string
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from records import RECORDS, replace_record

from sase_hf import TextClassifier
from sase_hf.evaluation.records import describe_environment
from sase_hf.visualization.attended_text import UNLIKE

MOST = 1_000


def main(checkpoint: str, *files: str) -> None:
    """Measure a checkpoint, and write its record."""
    model = TextClassifier.from_pretrained(checkpoint)
    letters = random.Random(0).choices(string.ascii_lowercase + "     ", k=50 * MOST)
    texts = {"letters": ["".join(letters[row::MOST]) for row in range(MOST)]}
    for file in files:  # of pairs the first texts
        texts[file] = pd.read_json(file, lines=True).iloc[:MOST, 0].tolist()
    found = {file: model.familiarity(some) for file, some in texts.items()}
    own = found[files[0]][:, None]
    measured = {
        Path(file).name: [(values < UNLIKE).mean(), (1 + np.sign(own - values).mean()) / 2]
        for file, values in found.items()
    }
    record = {"run": Path(checkpoint).name, **measured, **describe_environment()}
    replace_record(RECORDS / "familiarity.jsonl", record)


if __name__ == "__main__":
    main(*sys.argv[1:])
