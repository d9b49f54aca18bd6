"""The accuracy of a linear model: logistic regression on TF-IDF of words and pairs of words.

It reads the rows of a recipe and ignores the other settings; texts are not cut:

    python scripts/linear_baseline.py scripts/recipes/yelp5.yaml --record linear.json

The strength of the regularisation is the best of four on the validation rows, so the accuracy is
slightly too high. Of a pair it reads the hypothesis, and the words that only the hypothesis, both,
and only the premise have. Needs scikit-learn: pip install 'sase_hf[baselines]'
"""

import time
from collections.abc import Sequence
from pathlib import Path

from comparing.linear import STRENGTHS, LinearModel, fit_linear
from transformers.utils import logging

from sase_hf.data.labels import SINGLE_LABEL
from sase_hf.data.splits import TaskData
from sase_hf.evaluation.records import measured_record, write_record
from sase_hf.training.command_line import parse_arguments
from sase_hf.training.setup import load_rows
from sase_hf.utils.cli import errors_in_one_line, make_parser
from sase_hf.utils.files import check_output


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
        model = measure(task)
    accuracies = model.accuracies
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
        num_parameters=model.classifier.n_features_in_ * len(task.label_names),
        wall_seconds=time.perf_counter() - start,
    )
    if flags.record is not None:
        write_record(record, flags.record)


def measure(task: TaskData) -> LinearModel:
    """Fit on the training rows and return the model with its validation accuracies."""
    if task.problem_type != SINGLE_LABEL:
        raise ValueError(f"the task is {task.problem_type}; this script fits one label per row")
    if not {"train", "validation"} <= task.splits.keys():
        raise ValueError("the recipe needs training and validation rows")
    train, validation = task.splits["train"], task.splits["validation"]
    names = [name for name in ("text", "text_pair") if name in train.column_names]
    return fit_linear(
        [train[name][:] for name in names],
        train["label"][:],
        [validation[name][:] for name in names],
        validation["label"][:],
        logging.tqdm(STRENGTHS, desc="Fitting"),
    )


if __name__ == "__main__":
    main()
