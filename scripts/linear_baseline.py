"""The accuracy of a linear model: logistic regression on TF-IDF of words and pairs of words.

It reads the rows of a recipe and ignores the other settings; texts are not cut:

    python scripts/linear_baseline.py scripts/recipes/yelp5.yaml --record linear.json

The strength of the regularisation is the best of four on the validation rows, so the accuracy is
slightly too high. Premise and hypothesis of a pair have separate features. Needs scikit-learn:
pip install 'sase_hf[baselines]'
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from transformers.utils import logging

from sase_hf.data.labels import SINGLE_LABEL
from sase_hf.data.task import TaskData
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.setup import load_rows
from sase_hf.utils.cli import errors_in_one_line, make_parser
from sase_hf.utils.files import check_output

STRENGTHS = (0.3, 1.0, 3.0, 10.0)


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, choose, print the accuracies and write the record."""
    parser = make_parser(__doc__)
    parser.add_argument("recipe", help="the recipe whose rows are read")
    parser.add_argument("--record", type=Path, help="file for the JSON record")
    flags = parser.parse_args(argv)
    start = time.perf_counter()
    with errors_in_one_line(__file__):
        check_output(flags.record)
        model_args, data_args, _ = parse_arguments([flags.recipe])
        task = load_rows(model_args, data_args)
        accuracies, num_features = measure(task)
    for strength, accuracy in accuracies.items():
        print(f"C = {strength:<6}accuracy {accuracy:.4f}")
    best = max(accuracies, key=accuracies.__getitem__)
    record = measured_record(
        name="linear",
        metrics={"accuracy": accuracies[best]},
        split="validation",
        sources=task.sources,
        seed=0,
        arguments={"recipe": flags.recipe},
        config={"features": "TF-IDF of 1 and 2 words", "C": best, "tried": list(accuracies)},
        num_parameters=num_features * len(task.label_names),
        wall_seconds=time.perf_counter() - start,
    )
    if flags.record is not None:
        write_record(record, flags.record)


def measure(task: TaskData) -> tuple[dict[float, float], int]:
    """Return the validation accuracy of each strength, and the number of features."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as reason:
        raise ImportError("needs scikit-learn: pip install 'sase_hf[baselines]'") from reason
    if task.problem_type != SINGLE_LABEL:
        raise ValueError(f"the task is {task.problem_type}; this script fits one label per row")
    if not {"train", "validation"} <= task.splits.keys():
        raise ValueError("the recipe needs training and validation rows")
    train, validation = features(task.splits["train"], task.splits["validation"])
    labels = {name: np.asarray(task.splits[name]["label"][:]) for name in ("train", "validation")}
    accuracies = {}
    for strength in logging.tqdm(STRENGTHS, desc="Fitting"):
        model = LogisticRegression(C=strength, max_iter=1000).fit(train, labels["train"])
        accuracies[strength] = float(model.score(validation, labels["validation"]))
    return accuracies, train.shape[1]


def features(train: Dataset, validation: Dataset) -> tuple[Any, Any]:
    """Return sparse TF-IDF matrices of both splits; each column of texts has its own features."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    sides = []
    for column in ("text", "text_pair"):
        if column in train.column_names:
            words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
            fitted = words.fit_transform(train[column][:])
            sides.append((fitted, words.transform(validation[column][:])))
    fitted, transformed = zip(*sides, strict=True)
    return hstack(fitted, format="csr"), hstack(transformed, format="csr")


if __name__ == "__main__":
    main()
