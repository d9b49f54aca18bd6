"""Measure how well `familiarity` tells other texts from those like the training texts.

    python scripts/lab/familiarity.py runs/trec data/trec.dev.jsonl.gz data/sst2.dev.jsonl.gz

The first file has texts like the training texts, the others have not; of each the first 1,000 are
read, and besides texts of random letters. The record of the checkpoint holds for each of them the
share of texts that are unlike, and the area under the ROC curve.
"""

import random
import string
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from records import RECORDS, replace_record

from sase_hf import TextClassifier
from sase_hf.visualization.attended_text import UNLIKE

MOST = 1_000
LENGTH = 50  # characters of a text of random letters


def main(checkpoint: str, own: str, *others: str) -> None:
    """Measure a checkpoint, and write its record."""
    model = TextClassifier.from_pretrained(checkpoint)
    letters = random.Random(0).choices(string.ascii_lowercase + " " * 5, k=MOST * LENGTH)
    found = {"letters": model.familiarity(["".join(letters[row::MOST]) for row in range(MOST)])}
    for file in (own, *others):
        texts = pd.read_json(file, lines=True).iloc[:MOST, 0]  # of pairs the first ones
        found[Path(file).name] = model.familiarity(texts.tolist())
    familiar = found[Path(own).name][:, None]
    record: dict[str, object] = {"run": Path(checkpoint).name}
    for name, values in found.items():
        area = (1 + np.sign(familiar - values).mean()) / 2
        record[name] = {"unlike": (values < UNLIKE).mean(), "auroc": area}
    replace_record(RECORDS / "familiarity.jsonl", record)


if __name__ == "__main__":
    main(*sys.argv[1:])
